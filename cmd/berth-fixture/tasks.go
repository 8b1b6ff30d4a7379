//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The tools that the conformance suite's task scenarios call by name. They
// know nothing of tasks: the broker in front of them makes tasks of their calls.
// Input is asked for by a result with input requests, which the SDK turns into
// requests to the client where the client is of the older era.

func addTaskTools(s *mcp.Server, read, write *mcp.ToolAnnotations) {
	mcp.AddTool(s, &mcp.Tool{Name: "greet", Description: "Greets, at once.", Annotations: read}, greet)
	mcp.AddTool(s, &mcp.Tool{Name: "slow_compute", Description: "Waits, then answers.", Annotations: read}, slowCompute)
	mcp.AddTool(s, &mcp.Tool{Name: "failing_job", Description: "Answers with an error of the tool after a second.", Annotations: read}, failingJob)
	s.AddTool(&mcp.Tool{Name: "protocol_error_job", Description: "Answers with an error of the protocol.", Annotations: read,
		InputSchema: map[string]any{"type": "object"}}, protocolErrorJob)
	mcp.AddTool(s, &mcp.Tool{Name: "confirm_delete", Description: "Asks before it says that it deletes a file; deletes nothing.", Annotations: write}, confirmDelete)
	mcp.AddTool(s, &mcp.Tool{Name: "multi_input", Description: "Asks two things at once.", Annotations: write}, multiInput)
	mcp.AddTool(s, &mcp.Tool{Name: "test_tool_with_task", Description: "Asks for a name, then works for two seconds.", Annotations: write}, askThenWork)
}

type greetArgs struct {
	Name string `json:"name" jsonschema:"who is greeted"`
}

func greet(_ context.Context, _ *mcp.CallToolRequest, args greetArgs) (*mcp.CallToolResult, any, error) {
	return text("Hello, %s!", args.Name), nil, nil
}

type computeArgs struct {
	Seconds float64 `json:"seconds" jsonschema:"how long to wait, at most an hour"`
	Label   string  `json:"label,omitempty" jsonschema:"comes back in the answer"`
}

func slowCompute(ctx context.Context, _ *mcp.CallToolRequest, args computeArgs) (*mcp.CallToolResult, any, error) {
	if err := pause(ctx, args.Seconds); err != nil {
		return nil, nil, err
	}
	return text("computed %s in %v s", args.Label, args.Seconds), nil, nil
}

func failingJob(ctx context.Context, _ *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
	if err := pause(ctx, 1); err != nil {
		return nil, nil, err
	}
	return nil, nil, errors.New("the job failed, as it was asked to")
}

func protocolErrorJob(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return nil, &jsonrpc.Error{Code: -32050, Message: "the job broke, as it was asked to"}
}

// asking is a result that asks for one value, a string or a boolean, by each name.
func asking(kinds map[string]string) *mcp.CallToolResult {
	requests := mcp.InputRequestMap{}
	for name, kind := range kinds {
		requests[name] = &mcp.ElicitParams{Message: "Please give " + name, RequestedSchema: map[string]any{
			"type": "object", "required": []string{kind}, "properties": map[string]any{kind: map[string]any{"type": typeOf[kind]}},
		}}
	}
	return &mcp.CallToolResult{InputRequests: requests}
}

// typeOf are the properties that are asked for.
var typeOf = map[string]string{"confirm": "boolean", "name": "string"}

// accepted gives a property of an accepted elicitation.
func accepted(req *mcp.CallToolRequest, request, property string) (any, bool) {
	r, ok := req.Params.InputResponses[request].(*mcp.ElicitResult)
	if !ok || r == nil || r.Action != "accept" {
		return nil, false
	}
	v, ok := r.Content[property]
	return v, ok
}

type deleteArgs struct {
	Filename string `json:"filename" jsonschema:"the file that is not deleted"`
}

func confirmDelete(_ context.Context, req *mcp.CallToolRequest, args deleteArgs) (*mcp.CallToolResult, any, error) {
	if len(req.Params.InputResponses) == 0 {
		return asking(map[string]string{"confirmation": "confirm"}), nil, nil
	}
	if yes, ok := accepted(req, "confirmation", "confirm"); ok && yes == true {
		return text("deleted %s", args.Filename), nil, nil
	}
	return text("kept %s", args.Filename), nil, nil
}

func multiInput(_ context.Context, req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
	if len(req.Params.InputResponses) == 0 {
		return asking(map[string]string{"who": "name", "sure": "confirm"}), nil, nil
	}
	name, _ := accepted(req, "who", "name")
	yes, _ := accepted(req, "sure", "confirm")
	return text("name %v, sure %v", name, yes), nil, nil
}

func askThenWork(ctx context.Context, req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
	name, ok := accepted(req, "user_name", "name")
	if !ok {
		return asking(map[string]string{"user_name": "name"}), nil, nil
	}
	if err := pause(ctx, 2); err != nil {
		return nil, nil, err
	}
	return text("worked for %s", fmt.Sprint(name)), nil, nil
}
