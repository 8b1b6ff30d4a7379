//go:build unix

package guard

import (
	"crypto/rand"
	"encoding/hex"

	"berth/transport/guard/procid"
)

// MarkVariable is the environment variable that tells a child, and all that it
// starts, apart from every other process: an id of this one start, 32 hexadecimal
// digits. It opens nothing and means nothing to a child.
const MarkVariable = "BERTH_CHILD"

// newMark makes an id that nobody can guess: who carries it got it from the
// child, by inheritance.
func newMark() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails; it ends the program instead
	return hex.EncodeToString(b[:])
}

func markEntry(mark string) string { return MarkVariable + "=" + mark }

// ours reports whether process pid shows by what it has that it descends from
// the child of the record.
func (rec Record) ours(pid int) bool {
	return rec.Mark != "" && procid.Carries(pid, markEntry(rec.Mark)) || procid.Holds(pid, rec.Pipes)
}
