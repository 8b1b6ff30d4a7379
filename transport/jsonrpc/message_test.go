package jsonrpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestDecodeKeepsRawParts(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		want     Message
	}{
		{"request", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"a": 12345678901234567890, "a":1.0}}`,
			Message{Kind: Request, ID: raw(`1`), Method: "tools/call", Params: raw(`{"a": 12345678901234567890, "a":1.0}`)}},
		{"string id stays a string", `{"id":"1","method":"x","jsonrpc":"2.0"}`,
			Message{Kind: Request, ID: raw(`"1"`), Method: "x"}},
		{"an id above 2^53 is not rounded", `{"jsonrpc":"2.0","id":9007199254740993,"method":"x"}`,
			Message{Kind: Request, ID: raw(`9007199254740993`), Method: "x"}},
		{"escaped method and key", `{"jsonrpc":"2.0","\u0069d":2,"method":"p\u0069ng"}`,
			Message{Kind: Request, ID: raw(`2`), Method: "ping"}},
		{"notification with array params", ` {"jsonrpc":"2.0","method":"n","params":[1, 2]} `,
			Message{Kind: Notification, Method: "n", Params: raw(`[1, 2]`)}},
		{"result null is a result", `{"jsonrpc":"2.0","id":7,"result":null}`,
			Message{Kind: Response, ID: raw(`7`), Result: raw(`null`)}},
		{"error with id null", `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}`,
			Message{Kind: Response, ID: raw(`null`), Error: raw(`{"code":-32700,"message":"m"}`)}},
		{"unknown members are kept", `{"jsonrpc":"2.0","method":"n","trace":{"a":[]},"z":"\ud800"}`,
			Message{Kind: Notification, Method: "n", Extra: []Member{{"trace", raw(`{"a":[]}`)}, {"z", raw(`"\ud800"`)}}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Decode([]byte(tt.in))
			if err != nil {
				t.Fatal(err)
			}
			if got.Kind != tt.want.Kind || got.Method != tt.want.Method ||
				!bytes.Equal(got.ID, tt.want.ID) || !bytes.Equal(got.Params, tt.want.Params) ||
				!bytes.Equal(got.Result, tt.want.Result) || !bytes.Equal(got.Error, tt.want.Error) ||
				len(got.Extra) != len(tt.want.Extra) {
				t.Fatalf("got %v %+v\nwant %v %+v", got.Kind, got, tt.want.Kind, tt.want)
			}
			for i, x := range got.Extra {
				if x.Name != tt.want.Extra[i].Name || !bytes.Equal(x.Value, tt.want.Extra[i].Value) {
					t.Errorf("extra member %d is %q: %s", i, x.Name, x.Value)
				}
			}
		})
	}
}

func TestDecodeRefusals(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		code     int
		id       string // raw; empty when it cannot be known
		says     string
	}{
		{"empty", ``, CodeParse, "", ""},
		{"white space", "\n", CodeParse, "", ""},
		{"broken", `{"jsonrpc":"2.0",`, CodeParse, "", ""},
		{"something follows", `{"jsonrpc":"2.0","id":1,"method":"x"} {}`, CodeParse, "", "follows"},
		{"invalid UTF-8", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", CodeParse, "", "UTF-8"},
		{"leading zero", `{"jsonrpc":"2.0","id":01,"method":"x"}`, CodeParse, "", ""},
		{"a control character in a string", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\nb\"}", CodeParse, "", ""},
		{"too deep", `{"jsonrpc":"2.0","id":1,"method":"x","params":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}`, CodeParse, "", ""},
		{"batch", `[{"jsonrpc":"2.0","id":1,"method":"x"}]`, CodeInvalidRequest, "", "batches"},
		{"a number", `12`, CodeInvalidRequest, "", "object"},
		{"no version", `{"id":1,"method":"x"}`, CodeInvalidRequest, "1", "jsonrpc"},
		{"version as a number", `{"jsonrpc":2.0,"id":1,"method":"x"}`, CodeInvalidRequest, "1", "jsonrpc"},
		{"repeated method", `{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}`, CodeInvalidRequest, "1", "repeated"},
		{"repeated id in two spellings", `{"jsonrpc":"2.0","id":1,"\u0069d":1,"method":"b"}`, CodeInvalidRequest, "1", "repeated"},
		{"repeated unknown member", `{"jsonrpc":"2.0","id":1,"method":"b","x":1,"x":2}`, CodeInvalidRequest, "1", "repeated"},
		{"null id", `{"jsonrpc":"2.0","id":null,"method":"x"}`, CodeInvalidRequest, "", "id"},
		{"fractional id", `{"jsonrpc":"2.0","id":1.5,"method":"x"}`, CodeInvalidRequest, "", "id"},
		{"exponent id", `{"jsonrpc":"2.0","id":1e3,"method":"x"}`, CodeInvalidRequest, "", "id"},
		{"boolean id", `{"jsonrpc":"2.0","id":true,"method":"x"}`, CodeInvalidRequest, "", "id"},
		{"huge id", `{"jsonrpc":"2.0","id":"` + strings.Repeat("x", MaxIDBytes) + `","method":"x"}`, CodeInvalidRequest, "", "longer"},
		{"method is a number", `{"jsonrpc":"2.0","id":1,"method":5}`, CodeInvalidRequest, "1", "method"},
		{"empty method", `{"jsonrpc":"2.0","id":1,"method":""}`, CodeInvalidRequest, "1", "empty"},
		{"no method", `{"jsonrpc":"2.0","id":1}`, CodeInvalidRequest, "1", "method"},
		{"null params", `{"jsonrpc":"2.0","id":1,"method":"x","params":null}`, CodeInvalidRequest, "1", "params"},
		{"text params", `{"jsonrpc":"2.0","id":1,"method":"x","params":"{}"}`, CodeInvalidRequest, "1", "params"},
		{"request and response", `{"jsonrpc":"2.0","id":1,"method":"x","result":1}`, CodeInvalidRequest, "", "either"},
		{"result and error", `{"jsonrpc":"2.0","id":1,"result":1,"error":{}}`, CodeInvalidRequest, "", "either"},
		{"response without id", `{"jsonrpc":"2.0","result":1}`, CodeInvalidRequest, "", "id"},
		{"response with a null id", `{"jsonrpc":"2.0","id":null,"result":1}`, CodeInvalidRequest, "", "id"},
		{"error is a string", `{"jsonrpc":"2.0","id":1,"error":"x"}`, CodeInvalidRequest, "", "error"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			msg, err := Decode([]byte(tt.in))
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("accepted as %+v, error %v", msg, err)
			}
			if e.Code != tt.code || string(e.ID) != tt.id || !strings.Contains(e.Message, tt.says) {
				t.Errorf("got %d %q id %q, want %d with %q id %q", e.Code, e.Message, e.ID, tt.code, tt.says, tt.id)
			}
		})
	}
}

func TestDecodeGivesSlicesOfTheInput(t *testing.T) {
	in := []byte(`{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":1}}`)
	msg, err := Decode(in)
	if err != nil {
		t.Fatal(err)
	}
	// Another message decoded with the pooled scanner must not disturb the first.
	if _, err := Decode([]byte(`{"jsonrpc":"2.0","id":22222222,"method":"yyyyyyy","params":{"b":[1,2,3,4]}}`)); err != nil {
		t.Fatal(err)
	}
	if string(msg.Params) != `{"a":1}` || string(msg.ID) != "1" {
		t.Fatalf("parts changed: %s %s", msg.ID, msg.Params)
	}
	if &in[bytes.Index(in, []byte(`{"a"`))] != &msg.Params[0] {
		t.Error("params were copied")
	}
}

func TestEncodersMakeMessagesThatDecode(t *testing.T) {
	for _, tt := range []struct {
		name string
		got  []byte
		want string
	}{
		{"request", AppendRequest(nil, raw(`"a"`), "m", raw(`{ }`)), `{"jsonrpc":"2.0","id":"a","method":"m","params":{ }}`},
		{"notification", AppendNotification(nil, "m\n", nil), `{"jsonrpc":"2.0","method":"m\n"}`},
		{"result", AppendResult(nil, raw(`1`), raw(`{"x":1.0}`)), `{"jsonrpc":"2.0","id":1,"result":{"x":1.0}}`},
		{"error", AppendError(nil, nil, -32700, `say "x"`, nil), `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"say \"x\""}}`},
		{"error as it came", AppendErrorObject(nil, raw(`1`), raw(`{ "code":5,"extra":1.0}`)), `{"jsonrpc":"2.0","id":1,"error":{ "code":5,"extra":1.0}}`},
		{"error with data", AppendError(nil, raw(`1`), 5, "m\xff", raw(`[1]`)), `{"jsonrpc":"2.0","id":1,"error":{"code":5,"message":"m` + "\uFFFD" + `","data":[1]}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if string(tt.got) != tt.want {
				t.Errorf("got  %s\nwant %s", tt.got, tt.want)
			}
			if _, err := Decode(tt.got); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestOneLineChangesOnlyLineBreaksBetweenTokens(t *testing.T) {
	in := []byte("{\n  \"a\": \"x\\ny\",\r\n \"b\": [1,\n2]\n}")
	got := OneLine(in)
	if bytes.ContainsAny(got, "\r\n") || !sameJSON(t, in, got) {
		t.Errorf("got %q", got)
	}
	if in[1] != '\n' {
		t.Error("the input was changed")
	}
}

func raw(s string) json.RawMessage { return json.RawMessage(s) }

func sameJSON(t testing.TB, a, b []byte) bool {
	t.Helper()
	var ca, cb bytes.Buffer
	if err := json.Compact(&ca, a); err != nil {
		t.Errorf("%q: %v", a, err)
		return false
	}
	if err := json.Compact(&cb, b); err != nil {
		t.Errorf("%q: %v", b, err)
		return false
	}
	return bytes.Equal(ca.Bytes(), cb.Bytes())
}
