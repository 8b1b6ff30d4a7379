package resmontest

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// request is what a handler gets; f.mu is held while it runs.
type request struct {
	id       int64  // what the path names; -1 if no row can have it
	idText   string // as it was given
	query    url.Values
	body     []byte
	identity any    // to stand beside the answer; nil leaves it out
	runtime  string // what expected_runtime_id is compared with; empty compares nothing
	stamp    string
	applied  bool // a write took effect

	// What faults ask a handler for.
	declineSemantic string
	emptySimilar    *string
	ignoredKeys     []string
}

func (f *Fake) serve(lf *life, w http.ResponseWriter, req *http.Request) {
	f.mu.Lock()
	if f.life != lf {
		f.mu.Unlock()
		panic(http.ErrAbortHandler) // it came when the life had ended
	}
	lf.serving.Add(1)
	refusal, reason := f.guard(req)
	f.mu.Unlock()
	defer lf.serving.Done()

	var body []byte
	if refusal == nil {
		var err error
		if body, err = io.ReadAll(io.LimitReader(req.Body, 8<<20)); err != nil {
			panic(http.ErrAbortHandler)
		}
	}
	f.mu.Lock()
	entry := f.noted(req, body)
	entry.Life, entry.Refused = f.runtimeID, reason
	f.keep(entry)
	found, id, allow := match(req.Method, req.URL.Path)
	if found != nil {
		entry.Template = found.Template
	}
	var met []*Injected
	if refusal == nil {
		met = f.meet(entry)
	}
	f.mu.Unlock()

	if refusal != nil {
		f.finish(entry, w, *refusal, nil)
		return
	}
	for _, fault := range met {
		if !fault.wait(req.Context(), lf.over) || fault.Fault.dropBefore {
			panic(http.ErrAbortHandler)
		}
	}
	a := f.answer(entry, found, id, allow, req.URL.Query(), body, met)
	f.finish(entry, w, a, met)
}

// guard is what every request meets first, on every path.
func (f *Fake) guard(req *http.Request) (*answer, string) {
	refuse := func(status int, reason, message string) (*answer, string) {
		a := encoded(status, object{"detail": object{"reason": reason, "message": message}}).with("Cache-Control", "no-store")
		if status == http.StatusUnauthorized {
			a = a.with("WWW-Authenticate", `Bearer realm="resmon"`)
		}
		return &a, reason
	}
	port := strconv.Itoa(f.port)
	if req.Host != "127.0.0.1:"+port && req.Host != "localhost:"+port {
		return refuse(http.StatusForbidden, "host_refused", "This resmon is asked by the address 127.0.0.1 or localhost and its own port.")
	}
	if origins := req.Header.Values("Origin"); len(origins) > 0 && (len(origins) > 1 || f.options.Origin == "" || origins[0] != f.options.Origin) {
		return refuse(http.StatusForbidden, "origin_refused", "A browser may ask this resmon from its own window only.")
	}
	switch f.presented(req.Header) {
	case TokenCurrent:
		return nil, ""
	case TokenNone:
		return refuse(http.StatusUnauthorized, "token_missing", "The request has no local API token.")
	}
	return refuse(http.StatusUnauthorized, "token_invalid", "The local API token of the request is not the one of this resmon.")
}

// answer runs the handler, unless a fault stands in for it.
func (f *Fake) answer(entry *Request, found *route, id string, allow []string, query url.Values, body []byte, met []*Injected) answer {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := &request{id: -1, idText: id, query: query, body: body, stamp: f.options.Stamp, runtime: f.runtimeID}
	r.identity = f.world.identity(f.runtimeID)
	for _, fault := range met {
		if fault.Fault.before != nil {
			fault.Fault.before(r)
		}
	}
	for _, fault := range met {
		if fault.Fault.instead != nil {
			return fault.Fault.instead(f, r)
		}
	}
	switch {
	case found == nil && len(allow) > 0:
		return plain(http.StatusMethodNotAllowed, "Method Not Allowed").with("Allow", strings.Join(allow, ", "))
	case found == nil:
		return notFound()
	case id != "":
		n, err := strconv.ParseInt(id, 10, 64)
		switch {
		case err == nil:
			r.id = n
		case !digits(id):
			return unprocessable(invalid{Type: "int_parsing", Loc: []any{"path", parameter(found.Template)},
				Msg: "Input should be a valid integer, unable to parse string as an integer", Input: id})
		}
	}
	a := found.handle(f.world, r)
	entry.Applied = r.applied
	for _, fault := range met {
		if fault.Fault.after != nil {
			a = fault.Fault.after(f, a)
		}
		if fault.Fault.reborn {
			if err := f.reborn(); err != nil {
				return plain(http.StatusInternalServerError, "%s", err)
			}
			a = a.with("Connection", "close")
		}
	}
	return a
}

// digits reports whether s is a whole number too large for anything.
func digits(s string) bool {
	s = strings.TrimLeft(s, "+-")
	return s != "" && !slices.ContainsFunc([]rune(s), func(r rune) bool { return r < '0' || r > '9' })
}

// finish writes what travels and notes how it went.
func (f *Fake) finish(entry *Request, w http.ResponseWriter, a answer, met []*Injected) {
	cut := false
	for _, fault := range met {
		if fault.Fault.dropAfter {
			panic(http.ErrAbortHandler)
		}
		cut = cut || fault.Fault.cut
	}
	f.mu.Lock()
	entry.Status = a.status
	f.mu.Unlock()
	for name, values := range a.header {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(a.body)))
	w.WriteHeader(a.status)
	if !cut {
		_, _ = w.Write(a.body) // a caller that has gone needs no answer
		return
	}
	_, _ = w.Write(half(a.body))
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// expected is the check of the two routes with an identity: nil lets the request
// through. It comes before anything is looked up.
func expected(r *request) *answer {
	if !r.query.Has("expected_runtime_id") || r.runtime == "" {
		return nil
	}
	given := r.query.Get("expected_runtime_id")
	if !canonical(given) {
		a := plain(http.StatusUnprocessableEntity, "expected_runtime_id must be a canonical lowercase UUID4.")
		return &a
	}
	if given == r.runtime {
		return nil
	}
	a := encoded(http.StatusConflict, object{"detail": object{
		"code": "instance_mismatch", "message": fmt.Sprintf("The resmon that answers is %s, not the one that was expected.", r.runtime),
		"expected_runtime_id": given, "actual_runtime_id": r.runtime,
	}})
	return &a
}

// whole gives an object as an answer, with the stamp of the instance.
func (r *request) whole(v object) answer { return r.wholeAs(http.StatusOK, v) }

func (r *request) wholeAs(status int, v object) answer {
	if r.stamp != "" {
		v["stamp"] = r.stamp
	}
	return encoded(status, v)
}
