package broker_test

import (
	"regexp"
	"testing"

	"berth/broker"
)

func TestDigestBindsEveryPartOfAPrincipal(t *testing.T) {
	seen := map[string]broker.Principal{}
	for _, p := range []broker.Principal{
		{}, {Tenant: "a"}, {User: "a"}, {Role: "a"}, {Tenant: "a", User: "b"}, {Tenant: "ab"}, {Tenant: "a", User: "b", Role: broker.User},
		{Tenant: "a", User: "b", Role: broker.GlobalAdministrator}, broker.LocalOperator,
	} {
		d := p.Digest()
		if other, double := seen[d]; double || !regexp.MustCompile(`^[0-9a-f]{16}$`).MatchString(d) {
			t.Errorf("%v and %v: %q", p, other, d)
		}
		seen[d] = p
	}
	// Session ids of an earlier build hold it: it must not change.
	if got := broker.LocalOperator.Digest(); got != "15aff2eb8e47d66d" {
		t.Errorf("got %s", got)
	}
}

func TestPrincipalOwnsItsOwnOnly(t *testing.T) {
	p := broker.Principal{Tenant: "acme", User: "ana"}
	for _, tt := range []struct {
		tenant, user string
		want         bool
	}{{"acme", "ana", true}, {"acme", "bob", false}, {"other", "ana", false}, {"", "", false}} {
		if got := p.Owns(tt.tenant, tt.user); got != tt.want {
			t.Errorf("%v: %v", tt, got)
		}
	}
	if p.Key() != "acme/ana" {
		t.Error(p.Key())
	}
}
