//go:build unix

package statedir

import (
	"errors"
	"fmt"
	"io/fs"
)

// Discover gives a client the address and the token of the broker that runs on
// the directory at path (empty: [DefaultPath]). It changes nothing. Errors are
// whole sentences and can be told apart: ErrNotRunning (and ErrStale), ErrUnsafe,
// ErrDamaged.
func Discover(path string) (addr, token string, err error) {
	path, err = resolve(path)
	if err != nil {
		return "", "", err
	}
	d, err := open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", "", notRunning(path)
	}
	if err != nil {
		return "", "", err
	}
	if addr, err = d.ReadPort(); err != nil {
		return "", "", err
	}
	token, err = d.readToken()
	if errors.Is(err, fs.ErrNotExist) {
		return "", "", problemf(ErrDamaged, "a broker runs on %s, but its token %s is missing: run `berth token rotate` or start it again",
			path, d.Path(tokenFile))
	}
	if err != nil {
		return "", "", fmt.Errorf("the broker on %s cannot be used: %w", path, err)
	}
	return addr, token, nil
}
