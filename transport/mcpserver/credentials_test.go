package mcpserver

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/broker"
	"berth/transport/httpguard"
)

// guardFor lets one caller in.
func guardFor(c broker.Caller) func(*Options) {
	return func(o *Options) {
		o.Guard = httpguard.New(httpguard.Options{Authenticate: func(_ httpguard.Kind, value string) (broker.Caller, bool) { return c, value == testToken }})
	}
}

// askedAt posts a message as the operator and gives status and answer.
func (f *front) askedAt(t *testing.T, path, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1:7420"+path, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+testToken)
	resp, err := f.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func TestACredentialNamesTheProfilesThatItAccepts(t *testing.T) {
	for name, tt := range map[string]struct {
		profiles   []string
		path       string
		status     int
		code, tool string // of the answer
	}{
		"any, none named":                    {nil, "/mcp", 200, "", "fs__echo"},
		"any, one named":                     {nil, "/mcp/fs", 200, "", `"echo"`},
		"any, one that is not there":         {nil, "/mcp/nope", 404, "profile_unknown", ""},
		"the first serves":                   {[]string{"fs", "full"}, "/mcp", 200, "", `"echo"`},
		"another that it names":              {[]string{"fs", "full"}, "/mcp/full", 200, "", "fs__echo"},
		"one that it does not name":          {[]string{"fs"}, "/mcp/full", 403, "profile_not_permitted", ""},
		"one that is not there nor named":    {[]string{"fs"}, "/mcp/nope", 403, "profile_not_permitted", ""},
		"its first is gone":                  {[]string{"gone", "fs"}, "/mcp", 403, "profile_unknown", ""},
		"its first is gone, another is used": {[]string{"gone", "fs"}, "/mcp/fs", 200, "", `"echo"`},
		"one that is gone is asked for":      {[]string{"gone"}, "/mcp/gone", 404, "profile_unknown", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := serve(t, newFakeBroker(t), guardFor(broker.Caller{Principal: broker.LocalOperator, Profiles: tt.profiles}))
				defer f.stop()
				status, text := f.askedAt(t, tt.path, listing)
				if status != tt.status || !strings.Contains(text, tt.tool) || (tt.code != "" && (!strings.Contains(text, `"Code":"`+tt.code+`"`) || strings.Contains(text, "tools"))) {
					t.Errorf("%d %.300s", status, text)
				}
			})
		})
	}
}

func TestACredentialThatOnlyReadsListsAndCallsNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBroker(t)
		f := serve(t, b, guardFor(broker.Caller{Principal: broker.LocalOperator, ReadOnly: true}))
		defer f.stop()
		if _, text := f.askedAt(t, "/mcp", listing); strings.Contains(text, "fs__echo") || !strings.Contains(text, "job_status") {
			t.Errorf("the list: %s", text)
		}
		if _, text := f.askedAt(t, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"fs__echo","arguments":{}}}`); !strings.Contains(text, "read_only_session") {
			t.Errorf("a call: %s", text)
		}
	})
}

func TestACallCarriesTheShareOfItsCredential(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBroker(t)
		share := broker.Share{Weight: 3, InFlight: 2}
		f := serve(t, b, guardFor(broker.Caller{Principal: broker.LocalOperator, Credential: "crd_1", Shares: map[string]broker.Share{"*": share}}))
		defer f.stop()
		f.askedAt(t, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"fs__echo","arguments":{}}}`)
		if len(b.requests) != 1 || b.requests[0].Call.Share == nil || *b.requests[0].Call.Share != (broker.CallShare{Holder: "crd_1", Share: share}) {
			t.Errorf("%+v", b.requests)
		}
	})
}

// TestWhatIsOpenEndsWithItsCredential opens each kind of request that stays
// open, revokes its credential, and looks when it ends and how.
func TestWhatIsOpenEndsWithItsCredential(t *testing.T) {
	stateless := strings.Replace(callHang, `"_meta":{`, `"_meta":{"`+metaVersion+`":"2026-07-28","`+metaCapabilities+`":{},`, 1)
	for name, tt := range map[string]struct {
		method, body string
		headers      []string
		says         string
	}{
		"GET":                  {http.MethodGet, "", []string{"Accept: text/event-stream"}, ""},
		"subscriptions/listen": {http.MethodPost, listenBody, []string{headerVersion + ": 2026-07-28", headerMethod + ": subscriptions/listen"}, `"resultType":"complete"`},
		"a call on a stream":   {http.MethodPost, callHang, []string{"Accept: text/event-stream"}, `\"code\":\"unauthorized\"`},
		"a call":               {http.MethodPost, callHang, nil, `\"code\":\"unauthorized\"`},
		"a stateless call":     {http.MethodPost, stateless, []string{headerVersion + ": 2026-07-28", headerMethod + ": tools/call", headerName + ": fs__hang"}, `\"code\":\"unauthorized\"`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				life, revoke := context.WithCancel(context.Background())
				f := serve(t, newFakeBroker(t), guardFor(broker.Caller{Principal: broker.LocalOperator, Life: life}))
				defer f.stop()
				conn := f.raw(t, tt.method, "/mcp", tt.body, append(tt.headers, headerSession+": "+f.token("", "c"), "Connection: close")...)
				defer conn.Close()
				text := make(chan string, 1)
				go func() {
					all, err := io.ReadAll(conn)
					if err != nil {
						t.Error(err)
					}
					text <- string(all)
				}()
				elapse(20 * time.Second) // signs of life come and it stays open
				select {
				case all := <-text:
					t.Fatalf("it ended by itself: %s", all)
				default:
				}
				began := time.Now()
				revoke()
				all := <-text
				if took := time.Since(began); took > time.Second {
					t.Errorf("it ended after %v", took)
				}
				if !strings.Contains(all, tt.says) {
					t.Errorf("it said %s", all)
				}
			})
		})
	}
}
