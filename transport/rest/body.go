package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"unicode"
	"unicode/utf8"

	"berth/broker"
	"berth/broker/shape"
)

// decode reads one JSON object into v. Keys match in any letter case, unknown
// ones are passed over (contracts/native.md sections 1.7 and 21). A key that
// stands twice, also in another case, is refused: it means different things to
// different readers. No body at all is an empty object.
func decode(body io.Reader, v any) error {
	dec := json.NewDecoder(body)
	var raw json.RawMessage
	err := dec.Decode(&raw)
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err == nil && !utf8.Valid(raw) { // the decoder would put other characters in their place
		return badBody("The body is not valid UTF-8.", nil)
	}
	if err == nil {
		if _, more := dec.Token(); errors.Is(more, io.EOF) {
			err = json.Unmarshal(raw, v)
		} else if err = more; err == nil {
			err = errors.New("something follows the JSON object")
		}
	}
	if err == nil {
		if key, twice := repeated(raw, reflect.TypeOf(v)); twice {
			return badBody("The key "+key+" stands more than once; letter case does not tell keys apart.", map[string]any{"Name": key})
		}
		return nil
	}
	// The decoder's own text may quote the body, so only the place is told.
	message, detail := "The body is not one JSON object.", map[string]any(nil)
	var wrongType *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	if errors.As(err, &wrongType) && wrongType.Field != "" {
		message, detail = "In the field "+wrongType.Field+" "+jsonWord(wrongType.Type)+" is wanted.", map[string]any{"Name": wrongType.Field}
	} else if errors.As(err, &syntax) {
		message = fmt.Sprintf("The body is not valid JSON at byte %d.", syntax.Offset)
	}
	return badBody(message, detail)
}

// jsonWord says what is decoded into t, in the words of who sends it.
func jsonWord(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a string"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Map, reflect.Struct:
		return "an object"
	}
	return "a whole number"
}

// maxKeyEcho is how much of a key that is not known is repeated, in bytes.
const maxKeyEcho = 64

// decodeKnown is decode for a body in which a key that is not known is refused,
// because what it was meant to narrow would stay wide.
func decodeKnown(body io.Reader, v any) error {
	raw, err := io.ReadAll(body) // readBody has bounded it
	if err != nil {
		return err
	}
	if err := decode(bytes.NewReader(raw), v); err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	err = dec.Decode(reflect.New(reflect.TypeOf(v).Elem()).Interface())
	if err == nil || errors.Is(err, io.EOF) {
		return nil
	}
	key := strings.Trim(strings.TrimPrefix(err.Error(), "json: unknown field "), `"`) // decode has found everything else
	key = strings.ToValidUTF8(key[:min(len(key), maxKeyEcho)], "")
	return badBody("The key "+key+" is not one of this request's; nothing was done.", map[string]any{"Name": key})
}

func badBody(message string, detail map[string]any) error {
	return &refused{status: http.StatusBadRequest, word: "DeserializationError", refusal: broker.Refuse(broker.CodeInvalidArguments, message, detail)}
}

var decodesItself = reflect.TypeFor[json.Unmarshaler]()

// repeated finds a key that stands twice in what is decoded into t. What t keeps
// as it came is its reader's to judge.
func repeated(raw json.RawMessage, t reflect.Type) (string, bool) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if reflect.PointerTo(t).Implements(decodesItself) {
		return "", false
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Array:
		var elements []json.RawMessage
		if json.Unmarshal(raw, &elements) != nil {
			return "", false // null, or text that stands for bytes
		}
		for _, e := range elements {
			if key, twice := repeated(e, t.Elem()); twice {
				return key, true
			}
		}
	case reflect.Map, reflect.Struct:
		members, err := shape.Members(raw)
		if err != nil {
			return "", false // null
		}
		seen := make(map[string]bool, len(members))
		for _, m := range members {
			var name string
			var of reflect.Type
			if t.Kind() == reflect.Struct {
				name, of = folded(m.Name), fieldType(t, m.Name)
			} else {
				name, of = m.Name, t.Elem()
			}
			if seen[name] {
				return m.Name, true
			}
			seen[name] = true
			if of == nil {
				continue
			}
			if key, twice := repeated(m.Value, of); twice {
				return key, true
			}
		}
	}
	return "", false
}

// fieldType is the type of the field that a key is decoded into; nil: of none.
func fieldType(t reflect.Type, key string) reflect.Type {
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			name = f.Name
		}
		if f.IsExported() && folded(name) == folded(key) {
			return f.Type
		}
	}
	return nil
}

// folded is one spelling for all that encoding/json takes for the same key.
func folded(name string) string {
	return strings.Map(func(r rune) rune {
		for {
			next := unicode.SimpleFold(r)
			if next <= r {
				return next
			}
			r = next
		}
	}, name)
}
