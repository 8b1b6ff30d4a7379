package main

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A journal whose pages were overwritten ends every command that needs it with
// a sentence and exit code 5, and stays as it is for whoever mends it.
func TestADamagedJournalEndsInASentence(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	must(t, h.start())
	h.broker.Kill()
	path := filepath.Join(h.state, journalFile)
	whole, err := os.ReadFile(path)
	must(t, err)
	size := os.Getpagesize()
	for _, tt := range []struct {
		name  string
		spoil func(file []byte) []byte
	}{
		{"both heads overwritten", func(f []byte) []byte { return append(bytes.Repeat([]byte("x"), 2*size), f[2*size:]...) }},
		{"every other page overwritten", func(f []byte) []byte { return append(f[:2*size:2*size], bytes.Repeat([]byte{0xAA}, len(f)-2*size)...) }},
		{"every other page zeroed", func(f []byte) []byte { return append(f[:2*size:2*size], make([]byte, len(f)-2*size)...) }},
		{"cut behind its heads", func(f []byte) []byte { return f[:2*size] }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			spoiled := tt.spoil(bytes.Clone(whole))
			must(t, os.WriteFile(path, spoiled, 0o600))
			for _, command := range []string{"journal check", "journal stats", "serve --listen 127.0.0.1:0"} {
				code, out, errOut := h.berth(strings.Fields(command)...)
				if code != exitJournal || out != "" || !strings.Contains(errOut, "damaged") || strings.Contains(errOut, "panic") || strings.Contains(errOut, "goroutine") {
					t.Errorf("%s: exit code %d, output %q, error %q", command, code, out, errOut)
				}
			}
			now, err := os.ReadFile(path)
			must(t, err)
			if !bytes.Equal(now, spoiled) {
				t.Error("the file was changed")
			}
		})
	}
	t.Run("the older head overwritten", func(t *testing.T) {
		spoiled := bytes.Clone(whole)
		transaction := func(page int) uint64 { return binary.NativeEndian.Uint64(whole[page*size+64:]) }
		older := 0
		if transaction(1) < transaction(0) {
			older = 1
		}
		copy(spoiled[older*size:], bytes.Repeat([]byte("x"), size))
		must(t, os.WriteFile(path, spoiled, 0o600))
		if code, out, errOut := h.berth("journal", "check"); code != exitJournal || !strings.Contains(out, "heads") {
			t.Errorf("exit code %d, output %q, error %q", code, out, errOut)
		}
	})
}
