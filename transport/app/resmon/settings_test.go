package resmon

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"berth/transport/app"
	"berth/transport/app/resmontest"

	"pgregory.net/rapid"
)

// keysOf gives the 39 keys by group, as the fake has them.
func keysOf() map[string][]string { return resmontest.SettingKeys() }

func TestTheTwoListsPartitionTheSettings(t *testing.T) {
	var contract map[string]struct{ Writable, Withheld []string }
	if err := json.Unmarshal(shared(t, "resmon-settings.json"), &contract); err != nil {
		t.Fatal(err)
	}
	writable, seen := 0, map[string]bool{}
	for _, g := range groups {
		if len(g.writable) == 0 {
			t.Errorf("%s has no key that a tool may change", g.name)
		}
		want := contract[g.name]
		if !slices.Equal(slices.Sorted(slices.Values(g.writable)), slices.Sorted(slices.Values(want.Writable))) {
			t.Errorf("%s: %q", g.name, g.writable)
		}
		for _, key := range want.Withheld {
			if withheld[key] == "" {
				t.Errorf("%s is not withheld", key)
			}
		}
		for _, key := range keysOf()[g.name] {
			isWritable := slices.Contains(g.writable, key)
			if isWritable == (withheld[key] != "") {
				t.Errorf("%s is on both lists or on neither", key)
			}
			if credentialShaped(key) {
				t.Errorf("%s looks like a credential", key)
			}
			seen[key] = true
		}
		writable += len(g.writable)
	}
	if len(contract) != len(groups) || writable != 20 || len(withheld) != 19 || len(seen) != 39 {
		t.Errorf("%d groups, %d writable, %d withheld, %d in all", len(contract), writable, len(withheld), len(seen))
	}
}

func TestAWithheldSettingIsRefusedByNameWithoutARequest(t *testing.T) {
	fake := resmontest.Run(t, resmontest.Options{Data: resmontest.Small})
	var d dials
	r := reach(t, fake, app.Options{Env: fake.Env(), Dial: d.dial})
	for key, why := range withheld {
		for _, g := range groupNames { // whatever the group
			got := r.refused("update_settings", `{"group":"`+g+`","settings":{"ai_model":"x","`+key+`":"x"}}`)
			if got.Error != "invalid_argument" {
				t.Errorf("%s: %+v", key, got)
			}
			got.detail(t, `{"withheld_keys":`+string(app.JSON(map[string]string{key: why}))+`}`)
		}
	}
	r.refused("update_settings", `{"group":"ai","settings":{"ai\u005fcli_p\u0061th":"x"}}`).detail(t, `{"withheld_keys":{"ai_cli_path":"names the program that resmon starts"}}`)
	if d.count() > 0 {
		t.Errorf("%d connections", d.count())
	}
}

func TestACredentialIsRefusedBeforeEverythingElse(t *testing.T) {
	fake := resmontest.Run(t, resmontest.Options{Data: resmontest.Small})
	var d dials
	r := reach(t, fake, app.Options{Env: fake.Env(), Dial: d.dial})
	for _, key := range []string{"openai_api_key", "TOKEN", "x_Secret_y", "smtp_password", "passPhrase", "credentials", "oauth", "monkey", "ai_cli_path_key"} {
		for _, arguments := range []string{`"group":"ai",`, `"group":"nonsense",`, ``, `"expected_runtime_id":"x",`} {
			a := r.call("update_settings", `{`+arguments+`"settings":{"ai_cli_path":"x","`+key+`":"sk-hunter2"}}`)
			got := a.refusal(t)
			if got.Error != "invalid_argument" || strings.Contains(a.text, "hunter2") || !strings.Contains(got.Message, "keychain") {
				t.Errorf("%s %s: %s", key, arguments, a.text)
			}
			got.detail(t, `{"refused_keys":["`+key+`"]}`)
		}
	}
	for _, bad := range []string{`{}`, `{"group":"ai"}`, `{"group":"ai","settings":{}}`, `{"group":"ai","settings":[]}`, `{"group":"ai","settings":"{}"}`, `{"group":"execution","settings":{"x":1}}`, `{"settings":{"ai_model":"x"}}`} {
		got := r.refused("update_settings", bad)
		if got.Error != "invalid_argument" {
			t.Errorf("%s: %+v", bad, got)
		}
		if strings.Contains(bad, "execution") && !strings.Contains(got.Message, strings.Join(groupNames, ", ")) {
			t.Errorf("the groups are not named: %s", got.Message)
		}
	}
	if d.count() > 0 {
		t.Errorf("%d connections", d.count())
	}
}

func TestAKeyThatNobodyDecidedOnIsNotWritten(t *testing.T) {
	r := small(t)
	got := r.refused("update_settings", `{"group":"ai","settings":{"ai_model":"x","nonsense":"y"}}`)
	if got.Error != "invalid_argument" || fmt.Sprint(got.Detail["unknown_keys"]) != "[nonsense]" || len(got.Detail["group_keys"].([]any)) != 16 {
		t.Errorf("%+v", got)
	}
	r.fake.SetSetting("ai", "ai_new_switch", "")
	got = r.refused("update_settings", `{"group":"ai","settings":{"ai_new_switch":"y"}}`)
	got.detail(t, `{"withheld_keys":{"ai_new_switch":"no decision admits it yet"}}`)
	// A key of another group is unknown in this one.
	if got := r.refused("update_settings", `{"group":"assistant","settings":{"ai_model":"x"}}`); got.Detail["unknown_keys"] == nil {
		t.Errorf("%+v", got)
	}
	if sent := r.sent(); !slices.Equal(sent, []string{"GET /api/settings/ai", "GET /api/settings/ai", "GET /api/settings/assistant"}) {
		t.Errorf("sent %q", sent)
	}
}

func TestEachWritableSettingIsWritten(t *testing.T) {
	r := small(t)
	for _, g := range groups {
		for _, key := range g.writable {
			value := `"v1"`
			switch key {
			case "notify_manual":
				value = `"FALSE"`
			case "notify_automatic_mode":
				value = `"all"`
			}
			got := r.good("update_settings", `{"group":"`+g.name+`","settings":{"`+key+`":`+value+`}}`)
			if changed := got["changed"].(map[string]any); len(changed) != 1 || changed[key] == nil || fmt.Sprint(got["requested"]) != "["+key+"]" {
				t.Errorf("%s: %v", key, got)
			}
			if n := len(keysOf()[g.name]) - 1; fmt.Sprint(got["unchanged_key_count"]) != fmt.Sprint(n) {
				t.Errorf("%s: %v of %d unchanged", key, got["unchanged_key_count"], n)
			}
		}
	}
}

func TestValuesAreSentInTheTypeThatResmonTakes(t *testing.T) {
	r := small(t)
	tests := []struct{ group, key, value, sent string }{
		{"notifications", "notify_manual", `"False"`, `false`},
		{"notifications", "notify_manual", `true`, `true`},
		{"ai", "ai_temperature", `0.70`, `"0.70"`},
		{"ai", "ai_temperature", `1e400`, `"1e400"`},
		{"embeddings", "embedding_enabled", `true`, `"true"`},
		{"ai", "ai_model", `null`, `""`},
	}
	for _, tt := range tests {
		r.good("update_settings", `{"group":"`+tt.group+`","settings":{"`+tt.key+`":`+tt.value+`}}`)
		if got := r.last(); got != `{"settings":{"`+tt.key+`":`+tt.sent+`}}` {
			t.Errorf("%s %s: sent %s", tt.key, tt.value, got)
		}
	}
	r.fake.Forget()
	for _, bad := range []string{`{"group":"notifications","settings":{"notify_manual":"yes"}}`, `{"group":"notifications","settings":{"notify_manual":1}}`, `{"group":"notifications","settings":{"notify_manual":null}}`,
		`{"group":"ai","settings":{"ai_model":["x"]}}`, `{"group":"ai","settings":{"ai_model":{"x":1}}}`} {
		if got := r.refused("update_settings", bad); got.Error != "invalid_argument" || got.Detail["setting"] == nil {
			t.Errorf("%s: %+v", bad, got)
		}
	}
	if r.last() != "" {
		t.Errorf("sent %s", r.last())
	}
	if got := r.refused("update_settings", `{"group":"notifications","settings":{"notify_automatic_mode":"sometimes"}}`); got.Error != "invalid_argument" || got.Detail["outcome_unknown"] != nil {
		t.Errorf("%+v", got)
	}
}

func TestTheDifferenceIsReadAndNotClaimed(t *testing.T) {
	r := small(t)
	in := r.fake.Inject(resmontest.IgnoreKeys("ai_model"), resmontest.Scope{})
	got := r.good("update_settings", `{"group":"ai","settings":{"ai_model":"x","ai_effort":"high"}}`)
	if changed := got["changed"].(map[string]any); len(changed) != 1 || changed["ai_effort"] == nil || !strings.Contains(got["detail"].(string), "ai_model was not taken") {
		t.Errorf("%v", got)
	}
	in.Off()
	if got = r.good("update_settings", `{"group":"ai","settings":{"ai_effort":"high"}}`); !strings.Contains(got["detail"].(string), "already had") || len(got["changed"].(map[string]any)) != 0 {
		t.Errorf("%v", got)
	}
	// What somebody else changed meanwhile shows too, a credential's name aside.
	before, _ := app.ReadObject(json.RawMessage(`{"ai_model":"a","other":"b","some_key":"hunter2","gone":1}`))
	after, _ := app.ReadObject(json.RawMessage(`{"ai_model":"a","other":"c","some_key":"hunter3","new":"d"}`))
	sent, _ := app.ReadObject(json.RawMessage(`{"ai_model":"z"}`))
	if d := string(difference(groups[0], sent, before, after).JSON()); d != `{"group":"ai","changed":{"gone":{"from":1,"to":null},"new":{"from":null,"to":"d"},"other":{"from":"b","to":"c"},"some_key":{"from":"[redacted]","to":"[redacted]"}},"requested":["ai_model"],"unchanged_key_count":1,"detail":"ai_model was not taken: resmon accepted the request and kept the value it had."}` {
		t.Errorf("%s", d)
	}
	r.fake.Inject(resmontest.Status(503), resmontest.Scope{Method: "GET", Template: "/api/settings/ai", Skip: 1})
	failed := r.refused("update_settings", `{"group":"ai","settings":{"ai_model":"y"}}`)
	if failed.Error != "upstream_error" {
		t.Errorf("%+v", failed)
	}
	failed.detail(t, `{"put_accepted":true,"requested":["ai_model"],"status":503}`)
}

func TestChangesOfSettingsDoNotMix(t *testing.T) {
	r := small(t)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			got := r.good("update_settings", fmt.Sprintf(`{"group":"ai","settings":{"ai_model":"m%d"}}`, i))
			to := fmt.Sprint(got["changed"].(map[string]any)["ai_model"].(map[string]any)["to"])
			if to != fmt.Sprintf("m%d", i) {
				t.Errorf("%d: %v", i, got)
			}
		})
	}
	wg.Wait()
	for i, q := range r.sent() {
		if want := []string{"GET", "PUT", "GET"}[i%3]; !strings.HasPrefix(q, want) {
			t.Errorf("request %d is %s", i, q)
		}
	}
}

// Whatever is asked for, a request changes settings only when each of them is
// writable in its group.
func TestNoMixOfKeysGetsPastTheGuards(t *testing.T) {
	var all []string
	for _, keys := range keysOf() {
		all = append(all, keys...)
	}
	slices.Sort(all)
	rapid.Check(t, func(t *rapid.T) {
		g := rapid.SampledFrom(groups).Draw(t, "group")
		keys := rapid.SliceOfNDistinct(rapid.OneOf(rapid.SampledFrom(all), rapid.StringMatching(`[a-z_]{1,12}`)), 1, 4, rapid.ID[string]).Draw(t, "keys")
		var settings, listed app.Object
		for _, k := range keys {
			settings = append(settings, app.Field{Name: k, Value: app.Quote("v")})
		}
		for _, k := range keysOf()[g.name] {
			listed = append(listed, app.Field{Name: k, Value: app.Quote("")})
		}
		arguments := app.Object{{Name: "group", Value: app.Quote(g.name)}, {Name: "settings", Value: settings.JSON()}}
		passed := refuseCredentials(arguments) == nil && withheldIn(settings) == nil && unlisted(g, settings, listed) == nil
		want := true
		for _, k := range keys {
			want = want && slices.Contains(g.writable, k)
		}
		if passed != want {
			t.Fatalf("%s %q passed: %v", g.name, keys, passed)
		}
	})
}
