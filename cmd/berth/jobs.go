package main

import (
	"encoding/json"
	"strings"

	"github.com/spf13/cobra"

	"berth/transport/rest"
)

func newJobsCommand(a *app) *cobra.Command {
	return newGroup(a, "jobs", "List, show, explain, follow and cancel jobs",
		newJobsListCommand, newJobsShowCommand, newJobsExplainCommand, newJobsWaitCommand, newJobsCancelCommand)
}

// jobFacts is a job for a person, without its result.
func jobFacts(j rest.Job) [][2]string {
	rows := [][2]string{{"Job", j.JobID}, {"Operation", j.Operation}, {"Status", string(j.Status)}, {"Submitted", j.SubmittedAtUTC}}
	for _, row := range []struct {
		name  string
		value *string
	}{{"Started", j.StartedAtUTC}, {"Completed", j.CompletedAtUTC}, {"Reason", j.Reason}, {"Failure", j.FailureMessage}} {
		if row.value != nil {
			rows = append(rows, [2]string{row.name, *row.value})
		}
	}
	if len(j.Refusal) > 0 && string(j.Refusal) != "null" {
		rows = append(rows, [2]string{"Refusal", string(j.Refusal)})
	}
	if j.Replayed {
		rows = append(rows, [2]string{"Replayed", "yes: this key named the job before"})
	}
	return rows
}

// printJob shows a job and its result.
func (a *app) printJob(job json.RawMessage) error {
	return show(a, job, func(j rest.Job) error {
		if err := a.facts(jobFacts(j)); err != nil {
			return err
		}
		if len(j.Result) == 0 || string(j.Result) == "null" {
			return nil
		}
		return a.printResult(j.Result)
	})
}

// jobOutcome is the exit for a job that ended.
func jobOutcome(j rest.Job) error {
	if j.Status == "Succeeded" {
		return resultFailure(j.Result)
	}
	message := "The job ended " + string(j.Status)
	if j.Reason != nil {
		message += " (" + *j.Reason + ")"
	}
	if j.FailureMessage != nil {
		message += ": " + *j.FailureMessage
	}
	return &failure{exit: exitOutcome, code: codeOutcome, message: strings.TrimSuffix(message, ".") + ".", shown: true}
}
