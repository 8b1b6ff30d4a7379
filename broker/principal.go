package broker

import (
	"crypto/sha256"
	"encoding/hex"
)

// Role is what a principal may do in general (contracts/native.md section 1.4).
type Role string

// The roles. The local token of a state directory is a global administrator.
const (
	GlobalAdministrator Role = "global-admin"
	TenantAdministrator Role = "tenant-admin"
	User                Role = "user"
)

// Principal is the authenticated caller. It comes from a credential and never
// from an argument.
type Principal struct {
	Tenant string `json:"tenant"`
	User   string `json:"user"`
	Role   Role   `json:"role"`
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
	sum := sha256.Sum256(append(text, p.Role...))
	return hex.EncodeToString(sum[:8])
}
