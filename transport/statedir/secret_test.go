//go:build unix

package statedir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
)

func token(t *testing.T, d *Dir) string {
	t.Helper()
	token, err := d.readToken()
	must(t, err)
	return token
}

func TestTokenIsMintedOnceAndKept(t *testing.T) {
	d := opened(t)
	c, err := d.Credential()
	must(t, err)
	first := token(t, d)
	if len(first) != 64 || strings.Trim(first, alphabet) != "" {
		t.Errorf("a token of %d characters", len(first))
	}
	if got := mode(t, d.Path("api-token")); got != 0o600 {
		t.Errorf("mode %o", got)
	}
	if !c.Verify(first) {
		t.Error("the token does not pass")
	}
	if again, err := d.Credential(); err != nil || again != c {
		t.Errorf("another credential: %v", err)
	}
	// A restart.
	d2, err := Open(d.Root())
	must(t, err)
	c2, err := d2.Credential()
	must(t, err)
	if !c2.Verify(first) {
		t.Error("the token did not survive")
	}
	// Another directory has another one.
	other := opened(t)
	if _, err := other.Credential(); err != nil {
		t.Fatal(err)
	}
	if token(t, other) == first || c.Verify(token(t, other)) {
		t.Error("two directories share a token")
	}
}

func TestVerifyLetsNothingElseIn(t *testing.T) {
	c := newCredential(strings.Repeat("a", 64))
	for _, bad := range []string{"", "a", strings.Repeat("a", 63), strings.Repeat("a", 65), strings.Repeat("a", 63) + "b", hidden} {
		if c.Verify(bad) {
			t.Errorf("%q passed", bad)
		}
	}
	if new(Credential).Verify("") || newCredential("").Verify("") {
		t.Error("nothing passed for a token")
	}
}

func TestRotationTakesEffectAtOnce(t *testing.T) {
	d := opened(t)
	c, err := d.Credential()
	must(t, err)
	old := token(t, d)
	must(t, d.RotateToken())
	fresh := token(t, d)
	if c.Verify(old) || !c.Verify(fresh) || old == fresh {
		t.Errorf("old passes: %v, new passes: %v", c.Verify(old), c.Verify(fresh))
	}
	if got := mode(t, d.Path("api-token")); got != 0o600 {
		t.Errorf("mode %o", got)
	}
	noPartials(t, d)
	// Before it was asked for, and from a token that cannot be used.
	d = opened(t)
	must(t, os.WriteFile(d.Path("api-token"), []byte("short"), 0o644))
	must(t, d.RotateToken())
	c, err = d.Credential()
	must(t, err)
	if !c.Verify(token(t, d)) {
		t.Error("the new token does not pass")
	}
}

func TestRotationThatCannotBeWrittenChangesNothing(t *testing.T) {
	d := opened(t)
	c, err := d.Credential()
	must(t, err)
	old := token(t, d)
	moved := d.Root() + "-moved"
	must(t, os.Rename(d.Root(), moved))
	if err := d.RotateToken(); err == nil {
		t.Error("it rotated")
	}
	must(t, os.Rename(moved, d.Root()))
	if !c.Verify(old) || token(t, d) != old {
		t.Error("the old token was lost")
	}
}

func TestReadersOfARotatedTokenSeeOldOrNew(t *testing.T) {
	d := opened(t)
	c, err := d.Credential()
	must(t, err)
	done := make(chan struct{})
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if _, err := d.readToken(); err != nil {
					t.Error(err)
					return
				}
				c.Verify("x")
			}
		})
	}
	for range 30 {
		must(t, d.RotateToken())
	}
	close(done)
	group.Wait()
	if !c.Verify(token(t, d)) {
		t.Error("file and memory differ")
	}
}

func TestSecretsThatOthersCanReadAreRefused(t *testing.T) {
	for _, bits := range []os.FileMode{0o640, 0o604, 0o660, 0o601} {
		d := opened(t)
		_, err := d.Credential()
		must(t, err)
		_, err = d.SessionKey()
		must(t, err)
		secret := token(t, d)
		must(t, os.Chmod(d.Path("api-token"), bits))
		must(t, os.Chmod(d.Path("session.key"), bits))
		d, err = Open(d.Root())
		must(t, err)
		_, err = d.Credential()
		if !errors.Is(err, ErrUnsafe) || !strings.Contains(err.Error(), "run chmod 0600 on it") || strings.Contains(err.Error(), secret) {
			t.Errorf("mode %o: token: %v", bits, err)
		}
		if _, err = d.SessionKey(); !errors.Is(err, ErrUnsafe) {
			t.Errorf("mode %o: session key: %v", bits, err)
		}
	}
}

func TestDamagedSecretsAreRefusedAndKept(t *testing.T) {
	good := strings.Repeat("a", 64)
	for _, bad := range []string{"", good[1:], good + "a", good[1:] + "-", "\n" + good, good[:32] + "\n" + good[:32], strings.Repeat("a", maxFile+1)} {
		d := opened(t)
		must(t, os.WriteFile(d.Path("api-token"), []byte(bad), 0o600))
		must(t, os.WriteFile(d.Path("session.key"), []byte(bad), 0o600))
		_, err := d.Credential()
		if !errors.Is(err, ErrDamaged) || bad != "" && strings.Contains(err.Error(), bad) {
			t.Errorf("%q: %v", bad, err)
		}
		if _, err := d.SessionKey(); !errors.Is(err, ErrDamaged) {
			t.Errorf("%q: session key: %v", bad, err)
		}
		if data, err := os.ReadFile(d.Path("api-token")); err != nil || string(data) != bad {
			t.Errorf("%q was replaced (%v)", bad, err)
		}
	}
	d := opened(t)
	must(t, os.WriteFile(d.Path("api-token"), []byte(good+"\r\n"), 0o600))
	if c, err := d.Credential(); err != nil || !c.Verify(good) {
		t.Errorf("a line end: %v", err)
	}
}

func TestSecretsAreReadFromRegularFilesOnly(t *testing.T) {
	d := opened(t)
	target := d.Path("elsewhere")
	must(t, os.WriteFile(target, []byte(strings.Repeat("a", 64)), 0o600))
	must(t, os.Symlink(target, d.Path("api-token")))
	if _, err := d.Credential(); !errors.Is(err, ErrUnsafe) {
		t.Errorf("a link: %v", err)
	}
	must(t, os.Remove(d.Path("api-token")))
	must(t, syscall.Mkfifo(d.Path("api-token"), 0o600)) // without a writer: must not hang
	if _, err := d.Credential(); !errors.Is(err, ErrUnsafe) {
		t.Errorf("a FIFO: %v", err)
	}
}

func TestSessionKeyIsKept(t *testing.T) {
	d := opened(t)
	key, err := d.SessionKey()
	must(t, err)
	if len(key) != 32 || bytes.Equal(key, make([]byte, 32)) {
		t.Errorf("a key of %d bytes", len(key))
	}
	if got := mode(t, d.Path("session.key")); got != 0o600 {
		t.Errorf("mode %o", got)
	}
	d, err = Open(d.Root())
	must(t, err)
	if again, err := d.SessionKey(); err != nil || !bytes.Equal(again, key) {
		t.Errorf("another key (%v)", err)
	}
}

func TestCredentialNeverPrintsItself(t *testing.T) {
	d := opened(t)
	c, err := d.Credential()
	must(t, err)
	secret := token(t, d)
	hash := fmt.Sprintf("%x", c.now.Load().hash)
	type holder struct {
		C    *Credential
		Dir  *Dir
		priv *Credential
	}
	var logs bytes.Buffer
	for _, handler := range []slog.Handler{slog.NewTextHandler(&logs, nil), slog.NewJSONHandler(&logs, nil)} {
		slog.New(handler).Info("x", "credential", c, "dir", d, "holder", holder{c, d, c}, slog.Group("g", "c", c))
	}
	printed := []string{logs.String()}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t"} {
		printed = append(printed, fmt.Sprintf(verb, c), fmt.Sprintf(verb, []any{c, holder{c, d, c}, &holder{c, d, c}, d, *d.clone()}))
		if got := fmt.Sprintf(verb, c); got != hidden {
			t.Errorf("%s prints %q", verb, got)
		}
	}
	encoded, err := json.Marshal(map[string]any{"c": c, "h": holder{C: c, Dir: d}})
	must(t, err)
	printed = append(printed, string(encoded), c.String(), c.GoString(), c.LogValue().String())
	for _, text := range printed {
		if strings.Contains(text, secret) || strings.Contains(strings.ToLower(text), hash[:16]) {
			t.Errorf("shown: %s", text)
		}
	}
	if !strings.Contains(string(encoded), `"c":"[redacted]"`) || !strings.Contains(logs.String(), "credential=[redacted]") {
		t.Errorf("encoded %s, logged %s", encoded, logs.String())
	}
}

// clone is d by value, as somebody might print it, without its mutex.
func (d *Dir) clone() *struct {
	path       string
	credential *Credential
} {
	return &struct {
		path       string
		credential *Credential
	}{d.path, d.credential}
}

func FuzzParseToken(f *testing.F) {
	f.Add([]byte(strings.Repeat("a", 64) + "\n"))
	f.Add([]byte("x"))
	f.Fuzz(func(t *testing.T, data []byte) {
		token, err := parseToken(data)
		if err == nil && (len(token) != tokenLength || strings.Trim(token, alphabet) != "") {
			t.Fatalf("%q", token)
		}
	})
}

func noPartials(t *testing.T, d *Dir) {
	t.Helper()
	must(t, fs.WalkDir(os.DirFS(d.Root()), ".", func(path string, _ fs.DirEntry, err error) error {
		if strings.HasPrefix(path, ".") && path != "." {
			t.Errorf("%s was left", path)
		}
		return err
	}))
}
