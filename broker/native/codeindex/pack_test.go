package codeindex_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"berth/broker"
	"berth/broker/dispatch"
	"berth/broker/native"
	"berth/broker/native/codeindex"
	"berth/broker/native/nativetest"
	"berth/broker/shape"
)

// wordCounter counts words, so that a test can say how many there are.
type wordCounter struct{}

func (wordCounter) Count(text string) shape.Count {
	return shape.Count{Tokens: len(strings.Fields(text)), Exact: true}
}

// hits has the index of a deck find these.
type hits struct {
	*deck
	found []codeindex.Hit
	after func()
}

func (h *hits) Search(ctx context.Context, _ string, _ *codeindex.Query, only codeindex.Filter) ([]codeindex.Hit, codeindex.Built, error) {
	h.only = only
	if h.after != nil {
		h.after()
	}
	if err := ctx.Err(); err != nil {
		return nil, codeindex.Built{}, err
	}
	return h.found[:min(len(h.found), only.Limit)], *h.built, nil
}

// packing makes a family whose index finds chunks of ten lines of three words.
func packing(t *testing.T, chunks int) *hits {
	h := &hits{deck: newDeck(t, codeindex.CaptainSearch{})}
	for i := range chunks {
		var lines []string
		for n := range 10 {
			lines = append(lines, fmt.Sprintf("line %d %d", i, n))
		}
		h.found = append(h.found, codeindex.Hit{Score: 50 - i, Path: fmt.Sprintf("f%d.go", i/2), Language: "go", Start: 1 + 10*i, End: 10 + 10*i, Content: strings.Join(lines, "\n") + "\n"})
	}
	h.family = codeindex.New(h.world, h, h, codeindex.Options{Options: native.Options{Now: func() time.Time { h.clock = h.clock.Add(time.Millisecond); return h.clock }},
		Counter: wordCounter{}, Within: context.WithTimeout})
	return h
}

type packAnswer struct {
	Goal, Markdown, UnavailableReason, Code, Action string
	EstimatedTokens                                 int
	Available                                       *bool
	Retryable                                       bool
	PrestagedFiles                                  []any
	Metrics                                         struct {
		TokenBudget, Found, Included, Cut, Files int
		Encoding, Freshness, IndexedCommitSha    string
		DurationMs                               *int
	}
	Warnings  []string
	Readiness *struct{ Remedy string }
}

func (h *hits) pack(arguments string) packAnswer {
	h.t.Helper()
	return decoded[packAnswer](h.t, nativetest.Call(h.t, h.family.Verbs, broker.LocalOperator, "context_pack", arguments))
}

func TestAPackHoldsWhatFitsTheGoalWithinItsBudget(t *testing.T) {
	h := packing(t, 6)
	p := h.pack(`{"vesselId":"vsl_a","goal":"Make  the\nlimiter faster","tokenBudget":1000}`)
	if p.EstimatedTokens != len(strings.Fields(p.Markdown)) || p.EstimatedTokens > 1000 || p.Metrics.Found != 6 || p.Metrics.Included != 6 || p.Metrics.Cut != 0 || p.Metrics.Files != 3 ||
		p.Metrics.Encoding != "o200k" || p.Metrics.IndexedCommitSha != "c1" || p.Metrics.Freshness != "Fresh" || p.Metrics.DurationMs == nil || p.Goal != "Make  the\nlimiter faster" || len(p.Warnings) != 1 || p.PrestagedFiles == nil {
		t.Errorf("%+v", p)
	}
	for _, want := range []string{"# Code for: Make the limiter faster\n", "at commit c1 (index: Fresh)", "\n## f0.go:1-10\n```go\nline 0 0\n", "\n## f2.go:51-60\n"} {
		if !strings.Contains(p.Markdown, want) {
			t.Errorf("no %q in\n%s", want, p.Markdown)
		}
	}
	if h.only != (codeindex.Filter{Limit: 20}) {
		t.Errorf("%+v", h.only)
	}
	small := h.pack(`{"vesselId":"vsl_a","goal":"Make the limiter faster","tokenBudget":90,"maxResults":500}`)
	if small.EstimatedTokens > 90 || small.Metrics.Included != 2 || small.Metrics.Cut != 1 || !strings.Contains(small.Markdown, "(cut; it goes on to line 20)") || len(small.Warnings) != 2 || !strings.Contains(small.Warnings[1], "4 of 6 parts") {
		t.Errorf("%+v\n%s", small, small.Markdown)
	}
	if h.only.Limit != 100 {
		t.Errorf("%+v", h.only)
	}
	if none := h.pack(`{"vesselId":"vsl_a","goal":"Make it","tokenBudget":1}`); none.Markdown != "" || none.EstimatedTokens != 0 || none.Metrics.Included != 0 {
		t.Errorf("%+v", none)
	}
}

func TestAPackOfNothingSaysSo(t *testing.T) {
	h := packing(t, 0)
	if p := h.pack(`{"vesselId":"vsl_a","goal":"x","tokenBudget":100}`); p.Metrics.Found != 0 || !strings.Contains(strings.Join(p.Warnings, " "), "Nothing in the index fits the goal.") {
		t.Errorf("%+v", p)
	}
}

func TestAFenceIsLongerThanThoseInTheCode(t *testing.T) {
	h := packing(t, 0)
	h.found = []codeindex.Hit{{Path: "a.md", Language: "markdown", Start: 1, End: 3, Content: "````\ncode\n````\n"}}
	if p := h.pack(`{"vesselId":"vsl_a","goal":"x","tokenBudget":100}`); !strings.Contains(p.Markdown, "\n`````markdown\n````\ncode\n````\n`````\n") {
		t.Errorf("%s", p.Markdown)
	}
}

func TestWithoutAnIndexThereIsNoPackButAWordOfWhy(t *testing.T) {
	h := packing(t, 3)
	h.built = nil
	p := h.pack(`{"vesselId":"vsl_a","goal":"x","tokenBudget":100}`)
	if p.Available == nil || *p.Available || p.UnavailableReason != "index_missing" || p.Readiness == nil || p.Code != "" || p.Goal != "x" {
		t.Errorf("%+v", p)
	}
	if _, why, err := h.family.Pack(t.Context(), dispatch.Vessel{ID: "vsl_a"}, "x", 100, 5); why != "index_missing" || err != nil {
		t.Errorf("%q %v", why, err)
	}
	h.built = indexed("c1", h.clock)
	if made, why, err := h.family.Pack(t.Context(), dispatch.Vessel{ID: "vsl_a", Name: "a"}, "x", 100, 5); why != "" || err != nil || !strings.Contains(made.Markdown, "f0.go") {
		t.Errorf("%+v %q %v", made, why, err)
	}
}

func TestAPackIsRefusedByItsArgumentsAndItsTime(t *testing.T) {
	for _, tt := range []struct{ arguments, code string }{
		{`{"goal":"x","tokenBudget":100}`, "missing_vessel_id"},
		{`{"vesselId":"vsl_x","goal":"x","tokenBudget":100}`, "vessel_not_found"},
		{`{"vesselId":"vsl_a","tokenBudget":100}`, "invalid_arguments"},
		{`{"vesselId":"vsl_a","goal":"  ","tokenBudget":100}`, "invalid_arguments"},
		{`{"vesselId":"vsl_a","goal":"x"}`, "invalid_arguments"},
		{`{"vesselId":"vsl_a","goal":"x","tokenBudget":"many"}`, "invalid_arguments"},
	} {
		if p := packing(t, 1).pack(tt.arguments); p.Code != tt.code {
			t.Errorf("%s: %+v, want %s", tt.arguments, p, tt.code)
		}
	}
	h := packing(t, 3)
	var limits []time.Duration
	h.family = codeindex.New(h.world, h, h, codeindex.Options{Options: native.Options{Now: func() time.Time { return h.clock }}, Counter: wordCounter{},
		Within: func(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
			limits = append(limits, d)
			return context.WithTimeout(ctx, 0)
		}})
	for _, timeout := range []string{"", `,"timeoutMs":5`, `,"timeoutMs":-5`, `,"timeoutMs":99999999999`} {
		p := h.pack(`{"vesselId":"vsl_a","goal":"x","tokenBudget":100` + timeout + `}`)
		if p.Code != "code_context_timeout" || p.Action == "" || !p.Retryable {
			t.Errorf("%q: %+v", timeout, p)
		}
	}
	if fmt.Sprint(limits) != "[2m0s 5ms 1ms 10m0s]" {
		t.Errorf("%v", limits)
	}
}

func TestAnIndexThatFailsUnderAPackIsNoTimeout(t *testing.T) {
	h := packing(t, 1)
	h.broken = nil
	h.deck.search = func(context.Context) error { return errors.New("it is damaged") }
	h.family = codeindex.New(h.world, h, h.deck, codeindex.Options{Options: native.Options{Now: func() time.Time { return h.clock }}, Counter: wordCounter{}, Within: context.WithTimeout})
	if p := h.pack(`{"vesselId":"vsl_a","goal":"x","tokenBudget":100}`); p.Code != "internal" {
		t.Errorf("%+v", p)
	}
}

// TestAnIndexThatIsDamagedUnderASearchCannotServeAnyVerb: the first call that
// meets it is answered as those after it are.
func TestAnIndexThatIsDamagedUnderASearchCannotServeAnyVerb(t *testing.T) {
	for verb, arguments := range map[string]string{
		"code_search": `{"vesselId":"vsl_a","query":"x"}`, "context_pack": `{"vesselId":"vsl_a","goal":"x","tokenBudget":100}`, "mission_code_search": aSearch,
	} {
		t.Run(verb, func(t *testing.T) {
			d := newDeck(t, codeindex.CaptainSearch{})
			d.search = func(context.Context) error {
				d.broken = fmt.Errorf("%w: a page is gone", codeindex.ErrUnreadable)
				return d.broken
			}
			for range 2 {
				a := decoded[packAnswer](t, nativetest.Call(t, d.family.Verbs, broker.LocalOperator, verb, arguments))
				if a.Available == nil || *a.Available || a.UnavailableReason != "index_error" || a.Readiness == nil || a.Code != "" {
					t.Errorf("%+v", a)
				}
			}
		})
	}
}

// However the chunks are cut and whatever the budget, a pack is within it and
// counts what it has.
func TestAPackNeverPassesItsBudget(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := packing(t, 0)
		for range rapid.IntRange(0, 8).Draw(rt, "chunks") {
			lines := rapid.SliceOfN(rapid.StringMatching("[a-z`]{0,5}( [a-z]{1,4}){0,6}"), 1, 30).Draw(rt, "lines")
			start := rapid.IntRange(1, 1000).Draw(rt, "start")
			h.found = append(h.found, codeindex.Hit{Path: rapid.StringMatching("[a-c]/[a-c].go").Draw(rt, "path"), Start: start, End: start + len(lines) - 1, Content: strings.Join(lines, "\n") + "\n"})
		}
		budget := rapid.IntRange(1, 300).Draw(rt, "budget")
		p := h.pack(fmt.Sprintf(`{"vesselId":"vsl_a","goal":"some goal","tokenBudget":%d}`, budget))
		if n := len(strings.Fields(p.Markdown)); n > budget || n != p.EstimatedTokens || p.Metrics.Included > p.Metrics.Found || p.Metrics.Included != strings.Count(p.Markdown, "\n## ") {
			rt.Fatalf("%d words of %d: %+v", n, budget, p)
		}
	})
}
