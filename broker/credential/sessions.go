package credential

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"sync"
	"time"
)

// SessionLife is how long a session token is good (contracts/native.md section 1.2).
const SessionLife = 24 * time.Hour

// What is signed begins with its purpose, so that no other use of the key fits.
const (
	signsSession = "berth-login-1\x00"
	signsCSRF    = "berth-csrf-1\x00"
)

const (
	nonceBytes = 12
	maxSubject = 128
	maxSession = 512 // bytes of a token
	maxEnded   = 4096
)

// Sessions makes and reads session tokens. A token names its subject, a
// credential, and holds nothing that could be used without the key.
type Sessions struct {
	key    []byte
	random io.Reader

	mu    sync.Mutex
	ended map[string]time.Time // those that were logged out, until when they would be good
}

// NewSessions signs with key, which is 16 bytes or more.
func NewSessions(key []byte, random io.Reader) (*Sessions, error) {
	if len(key) < 16 || random == nil {
		return nil, fmt.Errorf("credential: sessions need a key of 16 bytes and randomness")
	}
	return &Sessions{key: key, random: random, ended: map[string]time.Time{}}, nil
}

// Issue makes a token for a subject.
func (s *Sessions) Issue(subject string, now time.Time) (token string, expires time.Time, err error) {
	if subject == "" || len(subject) > maxSubject {
		return "", time.Time{}, fmt.Errorf("issue a session: its subject has %d bytes", len(subject))
	}
	nonce := make([]byte, nonceBytes)
	if _, err := io.ReadFull(s.random, nonce); err != nil {
		return "", time.Time{}, fmt.Errorf("random bytes for a session: %w", err)
	}
	expires = now.Add(SessionLife).UTC().Truncate(time.Second)
	payload := binary.BigEndian.AppendUint64(nil, uint64(expires.Unix()))
	payload = append(append(payload, nonce...), subject...)
	return base64.RawURLEncoding.EncodeToString(append(s.sign(signsSession, payload), payload...)), expires, nil
}

// Open gives the subject of a token that is good at now. One that would be good
// for much longer than a session was issued by a clock that was ahead; it is not.
func (s *Sessions) Open(token string, now time.Time) (subject string, ok bool) {
	subject, expires, ok := s.read(token)
	if !ok || !now.Before(expires) || expires.Sub(now) > 2*SessionLife {
		return "", false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, over := s.ended[token]
	return subject, !over
}

func (s *Sessions) read(token string) (subject string, expires time.Time, ok bool) {
	if len(token) > maxSession {
		return "", expires, false
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(raw) <= sha256.Size+8+nonceBytes {
		return "", expires, false
	}
	payload := raw[sha256.Size:]
	if !hmac.Equal(raw[:sha256.Size], s.sign(signsSession, payload)) {
		return "", expires, false
	}
	return string(payload[8+nonceBytes:]), time.Unix(int64(binary.BigEndian.Uint64(payload)), 0), true
}

// End makes a token no good any more, as long as this process lives: its
// holder logged out. Of more than are remembered the one that ends first is
// forgotten.
func (s *Sessions) End(token string, now time.Time) {
	_, expires, ok := s.read(token)
	if !ok || !now.Before(expires) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ended) >= maxEnded {
		first := ""
		for t, until := range s.ended {
			if !now.Before(until) {
				delete(s.ended, t)
			} else if first == "" || until.Before(s.ended[first]) {
				first = t
			}
		}
		if len(s.ended) >= maxEnded {
			delete(s.ended, first)
		}
	}
	s.ended[token] = expires
}

// CSRF is what a page of a session sends back with each change. It says nothing
// about the token.
func (s *Sessions) CSRF(token string) string {
	return base64.RawURLEncoding.EncodeToString(s.sign(signsCSRF, []byte(token)))
}

func (s *Sessions) sign(purpose string, payload []byte) []byte {
	mac := hmac.New(sha256.New, s.key)
	mac.Write([]byte(purpose))
	mac.Write(payload)
	return mac.Sum(nil)
}
