package meta

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/broker"
	"berth/broker/catalog"
	"berth/broker/catalog/catalogtest"
	"berth/broker/shape"
	"berth/broker/shape/o200k"
)

// rig is the family over a catalog.
type rig struct {
	t        *testing.T
	family   *Family
	snapshot *catalog.Snapshot
	conn     broker.Conn
	store    *shape.Store
	ledger   *Ledger
	profile  string
	limit    catalog.Limit
	now      time.Time
}

func newRig(t *testing.T, sources ...catalog.Source) *rig {
	t.Helper()
	r := &rig{t: t, store: shape.NewStore(shape.StoreOptions{}), ledger: NewLedger(), profile: catalog.Full, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	costs := shape.NewCosts(o200k.Counter{}, nil)
	r.family = New(Options{Version: "1", Started: r.now.Add(-time.Hour), Now: func() time.Time { return r.now }, Random: rand.Reader,
		Store: r.store, Counter: o200k.Counter{}, Costs: costs, Ledger: r.ledger, Tier: catalog.Essential})
	s, faults := catalog.Settings{Costs: costs}.Build(7, append([]catalog.Source{r.family.Source()}, sources...))
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	r.snapshot = s
	r.conn, _ = r.family.Open(t.Context(), nil)
	return r
}

func (r *rig) view() *catalog.Profile {
	p, ok := r.snapshot.Profile(r.profile)
	if !ok {
		r.t.Fatalf("no profile %q", r.profile)
	}
	return p.Limited(r.limit)
}

// call calls a verb of the family and reads its answer into out.
func (r *rig) call(verb, arguments string, out any) (isError bool) {
	r.t.Helper()
	answer, err := r.conn.Call(context.Background(), &broker.Call{Verb: verb, Principal: broker.LocalOperator,
		Params: json.RawMessage(`{"name":"` + verb + `","arguments":` + arguments + `}`), Origin: broker.Origin{Profile: r.view(), Holder: "ses"}}, broker.Peer{})
	if err != nil {
		r.t.Fatal(err)
	}
	var result struct {
		StructuredContent json.RawMessage
		Content           []struct{ Text string }
		IsError           bool
	}
	if err := json.Unmarshal(answer.Result, &result); err != nil || result.Content[0].Text != string(result.StructuredContent) {
		r.t.Fatalf("%v in %s", err, answer.Result)
	}
	if err := json.Unmarshal(result.StructuredContent, out); err != nil {
		r.t.Fatal(err)
	}
	return result.IsError
}

func upstream(backend string, rules catalog.Rules, tools ...string) catalog.Source {
	s := catalog.Source{Backend: backend, Listed: true, Rules: rules}
	for _, name := range tools {
		s.Tools = append(s.Tools, broker.Tool{Name: name, Raw: json.RawMessage(`{"name":"` + name + `","description":"About ` + name + `.","inputSchema":{"type":"object","properties":{"path":{"type":"string","description":"Where."},"n":{"type":"integer"}},"required":["path"]}}`)})
	}
	return s
}

func generated(n int) (out []catalog.Source) {
	for _, l := range catalogtest.Generate(n) {
		out = append(out, catalog.Source{Backend: l.Backend, Listed: true, Tools: l.Tools})
	}
	return out
}

func TestTheMetaVerbsCostLittle(t *testing.T) {
	r := newRig(t)
	tokens := 0
	for _, name := range []string{Find, Describe, CallRead, CallWrite, Help, Handshake, More} {
		v, ok := r.view().Resolve(name)
		if !ok || v.Family != catalog.FamilyCatalog {
			t.Fatalf("%s: %+v", name, v)
		}
		n := o200k.Counter{}.Count(string(v.Listed)).Tokens
		t.Logf("%s: %d", name, n)
		tokens += n
	}
	if tokens >= 1200 {
		t.Errorf("the seven meta-verbs cost %d tokens, and may cost 1,200", tokens)
	}
}

func TestTheFamilyStandsInNoExactProfile(t *testing.T) {
	r := newRig(t, upstream("fs", catalog.Rules{}, "read"))
	for _, name := range []string{catalog.NativeName, "fs"} {
		p, _ := r.snapshot.Profile(name)
		for _, rec := range records {
			if _, ok := p.Resolve(rec.name); ok {
				t.Errorf("%s has %s", name, rec.name)
			}
		}
	}
	if p, _ := r.snapshot.Profile(catalog.Essential); p.Len() != len(records) {
		t.Errorf("the essential list has %d of %d", p.Len(), len(records))
	}
}

type findAnswer struct {
	Matches []struct {
		Name, Summary, Visibility, Via, Availability string
		Effects                                      []string
		InputSchema                                  json.RawMessage `json:"input_schema"`
		Tokens                                       *int
		MinimalCall                                  json.RawMessage `json:"minimal_call"`
	}
	Total      int
	NextCursor *string `json:"next_cursor"`
	Catalog    string
}

func TestFindPagesThroughAllNamesInOrder(t *testing.T) {
	r := newRig(t, generated(200)...)
	r.profile = catalog.Essential
	var names []string
	for cursor, pages := "", 0; ; pages++ {
		var got findAnswer
		r.call(Find, fmt.Sprintf(`{"query":"","k":50,"detail":"name","cursor":%q}`, cursor), &got)
		for _, m := range got.Matches {
			names = append(names, m.Name)
		}
		if got.NextCursor == nil {
			if got.Total != len(names) || got.Catalog != r.view().Fingerprint() {
				t.Errorf("%d of %d", len(names), got.Total)
			}
			break
		}
		if cursor = *got.NextCursor; pages > 100 {
			t.Fatal("no end")
		}
	}
	if len(names) != r.view().Reachable() || !slices.IsSorted(names) {
		t.Errorf("%d names of %d, sorted %v", len(names), r.view().Reachable(), slices.IsSorted(names))
	}
}

func TestFindRefusesAFilterByWhichNothingIsFound(t *testing.T) {
	r := newRig(t, upstream("files", catalog.Rules{}, "read_file"))
	for _, tt := range []struct{ arguments, path, names string }{
		{`{"query":"","backend":"fils"}`, "/backend", "berth, files"},
		{`{"query":"read","family":"nobody"}`, "/family", "catalog, files, health"},
	} {
		var out struct {
			Code       string
			Violations []struct{ Path, Problem string }
		}
		if !r.call(Find, tt.arguments, &out) || out.Code != "invalid_arguments" || len(out.Violations) != 1 || out.Violations[0].Path != tt.path || !strings.HasSuffix(out.Violations[0].Problem, tt.names) {
			t.Errorf("%s: %+v", tt.arguments, out)
		}
	}
	var out struct{ Total int }
	if r.call(Find, `{"query":"","backend":"files","family":"files"}`, &out); out.Total != 1 {
		t.Errorf("found %d", out.Total)
	}
}

func TestFindSaysHowAVerbIsReached(t *testing.T) {
	r := newRig(t, upstream("fs", catalog.Rules{Effects: []catalog.EffectRule{{Verb: "read_file", Is: broker.Read}}}, "read_file", "write_file"))
	r.profile = catalog.Essential
	var got findAnswer
	r.call(Find, `{"query":"file","detail":"schema"}`, &got)
	via := map[string]string{}
	for _, m := range got.Matches {
		via[m.Name] = m.Via + " " + m.Visibility
		if m.Tokens == nil || *m.Tokens <= 0 || string(m.MinimalCall) != `{"path":"<path>"}` || m.InputSchema == nil {
			t.Errorf("%+v", m)
		}
	}
	if via["fs__read_file"] != "call_read discoverable" || via["fs__write_file"] != "call_write discoverable" {
		t.Errorf("%v", via)
	}
	r.profile = catalog.Full
	r.call(Find, `{"query":"read_file","effects":"read","backend":"fs","k":1}`, &got)
	if len(got.Matches) != 1 || got.Matches[0].Via != "direct" || got.Total != 1 {
		t.Errorf("%+v", got)
	}
}

func TestFindHasNothingThatAReadOnlyCallerMayNotCall(t *testing.T) {
	r := newRig(t, upstream("fs", catalog.Rules{Effects: []catalog.EffectRule{{Verb: "read_file", Is: broker.Read}}}, "read_file", "write_file"))
	r.limit = catalog.Limit{All: true}
	var got findAnswer
	r.call(Find, `{"query":"","k":50}`, &got)
	for _, m := range got.Matches {
		if m.Name == "fs__write_file" || m.Name == CallWrite {
			t.Errorf("%s is found", m.Name)
		}
	}
	var d struct {
		Verbs []struct {
			Name     string
			Callable bool
			Reason   string
		}
	}
	r.call(Describe, `{"names":["fs__write_file","fs__read_file"]}`, &d)
	if len(d.Verbs) != 2 || d.Verbs[0].Callable || d.Verbs[0].Reason != "read_only" || !d.Verbs[1].Callable {
		t.Errorf("%+v", d)
	}
	var h struct {
		Found    bool
		Guidance struct {
			Rejected []struct{ Name, Reason string }
		}
	}
	r.call(Help, `{"name":"fs__write_file"}`, &h)
	if !h.Found || len(h.Guidance.Rejected) != 1 || h.Guidance.Rejected[0].Reason != "read_only" {
		t.Errorf("%+v", h)
	}
}

func TestDescribeNamesWhatIsUnknown(t *testing.T) {
	r := newRig(t, upstream("fs", catalog.Rules{}, "read_file"))
	var got struct {
		Verbs []struct {
			Name         string
			MinimalCall  json.RawMessage `json:"minimal_call"`
			OutputSchema json.RawMessage `json:"output_schema"`
		}
		Unknown []struct {
			Name        string
			Suggestions []string
		}
	}
	r.call(Describe, `{"names":["fs__raed_file","berth__find","fs__read_file","fs__read_file"]}`, &got)
	if len(got.Verbs) != 2 || len(got.Unknown) != 1 || !slices.Equal(got.Unknown[0].Suggestions, []string{"fs__read_file"}) {
		t.Errorf("%+v", got)
	}
}

// TestHelpAnswersInEveryMode also holds that no card is printed with escapes.
func TestHelpAnswersInEveryMode(t *testing.T) {
	r := newRig(t, upstream("fs", catalog.Rules{}, "read_file"))
	for arguments, want := range map[string]string{
		`{}`:                       "`find`",
		`{"name":"fs__read_file"}`: `"path":"<path>"`,
		`{"intent":"read a file"}`: `fs__read_file`,
		`{"error_text":"Tool not found: fs__raed_file"}`: `fs__read_file`,
		`{"name":"fs"}`: `"state":"ready"`,
	} {
		var got json.RawMessage
		if r.call(Help, arguments, &got) || !strings.Contains(string(got), want) {
			t.Errorf("%s: %s", arguments, got)
		}
	}
}

func TestMoreGivesTheRestToItsOwnerOnly(t *testing.T) {
	r := newRig(t)
	items := make([]string, 4000)
	for i := range items {
		items[i] = fmt.Sprintf(`{"n":%d}`, i)
	}
	whole := "[" + strings.Join(items, ",") + "]"
	shaped, err := shape.Shape(shape.ToolResult(json.RawMessage(whole), false), shape.Limits{Budget: 600, CanMore: true, Until: r.now}, o200k.Counter{}, func() (string, error) { return shape.NewHandle(rand.Reader) })
	if err != nil || len(shaped.Keep) != 1 {
		t.Fatal(err, shaped.Facts)
	}
	r.store.Put(r.now, broker.LocalOperator, shaped.Keep, nil)
	joined := items[:*shaped.Facts.Kept]
	for range 100 {
		var page struct {
			Items      []json.RawMessage
			NextOffset *int `json:"next_offset"`
		}
		if r.call(More, `{"handle":"`+shaped.Keep[0].Handle+`"}`, &page) {
			t.Fatal("refused")
		}
		for _, it := range page.Items {
			joined = append(joined, string(it))
		}
		if page.NextOffset == nil {
			break
		}
	}
	if got := "[" + strings.Join(joined, ",") + "]"; got != whole {
		t.Errorf("parts are not the whole: %d and %d bytes", len(got), len(whole))
	}
	// Nonsense, expired and another principal's get one refusal.
	var nonsense, foreign, expired map[string]any
	r.call(More, `{"handle":"m_nothing"}`, &nonsense)
	answer, _ := r.conn.Call(t.Context(), &broker.Call{Verb: More, Principal: broker.Principal{Tenant: "t", User: "u", Role: broker.User},
		Params: json.RawMessage(`{"name":"more","arguments":{"handle":"` + shaped.Keep[0].Handle + `"}}`), Origin: broker.Origin{Profile: r.view(), Holder: "x"}}, broker.Peer{})
	var result struct{ StructuredContent map[string]any }
	_ = json.Unmarshal(answer.Result, &result)
	foreign = result.StructuredContent
	r.now = r.now.Add(time.Hour)
	r.call(More, `{"handle":"`+shaped.Keep[0].Handle+`"}`, &expired)
	if nonsense["Code"] != string(broker.CodeHandleUnknown) || fmt.Sprint(nonsense) != fmt.Sprint(foreign) || fmt.Sprint(nonsense) != fmt.Sprint(expired) {
		t.Errorf("%v\n%v\n%v", nonsense, foreign, expired)
	}
}

// TestEverythingIsFoundInTheEssentialTier: each family and alias, by find, help
// and did-you-mean, though the list shows none of them.
func TestEverythingIsFoundInTheEssentialTier(t *testing.T) {
	r := newRig(t, generated(60)...)
	r.profile = catalog.Essential
	for _, v := range r.snapshot.Verbs() {
		for _, name := range append([]string{v.Name}, v.Aliases...) {
			var f findAnswer
			r.call(Find, fmt.Sprintf(`{"query":%q,"k":1,"detail":"name"}`, name), &f)
			if len(f.Matches) == 0 || f.Matches[0].Name != v.Name {
				t.Errorf("find %s: %+v", name, f.Matches)
			}
			var h struct{ Found bool }
			if r.call(Help, fmt.Sprintf(`{"name":%q}`, name), &h); !h.Found {
				t.Errorf("help %s: not found", name)
			}
		}
		if near := r.view().Suggestions(strings.ToUpper(v.Name), 3); len(near) == 0 || near[0].Verb != v {
			t.Errorf("suggestions for %s: %v", strings.ToUpper(v.Name), near)
		}
	}
}

// TestABackendThatNeverListedAnythingIsNoSecret: a call of one of its names is told
// how it stands, and so are health and help.
func TestABackendThatNeverListedAnythingIsNoSecret(t *testing.T) {
	r := newRig(t, upstream("files", catalog.Rules{}, "read"), catalog.Source{Backend: "gone"})
	r.family.opts.Standing = func(backend string) (string, string) {
		return map[string]string{"gone": "down"}[backend], ""
	}
	var health struct {
		Status   string
		Backends []struct{ Name, Availability string }
	}
	if r.call(Health, `{}`, &health) || health.Status != "degraded" || !slices.Contains(health.Backends, struct{ Name, Availability string }{"gone", "down"}) {
		t.Errorf("%+v", health)
	}
	var helped struct {
		Found   bool
		Backend struct{ Name, State string }
	}
	if r.call(Help, `{"name":"gone"}`, &helped) || !helped.Found || helped.Backend.State != "down" {
		t.Errorf("%+v", helped)
	}
	if r.call(Help, `{"name":"nobody"}`, &helped) || helped.Found {
		t.Errorf("%+v", helped)
	}
}
