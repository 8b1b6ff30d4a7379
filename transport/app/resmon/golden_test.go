package resmon

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"berth/transport/app"
	"berth/transport/app/resmontest"

	"github.com/rogpeppe/go-internal/txtar"
)

func pretty(t *testing.T, text string) string {
	t.Helper()
	var out bytes.Buffer
	if err := json.Indent(&out, []byte(text), "", " "); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return out.String() + "\n"
}

// scene is one call of a transcript, with what resmon is made to do.
type scene struct {
	name      string
	arguments string
	before    func(*rig)
}

func faulty(f resmontest.Fault, s resmontest.Scope) func(*rig) {
	return func(r *rig) { r.fake.Inject(f, s) }
}

// refusals are what any tool can be refused with.
var refusals = []struct {
	name   string
	before func(*rig)
}{
	{"not running", func(r *rig) { _ = r.fake.SetPortFile(resmontest.FileStale) }},
	{"not named", func(r *rig) { _ = r.fake.SetPortFile(resmontest.FileMissing) }},
	{"no token", func(r *rig) { _ = r.fake.SetTokenFile(resmontest.FileMissing) }},
	{"token of another run", func(r *rig) { _ = r.fake.SetTokenFile(resmontest.FileStale) }},
	{"dropped", faulty(resmontest.DropBefore(), resmontest.Scope{Skip: 1, Times: 1})},
	{"404", faulty(resmontest.Plain(404, "No such thing."), resmontest.Scope{Skip: 1})},
	{"route missing", faulty(resmontest.RouteMissing(), resmontest.Scope{Skip: 1})},
	{"409", faulty(resmontest.Plain(409, "Not now."), resmontest.Scope{Skip: 1})},
	{"422", faulty(resmontest.List422("MARK"), resmontest.Scope{Skip: 1})},
	{"500", faulty(resmontest.Status(500), resmontest.Scope{Skip: 1})},
	{"no JSON", faulty(resmontest.NotJSON(), resmontest.Scope{Skip: 1})},
}

// more are scenes beside the calls of every and the refusals above.
var more = map[string][]scene{
	"health":                {{"another process", `{"expected_runtime_id":"` + foreign + `"}`, nil}, {"malformed", `{"expected_runtime_id":""}`, nil}},
	"get_execution":         {{"another process", `{"exec_id":5,"expected_runtime_id":"` + foreign + `"}`, nil}, {"interrupted", `{"exec_id":8}`, nil}, {"no id", `{}`, nil}},
	"search_corpus":         {{"semantic", `{"query":"graph","mode":"semantic","limit":2}`, nil}, {"declined", `{"query":"graph","mode":"semantic","limit":2}`, faulty(resmontest.DeclineSemantic("No embedding model is configured."), resmontest.Scope{})}, {"offset", `{"query":"x","offset":0}`, nil}, {"bad cursor", `{"query":"x","cursor":"x"}`, nil}, {"no query", `{"query":""}`, nil}},
	"find_similar":          {{"nothing", `{"doc_id":1}`, faulty(resmontest.EmptySimilar("This paper is not embedded."), resmontest.Scope{})}},
	"list_sources":          {{"keys unknown", `{}`, faulty(resmontest.Status(500), resmontest.Scope{Template: "/api/credentials"})}},
	"get_routine":           {{"without its audit", `{"routine_id":3}`, faulty(resmontest.Status(500), resmontest.Scope{Template: "/api/routines/{routine_id}/coverage"})}},
	"list_executions":       {{"filtered", `{"status":"interrupted","limit":2}`, nil}},
	"get_analytics":         {{"window", `{"view":"volume","window":"30d"}`, nil}, {"no such view", `{"view":"x"}`, nil}},
	"get_watchdog_findings": {{"muted too", `{"include_muted":true}`, nil}},
	"export_references":     {{"json", `{"doc_ids":[1],"format":"json"}`, nil}, {"both", `{"exec_id":1,"doc_ids":[1]}`, nil}, {"unknown ids", `{"doc_ids":[999]}`, nil}},
	"get_profile_matches":   {{"none", `{"profile_id":4}`, nil}},
	"run_sweep":             {{"a bare string", `{"query":"x","sources":"arxiv"}`, nil}, {"took effect", `{"query":"x","sources":["arxiv"]}`, faulty(resmontest.DropAfterWrite(), resmontest.Scope{Method: "POST"})}},
	"run_routine":           {{"running", `{"routine_id":1}`, faulty(resmontest.RunConflict(7), resmontest.Scope{Method: "POST"})}, {"queue full", `{"routine_id":1}`, faulty(resmontest.QueueFull(), resmontest.Scope{Method: "POST"})}, {"queued", `{"routine_id":1}`, faulty(resmontest.Queued(2, ""), resmontest.Scope{Method: "POST"})}},
	"create_routine":        {{"bad entity", `{"name":"n","keywords":["a"],"sources":["arxiv"],"schedule":"0 8 * * *","entity":{"profile_id":3,"mode":"new_papers"}}`, nil}, {"warned", `{"name":"n","keywords":["a"],"sources":["arxiv"],"schedule":"0 8 * * *","entity":{"profile_id":1,"mode":"new_papers"}}`, nil}, {"active", `{"name":"n","keywords":["a"],"sources":["arxiv"],"schedule":"0 8 * * *","is_active":true}`, nil}},
	"create_watch_profile":  {{"with an ORCID", `{"name":"Jane Doe","orcid":"0000-0002-1825-0097"}`, nil}},
	"update_settings": {{"credential", `{"group":"ai","settings":{"api_key":"x"}}`, nil}, {"withheld", `{"group":"ai","settings":{"ai_cli_path":"x"}}`, nil}, {"unknown", `{"group":"assistant","settings":{"nonsense":"x"}}`, nil}, {"no group", `{"group":"execution","settings":{"x":"1"}}`, nil},
		{"no boolean", `{"group":"notifications","settings":{"notify_manual":"yes"}}`, nil}, {"not read again", `{"group":"ai","settings":{"ai_model":"z"}}`, faulty(resmontest.Status(503), resmontest.Scope{Method: "GET", Template: "/api/settings/ai", Skip: 1})}},
}

// TestTranscripts writes down, for each tool, what a caller gets: its answers
// and each refusal.
func TestTranscripts(t *testing.T) {
	for _, tool := range Surface().Tools {
		if tool.Internal {
			continue
		}
		t.Run(tool.Name, func(t *testing.T) {
			t.Parallel()
			var scenes []scene
			for _, c := range every {
				if c[0] == tool.Name {
					scenes = append(scenes, scene{"answer", c[1], nil})
				}
			}
			scenes = append(scenes, more[tool.Name]...)
			first := scenes[0].arguments
			for _, f := range refusals {
				scenes = append(scenes, scene{f.name, first, f.before})
			}
			ar := new(txtar.Archive)
			for i, s := range scenes {
				ar.Files = append(ar.Files, txtar.File{Name: fmt.Sprintf("%02d %s", i+1, s.name), Data: []byte(play(t, tool.Name, s))})
			}
			golden(t, filepath.Join("testdata", tool.Name+".txtar"), string(txtar.Format(ar)))
		})
	}
}

// play gives one scene on an instance of its own.
func play(t *testing.T, name string, s scene) string {
	t.Helper()
	at := time.Date(2026, 10, 1, 9, 0, 0, 0, time.UTC)
	fake := resmontest.Run(t, resmontest.Options{Data: resmontest.Small, Now: func() time.Time { return at }})
	r := reach(t, fake, app.Options{Env: fake.Env()})
	if s.before != nil {
		s.before(r)
	}
	a := r.call(name, s.arguments)
	fake.Clear()
	kind := "result"
	if a.isError {
		kind = "error"
	}
	asked := ""
	for _, q := range r.sent() {
		asked += "sent: " + q + "\n"
	}
	return r.plain(fmt.Sprintf("call: %s %s\n%s%s: %s", name, s.arguments, asked, kind, pretty(t, a.text)))
}

var aPort = regexp.MustCompile(`127\.0\.0\.1:\d{4,5}`)

// plain puts names in the place of what differs from run to run.
func (r *rig) plain(text string) string {
	text = strings.ReplaceAll(text, r.fake.RuntimeID(), "RUNTIME")
	text = strings.ReplaceAll(text, r.fake.StateDir(), "STATE")
	text = strings.ReplaceAll(text, filepath.Dir(r.fake.PortFile()), "DATA")
	return aPort.ReplaceAllString(text, "127.0.0.1:PORT")
}

func TestThePageExplainsEveryDetailOfARefusal(t *testing.T) {
	page, err := os.ReadFile(userPage)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, f := range files {
		ar, err := txtar.ParseFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, scene := range ar.Files {
			_, text, refused := strings.Cut(string(scene.Data), "\nerror: ")
			var r refusal
			if refused && json.Unmarshal([]byte(text), &r) != nil {
				t.Fatalf("%s, %s: no refusal", f, scene.Name)
			}
			for key := range r.Detail {
				if !seen[key] && !strings.Contains(string(page), "`"+key+"`") && !strings.Contains(string(page), "`"+key+": ") {
					t.Errorf("%s, %s: the page does not explain %s", f, scene.Name, key)
				}
				seen[key] = true
			}
		}
	}
	if len(seen) < 20 {
		t.Errorf("only %d details were seen", len(seen))
	}
}

func TestNoTranscriptIsLeftOver(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if _, ok := Surface().Tool(strings.TrimSuffix(filepath.Base(f), ".txtar")); !ok {
			t.Errorf("%s is of no tool", f)
		}
		raw, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range []string{resmontest.Planted, "MARK"} {
			if bytes.Contains(raw, []byte(secret)) {
				t.Errorf("%s holds %q", f, secret)
			}
		}
	}
}
