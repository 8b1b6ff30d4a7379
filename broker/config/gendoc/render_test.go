package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDocumentIsFresh(t *testing.T) {
	want, err := render("..")
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.FromSlash("../../../docs/configuration.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("docs/configuration.md is stale: run make generate")
	}
}

func TestRunWritesWhatRenderGives(t *testing.T) {
	file := filepath.Join(t.TempDir(), "configuration.md")
	if err := run("..", file); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| `max_in_flight` | number, 1 to 10000 | `16` |", "| `log_level` | `debug`, `info`, `warn`, `error` | `info` |", "| `promote_after` | duration, 1s to 24h, or `never` |"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

func TestRenderRefusesWhatHasNoSource(t *testing.T) {
	if _, err := render(t.TempDir()); err == nil || !strings.Contains(err.Error(), "has no comment") {
		t.Errorf("got %v", err)
	}
}
