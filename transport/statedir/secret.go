//go:build unix

package statedir

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

const (
	tokenLength   = 64
	sessionLength = 32
	alphabet      = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
)

// mintToken makes 64 letters and digits, each equally likely.
func mintToken() (string, error) {
	const fair = 256 / len(alphabet) * len(alphabet) // above it some letters would come more often
	token := make([]byte, 0, tokenLength)
	buf := make([]byte, tokenLength)
	for len(token) < tokenLength {
		if _, err := rand.Read(buf); err != nil {
			return "", fmt.Errorf("mint a token: %w", err)
		}
		for _, b := range buf {
			if int(b) < fair && len(token) < tokenLength {
				token = append(token, alphabet[int(b)%len(alphabet)])
			}
		}
	}
	return string(token), nil
}

// parseToken reads the content of a token file. A line end is allowed, since
// people edit files.
func parseToken(data []byte) (string, error) {
	data = bytes.TrimRight(data, "\r\n")
	if len(data) != tokenLength {
		return "", ErrDamaged
	}
	for _, b := range data {
		if bytes.IndexByte([]byte(alphabet), b) < 0 {
			return "", ErrDamaged
		}
	}
	return string(data), nil
}

// readToken reads the token. The error wraps fs.ErrNotExist when there is none.
func (d *Dir) readToken() (string, error) {
	data, err := d.read(tokenFile)
	if err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	token, err := parseToken(data)
	if err != nil {
		return "", problemf(ErrDamaged, "token: %s does not hold %d letters and digits: delete it, and the next start of the broker makes a new one",
			d.Path(tokenFile), tokenLength)
	}
	return token, nil
}

// Credential gives what the token is checked against; it is always the same one.
// A missing token is minted, so the caller holds the lock.
func (d *Dir) Credential() (*Credential, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.credential != nil {
		return d.credential, nil
	}
	token, err := d.readToken()
	if errors.Is(err, fs.ErrNotExist) {
		token, err = d.newToken()
	}
	if err != nil {
		return nil, err
	}
	d.credential = newCredential(token)
	return d.credential, nil
}

// RotateToken replaces the token: the file, and in the same moment what this
// process checks against. Whether the old one could be read does not matter. The
// caller holds the lock: when a broker runs, it is that broker which rotates.
func (d *Dir) RotateToken() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	token, err := d.newToken()
	if err != nil {
		return err
	}
	if d.credential != nil {
		d.credential.swap(token)
	}
	return nil
}

// The length of an API key, in bytes: an operator chooses it.
const (
	minAPIKey = 32
	maxAPIKey = 512
)

// APIKey gives what the broker's API key is checked against: the content of the
// file api-key, without a line end. Nothing makes that file but an operator;
// without it the Credential lets nobody in.
func (d *Dir) APIKey() (*Credential, error) {
	data, err := d.read(apiKeyFile)
	if errors.Is(err, fs.ErrNotExist) {
		return new(Credential), nil
	}
	if err != nil {
		return nil, fmt.Errorf("API key: %w", err)
	}
	key := bytes.TrimRight(data, "\r\n")
	if len(key) < minAPIKey || len(key) > maxAPIKey || bytes.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, problemf(ErrDamaged, "API key: %s does not hold %d to %d visible ASCII characters on one line", d.Path(apiKeyFile), minAPIKey, maxAPIKey)
	}
	return newCredential(string(key)), nil
}

// newToken mints a token and writes it.
func (d *Dir) newToken() (string, error) {
	token, err := mintToken()
	if err != nil {
		return "", err
	}
	if err := d.replace(tokenFile, []byte(token+"\n")); err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	return token, nil
}

// HasSessionKey says whether there is a key to give, for who must not make one.
func (d *Dir) HasSessionKey() bool {
	_, err := os.Stat(d.Path(sessionFile))
	return err == nil
}

// SessionKey gives the 32 bytes that sign session ids. A missing key is minted,
// so the caller holds the lock.
func (d *Dir) SessionKey() ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	key, err := d.read(sessionFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		key = make([]byte, sessionLength)
		if _, err := rand.Read(key); err != nil {
			return nil, fmt.Errorf("session key: %w", err)
		}
		if err := d.replace(sessionFile, key); err != nil {
			return nil, fmt.Errorf("session key: %w", err)
		}
	case err != nil:
		return nil, fmt.Errorf("session key: %w", err)
	case len(key) != sessionLength:
		return nil, problemf(ErrDamaged, "session key: %s does not hold %d bytes: delete it, and clients shake hands anew",
			d.Path(sessionFile), sessionLength)
	}
	return key, nil
}
