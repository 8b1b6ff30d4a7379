//go:build unix

package app

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"
)

// What is no file could be waited on for ever.
func TestWhatIsNoFileIsNotRead(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, "/dev/zero", t.TempDir()} {
		if _, err := readRegular(path, 64); !errors.Is(err, errNotRegular) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// A call that ends late drops what it began with, and not what has taken its
// place.
func TestALateCallDropsItsOwnAttachment(t *testing.T) {
	b := New(&notes, Options{})
	wire := func() *wire { return newWire(named{port: 7}, "abcdefgh", "/up", b.opts.Limits, 1, b.opts.Dial) }
	before, now := &attachment{wire: wire()}, &attachment{wire: wire(), runtimeID: "now"}
	b.att = now
	b.drop(before)
	if b.att != now || !before.wire.dropped.Load() || now.wire.dropped.Load() {
		t.Errorf("%+v is attached", b.att)
	}
	b.drop(now)
	if b.att != nil {
		t.Errorf("%+v is attached", b.att)
	}
}
