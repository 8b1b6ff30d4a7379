package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"berth/actors"
	"berth/broker"
	"berth/broker/catalog"
)

// asked is the argument that makes any tool of the fake ask its caller.
type asked struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	MS     int             `json:"ms"` // how long the backend waits; zero: as long as it takes
}

// ask logs and asks the caller, and answers with what it heard.
func (b *fakeBroker) ask(ctx context.Context, req actors.Request, q asked) actors.Reply {
	if req.Peer.Notify != nil {
		req.Peer.Notify("notifications/message", json.RawMessage(`{"level":"info", "data":"asking"}`))
	}
	if req.Peer.Request == nil {
		return actors.Reply{Answer: &broker.Answer{Result: json.RawMessage(`{"content":[],"heard":"nobody can be asked"}`)}}
	}
	if q.MS > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(q.MS)*time.Millisecond)
		defer cancel()
	}
	result, problem := req.Peer.Request(ctx, q.Method, q.Params)
	if problem != nil {
		return actors.Reply{Answer: &broker.Answer{Result: fmt.Appendf(nil, `{"content":[],"refused":%s}`, problem.Object())}}
	}
	return actors.Reply{Answer: &broker.Answer{Result: fmt.Appendf(nil, `{"content":[],"heard":%s}`, result)}}
}

// offering is a backend with prompts and resources.
func offering(name string) catalog.Source {
	return catalog.Source{Backend: name, Listed: true, Tools: fsTools()[1:2], Server: broker.ServerInfo{ProtocolVersion: "2025-11-25",
		Capabilities: json.RawMessage(`{"tools":{},"prompts":{},"resources":{"subscribe":true},"completions":{},"logging":{}}`)}}
}

// offers are the lists of the backends that are offering.
var offers = map[string]string{
	`one prompts/list {}`:             `{"prompts":[{"name":"p","title":"One's","own":1.0}],"nextCursor":"c"}`,
	`one prompts/list {"cursor":"c"}`: `{"prompts":[{"name":"q q"}]}`,
	`two prompts/list {}`:             `{"prompts":[{"name":"p","arguments":[{"name":"a"}]}]}`,
	`one resources/list {}`:           `{"resources":[{"uri":"file:///both","name":"of one"},{"uri":"x://1","name":"1","own":1.0}]}`,
	`two resources/list {}`:           `{"resources":[{"uri":"file:///both","name":"of two"},{"uri":"a://2","name":"2"}]}`,
	`one resources/templates/list {}`: `{"resourceTemplates":[]}`,
	`two resources/templates/list {}`: `{"resourceTemplates":[{"uriTemplate":"t://{id}/x","name":"t"}]}`,
}

// other answers whatever is no tools/call with what it was asked.
func (b *fakeBroker) other(ctx context.Context, req actors.Request, cancel <-chan string) actors.Reply {
	if req.Call.Backend == "stuck" {
		<-ctx.Done()
		return actors.Reply{Cancelled: true}
	}
	switch req.Call.Method {
	case "prompts/get":
		if name, _ := textOf(req.Call.Params, "name"); name == "known" {
			break
		}
		return actors.Reply{Answer: &broker.Answer{Error: &broker.RPCError{Code: -32602, Message: "no such prompt",
			Raw: json.RawMessage(`{"code":-32602, "message":"no such prompt","own":1.0}`)}}}
	case "own/hang":
		<-cancel
		return actors.Reply{Cancelled: true}
	}
	if list, ok := offers[req.Call.Backend+" "+req.Call.Method+" "+string(req.Call.Params)]; ok {
		return actors.Reply{Answer: &broker.Answer{Result: json.RawMessage(list)}}
	}
	return actors.Reply{Answer: &broker.Answer{Result: fmt.Appendf(nil, `{"method":%q, "got":%s}`, req.Call.Method, req.Call.Params)}}
}
