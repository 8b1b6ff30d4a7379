package mcpserver

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"berth/actors"
	"berth/broker"
	"berth/transport/jsonrpc"
)

// The header names are canonical, so that map access can be used on them.
const (
	headerSession = "Mcp-Session-Id"
	headerVersion = "Mcp-Protocol-Version"
)

const (
	sessionFormat = "berth-session-1\x00" // signed with every token, so that no other use of the key fits
	nonceBytes    = 12

	// A session id travels in a header of every request, so what it holds is
	// cut to size. Capabilities over the limit are kept as unknown.
	maxClientText   = 128
	maxCapabilities = 2048
	maxToken        = 6144
)

// session is what a session id says. Nothing else is known of a session here:
// the id itself is the memory, which is why a restart forgets nothing.
type session struct {
	nonce     []byte
	principal string // digest
	profile   string
	version   string
	client    string
	clientVer string
	caps      json.RawMessage
	started   time.Time

	key string // names the session everywhere else
}

// newSession draws a nonce; the other fields are the caller's.
func newSession(random io.Reader) (*session, error) {
	s := &session{nonce: make([]byte, nonceBytes)}
	if _, err := io.ReadFull(random, s.nonce); err != nil {
		return nil, fmt.Errorf("random bytes for a session id: %w", err)
	}
	return s, nil
}

// token signs the session and sets its key.
func (s *session) token(key []byte) string {
	s.client, s.clientVer = cut(s.client), cut(s.clientVer)
	if len(s.caps) > maxCapabilities {
		s.caps = nil
	}
	payload := make([]byte, 0, 256+len(s.caps))
	payload = binary.AppendUvarint(payload, uint64(s.started.UnixMilli()))
	for _, field := range [][]byte{s.nonce, []byte(s.principal), []byte(s.profile), []byte(s.version),
		[]byte(s.client), []byte(s.clientVer), s.caps} {
		payload = binary.AppendUvarint(payload, uint64(len(field)))
		payload = append(payload, field...)
	}
	token := base64.RawURLEncoding.EncodeToString(append(sign(key, payload), payload...))
	s.key = sessionKey(token)
	return token
}

// openSession reads a token that was signed with key; a forged one, or one of
// another key or format, is not a session.
func openSession(token string, key []byte) (*session, bool) {
	if len(token) > maxToken {
		return nil, false
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(raw) < sha256.Size {
		return nil, false
	}
	payload := raw[sha256.Size:]
	if !hmac.Equal(raw[:sha256.Size], sign(key, payload)) {
		return nil, false
	}
	started, n := binary.Uvarint(payload)
	if n <= 0 {
		return nil, false
	}
	payload = payload[n:]
	var fields [7][]byte
	for i := range fields {
		size, n := binary.Uvarint(payload)
		if n <= 0 || size > uint64(len(payload)-n) {
			return nil, false
		}
		fields[i], payload = payload[n:n+int(size)], payload[n+int(size):]
	}
	s := &session{nonce: fields[0], principal: string(fields[1]), profile: string(fields[2]), version: string(fields[3]),
		client: string(fields[4]), clientVer: string(fields[5]), started: time.UnixMilli(int64(started)).UTC(), key: sessionKey(token)}
	if len(fields[6]) > 0 {
		s.caps = bytes.Clone(fields[6])
	}
	return s, len(payload) == 0
}

func sign(key, payload []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(sessionFormat))
	mac.Write(payload)
	return mac.Sum(nil)
}

// sessionKey is a digest, because a token is a credential of a kind and the
// key stands in lists and logs.
func sessionKey(token string) string {
	sum := sha256.Sum256([]byte(token))
	return "ses_" + hex.EncodeToString(sum[:8])
}

// info is the session as the broker gets to know it.
func (s *session) info(p broker.Principal) actors.SessionInfo {
	return actors.SessionInfo{Key: s.key, Principal: p, Profile: s.profile, ProtocolVersion: s.version,
		ClientName: s.client, ClientVersion: s.clientVer, Capabilities: s.caps, Started: s.started}
}

// asClient is the session as a backend's transport gets to know it.
func (s *session) asClient() broker.Client {
	info := fmt.Appendf(nil, `{"name":%s,"version":%s}`, jsonrpc.Quote(s.client), jsonrpc.Quote(s.clientVer))
	return broker.Client{Version: s.version, Info: info, Capabilities: s.caps}
}

// cut shortens text to what a session id may hold, at a character.
func cut(text string) string {
	if len(text) > maxClientText {
		text = text[:maxClientText]
	}
	return strings.ToValidUTF8(text, "")
}
