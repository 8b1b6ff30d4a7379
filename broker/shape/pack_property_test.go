package shape_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"berth/broker"
	"berth/broker/shape"
	"berth/broker/shape/o200k"

	"pgregory.net/rapid"
)

// checkShaped holds what is true of every shaped answer: it is JSON, within its
// budget when it is counted again, and with what is kept it is the original.
func checkShaped(t tb, original json.RawMessage, s shape.Shaped, l shape.Limits, c shape.Counter) {
	t.Helper()
	if !json.Valid(s.Result) {
		t.Fatalf("no JSON: %.500s", s.Result)
	}
	if got := shape.CountResult(c, s.Result, l); got.Tokens > int(l.Budget) {
		t.Fatalf("%d tokens are over the budget of %d: %.2000s", got.Tokens, l.Budget, s.Result)
	} else if s.Tokens.Out != nil && *s.Tokens.Out != got.Tokens {
		t.Fatalf("said %d tokens, counted %d", *s.Tokens.Out, got.Tokens)
	}
	joined := map[string]string{}
	for _, k := range s.Keep {
		joined[k.Handle] = join(t, k, l, c)
	}
	want, got := decode(t, original), decode(t, s.Result)
	blocks, structured := rebuild(t, got, s.Keep, joined, want)
	if len(blocks) != len(want.Content) {
		t.Fatalf("%d blocks of %d are left: %.1000s", len(blocks), len(want.Content), s.Result)
	}
	for i, w := range want.Content {
		if compact(blocks[i]) != compact(w.Text+w.Resource.Text) {
			t.Fatalf("block %d: %.300s\nwas %.300s", i, blocks[i], w.Text)
		}
	}
	if structured != nil && compact(string(structured)) != compact(string(want.Structured)) {
		t.Fatalf("structured: %.300s\nwas %.300s", structured, want.Structured)
	}
}

// rebuild puts the original together from an answer and what was kept.
func rebuild(t tb, got toolResult, keep []shape.Kept, joined map[string]string, want toolResult) (blocks []string, structured json.RawMessage) {
	t.Helper()
	given := got.Content
	if len(keep) > 0 && len(given) > 0 {
		given = given[:len(given)-1] // the footer
	}
	structured = got.Structured
	if structured != nil && compact(string(structured)) != compact(string(want.Structured)) {
		structured = json.RawMessage(grow(t, string(structured), keep, compact(string(want.Structured))))
	}
	for i, b := range given {
		whole := b.Text + b.Resource.Text
		original := ""
		if i < len(want.Content) {
			original = compact(want.Content[i].Text + want.Content[i].Resource.Text)
		}
		if compact(whole) != original {
			var p struct {
				Preview string
				More    struct {
					Handle string
					Offset int
				}
			}
			if json.Unmarshal([]byte(whole), &p) == nil && joined[p.More.Handle] != "" {
				whole = joined[p.More.Handle]
				if p.Preview != whole[:p.More.Offset] {
					t.Fatalf("the preview is not the beginning: %.200s", p.Preview)
				}
			} else {
				whole = grow(t, whole, keep, original)
			}
		}
		blocks = append(blocks, whole)
	}
	for _, k := range keep {
		if k.Unit != shape.UnitBlocks {
			continue
		}
		var rest []content
		if err := json.Unmarshal([]byte(joined[k.Handle]), &rest); err != nil {
			t.Fatal(err)
		}
		for _, b := range rest {
			blocks = append(blocks, b.Text+b.Resource.Text)
		}
	}
	return blocks, structured
}

// grow finds the kept piece that text is the beginning of.
func grow(t tb, text string, keep []shape.Kept, original string) string {
	t.Helper()
	for _, k := range keep {
		if k.Unit == shape.UnitBytes && k.First <= len(k.Text()) && text == k.Text()[:k.First] {
			return k.Text()
		}
		if k.Unit != shape.UnitItems {
			continue
		}
		var items []json.RawMessage
		if err := json.Unmarshal([]byte(k.Text()), &items); err != nil {
			t.Fatal(err)
		}
		var prefix bytes.Buffer
		for i, item := range items[:k.First] {
			if i > 0 {
				prefix.WriteByte(',')
			}
			prefix.Write(item)
		}
		part := "[" + prefix.String() + "]"
		for at := 0; ; {
			i := strings.Index(text[at:], part)
			if i < 0 {
				break
			}
			if grown := text[:at+i] + k.Text() + text[at+i+len(part):]; grown == original {
				return grown
			}
			at += i + 1
		}
	}
	t.Fatalf("%.500s is the beginning of nothing that is kept", text)
	return ""
}

func compact(text string) string {
	if b := strings.TrimSpace(text); b != "" && strings.ContainsRune(`{["`, rune(b[0])) {
		if c, err := shape.Compact(json.RawMessage(text)); err == nil {
			return string(c)
		}
	}
	return text
}

// join reads everything that is kept under a handle, as a caller does: from a
// store, part by part, items of their own included.
func join(t tb, k shape.Kept, l shape.Limits, c shape.Counter) string {
	t.Helper()
	now := time.Unix(0, 0)
	store := shape.NewStore(shape.StoreOptions{})
	who := broker.LocalOperator
	k.First = 0 // as one who asks from the beginning
	store.Put(now, who, []shape.Kept{k}, "all of it")
	ended := false
	fresh := func() func() (string, error) {
		n := 0
		return func() (string, error) {
			n++
			return fmt.Sprintf("m_child%020d", n), nil
		}
	}()
	var read func(handle string, offset int) string
	read = func(handle string, offset int) string {
		var items []string
		var texts strings.Builder
		for {
			kept, next, refusal := store.Find(now, who, handle)
			if refusal != nil {
				t.Fatal(refusal)
			}
			if ended {
				t.Fatal("the end was announced too early")
			}
			if offset >= 0 {
				next, offset = offset, -1
			}
			page, err := kept.Page(next, l, c, store.Child(now, who, handle), fresh)
			if err != nil {
				t.Fatal(err)
			}
			var doc struct {
				Unit       string
				Offset     int
				Count      int
				Total      int
				NextOffset *int `json:"next_offset"`
				Items      []json.RawMessage
				Text       *string
			}
			d := json.NewDecoder(bytes.NewReader(page.Document))
			d.DisallowUnknownFields()
			if err := d.Decode(&doc); err != nil {
				t.Fatalf("%v: %.300s", err, page.Document)
			}
			if n := shape.CountResult(c, shape.Structured(page.Document, false), l); n.Tokens > int(l.Budget) {
				t.Fatalf("a part of %d tokens is over the budget of %d: %.500s", n.Tokens, l.Budget, page.Document)
			}
			if doc.Unit != kept.Unit || doc.Total != kept.Total || doc.Offset != page.Offset || doc.Count != page.Count || (doc.NextOffset == nil) != (doc.Offset+doc.Count >= doc.Total) {
				t.Fatalf("%.300s", page.Document)
			}
			if doc.Count == 0 && doc.Total > 0 {
				t.Fatalf("an empty part: %.300s", page.Document)
			}
			_, last := store.Delivered(now, who, handle, page)
			ended = ended || last
			switch {
			case page.Split:
				var p struct {
					Preview string
					More    struct {
						Handle string
						Offset int
					}
				}
				if err := json.Unmarshal(doc.Items[0], &p); err != nil || p.More.Handle == "" {
					t.Fatalf("%v: %s", err, doc.Items[0])
				}
				items = append(items, p.Preview+read(p.More.Handle, p.More.Offset))
			case doc.Text != nil:
				texts.WriteString(*doc.Text)
			default:
				if len(doc.Items) != doc.Count {
					t.Fatalf("%d items, count %d", len(doc.Items), doc.Count)
				}
				for _, item := range doc.Items {
					items = append(items, string(item))
				}
			}
			if doc.NextOffset == nil {
				if doc.Text == nil {
					return "[" + strings.Join(items, ",") + "]"
				}
				return texts.String()
			}
		}
	}
	got := read(k.Handle, -1)
	if got != k.Text() {
		t.Fatalf("joined %.500s\nkept %.500s", got, k.Text())
	}
	if !ended && k.Dropped == 0 {
		t.Fatal("the end was not announced")
	}
	return got
}

func TestNothingIsLostAndNothingIsOverTheBudget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		result := drawResult(t)
		l := limits(shape.Budget(rapid.IntRange(500, 1500).Draw(t, "budget")))
		l.Factor = rapid.SampledFrom([]float64{0, 0.5, 1, 1.7}).Draw(t, "factor")
		l.Complete = rapid.Bool().Draw(t, "complete")
		var c shape.Counter = quarter{}
		if rapid.IntRange(0, 10*share-1).Draw(t, "vocabulary") == 0 {
			c = o200k.Counter{}
		}
		s, err := shape.Shape(result, l, c, handles())
		if err != nil {
			t.Fatal(err)
		}
		checkShaped(t, result, s, l, c)
	})
}

func drawResult(t *rapid.T) json.RawMessage {
	var blocks []string
	first := ""
	for i := range rapid.IntRange(0, 4).Draw(t, "blocks") {
		var s string
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			s = strings.Repeat(rapid.SampledFrom([]string{"word ", "é\n", "漢字", "line of text\n", "\"\\", "x"}).Draw(t, "unit"), rapid.IntRange(0, 2000).Draw(t, "times"))
		default:
			s = drawJSON(t, 3)
		}
		if i == 0 {
			first = s
		}
		quoted, _ := json.Marshal(s)
		if rapid.IntRange(0, 4).Draw(t, "resource") == 0 {
			blocks = append(blocks, `{"type":"resource","resource":{"uri":"a:b","text":`+string(quoted)+`}}`)
			continue
		}
		blocks = append(blocks, `{"type":"text","text":`+string(quoted)+`}`)
	}
	out := `{"content":[` + strings.Join(blocks, ",") + `]`
	switch rapid.IntRange(0, 2).Draw(t, "structured") {
	case 1:
		out += `,"structuredContent":{"own":` + drawJSON(t, 3) + `}`
	case 2:
		if strings.HasPrefix(first, "{") && json.Valid([]byte(first)) {
			out += `,"structuredContent":` + first
		}
	}
	return json.RawMessage(out + `,"isError":false}`)
}

func drawJSON(t *rapid.T, depth int) string {
	kind := rapid.IntRange(0, 4).Draw(t, "json")
	if depth == 0 {
		kind %= 3
	}
	space := rapid.SampledFrom([]string{"", "", " ", "\n  "}).Draw(t, "space")
	switch kind {
	case 0:
		return rapid.SampledFrom([]string{"1.0", "9007199254740993", "-0", "1e400", "true", "null"}).Draw(t, "scalar")
	case 1:
		return `"` + strings.Repeat(rapid.SampledFrom([]string{"a", `\u00e9`, `\"`, `[`, "漢", `\\`}).Draw(t, "unit"), rapid.IntRange(0, 1200).Draw(t, "length")) + `"`
	case 2:
		item := rapid.SampledFrom([]string{`1`, `"a"`, `{"b":[]}`, `{"c":"` + strings.Repeat("d", 60) + `"}`, `"` + strings.Repeat("e", 5000) + `"`}).Draw(t, "item")
		items := make([]string, rapid.IntRange(0, 300).Draw(t, "n"))
		for i := range items {
			items[i] = item
		}
		return "[" + space + strings.Join(items, ","+space) + space + "]"
	case 3:
		var items []string
		for range rapid.IntRange(0, 3).Draw(t, "items") {
			items = append(items, drawJSON(t, depth-1))
		}
		return "[" + space + strings.Join(items, ","+space) + "]"
	}
	var members []string
	for i := range rapid.IntRange(0, 3).Draw(t, "members") {
		members = append(members, fmt.Sprintf("%q:%s%s", string(rune('z'-i)), space, drawJSON(t, depth-1)))
	}
	return "{" + space + strings.Join(members, ","+space) + space + "}"
}

func FuzzShape(f *testing.F) {
	f.Add([]byte(text(records(200))), 500, true)
	f.Add([]byte(`{"content":[{"type":"text","text":"[1,2,3]"}],"structuredContent":{"a":[1,2]}}`), 500, false)
	f.Add([]byte(`{"content":[{"type":"resource","resource":{"blob":"AA=="}},{"type":"text"}]}`), 700, true)
	f.Add([]byte(`{"content":[{"type":"text","text":"a","text":"b"}],"content":[]}`), 500, true)
	f.Add([]byte("{\"content\":[{\"a\":\"\xff~\"},{\"\x80\":1}]}"), 693, true)
	f.Fuzz(func(t *testing.T, in []byte, budget int, grow bool) {
		if len(in) > 1<<12 {
			return // parts of it are read with many budgets; the size is another test's
		}
		if grow { // make what is small large enough to be cut
			in = bytes.ReplaceAll(in, []byte("~"), bytes.Repeat([]byte("ab c"), 700))
			in = bytes.ReplaceAll(in, []byte("[0"), append([]byte("[0"), bytes.Repeat([]byte(",{\"k\":[7]}"), 300)...))
		}
		l := limits(min(max(shape.Budget(budget), shape.MinBudget), shape.MaxBudget))
		s, err := shape.Shape(in, l, quarter{}, handles())
		if err != nil {
			t.Fatal(err)
		}
		if s.Facts == nil {
			if !bytes.Equal(s.Result, in) {
				t.Fatalf("%q became %q", in, s.Result)
			}
			return
		}
		if !json.Valid(s.Result) && json.Valid(in) {
			t.Fatalf("%q became %q", in, s.Result)
		}
		if got := shape.CountResult(quarter{}, s.Result, l); got.Tokens > int(l.Budget) {
			t.Fatalf("%d tokens: %q", got.Tokens, s.Result)
		}
		for _, k := range s.Keep {
			join(t, k, l, quarter{})
		}
	})
}
