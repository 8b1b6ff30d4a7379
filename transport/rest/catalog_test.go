package rest_test

import (
	"fmt"
	"slices"
	"testing"

	"berth/broker/catalog"
	"berth/broker/shape"
	"berth/broker/shape/o200k"
)

func TestTheCatalogShowsEveryRecordAndWhatIsNotServed(t *testing.T) {
	f := newFake(t)
	status, body := ask(t, f.handler(nil), "GET", "/api/v1/catalog", "")
	if status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	got := object(t, body)
	records := got["Objects"].([]any)
	if len(records) != len(f.snapshot.Verbs()) || got["Digest"] != f.snapshot.Digest() {
		t.Errorf("%s", body)
	}
	for i, r := range records {
		record := r.(map[string]any)
		v := f.snapshot.Verbs()[i]
		if record["Name"] != v.Name || record["Digest"] != v.Digest() || record["Family"] != "files" || record["Tokens"] != nil {
			t.Errorf("%v", record)
		}
	}
}

func TestAProfileShowsWhatItListsAndWhatDidNotFit(t *testing.T) {
	f := newFake(t)
	settings := catalog.Settings{Costs: shape.NewCosts(o200k.Counter{}, nil),
		Profiles: []catalog.ProfileSpec{{Name: "small", MaxTools: 1, Select: []catalog.Selector{{Backend: "files"}}}}}
	f.snapshot, _ = settings.Build(1, f.sources)
	_, body := ask(t, f.handler(nil), "GET", "/api/v1/profiles/small", "")
	got := object(t, body)
	listed, skipped := got["Listed"].([]any), got["Skipped"].([]any)
	if len(listed) != 1 || listed[0].(map[string]any)["Name"] != "files__build" || len(skipped) != 1 {
		t.Fatalf("%s", body)
	}
	if s := skipped[0].(map[string]any); s["Name"] != "files__read" || s["Reason"] != "over_tools" {
		t.Errorf("%v", s)
	}
	if n := fmt.Sprint(got["Tokens"]); n != fmt.Sprint(listed[0].(map[string]any)["Tokens"]) || n == "0" || n == "<nil>" {
		t.Errorf("%s", body)
	}
	if status, body := ask(t, f.handler(nil), "GET", "/api/v1/profiles/nothing", ""); status != 404 || object(t, body)["Code"] != "profile_unknown" {
		t.Errorf("%d %s", status, body)
	}
	if p, _ := f.snapshot.Profile("small"); !slices.Equal(p.Required(), nil) {
		t.Errorf("%v", p.Required())
	}
}
