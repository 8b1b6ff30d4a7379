//go:build unix

package main

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestToolsOfTheTaskScenariosAnswer(t *testing.T) {
	var asked atomic.Int64
	action := "accept"
	s := connect(t, &mcp.ClientOptions{ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		asked.Add(1)
		return &mcp.ElicitResult{Action: action, Content: map[string]any{"confirm": true, "name": "Alice"}}, nil
	}})
	for _, c := range []struct {
		tool, action string
		arguments    map[string]any
		want         string
		isError      bool
		asks         int64
	}{
		{"greet", "", map[string]any{"name": "World"}, "Hello, World!", false, 0},
		{"slow_compute", "", map[string]any{"seconds": 0.001, "label": "x"}, "computed x in 0.001 s", false, 0},
		{"failing_job", "", nil, "the job failed, as it was asked to", true, 0},
		{"confirm_delete", "accept", map[string]any{"filename": "f"}, "deleted f", false, 1},
		{"confirm_delete", "decline", map[string]any{"filename": "f"}, "kept f", false, 1},
		{"multi_input", "accept", nil, "name Alice, sure true", false, 2},
		{"test_tool_with_task", "accept", nil, "worked for Alice", false, 1},
	} {
		asked.Store(0)
		action = c.action
		arguments := c.arguments
		if arguments == nil {
			arguments = map[string]any{}
		}
		if r := callTool(t, s, c.tool, arguments); textOf(r) != c.want || r.IsError != c.isError || asked.Load() != c.asks {
			t.Errorf("%s, %s: %q, error %v, asked %d times", c.tool, c.action, textOf(r), r.IsError, asked.Load())
		}
	}
	_, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "protocol_error_job", Arguments: map[string]any{}})
	var problem *jsonrpc.Error
	if !errors.As(err, &problem) || problem.Code != -32050 {
		t.Errorf("protocol_error_job: %v", err)
	}
}
