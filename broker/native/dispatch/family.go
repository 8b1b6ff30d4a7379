package dispatch

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"berth/broker"
	"berth/broker/catalog"
	"berth/broker/dispatch"
	"berth/broker/native"
)

// Store keeps records and lists jobs; *journal.Journal satisfies it.
type Store interface {
	dispatch.Reader
	// CountRecords counts what Records would list, as far as the query's limit.
	CountRecords(q broker.RecordQuery) (int, error)
	PutAll(ctx context.Context, changes ...broker.RecordChange) ([]broker.Record, error)
	Jobs(f broker.JobFilter) (broker.JobPage, error)
}

// Secrets keeps credentials by name; an empty one is deleted. Has never reads
// one.
type Secrets interface {
	SetSecret(name, value string) error
	HasSecret(name string) bool
}

// Places is what the family asks of the file system.
type Places interface {
	// LocalClone gives the directory of a repository that a path or file URL
	// leads to; false: there is none.
	LocalClone(url string) (dir string, ok bool)
	// FileSize is how many bytes a file has, a link followed to where it leads;
	// zero: there is none now, or it cannot be looked at.
	FileSize(path string) int64
	// RemoveClone removes the bare clone of a vessel, also one at its LocalPath,
	// and gives a warning for each thing that is left.
	RemoveClone(ctx context.Context, v dispatch.Vessel) (warnings []string)
}

// Runner carries missions out. What a caller may see was looked at before it is
// asked; what a state allows it judges itself and refuses.
type Runner interface {
	// Wake says that records have changed. It never blocks.
	Wake()
	// CancelMission kills the mission's process, then ends it Cancelled; one that
	// is Cancelled already is given as it is.
	CancelMission(ctx context.Context, by broker.Principal, id string) (dispatch.Mission, error)
	// CancelVoyage ends a voyage and gives the missions that it cancelled.
	CancelVoyage(ctx context.Context, by broker.Principal, id string, reason dispatch.FailureReason) (dispatch.Voyage, []string, error)
	// StopCaptain ends what a captain works on.
	StopCaptain(ctx context.Context, by broker.Principal, id string) error
	// StopAll is StopCaptain of each; failed has, by captain, what did not work.
	StopAll(ctx context.Context, by broker.Principal) (stopped int, failed map[string]error)
	// RetryLanding lands a mission again and gives it as it ended.
	RetryLanding(ctx context.Context, by broker.Principal, id string) (dispatch.Mission, error)
	// Running reports whether a process of a mission is there, or a step of its
	// procedure goes on.
	Running(missionID string) bool
	// Reclaim removes the worktree of a dock.
	Reclaim(ctx context.Context, by broker.Principal, dockID string) error
	// Repair makes the worktree of a dock anew from its branch. A
	// *dispatch.Fault start_from_ref_missing says that the branch is gone.
	Repair(ctx context.Context, by broker.Principal, dockID string) (dispatch.Dock, error)
}

// Papers is what is kept of missions in files, and read from their docks.
type Papers interface {
	// Log gives lines of a mission's log from a line on, how many they are and
	// how many there are in all; nothing when there is no log.
	Log(missionID string, offset, lines int) (text string, got, total int, err error)
	// Diff is the saved one; false: none is.
	Diff(missionID string) (text string, ok bool, err error)
	// LiveDiff is what a dock has now that a commit has not.
	LiveDiff(ctx context.Context, v dispatch.Vessel, d dispatch.Dock, since string) (text string, err error)
	// Output is the agent's final message, or what there is of it while it works.
	Output(missionID string) (text string, finalized bool, err error)
	// Remove removes what is kept of a mission.
	Remove(missionID string) error
	DockStatus(ctx context.Context, d dispatch.Dock) (status string, dirty bool, err error)
}

// Refs answers for the commits of a vessel's repository.
type Refs interface {
	// Resolve gives the commit that a branch, a tag or an id names. A
	// *dispatch.Fault start_from_ref_missing says that there is none; any other
	// error, that it could not be found out.
	Resolve(ctx context.Context, v dispatch.Vessel, ref string) (commit string, err error)
	// Landed reports whether a commit is in the history of the default branch.
	Landed(ctx context.Context, v dispatch.Vessel, commit string) (bool, error)
}

// Board is told of what others should know.
type Board interface {
	// Dispatched posts a note when others than the participant have claimed the
	// vessel. title is the voyage's.
	Dispatched(ctx context.Context, by broker.Principal, participant string, v dispatch.Vessel, title string) error
	// Restarted stores a progress signal that belongs to the mission's owner.
	Restarted(ctx context.Context, by broker.Principal, m dispatch.Mission) error
}

// Options is what the family needs. Random, Secrets and Places are required.
type Options struct {
	native.Options
	Random  io.Reader // of ids
	Secrets Secrets
	Places  Places

	// What missions are carried out with. Without Runner the family is that of
	// vessels alone; with it Papers and Within are required.
	Runner Runner
	Papers Papers
	Refs   Refs  // nil: nothing is known of commits
	Index  Index // nil: no code index is looked at
	Board  Board // nil: there is none
	// Hold refuses a dispatch while an operator holds it; nil never does.
	Hold func(operation string) *broker.Refusal
	// Within limits a context, as context.WithTimeout does.
	Within func(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc)
}

// Family is the native family dispatch.
type Family struct {
	*native.Verbs
	store Store
	opts  Options
}

// administrators are who may see and call every verb of the family.
var administrators = []broker.Role{broker.GlobalAdministrator}

// New makes the family.
func New(store Store, opts Options) *Family {
	f := newFamily(store, opts)
	return f.with(slices.Concat(f.vesselVerbs(), f.captainVerbs(), f.captainWorkVerbs(), f.dispatchVerbs(), f.voyageVerbs(), f.missionVerbs(), f.missionTextVerbs(), f.dockVerbs()))
}

// NewVessels makes the family of a broker that dispatches nothing: the verbs of
// vessels alone.
func NewVessels(store Store, opts Options) *Family {
	f := newFamily(store, opts)
	return f.with(f.vesselVerbs())
}

func newFamily(store Store, opts Options) *Family {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	now := opts.Now
	// As precise as every time that leaves Berth.
	opts.Now = func() time.Time { return now().UTC().Truncate(time.Millisecond) }
	return &Family{store: store, opts: opts}
}

func (f *Family) with(listed []native.Verb) *Family {
	var verbs []native.Verb
	for _, v := range listed {
		v.Aliases = []string{"armada_" + v.Name}
		v.Facts.Scope = administrators
		verbs = append(verbs, v)
	}
	f.Verbs = native.NewFamily("dispatch", f.opts.Options, verbs...)
	return f
}

// verb is one of the family, by its entry's parts.
func verb(effects broker.Effects, answer func(context.Context, native.Ask) (any, error), name, title, description string, properties ...property) native.Verb {
	return native.Verb{Name: name, Effects: effects, Answer: answer, Entry: entry(name, title, description, properties...), Facts: catalog.Facts{}}
}

// entry is the listed form of a verb. properties are the members of the
// schema's object; a required one begins its name with *.
func entry(name, title, description string, properties ...property) string {
	type schema struct {
		Type       string                     `json:"type"`
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required,omitempty"`
	}
	s := schema{Type: "object", Properties: map[string]json.RawMessage{}}
	for _, p := range properties {
		bare, required := strings.CutPrefix(p.name, "*")
		if required {
			s.Required = append(s.Required, bare)
		}
		s.Properties[bare] = json.RawMessage(p.schema)
	}
	raw, _ := json.Marshal(struct { // text and JSON of this package
		Name        string `json:"name"`
		Title       string `json:"title"`
		Description string `json:"description"`
		InputSchema schema `json:"inputSchema"`
	}{name, title, description, s})
	return string(raw)
}

type property struct{ name, schema string }

// text is a property of text; clears says that an empty one clears what is
// stored.
func text(name, description string) property {
	return property{name, `{"type":"string","description":` + quoted(description) + `}`}
}

func clearable(name, description string) property {
	return property{name, `{"type":"string","emptyStringClears":true,"description":` + quoted(description+" An empty string clears it.") + `}`}
}

func boolean(name, description string) property {
	return property{name, `{"type":"boolean","description":` + quoted(description) + `}`}
}

func integer(name, description string) property {
	return property{name, `{"type":"integer","description":` + quoted(description) + `}`}
}

func quoted(s string) string {
	raw, _ := json.Marshal(s) // text
	return string(raw)
}

// idsProperty is the schema of the deletion of many.
var idsProperty = property{"*ids", `{"type":"array","items":{"type":"string"},"maxItems":500,"description":"The ids, each deleted by itself."}`}

// notBuilt refuses arguments that the contract has and this build does not.
func notBuilt(names ...string) *broker.Refusal {
	return broker.Refuse(broker.CodeNotBuilt, "This build has no "+strings.Join(names, ", ")+"; nothing was written.", map[string]any{"Arguments": names})
}

// invalid refuses the value of an argument.
func invalid(argument, problem string) *broker.Refusal {
	return broker.Refuse(broker.CodeInvalid, "The argument "+argument+" "+problem+"; nothing was written.", map[string]any{"Argument": argument})
}

// idOf reads the id that a verb is about.
func idOf(ask native.Ask, argument string) (string, error) {
	var args map[string]json.RawMessage
	if err := ask.Decode(&args); err != nil {
		return "", err
	}
	var id string
	if err := json.Unmarshal(args[argument], &id); err != nil {
		return "", broker.Refuse(broker.CodeInvalidArguments, "The arguments do not fit this verb.", nil)
	}
	return strings.TrimSpace(id), nil
}
