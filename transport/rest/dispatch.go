package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"

	"berth/broker"
)

// The twins of the verbs of voyages, missions, captains and docks
// (contracts/native.md section 21). A route of one record is a row of the table
// with the verb's name; what is more than that stands here.

// about answers a route by a verb of the record that the path names; argument is
// what the verb calls it.
func about(verb, argument string) func(*api) http.Handler {
	return answering(func(a *api, r *http.Request) (any, error) {
		return a.twin(r, verb, map[string]any{argument: r.PathValue("id")})
	})
}

// told is about with a body of the form B, whose fields become arguments. An
// empty argument: the route is of no record.
func told[B any](verb, argument string) func(*api) http.Handler {
	return answering(func(a *api, r *http.Request) (any, error) {
		var body B
		if err := decode(r.Body, &body); err != nil {
			return nil, err
		}
		arguments := asArguments(body)
		if argument != "" {
			arguments[argument] = r.PathValue("id")
		}
		return a.twin(r, verb, arguments)
	})
}

// plainly answers a route by a verb without arguments.
func plainly(verb string) func(*api) http.Handler {
	return answering(func(a *api, r *http.Request) (any, error) { return a.twin(r, verb, map[string]any{}) })
}

// asked is about with those parameters of the query that the verb knows.
func asked(verb, argument string, names ...string) func(*api) http.Handler {
	return answering(func(a *api, r *http.Request) (any, error) { return a.queried(r, verb, argument, names...) })
}

func (a *api) queried(r *http.Request, verb, argument string, names ...string) (any, error) {
	arguments, err := queried(r, names)
	if err != nil {
		return nil, err
	}
	arguments[argument] = r.PathValue("id")
	return a.twin(r, verb, arguments)
}

// What parameters are, that are no texts; by name, which means the same on every
// route.
var (
	counts = []string{"pageNumber", "pageSize", "lines", "offset", "length"}
	truths = []string{"includeContext", "includeDescription", "includeDiffs", "includeLogs"}
)

// queried are the parameters of these names that a query has. The verb has its
// own limits for numbers.
func queried(r *http.Request, names []string) (map[string]any, error) {
	arguments := map[string]any{}
	for _, name := range names {
		text := r.URL.Query().Get(name)
		if text == "" {
			continue
		}
		var value any = text
		var err error
		switch {
		case slices.Contains(counts, name):
			value, err = number(r, name, 0, math.MinInt32, math.MaxInt32)
		case slices.Contains(truths, name):
			value, err = truth(r, name)
		}
		if err != nil {
			return nil, err
		}
		arguments[name] = value
	}
	return arguments, nil
}

// everyList are the parameters of each list of records.
var everyList = []string{"pageNumber", "pageSize", "order", "createdAfter", "createdBefore"}

// records answers a route with a page of enumerate.
func records(entity string, filters ...string) func(*api) http.Handler {
	names := slices.Concat(filters, everyList)
	return answering(func(a *api, r *http.Request) (any, error) {
		arguments, err := queried(r, names)
		if err != nil {
			return nil, err
		}
		arguments["entityType"] = entity
		return a.twin(r, "enumerate", arguments)
	})
}

// asArguments makes the arguments of a verb of a body: the same fields, whose
// names begin in lower case, at every depth.
func asArguments(body any) map[string]any {
	dec := json.NewDecoder(bytes.NewReader(raw(body)))
	dec.UseNumber()
	var fields map[string]any
	if err := dec.Decode(&fields); err != nil {
		panic("decode what was encoded before: " + err.Error())
	}
	return lowered(fields).(map[string]any)
}

func lowered(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for name, value := range v {
			first := []rune(name)
			first[0] = unicode.ToLower(first[0])
			out[string(first)] = lowered(value)
		}
		return out
	case []any:
		for i := range v {
			v[i] = lowered(v[i])
		}
	}
	return v
}

// voyage answers with a voyage and its missions.
func (a *api) voyage(r *http.Request) (any, error) {
	arguments, err := queried(r, []string{"includeDescription", "includeDiffs", "includeLogs"})
	if err != nil {
		return nil, err
	}
	if fields := r.URL.Query().Get("includeFields"); fields != "" {
		arguments["includeFields"] = strings.Split(fields, ",")
	}
	arguments["voyageId"], arguments["summary"], arguments["includeMissions"] = r.PathValue("id"), false, true
	return a.twin(r, "voyage_status", arguments)
}

// dispatchWait is how long a dispatch waits for its voyage, in seconds, unless
// it is told otherwise.
const dispatchWait = 30

// dispatch runs the job of a dispatch and answers with the voyage when it is
// there in time, else with the job. From the acceptance on nothing that goes
// wrong here hides the job.
func (a *api) dispatch(r *http.Request) (any, error) {
	var body voyageBody
	if err := decode(r.Body, &body); err != nil {
		return nil, err
	}
	seconds, err := number(r, "waitSeconds", dispatchWait, 0, maxWait)
	if err != nil {
		return nil, err
	}
	record, err := a.twin(r, "dispatch", asArguments(body))
	if err != nil {
		return nil, ofDispatch(err)
	}
	var accepted Job
	if err := json.Unmarshal(record, &accepted); err != nil || accepted.JobID == "" {
		return nil, errors.Join(errors.New("dispatch answered with no job"), err)
	}
	job, err := a.awaitEnd(r, accepted.JobID, time.Duration(seconds)*time.Second)
	if over := a.Guard.Over(r.Context()); over != nil {
		return nil, over
	}
	if err != nil {
		return answered{http.StatusAccepted, record}, nil // it is there, whatever could not be read of it since
	}
	switch {
	case !job.Status.Final():
		return answered{http.StatusAccepted, job.Handle(accepted.Replayed)}, nil
	case job.Status != broker.JobSucceeded:
		return nil, ofDispatch(endedBadly(job))
	}
	var done Job
	if err := json.Unmarshal(job.Handle(false), &done); err != nil {
		return nil, fmt.Errorf("read the job %s: %w", job.ID, err)
	}
	return answered{http.StatusCreated, done.Result}, nil
}

// ofDispatch is a refusal with the status that this route gives it: of what is
// not found only the vessel is 404 (contracts/native.md section 21).
func ofDispatch(err error) error {
	var refusal *broker.Refusal
	if errors.As(err, &refusal) && statuses[refusal.Code] == http.StatusNotFound && refusal.Code != broker.CodeVesselNotFound && refusal.Code != broker.CodeVerbUnknown {
		return &refused{status: http.StatusBadRequest, refusal: refusal}
	}
	return err
}

// awaitEnd waits until a job is final, or the time is over.
func (a *api) awaitEnd(r *http.Request, id string, wait time.Duration) (broker.Job, error) {
	until := time.Now().Add(wait)
	for {
		left := time.Until(until)
		job, err := a.awaitJob(r, id, left)
		if err != nil || job.Status.Final() || left <= 0 || r.Context().Err() != nil {
			return job, err
		}
	}
}

// endedBadly is the refusal by which a job ended, or its reason where there was
// none.
func endedBadly(job broker.Job) error {
	if len(job.Refusal) > 0 {
		err := nativeRefusal(job.Refusal)
		var refusal *broker.Refusal
		if errors.As(err, &refusal) {
			refusal.Detail["JobId"] = job.ID
		}
		return err
	}
	refusal := broker.Refuse(job.Reason, job.FailureMessage, map[string]any{"JobId": job.ID})
	if _, known := statuses[job.Reason]; known {
		return refusal
	}
	return &refused{status: http.StatusInternalServerError, refusal: refusal}
}
