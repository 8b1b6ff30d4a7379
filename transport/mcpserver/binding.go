package mcpserver

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"net"
	"net/http"
	"net/netip"
	"regexp"

	"berth/actors"
	"berth/broker"
	"berth/broker/catalog"
)

// This file reads what a session says of itself besides the protocol: that it
// only reads, and which instance of a local app it brings. Both narrow what the
// session reaches or name what is its own; neither gives a right.

// The headers of a session on its every request. They are canonical.
const (
	headerReadOnly = "Berth-Read-Only"
	headerInstance = "Berth-Instance"
)

// Bindings is who knows the instances that sessions bring.
type Bindings interface {
	// BoundCatalog gives the catalog of a session that brings an instance of a
	// surface.
	BoundCatalog(surface string) (*catalog.Snapshot, bool)
	// CheckBinding judges what a session names, without reaching it, and says
	// whether it names it for reading only.
	CheckBinding(*actors.Binding) (readOnly bool, refusal *broker.Refusal)
	// EndBinding gives up what a session brought.
	EndBinding(broker.Principal, *actors.Binding)
}

// maxInstance bounds the header of an instance, in bytes.
const maxInstance = 16 << 10

// instanceKey is what a session may call what it brings: random enough that no
// other session names it by chance.
var instanceKey = regexp.MustCompile(`^[A-Za-z0-9_-]{16,64}$`)

// wireInstance is the header's value: base64url of this JSON.
type wireInstance struct {
	Key     string            `json:"key"`
	Surface string            `json:"surface"`
	Env     map[string]string `json:"env"`
}

// encodeInstance is the header's value for what a session brings.
func encodeInstance(b *actors.Binding) string {
	raw, _ := json.Marshal(wireInstance{b.Key, b.Surface, b.Env}) // strings cannot fail to encode
	return base64.RawURLEncoding.EncodeToString(raw)
}

// readScope reads both headers into rq.
func (s *Server) readScope(rq *request) *broker.Refusal {
	if s.opts.ReadOnlyProcess || rq.caller.ReadOnly || s.opts.ReadOnly[s.named(rq.profile)] {
		rq.limit.All = true
	}
	if value := rq.r.Header.Get(headerInstance); value != "" {
		b, readOnly, refusal := s.readInstance(rq.r, value)
		if refusal != nil {
			return refusal
		}
		if rq.binding = b; readOnly {
			rq.limit.Surface = b.Surface
		}
	}
	switch value := rq.r.Header.Get(headerReadOnly); value {
	case "", "0", "false":
	default:
		// A surface's name limits that surface; anything else is taken at its
		// worst, because a session that asked for less must not get more.
		if !rq.limit.All && rq.limit.Surface == "" && s.snapshot(rq).HasSurface(value) {
			rq.limit.Surface = value
		} else if value != rq.limit.Surface {
			rq.limit.All = true
		}
	}
	return nil
}

func (s *Server) readInstance(r *http.Request, value string) (b *actors.Binding, readOnly bool, refusal *broker.Refusal) {
	malformed := broker.Refuse(broker.CodeInvalidArguments, "The header "+headerInstance+" cannot be read.", nil)
	if s.opts.Bindings == nil || !fromHere(r) {
		return nil, false, broker.Refuse(broker.CodeInstanceForbidden, "A session can bring an instance of its own only to a broker on the same machine that takes any.", nil)
	}
	if len(value) > maxInstance {
		return nil, false, malformed
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(value)
	var wire wireInstance
	if err != nil || json.Unmarshal(raw, &wire) != nil || !instanceKey.MatchString(wire.Key) {
		return nil, false, malformed
	}
	b = &actors.Binding{Key: wire.Key, Surface: wire.Surface, Env: wire.Env}
	readOnly, refusal = s.opts.Bindings.CheckBinding(b)
	return b, readOnly, refusal
}

// fromHere reports whether a request came over this machine's loopback. The
// guard has looked at who asks; this is about where from.
func fromHere(r *http.Request) bool {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

// snapshot is the catalog as the request's session has it.
func (s *Server) snapshot(rq *request) *catalog.Snapshot {
	if rq.binding != nil {
		if bound, ok := s.opts.Bindings.BoundCatalog(rq.binding.Surface); ok {
			return bound
		}
	}
	return s.opts.Broker.Catalog()
}

// profile is the request's profile as its caller has it: less what may not be
// seen or called.
func (s *Server) profile(rq *request) (*catalog.Profile, bool) {
	profile, ok := s.snapshot(rq).Profile(s.named(rq.profile))
	if !ok {
		return nil, false
	}
	return profile.As(catalog.Class{Limit: rq.limit, Role: rq.principal.Role, Transport: catalog.OverMCP}), true
}

// named is the profile of a path: the tier's where it names none.
func (s *Server) named(profile string) string { return cmp.Or(profile, s.opts.Tier) }
