package mcpclient

import (
	"berth/transport/jsonrpc"
	"encoding/json"
	"io"
	"strings"
	"testing"
)

func TestTheProgressTokenIsPutWhereItBelongs(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"no params", ``, `{"_meta":{"progressToken":7}}`},
		{"no meta", `{"a":1.0}`, `{"a":1.0,"_meta":{"progressToken":7}}`},
		{"a null as meta", `{"_meta":null,"a":1}`, `{"_meta":{"progressToken":7},"a":1}`},
		{"other meta", `{"_meta":{"x":12345678901234567890},"a":"\u003c"}`, `{"_meta":{"x":12345678901234567890,"progressToken":7},"a":"\u003c"}`},
		{"another token", `{"_meta":{"progressToken":"t","x":1}}`, `{"_meta":{"progressToken":7,"x":1}}`},
		{"escaped names", `{"_m\u0065ta":{"progress\u0054oken":1}}`, `{"_m\u0065ta":{"progress\u0054oken":7}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := withProgressToken([]byte(tt.in), []byte("7"))
			if err != nil || string(got) != tt.want {
				t.Errorf("got %s, %v; want %s", got, err, tt.want)
			}
		})
	}
	for _, in := range []string{`[]`, `7`, `{`, `{"_meta":[]}`, `{"_meta":"x"}`} {
		if got, err := withProgressToken([]byte(in), []byte("7")); err == nil {
			t.Errorf("%s became %s", in, got)
		}
	}
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
	big := strings.Repeat(`x`, 100_000) // more than is read at once
	for _, tt := range []struct {
		text string
		id   int64
	}{
		{`{"id":5,"result":{"x":"` + big + `"}}`, 5},
		{`data: {"id":5,"result":{"x":"` + big + `"}}`, 5},
		{`{"result":{"x":"` + big + `"},"id": 5 , "jsonrpc" : "2.0" } `, 5},
		{`{"result":["` + big + `"],"id":5,"more":["` + big + `"]}`, 5},
		{`{"result":"` + big + `","id":5`, 0}, // may be cut off
		{`{"result":{"x":"` + big + `","id":5}}`, 0},
		{`{"result":"` + big + `\"id\":5"}`, 0},
		{`{"id":"5","result":"` + big + `"}`, 0},
		{`{"id":5,"method":"x","params":"` + big + `"}`, 0},
		{`data: ` + big, 0},
	} {
		l := newLineReader(strings.NewReader(tt.text+"\nnext\n"), 1000)
		got, err := l.next()
		if err != nil || got.skimmed == nil {
			t.Fatalf("%.30s: %+v, %v", tt.text, got, err)
		}
		id, ok := got.answers()
		if ok != (tt.id != 0) || ok && id != tt.id || !strings.HasPrefix(tt.text, string(got.text)) || len(got.text) < len("data:") {
			t.Errorf("%.30s…%s: %d, %v, begins with %q", tt.text, tt.text[len(tt.text)-20:], id, ok, got.text)
		}
		if after, err := l.next(); err != nil || string(after.text) != "next" {
			t.Errorf("the next line is %q, %v", after.text, err)
		}
		l.release()
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
		if m.isRequest() {
			if line := jsonrpc.AppendResult(nil, m.id, json.RawMessage(`{}`)); !json.Valid(line) {
				t.Errorf("reply %q", line)
			}
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
		if line := requestLine(1, m.method, m.params); strings.ContainsAny(string(line), "\r\n") || !json.Valid(line) {
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
			if (got.skimmed != nil) != (len(want) > max) {
				t.Fatalf("line %d of %d bytes at %d: %+v", n, len(want), max, got)
			}
			if got.skimmed == nil && string(got.text) != want {
				t.Fatalf("line %d: %q, want %q", n, got.text, want)
			}
			if got.skimmed != nil && !strings.HasPrefix(want+"\r\n", string(got.text)) {
				t.Fatalf("line %d: it begins with %q, not %q", n, got.text, want)
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
