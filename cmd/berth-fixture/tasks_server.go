//go:build unix

package main

import (
	"context"
	"fmt"
	"io"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// serveTasks serves a backend that has tasks of its own, in the form of
// 2025-11-25, over HTTP and without sessions: whoever knows a task's id may ask
// for it. The official SDK has no tasks, so this server is mcp-go's. Its tasks
// live as long as the process.
func serveTasks(ctx context.Context, o options, out io.Writer) error {
	s := server.NewMCPServer("berth-fixture-tasks", "1", server.WithTaskCapabilities(true, true, true))
	s.AddTool(mcp.NewTool("count", mcp.WithDescription("Counts seconds, as a task."), mcp.WithTaskSupport(mcp.TaskSupportRequired),
		mcp.WithNumber("seconds", mcp.Required())), count)
	return serve(ctx, o, out, server.NewStreamableHTTPServer(s, server.WithStateLess(true)))
}

// count takes no notice of the end of the request that began it, which a task
// outlives.
func count(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	seconds := req.GetFloat("seconds", 0)
	if err := pause(context.WithoutCancel(ctx), seconds); err != nil {
		return mcp.NewToolResultError(err.Error()), nil
	}
	return mcp.NewToolResultText(fmt.Sprintf("counted %v s", seconds)), nil
}
