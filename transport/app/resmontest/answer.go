package resmontest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
)

// answer is what a handler decided; how it travels is decided later.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a answer) with(name, value string) answer {
	h := a.header.Clone()
	h.Set(name, value)
	a.header = h
	return a
}

// object is a JSON object whose keys need no order.
type object = map[string]any

func ok(v any) answer { return encoded(http.StatusOK, v) }

func encoded(status int, v any) answer {
	return answer{status: status, header: http.Header{"Content-Type": {"application/json"}}, body: encode(v)}
}

// encode writes JSON as resmon does: no escapes for HTML, no trailing newline.
func encode(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		// Everything that is encoded here is made of strings, numbers, slices and
		// maps of this package; a failure is a mistake in it, and visible as one.
		return encode(object{"detail": "resmontest cannot encode its own answer: " + err.Error()})
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

func plain(status int, format string, args ...any) answer {
	return encoded(status, object{"detail": fmt.Sprintf(format, args...)})
}

func notFound() answer { return plain(http.StatusNotFound, "Not Found") }

// real is a number that is written with a fraction also when it is whole, as
// resmon writes it.
type real float64

func (r real) MarshalJSON() ([]byte, error) {
	text := strconv.FormatFloat(float64(r), 'f', -1, 64)
	if !strings.Contains(text, ".") && !math.IsInf(float64(r), 0) {
		text += ".0"
	}
	return []byte(text), nil
}

func share(part, whole int) real {
	if whole == 0 {
		return 0
	}
	return real(math.Round(float64(part)/float64(whole)*10000) / 10000)
}

// ptr gives a nullable value; null is a nil pointer.
func ptr[T any](v T) *T { return &v }

// quoted writes a string as resmon's sentences quote it.
func quoted(s string) string {
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		return `"` + s + `"`
	}
	return "'" + strings.ReplaceAll(strings.ReplaceAll(s, `\`, `\\`), "'", `\'`) + "'"
}
