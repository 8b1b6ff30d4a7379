package mcpserver

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"berth/broker"
	"berth/broker/catalog"
)

// documentedNative has a verb with a documented name, one with an older one
// besides, and one that never had the prefix.
func documentedNative() catalog.Source {
	n := nativeSource()
	for _, name := range []string{"inbox", "update_release"} {
		n.Tools = append(n.Tools, broker.Tool{Name: name, Raw: json.RawMessage(`{"name":"` + name + `","description":"Does it.","inputSchema":{"type":"object"}}`)})
		n.Effects[name], n.Handlers = broker.Read, append(slices.Clone(n.Handlers), name)
	}
	n.Aliases = map[string]string{"armada_job_status": "job_status", "armada_update_release": "update_release", "armada_update_deployment": "update_release"}
	return n
}

func TestTheArmadaProfileHasTheDocumentedNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBroker(t)
		b.set(t, documentedNative(), fsSource())
		f := serve(t, b, nil)
		defer f.stop()
		_, text := f.askedAt(t, "/mcp/armada", listing)
		if got := namesIn(t, text); !slices.Equal(got, []string{"armada_job_status", "armada_update_release", "inbox"}) {
			t.Errorf("%v", got)
		}
		if !strings.Contains(text, `"readOnlyHint":true`) || strings.Contains(text, "[list head") {
			t.Errorf("%s", text)
		}
		for _, path := range []string{"/mcp/berth", "/mcp"} {
			_, text := f.askedAt(t, path, listing)
			for _, name := range namesIn(t, text) {
				if strings.HasPrefix(name, "armada_") {
					t.Errorf("%s lists %s", path, name)
				}
			}
		}
		call := func(path, name string) string {
			_, text := f.askedAt(t, path, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+name+`","arguments":{"jobId":"job_1"}}}`)
			return text
		}
		for _, name := range []string{"armada_job_status", "armada_update_release", "armada_update_deployment", "inbox"} {
			if text := call("/mcp/armada", name); strings.Contains(text, "Tool not found") {
				t.Errorf("%s: %s", name, text)
			}
		}
		for name, want := range map[string]string{"job_status": "-32602", "find": "-32602", "fs__echo": "-32602", "berth__inbox": "-32602"} {
			if text := call("/mcp/armada", name); !strings.Contains(text, want) || !strings.Contains(text, "Tool not found: "+name) {
				t.Errorf("%s: %s", name, text)
			}
		}
		// The alias is resolved once, first thing: what runs has the canonical name.
		if text := call("/mcp", "armada_job_status"); strings.Contains(text, "Tool not found") {
			t.Errorf("%s", text)
		}
		for _, r := range b.requests {
			if strings.HasPrefix(r.Call.Verb, "armada_") || strings.Contains(string(r.Call.Params), "armada_") {
				t.Errorf("%s %s", r.Call.Verb, r.Call.Params)
			}
		}
		if len(b.requests) != 5 {
			t.Errorf("%d calls came through", len(b.requests))
		}
	})
}

// TestWhereNothingIsPushed: /rpc and the profile armada answer POST only, in
// one piece, and claim no notification.
func TestWhereNothingIsPushed(t *testing.T) {
	for path, tools := range map[string]string{"/rpc": "fs__echo", "/mcp/armada": "armada_job_status"} {
		t.Run(path, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newFakeBroker(t)
				b.set(t, documentedNative(), fsSource())
				f := serve(t, b, nil)
				defer f.stop()
				for _, method := range []string{http.MethodGet, http.MethodDelete} {
					req, err := http.NewRequestWithContext(t.Context(), method, "http://127.0.0.1:7420"+path, nil)
					if err != nil {
						t.Fatal(err)
					}
					req.Header.Set("Authorization", "Bearer "+testToken)
					req.Header.Set("Accept", "text/event-stream")
					resp, err := f.client.Do(req)
					if err != nil {
						t.Fatal(err)
					}
					if text := readAll(t, resp); resp.StatusCode != 405 || resp.Header.Get("Allow") != "POST" {
						t.Errorf("%s: %d %s", method, resp.StatusCode, text)
					}
				}
				_, hello := f.askedAt(t, path, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
				if !strings.Contains(hello, `"serverInfo":{"name":"berth"`) || strings.Contains(hello, "listChanged") || strings.Contains(hello, "subscribe") {
					t.Errorf("%s", hello)
				}
				for _, params := range []string{"", `,"params":{}`} { // absent and empty are the same
					if status, text := f.askedAt(t, path, `{"jsonrpc":"2.0","id":1,"method":"tools/list"`+params+`}`); status != 200 || !strings.Contains(text, tools) {
						t.Errorf("%d %s", status, text)
					}
				}
				for _, method := range []string{"logging/setLevel", "resources/subscribe", "nothing/else"} {
					if _, text := f.askedAt(t, path, `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{}}`); !strings.Contains(text, "-32601") {
						t.Errorf("%s: %s", method, text)
					}
				}
			})
		})
	}
}

// TestAClientOfRPCNeverGetsAStream has a call that waits and a client that
// would take one.
func TestAClientOfRPCNeverGetsAStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := serve(t, newFakeBroker(t), nil)
		defer f.stop()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1:7420/rpc",
			strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"fs__slow","arguments":{},"_meta":{"progressToken":1}}}`))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{"Authorization": "Bearer " + testToken, "Accept": "text/event-stream", "Content-Type": "application/json", headerSession: "unknown"} {
			req.Header.Set(name, value)
		}
		resp, err := f.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if text := readAll(t, resp); resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "application/json" || !strings.Contains(text, `"result"`) {
			t.Errorf("%d %s %s", resp.StatusCode, resp.Header.Get("Content-Type"), text)
		}
	})
}
