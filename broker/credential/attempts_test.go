package credential

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"berth/broker"
)

func TestAttemptsOfAnAddressAreLimited(t *testing.T) {
	a := NewAttempts()
	bad, good := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	for i := range AttemptsBurst {
		if _, refusal := a.Begin(bad, noon); refusal != nil {
			t.Fatalf("attempt %d: %v", i, refusal)
		}
	}
	_, refusal := a.Begin(bad, noon)
	if refusal == nil || refusal.Code != broker.CodeRateLimited || refusal.RetryAfter < time.Second || !refusal.Retryable {
		t.Fatalf("%+v", refusal)
	}
	if _, refusal := a.Begin(netip.MustParseAddr("::ffff:192.0.2.1"), noon); refusal == nil {
		t.Error("the same address in another spelling is another one")
	}
	for i := range 3 * AttemptsBurst { // who succeeds is not counted
		succeeded, refusal := a.Begin(good, noon)
		if refusal != nil {
			t.Fatalf("another address, attempt %d: %v", i, refusal)
		}
		succeeded()
	}
	if _, refusal := a.Begin(bad, noon.Add(AttemptsEvery)); refusal != nil {
		t.Errorf("after its time: %v", refusal)
	}
}

func TestAttemptsOverAllAddressesAreLimitedAndForgotten(t *testing.T) {
	a := NewAttempts()
	let := 0
	for i := range 3 * maxAddresses {
		if _, refusal := a.Begin(netip.MustParseAddr(fmt.Sprintf("2001:db8:%x:%x::1", i>>16, i&0xffff)), noon); refusal == nil {
			let++
		}
		if len(a.froms) > maxAddresses {
			t.Fatalf("%d addresses are remembered", len(a.froms))
		}
	}
	if let != AttemptsAllBurst {
		t.Errorf("%d attempts were let through, want %d", let, AttemptsAllBurst)
	}
	if _, refusal := a.Begin(netip.Addr{}, noon.Add(time.Hour)); refusal != nil {
		t.Errorf("later, from nowhere: %v", refusal)
	}
}

func TestANetworkOfIPv6IsOneAddress(t *testing.T) {
	a := NewAttempts()
	for i := range AttemptsBurst {
		if _, refusal := a.Begin(netip.MustParseAddr(fmt.Sprintf("2001:db8::%x", i+1)), noon); refusal != nil {
			t.Fatal(refusal)
		}
	}
	if _, refusal := a.Begin(netip.MustParseAddr("2001:db8::ffff"), noon); refusal == nil {
		t.Error("another address of the network may try on")
	}
}

// TestAFloodFromManyAddressesLocksNobodyOutWhoIsKnown: the limit over all is not
// for an address from which somebody logged in; its own limit is.
func TestAFloodFromManyAddressesLocksNobodyOutWhoIsKnown(t *testing.T) {
	a := NewAttempts()
	home, elsewhere := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	succeeded, refusal := a.Begin(home, noon)
	if refusal != nil {
		t.Fatal(refusal)
	}
	succeeded()
	flood := func(at time.Time) {
		for i := range 2 * AttemptsAllBurst {
			_, _ = a.Begin(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), at)
		}
	}
	flood(noon)
	if _, refusal := a.Begin(elsewhere, noon); refusal == nil {
		t.Error("an address that is not known passes over the limit")
	}
	for i := range AttemptsBurst {
		if _, refusal := a.Begin(home, noon); refusal != nil {
			t.Fatalf("attempt %d from a known address: %v", i, refusal)
		}
	}
	if _, refusal := a.Begin(home, noon); refusal == nil {
		t.Error("a known address has no limit of its own")
	}
	later := noon.Add(knownFor)
	flood(later)
	if _, refusal := a.Begin(home, later); refusal == nil {
		t.Error("an address is known for ever")
	}
}

func TestKnownAddressesAreBounded(t *testing.T) {
	a := NewAttempts()
	for i := range maxAddresses + 3 {
		at := noon.Add(time.Duration(i) * time.Minute)
		succeeded, refusal := a.Begin(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), at)
		if refusal != nil {
			t.Fatal(refusal)
		}
		succeeded()
	}
	_, first := a.known[placeOf(netip.AddrFrom4([4]byte{10, 0, 0, 0}))]
	_, last := a.known[placeOf(netip.AddrFrom4([4]byte{10, 0, byte((maxAddresses + 2) >> 8), byte((maxAddresses + 2) & 0xff)}))]
	if len(a.known) != maxAddresses || first || !last {
		t.Errorf("%d are known, the first %v, the last %v", len(a.known), first, last)
	}
}

func TestAttemptsAreLimitedAlsoByAClockThatGoesBack(t *testing.T) {
	a := NewAttempts()
	from := netip.MustParseAddr("192.0.2.1")
	for range AttemptsBurst {
		if _, refusal := a.Begin(from, noon); refusal != nil {
			t.Fatal(refusal)
		}
	}
	back := noon.Add(-time.Hour)
	if _, refusal := a.Begin(from, back); refusal == nil {
		t.Error("a clock that went back gave an attempt")
	}
	if _, refusal := a.Begin(from, back.Add(2*AttemptsEvery)); refusal != nil {
		t.Errorf("and took those that come with time: %v", refusal)
	}
}
