package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"berth/broker"
	"berth/broker/dispatch"
	"berth/broker/native"
)

// The kinds of the records.
const (
	kindVessel  = "vessel"
	kindCaptain = "captain"
	kindMission = "mission"
	kindName    = "captainName" // id: tenant and name
)

// Store keeps records; *journal.Journal satisfies it.
type Store interface {
	Put(ctx context.Context, c broker.RecordChange) (broker.Record, error)
	Record(kind, id string) (broker.Record, error)
	Records(q broker.RecordQuery) ([]broker.Record, error)
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
	// RemoveClone removes what the broker itself cloned for a vessel, and gives
	// a warning when something is left.
	RemoveClone(ctx context.Context, vesselID string) (warning string)
}

// Options is what the family needs. All are required.
type Options struct {
	native.Options
	Random  io.Reader // of ids
	Secrets Secrets
	Places  Places
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
	f := &Family{store: store, opts: opts}
	return f.with(slices.Concat(f.vesselVerbs(), f.captainVerbs()))
}

// NewVessels makes the family of a broker that dispatches nothing: the verbs of
// vessels alone.
func NewVessels(store Store, opts Options) *Family {
	f := &Family{store: store, opts: opts}
	return f.with(f.vesselVerbs())
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

func quoted(s string) string {
	raw, _ := json.Marshal(s) // text
	return string(raw)
}

// record is what the family keeps: one of the types of berth/broker/dispatch.
type record interface {
	dispatch.Vessel | dispatch.Captain | dispatch.Mission
}

// read gives a record that the caller may know of; another's reads as one that
// never existed.
func read[R record](f *Family, kind, id string, who broker.Principal, owner func(R) dispatch.Owner, missing broker.Code) (r R, revision uint64, err error) {
	stored, err := f.store.Record(kind, id)
	switch {
	case errors.Is(err, broker.ErrRecordNotFound):
		return r, 0, notFound(kind, missing, id)
	case err != nil:
		return r, 0, unreadable(err)
	}
	if err := json.Unmarshal(stored.Value, &r); err != nil {
		return r, 0, unreadable(err)
	}
	if !owner(r).Readable(who) {
		return r, 0, notFound(kind, missing, id)
	}
	return r, stored.Revision, nil
}

// maxEcho is how much of an id that names nothing is repeated, in bytes.
const maxEcho = 64

func notFound(kind string, code broker.Code, id string) *broker.Refusal {
	if len(id) > maxEcho {
		id = strings.ToValidUTF8(id[:maxEcho], "") + "..."
	}
	word := strings.ToUpper(kind[:1]) + kind[1:]
	return broker.Refuse(code, word+" not found", map[string]any{word + "Id": id})
}

// unreadable refuses what the journal could not give or take. The cause is the
// log's.
func unreadable(err error) error { return fmt.Errorf("the journal: %w", err) }

// newID makes an id of a kind.
func (f *Family) newID(prefix string, now time.Time) (string, error) {
	return broker.NewID(prefix, now, f.opts.Random)
}

// put writes a record at the revision that was read; 0: it is new.
func put[R record](ctx context.Context, f *Family, kind, id string, revision uint64, r R, keys []string, events ...broker.Event) error {
	value, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode the %s: %w", kind, err)
	}
	_, err = f.store.Put(ctx, broker.RecordChange{Kind: kind, ID: id, If: &revision, Value: value, Keys: keys, Events: events})
	return err
}

// tries is how often a change is made again that met a newer record.
const tries = 8

// change reads a record, has it changed, and writes it where it was read.
func change[R record](ctx context.Context, f *Family, kind, id string, get func() (R, uint64, error), step func(R) (R, []broker.Event, error), keys func(R) []string) (R, error) {
	for try := 1; ; try++ {
		r, revision, err := get()
		if err != nil {
			return r, err
		}
		next, events, err := step(r)
		if err != nil {
			return r, err
		}
		err = put(ctx, f, kind, id, revision, next, keys(next), events...)
		if err == nil || try == tries || !errors.Is(err, broker.ErrRecordRevision) {
			return next, err
		}
	}
}

// remove deletes a record where it was read.
func (f *Family) remove(ctx context.Context, kind, id string, revision uint64, event broker.Event) error {
	_, err := f.store.Put(ctx, broker.RecordChange{Kind: kind, ID: id, If: &revision, Events: []broker.Event{event}})
	return err
}

// event tells of a change of a record.
func event(word, kind, id string, owner dispatch.Owner, who broker.Principal, message string) broker.Event {
	payload, _ := json.Marshal(map[string]string{"By": who.Key()}) // text
	return broker.Event{EventType: kind + "." + word, EntityType: kind, EntityID: id, TenantID: owner.TenantID, Message: message, Payload: payload}
}

// deletion is the answer to the deletion of many (contracts/native.md section 1.11).
type deletion struct {
	Status  string    `json:"Status"`
	Deleted int       `json:"Deleted"`
	Skipped []skipped `json:"Skipped"`
}

type skipped struct {
	ID     string `json:"Id"`
	Reason string `json:"Reason"`
}

// deleteMany deletes one after the other; one that cannot be deleted does not
// stop the rest.
func deleteMany(ctx context.Context, ask native.Ask, one func(ctx context.Context, who broker.Principal, id string) error) (any, error) {
	var args struct {
		IDs []string `json:"ids"`
	}
	if err := ask.Decode(&args); err != nil {
		return nil, err
	}
	out := deletion{Status: "Deleted", Skipped: []skipped{}}
	for _, id := range args.IDs {
		err := one(ctx, ask.Call.Principal, id)
		var refusal *broker.Refusal
		switch {
		case err == nil:
			out.Deleted++
		case errors.As(err, &refusal):
			out.Skipped = append(out.Skipped, skipped{id, string(refusal.Code)})
		default:
			return nil, err
		}
	}
	switch {
	case out.Deleted == 0:
		out.Status = "NoneDeleted"
	case len(out.Skipped) > 0:
		out.Status = "PartiallyDeleted"
	}
	return out, nil
}

// idsEntry is the schema of the deletion of many.
var idsProperty = property{"*ids", `{"type":"array","items":{"type":"string"},"minItems":1,"maxItems":500,"description":"The ids, each deleted by itself."}`}

// notBuilt refuses arguments that the contract has and this build does not.
func notBuilt(names ...string) *broker.Refusal {
	return broker.Refuse(broker.CodeNotBuilt, "This build has no "+strings.Join(names, ", ")+"; nothing was written.", map[string]any{"Arguments": names})
}
