package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"berth/transport/rest"
)

// maxArguments limits what call reads from standard input, in bytes.
const maxArguments = 64 << 20

type callOptions struct {
	request rest.CallRequest
	wait    bool
}

func newCallCommand(a *app) *cobra.Command {
	var o callOptions
	var pairs []string
	cmd := &cobra.Command{
		Use:   "call NAME [ARGS-JSON|-]",
		Short: "Call a tool and print its answer",
		Long: `Call a tool and print its answer. Arguments are one JSON object, or - to read
it from standard input, and --arg k=v on top of it: v is taken as JSON where it
is JSON (12, true, {"a":1}, "12") and as text where it is not.

A call that the broker turned into a job prints the job's handle; with --wait
the job is followed to its end and its result is printed instead. So it is with
a job that stands beside an answer, because the answer says that work was
started: without --wait the answer is printed, and standard error names the job.`,
		Example: `  berth call files__read '{"path":"README.md"}'
  berth call build__run --arg target=all --idempotency-key nightly-7 --wait`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 2 {
				return usage("There is one argument too many: " + args[2] + ".")
			}
			if len(args) == 0 {
				return usage("The argument NAME is missing.")
			}
			return nil
		},
		RunE: a.runE(func(cmd *cobra.Command, args []string) error {
			o.request.Name = args[0]
			var err error
			if o.request.Arguments, err = callArguments(args[1:], pairs, a.in); err != nil {
				return err
			}
			return a.runCall(cmd.Context(), o)
		}),
	}
	cmd.Flags().StringArrayVar(&pairs, "arg", nil, "one argument, `k=v`; may be repeated")
	cmd.Flags().StringVar(&o.request.Profile, "profile", "", "the profile in which NAME is looked up")
	cmd.Flags().StringVar(&o.request.IdempotencyKey, "idempotency-key", "", "a repeat with the same key gives the first job; the call becomes a job at once")
	cmd.Flags().StringVar(&o.request.ExpectedRuntimeID, "expect-runtime-id", "", "refuse unless this life of the backend answers")
	cmd.Flags().BoolVar(&o.wait, "wait", false, "follow a job to its end")
	return cmd
}

// callArguments builds the arguments object: the text on the command line or
// standard input, kept byte for byte when no pair changes it.
func callArguments(texts, pairs []string, in io.Reader) (json.RawMessage, error) {
	text := []byte("{}")
	if len(texts) > 0 {
		text = []byte(texts[0])
		if texts[0] == "-" {
			var err error
			if text, err = io.ReadAll(io.LimitReader(in, maxArguments+1)); err != nil {
				return nil, fmt.Errorf("read the arguments: %w", err)
			}
			if len(text) > maxArguments {
				return nil, usage(fmt.Sprintf("The arguments are over %d bytes.", maxArguments))
			}
		}
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(text, &object); err != nil || object == nil {
		return nil, usage("The arguments are not one JSON object.")
	}
	if len(pairs) == 0 {
		return bytes.TrimSpace(text), nil
	}
	for _, pair := range pairs {
		k, v, found := strings.Cut(pair, "=")
		if !found || k == "" {
			return nil, usage("--arg must be k=v.")
		}
		if json.Valid([]byte(v)) {
			object[k] = json.RawMessage(v)
			continue
		}
		encoded, err := json.Marshal(v)
		if err != nil {
			return nil, fmt.Errorf("the argument %s: %w", k, err)
		}
		object[k] = encoded
	}
	merged, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("the arguments: %w", err)
	}
	return merged, nil
}

func (a *app) runCall(ctx context.Context, o callOptions) error {
	wait := a.waitingFor("Waiting for " + o.request.Name)
	defer wait.end()
	answer, err := a.post(ctx, "/api/v1/calls", o.request)
	if err != nil {
		return err
	}
	var call rest.CallAnswer
	if err := json.Unmarshal(answer, &call); err != nil {
		return fmt.Errorf("read the broker's answer: %w", err)
	}
	switch {
	case call.Refusal != nil:
		return refusedCall(call.Refusal)
	case call.Job != nil && o.wait:
		return a.followJob(ctx, call.Job, wait, 0, a.printOutcome)
	case call.Tracked != nil && o.wait:
		return a.followJob(ctx, call.Tracked, wait, 0, a.printOutcome)
	case call.Job != nil:
		wait.end()
		return a.printHandle(call.Job)
	}
	wait.end()
	if a.json {
		if err := a.printJSON(answer); err != nil {
			return err
		}
	} else if err := a.printResult(call.Result); err != nil {
		return err
	}
	if err := a.besideAnswer(call); err != nil {
		return err
	}
	if call.Error != nil {
		return &failure{exit: exitOutcome, code: codeOutcome, shown: true,
			message: fmt.Sprintf("The backend answered with error %d: %s", call.Error.Code, call.Error.Message)}
	}
	return resultFailure(call.Result)
}

// besideAnswer tells a person what became of the work that an answer says was
// started.
func (a *app) besideAnswer(call rest.CallAnswer) error {
	switch {
	case call.Untracked:
		fmt.Fprintln(a.err, "What it started goes on, and no job follows it: the journal could not be written.")
	case call.Tracked != nil:
		var j rest.Job
		if err := json.Unmarshal(call.Tracked, &j); err != nil {
			return fmt.Errorf("read the job: %w", err)
		}
		fmt.Fprintf(a.err, "A job follows what it started: berth jobs wait %s\n", plain(j.JobID))
	}
	return nil
}

func refusedCall(refusal json.RawMessage) error {
	var r struct {
		Code, Message string
		Detail        map[string]json.RawMessage
	}
	if err := json.Unmarshal(refusal, &r); err != nil {
		return fmt.Errorf("read the broker's refusal: %w", err)
	}
	f := &failure{exit: exitRefused, code: r.Code, message: r.Message, data: refusal}
	for _, name := range slices.Sorted(maps.Keys(r.Detail)) {
		value := string(r.Detail[name])
		var text string
		if json.Unmarshal(r.Detail[name], &text) == nil {
			value = text
		}
		f.more = append(f.more, name+": "+value)
	}
	return f
}

// printOutcome shows a job that was followed to its end as the call's answer:
// its result, as if it had not become a job.
func (a *app) printOutcome(record json.RawMessage) error {
	var j rest.Job
	if err := json.Unmarshal(record, &j); err != nil {
		return fmt.Errorf("read the job: %w", err)
	}
	if a.json || len(j.Result) == 0 || string(j.Result) == "null" {
		return a.printJob(record)
	}
	return a.printResult(j.Result)
}

// printHandle shows a job that goes on, or the one that an earlier call with
// the same key made.
func (a *app) printHandle(job json.RawMessage) error {
	var ended rest.Job
	if err := json.Unmarshal(job, &ended); err != nil {
		return fmt.Errorf("read the job: %w", err)
	}
	if ended.Status.Final() {
		if err := a.printJob(job); err != nil {
			return err
		}
		return jobOutcome(ended)
	}
	return show(a, job, func(j rest.Job) error {
		if err := a.facts(jobFacts(j)); err != nil {
			return err
		}
		fmt.Fprintf(a.err, "It goes on as a job. Follow it with: berth jobs wait %s\n", plain(j.JobID))
		return nil
	})
}

// toolResult is what a person is shown of a tool result.
type toolResult struct {
	Content []struct {
		Type     string
		Text     string
		MIMEType string `json:"mimeType"`
		Data     string
		URI      string
	}
	StructuredContent json.RawMessage `json:"structuredContent"`
	IsError           bool            `json:"isError"`
}

// printResult prints text as it is and everything else in one line; a result
// that is no tool result is printed as JSON.
func (a *app) printResult(result json.RawMessage) error {
	if len(result) == 0 {
		return nil
	}
	var r toolResult
	if err := json.Unmarshal(result, &r); err != nil || (r.Content == nil && r.StructuredContent == nil) {
		return a.printJSON(result)
	}
	if len(r.Content) == 0 && len(r.StructuredContent) > 0 {
		return a.printJSON(r.StructuredContent)
	}
	for _, block := range r.Content {
		line := block.Text
		switch block.Type {
		case "text":
			if a.outTerminal { // a tool's text must not drive the terminal
				line = plainText(line)
			}
		case "resource_link":
			line = "[resource " + plain(block.URI) + "]"
		default:
			line = fmt.Sprintf("[%s %s, %d bytes in base64; see --json]", plain(block.Type), plain(block.MIMEType), len(block.Data))
		}
		if _, err := fmt.Fprintln(a.out, strings.TrimSuffix(line, "\n")); err != nil {
			return fmt.Errorf("print the answer: %w", err)
		}
	}
	return nil
}

// resultFailure is the exit for a tool result with isError.
func resultFailure(result json.RawMessage) error {
	var r toolResult
	if json.Unmarshal(result, &r) == nil && r.IsError {
		return &failure{exit: exitOutcome, code: codeOutcome, message: "The tool answered with an error.", shown: true}
	}
	return nil
}
