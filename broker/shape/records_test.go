package shape_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"berth/broker/shape"
	"berth/broker/shape/o200k"
)

// TestRecordsAreNeverCut: what is kept and what is left are whole records, and
// together the text.
func TestRecordsAreNeverCut(t *testing.T) {
	var all []string
	for i := range 300 {
		all = append(all, fmt.Sprintf("@article{key%d,\n  title = {A title of some length, number %d}\n}\n\n", i, i))
	}
	whole := strings.Join(all, "")
	text, _ := json.Marshal(whole)
	random := bytes.NewReader(bytes.Repeat([]byte("0123456789abcdef"), 4))
	l := shape.Limits{Budget: 1000, CanMore: true, Fewer: "Or ask for fewer.", Records: func(s string) []string { return strings.SplitAfter(strings.TrimSuffix(s, ""), "}\n\n") }}
	got, err := shape.Shape(shape.ToolResult(text, false), l, o200k.Counter{}, func() (string, error) { return shape.NewHandle(random) })
	if err != nil || len(got.Keep) != 1 {
		t.Fatal(err, got.Facts)
	}
	var result struct{ Content []struct{ Text string } }
	if err := json.Unmarshal(got.Result, &result); err != nil || len(result.Content) != 2 {
		t.Fatal(err, string(got.Result))
	}
	var kept string
	if err := json.Unmarshal([]byte(result.Content[0].Text), &kept); err != nil || !strings.HasSuffix(kept, "}\n\n") || !strings.HasPrefix(whole, kept) {
		t.Fatalf("%v: %q", err, kept)
	}
	if !strings.Contains(result.Content[1].Text, "Or ask for fewer.") || got.Tokens.Out == nil || *got.Tokens.Out > 1000 {
		t.Errorf("%q, %+v", result.Content[1].Text, got.Tokens)
	}
	var items []string
	if err := json.Unmarshal([]byte(got.Keep[0].Text()), &items); err != nil || strings.Join(items, "") != whole || kept != strings.Join(items[:got.Keep[0].First], "") {
		t.Errorf("%v: what is kept is not the whole", err)
	}
}
