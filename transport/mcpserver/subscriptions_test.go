package mcpserver

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/actors"
	"berth/broker"
	"berth/broker/catalog"
)

// listenSource is a backend that tells of everything.
func listenSource(tools ...broker.Tool) catalog.Source {
	s := fsSource()
	s.Tools = append(s.Tools, tools...)
	s.Server.Capabilities = json.RawMessage(`{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true}}`)
	return s
}

// hears is a front and one stream of subscriptions/listen.
type hears struct {
	*front
	t      *testing.T
	caps   string // what the client declares; empty: nothing
	leave  context.CancelFunc
	began  time.Time
	mu     sync.Mutex
	lines  []string // of data, with the seconds since the stream began
	status int
	ended  chan struct{}
}

func (h *hears) listen(profile, notifications string) {
	h.t.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":"sub","method":"subscriptions/listen","params":{"notifications":%s,"_meta":{%q:"2026-07-28",%q:%s}}}`,
		notifications, metaVersion, metaCapabilities, cmp.Or(h.caps, "{}"))
	ctx, leave := context.WithCancel(context.Background())
	h.leave = leave
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1:7420/mcp/"+profile, strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	for name, value := range map[string]string{"Authorization": "Bearer " + testToken, headerVersion: "2026-07-28", headerMethod: "subscriptions/listen"} {
		req.Header.Set(name, value)
	}
	h.began = time.Now()
	resp, err := h.client.Do(req)
	if err != nil {
		h.t.Fatal(err)
	}
	h.status = resp.StatusCode
	go func() {
		defer close(h.ended)
		defer resp.Body.Close()
		in := bufio.NewScanner(resp.Body)
		for in.Scan() {
			text, ok := strings.CutPrefix(in.Text(), "data: ")
			if !ok && !strings.HasPrefix(text, "{") {
				continue
			}
			h.mu.Lock()
			h.lines = append(h.lines, fmt.Sprintf("%.2f %s", time.Since(h.began).Seconds(), text))
			h.mu.Unlock()
		}
	}()
	synctest.Wait()
}

func (h *hears) take() []string {
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	out := h.lines
	h.lines = nil
	return out
}

func (h *hears) expect(what string, want ...string) {
	h.t.Helper()
	if got := h.take(); !slices.Equal(got, want) {
		h.t.Errorf("%s:\ngot  %s\nwant %s", what, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
}

func inListen(t *testing.T, b func(*fakeBroker) Broker, test func(*hears)) {
	synctest.Test(t, func(t *testing.T) {
		fake := newFakeBroker(t)
		fake.set(t, nativeSource(), listenSource(), longSource())
		h := &hears{t: t, ended: make(chan struct{})}
		h.front = serve(t, fake, func(o *Options) {
			if b != nil {
				o.Broker = b(fake)
			}
		})
		test(h)
		if h.leave != nil {
			h.leave()
			<-h.ended
		}
		h.front.stop()
		synctest.Wait()
	})
}

const subMark = `"_meta":{"io.modelcontextprotocol/subscriptionId":"sub"}`

func note(at, method, params string) string {
	return fmt.Sprintf(`%s {"jsonrpc":"2.0","method":"notifications/%s","params":%s}`, at, method, params)
}

func TestListenTellsWhatWasAgreedFirst(t *testing.T) {
	for _, tt := range []struct{ name, profile, asked, agreed string }{
		{"everything", "fs", `{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["b://","a://","a://"],"own":1}`,
			`{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["a://","b://"]}`},
		{"some", "fs", `{"toolsListChanged":false,"promptsListChanged":true}`, `{"promptsListChanged":true}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inListen(t, nil, func(h *hears) {
				h.listen(tt.profile, tt.asked)
				h.expect("the beginning", note("0.00", "subscriptions/acknowledged", `{`+subMark+`,"notifications":`+tt.agreed+`}`))
			})
		})
	}
	t.Run("nothing", func(t *testing.T) {
		inListen(t, nil, func(h *hears) {
			h.listen("berth", `{"promptsListChanged":true,"resourceSubscriptions":["a://"]}`)
			h.expect("the whole stream", note("0.00", "subscriptions/acknowledged", `{`+subMark+`,"notifications":{}}`),
				`0.00 {"jsonrpc":"2.0","id":"sub","result":{"resultType":"complete",`+subMark+`}}`)
		})
	})
}

func TestListenTellsOfListsThatDiffer(t *testing.T) {
	inListen(t, nil, func(h *hears) {
		h.listen("fs", `{"toolsListChanged":true}`)
		h.take()
		h.broker.publish(actors.Notice{Method: actors.CatalogChanged})
		h.broker.publish(actors.Notice{Backend: "fs", Method: promptsChanged})
		elapse(time.Second)
		h.expect("the same list and a change that was not asked for")
		for i := range 3 { // a burst
			h.broker.set(t, nativeSource(), listenSource(tool(fmt.Sprint("more", i), "")))
			h.broker.publish(actors.Notice{Method: actors.CatalogChanged})
		}
		elapse(time.Second)
		h.expect("another list", note("1.25", "tools/list_changed", `{`+subMark+`}`))
		h.broker.set(t, nativeSource(), listenSource(tool("soon", "")))
		h.broker.publish(actors.Notice{Method: actors.CatalogChanged})
		elapse(time.Second)
		h.expect("not yet: the last time was less than two seconds ago")
		elapse(time.Second)
		h.expect("another one", note("3.25", "tools/list_changed", `{`+subMark+`}`))
		elapse(time.Minute)
		h.expect("nothing more")
	})
}

func TestListenCarriesWhatWasAskedFor(t *testing.T) {
	inListen(t, nil, func(h *hears) {
		h.listen("fs", `{"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["a://"]}`)
		h.take()
		for _, n := range []actors.Notice{
			{Backend: "fs", Method: resourceUpdated, Params: json.RawMessage(`{"uri":"a://","x":1.0,"_meta":{"own":true}}`)},
			{Backend: "fs", Method: resourceUpdated, Params: json.RawMessage(`{"uri":"b://"}`)},
			{Backend: "other", Method: resourceUpdated, Params: json.RawMessage(`{"uri":"a://"}`)},
			{Backend: "fs", Session: "ses_1", Method: resourceUpdated, Params: json.RawMessage(`{"uri":"a://"}`)},
			{Backend: "fs", Method: logMessage, Params: json.RawMessage(`{"level":"error","data":1}`)},
			{Backend: "fs", Method: actors.TaskChanged, Params: json.RawMessage(`{"taskId":"t"}`)},
			{Backend: "fs", Method: promptsChanged},
			{Backend: "fs", Method: resourcesChanged, Params: json.RawMessage(`[]`)},
		} {
			h.broker.publish(n)
		}
		elapse(time.Second)
		h.expect("what was asked for",
			note("0.00", "resources/updated", `{"uri":"a://","x":1.0,"_meta":{"own":true,"io.modelcontextprotocol/subscriptionId":"sub"}}`),
			note("0.25", "prompts/list_changed", `{`+subMark+`}`),
			note("0.25", "resources/list_changed", `{`+subMark+`}`))
	})
}

func TestListenEndsWithAResultWhenTheBrokerStops(t *testing.T) {
	inListen(t, nil, func(h *hears) {
		h.listen("fs", `{"toolsListChanged":true}`)
		h.take()
		elapse(time.Minute)
		if open := h.Drain(context.Background()); open != 0 {
			t.Errorf("%d are open", open)
		}
		<-h.ended
		h.expect("the end", `60.00 {"jsonrpc":"2.0","id":"sub","result":{"resultType":"complete",`+subMark+`}}`)
	})
}

// forgetting notes who was forgotten, and is slow to subscribe.
type forgetting struct {
	*fakeBroker
	forgotten chan string
	delay     time.Duration
}

func (f *forgetting) Forget(holder string) { f.forgotten <- holder }

func (f *forgetting) Subscribe(ctx context.Context, holder, uri string, req actors.Request) actors.Reply {
	select {
	case <-time.After(f.delay):
		return f.fakeBroker.Subscribe(ctx, holder, uri, req)
	case <-ctx.Done():
		return actors.Reply{Cancelled: true}
	}
}

func TestListenForgetsWhoLeaves(t *testing.T) {
	var b *forgetting
	inListen(t, func(fake *fakeBroker) Broker {
		b = &forgetting{fakeBroker: fake, forgotten: make(chan string, 1)}
		return b
	}, func(h *hears) {
		h.listen("fs", `{"resourceSubscriptions":["a://"]}`)
		h.leave()
		<-h.ended
		if holder := <-b.forgotten; !b.Subscribed("fs", "a://", holder) {
			t.Errorf("%q held no subscription", holder)
		}
	})
}

func TestListenBeginsWithoutABackendThatDoesNotAnswer(t *testing.T) {
	inListen(t, func(fake *fakeBroker) Broker {
		return &forgetting{fakeBroker: fake, forgotten: make(chan string, 1), delay: 6 * time.Second}
	}, func(h *hears) {
		h.listen("fs", `{"resourceSubscriptions":["a://","b://","c://"]}`)
		elapse(time.Minute)
		h.expect("the beginning", note("10.00", "subscriptions/acknowledged", `{`+subMark+`,"notifications":{"resourceSubscriptions":["a://"]}}`))
	})
}

func TestListenRefusesWhatItCannotRead(t *testing.T) {
	for _, asked := range []string{`[]`, `{"toolsListChanged":"yes"}`, `{"resourceSubscriptions":"a://"}`, `{"resourceSubscriptions":[1]}`,
		`{"taskIds":{}}`, `{"resourceSubscriptions":["` + strings.Repeat(`","`, maxListenURIs) + `"]}`} {
		inListen(t, nil, func(h *hears) {
			h.listen("fs", asked)
			if strings.Contains(asked, `","`) { // many times one URI is one
				if h.status != http.StatusOK {
					t.Errorf("%d", h.status)
				}
				return
			}
			if h.status != http.StatusBadRequest {
				t.Errorf("%s: %d %q", asked, h.status, h.take())
			}
		})
	}
}
