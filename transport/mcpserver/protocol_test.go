package mcpserver

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"golang.org/x/tools/txtar"

	"berth/actors"
	"berth/transport/jsonrpc"
)

// docs/protocol.md says in tables what becomes of each method in each era. They
// are held here against the code, and against the transcripts: what exists in
// an era has a transcript of it, and what does not has one of its refusal.

// said is one row of a table.
type said struct {
	names []string // with their forms: "elicitation/create (url)"
	cells []string // the columns behind the names
}

var inTicks = regexp.MustCompile("`([^`]+)`(?: \\(([^)]+)\\))?")

// tableOf reads the first table under a heading of docs/protocol.md, without
// the rows that name nothing.
func tableOf(t *testing.T, heading string) []said {
	t.Helper()
	page, err := os.ReadFile("../../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("docs/protocol.md has no %q", heading)
	}
	var rows []said
	for line := range strings.Lines(rest) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			if len(rows) > 0 {
				break
			}
			continue
		}
		columns := strings.Split(strings.Trim(line, "|"), "|")
		for i := range columns {
			columns[i] = strings.TrimSpace(columns[i])
		}
		var names []string
		for _, m := range inTicks.FindAllStringSubmatch(columns[0], -1) {
			if m[2] == "" {
				names = append(names, m[1])
				continue
			}
			for form := range strings.SplitSeq(m[2], ", ") {
				names = append(names, m[1]+" ("+form+")")
			}
		}
		if names != nil {
			rows = append(rows, said{names, columns[1:]})
		}
	}
	return rows
}

// The requests and notifications of 2025-11-25 and 2026-07-28, the extension
// for tasks included.
var (
	clientRequests = strings.Fields(`completion/complete initialize logging/setLevel ping prompts/get prompts/list
		resources/list resources/read resources/subscribe resources/templates/list resources/unsubscribe server/discover
		subscriptions/listen tasks/cancel tasks/get tasks/list tasks/result tasks/update tools/call tools/list`)
	serverRequests = strings.Fields(`elicitation/create ping roots/list sampling/createMessage`)
	notifications  = strings.Fields(`notifications/cancelled notifications/elicitation/complete notifications/initialized notifications/message
		notifications/progress notifications/prompts/list_changed notifications/resources/list_changed notifications/resources/updated
		notifications/roots/list_changed notifications/subscriptions/acknowledged notifications/tasks notifications/tasks/status
		notifications/tools/list_changed`)
)

func TestTheTablesNameEveryMethodOnce(t *testing.T) {
	for heading, want := range map[string][]string{
		"Requests of a client": clientRequests, "What a backend asks": serverRequests, "Notifications": notifications,
	} {
		var got []string
		seen := map[string]bool{}
		for _, row := range tableOf(t, heading) {
			for _, name := range row.names {
				key := name
				if heading == "Notifications" {
					key = row.cells[0] + " " + name // some are sent by both sides
				}
				if seen[key] {
					t.Errorf("%s: %s stands there twice", heading, key)
				}
				seen[key] = true
				method, _, _ := strings.Cut(name, " ")
				got = append(got, method)
			}
		}
		slices.Sort(got)
		if got = slices.Compact(got); !slices.Equal(got, want) {
			t.Errorf("%s:\ngot  %q\nwant %q", heading, got, want)
		}
	}
}

// TestTheCodeServesNoMethodThatTheTableDoesNotName goes through the tables of
// the code.
func TestTheCodeServesNoMethodThatTheTableDoesNotName(t *testing.T) {
	var served []string
	for _, e := range []era{handshake, stateless} {
		for method := range e.requests {
			served = append(served, method)
		}
	}
	for method := range mergedMethods {
		served = append(served, method)
	}
	for _, table := range []map[string]bool{gone, ours, sessionMethods, readMethods, multiRound, cacheable} {
		for method := range table {
			served = append(served, method)
		}
	}
	for method := range named {
		served = append(served, method)
	}
	for _, method := range served {
		if !slices.Contains(clientRequests, method) {
			t.Errorf("%s is in no table of docs/protocol.md", method)
		}
	}
	for _, method := range []string{toolsChanged, promptsChanged, resourcesChanged, resourceUpdated, logMessage, elicitationDone, acknowledged, actors.TaskChanged, legacyTaskChanged} {
		if !slices.Contains(notifications, method) {
			t.Errorf("%s is in no table of docs/protocol.md", method)
		}
	}
}

// sights are what the transcripts show, each with the first file that does.
// What is shown is an era and one of: "answer M" and "refusal M" of a client's
// request, "asks M" of a question of a backend's, "tells M" of a client's
// notification, "told M" of one to it.
type sights map[string]string

func (all sights) see(e *era, file, what, method string) {
	key := eraName(e) + " " + what + " " + method
	if all[key] == "" {
		all[key] = file
	}
}

func eraName(e *era) string {
	if e == &stateless {
		return "stateless"
	}
	return "handshake"
}

func seen(t *testing.T) sights {
	t.Helper()
	all := sights{}
	for _, pattern := range []string{"testdata/*/*.txtar", "testdata/*/*/*.txtar"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatal("no transcripts", err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			v := viewer{all: all, file: file, asked: map[string]string{}, eras: map[string]*era{}}
			for _, section := range txtar.Parse(data).Files {
				v.section(section.Name, string(section.Data))
			}
		}
	}
	return all
}

// viewer reads one transcript.
type viewer struct {
	all   sights
	file  string
	asked map[string]string // method, by number of the request and raw id
	eras  map[string]*era   // by number of the request
	line  *era              // of the lines' client
}

func (v *viewer) section(name, data string) {
	verb, rest, _ := strings.Cut(name, " ")
	n, line, _ := strings.Cut(rest, " ")
	switch verb {
	case ">", ">&":
		head, body, _ := strings.Cut(data, "\n\n")
		v.eras[n] = &handshake
		if strings.Contains(strings.ToLower(head), "mcp-protocol-version: 2026-07-28") {
			v.eras[n] = &stateless
		}
		if strings.HasPrefix(data, "\n") {
			body = data[1:]
		}
		if strings.HasPrefix(line, "POST") {
			v.fromClient(n, v.eras[n], body)
		}
	case "<", "<&":
		for line := range strings.Lines(data) {
			_, message, ok := strings.Cut(line, "] data: ")
			if !ok && strings.HasPrefix(line, "{") {
				message = line
			}
			v.toClient(n, v.eras[n], message)
		}
	case "in":
		for line := range strings.Lines(data) {
			e := &handshake
			if strings.Contains(line, metaVersion) {
				e = &stateless
			}
			if msg, err := jsonrpc.Decode([]byte(line)); err == nil && msg.Kind == jsonrpc.Request {
				v.line = e
			}
			v.fromClient("", v.line, line)
		}
	case "out":
		for line := range strings.Lines(data) {
			_, message, _ := strings.Cut(line, "] ")
			v.toClient("", v.line, message)
		}
	}
}

func (v *viewer) fromClient(n string, e *era, body string) {
	msg, err := jsonrpc.Decode([]byte(body))
	switch {
	case err != nil:
	case msg.Kind == jsonrpc.Request:
		v.asked[n+" "+string(msg.ID)] = msg.Method
	case msg.Kind == jsonrpc.Notification:
		v.all.see(e, v.file, "tells", msg.Method)
	}
}

func (v *viewer) toClient(n string, e *era, message string) {
	msg, err := jsonrpc.Decode([]byte(message))
	if err != nil {
		return // a line of HTTP, or an answer that is no JSON-RPC
	}
	switch msg.Kind {
	case jsonrpc.Notification:
		v.all.see(e, v.file, "told", msg.Method)
	case jsonrpc.Request:
		v.question(e, msg.Method, msg.Params)
	default:
		v.response(e, v.asked[n+" "+string(msg.ID)], msg)
	}
}

func (v *viewer) response(e *era, method string, msg jsonrpc.Message) {
	if msg.Error != nil {
		var problem struct {
			Code int `json:"code"`
		}
		if json.Unmarshal(msg.Error, &problem) == nil && problem.Code == jsonrpc.CodeMethodNotFound {
			v.all.see(e, v.file, "refusal", method)
		}
		return
	}
	v.all.see(e, v.file, "answer", method)
	var result struct {
		Questions map[string]struct {
			Method string          `json:"method"`
			Params json.RawMessage `json:"params"`
		} `json:"inputRequests"`
	}
	if json.Unmarshal(msg.Result, &result) != nil {
		return
	}
	for _, q := range result.Questions {
		v.question(e, q.Method, q.Params)
	}
}

// question notes what a client is asked, with the form of what has forms.
func (v *viewer) question(e *era, method string, params json.RawMessage) {
	if method == "elicitation/create" {
		mode, ok := textOf(params, "mode")
		if !ok {
			mode = "form"
		}
		method += " (" + mode + ")"
	}
	v.all.see(e, v.file, "asks", method)
}

// TestEveryMethodHasATranscriptInEachEraThatHasIt compares what the tables say
// with what the transcripts show, in both directions.
func TestEveryMethodHasATranscriptInEachEraThatHasIt(t *testing.T) {
	all := seen(t)
	check := func(e *era, is bool, what, method string) {
		t.Helper()
		key := eraName(e) + " " + what + " " + method
		switch {
		case is && all[key] == "":
			t.Errorf("no transcript shows: %s", key)
		case !is && all[key] != "":
			t.Errorf("%s shows what the tables deny: %s", all[key], key)
		}
	}
	eras := []*era{&handshake, &stateless}
	for _, row := range tableOf(t, "Requests of a client") {
		for i, e := range eras {
			served := !strings.HasPrefix(row.cells[i], "-32601")
			for _, method := range row.names {
				check(e, served, "answer", method)
				if !served {
					check(e, true, "refusal", method)
				}
			}
		}
	}
	for _, row := range tableOf(t, "What a backend asks") {
		for i, e := range eras {
			for _, method := range row.names {
				check(e, strings.HasPrefix(row.cells[i], "asked:"), "asks", method)
			}
		}
	}
	for _, row := range tableOf(t, "Notifications") {
		what := "told"
		if row.cells[0] == "client" {
			what = "tells"
		}
		for i, e := range eras {
			if cell := row.cells[i+1]; !strings.HasPrefix(cell, "yes") && cell != "no" {
				t.Errorf("%s: a cell says %q", row.names, cell)
			}
			for _, method := range row.names {
				check(e, strings.HasPrefix(row.cells[i+1], "yes"), what, method)
			}
		}
	}
}

// TestTheTableSaysWhoAnswers sends each request of a client to an exact profile
// and looks who was asked.
func TestTheTableSaysWhoAnswers(t *testing.T) {
	// Params that every method finds what it needs in.
	const members = `"name":"echo","uri":"a://","taskId":"job_none","level":"debug","notifications":{},"protocolVersion":"2025-11-25","ref":{"type":"ref/prompt","name":"p"}`
	const meta = `"_meta":{"` + metaVersion + `":"2026-07-28","` + metaCapabilities + `":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`
	answers := func(t *testing.T, f *front, e *era, method string) string {
		t.Helper()
		params := members
		if e == &stateless {
			params += "," + meta
		}
		body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + `}}`
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1:7420/mcp/fs", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+testToken)
		if e == &stateless {
			msg, err := jsonrpc.Decode([]byte(body))
			if err != nil {
				t.Fatal(err)
			}
			for name, values := range carriage(msg).header {
				req.Header[name] = values
			}
		} else {
			req.Header.Set(headerSession, f.token("fs", "c"))
		}
		resp, err := f.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text := readAll(t, resp)
		f.broker.mu.Lock()
		defer f.broker.mu.Unlock()
		asked := f.broker.requests
		f.broker.requests = nil
		switch {
		case len(asked) == 1 && asked[0].Call.Method == method:
			return "backend"
		case strings.Contains(text, `"code":-32601`):
			if e == &stateless && resp.StatusCode != http.StatusNotFound {
				t.Errorf("%s: status %d", method, resp.StatusCode)
			}
			return "-32601"
		}
		return "Berth"
	}
	synctest.Test(t, func(t *testing.T) {
		f := serve(t, newFakeBroker(t), nil)
		defer f.stop()
		for _, row := range tableOf(t, "Requests of a client") {
			for i, e := range []*era{&handshake, &stateless} {
				for _, method := range row.names {
					if got := answers(t, f, e, method); !strings.HasPrefix(row.cells[i], got) {
						t.Errorf("%s, %s: %s answers; the table says %q", method, eraName(e), got, row.cells[i])
					}
				}
			}
		}
	})
}
