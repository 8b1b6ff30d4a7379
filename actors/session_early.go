package actors

import (
	"slices"
	"time"
)

// A cancel and its request may travel on different connections, so either can
// come first. A session remembers a cancel of an id that it does not know for
// overtakeWindow, and just as long which ids have ended: a cancel of one of
// those is late, not early, and must not hit a request that reuses the id.
const (
	overtakeWindow = 3 * time.Second
	maxRecent      = 32 // of each kind, the newest ones
)

// recentID is a request id and when it was heard of.
type recentID struct {
	requestID string
	at        time.Time
}

// recent remembers request ids for overtakeWindow. The zero value is empty and
// costs nothing.
type recent []recentID

// add remembers an id; one that is known starts anew.
func (r *recent) add(requestID string, now time.Time) {
	r.forget(func(id recentID) bool { return id.requestID == requestID || now.Sub(id.at) >= overtakeWindow })
	if len(*r) == maxRecent {
		*r = slices.Delete(*r, 0, 1)
	}
	*r = append(*r, recentID{requestID: requestID, at: now})
}

// take reports whether an id is remembered, and forgets it.
func (r *recent) take(requestID string, now time.Time) bool {
	had := r.has(requestID, now)
	r.forget(func(id recentID) bool { return id.requestID == requestID || now.Sub(id.at) >= overtakeWindow })
	return had
}

func (r *recent) has(requestID string, now time.Time) bool {
	return slices.ContainsFunc(*r, func(id recentID) bool { return id.requestID == requestID && now.Sub(id.at) < overtakeWindow })
}

func (r *recent) forget(which func(recentID) bool) { *r = slices.DeleteFunc(*r, which) }

// overtaken reports whether a cancel of this request came before it, and takes
// the id into use.
func (s *session) overtaken(requestID string) bool {
	if requestID == "" || len(s.early)+len(s.ended) == 0 {
		return false
	}
	now := s.sys.now()
	if s.early.take(requestID, now) {
		s.ended.add(requestID, now)
		return true
	}
	s.ended.take(requestID, now)
	return false
}

// foresee remembers a cancel of an id that names nothing here, unless it is
// late.
func (s *session) foresee(requestID string) {
	if now := s.sys.now(); !s.ended.has(requestID, now) {
		s.early.add(requestID, now)
	}
}
