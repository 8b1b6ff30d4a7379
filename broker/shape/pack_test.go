package shape_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"berth/broker/shape"
	"berth/broker/shape/o200k"
)

// tb is what the checks need of a test or of a property.
type tb interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

// quarter is a counter that costs nothing: a token for each four bytes begun.
type quarter struct{}

func (quarter) Count(text string) shape.Count {
	return shape.Count{Tokens: (len(text) + 3) / 4, Exact: len(text) <= o200k.MaxExact}
}

var until = time.Date(2026, 5, 4, 14, 5, 0, 0, time.UTC)

func handles() func() (string, error) {
	n := 0
	return func() (string, error) {
		n++
		return fmt.Sprintf("m_%026d", n), nil
	}
}

func limits(budget shape.Budget) shape.Limits {
	return shape.Limits{Budget: budget, CanMore: true, Until: until}
}

type content struct {
	Type, Text, Data string
	Resource         struct{ Text string }
}

type toolResult struct {
	Content    []content
	Structured json.RawMessage `json:"structuredContent"`
	IsError    bool
	Meta       json.RawMessage `json:"_meta"`
}

func decode(t tb, raw json.RawMessage) toolResult {
	t.Helper()
	var r toolResult
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatalf("%v in %.500s", err, raw)
	}
	return r
}

func text(blocks ...string) json.RawMessage {
	out := []string{}
	for _, b := range blocks {
		quoted, _ := json.Marshal(b)
		out = append(out, `{"type":"text","text":`+string(quoted)+`}`)
	}
	return json.RawMessage(`{"content":[` + strings.Join(out, ",") + `]}`)
}

func records(n int) string {
	var b strings.Builder
	b.WriteString(`{ "total": ` + strconv.Itoa(n) + `, "rows": [ `)
	for i := range n {
		if i > 0 {
			b.WriteString(" , ")
		}
		fmt.Fprintf(&b, `{"n":%d.0,"z":9007199254740993,"a":"row \u00e9 %d"}`, i, i)
	}
	return b.String() + ` ], "tail": [1,2] }`
}

func shaped(t tb, result json.RawMessage, l shape.Limits, c shape.Counter) shape.Shaped {
	t.Helper()
	s, err := shape.Shape(result, l, c, handles())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestWhatFitsStaysAsItCame(t *testing.T) {
	for _, tt := range []struct {
		name   string
		result json.RawMessage
		limits shape.Limits
		out    bool
		warn   bool
	}{
		{"small, uncounted", json.RawMessage(` { "content" : [ ] , "x":1e400}`), limits(500), false, false},
		{"small, counted", text("abc"), shape.Limits{Budget: 500, CountAlways: true}, true, false},
		{"more bytes than the budget", text(strings.Repeat("x", 1000)), limits(500), true, false},
		{"whole", text(strings.Repeat("x", 9000)), limits(shape.Whole), false, false},
		{"a factor counts", text(strings.Repeat("x", 400)), shape.Limits{Budget: 500, Factor: 2, CanMore: true}, true, false},
		{"a caller without more", text(strings.Repeat("x", 9000)), shape.Limits{Budget: 500}, true, true},
		{"no tool result", json.RawMessage(`{"tools":[]}`), limits(500), false, false},
		{"a long one that is no tool result", json.RawMessage(`{"a":"` + strings.Repeat("x", 9000) + `"}`), limits(500), true, true},
		{"content that is no list", json.RawMessage(`{"content":"a"}`), limits(500), false, false},
		{"an image is no token", json.RawMessage(`{"content":[{"type":"image","mimeType":"image/png","data":"` + strings.Repeat("A", 9000) + `"}]}`), limits(500), false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := shaped(t, tt.result, tt.limits, quarter{})
			if string(s.Result) != string(tt.result) || s.Facts != nil || len(s.Keep) > 0 {
				t.Errorf("changed: %.200s, %+v", s.Result, s.Facts)
			}
			if (s.Tokens.Out != nil) != tt.out || (len(s.Warnings) > 0) != tt.warn || s.Tokens.Bytes != len(tt.result) {
				t.Errorf("tokens %+v, warnings %v", s.Tokens, s.Warnings)
			}
		})
	}
}

func TestShapeCuts(t *testing.T) {
	words := strings.Repeat("a line of words\n", 800)
	object := `{"s":"` + strings.Repeat("x", 9000) + `"}`
	rows := records(400)
	quoted, _ := json.Marshal(rows)
	for _, tt := range []struct {
		name       string
		result     json.RawMessage
		steps      string
		unit       string
		structured string // of the facts; empty: null
		keeps      int
		parts      []string // of the answer
	}{
		{"white space is enough", text(`{"a":[` + strings.Repeat(" ", 3000) + `1]}`), "[compact]", "", "", 0, []string{`{\"a\":[1]}`}},
		{"items", text(rows), "[compact items]", "items", "", 1, []string{`\"total\":400,\"rows\":[{\"n\":0.0,\"z\":9007199254740993,\"a\":\"row \\u00e9 0\"}`, `\"tail\":[1,2]}"`, `[berth] `, ` of 400 items. Rest: more {\"handle\":\"m_`, `until 14:05Z.`}},
		{"a preview", text(object), "[preview]", "bytes", "", 1, []string{`"{\"preview\":\"{\\\"s\\\":\\\"xxx`, `\"more\":{\"handle\":\"m_00000000000000000000000001\",\"offset\":`, ` of 9008 bytes. Rest: more`}},
		{"a first item that is too large", text(`[` + object + `]`), "[preview]", "bytes", "", 1, []string{`{\"preview\":`}},
		{"a JSON string", text(`"` + strings.Repeat("y", 9000) + `"`), "[preview]", "bytes", "", 1, []string{`{\"preview\":\"\\\"yyy`}},
		{"lines", text(words), "[text]", "bytes", "", 1, []string{`a line of words\n"}`, ` of 12800 bytes. Rest`}},
		{"one long line", text(strings.Repeat("é", 6000)), "[text]", "bytes", "", 1, []string{`ééé`, ` of 12000 bytes. Rest`}},
		{"later blocks", text("first", words, "third", "fourth"), "[blocks text]", "bytes", "", 2, []string{`"first"`, ` bytes. Rest: more`, `2 of 4 content blocks. Rest: more`}},
		{"the same value twice", json.RawMessage(`{"structuredContent":` + rows + `,"content":[{"type":"text","annotations":{"x":1},"text":` + string(quoted) + `}],"isError":false,"_meta":{"a":1}}`), "[compact items]", "items", "prefix", 1,
			[]string{`{"structuredContent":{"total":400,"rows":[{"n":0.0,`, `,"content":[{"type":"text","annotations":{"x":1},"text":"{\"total\":400`, `,"isError":false,"_meta":{"a":1}}`}},
		{"structured content of its own", json.RawMessage(`{"content":[{"type":"text","text":"400 rows"}],"structuredContent":` + rows + `}`), "[items]", "items", "prefix", 1, []string{`"400 rows"`, `[berth] structuredContent: `, ` of 400 items`, `"structuredContent":{"total":400,"rows":[{"n":0.0`}},
		{"structured content that has no list", json.RawMessage(`{"content":[],"structuredContent":` + object + `}`), "[structured]", "bytes", "absent", 1, []string{`structuredContent: 0 of 9008 bytes. Rest: more`}},
		{"structured content without content", json.RawMessage(`{"structuredContent":` + object + `}`), "[structured]", "bytes", "absent", 1, []string{`,"content":[{"type":"text","text":"[berth] structuredContent: 0`, `{"content":[`}[1:]},
		{"small structured content stays", json.RawMessage(`{"content":[{"type":"text","text":` + string(quoted) + `}],"structuredContent":{ "n" : 1 }}`), "[compact items]", "items", "whole", 1, []string{`"structuredContent":{ "n" : 1 }`}},
		{"both are large", json.RawMessage(`{"content":[{"type":"text","text":` + string(quoted) + `}],"structuredContent":` + object + `}`), "[compact structured items]", "items", "absent", 2, []string{`structuredContent: 0 of 9008 bytes`}},
		{"a resource", json.RawMessage(`{"content":[{"type":"resource","resource":{"uri":"a:b","text":` + string(quoted) + `}}]}`), "[compact items]", "items", "", 1, []string{`{"type":"resource","resource":{"uri":"a:b","text":"{\"total\":400,`}},
		{"a block that cannot be cut", json.RawMessage(`{"content":[{"type":"text","text":"a"},{"type":"resource_link","uri":"` + strings.Repeat("u", 9000) + `"}]}`), "[blocks]", "blocks", "", 1, []string{`"text":"a"`, `1 of 2 content blocks. Rest: more`}},
		{"an error", json.RawMessage(`{"isError":true,"content":[{"type":"text","text":` + string(quoted) + `}]}`), "[compact items]", "items", "", 1, []string{`{"isError":true,"content":[`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := limits(500)
			before := string(tt.result)
			s := shaped(t, tt.result, l, quarter{})
			if s.Facts == nil || fmt.Sprint(s.Facts.Steps) != tt.steps || len(s.Keep) != tt.keeps {
				t.Fatalf("facts %+v, keeps %d; answer %.800s", s.Facts, len(s.Keep), s.Result)
			}
			if unit := deref(s.Facts.Unit); unit != tt.unit || deref(s.Facts.Structured) != tt.structured {
				t.Errorf("unit %q, structured %q", unit, deref(s.Facts.Structured))
			}
			for _, part := range tt.parts {
				if !strings.Contains(string(s.Result), part) {
					t.Errorf("%q is not in %.1200s", part, s.Result)
				}
			}
			if string(tt.result) != before {
				t.Error("the input was changed")
			}
			checkShaped(t, tt.result, s, l, quarter{})
		})
	}
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// TestThePrefixIsTheLongestThatFits: one more item would be over the budget.
func TestThePrefixIsTheLongestThatFits(t *testing.T) {
	for _, n := range []int{30, 400, 5000} {
		for _, budget := range []shape.Budget{500, 1999} {
			for name, c := range map[string]shape.Counter{"bytes": quarter{}, "o200k": o200k.Counter{}} {
				result := text(records(n))
				l := limits(budget)
				s := shaped(t, result, l, c)
				if s.Facts == nil {
					continue
				}
				kept := *s.Facts.Kept
				var doc struct {
					Rows []json.RawMessage
				}
				var all struct {
					Rows []json.RawMessage
				}
				blocks := decode(t, s.Result).Content
				if json.Unmarshal([]byte(blocks[0].Text), &doc) != nil || json.Unmarshal([]byte(records(n)), &all) != nil || len(doc.Rows) != kept {
					t.Fatalf("%s", blocks[0].Text)
				}
				// The compact items are those of the kept array.
				var whole []json.RawMessage
				if err := json.Unmarshal([]byte(s.Keep[0].Text()), &whole); err != nil || len(whole) != n {
					t.Fatal(err, len(whole))
				}
				longer := strings.Replace(blocks[0].Text, `],"tail"`, `,`+string(whole[kept])+`],"tail"`, 1)
				footer := strings.Replace(strings.Replace(blocks[1].Text, fmt.Sprintf("[berth] %d of", kept), fmt.Sprintf("[berth] %d of", kept+1), 1), fmt.Sprintf(`"offset":%d`, kept), fmt.Sprintf(`"offset":%d`, kept+1), 1)
				if got := shape.CountResult(c, text(longer, footer), l); got.Tokens <= int(budget) {
					t.Errorf("%s, %d rows, budget %d: %d items were kept, with one more it is %d tokens", name, n, budget, kept, got.Tokens)
				}
			}
		}
	}
}

func TestAFooterSaysThatTheCallIsComplete(t *testing.T) {
	l := limits(500)
	l.Complete = true
	s := shaped(t, text(strings.Repeat("word ", 2000)), l, quarter{})
	if !strings.Contains(string(s.Result), "until 14:05Z. The call is complete; do not repeat it.") {
		t.Errorf("%s", s.Result)
	}
}

func TestALargeImageBecomesANote(t *testing.T) {
	image := `{"type":"image","mimeType":"image/png","data":"` + strings.Repeat("A", shape.MaxMedia+1) + `"}`
	result := json.RawMessage(`{"content":[{"type":"text","text":"see"},` + image + `]}`)
	s := shaped(t, result, limits(0), quarter{})
	r := decode(t, s.Result)
	if len(r.Content) != 2 || r.Content[1].Type != "text" || !strings.Contains(r.Content[1].Text, `block of type image (image/png) with 1048577 bytes of base64. The block: more {"handle":"m_`) {
		t.Fatalf("%.300s", s.Result)
	}
	if len(s.Keep) != 1 || s.Keep[0].Text() != image || fmt.Sprint(s.Facts.Steps) != "[media]" {
		t.Errorf("kept %d, facts %+v", len(s.Keep), s.Facts)
	}
	if s := shaped(t, result, shape.Limits{Budget: 500}, quarter{}); s.Facts != nil {
		t.Error("it was taken from a caller who cannot ask for it")
	}
}

func TestWhatIsOverTheBoundIsNotKeptAndSaidSo(t *testing.T) {
	item := `"` + strings.Repeat("x", 1<<20) + `"`
	s := shaped(t, text("["+strings.Repeat(`1,`, 9)+strings.Repeat(item+",", 19)+item+"]"), limits(500), quarter{})
	k := s.Keep[0]
	if k.Unit != shape.UnitItems || k.Total != 24 || k.Dropped != 5 || k.Size() > shape.MaxKept {
		t.Errorf("kept %d of %d %s, %d bytes", k.Total, k.Total+k.Dropped, k.Unit, k.Size())
	}
	if !strings.Contains(string(s.Result), "The last 5 items are over what is kept (16 MiB).") {
		t.Errorf("%s", s.Result)
	}
	s = shaped(t, text(strings.Repeat("é", 9<<20)), limits(500), quarter{})
	if k := s.Keep[0]; k.Total != shape.MaxKept || k.Dropped != 2<<20 || !json.Valid(s.Result) {
		t.Errorf("kept %d, dropped %d", k.Total, k.Dropped)
	}
}

func TestLargeDocumentsArePackedInBoundedTime(t *testing.T) {
	rows := records(600_000 / share) // more than 32 MiB
	for name, doc := range map[string]string{
		"records": rows, "one text": strings.Repeat("word and word\n", 2<<20/share), "a string in JSON": `{"a":"` + strings.Repeat("x y ", 7<<20/share) + `","b":[1,2,3]}`,
		"millions of items": "[" + strings.Repeat("1,", 12<<20/share) + "1]", "deep": strings.Repeat("[", 9000) + `"` + strings.Repeat("x y ", 1<<20/share) + `"` + strings.Repeat("]", 9000),
		"a long tail": `{"a":[` + strings.Repeat(`"item",`, 1<<20/share) + `1],"b":"` + strings.Repeat("z", 4<<20/share) + `"}`,
		"too deep":    strings.Repeat("[", 1<<20) + strings.Repeat("]", 1<<20),
	} {
		t.Run(name, func(t *testing.T) {
			l := limits(0)
			var c shape.Counter = quarter{}
			if name == "records" { // one with the vocabulary; what is slow about the others is not the counting
				c = o200k.Counter{}
			}
			s := shaped(t, text(doc), l, c)
			if got := shape.CountResult(c, s.Result, l); !json.Valid(s.Result) || got.Tokens > int(shape.DefaultBudget) {
				t.Errorf("%d bytes, %+v", len(s.Result), got)
			}
			if len(s.Keep) == 0 {
				t.Error("nothing is kept")
			}
		})
	}
}

func TestAnErrorOfTheHandlesIsReturned(t *testing.T) {
	broken := errors.New("no randomness")
	for _, result := range []json.RawMessage{text(strings.Repeat("a b\n", 9000)), text("a", records(900), "b"), json.RawMessage(`{"content":[],"structuredContent":` + records(900) + `}`)} {
		if _, err := shape.Shape(result, limits(500), quarter{}, func() (string, error) { return "", broken }); !errors.Is(err, broken) {
			t.Errorf("got %v", err)
		}
	}
}
