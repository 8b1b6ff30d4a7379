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
	logged        string   // params of notifications/message; "": none
}

func newMirror() *mirror {
	m := &mirror{}
	m.handle = func(out *reply, in message) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.params = in.Params
		if m.logged != "" {
			out.notify("notifications/message", m.logged)
		}
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
	m.result, m.error, m.before, m.logged, m.params = result, failure, before, "", nil
}

func (m *mirror) log(params string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.logged = params
}

func (m *mirror) got() json.RawMessage {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.params
}

func TestArgumentsResultsAndErrorsAreTheSameJSON(t *testing.T) {
	eachPairing(t, func(t *testing.T, p pairing) {
		m := newMirror()
		r, s := pair(t, p, &m.backend)
		defer r.close()
		rapid.Check(t, func(t *rapid.T) {
			// Tools are called by what Berth lists; the others it only hands on.
			method := rapid.SampledFrom([]string{"tools/call", "resources/read", "prompts/get", "completion/complete", "resources/list", "own/method"}).Draw(t, "method")
			params := object(t, 3, `"name":"t"`, `"uri":`+text.Draw(t, "uri"), `"arguments":`+object(t, 4), `"_meta":`+object(t, 2, s.meta(`"x/own":`+value(t, 2))...))
			var result, failure string
			if rapid.Bool().Draw(t, "fails") {
				failure = framed(p.kind, object(t, 3, `"code":`+rapid.SampledFrom([]string{"-32000", "-32602", "7", "0"}).Draw(t, "code"), `"message":`+text.Draw(t, "message"), `"data":`+value(t, 4)))
			} else {
				members := []string{`"content":[]`, `"structuredContent":` + value(t, 4), `"_meta":` + object(t, 2), `"contents":[` + object(t, 2, `"annotations":`+object(t, 1), `"icons":[`+object(t, 1)+`]`) + `]`}
				if p.backend == stateless || rapid.Bool().Draw(t, "says its kind") {
					members = append(members, `"resultType":"complete"`)
				}
				result = framed(p.kind, object(t, 4, members...))
			}
			m.set(result, failure)
			response, _, err := s.roundTrip(method, []byte(params))
			if err != nil {
				t.Fatal(err)
			}
			if err := p.sameParams([]byte(params), m.got()); err != nil {
				t.Errorf("params of %s: %v\nsent     %s\nreceived %s", method, err, params, m.got())
			}
			want, got := p.completed(method, []byte(result)), response.Result
			if failure != "" {
				want, got = []byte(failure), response.Error
			}
			if err := same(want, got); err != nil {
				t.Errorf("answer to %s: %v\nsent     %s\nreceived %s", method, err, want, got)
			}
		})
	})
}

// TestWhatComesBeforeAnAnswerIsTheSameJSON has the backend say something on the
// way to its answer: progress, and messages of its log.
func TestWhatComesBeforeAnAnswerIsTheSameJSON(t *testing.T) {
	eachPairing(t, func(t *testing.T, p pairing) {
		m := newMirror()
		r, s := pair(t, p, &m.backend)
		defer r.close()
		rapid.Check(t, func(t *rapid.T) {
			progress := framed(p.kind, object(t, 2, `"progress":`+rapid.SampledFrom([]string{"1", "1.0", "9007199254740993"}).Draw(t, "progress"), `"message":`+text.Draw(t, "message")))
			logged := framed(p.kind, object(t, 3, `"level":"error"`, `"data":`+value(t, 3)))
			token := rapid.SampledFrom([]string{`1`, `"x"`, `9007199254740993`, `"\u00e9"`}).Draw(t, "token")
			m.set(`{"content":[]}`, "", progress)
			m.log(logged)
			meta := []string{`"progressToken":` + token}
			if p.client == stateless {
				meta = append(meta, `"io.modelcontextprotocol/logLevel":"debug"`)
			}
			_, before, err := s.roundTrip("tools/call", s.params(`"name":"t"`, meta...))
			if err != nil {
				t.Fatal(err)
			}
			want := map[string][]byte{
				"notifications/message":  []byte(logged),
				"notifications/progress": []byte(`{"progressToken":` + token + `,` + strings.TrimPrefix(progress, "{")),
			}
			if len(before) != len(want) {
				t.Fatalf("%d messages came before the answer, want the log's and the progress", len(before))
			}
			for _, got := range before {
				if err := sameMembers(want[got.Method], got.Params); err != nil {
					t.Errorf("%s: %v\nsent     %s\nreceived %s", got.Method, err, want[got.Method], got.Params)
				}
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
	all, err := inOrder(object)
	out := map[string]jsontext.Value{}
	for _, m := range all {
		out[fmt.Sprint(units(m.name))] = m.value
	}
	return out, err
}

// raws are a member's name, with its quotes, and value.
type raws struct{ name, value jsontext.Value }

// inOrder gives an object's members in their order.
func inOrder(object []byte) (out []raws, err error) {
	d := newTokens(object)
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadValue()
		if err != nil {
			return nil, err
		}
		name = slices.Clone(name)
		value, err := d.ReadValue()
		if err != nil {
			return nil, err
		}
		out = append(out, raws{name, slices.Clone(value)})
	}
	return out, nil
}

// schemas are what implementations were seen to change.
var schemas = []string{
	`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","$defs":{"a":{"$anchor":"x","type":"integer","maximum":9007199254740993}},"properties":{"p":{"$ref":"#/$defs/a"}},"required":[]}`,
	`{"type":"object","definitions":{"d":{"const":1.0}},"properties":{"p":{"$ref":"#/definitions/d"},"q":{"$dynamicRef":"#n"}},"additionalProperties":false,"x-mine":{"y":null}}`,
	`{"type":"object","oneOf":[{"required":["a"]},{"required":["b"]}],"if":{"properties":{"a":{"const":1}}},"then":{"minProperties":2},"else":true,"dependentSchemas":{"a":{"unevaluatedProperties":false}},"$vocabulary":{"https://x":true},"$comment":"é"}`,
	`{"type":"object","properties":{"p":{"enum":[1,1.0,"1",null,{"a":[]}],"default":12345678901234567890,"pattern":"^\\d+\\/$","multipleOf":0.1}},"patternProperties":{"^x-":false},"prefixItems":[]}`,
	// Every other keyword of 2020-12.
	`{"$id":"https://example.com/s","$dynamicAnchor":"n","type":"object","title":"T","description":"d","deprecated":true,"readOnly":false,"writeOnly":true,"examples":[{"a":1.0}],` +
		`"allOf":[true],"anyOf":[{}],"not":false,"propertyNames":{"minLength":0,"maxLength":9007199254740993},"maxProperties":1e2,"dependentRequired":{"a":["b"]},"properties":{` +
		`"l":{"type":"array","items":{"type":["string","null"]},"contains":true,"minContains":0,"maxContains":5,"minItems":0,"maxItems":10,"uniqueItems":true,"unevaluatedItems":false},` +
		`"s":{"type":"string","format":"date-time","contentEncoding":"base64","contentMediaType":"application/json","contentSchema":{"$ref":"#"}},` +
		`"n":{"exclusiveMinimum":-0.0,"exclusiveMaximum":1E+3,"minimum":0}}}`,
	`{}`, `{"type":"object"}`,
}

func TestListedToolsAreTheSameJSON(t *testing.T) {
	eachPairing(t, func(t *testing.T, p pairing) {
		entries := toolEntries(t, p.kind)
		b := &backend{tools: "[" + strings.Join(entries, ",") + "]"}
		r, s := pair(t, p, b)
		defer r.close()
		response, _, err := s.roundTrip("tools/list", s.params(""))
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
	eachPairing(t, func(t *testing.T, p pairing) {
		m := newMirror()
		r, s := pair(t, p, &m.backend)
		defer r.close()
		const result = `{"content":[],"structuredContent":{"a":1,"a":2}}`
		params := s.params(`"name":"t","arguments":{"a":1,"a":2,"b":{"c":1,"c":1}}`, `"own":{"d":1,"d":2}`)
		m.set(result, "")
		response, _, err := s.roundTrip("tools/call", params)
		must(t, err)
		if err := p.sameParams(params, m.got()); err != nil {
			t.Errorf("params: %v, received %s", err, m.got())
		}
		if err := same(p.completed("tools/call", []byte(result)), response.Result); err != nil {
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
	type end struct {
		pairing
		mirror  *mirror
		session *session
	}
	var ends []end
	for _, p := range pairings {
		m := newMirror()
		r, s := pair(f, p, &m.backend)
		f.Cleanup(r.close)
		ends = append(ends, end{p, m, s})
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 64<<10 || !utf8.Valid(data) || depthOf(data) > 1000 {
			t.Skip("it is no JSON, or one that a limit is for")
		}
		if !jsontext.Value(data).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) {
			t.Skip("it is no JSON")
		}
		for _, e := range ends {
			params := e.session.params(`"name":"t","arguments":{"v":`+string(data)+`}`, `"own":`+string(data))
			result := framed(e.kind, `{"content":[],"v":`+string(data)+`}`)
			e.mirror.set(result, "")
			response, _, err := e.session.roundTrip("tools/call", params)
			if err != nil {
				t.Fatalf("%s: %v", e, err)
			}
			if err := e.sameParams(params, e.mirror.got()); err != nil {
				t.Errorf("%s params: %v, received %s", e, err, e.mirror.got())
			}
			if err := same(e.completed("tools/call", []byte(result)), response.Result); err != nil {
				t.Errorf("%s result: %v, received %s", e, err, response.Result)
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
