//go:build unix

package statedir

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
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
	now atomic.Pointer[generation]
}

// generation is one token from when it was made until it is replaced.
type generation struct {
	hash [sha256.Size]byte
	name string
	life context.Context
	end  context.CancelFunc
}

func newCredential(token string) *Credential {
	c := new(Credential)
	c.swap(token)
	return c
}

// swap makes token the only one that passes.
func (c *Credential) swap(token string) {
	g := &generation{hash: sha256.Sum256([]byte(token))}
	name := sha256.Sum256(g.hash[:])
	g.name = hex.EncodeToString(name[:8])
	g.life, g.end = context.WithCancel(context.Background())
	if old := c.now.Swap(g); old != nil {
		old.end()
	}
}

// Generation names the present token without giving anything away of it, and
// gives its life, which ends when it is replaced. Both are empty in the zero
// Credential.
func (c *Credential) Generation() (name string, life context.Context) {
	if g := c.now.Load(); g != nil {
		return g.name, g.life
	}
	return "", nil
}

// Verify reports whether token is the one. How long it takes says nothing about
// how much of it is right. The zero Credential lets nobody in.
func (c *Credential) Verify(token string) bool {
	want := c.now.Load()
	if want == nil || token == "" {
		return false
	}
	got := sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(got[:], want.hash[:]) == 1
}

func (*Credential) String() string               { return hidden }
func (*Credential) GoString() string             { return hidden }
func (*Credential) Format(s fmt.State, _ rune)   { _, _ = io.WriteString(s, hidden) }
func (*Credential) LogValue() slog.Value         { return slog.StringValue(hidden) }
func (*Credential) MarshalText() ([]byte, error) { return []byte(hidden), nil }
func (*Credential) MarshalJSON() ([]byte, error) { return []byte(`"` + hidden + `"`), nil }
