package config

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// shared are structs that settings of different effect hold; they go by the
// setting that holds them.
var shared = []string{"ConditionRule"}

func TestEveryFieldOfTheConfigurationIsClassed(t *testing.T) {
	seen := map[string]bool{}
	var walk func(reflect.Type) Effect
	walk = func(s reflect.Type) (strongest Effect) {
		eachKey(s, func(i int, key string) {
			name := s.Name() + "." + key
			seen[name] = true
			own := effects[name]
			if own == 0 {
				t.Errorf("%s (%s) is in no class of the table in reload.go", name, s.Field(i).Name)
			}
			held := s.Field(i).Type
			for held.Kind() == reflect.Slice || held.Kind() == reflect.Pointer || held.Kind() == reflect.Map {
				held = held.Elem()
			}
			if held.Kind() == reflect.Struct && held.PkgPath() == s.PkgPath() && held.Name() != "Secret" {
				inner := walk(held)
				grouping := s.Name() == "Config" || name == "Backend.berth"
				if inner > own && !grouping && !slices.Contains(shared, held.Name()) {
					t.Errorf("%s is classed %s, and a field of %s needs %s", name, own, held.Name(), inner)
				}
			}
			strongest = max(strongest, own)
		})
		return strongest
	}
	walk(reflect.TypeFor[Config]())
	for name := range effects {
		if !seen[name] {
			t.Errorf("the table has %s, which is no setting", name)
		}
	}
}

func parsed(t *testing.T, text string) *Config {
	t.Helper()
	c, err := Parse("berth.yaml", []byte(text), func(name string) (string, bool) { return "s3cret-" + name, name == "TOKEN" })
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestReloadSaysWhatBecomesOfEachSetting(t *testing.T) {
	const before = `
mcpServers:
  a: {command: one, args: [x], env: {KEY: "${TOKEN}"}, berth: {max_in_flight: 4}}
  b: {url: "http://127.0.0.1:1/mcp"}
  off: {command: two, disabled: true}
  app: {berth: {app: resmon}}
berth: {log_level: info, listen: "127.0.0.1:1"}
`
	tests := []struct {
		name, from, to string
		want           Changes
	}{
		{"nothing", "", "", Changes{Unchanged: []string{"a", "app", "b", "off"}}},
		{"a limit is adapted", "max_in_flight: 4", "max_in_flight: 5", Changes{Unchanged: []string{"app", "b", "off"},
			Backends: []BackendChange{{"a", Adapted, []string{"max_in_flight"}}}}},
		{"an argument renews", "args: [x]", "args: [y]", Changes{Unchanged: []string{"app", "b", "off"},
			Backends: []BackendChange{{"a", Renewed, []string{"args"}}}}},
		{"a secret renews", `"${TOKEN}"`, `"other"`, Changes{Unchanged: []string{"app", "b", "off"},
			Backends: []BackendChange{{"a", Renewed, []string{"env"}}}}},
		{"both renew", "args: [x], env: {KEY: \"${TOKEN}\"}, berth: {max_in_flight: 4}", "args: [x, y], env: {KEY: \"${TOKEN}\"}, berth: {max_queued: 4}", Changes{Unchanged: []string{"app", "b", "off"},
			Backends: []BackendChange{{"a", Renewed, []string{"args", "max_in_flight", "max_queued"}}}}},
		{"another kind renews", `b: {url: "http://127.0.0.1:1/mcp"}`, "b: {command: three}", Changes{Unchanged: []string{"a", "app", "off"},
			Backends: []BackendChange{{"b", Renewed, []string{"type", "command", "url"}}}}},
		{"an app is renewed by any setting", "app: resmon", "app: resmon, max_queued: 3", Changes{Unchanged: []string{"a", "b", "off"},
			Backends: []BackendChange{{"app", Renewed, []string{"max_queued"}}}}},
		{"switched off is gone", "berth: {max_in_flight: 4}}", "disabled: true}", Changes{Unchanged: []string{"app", "b", "off"},
			Backends: []BackendChange{{"a", Removed, nil}}}},
		{"switched on comes", ", disabled: true", "", Changes{Unchanged: []string{"a", "app", "b"},
			Backends: []BackendChange{{"off", Added, nil}}}},
		{"one goes, one comes", `b: {url: "http://127.0.0.1:1/mcp"}`, "c: {command: three}", Changes{Unchanged: []string{"a", "app", "off"},
			Backends: []BackendChange{{"c", Added, nil}, {"b", Removed, nil}}}},
		{"of the broker", `log_level: info, listen: "127.0.0.1:1"`, `log_level: debug, max_streams: 9`, Changes{Unchanged: []string{"a", "app", "b", "off"},
			Broker: []string{"log_level"}, NeedsRestart: []string{"listen", "max_streams"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.from != "" && !strings.Contains(before, tt.from) {
				t.Fatal("the change fits nowhere")
			}
			inForce, next := parsed(t, before), parsed(t, strings.Replace(before, tt.from, tt.to, 1))
			_, got := Reload(inForce, next)
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got  %+v\nwant %+v", got, tt.want)
			}
		})
	}
}

// What waits for a restart is said again by each reload until there is one.
func TestReloadKeepsInForceWhatNeedsARestart(t *testing.T) {
	first := parsed(t, `berth: {listen: "127.0.0.1:1", log_level: info}`)
	next := parsed(t, `berth: {listen: "127.0.0.1:2", log_level: debug}`)
	effective, changes := Reload(first, next)
	if effective.Broker.Listen != "127.0.0.1:1" || effective.Broker.LogLevel != "debug" || next.Broker.Listen != "127.0.0.1:2" {
		t.Fatalf("in force: %+v", effective.Broker)
	}
	if _, again := Reload(effective, next); !slices.Equal(again.NeedsRestart, changes.NeedsRestart) || len(again.Broker) != 0 {
		t.Errorf("said the second time: %+v", again)
	}
}

// The page for operators names what needs a restart.
func TestWhatNeedsARestartIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/operators.md")
	if err != nil {
		t.Fatal(err)
	}
	row := ""
	for line := range strings.Lines(string(page)) {
		if strings.HasPrefix(line, "| `listen`") {
			row, _, _ = strings.Cut(line, "a restart.")
		}
	}
	eachKey(reflect.TypeFor[Broker](), func(_ int, key string) {
		if named := strings.Contains(row, "`"+key+"`"); named != (EffectOf("Broker", key) == NeedsRestart) {
			t.Errorf("%s is classed %s; the row of what needs a restart is %q", key, EffectOf("Broker", key), row)
		}
	})
}
