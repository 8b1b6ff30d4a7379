package httpguard

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"berth/broker"
)

// ErrorBody is the body of every HTTP error (contracts/native.md section 21).
type ErrorBody struct {
	Error       string          // one word for the kind of error
	Description string          // what that kind means
	Message     string          // one sentence on this case
	Data        json.RawMessage // the refusal's fields
	Code        broker.Code
}

// Violations are what the refusal says of single arguments, a text each: that
// something does not fit helps nobody who cannot see what.
func (b ErrorBody) Violations() (texts []string) {
	var of struct {
		Violations []struct{ Path, Problem string }
	}
	if json.Unmarshal(b.Data, &of) != nil { // no data, or a member of the name that is something else
		return nil
	}
	for _, v := range of.Violations {
		texts = append(texts, strings.TrimPrefix(v.Path, "/")+": "+v.Problem)
	}
	return texts
}

var kinds = map[int]struct{ word, description string }{
	http.StatusBadRequest:            {"BadRequest", "The request is not one that this route accepts."},
	http.StatusUnauthorized:          {"Unauthorized", "This route needs a credential: Authorization: Bearer <token>, X-Token or X-Api-Key."},
	http.StatusForbidden:             {"Forbidden", "The caller may not do this here."},
	http.StatusNotFound:              {"NotFound", "There is nothing under this name."},
	http.StatusMethodNotAllowed:      {"MethodNotAllowed", "The route exists, not with this method."},
	http.StatusNotAcceptable:         {"NotAcceptable", "The answer has no form that the caller accepts."},
	http.StatusRequestTimeout:        {"RequestTimeout", "The request did not arrive in time."},
	http.StatusConflict:              {"Conflict", "The present state does not allow this."},
	http.StatusRequestEntityTooLarge: {"RequestTooLarge", "The request body is over the limit."},
	http.StatusUnsupportedMediaType:  {"UnsupportedMediaType", "The body is of a kind that this route does not read."},
	http.StatusTooManyRequests:       {"TooManyRequests", "A limit is reached; nothing was started."},
	http.StatusInternalServerError:   {"InternalError", "The broker failed to handle this request; the log has the details."},
	http.StatusServiceUnavailable:    {"Unavailable", "The broker cannot do this at the moment."},
}

// WriteDeadline is how long a client may take to accept what is written to it.
const WriteDeadline = 30 * time.Second

// WriteError writes r as an HTTP error. word replaces the usual word of the
// status when it is not empty.
func WriteError(w http.ResponseWriter, status int, word string, r *broker.Refusal) {
	kind, known := kinds[status]
	if !known {
		kind = kinds[http.StatusInternalServerError]
	}
	if word == "" {
		word = kind.word
	}
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	if r.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(max(1, int64(r.RetryAfter.Round(time.Second)/time.Second)), 10))
	}
	WriteJSON(w, status, ErrorBody{Error: word, Description: kind.description, Message: r.Message, Data: r.NativeJSON(), Code: r.Code})
}

// WriteJSON writes v as the whole answer. Raw JSON inside v keeps its bytes,
// white space aside. A client that does not read is given up after
// [WriteDeadline].
func WriteJSON(w http.ResponseWriter, status int, v any) {
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		// Only raw JSON that is none can get here: a panic reaches the log
		// through Recover and the caller as a neutral 500.
		panic("encode an HTTP answer: " + err.Error())
	}
	Deadline(w)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// A failed write means that the client is gone; there is nobody to tell.
	_, _ = w.Write(body.Bytes())
}

// Deadline gives the next write to w [WriteDeadline] from now. A writer that
// knows no deadlines is left alone.
func Deadline(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(WriteDeadline))
}
