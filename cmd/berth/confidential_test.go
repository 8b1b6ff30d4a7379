package main

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/transport/rest"
)

// mark is part of every configured text that nobody may see.
const mark = "arked"

// spiller is an MCP server that tells what it was configured with wherever it
// can: on standard error, in errors, in the version it speaks. Its first
// argument says when; it is too short to be hidden itself.
const spiller = `
mode=$1
shift
spill() { env >&2; printf 'started with %s\n' "$@" >&2; exit 3; }
all="$PLAIN and $QUOTED and $*"
all=$(printf '%s' "$all" | sed 's/"/\\"/g')
[ "$mode" = start ] && spill "$@"
while read -r line; do
	id=$(printf '%s' "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')
	answer() { printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$1"; }
	case $line in
	*'"method":"initialize"'*)
		version=2025-11-25
		[ "$mode" = vers ] && version=$all
		case $mode in
		init) answer "\"error\":{\"code\":-1,\"message\":\"$(printf '%190s' '')$all\"}" ;;
		*) answer "\"result\":{\"protocolVersion\":\"$version\",\"capabilities\":{\"tools\":{}},\"serverInfo\":{\"name\":\"s\",\"version\":\"1\"}}" ;;
		esac ;;
	*'"method":"tools/list"'*)
		[ "$mode" = list ] && answer "\"error\":{\"code\":-1,\"message\":\"$all\"}"
		[ "$mode" = call ] && answer '"result":{"tools":[{"name":"go","inputSchema":{"type":"object"}}]}' ;;
	*'"method":"tools/call"'*) spill "$@" ;;
	esac
done
`

// spillerEntry is a spiller as a backend.
func spillerEntry(script, mode string) map[string]any {
	return map[string]any{
		"command": "sh", "args": []string{script, mode, "--key=Marked-option words", "-pMarkedjoined", "Marked-argument words"},
		"env": map[string]string{
			"PLAIN": "Marked environment words", "QUOTED": `Marked "quoted" words`,
			"DSN": "db://Markeduser:Markedpass@host/name", "LINES": "Marked first line\nMarked second line",
		},
	}
}

// spillingServer is an MCP server over HTTP that does the same.
func spillingServer(t *testing.T) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		_ = json.NewDecoder(r.Body).Decode(&m) // a DELETE has none
		all := fmt.Sprintf("%s; %s; %s", r.Header.Get("Authorization"), r.Header.Get("X-Plain"), r.URL)
		message, _ := json.Marshal(strings.Repeat(" ", 190) + all)
		failed := fmt.Sprintf(`{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":%s}}`, message)
		mode, _, _ := strings.Cut(r.URL.Path[1:], "/")
		switch {
		case m.ID == nil:
			w.WriteHeader(http.StatusAccepted)
		case mode == "head" && m.Method == "tools/call":
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n"+all+"\r\n\r\n")
				_ = conn.Close()
			}
		case mode == "init" || m.Method == "tools/call":
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusInternalServerError)
			fmt.Fprint(w, failed)
		case m.Method == "initialize":
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}`, m.ID)
		default:
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"go","inputSchema":{"type":"object"}}]}}`, m.ID)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func TestNothingThatWasConfiguredIsShown(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	script := filepath.Join(h.dir, "spiller.sh")
	must(t, os.WriteFile(script, []byte(spiller), 0o600))
	upstream := spillingServer(t)
	entries := map[string]any{}
	for _, mode := range []string{"start", "init", "vers", "list", "call"} {
		entries["st-"+mode] = spillerEntry(script, mode)
	}
	for mode, base := range map[string]string{"init": upstream.URL, "call": upstream.URL, "head": upstream.URL, "dead": "http://127.0.0.1:1"} {
		entries["ht-"+mode] = map[string]any{"url": base + "/" + mode + "/Marked-path?k=Marked-query",
			"headers": map[string]string{"Authorization": "Bearer Marked-header", "X-Plain": "Marked header words"}}
	}
	entries["st-none"] = map[string]any{"command": filepath.Join(h.dir, "none"), "args": []string{"Marked-argument"}}
	h.configure(map[string]any{"mcpServers": entries, "berth": map[string]any{"log_level": "debug"}})
	must(t, h.start())

	seen := map[string]string{}
	w := newWire(h, "curious")
	tools, err := w.request(t.Context(), "tools/list", map[string]any{})
	seen["tools/list"] = fmt.Sprint(string(tools), err)
	jobs := []string{}
	for name := range entries {
		for _, key := range []string{"", "key-" + name} {
			params := map[string]any{"name": name + "__go", "arguments": map[string]any{}}
			if key != "" {
				params["_meta"] = map[string]any{"berth/idempotencyKey": key}
			}
			raw, err := w.request(t.Context(), "tools/call", params)
			seen["call of "+name+" "+key] = fmt.Sprint(string(raw), err)
			r, err := w.call(t.Context(), name+"__go", map[string]any{}, key)
			if err == nil && r.JobID != "" {
				jobs = append(jobs, r.JobID)
				end, err := w.follow(t.Context(), r.JobID)
				seen["job of "+name] = fmt.Sprintf("%+v %v", end, err)
			}
		}
	}
	if len(jobs) == 0 {
		t.Error("no call became a job")
	}
	for _, r := range rest.Routes() {
		paths := []string{r.Path}
		if strings.Contains(r.Path, "{id}") {
			paths = nil
			for _, id := range jobs {
				paths = append(paths, strings.ReplaceAll(r.Path, "{id}", id))
			}
		}
		for _, path := range paths {
			// What the stream gives the list of events gives too, and it does not end.
			if r.Method == http.MethodGet && !strings.HasSuffix(path, "/stream") {
				seen[path] = h.get(path)
			}
		}
	}
	for _, args := range [][]string{{"backends"}, {"backends", "--json"}, {"jobs", "list", "--json"}, {"sessions", "--json"}, {"call", "st-call__go", "--json"}} {
		_, out, errOut := h.berth(args...)
		seen["berth "+strings.Join(args, " ")] = out + errOut
	}
	must(t, h.broker.Stop())
	seen["the log"] = h.broker.Log()
	must(t, filepath.WalkDir(h.state, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		seen[path] = string(data)
		return err
	}))

	// What is hidden is nothing else than what was said: the causes are there.
	for what, want := range map[string]string{
		"call of st-call ": "started with ***", "call of ht-call ": "HTTP 500: ***",
		"/api/v1/backends": "initialize: the backend answered error -1: ***", "the log": "speaks protocol version",
	} {
		if !strings.Contains(strings.ReplaceAll(seen[what], strings.Repeat(" ", 190), ""), want) {
			t.Errorf("%s does not say %q: %s", what, want, seen[what])
		}
	}
	for what, text := range seen {
		if i := strings.Index(text, mark); i >= 0 {
			t.Errorf("%s shows …%s…", what, text[max(0, i-100):min(len(text), i+60)])
		}
	}
	if _, ok := seen[filepath.Join(h.state, journalFile)]; !ok {
		t.Error("the journal was not looked at")
	}
}

// get reads a path of the running broker as it stands.
func (h *house) get(path string) string {
	h.t.Helper()
	_, _, body := h.operator(http.MethodGet, path, "")
	return string(body)
}
