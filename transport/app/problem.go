package app

import (
	"encoding/json"
	"maps"
	"strings"
)

// The codes of a surface's errors. They are the app's contract and cross the
// wire; the broker's own codes are written as one of them.
const (
	BackendUnavailable  = "backend_unavailable"
	NotFound            = "not_found"
	InvalidArgument     = "invalid_argument"
	Conflict            = "conflict"
	UpstreamError       = "upstream_error"
	InternalError       = "internal_error"
	InstanceMismatch    = "instance_mismatch"
	IdentityUnavailable = "identity_unavailable"
)

// Problem is an answer that says no, in the shape of a surface.
type Problem struct {
	Code    string
	Message string
	Detail  map[string]any

	reply *Reply // the answer of the app that it was made from
}

// NewProblem makes one; detail may be nil.
func NewProblem(code, message string, detail map[string]any) *Problem {
	return &Problem{Code: code, Message: message, Detail: detail}
}

// Invalid is a refused argument.
func Invalid(message string, detail map[string]any) *Problem {
	return NewProblem(InvalidArgument, message, detail)
}

// With gives the problem with more detail.
func (p *Problem) With(name string, value any) *Problem {
	detail := maps.Clone(p.Detail)
	if detail == nil {
		detail = map[string]any{}
	}
	detail[name] = value
	q := *p
	q.Detail = detail
	return &q
}

// Reply is the app's answer that says no; nil when it gave none.
func (p *Problem) Reply() *Reply { return p.reply }

// topLevel are the details that also stand beside the message.
var topLevel = []string{"tried", "no_port_named"}

// JSON is {"error", "message", "detail"}; an unavailable backend repeats what
// was tried at top level.
func (p *Problem) JSON() json.RawMessage {
	out := Object{{"error", text(p.Code)}, {"message", text(p.Message)}}
	if p.Code == BackendUnavailable {
		for _, name := range topLevel {
			if v, ok := p.Detail[name]; ok {
				out = append(out, Field{name, JSON(v)})
			}
		}
	}
	detail := p.Detail
	if detail == nil {
		detail = map[string]any{}
	}
	return append(out, Field{"detail", JSON(detail)}).JSON()
}

// fill puts values in the place of {names}.
func fill(sentence string, pairs ...string) string {
	return strings.NewReplacer(pairs...).Replace(sentence)
}
