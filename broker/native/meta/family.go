package meta

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"strings"
	"time"

	"berth/broker"
	"berth/broker/catalog"
	"berth/broker/catalog/help"
	"berth/broker/native"
	"berth/broker/policy/proof"
	"berth/broker/shape"
)

// Options is what the family needs. Now, Random, Store, Counter and Ledger are
// required.
type Options struct {
	Server    broker.ServerInfo
	Log       *slog.Logger // nil discards
	Version   string
	RuntimeID string // of this life of the broker
	Started   time.Time
	Now       func() time.Time
	Random    io.Reader // of handles

	// Store keeps what was cut, Counter counts parts of it, Costs the entries of
	// verbs; without Costs nothing is said of those.
	Store   *shape.Store
	Counter shape.Counter
	Costs   *shape.Costs
	Ledger  *Ledger

	// Standing says how a backend is and which life of it runs; nil: nothing is
	// said of it.
	Standing func(backend string) (availability, runtimeID string)
	// Proofs are the rules in force; nil: there are none.
	Proofs func() *proof.Rules
	// Delivered is told what was put with an answer when its last part is given
	// out; nil is not.
	Delivered func(then any)
	Routes    []help.OwnRoute
	// TierSource says where the tier of an endpoint without a profile comes from.
	Tier, TierSource string
}

// Family is the native family catalog, with health.
type Family struct {
	*native.Verbs
	opts Options
}

// New makes the family.
func New(opts Options) *Family {
	f := &Family{opts: opts}
	verbs := make([]native.Verb, 0, len(records))
	for _, r := range records {
		v := native.Verb{Name: r.name, Entry: r.entryJSON(), Effects: r.effects, Pass: r.pass, Facts: r.facts, Control: true, MergedOnly: true}
		if r.answer != nil {
			v.Answer = f.answering(r.answer)
		}
		verbs = append(verbs, v)
	}
	f.Verbs = native.NewFamily(catalog.FamilyCatalog, native.Options{RuntimeID: opts.RuntimeID, Server: opts.Server, Now: opts.Now, Log: opts.Log}, verbs...)
	return f
}

// ask is one call: the arguments, and who makes it.
type ask struct {
	arguments json.RawMessage
	profile   *catalog.Profile // as its caller sees it
	who       broker.Principal
	holder    string
	now       time.Time
}

// answering gives a verb's answer its place: the catalog as its caller sees it.
func (f *Family) answering(answer func(*Family, ask) (any, *broker.Refusal)) func(context.Context, native.Ask) (any, error) {
	return func(_ context.Context, a native.Ask) (any, error) {
		profile, placed := a.Call.Origin.Profile.(*catalog.Profile)
		if !placed { // nothing that came through policy ends here
			return nil, &broker.Failure{Cause: "the catalog family cannot answer a call from nowhere", Refusal: broker.Refuse(
				broker.CodeVerbUnknown, "Tool not found: "+a.Call.Verb, map[string]any{"name": a.Call.Verb})}
		}
		value, refusal := answer(f, ask{a.Arguments, profile, a.Call.Principal, a.Call.Origin.Holder, a.Now})
		if refusal != nil {
			return nil, refusal
		}
		return value, nil
	}
}

// decode reads arguments that their schema admits.
func decode(raw json.RawMessage, into any) *broker.Refusal {
	err := json.Unmarshal(raw, into)
	if number := (*json.UnmarshalTypeError)(nil); errors.As(err, &number) {
		return misfit("/"+strings.ToLower(strings.ReplaceAll(number.Field, ".", "/")), "type: wanted a number that is not as large")
	}
	if err != nil {
		return misfit("", "type: wanted arguments that fit the schema")
	}
	return nil
}

// misfit refuses an argument in the form of native verbs.
func misfit(path, problem string) *broker.Refusal {
	return broker.Refuse(broker.CodeInvalidArguments, "The arguments do not fit this verb.",
		map[string]any{"Violations": []map[string]string{{"Path": path, "Problem": problem}}})
}

func (f *Family) availability(v *catalog.Verb) string {
	if v.Changed != "" {
		return "changed"
	}
	if f.opts.Standing == nil {
		return "ready"
	}
	availability, _ := f.opts.Standing(v.Backend)
	return availability
}
