package resmon

import (
	"encoding/json"
	"slices"
	"testing"

	"berth/transport/app/resmontest"
)

// every is a call of each tool that must succeed on the small data set, in each
// of its forms.
var every = [][2]string{
	{"health", `{}`},
	{"search_corpus", `{"query":"graph"}`},
	{"find_similar", `{"doc_id":1}`},
	{"list_sources", `{}`},
	{"list_routines", `{}`},
	{"get_routine", `{"routine_id":1}`},
	{"list_executions", `{}`},
	{"get_execution", `{"exec_id":5}`},
	{"get_execution_results", `{"exec_id":1}`},
	{"get_search_record", `{"exec_id":1}`},
	{"explain_match", `{"doc_id":1}`},
	{"get_paper_lifecycle", `{"doc_id":1}`},
	{"get_analytics", `{"view":"overview"}`},
	{"get_analytics", `{"view":"volume"}`},
	{"get_analytics", `{"view":"sources"}`},
	{"get_analytics", `{"view":"keywords"}`},
	{"get_analytics", `{"view":"routine-health"}`},
	{"get_analytics", `{"view":"discovery-lag"}`},
	{"get_watchdog_findings", `{}`},
	{"export_references", `{"exec_id":1}`},
	{"export_references", `{"doc_ids":[1,2]}`},
	{"list_watch_profiles", `{}`},
	{"get_watch_profile", `{"profile_id":1}`},
	{"get_profile_matches", `{"profile_id":1}`},
	{"run_sweep", `{"query":"x","sources":["arxiv"]}`},
	{"create_routine", `{"name":"n","keywords":["a","b"],"sources":["arxiv"],"schedule":"0 8 * * *"}`},
	{"create_watch_profile", `{"name":"Jane Doe"}`},
	{"run_routine", `{"routine_id":3}`},
	{"activate_routine", `{"routine_id":2}`},
	{"deactivate_routine", `{"routine_id":2}`},
	{"update_settings", `{"group":"ai","settings":{"ai_model":"m"}}`},
	{"update_settings", `{"group":"assistant","settings":{"assistant_model":"m"}}`},
	{"update_settings", `{"group":"email","settings":{"smtp_from":"m"}}`},
	{"update_settings", `{"group":"embeddings","settings":{"embedding_dims":512}}`},
	{"update_settings", `{"group":"storage","settings":{"pdf_policy":"m"}}`},
	{"update_settings", `{"group":"notifications","settings":{"notify_manual":"false"}}`},
}

func everyTool(r *rig) {
	r.t.Helper()
	for _, c := range every {
		if a := r.call(c[0], c[1]); a.isError {
			r.t.Errorf("%s %s: %s", c[0], c[1], a.text)
		} else if a.runtimeID != r.fake.RuntimeID() {
			r.t.Errorf("%s was answered by %q", c[0], a.runtimeID)
		}
	}
}

func pairs(t *testing.T) [][2]string {
	t.Helper()
	var out [][2]string
	if err := json.Unmarshal(shared(t, "resmon-pairs.json"), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestEveryToolHasACallHere(t *testing.T) {
	called := map[string]bool{}
	for _, c := range every {
		called[c[0]] = true
	}
	for _, tool := range Surface().Tools {
		if !tool.Internal && !called[tool.Name] {
			t.Errorf("no call of %s", tool.Name)
		}
	}
}

func TestRoutesResolve(t *testing.T) {
	want := pairs(t)
	if len(want) != 44 {
		t.Fatalf("the contract has %d pairs", len(want))
	}
	r := small(t)
	everyTool(r)
	recorded := map[[2]string]bool{}
	for _, q := range r.fake.Requests() {
		recorded[[2]string{q.Method, q.Template}] = true
	}
	for _, pair := range want {
		t.Run(pair[0]+" "+pair[1], func(t *testing.T) {
			if !recorded[pair] {
				t.Error("no tool asks for it")
			}
		})
	}
	for pair := range recorded {
		if !slices.Contains(want, pair) {
			t.Errorf("a request outside the contract: %v", pair)
		}
	}
	if len(recorded) != 44 {
		t.Errorf("%d pairs were asked for", len(recorded))
	}
}

func TestTheTableOfRoutesIsTheContracts(t *testing.T) {
	var have [][2]string
	for _, e := range Surface().Routes {
		have = append(have, [2]string{e.Method.String(), e.Path})
	}
	if len(have) != 44 {
		t.Errorf("%d routes", len(have))
	}
	var fakes [][2]string
	for _, p := range resmontest.Pairs() {
		fakes = append(fakes, [2]string{p.Method, p.Template})
	}
	for what, want := range map[string][][2]string{"the contract": pairs(t), "the fake": fakes} {
		for _, pair := range have {
			if !slices.Contains(want, pair) {
				t.Errorf("%v is not in %s", pair, what)
			}
		}
		if len(want) != len(have) {
			t.Errorf("%s has %d routes", what, len(want))
		}
	}
}
