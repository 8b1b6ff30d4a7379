package app

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"berth/broker/shape"
)

// expectedArgument binds a call to a process, as an argument of any tool.
const expectedArgument = "expected_runtime_id"

var (
	canonicalUUID4 = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	integer        = regexp.MustCompile(`^-?(?:0|[1-9][0-9]*)$`)
)

// ValidRuntimeID reports whether id is a canonical lower-case UUID4.
func ValidRuntimeID(id string) bool { return canonicalUUID4.MatchString(id) }

// identity is what an answer says of the process that gave it.
type identity struct {
	came  bool   // the answer has one
	valid bool   // all five fields are
	id    string // the runtime id, of a valid one
}

// readIdentity finds the identity of an answer.
func readIdentity(body json.RawMessage) identity {
	answer, ok := ReadObject(body)
	if !ok {
		return identity{}
	}
	raw := answer.Get("identity")
	if raw == nil {
		return identity{}
	}
	o, ok := ReadObject(raw)
	if !ok {
		return identity{came: true}
	}
	id, _ := shape.Text(OrNull(o.Get("runtime_id")))
	schema := strings.TrimSpace(string(o.Get("schema_version")))
	valid := isOne(o.Get("contract_version")) && ValidRuntimeID(id) &&
		(schema == "null" || integer.MatchString(schema)) &&
		isExplicitNull(o.Get("corpus_id")) && isExplicitNull(o.Get("build_id"))
	if !valid {
		return identity{came: true}
	}
	return identity{came: true, valid: true, id: id}
}

func isOne(raw json.RawMessage) bool {
	f, err := strconv.ParseFloat(strings.TrimSpace(string(raw)), 64)
	return err == nil && f == 1 && json.Valid(raw)
}

func isExplicitNull(raw json.RawMessage) bool { return strings.TrimSpace(string(raw)) == "null" }

// expectation reads what a call is bound to: the argument, present even as
// null or "", and what the call itself carries. Empty is unbound.
func expectation(arguments Object, carried string) (string, *Problem) {
	bound := carried
	malformed := carried != "" && !ValidRuntimeID(carried)
	if i := arguments.at(expectedArgument); i >= 0 {
		given, ok := shape.Text(arguments[i].Value)
		malformed = malformed || !ok || !ValidRuntimeID(given)
		if !malformed && carried != "" && carried != given {
			return "", Invalid("The call names two different runtimes: one in the argument "+expectedArgument+", one beside it.",
				map[string]any{"argument": expectedArgument})
		}
		bound = given
	}
	if malformed {
		return "", Invalid("The argument "+expectedArgument+" must be a canonical lower-case UUID4, as health reports it in identity.runtime_id. Leave it out to call whichever process runs.",
			map[string]any{"argument": expectedArgument})
	}
	return bound, nil
}

// mismatched is the refusal of a call that another process answered; an actual
// id that is not known is null.
func mismatched(expected, actual string) *Problem {
	detail := map[string]any{"expected_runtime_id": expected, "actual_runtime_id": nil}
	if actual != "" {
		detail["actual_runtime_id"] = actual
	}
	return NewProblem(InstanceMismatch, "Another process is running than the call expects. Nothing of its answer is passed on.", detail)
}

func identityless(expected string) *Problem {
	return NewProblem(IdentityUnavailable, "The process that answered does not say which one it is in a form that can be checked, so the expected one cannot be confirmed. Nothing of its answer is passed on.",
		map[string]any{"expected_runtime_id": expected})
}

// classify judges the answer of an identity route to a bound request.
func classify(expected string, reply *Reply) *Problem {
	if reply.Status == http.StatusConflict {
		if actual, ok := saysMismatch(reply.Body); ok {
			return mismatched(expected, actual)
		}
	}
	if reply.Status/100 != 2 {
		return nil // judged like any other
	}
	return confirm(expected, readIdentity(reply.Body))
}

// confirm holds an answer's identity against an expectation.
func confirm(expected string, said identity) *Problem {
	switch {
	case !said.valid:
		return identityless(expected)
	case said.id != expected:
		return mismatched(expected, said.id)
	}
	return nil
}

// saysMismatch reads the one 409 that is about the process, and the id in it.
func saysMismatch(body json.RawMessage) (actual string, ok bool) {
	answer, ok := ReadObject(body)
	if !ok {
		return "", false
	}
	detail, ok := ReadObject(OrNull(answer.Get("detail")))
	if !ok {
		return "", false
	}
	if code, _ := shape.Text(OrNull(detail.Get("code"))); code != InstanceMismatch {
		return "", false
	}
	actual, _ = shape.Text(OrNull(detail.Get("actual_runtime_id")))
	if !ValidRuntimeID(actual) {
		actual = "" // an id that is none is not repeated
	}
	return actual, true
}
