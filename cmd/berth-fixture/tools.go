//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	maxSleep = time.Hour
	maxBytes = 64 << 20
	maxLine  = 4096
)

// newServer makes the server with all of its tools. witness is handed on to
// what spawn leaves behind.
func newServer(witness string) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "berth-fixture", Title: "Berth's test server", Version: "1"},
		&mcp.ServerOptions{Instructions: "Tools that answer, wait, write, break and leak, for tests."})
	yes, no := true, false
	read := &mcp.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, OpenWorldHint: &no}
	write := &mcp.ToolAnnotations{DestructiveHint: &no, OpenWorldHint: &no}
	harm := &mcp.ToolAnnotations{DestructiveHint: &yes, OpenWorldHint: &no}

	// echo has a handler of the SDK's lower level: its arguments come back as
	// they stood on the wire, key order and number text included.
	s.AddTool(&mcp.Tool{Name: "echo", Description: "Answers its own arguments.", Annotations: read,
		InputSchema: json.RawMessage(`{"type":"object"}`)}, echo)
	if os.Getenv("BERTH_FIXTURE_SEEN") != "" {
		s.AddTool(&mcp.Tool{Name: "seen", Description: "Answers the _meta of its call and the trace headers of its request.", Annotations: read,
			InputSchema: json.RawMessage(`{"type":"object"}`)}, seen)
	}
	mcp.AddTool(s, &mcp.Tool{Name: "add", Description: "Adds two numbers.", Annotations: read}, add)
	mcp.AddTool(s, &mcp.Tool{Name: "structured", Description: "Counts the words of a text; has an output schema.", Annotations: read}, structured)
	mcp.AddTool(s, &mcp.Tool{Name: "big", Description: "Answers with that many bytes of text.", Annotations: read}, big)
	mcp.AddTool(s, &mcp.Tool{Name: "fail", Description: "Answers with an error of the tool.", Annotations: read}, fail)
	mcp.AddTool(s, &mcp.Tool{Name: "slow", Description: "Waits, with progress, and can be cancelled.", Annotations: read}, slow)
	mcp.AddTool(s, &mcp.Tool{Name: "work", Description: "As slow, but not declared to be read-only.", Annotations: write}, slow)
	mcp.AddTool(s, &mcp.Tool{Name: "hang", Description: "Waits and takes no notice of a cancel.", Annotations: write}, hang)
	mcp.AddTool(s, &mcp.Tool{Name: "append", Description: "Appends one line to a file, in one write, after a wait.", Annotations: write}, appendLine)
	mcp.AddTool(s, &mcp.Tool{Name: "crash", Description: "Ends the process in the middle of the call.", Annotations: harm}, crash)
	mcp.AddTool(s, &mcp.Tool{Name: "spawn", Description: "Leaves a process behind that double-forked and did setsid.", Annotations: write}, spawn(witness))
	addTaskTools(s, read, write)
	return s
}

func text(format string, args ...any) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(format, args...)}}}
}

func echo(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return text("%s", req.Params.Arguments), nil
}

// seen tells what stood beside the arguments.
func seen(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	answer := map[string]any{"meta": req.Params.Meta}
	if req.Extra != nil && req.Extra.Header != nil {
		answer["traceparent"], answer["tracestate"] = req.Extra.Header.Values("Traceparent"), req.Extra.Header.Values("Tracestate")
	}
	raw, err := json.Marshal(answer)
	return text("%s", raw), err
}

type addArgs struct {
	A float64 `json:"a" jsonschema:"the first number"`
	B float64 `json:"b" jsonschema:"the second number"`
}

func add(_ context.Context, _ *mcp.CallToolRequest, args addArgs) (*mcp.CallToolResult, any, error) {
	return text("%v", args.A+args.B), nil, nil
}

type countArgs struct {
	Text string `json:"text" jsonschema:"what to count in"`
}

type counted struct {
	Words int `json:"words"`
	Bytes int `json:"bytes"`
}

func structured(_ context.Context, _ *mcp.CallToolRequest, args countArgs) (*mcp.CallToolResult, counted, error) {
	return nil, counted{Words: len(strings.Fields(args.Text)), Bytes: len(args.Text)}, nil
}

type bigArgs struct {
	Bytes   int     `json:"bytes" jsonschema:"length of the answer's text, at most 64 MiB"`
	Seconds float64 `json:"seconds,omitempty" jsonschema:"wait first"`
}

func big(ctx context.Context, _ *mcp.CallToolRequest, args bigArgs) (*mcp.CallToolResult, any, error) {
	if args.Bytes < 0 || args.Bytes > maxBytes {
		return nil, nil, fmt.Errorf("bytes must be 0 to %d", maxBytes)
	}
	if err := pause(ctx, args.Seconds); err != nil {
		return nil, nil, err
	}
	return text("%s", strings.Repeat("x", args.Bytes)), nil, nil
}

type failArgs struct {
	Message string `json:"message,omitempty" jsonschema:"what the error says"`
}

func fail(_ context.Context, _ *mcp.CallToolRequest, args failArgs) (*mcp.CallToolResult, any, error) {
	if args.Message == "" {
		args.Message = "it failed, as it was asked to"
	}
	return nil, nil, errors.New(args.Message)
}

type slowArgs struct {
	Seconds  float64 `json:"seconds" jsonschema:"how long to wait, at most an hour"`
	Progress int     `json:"progress,omitempty" jsonschema:"how many progress notifications to send meanwhile"`
}

func slow(ctx context.Context, req *mcp.CallToolRequest, args slowArgs) (*mcp.CallToolResult, any, error) {
	if args.Progress < 0 || args.Progress > 10000 {
		return nil, nil, errors.New("progress must be 0 to 10000")
	}
	token := req.Params.GetProgressToken()
	for i := range args.Progress {
		if err := pause(ctx, args.Seconds/float64(args.Progress+1)); err != nil {
			return nil, nil, err
		}
		if token == nil {
			continue
		}
		// A reader that is gone shows in ctx; what it misses is no error.
		_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token,
			Progress: float64(i + 1), Total: float64(args.Progress + 1), Message: fmt.Sprintf("part %d", i+1)})
	}
	if err := pause(ctx, args.Seconds/float64(args.Progress+1)); err != nil {
		return nil, nil, err
	}
	return text("waited %v s", args.Seconds), nil, nil
}

// pause waits unless the call is cancelled.
func pause(ctx context.Context, seconds float64) error {
	d := time.Duration(seconds * float64(time.Second))
	if d < 0 || d > maxSleep {
		return fmt.Errorf("seconds must be 0 to %v", maxSleep.Seconds())
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return errors.New("cancelled")
	}
}

func hang(_ context.Context, _ *mcp.CallToolRequest, args slowArgs) (*mcp.CallToolResult, any, error) {
	if err := pause(context.Background(), args.Seconds); err != nil {
		return nil, nil, err
	}
	return text("hung %v s", args.Seconds), nil, nil
}

type appendArgs struct {
	File    string  `json:"file" jsonschema:"the file; it is made when it is missing"`
	Line    string  `json:"line" jsonschema:"one line, without a line break"`
	Seconds float64 `json:"seconds,omitempty" jsonschema:"wait after the write and before the answer"`
}

// appendLine writes first and waits then, so that a process that dies in
// between has had its effect and not told it.
func appendLine(ctx context.Context, _ *mcp.CallToolRequest, args appendArgs) (*mcp.CallToolResult, any, error) {
	if args.File == "" || len(args.Line) > maxLine || strings.ContainsAny(args.Line, "\r\n") {
		return nil, nil, fmt.Errorf("a file and one line of at most %d bytes are needed", maxLine)
	}
	f, err := os.OpenFile(args.File, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, nil, err
	}
	_, err = f.WriteString(args.Line + "\n")
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, nil, err
	}
	if err := pause(ctx, args.Seconds); err != nil {
		return nil, nil, err
	}
	return text("appended %s", args.Line), nil, nil
}

type crashArgs struct {
	Seconds float64 `json:"seconds,omitempty" jsonschema:"wait first"`
	Message string  `json:"message,omitempty" jsonschema:"what standard error says at the end"`
}

func crash(ctx context.Context, _ *mcp.CallToolRequest, args crashArgs) (*mcp.CallToolResult, any, error) {
	if err := pause(ctx, args.Seconds); err != nil {
		return nil, nil, err
	}
	if args.Message != "" {
		fmt.Fprintln(os.Stderr, args.Message)
	}
	os.Exit(3)
	return nil, nil, nil
}
