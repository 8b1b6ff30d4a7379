package codeindex

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"berth/broker"
	"berth/broker/dispatch"
	"berth/broker/native"
)

// CaptainSearch is what the agents of missions may do with mission_code_search.
type CaptainSearch struct {
	Disabled   bool
	MaxResults int // of one call; 0: 10
	MaxCalls   int // of one mission; 0: 40
}

// missionWithin is how long one call may take, so that it never becomes a job.
const missionWithin = 20 * time.Second

// The reasons of an unavailable answer beside those of an index, in the order in
// which they are looked for.
const (
	notValid         = "invalid"
	notEnabled       = "disabled"
	missionNotFound  = "mission_not_found"
	missionNotActive = "mission_not_active"
	noVessel         = "no_vessel"
	noBudget         = "budget"
	failed           = "exception"
)

// notAvailable is the answer of a call that did not search.
type notAvailable struct {
	Available bool       `json:"Available"` // false
	Reason    string     `json:"UnavailableReason"`
	Message   string     `json:"Message"`
	Readiness *readiness `json:"Readiness,omitempty"`
}

func because(reason, message string) *notAvailable {
	return &notAvailable{Reason: reason, Message: message}
}

type missionHit struct {
	Score     int     `json:"Score"`
	Path      string  `json:"Path"`
	StartLine int     `json:"StartLine"`
	EndLine   int     `json:"EndLine"`
	Language  string  `json:"Language"`
	Excerpt   string  `json:"Excerpt"`
	Content   *string `json:"Content"`
}

type missionIndex struct {
	Freshness Freshness `json:"Freshness"`
	Commit    string    `json:"IndexedCommitSha"`
	Semantic  bool      `json:"SemanticSearch"`
}

type missionSearched struct {
	Available bool         `json:"Available"` // true
	VesselID  string       `json:"VesselId"`
	Index     missionIndex `json:"Index"`
	Results   []missionHit `json:"Results"`
	Warnings  []string     `json:"Warnings"`
	Used      int          `json:"CallsUsed"`
	Max       int          `json:"MaxCallsPerMission"`
}

// missionEntry is the verb that every role sees: what may be searched is the
// mission's vessel, and nothing that a caller names. Its arguments are judged
// here and not by the schema, because it answers every call.
func (f *Family) missionEntry() native.Verb {
	return native.Verb{Name: "mission_code_search", Effects: broker.Read, Answer: f.missionVerb,
		Entry: `{"name":"mission_code_search","title":"Search the code of a mission","description":"Search the code index of the repository that your mission works on, for names and words. Give missionId and query. A name is found in any spelling, whole or by its parts, its definition first. A mission has a number of calls. Always answers; Available says whether it searched.","inputSchema":{"type":"object","properties":{"missionId":{"type":"string","description":"Your mission (BERTH_MISSION_ID). Needed."},"query":{"type":"string","description":"Names or words. Needed."},"limit":{"type":"integer","description":"How many hits."},"pathPrefix":{"type":"string","description":"Only files below it."},"language":{"type":"string","description":"Only files of it, such as go or python."},"includeContent":{"type":"boolean","default":false,"description":"The whole text of each hit."}}}}`}
}

type missionAsk struct {
	MissionID string `json:"missionId"`
	Query     string `json:"query"`
	Limit     *int   `json:"limit"`
	Prefix    string `json:"pathPrefix"`
	Language  string `json:"language"`
	Content   bool   `json:"includeContent"`
}

func (f *Family) missionVerb(ctx context.Context, ask native.Ask) (any, error) {
	limited, done := f.opts.within(ctx, missionWithin)
	defer done()
	answer, not, err := f.missionSearch(limited, ask)
	switch {
	case err == nil && not == nil:
		return answer, nil
	case err == nil:
		return not, nil
	case ctx.Err() != nil: // whoever asked has gone
		return nil, err
	case limited.Err() != nil:
		return because(failed, "The search took too long; ask for less, or again later."), nil
	}
	if f.opts.Log != nil {
		f.opts.Log.Error("a search of a mission failed", slog.String("verb", "mission_code_search"), slog.String("call", ask.Call.ID), slog.String("cause", err.Error()))
	}
	return because(failed, "The search failed; the broker's log has the cause."), nil
}

func (f *Family) missionSearch(ctx context.Context, ask native.Ask) (*missionSearched, *notAvailable, error) {
	args, not := missionArguments(ask.Arguments)
	if not != nil {
		return nil, not, nil
	}
	if f.opts.Captains.Disabled {
		return nil, because(notEnabled, "An operator has switched the search of missions off."), nil
	}
	v, not, err := f.missionVessel(ask.Call.Principal, args.MissionID)
	if not != nil || err != nil {
		return nil, not, err
	}
	used, ok := f.spend(args.MissionID)
	if !ok {
		return nil, because(noBudget, fmt.Sprintf("The mission has used its %d searches; read the files in your worktree instead.", f.opts.Captains.MaxCalls)), nil
	}
	searched := false
	defer func() {
		if !searched { // only calls that search count
			f.refund(args.MissionID)
		}
	}()
	status, err := f.status(ctx, v)
	if err != nil {
		return nil, nil, err
	}
	if !status.searchable() {
		return nil, f.unsearchable(ctx, v, status, ask.Now), nil
	}
	q := ParseQuery(cut(args.Query, maxQuery))
	hits, built, status, err := f.search(ctx, v, status, &q, filter(args.Prefix, args.Language, false, clamp(args.Limit, f.opts.Captains.MaxResults, f.opts.Captains.MaxResults)))
	if err != nil {
		return nil, nil, err
	}
	if !status.searchable() {
		return nil, f.unsearchable(ctx, v, status, ask.Now), nil
	}
	searched = true
	out := &missionSearched{Available: true, VesselID: v.ID, Index: missionIndex{status.Freshness, built.Commit, status.Semantic}, Results: make([]missionHit, 0, len(hits)),
		Warnings: status.warnings(built.Commit), Used: used, Max: f.opts.Captains.MaxCalls}
	for _, h := range hits {
		hit := missionHit{Score: h.Score, Path: h.Path, StartLine: h.Start, EndLine: h.End, Language: h.Language, Excerpt: q.Excerpt(h.Content)}
		if args.Content {
			hit.Content = &h.Content
		}
		out.Results = append(out.Results, hit)
	}
	return out, nil, nil
}

func missionArguments(raw json.RawMessage) (args missionAsk, not *notAvailable) {
	if err := json.Unmarshal(raw, &args); err != nil {
		return args, because(notValid, "The arguments cannot be read.")
	}
	args.MissionID, args.Query = strings.TrimSpace(args.MissionID), strings.TrimSpace(args.Query)
	switch {
	case args.MissionID == "":
		return args, because(notValid, "missionId is missing: name your mission.")
	case args.Query == "":
		return args, because(notValid, "query is missing: say what to look for.")
	case !known(args.Language):
		return args, because(notValid, "language is none that the index knows; it knows "+strings.Join(Languages(), ", ")+".")
	}
	return args, nil
}

// missionVessel is the vessel of a mission that the caller may know of and that
// an agent works on. Whoever comes with a launch token knows its own mission
// only.
func (f *Family) missionVessel(who broker.Principal, id string) (v dispatch.Vessel, not *notAvailable, err error) {
	kept, err := dispatch.Read[dispatch.Mission](f.opts.Missions, id)
	m := kept.Value
	switch {
	case errors.Is(err, broker.ErrRecordNotFound), err == nil && (!m.Readable(who) || who.Mission != "" && who.Mission != id):
		return v, because(missionNotFound, "Mission not found"), nil
	case err != nil:
		return v, nil, err
	case !m.Status.Live():
		return v, because(missionNotActive, "No agent works on this mission at the moment ("+string(m.Status)+")."), nil
	}
	v, err = f.vessels.Vessel(who, m.VesselID)
	var refusal *broker.Refusal
	if errors.As(err, &refusal) {
		return v, because(noVessel, "The mission has no vessel that could be searched."), nil
	}
	return v, nil, err
}

// warnings says what a search by this index cannot promise.
func (s Status) warnings(commit string) []string {
	out := []string{}
	if s.Freshness == Stale {
		at := "it is not known where the branch stands"
		if s.Current != nil {
			at = "the branch stands on " + *s.Current
		}
		out = append(out, "The index is of commit "+commit+"; "+at+".")
	}
	if s.Freshness == Updating {
		out = append(out, "The index is of commit "+commit+"; an update runs.")
	}
	if !s.Semantic {
		out = append(out, "The search is by names and words; there is no search by meaning.")
	}
	return out
}

// maxCounted is of how many missions the calls are counted; of more, those that
// began first are forgotten.
const maxCounted = 4096

// calls counts the searches of missions.
type calls struct {
	used  map[string]int // by mission
	began []string       // missions, in the order of their first
}

// spend takes one call of a mission's budget; false: it is used up.
func (f *Family) spend(mission string) (used int, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := &f.calls
	n, known := c.used[mission]
	if n >= f.opts.Captains.MaxCalls {
		return n, false
	}
	if !known {
		if c.used == nil {
			c.used = map[string]int{}
		}
		if len(c.began) >= maxCounted {
			delete(c.used, c.began[0])
			c.began = c.began[1:]
		}
		c.began = append(c.began, mission)
	}
	c.used[mission] = n + 1
	return n + 1, true
}

func (f *Family) refund(mission string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.calls.used[mission] > 0 {
		f.calls.used[mission]--
	}
}

// kindSilent is the records' kind: that an index could not serve a mission, so
// that it is told once in an hour.
const kindSilent = "codeIndexUnavailable"

const tellEvery = time.Hour

// unsearchable answers a search that no index can serve, and tells of it.
func (f *Family) unsearchable(ctx context.Context, v dispatch.Vessel, s Status, now time.Time) *notAvailable {
	reason, ready := s.unready()
	message := "This vessel has no code index."
	switch {
	case reason == indexError:
		message, ready.Remedy = "This vessel's code index cannot be searched.", "An operator removes the cause (LastError of index_status) and runs index_update for this vessel."
	case s.Freshness == Updating:
		message = "This vessel's first code index is being built."
	default:
		ready.Remedy = "An operator runs index_update for this vessel."
	}
	if s.Freshness != Updating {
		if err := f.tell(ctx, v, reason, ready, now); err != nil && f.opts.Log != nil {
			f.opts.Log.Warn("a search without an index could not be recorded", slog.String("cause", err.Error()))
		}
	}
	return &notAvailable{Reason: reason, Message: message, Readiness: &ready}
}

// tell records that an index could not serve, unless that was done within the
// hour. Of two that come together one wins.
func (f *Family) tell(ctx context.Context, v dispatch.Vessel, reason string, ready readiness, now time.Time) error {
	before, err := f.store.Record(kindSilent, v.ID)
	switch {
	case errors.Is(err, broker.ErrRecordNotFound):
		before.Revision = 0
	case err != nil:
		return err
	case before.Expires.After(now):
		return nil
	}
	value, err := json.Marshal(map[string]any{"UnavailableReason": reason, "ToldUtc": broker.FormatTime(now)})
	if err != nil {
		return err
	}
	payload, err := json.Marshal(map[string]any{"UnavailableReason": reason, "Freshness": ready.Freshness, "Remedy": ready.Remedy})
	if err != nil {
		return err
	}
	_, err = f.store.Put(ctx, broker.RecordChange{Kind: kindSilent, ID: v.ID, If: broker.AtRevision(before.Revision), Value: value, Expires: now.Add(tellEvery),
		Events: []broker.Event{{EventType: "code_index.search_unavailable", EntityType: "vessel", EntityID: v.ID, VesselID: v.ID, TenantID: v.TenantID,
			Message: "A mission could not search the code of " + v.Name + " (" + reason + "). " + ready.Remedy, Payload: payload}}})
	if errors.Is(err, broker.ErrRecordRevision) {
		return nil // another call told it
	}
	return err
}
