package install

import (
	"net/url"
	"path/filepath"
	"strings"

	"berth/broker/shape"
)

// ForeignError refuses to replace an entry named berth that Berth did not make.
// Nothing was written.
type ForeignError struct {
	File string
	// Has and Wanted are how the entry connects, and how it would: a command line
	// or an address, without what looks like a credential.
	Has, Wanted string
}

func (e *ForeignError) Error() string {
	return e.File + " has an entry " + entryName + " that Berth did not make; nothing was written"
}

// foreign gives the refusal of what a file holds in the place of ours; nil: there
// is nothing, or it is a registration of Berth.
func (r Registration) foreign(file string, old, text []byte) *ForeignError {
	has, err := r.find(old)
	if err != nil || has == nil || has.blank() {
		return nil // what cannot be read was refused by edit
	}
	wanted, err := r.find(text)
	if err != nil || wanted == nil || has.ours(wanted) {
		return nil
	}
	return &ForeignError{File: file, Has: has.shown(), Wanted: wanted.shown()}
}

func (e *Entry) blank() bool { return len(e.Command) == 0 && e.URL == "" }

// ours reports whether Berth made the entry: it starts `berth stdio`, or the
// program that is wanted now, or connects to the broker that is wanted now.
func (e *Entry) ours(wanted *Entry) bool {
	if len(e.Command) > 0 {
		program := strings.TrimSuffix(filepath.Base(e.Command[0]), ".exe")
		bridge := len(e.Command) > 1 && e.Command[1] == "stdio"
		return bridge && (program == "berth" || len(wanted.Command) > 0 && e.Command[0] == wanted.Command[0])
	}
	has, err := url.Parse(e.URL)
	want, wantErr := url.Parse(wanted.URL)
	return err == nil && wantErr == nil && wanted.URL != "" && has.Scheme == want.Scheme && has.Host == want.Host
}

func (e *Entry) shown() string {
	if len(e.Command) > 0 {
		return "command: " + shape.Redact(shellLine(e.Command))
	}
	u, err := url.Parse(e.URL)
	if err != nil {
		return "url: (not a URL)"
	}
	return "url: " + shape.Redact(u.Redacted())
}
