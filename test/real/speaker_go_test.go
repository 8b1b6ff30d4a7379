package real

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	mcpgo "github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const tasksExtension = "io.modelcontextprotocol/tasks"

// listeners hand progress to the call that it belongs to, by token.
type listeners struct {
	last atomic.Int64
	mu   sync.Mutex
	by   map[string]func(float64)
}

func (l *listeners) add(f func(float64)) string {
	token := fmt.Sprintf("p%d", l.last.Add(1))
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.by == nil {
		l.by = map[string]func(float64){}
	}
	l.by[token] = f
	return token
}

func (l *listeners) tell(token any, progress float64) {
	l.mu.Lock()
	f := l.by[fmt.Sprint(token)]
	l.mu.Unlock()
	if f != nil {
		f(progress)
	}
}

// yes is what a form is answered with.
func yes(schema any) map[string]any {
	if strings.Contains(fmt.Sprint(schema), "confirm") {
		return map[string]any{"confirm": true}
	}
	return map[string]any{"name": "Ada"}
}

// mcpGo is mcp-go's own client.
type mcpGo struct {
	*mcpgo.Client
	listeners
	era string
}

func (m *mcpGo) Elicit(_ context.Context, r mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	return &mcp.ElicitationResult{ElicitationResponse: mcp.ElicitationResponse{
		Action: mcp.ElicitationResponseActionAccept, Content: yes(r.Params.RequestedSchema)}}, nil
}

func connectMCPGo(t *testing.T, to target) speaker {
	t.Helper()
	var hop transport.Interface
	if to.url != "" {
		base := http.DefaultTransport.(*http.Transport).Clone()
		t.Cleanup(base.CloseIdleConnections)
		h, err := transport.NewStreamableHTTP(to.url, transport.WithHTTPBasicClient(&http.Client{Transport: base}),
			transport.WithHTTPHeaders(map[string]string{"Authorization": "Bearer " + to.token}))
		mustNot(t, "connect", err)
		hop = h
	} else {
		hop = transport.NewStdioWithOptions(to.line[0], nil, to.line[1:],
			transport.WithCommandFunc(func(_ context.Context, command string, _, args []string) (*exec.Cmd, error) {
				cmd := exec.Command(command, args...)
				cmd.Env = to.env
				return cmd, nil
			}))
	}
	m := &mcpGo{era: to.era}
	capabilities := mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapability{Form: &struct{}{}}}
	if to.tasks {
		capabilities.Extensions = map[string]any{tasksExtension: map[string]any{}}
	}
	m.Client = mcpgo.NewClient(hop, mcpgo.WithElicitationHandler(m), mcpgo.WithClientCapabilities(capabilities), mcpgo.WithProtocolVersion(to.era))
	m.OnNotification(func(n mcp.JSONRPCNotification) {
		if n.Method == "notifications/progress" {
			progress, _ := n.Params.AdditionalFields["progress"].(float64)
			m.tell(n.Params.AdditionalFields["progressToken"], progress)
		}
	})
	mustNot(t, "start", m.Start(context.Background()))
	t.Cleanup(func() {
		if err := m.Close(); err != nil && !errors.As(err, new(*exec.ExitError)) {
			t.Errorf("close: %v", err)
		}
	})
	request := mcp.InitializeRequest{}
	request.Params.ProtocolVersion = to.era
	request.Params.ClientInfo = mcp.Implementation{Name: "mcp-go", Version: "1"}
	request.Params.Capabilities = capabilities
	_, err := m.Initialize(bounded(t), request)
	mustNot(t, "initialize", err)
	return m
}

func (m *mcpGo) version() string { return m.ProtocolVersion() }

func (m *mcpGo) list(ctx context.Context) ([]string, error) {
	r, err := m.ListTools(ctx, mcp.ListToolsRequest{})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, tool := range r.Tools {
		names = append(names, tool.Name)
	}
	return names, nil
}

func (m *mcpGo) call(ctx context.Context, tool string, arguments map[string]any, progress func(float64)) (string, error) {
	request := mcp.CallToolRequest{}
	request.Params.Name, request.Params.Arguments = tool, arguments
	if progress != nil {
		request.Params.Meta = &mcp.Meta{ProgressToken: m.add(progress)}
	}
	r, err := m.CallTool(ctx, request)
	if err != nil {
		return "", err
	}
	return mcpGoText(r.Content)
}

func mcpGoText(content []mcp.Content) (string, error) {
	if len(content) > 0 {
		if text, ok := content[0].(mcp.TextContent); ok {
			return text.Text, nil
		}
	}
	return "", fmt.Errorf("no text in %+v", content)
}

func (m *mcpGo) begin(ctx context.Context, tool string, arguments map[string]any) (string, error) {
	request := mcp.CallToolRequest{}
	request.Params.Name, request.Params.Arguments = tool, arguments
	if m.era == handshakeEra {
		request.Params.Task = &mcp.TaskParams{}
	}
	_, err := m.CallTool(ctx, request)
	if err == nil {
		err = errors.New("no task but a result")
	}
	return "", err
}

func (m *mcpGo) poll(ctx context.Context, id string) (status, text string, err error) {
	get := mcp.GetTaskRequest{Params: mcp.GetTaskParams{TaskId: id}}
	if m.era == statelessEra {
		get.Header = http.Header{"Mcp-Name": {id}} // it does not set it itself
	}
	r, err := m.WaitForTask(ctx, get, 100*time.Millisecond)
	if err != nil || m.era != handshakeEra {
		if err == nil {
			status = string(r.Status)
		}
		return status, "", err
	}
	out, err := m.TaskResult(ctx, mcp.TaskResultRequest{Params: mcp.TaskResultParams{TaskId: id}})
	if err != nil {
		return string(r.Status), "", err
	}
	text, err = mcpGoText(out.Content)
	return string(r.Status), text, err
}

// goSDK is the official Go SDK's client.
type goSDK struct {
	*sdk.ClientSession
	listeners
}

// bearer adds the token to each request.
type bearer struct {
	http.RoundTripper
	token string
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.RoundTripper.RoundTrip(r)
}

type taskParams struct {
	sdk.ParamsBase
	TaskID string `json:"taskId"`
}

type taskResult struct {
	sdk.ResultBase
	Status string `json:"status"`
	Result struct {
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
	} `json:"result"`
}

func connectGoSDK(t *testing.T, to target) speaker {
	t.Helper()
	g := &goSDK{}
	capabilities := &sdk.ClientCapabilities{}
	if to.tasks {
		capabilities.AddExtension(tasksExtension, nil)
	}
	client := sdk.NewClient(&sdk.Implementation{Name: "go-sdk", Version: "1"}, &sdk.ClientOptions{
		Capabilities: capabilities,
		ElicitationHandler: func(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			return &sdk.ElicitResult{Action: "accept", Content: yes(r.Params.RequestedSchema)}, nil
		},
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
			g.tell(r.Params.ProgressToken, r.Params.Progress)
		},
	})
	// The client has no methods for tasks; asking after one it can be taught.
	mustNot(t, "tasks/get", sdk.AddSendingCustomMethod[*taskParams, *taskResult](client, "tasks/get"))
	var hop sdk.Transport
	if to.url != "" {
		base := http.DefaultTransport.(*http.Transport).Clone()
		t.Cleanup(base.CloseIdleConnections)
		hop = &sdk.StreamableClientTransport{Endpoint: to.url, HTTPClient: &http.Client{Transport: bearer{base, to.token}}}
	} else {
		cmd := exec.Command(to.line[0], to.line[1:]...)
		cmd.Env = to.env
		hop = &sdk.CommandTransport{Command: cmd}
	}
	session, err := client.Connect(context.Background(), hop, &sdk.ClientSessionOptions{ProtocolVersion: to.era})
	mustNot(t, "connect", err)
	t.Cleanup(func() {
		if err := session.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	g.ClientSession = session
	return g
}

func (g *goSDK) version() string { return g.InitializeResult().ProtocolVersion }

func (g *goSDK) list(ctx context.Context) ([]string, error) {
	var names []string
	for tool, err := range g.Tools(ctx, nil) {
		if err != nil {
			return nil, err
		}
		names = append(names, tool.Name)
	}
	return names, nil
}

func (g *goSDK) call(ctx context.Context, tool string, arguments map[string]any, progress func(float64)) (string, error) {
	params := &sdk.CallToolParams{Name: tool, Arguments: arguments}
	if progress != nil {
		params.SetProgressToken(g.add(progress))
	}
	r, err := g.CallTool(ctx, params)
	if err != nil {
		return "", err
	}
	if len(r.Content) > 0 {
		if text, ok := r.Content[0].(*sdk.TextContent); ok {
			return text.Text, nil
		}
	}
	return "", fmt.Errorf("no text in %+v", r)
}

func (g *goSDK) begin(ctx context.Context, tool string, arguments map[string]any) (string, error) {
	if g.version() == handshakeEra {
		if _, ok := reflect.TypeFor[sdk.CallToolParams]().FieldByName("Task"); !ok {
			return "", errors.New("its CallToolParams has no task")
		}
	}
	r, err := g.CallTool(ctx, &sdk.CallToolParams{Name: tool, Arguments: arguments})
	if err == nil {
		err = fmt.Errorf("no task but a result with %d content blocks", len(r.Content))
	}
	return "", err
}

func (g *goSDK) poll(ctx context.Context, id string) (status, text string, err error) {
	r, err := sdk.CallCustomMethod[*taskParams, *taskResult](ctx, g.ClientSession, "tasks/get", &taskParams{TaskID: id})
	if err != nil {
		return "", "", err
	}
	if len(r.Result.Content) > 0 {
		text = r.Result.Content[0].Text
	}
	return r.Status, text, nil
}
