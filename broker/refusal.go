package broker

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"time"
)

// Refusal is an answer that says no. It is an error value: the same refusal
// travels from where it was decided to the wire, and text decides nothing on
// the way.
type Refusal struct {
	Code       Code
	Message    string         // one sentence for a person
	Detail     map[string]any // for a program; never a credential or an argument's value
	Retryable  bool
	RetryAfter time.Duration // zero when unknown
}

// Refuse builds a refusal; detail may be nil.
func Refuse(code Code, message string, detail map[string]any) *Refusal {
	return &Refusal{Code: code, Message: message, Detail: detail, Retryable: codes[code].retryable}
}

// CatalogPending refuses what depends on backends that have not listed yet.
func CatalogPending(backends []string) *Refusal {
	return Refuse(CodeCatalogPending, "The backend has not listed its tools yet; try again.", map[string]any{"pending": backends})
}

// Retry says after how long a retry is worthwhile.
func (r *Refusal) Retry(after time.Duration) *Refusal {
	r.Retryable, r.RetryAfter = true, after
	return r
}

// Error makes a refusal usable as an error value.
func (r *Refusal) Error() string { return string(r.Code) + ": " + r.Message }

// FailureText is a refusal as the message of a job that was refused after it was
// accepted (contracts/native.md section 2): its body as JSON of at most limit
// bytes. What is too long goes, "Preview" first, then lists, then the rest; Error
// and Code stay, the sentence cut at last.
func (r *Refusal) FailureText(limit int) string {
	short := *r
	short.Detail = maps.Clone(r.Detail)
	drop := func(unwanted func(name string, value any) bool) bool {
		if len(short.NativeJSON()) <= limit {
			return true
		}
		maps.DeleteFunc(short.Detail, unwanted)
		return len(short.NativeJSON()) <= limit
	}
	if drop(func(name string, _ any) bool { return name == "Preview" }) ||
		drop(func(_ string, value any) bool {
			k := reflect.ValueOf(value).Kind()
			return k == reflect.Slice || k == reflect.Array
		}) ||
		drop(func(string, any) bool { return true }) {
		return string(short.NativeJSON())
	}
	for n := len(short.Message); n > 0 && len(short.NativeJSON()) > limit; n = n * 3 / 4 {
		short.Message = cutText(r.Message, n)
	}
	return string(short.NativeJSON())
}

// AsRefusal gives err as a refusal; an error that is none becomes `internal`
// with a neutral sentence, so that no cause leaks to a caller. The cause is
// the caller's to log.
func AsRefusal(err error) *Refusal {
	var r *Refusal
	if errors.As(err, &r) {
		return r
	}
	return Refuse(CodeInternal, "The broker failed to handle this request; the log has the details.", nil)
}

// JSON is the form that backends' verbs are refused in
// (contracts/catalog.md section 3): code, message, detail, retryable,
// retry_after_ms.
func (r *Refusal) JSON() json.RawMessage {
	body := struct {
		Code         Code           `json:"code"`
		Message      string         `json:"message"`
		Detail       map[string]any `json:"detail,omitempty"`
		Retryable    bool           `json:"retryable"`
		RetryAfterMS *int64         `json:"retry_after_ms,omitempty"`
	}{r.Code, r.Message, r.Detail, r.Retryable, nil}
	if r.RetryAfter > 0 {
		ms := r.RetryAfter.Milliseconds()
		body.RetryAfterMS = &ms
	}
	return marshal(body)
}

// NativeJSON is the form that the broker's own verbs are refused in
// (contracts/native.md section 1.8): Error, Code, then the detail's fields by
// name, Retryable and RetryAfterSeconds as they apply. A detail cannot stand in
// for one of these four.
func (r *Refusal) NativeJSON() json.RawMessage {
	names := make([]string, 0, len(r.Detail))
	for name := range r.Detail {
		switch name {
		case "Error", "Code", "Retryable", "RetryAfterSeconds":
		default:
			names = append(names, name)
		}
	}
	slices.Sort(names)
	out := []byte(`{"Error":`)
	out = append(out, marshal(r.Message)...)
	code := r.Code
	if code == CodeReadOnly {
		code = "read_only" // what contracts/native.md calls it
	}
	out = append(append(out, `,"Code":`...), marshal(code)...)
	for _, name := range names {
		out = append(append(out, ','), marshal(name)...)
		out = append(append(out, ':'), marshal(r.Detail[name])...)
	}
	if r.Retryable {
		out = append(out, `,"Retryable":true`...)
	}
	if r.RetryAfter > 0 {
		out = append(out, `,"RetryAfterSeconds":`...)
		out = strconv.AppendInt(out, max(1, int64(r.RetryAfter.Round(time.Second)/time.Second)), 10)
	}
	return append(out, '}')
}

// marshal encodes values of this package, whose encoding cannot fail: a
// failure is a programming error and is shown as one, not hidden. Raw JSON
// keeps its bytes, white space between its tokens aside.
func marshal(v any) json.RawMessage {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return json.RawMessage(`{"code":"internal","message":"a refusal could not be encoded","retryable":false}`)
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}
