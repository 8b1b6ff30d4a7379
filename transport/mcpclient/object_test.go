package mcpclient

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestObjectEdits(t *testing.T) {
	for _, tc := range []struct{ name, op, in, want string }{
		{"append to empty", "with", `{}`, `{"k":1}`},
		{"append to blank", "with", "{ \n}", "{ \n,\"k\":1}"},
		{"append", "with", `{"a": 1 }`, `{"a": 1 ,"k":1}`},
		{"append to a string", "with", `{"a":"{"}`, `{"a":"{","k":1}`},
		{"replace", "with", `{"a":1, "k" : [2,3] ,"b":2}`, `{"a":1, "k" : 1 ,"b":2}`},
		{"replace escaped", "with", `{"\u006b":2}`, `{"\u006b":1}`},
		{"remove first", "without", `{ "k":1,"b":2}`, `{ "b":2}`},
		{"remove last", "without", `{"a":1, "k":1 }`, `{"a":1 }`},
		{"remove only", "without", `{"k":1}`, `{}`},
		{"remove all of a name", "without", `{"k":1,"a":{"k":2},"k":3}`, `{"a":{"k":2}}`},
		{"nothing to remove", "without", `{"a" : 1}`, `{"a" : 1}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []byte
			var err error
			if tc.op == "with" {
				got, err = with([]byte(tc.in), "k", []byte("1"))
			} else {
				got, err = without([]byte(tc.in), "k")
			}
			want := tc.want
			if tc.name == "append to blank" {
				want = "{ \n\"k\":1}"
			}
			if err != nil || string(got) != want {
				t.Errorf("got %s, %v; want %s", got, err, want)
			}
		})
	}
}

// The edits are checked against the list of members that the object was
// written from: every other member keeps its bytes and its place.
func TestObjectEditsKeepEveryOtherByte(t *testing.T) {
	names := []string{`"k"`, `"a"`, `"b"`, `"\u006b"`, `"_meta"`, `"é"`}
	values := []string{`1`, `12345678901234567890`, `"}"`, `"\""`, `{"k":{}}`, `[ 1 , {"k":2}]`, `null`, `1.50e+3`, `""`}
	blank := rapid.SampledFrom([]string{"", " ", "\n\t"})
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 6).Draw(t, "members")
		var all, kept []string
		has := false
		for range n {
			name, value := rapid.SampledFrom(names).Draw(t, "name"), rapid.SampledFrom(values).Draw(t, "value")
			m := name + blank.Draw(t, "b") + ":" + blank.Draw(t, "b") + value
			all = append(all, m)
			if name == `"k"` || name == `"\u006b"` {
				has = true
				continue
			}
			kept = append(kept, m)
		}
		object := "{" + strings.Join(all, ",") + "}"
		got, err := without([]byte(object), "k")
		if want := "{" + strings.Join(kept, ",") + "}"; err != nil || string(got) != want {
			t.Fatalf("without: %s, %v; want %s", got, err, want)
		}
		got, err = with([]byte(object), "k", []byte(`"new"`))
		if err != nil || !json.Valid(got) {
			t.Fatalf("with: %s, %v", got, err)
		}
		if value, _, ok, err := get(got, "k"); err != nil || !ok || string(value) != `"new"` {
			t.Fatalf("with, then get: %s, %v", value, err)
		}
		if !has {
			want := object[:len(object)-1] + map[bool]string{true: "", false: ","}[n == 0] + `"k":"new"}`
			if string(got) != want {
				t.Fatalf("with: %s; want %s", got, want)
			}
		}
	})
}

func TestDecodeMessageRefusesWhatIsNone(t *testing.T) {
	for _, in := range []string{``, `[]`, `7`, `{}`, `{"id":1}`, `{"id":1,"result":{},"error":{}}`, `{"method":3}`, `{"id":1,"result":{}} x`, `{"id":1,"result":`} {
		if m, err := decodeMessage([]byte(in)); err == nil {
			t.Errorf("%s: %+v", in, m)
		}
	}
	for _, in := range []string{`{"id":1,"result":null}`, `{"id":1,"result":{},"error":null}`, `{"id":1,"error":{},"result":null}`} {
		if _, err := decodeMessage([]byte(in)); err != nil {
			t.Errorf("%s: %v", in, err)
		}
	}
}

func TestOnlyOurOwnFormOfIDIsOurs(t *testing.T) {
	for in, want := range map[string]bool{`1`: true, `9007199254740993`: true, `0`: false, `01`: false, `"1"`: false, `1.0`: false, `1e2`: false, `-1`: false, `99999999999999999999`: false, `null`: false} {
		if _, ok := number([]byte(in)); ok != want {
			t.Errorf("%s: %v", in, ok)
		}
	}
}

func TestAnIDIsFoundOnlyAtTheTopOfAnOversizedMessage(t *testing.T) {
	for _, tc := range []struct {
		head, tail string
		id         int64
	}{
		{`{"id":5,"result":{"x`, `"}`, 5},
		{`{"id":5`, ``, 0}, // may be cut off
		{`{"result":{"id":5,"x`, `"}}`, 0},
		{`{"result":{"x`, `,"id":5}}`, 0},
		{`{"result":{"x`, `},"id":5}`, 5},
		{`{"result":{"x`, `},"id": 5 , "jsonrpc" : "2.0" } `, 5},
		{`{"result":"x`, `\"id":5}`, 0},
		{`{"result":"x`, `"id":5}`, 0},
		{`{"id":5,"method":"x","params":"`, `"}`, 0},
	} {
		id, ok := oversizedID([]byte(tc.head), []byte(tc.tail))
		if ok != (tc.id != 0) || ok && id != tc.id {
			t.Errorf("%s…%s: %d, %v", tc.head, tc.tail, id, ok)
		}
	}
}

func FuzzDecodeMessage(f *testing.F) {
	for _, s := range []string{rich, `{"jsonrpc":"2.0","id":1,"result":{}}`, `{"method":"notifications/progress","params":{"progressToken":1,"progress":2}}`, `{"id":null,"error":{"code":1,"message":"m","data":[]}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		raw, _ = validText(raw)
		m, err := decodeMessage(raw)
		if err != nil {
			return
		}
		for part, value := range map[string]json.RawMessage{"id": m.id, "params": m.params, "result": m.result, "error": m.err} {
			if len(value) > 0 && !json.Valid(value) {
				t.Errorf("%s is %q", part, value)
			}
		}
		if line := errorLine(m.id, methodUnknown); m.isRequest() && !json.Valid(line) {
			t.Errorf("reply %q", line)
		}
		if _, p, ok := m.progress(); ok && !json.Valid(p.Params) {
			t.Errorf("progress %q", p.Params)
		}
		if p, err := withProgressToken(m.params, []byte("1")); err == nil && !json.Valid(p) {
			t.Errorf("with a token: %q", p)
		}
		if _, err := m.answer(""); err == nil && m.err == nil && m.result == nil && m.method == "" {
			t.Error("an answer of nothing")
		}
		if line := appendRequest(nil, 1, m.method, m.params); strings.ContainsAny(string(line), "\r\n") || !json.Valid(line) {
			t.Errorf("request %q", line)
		}
	})
}

// The lines of a stream do not depend on how it is cut into reads, and a line
// over the limit is reported in its place.
func FuzzLines(f *testing.F) {
	f.Add([]byte("a\r\nbb\n\nccc"), uint8(3), uint8(2))
	f.Add([]byte(`{"id":1,"result":{}}`+"\n{"), uint8(1), uint8(60))
	f.Add([]byte(strings.Repeat("x", 300)+"\n"+strings.Repeat("y", 10)), uint8(7), uint8(100))
	f.Fuzz(func(t *testing.T, stream []byte, step, limit uint8) {
		max := int(limit) + 1
		l := newLineReader(&dribble{stream, int(step) + 1}, max)
		defer l.release()
		rest := string(stream)
		for n := 0; rest != ""; n++ {
			want, after, _ := strings.Cut(rest, "\n")
			rest = after
			want = strings.TrimSuffix(want, "\r")
			got, err := l.next()
			if err != nil {
				t.Fatalf("line %d: %v", n, err)
			}
			if got.oversized != (len(want) > max) {
				t.Fatalf("line %d of %d bytes: oversized %v at %d", n, len(want), got.oversized, max)
			}
			if !got.oversized && string(got.text) != want {
				t.Fatalf("line %d: %q, want %q", n, got.text, want)
			}
			if got.oversized && (!strings.HasPrefix(want, string(got.head[:min(len(got.head), len(want))])) || !strings.HasSuffix(want, string(got.tail))) {
				t.Fatalf("line %d: ends %q and %q of %q", n, got.head, got.tail, want)
			}
		}
		if got, err := l.next(); err == nil {
			t.Fatalf("a line after the end: %+v", got)
		}
	})
}

// dribble gives a stream in small reads.
type dribble struct {
	rest []byte
	step int
}

func (d *dribble) Read(p []byte) (int, error) {
	if len(d.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, d.rest[:min(d.step, len(d.rest))])
	d.rest = d.rest[n:]
	return n, nil
}
