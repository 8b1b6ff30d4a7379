package codeindex

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strings"

	"berth/broker"
	"berth/broker/catalog/schema"
	"berth/broker/dispatch"
	"berth/broker/native"
)

type found struct {
	Score   int    `json:"Score"`
	Record  record `json:"Record"`
	Excerpt string `json:"Excerpt"`
}

type record struct {
	VesselID     string    `json:"VesselId"`
	Path         string    `json:"Path"`
	CommitSha    string    `json:"CommitSha"`
	ContentHash  string    `json:"ContentHash"`
	Language     string    `json:"Language"`
	StartLine    int       `json:"StartLine"`
	EndLine      int       `json:"EndLine"`
	Freshness    Freshness `json:"Freshness"`
	IndexedAtUTC string    `json:"IndexedAtUtc"`
	Reference    bool      `json:"IsReferenceOnly"`
	Content      *string   `json:"Content,omitempty"`
}

type searched struct {
	Status  Status  `json:"Status"`
	Query   string  `json:"Query"`
	Results []found `json:"Results"`
}

type unavailable struct {
	Status    Status    `json:"Status"`
	Query     string    `json:"Query"`
	Available bool      `json:"Available"`
	Reason    string    `json:"UnavailableReason"`
	Readiness readiness `json:"Readiness"`
}

type readiness struct {
	VesselID  string    `json:"VesselId"`
	Freshness Freshness `json:"Freshness"`
	Remedy    string    `json:"Remedy"`
}

// maxQuery bounds a query, in bytes.
const maxQuery = 1000

func (f *Family) searchVerb(ctx context.Context, ask native.Ask) (any, error) {
	var args struct {
		Query     string `json:"query"`
		Limit     *int   `json:"limit"`
		Prefix    string `json:"pathPrefix"`
		Language  string `json:"language"`
		Content   bool   `json:"includeContent"`
		Reference bool   `json:"includeReferenceOnly"`
	}
	if err := ask.Decode(&args); err != nil {
		return nil, err
	}
	v, err := f.vessel(ask.Call.Principal, ask.Arguments)
	if err != nil {
		return nil, err
	}
	text := strings.TrimSpace(args.Query)
	if text == "" {
		return nil, broker.Refuse(broker.CodeMissingQuery, "query is missing: say what to look for.", nil)
	}
	if !known(args.Language) {
		return nil, schema.Violated(schema.Violation{Pointer: "/language", Rule: "enum", Wanted: "one of " + strings.Join(Languages(), ", ")})
	}
	limit := clamp(args.Limit, 10, 100)
	status, err := f.status(ctx, v)
	if err != nil {
		return nil, err
	}
	if !status.searchable() {
		return notReady(status, args.Query), nil
	}
	q := ParseQuery(cut(text, maxQuery))
	hits, built, status, err := f.search(ctx, v, status, &q, filter(args.Prefix, args.Language, args.Reference, limit))
	if err != nil {
		return nil, err
	}
	if !status.searchable() {
		return notReady(status, args.Query), nil
	}
	out := searched{Status: status, Query: args.Query, Results: make([]found, 0, len(hits))}
	for _, h := range hits {
		sum := sha256.Sum256([]byte(h.Content))
		r := found{Score: h.Score, Excerpt: q.Excerpt(h.Content), Record: record{VesselID: v.ID, Path: h.Path, CommitSha: built.Commit, ContentHash: hex.EncodeToString(sum[:]), Language: h.Language,
			StartLine: h.Start, EndLine: h.End, Freshness: status.Freshness, IndexedAtUTC: broker.FormatTime(built.IndexedAt), Reference: h.ReferenceOnly}}
		if args.Content {
			r.Record.Content = &h.Content
		}
		out.Results = append(out.Results, r)
	}
	return out, nil
}

// search asks the index of a vessel. One that turns out to be damaged is what its
// status says from then on, and no failure.
func (f *Family) search(ctx context.Context, v dispatch.Vessel, s Status, q *Query, only Filter) ([]Hit, Built, Status, error) {
	hits, built, err := f.index.Search(ctx, v.ID, q, only)
	if !errors.Is(err, ErrUnreadable) {
		return hits, built, s, err
	}
	if s, wrong := f.status(ctx, v); wrong == nil && !s.searchable() {
		return nil, built, s, nil
	}
	return nil, built, s, err // another one has taken its place since
}

// known reports whether files can be of a language: a search in any other would
// find nothing, as if there were no such code. An empty name is every language.
func known(language string) bool {
	return language == "" || slices.Contains(Languages(), strings.ToLower(language))
}

// filter narrows a search as a caller writes it.
func filter(prefix, language string, reference bool, limit int) Filter {
	return Filter{PathPrefix: strings.TrimLeft(strings.TrimPrefix(prefix, "./"), "/"), Language: strings.ToLower(language), Reference: reference, Limit: limit}
}

// clamp is how many there may be: otherwise where nothing was said, else from 1 to most.
func clamp(n *int, otherwise, most int) int {
	if n == nil {
		return min(otherwise, most)
	}
	return min(max(*n, 1), most)
}

// notReady answers a search that no index can serve.
func notReady(s Status, query string) unavailable {
	reason, ready := s.unready()
	return unavailable{Status: s, Query: query, Reason: reason, Readiness: ready}
}

// The reasons for which an index cannot be searched.
const (
	indexMissing = "index_missing"
	indexError   = "index_error"
)

// unready says why an index cannot be searched and what helps.
func (s Status) unready() (reason string, out readiness) {
	reason, out = indexMissing, readiness{VesselID: s.VesselID, Freshness: s.Freshness, Remedy: "Run index_update for this vessel."}
	switch s.Freshness {
	case Failed:
		reason, out.Remedy = indexError, "Remove the cause (LastError of index_status) and run index_update for this vessel."
	case Updating:
		out.Remedy = "The first index_update of this vessel runs; search again when it has ended."
	}
	return reason, out
}

// Better orders hits: the higher score, then the path, then the line.
func Better(a, b Hit) int {
	return cmp.Or(cmp.Compare(b.Score, a.Score), strings.Compare(a.Path, b.Path), cmp.Compare(a.Start, b.Start))
}
