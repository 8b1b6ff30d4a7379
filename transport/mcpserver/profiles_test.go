package mcpserver

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/actors"
	"berth/broker"
	"berth/broker/catalog"
	"berth/broker/shape"
	"berth/broker/shape/o200k"
)

// setProfiles gives the fake broker a catalog with a profile of the configuration.
func (b *fakeBroker) setProfiles(t testing.TB, sources ...catalog.Source) {
	settings := catalog.Settings{Costs: shape.NewCosts(o200k.Counter{}, nil), Profiles: []catalog.ProfileSpec{
		{Name: "editor", Required: []string{"job_status"}, Select: []catalog.Selector{{Backend: "fs", Verb: "a*"}}}}}
	snapshot, faults := settings.Build(1, sources)
	for _, f := range faults {
		t.Errorf("%+v", f)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.snapshot = snapshot
}

func essentialNative() catalog.Source {
	n := nativeSource()
	n.Facts = map[string]catalog.Facts{"job_status": {Essential: true}}
	return n
}

func namesIn(t *testing.T, response string) []string {
	t.Helper()
	var page struct {
		Result struct {
			Tools []struct{ Name string }
		}
	}
	if err := json.Unmarshal([]byte(response), &page); err != nil {
		t.Fatalf("%v in %s", err, response)
	}
	var names []string
	for _, tool := range page.Result.Tools {
		names = append(names, tool.Name)
	}
	return names
}

const listing = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`

func TestAPathNamesItsProfile(t *testing.T) {
	for _, tt := range []struct {
		name, tier, path string
		want             []string
	}{
		{"no tier", "", "/mcp", []string{"job_status"}},
		{"the essential tier", catalog.Essential, "/mcp", []string{"job_status"}},
		{"the full tier", catalog.Full, "/mcp", []string{"fs__add", "fs__slow", "job_status"}},
		{"essential by name, whatever the tier", catalog.Full, "/mcp/essential", []string{"job_status"}},
		{"full by name", "", "/mcp/full", []string{"fs__add", "fs__slow", "job_status"}},
		{"one of the configuration", "", "/mcp/editor", []string{"fs__add", "job_status"}},
		{"a backend", "", "/mcp/fs", []string{"add", "slow"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newFakeBroker(t)
				fs := fsSource()
				fs.Tools = slices.DeleteFunc(slices.Clone(fs.Tools), func(tool broker.Tool) bool { return tool.Name != "add" && tool.Name != "slow" })
				n := essentialNative()
				n.Beside = nil
				b.setProfiles(t, n, fs)
				f := serve(t, b, func(o *Options) { o.Tier = tt.tier })
				defer f.stop()
				if got := namesIn(t, f.ask(t, tt.path, "", listing)); !slices.Equal(got, tt.want) {
					t.Errorf("lists %v, want %v", got, tt.want)
				}
			})
		})
	}
}

func TestWhatAProfileHidesIsCalledByItsName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBroker(t)
		b.setProfiles(t, essentialNative(), fsSource())
		f := serve(t, b, func(o *Options) { o.Tier = "" })
		defer f.stop()
		for _, path := range []string{"/mcp", "/mcp/essential", "/mcp/editor", "/mcp/full"} {
			got := f.ask(t, path, "", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"fs__add","arguments":{"a":1}}}`)
			if strings.Contains(got, `"error"`) || !strings.Contains(got, `"result"`) {
				t.Errorf("%s: %s", path, got)
			}
		}
	})
}

func TestAnUnknownProfileIsNeverReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBroker(t)
		f := serve(t, b, nil)
		defer f.stop()
		for _, path := range []string{"/mcp/nothing", "/mcp/FULL", "/mcp/Essential"} {
			resp, err := f.post(t.Context(), path, "", listing)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusNotFound || !strings.Contains(string(body), "profile_unknown") || strings.Contains(string(body), "job_status") {
				t.Errorf("%s: %d %s", path, resp.StatusCode, body)
			}
		}
	})
}

func TestInstructionsAreTheSameInBothEras(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBroker(t)
		b.setProfiles(t, essentialNative(), fsSource())
		f := serve(t, b, func(o *Options) { o.Tier = "" })
		defer f.stop()
		p, _ := b.Catalog().Profile(catalog.Essential)
		quoted, _ := json.Marshal(p.Instructions())
		got := f.ask(t, "/mcp", "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`)
		if !strings.Contains(got, `"instructions":`+string(quoted)) {
			t.Errorf("initialize: %s", got)
		}
		if exact := f.ask(t, "/mcp/fs", "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`); !strings.Contains(exact, `"instructions":"Use fs with care."`) {
			t.Errorf("an exact profile: %s", exact)
		}
	})
}

// TestAnEssentialListDoesNotWaitForWhatItDoesNotShow: a backend that was never
// seen keeps nobody waiting for a list that cannot hold its verbs.
func TestAnEssentialListDoesNotWaitForWhatItDoesNotShow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBroker(t)
		b.setProfiles(t, essentialNative(), fsSource(), catalog.Source{Backend: "late"})
		f := serve(t, b, func(o *Options) { o.Tier = "" })
		defer f.stop()
		start := time.Now()
		got := f.ask(t, "/mcp", "", listing)
		if waited := time.Since(start); waited != 0 || !slices.Equal(namesIn(t, got), []string{"job_status"}) || strings.Contains(got, "berth/pending") {
			t.Errorf("after %s: %s", waited, got)
		}
	})
}

// TestOnlyAListThatDiffersIsToldOf: a verb that a session's profile does not
// list changes nothing for it.
func TestOnlyAListThatDiffersIsToldOf(t *testing.T) {
	for profile, told := range map[string]bool{"essential": false, "full": true} {
		t.Run(profile, func(t *testing.T) {
			inListen(t, nil, func(h *hears) {
				h.broker.setProfiles(t, essentialNative(), fsSource())
				h.listen(profile, `{"toolsListChanged":true}`)
				h.take()
				fs := fsSource()
				fs.Tools = append(slices.Clone(fs.Tools), tool("fresh", ""))
				h.broker.setProfiles(t, essentialNative(), fs)
				h.broker.publish(actors.Notice{Method: actors.CatalogChanged})
				elapse(3 * time.Second)
				if told {
					h.expect("another list", note("0.25", "tools/list_changed", `{`+subMark+`}`))
					return
				}
				h.expect("the same list")
			})
		})
	}
}
