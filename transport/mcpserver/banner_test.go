package mcpserver

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/broker"
	"berth/broker/catalog"
	"berth/broker/native"
	"berth/broker/native/board"
)

// notices has a banner for one participant, at once, late or never.
type notices struct {
	mu    sync.Mutex
	asked []string
	wait  chan struct{} // nil: at once
	fail  error
}

func (n *notices) Banner(who broker.Principal, participant, verb string) (string, error) {
	n.mu.Lock()
	n.asked = append(n.asked, who.Key()+" "+participant)
	wait := n.wait
	n.mu.Unlock()
	if wait != nil {
		<-wait
	}
	if participant != "lane-a" {
		return "", n.fail
	}
	return "[ARMADA WAKE] one; " + verb, n.fail
}

// boardSource is the board as the catalog has it; nobody answers it here.
func boardSource() catalog.Source {
	s := board.NewFamily(board.New(board.Options{}), native.Options{Now: time.Now}).Source()
	n := nativeSource()
	n.Tools = append(n.Tools, s.Tools...)
	for name, effects := range s.Effects {
		n.Effects[name] = effects
	}
	n.Facts, n.Conditional = s.Facts, s.Conditional
	n.Aliases, n.Handlers = s.Aliases, append(s.Handlers, "job_status")
	return n
}

func (f *front) send(t *testing.T, path, body string, headers ...string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1:7420"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+testToken)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	resp, err := f.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func toolCallOf(name, arguments string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + name + `","arguments":` + arguments + `}}`
}

const header = broker.ParticipantHeader

func withBoard(t *testing.T, wakes Wakes, run func(t *testing.T, f *front)) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBroker(t)
		b.set(t, boardSource(), fsSource())
		f := serve(t, b, func(o *Options) { o.Wakes = wakes })
		defer f.stop()
		run(t, f)
	})
}

func TestABannerStandsOnTheResultOfAnyVerb(t *testing.T) {
	const plain = `{"content":[{"type":"text","text":"x"}],"structuredContent":{"n":1.0},"isError":false}`
	for _, tt := range []struct {
		name, path, call string
		headers          []string
		banner           bool
	}{
		{"a foreign verb", "/mcp", toolCallOf("fs__echo", `{"result":`+plain+`}`), []string{header, "lane-a"}, true},
		{"an error of a foreign verb", "/mcp", toolCallOf("fs__fail", `{}`), []string{header, "lane-a"}, true},
		{"a refusal", "/mcp", toolCallOf("fs__shed", `{}`), []string{header, "lane-a"}, true},
		{"arguments that do not fit", "/mcp", toolCallOf("fs__add", `{}`), []string{header, "lane-a"}, true},
		{"a job", "/mcp", toolCallOf("fs__job", `{}`), []string{header, "lane-a"}, true},
		{"a native verb", "/mcp", toolCallOf("job_status", `{"jobId":"j"}`), []string{header, "lane-a"}, true},
		{"a native verb by its own profile", "/mcp/berth", toolCallOf("job_status", `{"jobId":"j"}`), []string{header, "lane-a"}, true},
		{"another board verb", "/mcp", toolCallOf("agentwake_status", `{}`), []string{header, "lane-a"}, true},
		{"a session that only reads", "/mcp", toolCallOf("job_status", `{"jobId":"j"}`), []string{header, "lane-a", headerReadOnly, "1"}, true},

		{"without sessions", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"fs__fail","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`,
			[]string{header, "lane-a", "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "fs__fail"}, true},

		{"a read of the board", "/mcp", toolCallOf("coordination_read", `{}`), []string{header, "lane-a"}, false},
		{"a read by its other name", "/mcp", toolCallOf("armada_coordination_read", `{}`), []string{header, "lane-a"}, false},
		{"a heartbeat", "/mcp", toolCallOf("coordination_heartbeat", `{"participantKey":"lane-a","displayName":"a"}`), []string{header, "lane-a"}, false},
		{"an error of the protocol", "/mcp", toolCallOf("fs__rpcerror", `{}`), []string{header, "lane-a"}, false},
		{"an unknown name", "/mcp", toolCallOf("nothing", `{}`), []string{header, "lane-a"}, false},
		{"what is no call", "/mcp", listing, []string{header, "lane-a"}, false},
		{"an exact profile of a backend", "/mcp/fs", toolCallOf("echo", `{"result":`+plain+`}`), []string{header, "lane-a"}, false},
		{"nobody", "/mcp", toolCallOf("fs__echo", `{}`), nil, false},
		{"a participant without wakes", "/mcp", toolCallOf("fs__echo", `{}`), []string{header, "lane-b"}, false},
		{"a key of another shape", "/mcp", toolCallOf("fs__echo", `{}`), []string{header, "lane a<b>"}, false},
		{"a key that is too long", "/mcp", toolCallOf("fs__echo", `{}`), []string{header, strings.Repeat("k", 129)}, false},
		{"two keys", "/mcp", toolCallOf("fs__echo", `{}`), []string{header, "lane-a", header, "lane-b"}, false},
		{"a result without content", "/mcp", toolCallOf("fs__echo", `{"result":{"x":1}}`), []string{header, "lane-a"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			withBoard(t, &notices{}, func(t *testing.T, f *front) {
				got := f.send(t, tt.path, tt.call, tt.headers...)
				if strings.Contains(got, "ARMADA WAKE") != tt.banner {
					t.Errorf("got %s", got)
				}
				if strings.Contains(got, "lane a") || strings.Contains(got, strings.Repeat("k", 129)) {
					t.Errorf("the header is echoed: %s", got)
				}
				if !tt.banner {
					return
				}
				var response struct {
					Result struct {
						Content []struct{ Type, Text string }
					}
				}
				if err := json.Unmarshal([]byte(got), &response); err != nil {
					t.Fatal(err)
				}
				last := response.Result.Content[len(response.Result.Content)-1]
				if last.Type != "text" || last.Text != "[ARMADA WAKE] one; mark_signal_read" {
					t.Errorf("the last block: %+v", last)
				}
				without := f.send(t, tt.path, tt.call, append(tt.headers[2:len(tt.headers):len(tt.headers)], header, "lane-b")...)
				if plainly := stripCallID(strings.Replace(got, `{"type":"text","text":"[ARMADA WAKE] one; mark_signal_read"}`, "", 1)); strings.ReplaceAll(plainly, ",]", "]") != stripCallID(without) {
					t.Errorf("more than a block was added:\n%s\n%s", plainly, without)
				}
			})
		})
	}
}

// stripCallID leaves what two answers to the same call have in common.
func stripCallID(text string) string {
	before, rest, ok := strings.Cut(text, "call_00000000_")
	if !ok {
		return text
	}
	return before + strings.TrimLeft(rest, "0123456789")
}

func TestABannerThatCannotBeHadCostsNothingElse(t *testing.T) {
	for name, wakes := range map[string]*notices{"fails": {fail: errors.New("the journal is gone")}, "hangs": {wait: make(chan struct{})}} {
		t.Run(name, func(t *testing.T) {
			withBoard(t, wakes, func(t *testing.T, f *front) {
				if wakes.wait != nil {
					wakes.wait = make(chan struct{}) // of this bubble
				}
				for range maxLookups + 3 { // more than may hang at once
					began := time.Now()
					got := f.send(t, "/mcp", toolCallOf("fs__echo", `{}`), header, "lane-a")
					if !strings.Contains(got, `"result"`) || strings.Contains(got, "ARMADA") || time.Since(began) > bannerWait {
						t.Fatalf("after %v: %s", time.Since(began), got)
					}
				}
				wakes.mu.Lock()
				asked, want := len(wakes.asked), maxLookups+3
				wakes.mu.Unlock()
				if wakes.wait != nil {
					want = maxLookups
					close(wakes.wait)
					synctest.Wait()
				}
				if asked != want {
					t.Errorf("asked %d times, want %d", asked, want)
				}
			})
		})
	}
}

func TestAKeyReachesTheBrokersOwnVerbs(t *testing.T) {
	withBoard(t, &notices{}, func(t *testing.T, f *front) {
		f.send(t, "/mcp", toolCallOf("fs__echo", `{}`), header, "lane-a")
		f.send(t, "/mcp", toolCallOf("fs__echo", `{}`), header, "lane a")
		f.broker.mu.Lock()
		defer f.broker.mu.Unlock()
		if got := f.broker.requests; len(got) != 2 || got[0].Call.Origin.Participant != "lane-a" || got[1].Call.Origin.Participant != "" {
			t.Errorf("%+v", got)
		}
	})
}

// Whoever is shown a banner can end it, and only who sends a key.
func TestAParticipantMayAcknowledge(t *testing.T) {
	withBoard(t, &notices{}, func(t *testing.T, f *front) {
		ask := func(headers ...string) []string {
			req := append([]string{"Authorization", "Bearer other"}, headers...)
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1:7420/mcp", strings.NewReader(listing))
			if err != nil {
				t.Fatal(err)
			}
			for i := 0; i < len(req); i += 2 {
				r.Header.Set(req[i], req[i+1])
			}
			resp, err := f.client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, _ := io.ReadAll(resp.Body)
			var board []string
			for _, name := range namesIn(t, string(body)) {
				if name != "job_status" && !strings.HasPrefix(name, "fs__") {
					board = append(board, name)
				}
			}
			return board
		}
		if got := ask(); len(got) != 0 {
			t.Errorf("a user without a key is listed %v", got)
		}
		if got := ask(header, "lane-a"); strings.Join(got, " ") != "mark_signal_read" {
			t.Errorf("a user with a key is listed %v", got)
		}
	})
}

func TestTheBridgeForwardsItsKey(t *testing.T) {
	h := http.Header{}
	(&bridge{Bridge: Bridge{Participant: "lane-a"}}).scope(h)
	if h.Get(header) != "lane-a" {
		t.Errorf("%v", h)
	}
	h = http.Header{}
	(&bridge{}).scope(h)
	if len(h) != 0 {
		t.Errorf("%v", h)
	}
}
