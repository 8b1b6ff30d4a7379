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
