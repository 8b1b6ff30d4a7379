package meta

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"berth/broker"
	"berth/broker/catalog"
)

type shaken struct {
	Verdict     string
	TrustMode   string `json:"trust_mode"`
	Warnings    []string
	Repair      []string
	NextAction  string `json:"next_action"`
	Catalog     string
	ToolSurface ToolSurface `json:"tool_surface"`
	Evidence    struct {
		Served  *servedEvidence
		Claimed struct {
			ForeignNames int `json:"foreign_names"`
		}
		Exercised []string
	}
}

func (r *rig) shake(arguments string) (s shaken) {
	r.t.Helper()
	if r.call(Handshake, arguments, &s) {
		r.t.Fatal("refused")
	}
	return s
}

func quoted(names []string) string {
	raw, _ := json.Marshal(names)
	return string(raw)
}

// others are names of other servers' tools.
func others(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = "other__" + strconv.Itoa(i)
	}
	return out
}

func TestTheNextActionNamesNothingThatIsMissing(t *testing.T) {
	r := newRig(t, upstream("fs", catalog.Rules{}, "read_file"))
	for missing, want := range map[string]string{
		`["help"]`:                    "Do not rely on the tools that are missing. Reach others with call_read and call_write, or connect to a smaller profile.",
		`["call_write"]`:              "Do not rely on the tools that are missing. Reach others with call_read, or connect to a smaller profile.",
		`["call_read"]`:               "Do not rely on the tools that are missing. Reach others with call_write, or connect to a smaller profile.",
		`["call_read", "call_write"]`: "Do not rely on the tools that are missing. Connect to a smaller profile.",
	} {
		if got := r.shake(`{"missing_tools":` + missing + `}`).NextAction; got != want {
			t.Errorf("%s: %s", missing, got)
		}
	}
}

func TestANumberThatIsTooLargeIsRefusedByItsName(t *testing.T) {
	r := newRig(t)
	for verb, member := range map[string]string{Handshake: "observed_tool_count", More: "offset"} {
		var refused struct{ Violations []struct{ Path string } }
		if !r.call(verb, `{"handle":"m_x","`+member+`":1e300}`, &refused) || len(refused.Violations) != 1 || refused.Violations[0].Path != "/"+member {
			t.Errorf("%s: %+v", verb, refused)
		}
	}
}

// TestAClaimIsReadInOnePass: a name is looked up behind each of the places where a
// prefix may end; one that is nothing but such places must not take for ever.
func TestAClaimIsReadInOnePass(t *testing.T) {
	r := newRig(t, upstream("fs", catalog.Rules{}, "read_file"))
	long := strings.Repeat("/", 1<<20)
	if got := r.shake(`{"available_tools":["` + long + `","` + long + `find"]}`); got.Evidence.Claimed.ForeignNames != 2 || got.ToolSurface.Present[Find] == nil || *got.ToolSurface.Present[Find] {
		t.Errorf("%d names of others, find there: %v", got.Evidence.Claimed.ForeignNames, got.ToolSurface.Present[Find])
	}
	if got := r.shake(`{"available_tools":` + quoted(others(5000)) + `}`); got.Evidence.Claimed.ForeignNames != 5000 {
		t.Errorf("%d names of others", got.Evidence.Claimed.ForeignNames)
	}
}

func TestTheVerdictIsWhatTheEvidenceCarries(t *testing.T) {
	r := newRig(t, upstream("fs", catalog.Rules{}, "read_file"))
	r.ledger.Served("ses", r.view(), true)
	head, tail := r.view().Canary()
	required := r.view().Required()
	harness := make([]string, len(required))
	for i, name := range required {
		harness[i] = "mcp__berth__" + name
	}
	for _, tt := range []struct{ name, arguments, verdict, status string }{
		{"no arguments", `{}`, unverified, "unverified"},
		{"a count alone", `{"observed_tool_count":500}`, unverified, "unverified"},
		{"the fingerprint alone", `{"catalog":"` + r.view().Fingerprint() + `"}`, unverified, "unverified"},
		{"labels", `{"agent_id":"me","scope":"x"}`, unverified, "unverified"},
		{"both codes", fmt.Sprintf(`{"canary":{"head":%q,"tail":%q}}`, head, tail), proved, "ok"},
		{"the head alone", fmt.Sprintf(`{"canary":{"head":%q}}`, head), truncated, "degraded"},
		{"the head and a wrong tail", fmt.Sprintf(`{"canary":{"head":%q,"tail":"zzzzzz"}}`, head), truncated, "degraded"},
		{"wrong codes", `{"canary":{"head":"zzzzzz","tail":"zzzzzz"}}`, unverified, "unverified"},
		{"a smaller count", `{"observed_tool_count":3}`, truncated, "degraded"},
		{"every required name", `{"available_tools":` + quoted(required) + `}`, claimedAll, "ok"},
		{"as a harness writes them, with others", `{"available_tools":` + quoted(append(slices.Clone(harness), "Bash", "other__x")) + `}`, claimedAll, "ok"},
		{"one of them missing", `{"available_tools":` + quoted(harness[1:]) + `}`, degraded, "degraded"},
		{"one named as missing", `{"missing_tools":["berth.find"]}`, degraded, "degraded"},
		{"missing beats proof", fmt.Sprintf(`{"canary":{"head":%q,"tail":%q},"missing_tools":["find"]}`, head, tail), degraded, "degraded"},
		{"another verb missing", `{"missing_tools":["fs__read_file"]}`, unverified, "unverified"},
		{"every required name behind thousands of others", `{"available_tools":` + quoted(append(others(5000), required...)) + `}`, claimedAll, "ok"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := r.shake(tt.arguments)
			if got.Verdict != tt.verdict || got.ToolSurface.Status != tt.status {
				t.Errorf("%s, %s", got.Verdict, got.ToolSurface.Status)
			}
			if got.ToolSurface.Degraded != (len(got.ToolSurface.Missing) > 0) || got.ToolSurface.Degraded != (tt.verdict == degraded) {
				t.Errorf("degraded %v with %v missing", got.ToolSurface.Degraded, got.ToolSurface.Missing)
			}
			if got.ToolSurface.MinimumSafe != len(required) || !slices.Equal(got.ToolSurface.Required, required) {
				t.Errorf("required %v", got.ToolSurface.Required)
			}
		})
	}
}

func TestANameInTheBrokersFormThatReachesNothingIsUnknown(t *testing.T) {
	r := newRig(t, upstream("fs", catalog.Rules{}, "read_file"))
	for _, tt := range []struct {
		name    string
		unknown bool
	}{{"fs__gone", true}, {"berth__gone", true}, {"mcp__berth__gone", true}, {"fs__read_file", false}, {"other__gone", false}, {"Bash", false}} {
		got := r.shake(`{"missing_tools":[` + strconv.Quote(tt.name) + `]}`)
		if slices.Contains(got.Warnings, "unknown_names") != tt.unknown {
			t.Errorf("%s: warnings %v", tt.name, got.Warnings)
		}
	}
}

func TestTheNextActionNamesOnlyWhatIsThere(t *testing.T) {
	all := newRig(t).view()
	for verdict := range actions {
		for name, p := range map[string]*catalog.Profile{"all": all, "read-only": all.Limited(catalog.Limit{All: true})} {
			for _, verb := range []string{CallRead, CallWrite, Find} {
				if _, there := p.Named(verb); !there && strings.Contains(action(p, verdict, nil), verb) {
					t.Errorf("%s, %s: %s", verdict, name, action(p, verdict, nil))
				}
			}
		}
	}
	if !strings.Contains(action(all, proved, nil), CallWrite) {
		t.Errorf("%s", action(all, proved, nil))
	}
}

func TestACountNamesNoMissingTool(t *testing.T) {
	r := newRig(t)
	r.ledger.Served("ses", r.view(), true)
	for _, n := range []string{"0", "1", "99"} {
		got := r.shake(`{"observed_tool_count":` + n + `}`)
		if len(got.ToolSurface.Missing) != 0 || got.ToolSurface.Degraded || got.ToolSurface.Status == "ok" || fmt.Sprint(*got.ToolSurface.ToolCount) != n {
			t.Errorf("%s: %+v", n, got.ToolSurface)
		}
	}
}

func TestACountBelowZeroIsNoCount(t *testing.T) {
	var refused struct {
		Code       string
		Violations []struct{ Path string }
	}
	r := newRig(t)
	if !r.call(Handshake, `{"observed_tool_count":-1}`, &refused) || refused.Code != "invalid_arguments" || len(refused.Violations) != 1 ||
		refused.Violations[0].Path != "/observed_tool_count" {
		t.Errorf("%+v", refused)
	}
}

func TestCodesOfAnEarlierListAreStale(t *testing.T) {
	r := newRig(t, upstream("fs", catalog.Rules{}, "read_file"))
	r.ledger.Served("ses", r.view(), true)
	head, tail := r.view().Canary()
	before := r.view().Fingerprint()
	s, _ := catalog.Build(8, []catalog.Source{r.family.Source(), upstream("fs", catalog.Rules{}, "read_file", "zap")})
	full := r.shake(`{}`).ToolSurface.FullRegistry
	r.snapshot = s
	if got := r.shake(`{}`); got.Verdict != stale || got.ToolSurface.FullRegistry != full+1 {
		t.Errorf("without a claim: %+v", got)
	}
	if got := r.shake(fmt.Sprintf(`{"canary":{"head":%q,"tail":%q}}`, head, tail)); got.Verdict != stale {
		t.Errorf("codes: %s", got.Verdict)
	}
	if got := r.shake(fmt.Sprintf(`{"catalog":%q}`, before)); got.Verdict != stale {
		t.Errorf("fingerprint: %s", got.Verdict)
	}
	r.ledger.Served("ses", r.view(), true)
	head, tail = r.view().Canary()
	if got := r.shake(fmt.Sprintf(`{"canary":{"head":%q,"tail":%q}}`, head, tail)); got.Verdict != proved {
		t.Errorf("the new codes: %s", got.Verdict)
	}
}

func TestPresentIsNeverAssumed(t *testing.T) {
	r := newRig(t)
	r.ledger.Served("ses", r.view(), true)
	for name, there := range r.shake(`{}`).ToolSurface.Present {
		if there != nil {
			t.Errorf("%s is %v without evidence", name, *there)
		}
	}
	r.ledger.Called("ses", Find)
	got := r.shake(`{"missing_tools":["find"]}`)
	if there := got.ToolSurface.Present[Find]; there == nil || *there || !slices.Contains(got.Warnings, "claim_contradicted") {
		t.Errorf("%v, %v", there, got.Warnings)
	}
	if there := r.shake(`{}`).ToolSurface.Present[Find]; there == nil || !*there {
		t.Error("what was called is there")
	}
}

func TestHealthAndHandshakeShowOneSurface(t *testing.T) {
	r := newRig(t, upstream("fs", catalog.Rules{}, "read_file"))
	r.ledger.Served("ses", r.view(), true)
	for _, profile := range []string{catalog.Full, catalog.Essential} {
		r.profile = profile
		r.ledger.Served("ses", r.view(), true)
		var h struct {
			Status  string
			Surface json.RawMessage `json:"tool_surface_contract"`
		}
		r.call(Health, `{}`, &h)
		var s struct {
			Surface json.RawMessage `json:"tool_surface"`
		}
		r.call(Handshake, `{}`, &s)
		if string(h.Surface) != string(s.Surface) || len(h.Surface) == 0 {
			t.Errorf("%s\n%s", h.Surface, s.Surface)
		}
	}
}

func TestTheCodesStandInNoAnswer(t *testing.T) {
	r := newRig(t, upstream("fs", catalog.Rules{}, "read_file"))
	head, tail := r.view().Canary()
	for verb, arguments := range map[string]string{Find: `{"query":"","detail":"schema","k":50}`, Help: `{"name":"call_read"}`, Health: `{}`,
		Handshake: fmt.Sprintf(`{"canary":{"head":%q,"tail":%q}}`, head, tail), Describe: `{"names":["call_read","session_handshake"]}`} {
		var got json.RawMessage
		r.call(verb, arguments, &got)
		if strings.Contains(string(got), head) || strings.Contains(string(got), tail) {
			t.Errorf("%s tells the codes: %s", verb, got)
		}
	}
}

// TestHealthShowsAReaderTheBackendsThatWrite: who may only read may know that a
// backend is there all of whose verbs he is refused.
func TestHealthShowsAReaderTheBackendsThatWrite(t *testing.T) {
	r := newRig(t, upstream("fs", catalog.Rules{}, "write"), upstream("notes", catalog.Rules{Effects: []catalog.EffectRule{{Verb: "*", Is: broker.Read}}}, "read"))
	names := func() (out []string) {
		var h struct{ Backends []struct{ Name string } }
		r.call(Health, `{}`, &h)
		for _, b := range h.Backends {
			out = append(out, b.Name)
		}
		return out
	}
	all := names()
	r.limit = catalog.Limit{All: true}
	if got := names(); !slices.Equal(got, all) || !slices.Contains(got, "fs") {
		t.Errorf("%q for a reader, %q for others", got, all)
	}
}
