package schema

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"berth/broker"
	"berth/broker/shape"
)

// Normalise applies rules 1 and 2 of contracts/native.md section 1.7 to the
// arguments of a native verb: an empty string for an optional property is
// dropped (unless it clears the stored value), and a string spelling of a
// boolean, integer or number is converted where the property has that type.
// What does not convert stays, so that it is refused by name. Absent and null
// arguments are the empty object; what is no object is returned as it is.
// Applying it twice changes nothing more.
func (s *Schema) Normalise(args json.RawMessage) json.RawMessage {
	trimmed := bytes.TrimSpace(args)
	if len(trimmed) == 0 || string(trimmed) == "null" {
		return json.RawMessage("{}")
	}
	members, err := shape.Members(trimmed)
	if err != nil {
		return args
	}
	changed := false
	kept := members[:0]
	for _, m := range members {
		p, known := s.properties[m.Name]
		if text, isText := shape.Text(m.Value); known && isText {
			if text == "" && !p.emptyStringClears && !slices.Contains(s.required, m.Name) {
				changed = true
				continue
			}
			if converted, ok := p.convert(text); ok {
				m.Value, changed = json.RawMessage(converted), true
			}
		}
		kept = append(kept, m)
	}
	if !changed {
		return args
	}
	var out bytes.Buffer
	out.WriteByte('{')
	for i, m := range kept {
		if i > 0 {
			out.WriteByte(',')
		}
		out.Write(m.Raw)
		out.WriteByte(':')
		out.Write(m.Value)
	}
	out.WriteByte('}')
	return out.Bytes()
}

var (
	integerText = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)
	numberText  = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)
)

// convert gives the JSON that text spells, when the property cannot be a string.
func (p property) convert(text string) (string, bool) {
	if slices.Contains(p.types, "string") {
		return "", false
	}
	text = strings.TrimSpace(text)
	for _, t := range p.types {
		switch t {
		case "boolean":
			if lower := strings.ToLower(text); lower == "true" || lower == "false" {
				return lower, true
			}
		case "integer":
			if integerText.MatchString(text) {
				return text, true
			}
		case "number":
			if numberText.MatchString(text) {
				return text, true
			}
		}
	}
	return "", false
}

// missing has the required properties whose absence has a code of its own.
var missing = map[string]broker.Code{
	"jobId":          broker.CodeMissingJobID,
	"reason":         broker.CodeMissingReason,
	"title":          broker.CodeMissingTitle,
	"missions":       broker.CodeMissingMissions,
	"eventId":        broker.CodeMissingEventID,
	"ids":            broker.CodeMissingIDs,
	"content":        broker.CodeMissingContent,
	"authorName":     broker.CodeMissingAuthorName,
	"participantKey": broker.CodeMissingParticipant,
	"displayName":    broker.CodeMissingDisplayName,
	"action":         broker.CodeInvalidAction,
	"runtime":        broker.CodeInvalidRuntime,
	"filePath":       broker.CodeMissingFilePath,
	"vesselId":       broker.CodeMissingVesselID,
	"query":          broker.CodeMissingQuery,
	"missionId":      broker.CodeMissingMissionID,
	"voyageId":       broker.CodeMissingVoyageID,
	"message":        broker.CodeMissingMessage,
	"type":           broker.CodeInvalidType,
}

// NativeRefusal judges normalised arguments of a native verb. A required
// property that is missing or blank is refused with its own code where it has
// one, everything else as invalid_arguments with Violations. It is nil when
// the arguments fit.
func (s *Schema) NativeRefusal(args json.RawMessage) *broker.Refusal {
	var object map[string]json.RawMessage
	if trimmed := bytes.TrimSpace(args); len(trimmed) > 0 {
		if err := json.Unmarshal(trimmed, &object); err != nil {
			return Violated(Violation{"", "type", "object"})
		}
	}
	for _, name := range s.required {
		if given, there := object[name]; !blank(given) || (there && string(given) != "null" && s.properties[name].mayBeBlank) {
			continue
		}
		if code, own := missing[name]; own {
			return broker.Refuse(code, "The argument "+name+" is required.", map[string]any{"Argument": name})
		}
		return Violated(Violation{pointer([]string{name}), "required", "a value"})
	}
	violations, err := s.Check(args)
	if err != nil {
		return Violated(Violation{"", "schema", "arguments that can be checked"})
	}
	if len(violations) > 0 {
		return Violated(violations...)
	}
	return nil
}

// Violated refuses arguments of a native verb.
func Violated(violations ...Violation) *broker.Refusal {
	type item struct{ Path, Problem string }
	items := make([]item, 0, len(violations))
	for _, v := range violations {
		items = append(items, item{v.Pointer, v.Rule + ": wanted " + v.Wanted})
	}
	return broker.Refuse(broker.CodeInvalidArguments, "The arguments do not fit this verb.", map[string]any{"Violations": items})
}

func blank(v json.RawMessage) bool {
	if len(v) == 0 || string(v) == "null" {
		return true
	}
	text, ok := shape.Text(v)
	return ok && strings.TrimSpace(text) == ""
}
