package credential

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"berth/broker"
)

// Record is one credential as it is kept. It has no token, only a hash of one.
type Record struct {
	ID        string                  `json:"id"`
	Tenant    string                  `json:"tenant"`
	User      string                  `json:"user"`
	Role      broker.Role             `json:"role"`
	Label     string                  `json:"label,omitempty"`
	Profiles  []string                `json:"profiles,omitempty"`
	ReadOnly  bool                    `json:"readOnly,omitempty"`
	Shares    map[string]broker.Share `json:"shares,omitempty"`
	Hash      string                  `json:"hash"` // SHA-256 of the token, hexadecimal
	CreatedAt time.Time               `json:"createdAt"`
	CreatedBy string                  `json:"createdBy"` // key of a principal
	// LastUsed is the day of the last use that was noted, in UTC.
	LastUsed  *time.Time `json:"lastUsed,omitempty"`
	RevokedAt *time.Time `json:"revokedAt,omitempty"`
	RevokedBy string     `json:"revokedBy,omitempty"`
}

// Principal is who the credential stands for.
func (r Record) Principal() broker.Principal {
	return broker.Principal{Tenant: r.Tenant, User: r.User, Role: r.Role}
}

// Spec is what a new credential is to be.
type Spec struct {
	Tenant, User string
	Role         broker.Role
	Label        string
	Profiles     []string
	ReadOnly     bool
	Shares       map[string]broker.Share
}

// The bounds of a credential.
const (
	maxLabel    = 128 // characters
	maxProfiles = 32
	maxShares   = 256
	maxWeight   = 1000
	maxInFlight = 100_000
	maxRate     = 1_000_000
)

// ownerName is what a tenant or a user may be called. Both stand in keys that
// are joined with a slash.
var ownerName = regexp.MustCompile(`^[A-Za-z0-9._@+-]{1,64}$`)

// Known says what the names in a spec may be; a nil function knows every name.
type Known struct {
	Profile func(name string) bool
	Backend func(name string) bool
}

// settle checks a spec and fills in what follows from the rest.
func (s Spec) settle(known Known) (Spec, *broker.Refusal) {
	switch {
	case !ownerName.MatchString(s.Tenant):
		return s, unfit("Tenant", "1 to 64 of A-Z a-z 0-9 . _ @ + -")
	case !ownerName.MatchString(s.User):
		return s, unfit("User", "1 to 64 of A-Z a-z 0-9 . _ @ + -")
	case !slices.Contains(broker.Roles, s.Role):
		return s, unfit("Role", "one of global-admin, tenant-admin and user")
	case utf8.RuneCountInString(s.Label) > maxLabel || strings.ContainsFunc(s.Label, unicode.IsControl) || !utf8.ValidString(s.Label):
		return s, unfit("Label", fmt.Sprintf("one line of at most %d characters", maxLabel))
	case len(s.Profiles) > maxProfiles:
		return s, unfit("Profiles", fmt.Sprintf("at most %d names", maxProfiles))
	case len(s.Shares) > maxShares:
		return s, unfit("Shares", fmt.Sprintf("at most %d backends", maxShares))
	}
	for i, name := range s.Profiles {
		if slices.Contains(s.Profiles[:i], name) {
			return s, unfit("Profiles", "each name once")
		}
		if name == "" || (known.Profile != nil && !known.Profile(name)) {
			return s, broker.Refuse(broker.CodeProfileUnknown, "There is no profile of this name; no credential was made.", map[string]any{"Profile": name})
		}
	}
	s.Profiles = slices.Clone(s.Profiles)
	shares := map[string]broker.Share{}
	for _, backend := range slices.Sorted(maps.Keys(s.Shares)) {
		if backend == "" || (backend != broker.AnyBackend && known.Backend != nil && !known.Backend(backend)) {
			return s, unfit("Shares", "names of backends, or * for the others")
		}
		share, refusal := settleShare(backend, s.Shares[backend])
		if refusal != nil {
			return s, refusal
		}
		shares[backend] = share
	}
	if s.Shares = shares; len(shares) == 0 {
		s.Shares = nil
	}
	return s, nil
}

func settleShare(backend string, s broker.Share) (broker.Share, *broker.Refusal) {
	where := "Shares." + backend
	switch {
	case s.Weight < 0 || s.Weight > maxWeight:
		return s, unfit(where+".Weight", fmt.Sprintf("1 to %d", maxWeight))
	case s.InFlight < 0 || s.InFlight > maxInFlight:
		return s, unfit(where+".InFlight", fmt.Sprintf("1 to %d", maxInFlight))
	case math.IsNaN(s.PerSecond) || s.PerSecond < 0 || s.PerSecond > maxRate:
		return s, unfit(where+".PerSecond", fmt.Sprintf("a number of calls a second, more than 0 and at most %d", maxRate))
	case s.Burst < 0 || s.Burst > maxRate || (s.Burst > 0 && s.PerSecond == 0):
		return s, unfit(where+".Burst", "1 or more, beside PerSecond")
	case s == broker.Share{}:
		return s, unfit(where, "a weight, a limit of calls in flight or a rate")
	}
	if s.PerSecond > 0 && s.Burst == 0 {
		s.Burst = max(1, int(math.Ceil(s.PerSecond)))
	}
	return s, nil
}

// unfit refuses a member of a spec; its value is not repeated.
func unfit(path, wanted string) *broker.Refusal {
	return broker.Refuse(broker.CodeInvalidArguments, path+" must be "+wanted+"; no credential was made.",
		map[string]any{"Violations": []map[string]string{{"Path": path, "Problem": "wanted " + wanted}}})
}

// TokenLength is the length of a token, in characters.
const TokenLength = 64

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

// mint draws a token, each character equally likely.
func mint(random io.Reader) (string, error) {
	const fair = 256 / len(alphabet) * len(alphabet) // above it some would come more often
	token, buf := make([]byte, 0, TokenLength), make([]byte, TokenLength)
	for len(token) < TokenLength {
		if _, err := io.ReadFull(random, buf); err != nil {
			return "", fmt.Errorf("random bytes for a token: %w", err)
		}
		for _, b := range buf {
			if int(b) < fair && len(token) < TokenLength {
				token = append(token, alphabet[int(b)%len(alphabet)])
			}
		}
	}
	return string(token), nil
}

// looksLike reports whether a text could be a token, so that nothing else is
// hashed.
func looksLike(token string) bool {
	if len(token) != TokenLength {
		return false
	}
	for i := range len(token) {
		c := token[i]
		if (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}

type digest = [sha256.Size]byte

// digestOf reads the hash of a record.
func digestOf(r Record) (d digest, ok bool) {
	raw, err := hex.DecodeString(r.Hash)
	if err != nil || len(raw) != len(d) {
		return d, false
	}
	copy(d[:], raw)
	return d, true
}
