package mcpserver

import (
	"encoding/json"
	"strings"

	"berth/broker"
	"berth/transport/jsonrpc"
)

// undeclared is the error for a backend that asks what a client of these
// capabilities cannot be asked; nil when it can. A method that the protocol
// does not name is the client's to judge.
func undeclared(capabilities json.RawMessage, method string, params json.RawMessage) *broker.RPCError {
	switch {
	case method == "sampling/createMessage":
		if !declares(capabilities, "sampling") {
			return unsupported("sampling")
		}
		if asksTools(params) && !declares(capabilities, "sampling", "tools") {
			return unsupportedForm("sampling with tools")
		}
	case method == "elicitation/create":
		return undeclaredElicitation(capabilities, params)
	case method == "roots/list":
		if !declares(capabilities, "roots") {
			return unsupported("roots")
		}
	case strings.HasPrefix(method, "tasks/"):
		if !declares(capabilities, "tasks") {
			return unsupported("tasks")
		}
	}
	return nil
}

// undeclaredElicitation knows that a client which names no mode speaks the
// first one, forms.
func undeclaredElicitation(capabilities, params json.RawMessage) *broker.RPCError {
	if !declares(capabilities, "elicitation") {
		return unsupported("elicitation")
	}
	url := declares(capabilities, "elicitation", "url")
	form := declares(capabilities, "elicitation", "form") || !url
	mode := "form"
	if o, err := jsonrpc.ParseObject(params); err == nil {
		if text, ok := o.Text("mode"); ok {
			mode = text
		}
	}
	if mode == "url" && !url || mode == "form" && !form {
		return unsupportedForm("elicitation in " + clip(mode) + " mode")
	}
	return nil
}

// kept is what of a client's capabilities a session id holds: all of them, or,
// where they are too long, those by which it is judged what may be asked of it.
// Nil when those are too long as well.
func kept(capabilities json.RawMessage) json.RawMessage {
	if len(capabilities) <= maxCapabilities {
		return capabilities
	}
	o, err := jsonrpc.ParseObject(capabilities)
	if err != nil {
		return nil
	}
	o.DeleteFunc(func(name string) bool {
		return name != "roots" && name != "sampling" && name != "elicitation" && name != "tasks"
	})
	if short := o.Bytes(); o.Len() > 0 && len(short) <= maxCapabilities {
		return short
	}
	return nil
}

func asksTools(params json.RawMessage) bool {
	o, err := jsonrpc.ParseObject(params)
	if err != nil {
		return false
	}
	_, tools := o.Get("tools")
	_, choice := o.Get("toolChoice")
	return tools || choice
}

// declares follows a path of objects. Null and false declare nothing.
func declares(capabilities json.RawMessage, path ...string) bool {
	at := capabilities
	for _, name := range path {
		o, err := jsonrpc.ParseObject(at)
		if err != nil {
			return false
		}
		next, ok := o.Get(name)
		if !ok || string(next) == "null" || string(next) == "false" {
			return false
		}
		at = next
	}
	return len(path) > 0
}

// unsupported answers as a client without the capability would.
func unsupported(what string) *broker.RPCError {
	return &broker.RPCError{Code: jsonrpc.CodeMethodNotFound, Message: "The client whose call this belongs to did not declare " + what + "."}
}

// unsupportedForm answers as a client that has the capability, but not this
// form of it.
func unsupportedForm(what string) *broker.RPCError {
	return &broker.RPCError{Code: jsonrpc.CodeInvalidParams, Message: "The client whose call this belongs to did not declare " + what + "."}
}
