package broker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
)

// Role is what a principal may do in general (contracts/native.md section 1.4).
type Role string

// The roles. The local token of a state directory is a global administrator.
const (
	GlobalAdministrator Role = "global-admin"
	TenantAdministrator Role = "tenant-admin"
	User                Role = "user"
)

// Roles lists every role, the widest first.
var Roles = []Role{GlobalAdministrator, TenantAdministrator, User}

// Principal is the authenticated caller. It comes from a credential and never
// from an argument.
type Principal struct {
	Tenant string `json:"tenant"`
	User   string `json:"user"`
	Role   Role   `json:"role"`
	// Mission is whose work the caller does: a launch token names one, no other
	// credential does.
	Mission string `json:"mission,omitempty"`
}

// LocalOperator is who the state directory's own token stands for.
var LocalOperator = Principal{Tenant: "default", User: "operator", Role: GlobalAdministrator}

// Key names the principal in queues, logs and scoped keys: tenant/user.
func (p Principal) Key() string { return p.Tenant + "/" + p.User }

// Owns reports whether a record of tenant and user belongs to p.
func (p Principal) Owns(tenant, user string) bool { return p.Tenant == tenant && p.User == user }

// Digest is 16 hexadecimal characters that a session id binds itself to.
func (p Principal) Digest() string {
	text := make([]byte, 0, 96) // on the stack: this is asked for each request of a session
	text = append(append(text, p.Tenant...), 0)
	text = append(append(text, p.User...), 0)
	text = append(text, p.Role...)
	if p.Mission != "" {
		text = append(append(text, 0), p.Mission...)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// AnyBackend is the name under which a credential's shares say what holds at
// each backend that they do not name.
const AnyBackend = "*"

// Share is what a credential may take of one backend. A zero field is no limit.
type Share struct {
	// Weight is its part while callers wait, against others who have 1.
	Weight int `json:"weight,omitempty"`
	// InFlight is how many of its calls may wait and run there at once.
	InFlight int `json:"inFlight,omitempty"`
	// PerSecond is how many calls a second it may begin there, on average; Burst
	// how many at once.
	PerSecond float64 `json:"perSecond,omitempty"`
	Burst     int     `json:"burst,omitempty"`
}

// Caller is an authenticated principal with all that its credential narrows.
// It is made for each request and never changed.
type Caller struct {
	Principal
	// Credential is the id of what authenticated it; empty where that has none:
	// the state directory's own token and the broker's API key.
	Credential string
	// Profiles are those that the credential accepts, of which the first serves
	// where none is named; nil: any.
	Profiles []string
	ReadOnly bool
	// Shares limits what it takes of backends, by their names; see [AnyBackend].
	Shares map[string]Share
	// Life is done when the credential is no longer good: what it began must not
	// go on being answered. Nil: it does not end.
	Life context.Context
}

// Accepts reports whether the credential may use a profile.
func (c Caller) Accepts(profile string) bool {
	return len(c.Profiles) == 0 || slices.Contains(c.Profiles, profile)
}

// Serving is the profile of a place that names one, or none: then the first of
// the credential serves. ok is false for one that the credential does not accept.
func (c Caller) Serving(profile string) (name string, ok bool) {
	if profile == "" && len(c.Profiles) > 0 {
		profile = c.Profiles[0]
	}
	return profile, c.Accepts(profile)
}

// ShareOf is what the caller may take of a backend, and in whose name it is
// counted; nil: it is not limited.
func (c Caller) ShareOf(backend string) *CallShare {
	share, ok := c.Shares[backend]
	if !ok {
		share, ok = c.Shares[AnyBackend]
	}
	if !ok {
		return nil
	}
	return &CallShare{Holder: c.Credential, Share: share}
}

// CallShare is the share under which a call is made.
type CallShare struct {
	Holder string // id of the credential: what its calls are counted under
	Share
}
