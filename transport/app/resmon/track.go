package resmon

import (
	"encoding/json"
	"net/url"
	"strconv"

	"berth/broker"
	"berth/broker/shape"
	"berth/transport/app"
)

// tracks is how a run is followed: by its own record, bound to the process that
// started it. A queued run is followed once a run of that routine carries its
// request id; that it is the routine's next one would be no proof.
var tracks = &app.Tracks{
	Started: started, Verb: "get_execution", Arguments: func(handle string) json.RawMessage {
		return app.Object{{Name: "exec_id", Value: app.Quote(handle)}}.JSON()
	}, Read: readPoll,
	FindVerb: findQueuedRun.Name, Find: readFound,
}

// started reads an answer of run_sweep or run_routine.
func started(document json.RawMessage) (app.Started, bool) {
	o, ok := app.ReadObject(document)
	if !ok {
		return app.Started{}, false
	}
	if truthy(o.Get("queued")) {
		request, routine := o.Text("request_id"), o.Get("routine_id")
		if request == "" || !isWhole(routine) {
			return app.Started{}, false
		}
		return app.Started{Ticket: app.Object{{Name: "routine_id", Value: routine}, {Name: "request_id", Value: app.Quote(request)}}.JSON()}, true
	}
	if id := o.Get("execution_id"); isWhole(id) {
		return app.Started{Handle: string(id)}, true
	}
	return app.Started{}, false
}

// runResult is what a job of a run ends with: not the record.
var runResult = app.Columns{{"status", "status"}, {"result_count", "result_count"}, {"new_result_count", "new_result_count"}, {"finished", "end_time"}}

// readPoll reads an answer of get_execution about a run.
func readPoll(handle, runtimeID string, document json.RawMessage, isError bool) app.Poll {
	o, ok := app.ReadObject(document)
	if !ok {
		return app.Poll{}
	}
	run := "run " + handle + " of the resmon process " + runtimeID
	lost := func(reason, message string) app.Poll {
		return app.Poll{Good: true, End: broker.JobLost, Reason: reason, Message: message}
	}
	if isError {
		switch code := o.Text("error"); code {
		case app.InstanceMismatch, app.IdentityUnavailable:
			return lost(code, "Another process answers now than the one that held "+run+"; what became of it is unknown.")
		case app.NotFound:
			return lost(code, "resmon does not know "+run+" any more.")
		}
		return app.Poll{}
	}
	switch status := o.Text("status"); status {
	case "running":
		return app.Poll{Good: true}
	case "completed":
		result := app.Object{{Name: "execution_id", Value: app.OrNull(o.Get("id"))}, {Name: "runtime_id", Value: app.Quote(runtimeID)}}
		return app.Poll{Good: true, End: broker.JobSucceeded, Result: append(result, runResult.Of(o)...).JSON()}
	case "failed":
		message, _ := shape.Text(app.OrNull(o.Get("error_message")))
		if message == "" {
			message = "The run failed and recorded no reason."
		}
		return app.Poll{Good: true, End: broker.JobFailed, Reason: app.UpstreamError, Message: message}
	case "cancelled":
		return app.Poll{Good: true, End: broker.JobFailed, Reason: string(broker.CodeCancelled), Message: "The run was cancelled in resmon."}
	case "interrupted":
		why := o.Text("interrupted_reason")
		if why == "" {
			why = "not recorded"
		}
		return lost("interrupted", "The process that ran it went away before the run was finished (interrupted_reason: "+why+").")
	default:
		if !app.IsNull(o.Get("end_time")) {
			return lost("unknown_status", "The run has ended with a status that is not known here.")
		}
		return app.Poll{Good: true}
	}
}

// findQueuedRun looks among the newest runs for the one of a queued request.
// Only the broker calls it.
var findQueuedRun = app.Tool{Name: "find_queued_run", Internal: true, Control: true,
	Params: []app.Param{{Name: "routine_id", Kind: app.ID, Required: true}, {Name: "request_id", Kind: app.Text, Required: true}},
	Run: func(c *app.Call) (json.RawMessage, *app.Problem) {
		reply, problem := c.Send(app.Request{Route: routeExecutions, Query: url.Values{"limit": {strconv.Itoa(walkPage)}, "offset": {"0"}}})
		if problem != nil {
			return nil, problem
		}
		rows, problem := c.Rows(reply)
		if problem != nil {
			return nil, problem
		}
		id := app.Null
		for _, row := range rows {
			if string(row.Get("routine_id")) == c.Text("routine_id") && row.Text("request_id") == c.Text("request_id") && isWhole(row.Get("id")) {
				id = row.Get("id")
			}
		}
		return app.Object{{Name: "execution_id", Value: id}}.JSON(), nil
	}}

func readFound(_, document json.RawMessage, isError bool) app.Poll {
	o, ok := app.ReadObject(document)
	if !ok {
		return app.Poll{}
	}
	if isError {
		switch code := o.Text("error"); code {
		case app.InstanceMismatch, app.IdentityUnavailable:
			return app.Poll{Good: true, End: broker.JobLost, Reason: code,
				Message: "Another process answers now than the one that queued the run; what became of it is unknown."}
		}
		return app.Poll{}
	}
	if id := o.Get("execution_id"); isWhole(id) {
		return app.Poll{Good: true, Handle: string(id)}
	}
	return app.Poll{Good: true}
}
