package main

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"berth/broker"
	"berth/transport/rest"
)

// The exit codes of every subcommand.
const (
	exitOK          = 0
	exitOutcome     = 1
	exitUsage       = 2
	exitNoBroker    = 3
	exitRefused     = 4
	exitJournal     = 5
	exitFailed      = 6
	exitNotYet      = 7
	exitInterrupted = 130
)

// exitTable documents them; docs/cli.md is written from it and a test holds
// the two together.
var exitTable = []struct {
	code    int
	meaning string
}{
	{exitOK, "It is done; what was asked for is on standard output."},
	{exitOutcome, "The tool answered with an error, or the job ended other than Succeeded, or `berth doctor` found something wrong. The answer is on standard output."},
	{exitUsage, "The command line is wrong. Nothing was done."},
	{exitNoBroker, "No broker runs for this state directory."},
	{exitRefused, "The broker refused; the code says why."},
	{exitJournal, "The journal has problems, or cannot be read."},
	{exitFailed, "Something else failed: a file, the network, or an answer that could not be read."},
	{exitNotYet, "The time given with --timeout is over and the job goes on."},
	{exitInterrupted, "Interrupted (SIGINT or SIGTERM)."},
}

// Codes of failures that never cross the wire. The broker's own are in
// package broker.
const (
	codeUsage   = "usage"
	codeFailed  = "failed"
	codeJournal = "journal_problems"
	codeNotYet  = "still_running"
	codeOutcome = "not_succeeded"
	// codeUnhealthy is what `berth doctor` says when something is wrong.
	codeUnhealthy = "problems_found"
	codeStopped   = "interrupted"
	codeNoBroker  = string(broker.CodeBrokerNotRunning)
)

// failure is why a command ends with another exit code than 0.
type failure struct {
	exit    int
	code    string
	message string          // one plain sentence
	more    []string        // further lines for a person
	data    json.RawMessage // the refusal's fields; may be empty
	// shown is true when standard output already has the answer that tells it,
	// so that --json adds no second document.
	shown bool
}

func (f *failure) Error() string { return f.code + ": " + f.message }

func usage(message string) *failure {
	return &failure{exit: exitUsage, code: codeUsage, message: message}
}

// noBroker is the failure of a command that needs a running broker; err says
// in one sentence that none was found.
func noBroker(err error) *failure {
	return &failure{exit: exitNoBroker, code: codeNoBroker, message: sentence(err)}
}

// asFailure gives every error an exit code and a code.
func asFailure(err error) *failure {
	var f *failure
	var api *rest.APIError
	var refusal *broker.Refusal
	switch {
	case errors.As(err, &f):
		return f
	case errors.As(err, &api):
		return &failure{exit: exitRefused, code: string(api.Code), message: api.Message, more: api.Violations(), data: api.Data}
	case errors.As(err, &refusal):
		return &failure{exit: exitRefused, code: string(refusal.Code), message: refusal.Message, data: refusal.JSON()}
	case errors.Is(err, rest.ErrNotRunning):
		return noBroker(err)
	case errors.Is(err, context.Canceled):
		return &failure{exit: exitInterrupted, code: codeStopped, message: "Interrupted."}
	default:
		return &failure{exit: exitFailed, code: codeFailed, message: sentence(err)}
	}
}

// sentence makes one line of an error's text.
func sentence(err error) string {
	text := strings.Join(strings.Fields(err.Error()), " ")
	if text == "" {
		return "It failed."
	}
	text = strings.ToUpper(text[:1]) + text[1:]
	if !strings.HasSuffix(text, ".") {
		text += "."
	}
	return text
}

// errorObject is what --json prints for a failure.
type errorObject struct {
	Error    string
	Code     string
	ExitCode int
	Data     json.RawMessage
}
