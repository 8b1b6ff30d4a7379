package nativetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// Transcript plays calls and gives them with their answers, as they are kept in
// a txtar file. A section `VERB` or `VERB as WHO` holds the arguments; the
// section `=` behind it holds the answer, one member a line. call gives the text
// of an answer. Where an answer is not the one that is kept, the test fails,
// unless update.
func Transcript(t *testing.T, kept []byte, update bool, call func(verb, who, arguments string) string) []byte {
	t.Helper()
	archive := txtar.Parse(kept)
	calls := 0
	for i := range archive.Files {
		section := &archive.Files[i]
		if section.Name == "=" {
			continue
		}
		calls++
		if i+1 == len(archive.Files) || archive.Files[i+1].Name != "=" {
			t.Fatalf("section %q has no answer behind it", section.Name)
		}
		verb, who, _ := strings.Cut(section.Name, " as ")
		got, answer := lines(t, call(verb, who, strings.TrimSpace(string(section.Data)))), &archive.Files[i+1]
		if update {
			answer.Data = []byte(got)
		} else if got != string(answer.Data) {
			t.Errorf("%s %sgot:\n%s\nwant:\n%s", section.Name, section.Data, got, answer.Data)
		}
	}
	if calls == 0 {
		t.Fatal("the transcript has no call")
	}
	return txtar.Format(archive)
}

// lines is JSON with a member on each line.
func lines(t *testing.T, text string) string {
	t.Helper()
	var out bytes.Buffer
	if err := json.Indent(&out, []byte(text), "", "  "); err != nil {
		t.Fatal(fmt.Errorf("the answer is no JSON: %w: %s", err, text))
	}
	return out.String() + "\n"
}
