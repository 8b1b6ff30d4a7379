package rest

import (
	"net/http"
	"strings"
	"time"

	"berth/broker"
	"berth/broker/credential"
	"berth/transport/httpguard"
)

// Credential is one credential as an operator sees it. It has neither a token
// nor a hash of one.
type Credential struct {
	CredentialID string `json:"CredentialId"`
	Tenant       string
	User         string
	Role         broker.Role
	Label        *string
	Profiles     []string // empty: any
	ReadOnly     bool
	Shares       map[string]Share
	CreatedUTC   string `json:"CreatedUtc"`
	CreatedBy    string
	LastUsedUTC  *string `json:"LastUsedUtc"` // the day; null: never
	Revoked      bool
	RevokedUTC   *string `json:"RevokedUtc"`
	RevokedBy    *string
	Token        string `json:",omitempty"` // once, to who made it
}

// Share is what a credential may take of a backend. A zero field is no limit.
type Share struct {
	Weight    int
	InFlight  int
	PerSecond float64
	Burst     int
}

// CredentialRequest is the body of POST /api/v1/credentials.
type CredentialRequest struct {
	Tenant   string
	User     string
	Role     broker.Role
	Label    string           `json:",omitempty"`
	Profiles []string         `json:",omitempty"`
	ReadOnly bool             `json:",omitempty"`
	Shares   map[string]Share `json:",omitempty"`
}

func credentialView(r credential.Record) Credential {
	v := Credential{CredentialID: r.ID, Tenant: r.Tenant, User: r.User, Role: r.Role, Label: text(r.Label), Profiles: list(r.Profiles), ReadOnly: r.ReadOnly,
		Shares: map[string]Share{}, CreatedUTC: broker.FormatTime(r.CreatedAt), CreatedBy: r.CreatedBy, Revoked: r.RevokedAt != nil, RevokedBy: text(r.RevokedBy)}
	for backend, s := range r.Shares {
		v.Shares[backend] = Share(s)
	}
	for _, at := range []struct {
		time *time.Time
		to   **string
	}{{r.LastUsed, &v.LastUsedUTC}, {r.RevokedAt, &v.RevokedUTC}} {
		if at.time != nil {
			*at.to = timeText(*at.time)
		}
	}
	return v
}

func noCredentials() error {
	return broker.Refuse(broker.CodeNotFound, "This broker keeps no credentials.", nil)
}

func (a *api) credentials(*http.Request) (any, error) {
	if a.Credentials == nil {
		return nil, noCredentials()
	}
	records := a.Credentials.List()
	out := make([]Credential, 0, len(records))
	for _, r := range records {
		out = append(out, credentialView(r))
	}
	return page(out), nil
}

func (a *api) createCredential(r *http.Request) (any, error) {
	if a.Credentials == nil {
		return nil, noCredentials()
	}
	var body CredentialRequest
	if err := decodeKnown(r.Body, &body); err != nil {
		return nil, err
	}
	spec := credential.Spec{Tenant: body.Tenant, User: body.User, Role: body.Role, Label: body.Label, Profiles: body.Profiles, ReadOnly: body.ReadOnly,
		Shares: map[string]broker.Share{}}
	for backend, s := range body.Shares {
		spec.Shares[backend] = broker.Share(s)
	}
	caller, _ := httpguard.Principal(r.Context())
	record, token, err := a.Credentials.Create(r.Context(), caller, spec)
	if err != nil {
		return nil, err
	}
	view := credentialView(record)
	view.Token = token
	return view, nil
}

func (a *api) revokeCredential(r *http.Request) (any, error) {
	if a.Credentials == nil {
		return nil, noCredentials()
	}
	var body struct{ Reason string }
	if err := decode(r.Body, &body); err != nil {
		return nil, err
	}
	caller, _ := httpguard.Principal(r.Context())
	record, err := a.Credentials.Revoke(r.Context(), caller, r.PathValue("id"), body.Reason)
	if err != nil {
		return nil, err
	}
	return credentialView(record), nil
}

// Authenticated is the answer of POST /api/v1/authenticate.
type Authenticated struct {
	Token      string
	ExpiresUTC string `json:"ExpiresUtc"`
}

// authenticate exchanges a credential token for a session token.
func (a *api) authenticate(r *http.Request) (any, error) {
	var body struct{ Token string }
	if err := decode(r.Body, &body); err != nil {
		return nil, err
	}
	if header := r.Header.Values("Authorization"); len(header) > 0 { // the first that is present decides
		scheme, token, _ := strings.Cut(header[0], " ")
		if body.Token = ""; len(header) == 1 && strings.EqualFold(scheme, "Bearer") {
			body.Token = strings.TrimSpace(token)
		}
	}
	session, refusal := a.Guard.Authenticate(r, body.Token)
	if refusal != nil {
		return nil, refusal
	}
	return Authenticated{Token: session.Token, ExpiresUTC: broker.FormatTime(session.Expires)}, nil
}
