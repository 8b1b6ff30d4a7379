package catalog

import (
	"encoding/json"
	"strings"
	"testing"

	"berth/broker"
)

func TestLongVerbsSayThatTheyAreTasksToWhoAsks(t *testing.T) {
	entry := func(name, rest string) broker.Tool {
		return broker.Tool{Name: name, Raw: json.RawMessage(`{ "name":"` + name + `", "inputSchema":{"type":"object","x":1.0}` + rest + ` }`)}
	}
	build := func(capabilities string) *Profile {
		snapshot, faults := Build(1, []Source{{Backend: "b", Listed: true, Server: broker.ServerInfo{Capabilities: json.RawMessage(capabilities)},
			Tools: []broker.Tool{entry("plain", ""), entry("long", ""), entry("must", ""), entry("long_no", `,"execution":{"own":1.0,"taskSupport":"forbidden"}`),
				entry("own", `,"execution":{"taskSupport":"optional"}`), entry("own_must", `,"execution":{"taskSupport":"required"}`), entry("odd", `,"execution":7`)},
			Rules: Rules{Long: []string{"long*"}, RequireTask: []string{"must"}}}})
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		p, _ := snapshot.Profile("b")
		return p
	}
	const tasks = `{"tasks":{"requests":{"tools":{"call":{}}}}}`
	for _, tt := range []struct {
		name, capabilities, verb string
		takes, long              bool
		want                     string // of execution; empty: none
	}{
		{"a short verb", tasks, "plain", false, false, ""},
		{"a long verb", "", "long", true, true, `{"taskSupport":"optional"}`},
		{"a long verb of which the backend makes no task", "", "long_no", true, true, `{"own":1.0,"taskSupport":"optional"}`},
		{"a verb that must be one", "", "must", true, true, `{"taskSupport":"required"}`},
		{"a backend's own", tasks, "own", true, false, `{"taskSupport":"optional"}`},
		{"a backend's own that must be one", tasks, "own_must", true, true, `{"taskSupport":"optional"}`},
		{"a backend's own without the capability", `{"tasks":{}}`, "own", false, false, `{"taskSupport":"optional"}`},
		{"an execution that is none", tasks, "odd", false, false, `7`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := build(tt.capabilities)
			v, ok := p.Resolve(tt.verb)
			if !ok || v.TakesTask() != tt.takes || v.Long != tt.long {
				t.Fatalf("%+v", v)
			}
			page, refusal := p.TaskPage("")
			if refusal != nil {
				t.Fatal(refusal)
			}
			var list struct{ Tools []map[string]json.RawMessage }
			if err := json.Unmarshal(page, &list); err != nil {
				t.Fatal(err)
			}
			for _, e := range list.Tools {
				if string(e["name"]) == `"`+tt.verb+`"` && (string(e["execution"]) != tt.want || string(e["inputSchema"]) != `{"type":"object","x":1.0}`) {
					t.Errorf("%s", e)
				}
			}
		})
	}
	plain, _ := build("").Page("")
	for _, e := range []string{`{"name":"long","inputSchema":{"type":"object","x":1.0}}`, `"execution":{"own":1.0,"taskSupport":"forbidden"}`} {
		if !strings.Contains(string(plain), e) {
			t.Errorf("the list of others lacks %s: %s", e, plain)
		}
	}
}
