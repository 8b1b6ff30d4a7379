//go:build unix

package statedir

import (
	"errors"
	"os"
	"strings"
	"testing"
)

func TestTheAPIKeyIsAnOperatorsFile(t *testing.T) {
	good := strings.Repeat("k", 32)
	for name, tc := range map[string]struct {
		content string
		mode    os.FileMode
		want    error
	}{
		"a key":         {good + "\n", 0o600, nil},
		"others read":   {good, 0o644, ErrUnsafe},
		"too short":     {good[1:], 0o600, ErrDamaged},
		"too long":      {strings.Repeat("k", 513), 0o600, ErrDamaged},
		"two lines":     {good + "\n" + good, 0o600, ErrDamaged},
		"white space":   {good + " k", 0o600, ErrDamaged},
		"no ASCII":      {good + "é", 0o600, ErrDamaged},
		"nothing in it": {"", 0o600, ErrDamaged},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := Open(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			none, err := d.APIKey()
			if err != nil || none.Verify("") || none.Verify(good) {
				t.Errorf("without a file: %v", err)
			}
			if err := os.WriteFile(d.Path(apiKeyFile), []byte(tc.content), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(d.Path(apiKeyFile), tc.mode); err != nil {
				t.Fatal(err)
			}
			key, err := d.APIKey()
			if !errors.Is(err, tc.want) || (err != nil && strings.Contains(err.Error(), good[:10])) {
				t.Fatalf("%v, want %v", err, tc.want)
			}
			if tc.want == nil && (!key.Verify(good) || key.Verify(good+"x")) {
				t.Error("it does not tell keys apart")
			}
		})
	}
}

func TestALifeEndsWithItsToken(t *testing.T) {
	c := newCredential("first")
	name, life := c.Generation()
	if name == "" || life.Err() != nil {
		t.Fatal(name, life.Err())
	}
	c.swap("second")
	if next, _ := c.Generation(); life.Err() == nil || next == name {
		t.Error("the first goes on")
	}
	if name, life := new(Credential).Generation(); name != "" || life != nil {
		t.Error("nobody has a life")
	}
}
