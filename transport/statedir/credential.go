//go:build unix

package statedir

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
)

// hidden is all that a Credential ever prints.
const hidden = "[redacted]"

// Credential checks tokens. It keeps a hash only, and prints as "[redacted]"
// whatever is asked of it.
type Credential struct {
	hash atomic.Pointer[[sha256.Size]byte]
}

func newCredential(token string) *Credential {
	c := new(Credential)
	c.swap(token)
	return c
}

// swap makes token the only one that passes.
func (c *Credential) swap(token string) {
	hash := sha256.Sum256([]byte(token))
	c.hash.Store(&hash)
}

// Verify reports whether token is the one. How long it takes says nothing about
// how much of it is right. The zero Credential lets nobody in.
func (c *Credential) Verify(token string) bool {
	want := c.hash.Load()
	if want == nil || token == "" {
		return false
	}
	got := sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1
}

func (*Credential) String() string               { return hidden }
func (*Credential) GoString() string             { return hidden }
func (*Credential) Format(s fmt.State, _ rune)   { _, _ = io.WriteString(s, hidden) }
func (*Credential) LogValue() slog.Value         { return slog.StringValue(hidden) }
func (*Credential) MarshalText() ([]byte, error) { return []byte(hidden), nil }
func (*Credential) MarshalJSON() ([]byte, error) { return []byte(`"` + hidden + `"`), nil }
