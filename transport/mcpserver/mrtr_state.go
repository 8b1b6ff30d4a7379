package mcpserver

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"strings"
	"time"

	"berth/broker/shape"
	"berth/transport/jsonrpc"
)

// requestState is what a client brings back with its answers: which call is
// waiting here, in which round, until when, and whose. It is signed with the
// session key, so it says nothing that we did not say.
type requestState struct {
	talk    talkID
	round   uint32
	expires time.Time // to the second
	owner   [sha256.Size]byte
}

// talkID names a call that waits for answers of its harness.
type talkID [16]byte

const (
	// statePrefix tells our states from those of backends, which clients bring
	// back too. Whoever has it must have our signature.
	statePrefix = "berth1."
	stateFormat = "berth-request-state-1\x00" // signed with every state, so that no other use of the key fits
	stateBytes  = 16 + 4 + 8 + sha256.Size
)

// seal signs the state.
func (st *requestState) seal(key []byte) string {
	payload := make([]byte, 0, stateBytes)
	payload = append(payload, st.talk[:]...)
	payload = binary.BigEndian.AppendUint32(payload, st.round)
	payload = binary.BigEndian.AppendUint64(payload, uint64(st.expires.Unix()))
	payload = append(payload, st.owner[:]...)
	return statePrefix + base64.RawURLEncoding.EncodeToString(append(signState(key, payload), payload...))
}

// isOurState reports whether a state claims to be one of ours.
func isOurState(text string) bool { return strings.HasPrefix(text, statePrefix) }

// openState reads a state that was signed with key; false for any other.
func openState(text string, key []byte) (st requestState, ok bool) {
	encoded, ok := strings.CutPrefix(text, statePrefix)
	if !ok || len(encoded) != base64.RawURLEncoding.EncodedLen(sha256.Size+stateBytes) {
		return st, false
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	if err != nil {
		return st, false
	}
	payload := raw[sha256.Size:]
	if !hmac.Equal(raw[:sha256.Size], signState(key, payload)) {
		return st, false
	}
	copy(st.talk[:], payload)
	st.round = binary.BigEndian.Uint32(payload[16:])
	st.expires = time.Unix(int64(binary.BigEndian.Uint64(payload[20:])), 0).UTC()
	copy(st.owner[:], payload[28:])
	return st, true
}

func signState(key, payload []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(stateFormat))
	mac.Write(payload)
	return mac.Sum(nil)
}

// stateOwner is what a state is bound to: who asked, where, and for what. A
// client may spell its request anew, so the params count in one canonical
// spelling, without the answers and without `_meta`.
func stateOwner(principal, profile, method string, params *jsonrpc.Object) (owner [sha256.Size]byte) {
	h := sha256.New()
	field := func(text []byte) {
		h.Write(binary.AppendUvarint(nil, uint64(len(text))))
		h.Write(text)
	}
	field([]byte(principal))
	field([]byte(profile))
	field([]byte(method))
	bare := []byte{'{'}
	for _, m := range params.Members() {
		switch m.Name {
		case "_meta", "inputResponses", "requestState":
			continue
		}
		if len(bare) > 1 {
			bare = append(bare, ',')
		}
		bare = append(append(append(bare, jsonrpc.Quote(m.Name)...), ':'), m.Value...)
	}
	bare = append(bare, '}')
	canonical, err := shape.Canonical(json.RawMessage(bare))
	if err != nil {
		canonical = bare // deeper than the canoniser goes: the same bytes are the same request
	}
	field(canonical)
	h.Sum(owner[:0])
	return owner
}
