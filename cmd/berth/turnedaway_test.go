package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

func TestACallThatABackendTurnsAwayIsSentOnceAndNotCalledUnchanged(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			t.Parallel()
			var sent atomic.Int64
			upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var m struct {
					ID     json.RawMessage
					Method string
				}
				_ = json.NewDecoder(r.Body).Decode(&m) // a DELETE has none
				result := `{"tools":[{"name":"go","inputSchema":{"type":"object"}}]}`
				w.Header().Set("Content-Type", "application/json")
				switch {
				case m.ID == nil:
					w.WriteHeader(http.StatusAccepted)
					return
				case m.Method == "tools/call":
					sent.Add(1)
					w.WriteHeader(status)
					return
				case m.Method == "initialize":
					w.Header().Set("Mcp-Session-Id", "s")
					result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}`
				}
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
			}))
			defer upstream.Close()
			h := newHouse(t)
			h.configure(map[string]any{"mcpServers": map[string]any{"up": map[string]any{"url": upstream.URL}}})
			must(t, h.start())
			w := newWire(h, "turned-away")
			r, err := w.call(t.Context(), "up__go", map[string]any{}, "")
			must(t, err)
			if r.Code != "backend_refused" || !r.IsError || strings.Contains(r.Text, "nothing was changed") ||
				!strings.Contains(r.Text, fmt.Sprintf(`"http_status":%d`, status)) || !strings.Contains(r.Text, `"outcome_unknown":true`) {
				t.Errorf("the call got %s", r.Text)
			}
			if n := sent.Load(); n != 1 {
				t.Errorf("the call was sent %d times", n)
			}
		})
	}
}
