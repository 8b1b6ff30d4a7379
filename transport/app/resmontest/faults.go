package resmontest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A Fault is one way to misbehave. Inject switches it on.
type Fault struct {
	name   string
	method string // which requests it is for where the caller names none
	path   string

	holds      bool
	delay      time.Duration // 0 with holds: until released
	dropBefore bool
	dropAfter  bool
	cut        bool
	before     func(*request)
	instead    func(*Fake, *request) answer
	after      func(*Fake, answer) answer
	reborn     bool
}

// A Scope says which requests meet a fault. The zero value is every request
// until Clear.
type Scope struct {
	Method   string // empty is any
	Template string // empty is any
	But      string // a template that is spared
	Skip     int    // how many of those pass by first
	Times    int    // how many meet it; 0 is all
}

// Injected is a fault that is switched on.
type Injected struct {
	Fault Fault
	scope Scope
	fake  *Fake

	// Guarded by fake.mu.
	passed, hits int
	off          bool

	reached chan struct{}
	release chan struct{}
	once    sync.Once
}

// Inject switches a fault on. Several may be on at once; a request meets all
// that are for it.
func (f *Fake) Inject(fault Fault, s Scope) *Injected {
	if s.Method == "" && s.Template == "" {
		s.Method, s.Template = fault.method, fault.path
	}
	in := &Injected{Fault: fault, scope: s, fake: f, reached: make(chan struct{}, 1024), release: make(chan struct{})}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = append(f.faults, in)
	return in
}

// Clear switches every fault off and releases what waits.
func (f *Fake) Clear() {
	f.mu.Lock()
	on := f.faults
	f.faults = nil
	f.mu.Unlock()
	for _, in := range on {
		in.Release()
	}
}

// Off switches this fault off; a request that waits for it goes on waiting.
func (in *Injected) Off() {
	in.fake.mu.Lock()
	defer in.fake.mu.Unlock()
	in.off = true
}

// Hits is how many requests met it.
func (in *Injected) Hits() int {
	in.fake.mu.Lock()
	defer in.fake.mu.Unlock()
	return in.hits
}

// Reached gives one value for each of the first 1,024 requests that meet it.
func (in *Injected) Reached() <-chan struct{} { return in.reached }

// Release ends the waiting of every request that meets it, now and later.
func (in *Injected) Release() { in.once.Do(func() { close(in.release) }) }

// meet counts a request against the faults and gives those that it meets; f.mu
// is held.
func (f *Fake) meet(e *Request) []*Injected {
	var met []*Injected
	var names []string
	for _, in := range f.faults {
		s := in.scope
		if in.off || (s.Method != "" && s.Method != e.Method) || (s.Template != "" && s.Template != e.Template) || (s.But != "" && s.But == e.Template) {
			continue
		}
		if in.passed < s.Skip {
			in.passed++
			continue
		}
		if s.Times > 0 && in.hits >= s.Times {
			continue
		}
		in.hits++
		met, names = append(met, in), append(names, in.Fault.name)
		select {
		case in.reached <- struct{}{}:
		default:
		}
	}
	e.Fault = strings.Join(names, ",")
	return met
}

// wait holds a request until the fault is released or its time is over. It is
// false when there is nobody to answer any more: the caller has gone, or the
// life has ended.
func (in *Injected) wait(ctx context.Context, over <-chan struct{}) bool {
	if !in.Fault.holds {
		return true
	}
	var due <-chan time.Time
	if in.Fault.delay > 0 {
		t := time.NewTimer(in.Fault.delay)
		defer t.Stop()
		due = t.C
	}
	select {
	case <-due:
	case <-in.release:
	case <-over:
		return false
	case <-ctx.Done():
		return false
	}
	return true
}

// Slow waits for d before the request is handled, or until Release.
func Slow(d time.Duration) Fault { return Fault{name: "slow", holds: true, delay: d} }

// Hold waits until Release.
func Hold() Fault { return Fault{name: "hold", holds: true} }

// DropBefore closes the connection before anything is done.
func DropBefore() Fault { return Fault{name: "drop_before", dropBefore: true} }

// DropAfterWrite does what was asked, then closes the connection.
func DropAfterWrite() Fault { return Fault{name: "drop_after_write", dropAfter: true} }

// CutBody sends half of the body and closes.
func CutBody() Fault { return Fault{name: "cut_body", cut: true} }

func instead(name string, a answer) Fault {
	return Fault{name: name, instead: func(*Fake, *request) answer { return a }}
}

// Status answers with a bare error of the server: 500, 502, 503.
func Status(code int) Fault {
	a := answer{status: code, header: http.Header{"Content-Type": {"text/plain; charset=utf-8"}}, body: []byte(http.StatusText(code))}
	return instead("status_"+strconv.Itoa(code), a)
}

// Plain answers with a status and a sentence: 400, 404, 409, 429, or any other.
// 429 has Retry-After: 5.
func Plain(code int, sentence string) Fault {
	a := plain(code, "%s", sentence)
	if code == http.StatusTooManyRequests {
		a = a.with("Retry-After", "5")
	}
	return instead("plain_"+strconv.Itoa(code), a)
}

// Body answers with a status and JSON as given, for what no other fault says.
func Body(code int, v any) Fault { return instead("body_"+strconv.Itoa(code), encoded(code, v)) }

// RouteMissing answers as an older resmon that has no such route.
func RouteMissing() Fault { return instead("route_missing", notFound()) }

// List422 answers with a list that echoes marker as the input.
func List422(marker string) Fault {
	return instead("list_422", unprocessable(
		invalid{Type: "missing", Loc: []any{"body", "repositories"}, Msg: "Field required", Input: object{"query": marker}},
		invalid{Type: "string_type", Loc: []any{"body", "settings", 0}, Msg: "Input should be a valid string", Input: marker}))
}

// Echo answers with a sentence that contains what must not leave: the current
// token and Planted, in the body and in headers.
func Echo(code int) Fault {
	return Fault{name: "echo", instead: func(f *Fake, _ *request) answer {
		said := "Authorization: Bearer " + f.token + " was read from " + Planted
		return plain(code, "%s", said).with("X-Resmon-Debug", said).with("Set-Cookie", "session="+Planted)
	}}
}

// RestartAfter answers, and is another life when the next request comes: a
// restart between two requests of one call. Scope.Times should be 1.
func RestartAfter() Fault { return Fault{name: "restart_after", reborn: true} }

const runTemplate = "/api/routines/{routine_id}/run"

// RunConflict answers run with 409 and the two headers; a negative execution
// leaves the second empty.
func RunConflict(execution int64) Fault {
	id := ""
	if execution >= 0 {
		id = strconv.FormatInt(execution, 10)
	}
	fault := instead("run_conflict", runConflict(id))
	fault.method, fault.path = "POST", runTemplate
	return fault
}

// QueueFull answers run with 409 and no headers.
func QueueFull() Fault {
	fault := instead("queue_full", queueFull(16))
	fault.method, fault.path = "POST", runTemplate
	return fault
}

// Queued answers run with 202. An empty requestID leaves the key off.
func Queued(position int, requestID string) Fault {
	return Fault{name: "queued", method: "POST", path: runTemplate,
		instead: func(_ *Fake, r *request) answer { return queuedAnswer(r, position, requestID) }}
}

// DeclineSemantic serves newest first where a ranking was asked for, with the sentence.
func DeclineSemantic(sentence string) Fault {
	return Fault{name: "decline_semantic", method: "POST", path: "/api/explorer/search",
		before: func(r *request) { r.declineSemantic = sentence }}
}

// EmptySimilar finds nothing similar, for the reason; an empty reason is null.
func EmptySimilar(reason string) Fault {
	return Fault{name: "empty_similar", method: "GET", path: "/api/documents/{document_id}/similar",
		before: func(r *request) { r.emptySimilar = &reason }}
}

// IgnoreKeys makes PUT of settings drop these keys, without a word.
func IgnoreKeys(keys ...string) Fault {
	return Fault{name: "ignore_keys", before: func(r *request) { r.ignoredKeys = append(r.ignoredKeys, keys...) }}
}

const (
	healthTemplate    = "/api/health"
	executionTemplate = "/api/executions/{exec_id}"
)

// identityFault serves what it is asked, whatever runtime was expected, with
// this identity beside it.
func identityFault(name string, make func(*request) any) Fault {
	return Fault{name: name, before: func(r *request) { r.runtime, r.identity = "", make(r) }}
}

// WrongIdentity answers 200 as another incarnation.
func WrongIdentity(runtimeID string) Fault {
	return identityFault("wrong_identity", func(r *request) any { return altered(r.identity, "runtime_id", runtimeID) })
}

// MissingIdentity answers 200 without one.
func MissingIdentity() Fault {
	return identityFault("missing_identity", func(*request) any { return nil })
}

// BadIdentity answers 200 with an identity whose field has that value; a value
// of Absent takes the field away.
func BadIdentity(field string, value any) Fault {
	return identityFault("bad_identity", func(r *request) any { return altered(r.identity, field, value) })
}

// IdentitySwap lets health speak for this instance and executions for another.
func IdentitySwap(runtimeID string) Fault {
	fault := WrongIdentity(runtimeID)
	fault.name, fault.method, fault.path = "identity_swap", "GET", executionTemplate
	return fault
}

// Absent is no value.
var Absent = any(absent{})

type absent struct{}

// BadIdentities are the ways in which each field of an identity is not valid, by name.
func BadIdentities() map[string]Fault {
	out := map[string]Fault{}
	for field, values := range map[string][]any{
		"contract_version": {Absent, nil, 0, 2, real(1.5), "1", true},
		"runtime_id": {Absent, nil, "", 7, "6BA7B810-9DAD-41D1-80B4-00C04FD430C8", "6ba7b8109dad41d180b400c04fd430c8",
			"{6ba7b810-9dad-41d1-80b4-00c04fd430c8}", "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "6ba7b810-9dad-41d1-c0b4-00c04fd430c8"},
		"schema_version": {Absent, "18", real(18.5), true, object{}},
		"corpus_id":      {Absent, "c", 1, false},
		"build_id":       {Absent, "b", 1, false},
	} {
		for i, v := range values {
			out[fmt.Sprintf("%s_%d", field, i)] = BadIdentity(field, v)
		}
	}
	return out
}

// NotJSON answers 200 with text.
func NotJSON() Fault {
	return instead("not_json", answer{status: http.StatusOK, header: http.Header{"Content-Type": {"application/json"}}, body: []byte("resmon is here, {but")})
}

// WrongType answers 200 with an array where an object belongs, and the other way round.
func WrongType() Fault {
	return Fault{name: "wrong_type", after: func(_ *Fake, a answer) answer {
		v := any([]any{object{"status": "ok"}})
		if strings.HasPrefix(string(a.body), "[") {
			v = object{"results": "none"}
		}
		return encoded(http.StatusOK, v)
	}}
}

var hugeBody = sync.OnceValue(func() []byte {
	return []byte(`{"status":"ok","filler":"` + strings.Repeat("x", 33<<20) + `"}`)
})

// Huge answers 200 with 33 MiB.
func Huge() Fault {
	return Fault{name: "huge", instead: func(*Fake, *request) answer {
		return answer{status: http.StatusOK, header: http.Header{"Content-Type": {"application/json"}}, body: hugeBody()}
	}}
}

// Redirect answers 302 to the same path elsewhere: give it the URL of a Squatter.
func Redirect(base string) Fault {
	return Fault{name: "redirect", instead: func(*Fake, *request) answer {
		return answer{status: http.StatusFound, header: http.Header{"Location": {base + "/api/health"}}}
	}}
}

// WithoutKey takes a key away from a JSON object that is answered.
func WithoutKey(key string) Fault {
	return Fault{name: "without_" + key, after: func(_ *Fake, a answer) answer {
		var o map[string]json.RawMessage
		if json.Unmarshal(a.body, &o) != nil {
			return a
		}
		delete(o, key)
		a.body = encode(o)
		return a
	}}
}

// altered is an identity with one field of another value.
func altered(identity any, field string, value any) any {
	o := object{}
	for k, v := range identity.(object) {
		o[k] = v
	}
	if value == Absent {
		delete(o, field)
	} else {
		o[field] = value
	}
	return o
}
