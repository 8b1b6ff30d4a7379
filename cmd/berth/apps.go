package main

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"berth/actors"
	"berth/broker"
	"berth/broker/admission"
	"berth/broker/catalog"
	"berth/broker/config"
	localapp "berth/transport/app"
	"berth/transport/app/resmon"
)

// This file wires local apps: configured ones, and those that sessions bring.

// surfaces are the local apps that this build knows, by name.
var surfaces = map[string]func() *localapp.Surface{resmon.Name: resmon.Surface}

// How the work of an app is followed.
var (
	appPace = broker.Pace{First: 2 * time.Second, Most: 15 * time.Second, Factor: 1.5, Jitter: 0.2}
	appMost = 24 * time.Hour
)

// appSource is an app's part of the catalog.
func appSource(s *localapp.Surface, backend string, readOnly bool, settings config.Settings) catalog.Source {
	source := s.Source(backend, false) // what only reads lists less; the rest is refused by name
	source.Rules.ReadOnly, source.Rules.Essential, source.Rules.Line = readOnly, settings.Essential, settings.Instructions
	source.Surface = appContract(s)
	return source
}

// appContract is what the catalog knows of a surface besides its verbs.
func appContract(s *localapp.Surface) *catalog.Surface {
	contract := &catalog.Surface{Name: s.Name, Follows: map[string]*broker.Follow{}, Records: map[string]catalog.Records{}, Examples: map[string]json.RawMessage{},
		Refuse: func(verb string, r *broker.Refusal) json.RawMessage { return s.Refuse(verb, r) }}
	for i := range s.Tools {
		t := &s.Tools[i]
		if t.Held {
			contract.Held = append(contract.Held, t.Name)
		}
		if t.Example != nil {
			contract.Examples[t.Name] = t.Example
		}
		if t.Records != nil {
			contract.Records[t.Name] = catalog.Records{Split: t.Records, Fewer: t.Fewer}
		}
		if t.Tracks != nil {
			contract.Follows[t.Name] = follow(t.Tracks)
		}
	}
	return contract
}

func follow(t *localapp.Tracks) *broker.Follow {
	seen := func(p localapp.Poll) broker.Seen {
		return broker.Seen{Good: p.Good, Handle: p.Handle, End: p.End, Reason: broker.Code(p.Reason), Message: p.Message, Result: p.Result}
	}
	f := &broker.Follow{Verb: t.Verb, Arguments: t.Arguments, FindVerb: t.FindVerb, Pace: appPace, Most: appMost}
	f.Started = func(document json.RawMessage) (broker.Work, bool) {
		started, ok := t.Started(document)
		return broker.Work{Handle: started.Handle, Ticket: started.Ticket}, ok
	}
	f.Read = func(handle, runtimeID string, document json.RawMessage, isError bool) broker.Seen {
		return seen(t.Read(handle, runtimeID, document, isError))
	}
	f.Find = func(ticket, document json.RawMessage, isError bool) broker.Seen {
		if t.Find == nil {
			return broker.Seen{}
		}
		return seen(t.Find(ticket, document, isError))
	}
	return f
}

// addApp turns an entry of a local app into an actor's configuration and a
// source of the catalog.
func (b *running) addApp(opts *actors.Options, c config.Backend) {
	s := surfaces[c.Settings.App]()
	env := c.Env.Reveal()
	if c.Env == nil { // its own map, or the process's: never both
		env = b.environment(s)
	}
	readOnly := c.Settings.ReadOnly || s.ReadOnly(env)
	backend, upstream := b.appBackend(s, c.Name, localapp.Options{Env: env, ReadOnly: readOnly, MaxInFlight: c.Settings.MaxInFlight}, c.Settings)
	backend.Eager, backend.EnvNames = c.Settings.Start == config.Eager, c.Env.Names()
	source := appSource(s, c.Name, readOnly, c.Settings)
	source.Surface.Refuse = upstream.Refuse // it knows the address
	opts.Sources = append(opts.Sources, source)
	opts.Backends = append(opts.Backends, backend)
}

func (b *running) appBackend(s *localapp.Surface, name string, o localapp.Options, settings config.Settings) (actors.BackendConfig, *localapp.Backend) {
	o.Lookup = func(variable string) string { value, _ := b.getenv(variable); return value }
	o.CancelGrace, o.Log = settings.CancelGrace, b.log.With("backend", name)
	upstream := localapp.New(s, o)
	return actors.BackendConfig{
		Name: name, Kind: string(config.App), Upstream: upstream,
		Admission:    admission.Limits{Seats: settings.MaxInFlight, MaxQueuedCalls: settings.MaxQueued, MaxQueuedJobs: settings.MaxQueuedJobs, QueueTimeout: settings.QueueTimeout},
		StartTimeout: settings.StartTimeout, CallTimeout: settings.CallTimeout, IdleTimeout: max(0, settings.IdleTimeout),
	}, upstream
}

// environment are an app's variables in the environment of this process.
func (b *running) environment(s *localapp.Surface) map[string]string {
	return environmentOf(s, b.getenv)
}

func environmentOf(s *localapp.Surface, getenv func(string) (string, bool)) map[string]string {
	env := map[string]string{}
	for _, name := range s.Names() {
		if value, ok := getenv(name); ok && value != "" {
			env[name] = value
		}
	}
	return env
}

// addBindable lets sessions bring instances of every app.
func (b *running) addBindable(opts *actors.Options) {
	for name, surface := range surfaces {
		s := surface()
		settings := config.AppSettings(name)
		opts.Bindable = append(opts.Bindable, actors.Bindable{
			Source: appSource(s, s.Name, false, settings),
			Open: func(env map[string]string) (actors.BackendConfig, *broker.Refusal) {
				// Its token must be of a file of the user that this broker runs as.
				c, _ := b.appBackend(s, s.Name, localapp.Options{Env: env, MaxInFlight: settings.MaxInFlight, TokenFile: ownFile}, settings)
				c.EnvNames = slices.Sorted(maps.Keys(env))
				return c, nil
			},
		})
	}
}

// bindings judges what sessions bring.
type bindings struct{ *actors.System }

// maxVariable bounds a variable's value, in bytes.
const maxVariable = 4096

// CheckBinding judges names and values; nothing is reached.
func (bindings) CheckBinding(b *actors.Binding) (readOnly bool, refusal *broker.Refusal) {
	surface, ok := surfaces[b.Surface]
	if !ok {
		return false, broker.Refuse(broker.CodeInvalidArguments, "There is no local app of this name.", nil)
	}
	s := surface()
	for name, value := range b.Env {
		switch {
		case !slices.Contains(s.Names(), name):
			return false, broker.Refuse(broker.CodeInvalidArguments, "An instance of "+s.Name+" is named by "+strings.Join(s.Names(), ", ")+" and nothing else.", nil)
		case len(value) > maxVariable || strings.ContainsFunc(value, func(c rune) bool { return c < ' ' || c == 0x7f }):
			return false, broker.Refuse(broker.CodeInvalidArguments, "The value of "+name+" is no name of an instance: it is too long or holds a control character.", nil)
		}
	}
	return s.ReadOnly(b.Env), nil
}

// broughtInstance is what a session's environment names, or nil: a local app
// where the session is served by its profile or by that of all backends. Paths
// are made absolute, because the broker runs in another directory, and the
// state directory is always named, because its default may be another there.
func broughtInstance(profile string, getenv func(string) (string, bool)) (b *actors.Binding, unused []string) {
	for _, surface := range surfaces {
		s := surface()
		env := environmentOf(s, getenv)
		read, limited := env[s.Discovery.ReadOnly]
		delete(env, s.Discovery.ReadOnly)
		if len(env) == 0 {
			continue
		}
		if !slices.Contains([]string{"", catalog.Essential, catalog.Full, s.Name}, profile) {
			unused = append(unused, slices.Sorted(maps.Keys(env))...)
			continue
		}
		if limited {
			env[s.Discovery.ReadOnly] = read
		}
		if env[s.Discovery.StateDir] == "" {
			env[s.Discovery.StateDir] = s.Discovery.DefaultState(runtime.GOOS, func(name string) string { value, _ := getenv(name); return value })
		}
		for _, name := range []string{s.Discovery.PortFile, s.Discovery.Database, s.Discovery.StateDir} {
			if path, err := filepath.Abs(env[name]); env[name] != "" && err == nil {
				env[name] = path
			}
		}
		b = &actors.Binding{Key: newKey(), Surface: s.Name, Env: env}
	}
	return b, unused
}

// readOnlyScope is the surface that a session's environment limits to reads, or
// "".
func readOnlyScope(getenv func(string) (string, bool)) string {
	for name, surface := range surfaces {
		if s := surface(); s.ReadOnly(environmentOf(s, getenv)) {
			return name
		}
	}
	return ""
}

// newKey names what one process brings; no other says the same.
func newKey() string {
	raw := make([]byte, 24)
	_, _ = rand.Read(raw) // never fails
	return base64.RawURLEncoding.EncodeToString(raw)
}
