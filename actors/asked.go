package actors

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"sync"

	"berth/broker"
)

// The bounds of what running jobs ask and nobody has answered yet.
const (
	maxAsked      = 8192
	maxAskedJob   = 64
	maxAskedBytes = 64 << 20
)

// Question is what the backend of a running job asks its caller: a request of
// the protocol (elicitation/create, sampling/createMessage, roots/list).
type Question struct {
	Key    string // unique in the job's life
	Method string
	Params json.RawMessage
}

// asked holds the open questions of running jobs. They live as long as the run
// that asks them: a broker that stops loses the run, and the questions with it.
// It is safe for concurrent use.
type asked struct {
	tell func(id string) // fixed at construction; called without the lock

	mu    sync.Mutex
	jobs  map[string]*askedJob
	count int
	bytes int
}

// askedJob are the questions of one job, and who waits for changes of them.
type askedJob struct {
	open  []*openQuestion
	next  int
	watch map[chan struct{}]bool
}

type openQuestion struct {
	Question
	deliver func(json.RawMessage, *broker.RPCError) // must not block
}

func (a *asked) job(id string) *askedJob {
	j := a.jobs[id]
	if j == nil {
		if a.jobs == nil {
			a.jobs = map[string]*askedJob{}
		}
		j = &askedJob{watch: map[chan struct{}]bool{}}
		a.jobs[id] = j
	}
	return j
}

// tidy forgets a job that nothing is known of. One that was asked something
// keeps its count, so that no key comes twice, until it ends.
func (a *asked) tidy(id string) {
	if j := a.jobs[id]; j != nil && len(j.open) == 0 && len(j.watch) == 0 && j.next == 0 {
		delete(a.jobs, id)
	}
}

func (j *askedJob) changed() {
	for w := range j.watch {
		select {
		case w <- struct{}{}:
		default:
		}
	}
}

// put opens a question; its key is made unless it has one. The open question
// of a key is not replaced.
func (a *asked) put(id string, q Question, deliver func(json.RawMessage, *broker.RPCError)) (key string, problem *broker.RPCError) {
	key, fresh, problem := a.add(id, q, deliver)
	if fresh {
		a.tell(id)
	}
	return key, problem
}

func (a *asked) add(id string, q Question, deliver func(json.RawMessage, *broker.RPCError)) (key string, fresh bool, problem *broker.RPCError) {
	a.mu.Lock()
	defer a.mu.Unlock()
	j := a.job(id)
	if q.Key != "" && slices.ContainsFunc(j.open, func(o *openQuestion) bool { return o.Key == q.Key }) {
		return q.Key, false, nil
	}
	if a.count >= maxAsked || len(j.open) >= maxAskedJob || a.bytes+len(q.Params) > maxAskedBytes {
		a.tidy(id)
		return "", false, broker.NoPeer("Too many questions of jobs wait for their answers.")
	}
	j.next++
	if q.Key == "" {
		q.Key = "q" + strconv.Itoa(j.next)
	}
	j.open = append(j.open, &openQuestion{q, deliver})
	a.count++
	a.bytes += len(q.Params)
	j.changed()
	return q.Key, true, nil
}

// take closes a question.
func (a *asked) take(id, key string) *openQuestion {
	q := a.remove(id, key)
	if q != nil {
		a.tell(id)
	}
	return q
}

func (a *asked) remove(id, key string) *openQuestion {
	a.mu.Lock()
	defer a.mu.Unlock()
	j := a.jobs[id]
	if j == nil {
		return nil
	}
	i := slices.IndexFunc(j.open, func(o *openQuestion) bool { return o.Key == key })
	if i < 0 {
		return nil
	}
	q := j.open[i]
	j.open = slices.Delete(j.open, i, i+1)
	a.count--
	a.bytes -= len(q.Params)
	j.changed()
	return q
}

// keep closes the questions of a job that are not among keys.
func (a *asked) keep(id string, keys map[string]bool) {
	for _, q := range a.list(id) {
		if !keys[q.Key] {
			a.take(id, q.Key)
		}
	}
}

// end forgets a job that is over; its last status tells of that.
func (a *asked) end(id string) {
	for _, q := range a.list(id) {
		a.remove(id, q.Key)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if j := a.jobs[id]; j != nil {
		j.next = 0
		j.changed()
	}
	a.tidy(id)
}

func (a *asked) list(id string) []Question {
	a.mu.Lock()
	defer a.mu.Unlock()
	j := a.jobs[id]
	if j == nil {
		return nil
	}
	out := make([]Question, len(j.open))
	for i, o := range j.open {
		out[i] = o.Question
	}
	return out
}

// Questions gives what a job's backend asks and nobody has answered yet, in
// the order in which it came.
func (s *System) Questions(id string) []Question { return s.asked.list(id) }

// Answer answers a question of a job with a result or an error. It reports
// whether there was one to answer: each takes one answer.
func (s *System) Answer(id, key string, result json.RawMessage, problem *broker.RPCError) bool {
	q := s.asked.take(id, key)
	if q == nil {
		return false
	}
	q.deliver(result, problem)
	return true
}

// WatchQuestions signals each change of a job's open questions until the
// function is called.
func (s *System) WatchQuestions(id string) (<-chan struct{}, func()) {
	w := make(chan struct{}, 1)
	a := &s.asked
	a.mu.Lock()
	defer a.mu.Unlock()
	a.job(id).watch[w] = true
	return w, sync.OnceFunc(func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.job(id).watch, w)
		a.tidy(id)
	})
}

// asker asks the caller of a job, who answers when it looks at its task.
func (s *System) asker(id string, judge func(string, json.RawMessage) *broker.RPCError) func(context.Context, string, json.RawMessage) (json.RawMessage, *broker.RPCError) {
	return func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, *broker.RPCError) {
		if ctx.Err() != nil {
			return nil, broker.NoPeer("The job has ended.")
		}
		if problem := judge(method, params); problem != nil {
			return nil, problem
		}
		type answer struct {
			result  json.RawMessage
			problem *broker.RPCError
		}
		answers := make(chan answer, 1)
		key, problem := s.asked.put(id, Question{Method: method, Params: params},
			func(result json.RawMessage, problem *broker.RPCError) { answers <- answer{result, problem} })
		if problem != nil {
			return nil, problem
		}
		select {
		case a := <-answers:
			return a.result, a.problem
		case <-ctx.Done():
			s.asked.take(id, key)
			return nil, broker.NoPeer("The job ended before its caller answered.")
		}
	}
}
