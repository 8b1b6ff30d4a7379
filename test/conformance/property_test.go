package conformance

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"
)

// The pieces of which a string is made: what encoders are known to change.
var pieces = []string{
	"a", "Z", "0", " ", "é", "日本", "😀", "\u2028", "\u2029", "\ufeff", "\x7f", "<", ">", "&", "'", "/", "{", "}", "[", ",", ":",
	`\"`, `\\`, `\/`, `\b`, `\f`, `\n`, `\r`, `\t`, `\u0000`, `\u001f`, `\u00e9`, `\uD83D\uDE00`, `\ud800`, `\uDFFF`, `\ufffd`, `\u2028`, `\u003c`, "\\u0022", "data: ", "id",
}

var numbers = []string{"0", "-0", "1", "-1", "1.0", "1.10", "0.1", "1e3", "1E3", "1E+3", "1e-3", "1.5e300", "1e400", "9007199254740993",
	"-9007199254740993", "18446744073709551616", "123456789012345678901234567890", "0.30000000000000004", "0.1234567890123456789012345", "1e0", "0e0", "-0.0"}

var (
	text = rapid.Custom(func(t *rapid.T) string {
		return `"` + strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 6).Draw(t, "pieces"), "") + `"`
	})
	number = rapid.OneOf(rapid.SampledFrom(numbers), rapid.StringMatching(`-?(0|[1-9][0-9]{0,24})(\.[0-9]{1,12})?([eE][+-]?[0-9]{1,3})?`))
	space  = rapid.SampledFrom([]string{"", "", "", "", " ", "  ", "\t", "\n", "\r\n", "\r"})
)

// value draws a JSON text; depth bounds its nesting.
func value(t *rapid.T, depth int) string {
	kinds := 6
	if depth == 0 {
		kinds = 4
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return rapid.SampledFrom([]string{"null", "true", "false"}).Draw(t, "word")
	case 1:
		return number.Draw(t, "number")
	case 2, 3:
		return text.Draw(t, "text")
	case 4:
		var b strings.Builder
		b.WriteByte('[')
		for i := range rapid.IntRange(0, 4).Draw(t, "length") {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(space.Draw(t, "space") + value(t, depth-1) + space.Draw(t, "space"))
		}
		return b.String() + "]"
	}
	return object(t, depth)
}

// object draws an object that has the given members, in a drawn place, among
// others.
func object(t *rapid.T, depth int, members ...string) string {
	seen := map[string]bool{}
	for _, m := range members {
		name, _, _ := strings.Cut(m, ":")
		seen[fmt.Sprint(units([]byte(name)))] = true
	}
	for range rapid.IntRange(0, 4).Draw(t, "members") {
		name := text.Draw(t, "name")
		key := fmt.Sprint(units([]byte(name)))
		if seen[key] {
			continue
		}
		seen[key] = true
		members = append(members, name+space.Draw(t, "space")+":"+space.Draw(t, "space")+value(t, max(0, depth-1)))
	}
	if len(members) > 1 {
		members = rapid.Permutation(members).Draw(t, "order")
	}
	var b strings.Builder
	b.WriteByte('{')
	for i, m := range members {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(space.Draw(t, "space") + m + space.Draw(t, "space"))
	}
	return b.String() + "}"
}

// framed makes a text fit for one line, as a server on pipes must.
func framed(k kind, raw string) string {
	if k == overPipes {
		return strings.NewReplacer("\n", " ", "\r", " ").Replace(raw)
	}
	return raw
}

// mirror is a backend that keeps the params it was given and answers what was
// set, for one request at a time.
type mirror struct {
	backend
	mu            sync.Mutex
	params        json.RawMessage
	result, error string
	before        []string // params of notifications/progress, without the token
}

func newMirror() *mirror {
	m := &mirror{}
	m.handle = func(out *reply, in message) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.params = in.Params
		for _, p := range m.before {
			if token, ok := progressToken(in.Params); ok {
				out.notify("notifications/progress", fmt.Sprintf(`{"progressToken":%s,%s`, token, strings.TrimPrefix(p, "{")))
			}
		}
		if m.error != "" {
			out.fail(m.error)
			return
		}
		out.result(m.result)
	}
	return m
}

func progressToken(params []byte) (string, bool) {
	var p struct {
		Meta struct {
			ProgressToken json.RawMessage `json:"progressToken"`
		} `json:"_meta"`
	}
	err := json.Unmarshal(params, &p)
	return string(p.Meta.ProgressToken), err == nil && p.Meta.ProgressToken != nil
}

func (m *mirror) set(result, failure string, before ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.result, m.error, m.before, m.params = result, failure, before, nil
}

func (m *mirror) got() json.RawMessage {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.params
}

func eachKind(t *testing.T, test func(t *testing.T, k kind)) {
	for _, k := range kinds {
		t.Run(string(k), func(t *testing.T) { test(t, k) })
	}
}

func TestArgumentsResultsAndErrorsAreTheSameJSON(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind) {
		m := newMirror()
		r := newRig(t, k, &m.backend)
		defer r.close()
		s := r.handshake()
		rapid.Check(t, func(t *rapid.T) {
			params := object(t, 3, `"name":"t"`, `"arguments":`+object(t, 4), `"_meta":`+object(t, 2, `"x/own":`+value(t, 2)))
			var result, failure string
			if rapid.Bool().Draw(t, "fails") {
				failure = framed(k, object(t, 3, `"code":`+rapid.SampledFrom([]string{"-32000", "-32602", "7", "0"}).Draw(t, "code"), `"message":`+text.Draw(t, "message"), `"data":`+value(t, 4)))
			} else {
				result = framed(k, object(t, 4, `"content":[]`, `"structuredContent":`+value(t, 4), `"_meta":`+object(t, 2)))
			}
			m.set(result, failure)
			response, _, err := s.roundTrip("tools/call", []byte(params))
			if err != nil {
				t.Fatal(err)
			}
			if err := same([]byte(params), m.got()); err != nil {
				t.Errorf("params: %v\nsent     %s\nreceived %s", err, params, m.got())
			}
			want, got := []byte(result), response.Result
			if failure != "" {
				want, got = []byte(failure), response.Error
			}
			if err := same(want, got); err != nil {
				t.Errorf("answer: %v\nsent     %s\nreceived %s", err, want, got)
			}
		})
	})
}

func TestProgressIsTheSameJSON(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind) {
		m := newMirror()
		r := newRig(t, k, &m.backend)
		defer r.close()
		s := r.handshake()
		rapid.Check(t, func(t *rapid.T) {
			said := framed(k, object(t, 2, `"progress":`+rapid.SampledFrom([]string{"1", "1.0", "9007199254740993"}).Draw(t, "progress"), `"message":`+text.Draw(t, "message")))
			token := rapid.SampledFrom([]string{`1`, `"x"`, `9007199254740993`, `"\u00e9"`}).Draw(t, "token")
			m.set(`{"content":[]}`, "", said)
			_, before, err := s.roundTrip("tools/call", []byte(`{"name":"t","_meta":{"progressToken":`+token+`}}`))
			if err != nil {
				t.Fatal(err)
			}
			if len(before) != 1 {
				t.Fatalf("%d messages came before the answer, want the progress", len(before))
			}
			want := []byte(`{"progressToken":` + token + `,` + strings.TrimPrefix(said, "{"))
			if err := sameMembers(want, before[0].Params); err != nil {
				t.Errorf("%v\nsent     %s\nreceived %s", err, want, before[0].Params)
			}
		})
	})
}

// sameMembers is same for objects of which the order of members is free: each
// hop puts its own token where it likes.
func sameMembers(want, got []byte) error {
	w, err := membersOf(want)
	if err != nil {
		return err
	}
	g, err := membersOf(got)
	if err != nil {
		return err
	}
	if len(w) != len(g) {
		return fmt.Errorf("%d members, want %d", len(g), len(w))
	}
	for name, raw := range w {
		if err := same(raw, g[name]); err != nil {
			return fmt.Errorf("member %s: %w", name, err)
		}
	}
	return nil
}

// membersOf gives an object's members by their names in UTF-16.
func membersOf(object []byte) (map[string]jsontext.Value, error) {
	d := newTokens(object)
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	out := map[string]jsontext.Value{}
	for d.PeekKind() == '"' {
		name, err := d.ReadValue()
		if err != nil {
			return nil, err
		}
		key := fmt.Sprint(units(slices.Clone(name)))
		raw, err := d.ReadValue()
		if err != nil {
			return nil, err
		}
		out[key] = slices.Clone(raw)
	}
	return out, nil
}

// schemas are what implementations were seen to change.
var schemas = []string{
	`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","$defs":{"a":{"$anchor":"x","type":"integer","maximum":9007199254740993}},"properties":{"p":{"$ref":"#/$defs/a"}},"required":[]}`,
	`{"type":"object","definitions":{"d":{"const":1.0}},"properties":{"p":{"$ref":"#/definitions/d"},"q":{"$dynamicRef":"#n"}},"additionalProperties":false,"x-mine":{"y":null}}`,
	`{"type":"object","oneOf":[{"required":["a"]},{"required":["b"]}],"if":{"properties":{"a":{"const":1}}},"then":{"minProperties":2},"else":true,"dependentSchemas":{"a":{"unevaluatedProperties":false}},"$vocabulary":{"https://x":true},"$comment":"é"}`,
	`{"type":"object","properties":{"p":{"enum":[1,1.0,"1",null,{"a":[]}],"default":12345678901234567890,"pattern":"^\\d+\\/$","multipleOf":0.1}},"patternProperties":{"^x-":false},"prefixItems":[]}`,
	`{}`, `{"type":"object"}`,
}

func TestListedToolsAreTheSameJSON(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind) {
		entries := toolEntries(t, k)
		b := &backend{tools: "[" + strings.Join(entries, ",") + "]"}
		r := newRig(t, k, b)
		defer r.close()
		response, _, err := r.handshake().roundTrip("tools/list", []byte(`{}`))
		must(t, err)
		var list struct {
			Tools []json.RawMessage `json:"tools"`
		}
		must(t, json.Unmarshal(response.Result, &list))
		if len(list.Tools) != len(entries) {
			t.Fatalf("%d tools are listed, want %d: %s", len(list.Tools), len(entries), response.Error)
		}
		for i, entry := range entries {
			if err := same([]byte(entry), list.Tools[i]); err != nil {
				t.Errorf("%v\nsent     %s\nreceived %s", err, entry, list.Tools[i])
			}
		}
	})
}

// toolEntries draws entries for tools/list, with every schema among them.
func toolEntries(t *testing.T, k kind) []string {
	var entries []string
	example := rapid.Custom(func(t *rapid.T) string {
		schema := object(t, 4, `"type":"object"`, `"$defs":`+object(t, 2))
		return framed(k, object(t, 3, `"inputSchema":`+schema, `"description":`+text.Draw(t, "description"), `"annotations":`+object(t, 2), `"_meta":`+object(t, 2), `"icons":[`+object(t, 1)+`]`))
	})
	for i := range 60 {
		entries = append(entries, withName(example.Example(i), len(entries)))
	}
	for _, schema := range schemas {
		entries = append(entries, withName(`{"inputSchema":`+schema+`,"outputSchema":`+schema+`}`, len(entries)))
	}
	if len(entries) < 60 {
		t.Fatal("no entries were drawn")
	}
	return entries
}

// withName puts a name in front of an entry's other members. What was drawn
// may have a member of that name: it is renamed.
func withName(entry string, n int) string {
	return fmt.Sprintf(`{"name":"tool-%03d",%s`, n, strings.TrimLeft(strings.TrimPrefix(entry, "{"), " \t\r\n"))
}

func TestRepeatedNamesArriveAsTheyCame(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind) {
		m := newMirror()
		r := newRig(t, k, &m.backend)
		defer r.close()
		s := r.handshake()
		const params, result = `{"name":"t","arguments":{"a":1,"a":2,"b":{"c":1,"c":1}}}`, `{"content":[],"structuredContent":{"a":1,"a":2}}`
		m.set(result, "")
		response, _, err := s.roundTrip("tools/call", []byte(params))
		must(t, err)
		if err := same([]byte(params), m.got()); err != nil {
			t.Errorf("params: %v, received %s", err, m.got())
		}
		if err := same([]byte(result), response.Result); err != nil {
			t.Errorf("result: %v, received %s", err, response.Result)
		}
	})
}

// FuzzSameJSON sends any JSON through a whole broker, as an argument and back
// as a result.
func FuzzSameJSON(f *testing.F) {
	for _, p := range pieces {
		f.Add([]byte(`["` + p + `"]`))
	}
	for _, n := range numbers {
		f.Add([]byte(n))
	}
	for _, s := range schemas {
		f.Add([]byte(s))
	}
	f.Add([]byte(strings.Repeat("[", 900) + strings.Repeat("]", 900)))
	rigs, sessions, mirrors := map[kind]*rig{}, map[kind]*session{}, map[kind]*mirror{}
	for _, k := range kinds {
		mirrors[k] = newMirror()
		rigs[k] = newRig(f, k, &mirrors[k].backend)
		sessions[k] = rigs[k].handshake()
	}
	f.Cleanup(func() {
		for _, r := range rigs {
			r.close()
		}
	})
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 64<<10 || !utf8.Valid(data) || depthOf(data) > 1000 {
			t.Skip("it is no JSON, or one that a limit is for")
		}
		if !jsontext.Value(data).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) {
			t.Skip("it is no JSON")
		}
		for _, k := range kinds {
			params := `{"name":"t","arguments":{"v":` + string(data) + `}}`
			result := framed(k, `{"content":[],"v":`+string(data)+`}`)
			mirrors[k].set(result, "")
			response, _, err := sessions[k].roundTrip("tools/call", []byte(params))
			if err != nil {
				t.Fatalf("%s: %v", k, err)
			}
			if err := same([]byte(params), mirrors[k].got()); err != nil {
				t.Errorf("%s params: %v, received %s", k, err, mirrors[k].got())
			}
			if err := same([]byte(result), response.Result); err != nil {
				t.Errorf("%s result: %v, received %s", k, err, response.Result)
			}
		}
	})
}

// depthOf bounds how deep brackets may nest; those in strings count too.
func depthOf(data []byte) int {
	depth, most := 0, 0
	for _, c := range data {
		switch c {
		case '[', '{':
			depth++
			most = max(most, depth)
		case ']', '}':
			depth--
		}
	}
	return most
}
