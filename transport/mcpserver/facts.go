package mcpserver

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"slices"

	"berth/actors"
	"berth/broker"
	"berth/broker/catalog"
	"berth/broker/native/jobs"
	"berth/broker/policy/proof"
	"berth/broker/shape"
)

// This file gives an answer its last form (contracts/catalog.md sections 9 and
// 10): cut to its result budget, and with the broker's facts beside it. An exact
// profile of a backend is transparent: there an answer stays as it came.

// transparent reports whether answers of the profile stay byte for byte.
func transparent(p *catalog.Profile) bool { return p.Exact() && p.Surface() == nil }

// holder names who is served, where there is no session by what is known of it.
func (rq *request) holder() string {
	if rq.session != nil {
		return rq.session.key
	}
	return rq.principal.Key() + "\x00" + rq.profile + "\x00" + rq.clientNamed()
}

// exercised notes that a name reached the broker by itself.
func (s *Server) exercised(rq *request, c aimed) {
	if s.opts.Surfaces != nil && c.plan.Via == catalog.ViaDirect {
		s.opts.Surfaces.Called(rq.holder(), c.plan.Verb.Name)
	}
}

// answered is a backend's answer as it is sent.
func (s *Server) answered(rq *request, c aimed, reply actors.Reply) json.RawMessage {
	result := reply.Answer.Result
	var shown *actors.Shown
	if s.opts.Proofs != nil {
		shown = s.opts.Proofs.Shows(c.call, reply)
	}
	if !c.profile.Exact() {
		s.learnLinks(c.plan.Verb.Backend, result)
		result = s.guided(c, result)
	} else if c.profile.Answers().ResultTokens == 0 {
		shown.Grant()
		return s.withFacts(c, result, reply, nil)
	}
	shaped := s.cutRecord(c.profile, rq.principal, sizing{verb: c.plan.Verb, call: c.plan.ResultTokens, complete: c.plan.Effects != broker.Read, shown: shown}, result)
	return s.withFacts(c, shaped.Result, reply, &shaped)
}

// guided puts a call that would fit after an error of a backend.
func (s *Server) guided(c aimed, result json.RawMessage) json.RawMessage {
	verb := c.plan.Verb
	if s.opts.Shaping.Counter == nil || verb.Native || verb.Unguided || c.profile.Answers().NoGuidance || !(broker.Answer{Result: result}).ToolError() {
		return result
	}
	call, err := verb.Minimal()
	if err != nil {
		return result // none is known, and that is no news to whoever made the call
	}
	guided, _ := shape.WithGuidance(result, verb.Name, call, s.opts.Shaping.Counter)
	return guided
}

// sizing is what the size of an answer depends on.
type sizing struct {
	verb     *catalog.Verb // nil: unknown
	call     shape.Budget
	complete bool          // the call was no read
	shown    *actors.Shown // what it grants, once it was released whole
}

// moreVerb gives the rest of what was cut.
const moreVerb = "more"

// cut cuts an answer to its result budget and keeps the rest.
func (s *Server) cut(profile *catalog.Profile, who broker.Principal, of sizing, result json.RawMessage) shape.Shaped {
	shaped := s.toBudget(profile, of, result)
	s.release(who, of, shaped.Keep)
	return shaped
}

// release is said of an answer that is about to be sent: it shows what it holds,
// and what was cut from it is kept. What it grants waits for the last part.
func (s *Server) release(who broker.Principal, of sizing, keep []shape.Kept) {
	if shape.OnlyRepeat(keep) {
		of.shown.Grant()
		of.shown = nil
	}
	if len(keep) > 0 {
		s.opts.Shaping.Store.Put(s.opts.Now(), who, keep, of.shown)
	}
}

// toBudget cuts an answer to its result budget.
func (s *Server) toBudget(profile *catalog.Profile, of sizing, result json.RawMessage) shape.Shaped {
	whole := shape.Shaped{Result: result}
	o := s.opts.Shaping
	if o.Counter == nil {
		return whole
	}
	_, canMore := profile.Named(moreVerb)
	says := profile.Answers()
	limits := shape.Limits{CanMore: canMore, Complete: of.complete, Until: o.Store.Until(s.opts.Now()), Factor: says.TokenFactor, CountAlways: says.CountAlways,
		Budget: shape.ResultBudget(of.call, 0, says.ResultTokens)}
	if of.verb != nil && of.verb.Surface != nil {
		if r, ok := of.verb.Surface.Records[of.verb.Upstream]; ok {
			limits.Records, limits.Fewer = r.Split, r.Fewer
		}
	}
	if of.verb != nil {
		limits.Budget = shape.ResultBudget(of.call, of.verb.ResultTokens, says.ResultTokens)
	}
	shaped, err := shape.Shape(result, limits, o.Counter, func() (string, error) { return shape.NewHandle(o.Random) })
	if err != nil {
		s.opts.Logger.Error("an answer could not be cut", slog.Any("error", err))
		return whole
	}
	return shaped
}

// recordRoom is what a job's record costs besides its result, in tokens, at most.
const recordRoom = 300

// cutRecord is cut, but of the record of a job it cuts the result inside: the
// record stays one.
func (s *Server) cutRecord(profile *catalog.Profile, who broker.Principal, of sizing, result json.RawMessage) shape.Shaped {
	if s.opts.Shaping.Counter == nil || !of.verb.Native || of.verb.Name != jobs.Verb {
		return s.cut(profile, who, of, result)
	}
	record, at, ok := outcomeIn(result)
	if !ok {
		return s.cut(profile, who, of, result)
	}
	inner := of
	inner.call = shape.ResultBudget(of.call, of.verb.ResultTokens, profile.Answers().ResultTokens)
	if inner.call > 0 {
		inner.call = max(inner.call-recordRoom, shape.MinBudget)
	}
	cut := s.toBudget(profile, inner, at.Value)
	if cut.Facts == nil {
		return s.cut(profile, who, of, result)
	}
	whole := s.toBudget(profile, of, shape.Structured(slices.Concat(record[:at.Start], cut.Result, record[at.Start+len(at.Value):]), false))
	if whole.Facts == nil {
		whole.Facts = cut.Facts
	}
	s.release(who, of, slices.Concat(cut.Keep, whole.Keep))
	return whole
}

// outcomeIn finds the result in a job's record.
func outcomeIn(result json.RawMessage) (record json.RawMessage, at shape.Member, ok bool) {
	members, err := shape.Members(result)
	if err != nil {
		return nil, at, false
	}
	for _, m := range members {
		if m.Name == "structuredContent" {
			record = m.Value
		}
	}
	if members, err = shape.Members(record); err != nil {
		return nil, at, false
	}
	for _, m := range members {
		if m.Name == "Result" && bytes.HasPrefix(m.Value, []byte("{")) {
			at, ok = m, true
		}
	}
	return record, at, ok
}

// sized is a task whose result is cut as its call's answer would have been.
func (s *Server) sized(rq *request, job broker.Job, v taskView) taskView {
	if len(v.result) == 0 {
		return v
	}
	shown := s.released(rq, job)
	profile, ok := s.profile(rq)
	if !ok || profile.Exact() {
		shown.Grant()
		return v
	}
	verb, _ := profile.Resolve(job.Operation)
	v.result = s.cut(profile, rq.principal, sizing{verb: verb, complete: verb == nil || verb.Effects != broker.Read, shown: shown}, v.result).Result
	return v
}

// released is what the result of a job grants who gets it now; nil is nothing.
func (s *Server) released(rq *request, job broker.Job) *actors.Shown {
	if s.opts.Proofs == nil || !job.Status.Final() || len(job.Result) == 0 {
		return nil
	}
	to := proof.Caller{Principal: rq.principal}
	if rq.session != nil {
		to.Session = rq.session.key
	}
	return s.opts.Proofs.Released(to, job.ID)
}

// withFacts adds the broker's facts to a result, where it has a place for them.
// shaped is nil for what the broker itself wrote.
func (s *Server) withFacts(c aimed, result json.RawMessage, reply actors.Reply, shaped *shape.Shaped) json.RawMessage {
	if transparent(c.profile) {
		return result
	}
	marked, err := result, error(nil)
	if s.opts.Shaping.NoEnvelope || c.profile.Answers().NoEnvelope {
		marked = shape.WithoutCallMeta(result)
	} else {
		marked, err = shape.WithCallMeta(result, c.facts(reply, shaped))
	}
	if err == nil && reply.Tracked != nil {
		marked, err = shape.WithMeta(marked, metaJob, jobFacts{reply.Tracked.ID, reply.Tracked.RuntimeID})
	}
	if err != nil {
		s.opts.Logger.Debug("a result has no place for the broker's facts", slog.String("call", c.id), slog.Any("error", err))
		return result
	}
	return marked
}

// facts is what was observed of the call. A null was not observed.
func (c aimed) facts(reply actors.Reply, shaped *shape.Shaped) shape.CallFacts {
	f := shape.CallFacts{CallID: c.id, Via: shape.Via(c.plan.Via), ReadOnly: c.profile.OnlyReads()}
	fingerprint := c.profile.Fingerprint()
	f.Catalog = &fingerprint
	if name := c.profile.Name(); name != "" {
		f.Profile = &name
	}
	v := c.plan.Verb
	if v == nil {
		v = c.plan.Called // its target is not there
	}
	if v != nil {
		f.Verb, f.Backend, f.EffectsSource = shape.Known(v.Name), shape.Known(v.Backend), shape.Known(v.EffectsSource)
		if c.plan.Judged {
			f.Effects = c.plan.Effects.Names()
		}
		if c.plan.Verb != nil && c.plan.Name != c.profile.Outward(v) {
			name := clip(c.plan.Name)
			f.Alias = &name
		}
	}
	if reply.Answer != nil && reply.Answer.RuntimeID != "" {
		f.RuntimeID = &reply.Answer.RuntimeID
	}
	f.QueueMS = between(reply.Timing.Offered, reply.Timing.Started)
	f.RunMS = between(reply.Timing.Started, reply.Timing.Ended)
	if n := reply.Timing.Attempt; n > 0 {
		f.Attempt = &n
	}
	if v != nil {
		for _, n := range v.Next {
			if _, ok := c.profile.Named(n.Name); ok {
				f.Next = append(f.Next, shape.Next{Name: n.Name, Why: n.Why})
			}
		}
	}
	for _, job := range []*broker.Job{reply.Job, reply.Tracked} {
		if job != nil {
			f.JobID = &job.ID
		}
	}
	if shaped != nil {
		if shaped.Tokens.Encoding != "" {
			f.Tokens = &shaped.Tokens
		}
		f.Shaped, f.Warnings = shaped.Facts, shaped.Warnings
	}
	if reply.Untracked {
		f.Warnings = append(f.Warnings, shape.WarnJobUntracked)
	}
	return f
}
