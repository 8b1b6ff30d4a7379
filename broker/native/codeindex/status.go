package codeindex

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"berth/broker"
	"berth/broker/dispatch"
)

// Freshness is what an index may be called.
type Freshness string

// The words of contracts/native.md section 6.
const (
	Missing  Freshness = dispatch.IndexMissing  // there was never an index
	Fresh    Freshness = dispatch.IndexFresh    // of the commit that the branch stands on
	Stale    Freshness = dispatch.IndexStale    // of another one, or it cannot be told of which
	Failed   Freshness = dispatch.IndexError    // the last update failed, or the index cannot be read
	Updating Freshness = dispatch.IndexUpdating // an update runs
)

// Source is where an index comes from.
type Source struct {
	VesselID string
	URL      string
	Branch   string
}

// Built is what a finished index says of itself.
type Built struct {
	Commit    string
	IndexedAt time.Time
	Documents int
	Chunks    int
	Skipped   map[string]int // files that are not in it, by reason
}

// ErrNone is an index that was never built.
var ErrNone = errors.New("the vessel has no code index")

// ErrUnreadable is an index that turned out to be damaged.
var ErrUnreadable = errors.New("it is damaged")

// Progress is how far an update is. Total is 0 until it is known.
type Progress struct {
	Stage       string
	Done, Total int
}

// Index keeps the indexes of vessels. Implementations are safe for concurrent
// use.
type Index interface {
	// Built describes the finished index of a vessel; ErrNone: there is none.
	Built(vesselID string) (Built, error)
	// Current gives the commit on which the branch stands, as far as it can be
	// told without asking another host.
	Current(ctx context.Context, from Source) (string, error)
	// Update brings the index to what the branch is now. A failure leaves the
	// finished index as it was. warnings are what went wrong on the way.
	Update(ctx context.Context, from Source, now func() time.Time, tell func(Progress)) (built Built, warnings []string, err error)
	// Search gives the best chunks, best first, and the index that they are of.
	// After ErrUnreadable Built fails too, and Update makes the index anew.
	Search(ctx context.Context, vesselID string, q *Query, only Filter) ([]Hit, Built, error)
}

// Filter narrows a search.
type Filter struct {
	PathPrefix string
	Language   string
	Reference  bool // also what is for reference only
	Limit      int
}

// Hit is a chunk that was found.
type Hit struct {
	Score         int
	Path          string
	Language      string
	Start, End    int
	Content       string
	ReferenceOnly bool
}

// kind is the records' kind: what is known of the last update of a vessel that
// does not stand in its index.
const kind = "codeIndex"

type outcome struct {
	VesselID  string    `json:"VesselId"`
	Commit    string    `json:"IndexedCommitSha"`
	LastError string    `json:"LastError"`
	Warnings  []string  `json:"Warnings"`
	EndedUTC  time.Time `json:"EndedUtc"`
}

func (f *Family) last(vesselID string) (outcome, error) {
	var o outcome
	stored, err := f.store.Record(kind, vesselID)
	if errors.Is(err, broker.ErrRecordNotFound) {
		return o, nil
	}
	if err != nil {
		return o, err
	}
	return o, json.Unmarshal(stored.Value, &o)
}

// Status is the answer of index_status.
type Status struct {
	VesselID      string         `json:"VesselId"`
	VesselName    string         `json:"VesselName"`
	DefaultBranch string         `json:"DefaultBranch"`
	Indexed       *string        `json:"IndexedCommitSha"`
	Current       *string        `json:"CurrentCommitSha"`
	IndexedAtUTC  *string        `json:"IndexedAtUtc"`
	Freshness     Freshness      `json:"Freshness"`
	InProgress    bool           `json:"UpdateInProgress"`
	Stage         *string        `json:"UpdateStage"`
	Heartbeat     *string        `json:"UpdateHeartbeatUtc"`
	Done          *int           `json:"UpdateProgressDone"`
	Total         *int           `json:"UpdateProgressTotal"`
	Percent       *int           `json:"UpdateProgressPercent"`
	Documents     *int           `json:"DocumentCount"`
	Chunks        *int           `json:"ChunkCount"`
	Semantic      bool           `json:"UseSemanticSearch"`
	LastError     *string        `json:"LastError"`
	Skipped       map[string]int `json:"SkippedFiles"`
	Warnings      []string       `json:"Warnings"`
}

// searchable says whether a search may read the index; finished: there is one.
func (s Status) searchable() bool {
	return s.Indexed != nil && (s.Freshness == Fresh || s.Freshness == Stale || s.Freshness == Updating)
}

func source(v dispatch.Vessel) Source { return Source{v.ID, v.RepoURL, v.DefaultBranch} }

// Status tells what there is of a vessel's index.
func (f *Family) status(ctx context.Context, v dispatch.Vessel) (Status, error) {
	s := Status{VesselID: v.ID, VesselName: v.Name, DefaultBranch: v.DefaultBranch, Skipped: map[string]int{}, Warnings: []string{}}
	last, err := f.last(v.ID)
	if err != nil {
		return s, err
	}
	built, err := f.index.Built(v.ID)
	broken := ""
	switch {
	case err == nil:
		at := broker.FormatTime(built.IndexedAt)
		s.Indexed, s.IndexedAtUTC, s.Documents, s.Chunks = &built.Commit, &at, &built.Documents, &built.Chunks
		if built.Skipped != nil {
			s.Skipped = built.Skipped
		}
	case errors.Is(err, ErrNone):
	default:
		broken = "The index cannot be read: " + err.Error()
	}
	current, err := f.index.Current(ctx, source(v))
	if err == nil {
		s.Current = &current
	} else if ctx.Err() != nil {
		return s, ctx.Err()
	}
	if last.Warnings != nil {
		s.Warnings = last.Warnings
	}
	if last.LastError != "" && !(s.Indexed != nil && built.IndexedAt.After(last.EndedUTC)) {
		broken = last.LastError
	}
	if broken != "" {
		s.LastError = &broken
	}
	f.running(v.ID, &s)
	switch {
	case s.InProgress:
		s.Freshness = Updating
	case broken != "":
		s.Freshness = Failed
	case s.Indexed == nil:
		s.Freshness = Missing
	case s.Current != nil && *s.Current == *s.Indexed:
		s.Freshness = Fresh
	default:
		s.Freshness = Stale
	}
	return s, nil
}

// Freshness is what there is of a vessel's index, for who is about to dispatch
// work on it (berth/broker/dispatch.CheckIndex).
func (f *Family) Freshness(ctx context.Context, v dispatch.Vessel) (dispatch.IndexState, error) {
	s, err := f.status(ctx, v)
	if err != nil {
		return dispatch.IndexState{}, err
	}
	state := dispatch.IndexState{Freshness: string(s.Freshness)}
	f.mu.Lock()
	defer f.mu.Unlock()
	if u := f.updates[v.ID]; u != nil {
		state.JobID = u.job
	}
	return state, nil
}
