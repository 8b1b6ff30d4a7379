package codeindex

import (
	"context"
	"fmt"
	"strings"
	"time"

	"berth/broker"
	"berth/broker/dispatch"
	"berth/broker/native"
	"berth/broker/shape"
)

// The limits of a pack.
const (
	packResults    = 20 // chunks that are looked at, unless the caller says
	maxPackResults = 100
	maxPackTokens  = 200_000
	packTimeout    = 120 * time.Second
	maxPackTimeout = 10 * time.Minute
	maxGoal        = 4000 // bytes of a goal that stand in the pack
	minCut         = 5    // lines of a chunk that are worth showing
)

// Pack is code for a goal, as Markdown.
type Pack struct {
	Goal            string                   `json:"Goal"`
	Markdown        string                   `json:"Markdown"`
	EstimatedTokens int                      `json:"EstimatedTokens"`
	Prestaged       []dispatch.PrestagedFile `json:"PrestagedFiles"` // none: the text is in Markdown
	Metrics         PackMetrics              `json:"Metrics"`
	Warnings        []string                 `json:"Warnings"`
}

// PackMetrics is how a pack came about.
type PackMetrics struct {
	TokenBudget int       `json:"TokenBudget"`
	Encoding    string    `json:"Encoding"` // that the tokens are counted in
	Found       int       `json:"Found"`    // chunks
	Included    int       `json:"Included"` // of them, cut ones too
	Cut         int       `json:"Cut"`
	Files       int       `json:"Files"` // that they are of
	Freshness   Freshness `json:"Freshness"`
	Commit      string    `json:"IndexedCommitSha"`
	DurationMs  int64     `json:"DurationMs"`
}

// packUnavailable is the answer where no index can be searched.
type packUnavailable struct {
	Goal      string    `json:"Goal"`
	Available bool      `json:"Available"` // false
	Reason    string    `json:"UnavailableReason"`
	Readiness readiness `json:"Readiness"`
}

func (f *Family) packEntry() native.Verb {
	return native.Verb{Name: "context_pack", Effects: broker.Read, Answer: f.packVerb,
		Entry: `{"name":"context_pack","title":"Pack code for a goal","description":"The parts of a vessel's code that fit a goal best, as one Markdown text of at most a number of tokens. Chosen by the names and words of the goal, so name what it is about. Without an index the answer is unavailable and says what to do.","inputSchema":{"type":"object","properties":{` + vesselProperty +
			`,"goal":{"type":"string","description":"What is to be done, with the names that it is about."},"tokenBudget":{"type":"integer","description":"The most tokens of the text, by the broker's count."},"maxResults":{"type":"integer","default":20,"description":"How many parts are looked at, 1 to 100."},"timeoutMs":{"type":"integer","default":120000,"description":"How long it may take."}},"required":["vesselId","goal","tokenBudget"]}}`}
}

func (f *Family) packVerb(ctx context.Context, ask native.Ask) (any, error) {
	var args struct {
		Goal    string `json:"goal"`
		Budget  int    `json:"tokenBudget"`
		Results *int   `json:"maxResults"`
		Timeout *int   `json:"timeoutMs"`
	}
	if err := ask.Decode(&args); err != nil {
		return nil, err
	}
	v, err := f.vessel(ask.Call.Principal, ask.Arguments)
	if err != nil {
		return nil, err
	}
	timeout := packTimeout
	if args.Timeout != nil {
		timeout = min(max(time.Duration(*args.Timeout)*time.Millisecond, time.Millisecond), maxPackTimeout)
	}
	limited, done := f.opts.within(ctx, timeout)
	defer done()
	pack, not, err := f.pack(limited, v, args.Goal, min(max(args.Budget, 1), maxPackTokens), clamp(args.Results, packResults, maxPackResults))
	switch {
	case err != nil && ctx.Err() == nil && limited.Err() != nil:
		return nil, broker.Refuse(broker.CodeContextTimeout, fmt.Sprintf("The pack was not made within %d ms.", timeout.Milliseconds()),
			map[string]any{"VesselId": v.ID, "TimeoutMs": timeout.Milliseconds(), "Action": "Ask again with a larger timeoutMs or fewer maxResults, or go on without a pack."})
	case err != nil:
		return nil, err
	case not != nil:
		return not, nil
	}
	return pack, nil
}

// Pack is the pack of code for a goal, within a number of tokens. why says why
// there is none because the index cannot be searched; empty: there is one.
func (f *Family) Pack(ctx context.Context, v dispatch.Vessel, goal string, budget, results int) (pack Pack, why string, err error) {
	if f.opts.Counter == nil {
		return Pack{}, "this broker makes no packs", nil
	}
	made, not, err := f.pack(ctx, v, goal, budget, clamp(&results, packResults, maxPackResults))
	switch {
	case err != nil:
		return Pack{}, "", err
	case not != nil:
		return Pack{}, not.Reason, nil
	}
	return *made, "", nil
}

func (f *Family) pack(ctx context.Context, v dispatch.Vessel, goal string, budget, results int) (*Pack, *packUnavailable, error) {
	began := f.opts.Now()
	status, err := f.status(ctx, v)
	if err != nil {
		return nil, nil, err
	}
	if !status.searchable() {
		return nil, noPack(status, goal), nil
	}
	q := ParseQuery(cut(goalQuery(goal), maxQuery))
	hits, built, status, err := f.search(ctx, v, status, &q, filter("", "", false, results))
	if err != nil {
		return nil, nil, err
	}
	if !status.searchable() {
		return nil, noPack(status, goal), nil
	}
	w := packer{counter: f.opts.Counter, budget: budget}
	w.head(v, status, built.Commit, goal)
	files := map[string]bool{}
	for _, h := range hits {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		if w.add(h) {
			files[h.Path] = true
		}
	}
	text, tokens := w.text()
	out := &Pack{Goal: goal, Markdown: text, EstimatedTokens: tokens, Prestaged: []dispatch.PrestagedFile{}, Warnings: status.warnings(built.Commit),
		Metrics: PackMetrics{TokenBudget: budget, Encoding: shape.Encoding, Found: len(hits), Included: w.included, Cut: w.cut, Files: len(files), Freshness: status.Freshness,
			Commit: built.Commit, DurationMs: f.opts.Now().Sub(began).Milliseconds()}}
	switch {
	case len(hits) == 0:
		out.Warnings = append(out.Warnings, "Nothing in the index fits the goal.")
	case w.included < len(hits):
		out.Warnings = append(out.Warnings, fmt.Sprintf("%d of %d parts had no room within %d tokens.", len(hits)-w.included, len(hits), budget))
	}
	return out, nil, nil
}

// noPack is the answer when no index can serve one.
func noPack(s Status, goal string) *packUnavailable {
	reason, ready := s.unready()
	return &packUnavailable{Goal: goal, Reason: reason, Readiness: ready}
}

// packer puts parts together as long as there is room.
type packer struct {
	counter       shape.Counter
	budget        int
	parts         []string
	used          int
	included, cut int
}

func (w *packer) put(part string) bool {
	n := w.counter.Count(part).Tokens
	if w.used+n > w.budget {
		return false
	}
	w.parts, w.used = append(w.parts, part), w.used+n
	return true
}

// head is what stands before the code. Without room for it there is nothing.
func (w *packer) head(v dispatch.Vessel, s Status, commit, goal string) {
	short := cut(strings.Join(strings.Fields(goal), " "), maxGoal)
	full := "# Code for: " + short + "\n\nFrom " + v.Name + " at commit " + commit + " (index: " + string(s.Freshness) + "), chosen by names and words. Read the files themselves before you change them.\n"
	if !w.put(full) {
		w.put("# Code from " + v.Name + " at commit " + commit + "\n")
	}
}

// add puts a chunk in, or as many of its first lines as there is room for.
func (w *packer) add(h Hit) bool {
	lines := strings.Split(strings.TrimRight(h.Content, "\n"), "\n")
	if w.put(section(h, lines, len(lines))) {
		w.included++
		return true
	}
	low, high := 0, len(lines)-1 // as many as fit
	for low < high {
		mid := (low + high + 1) / 2
		if w.used+w.counter.Count(section(h, lines, mid)).Tokens <= w.budget {
			low = mid
		} else {
			high = mid - 1
		}
	}
	if low < minCut || !w.put(section(h, lines, low)) {
		return false
	}
	w.included, w.cut = w.included+1, w.cut+1
	return true
}

// section is the first lines of a chunk under a heading.
func section(h Hit, lines []string, n int) string {
	fence := "```"
	for strings.Contains(h.Content, fence) {
		fence += "`"
	}
	end, note := h.End, ""
	if n < len(lines) {
		end = h.Start + n - 1
		note = fmt.Sprintf(" (cut; it goes on to line %d)", h.End)
	}
	return fmt.Sprintf("\n## %s:%d-%d%s\n%s%s\n%s\n%s\n", h.Path, h.Start, end, note, fence, h.Language, strings.Join(lines[:n], "\n"), fence)
}

// text is the whole, and its tokens by the counter. What the whole has more than
// its parts goes at the end.
func (w *packer) text() (string, int) {
	for {
		text := strings.Join(w.parts, "")
		n := 0
		if text != "" {
			n = w.counter.Count(text).Tokens
		}
		if n <= w.budget || len(w.parts) == 0 {
			return text, n
		}
		w.parts = w.parts[:len(w.parts)-1]
		w.included = max(0, w.included-1)
	}
}
