package credential

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"berth/broker"
	"berth/broker/dispatch"
)

func launches(t *testing.T) (*Launches, *Desk, *memory) {
	t.Helper()
	m := &memory{}
	d, _ := open(t, m)
	return NewLaunches(d, rand.NewChaCha8([32]byte{7}), broker.LocalOperator, broker.Principal{Tenant: "default", User: "api-key", Role: broker.GlobalAdministrator}), d, m
}

func missionOf(tenant, user string) dispatch.Mission {
	return dispatch.Mission{ID: "msn_1", Owner: dispatch.Owner{TenantID: tenant, UserID: user}}
}

func TestALaunchTokenHasTheRightsOfItsMissionsOwner(t *testing.T) {
	for name, tt := range map[string]struct {
		specs        []Spec
		tenant, user string
		want         broker.Caller // of what is compared below
		none         bool
	}{
		"the operator needs no credential": {tenant: "default", user: "operator",
			want: broker.Caller{Principal: broker.LocalOperator}},
		"what the record leaves open is the default user's": {want: broker.Caller{Principal: broker.LocalOperator}},
		"the holder of the broker's key": {tenant: "default", user: "api-key",
			want: broker.Caller{Principal: broker.Principal{Tenant: "default", User: "api-key", Role: broker.GlobalAdministrator}}},
		"nobody": {tenant: "t", user: "ana", none: true},
		"a user of another tenant": {specs: []Spec{{Tenant: "u", User: "ana", Role: broker.GlobalAdministrator}},
			tenant: "t", user: "ana", none: true},
		"another user of the tenant": {specs: []Spec{{Tenant: "t", User: "bob", Role: broker.GlobalAdministrator}},
			tenant: "t", user: "ana", none: true},
		"one credential, with what it narrows": {specs: []Spec{{Tenant: "t", User: "ana", Role: broker.User, ReadOnly: true, Profiles: []string{"editor"}}},
			tenant: "t", user: "ana",
			want: broker.Caller{Principal: broker.Principal{Tenant: "t", User: "ana", Role: broker.User}, ReadOnly: true, Profiles: []string{"editor"}}},
		"of two the wider role": {specs: []Spec{{Tenant: "t", User: "ana", Role: broker.User}, {Tenant: "t", User: "ana", Role: broker.TenantAdministrator, ReadOnly: true}},
			tenant: "t", user: "ana",
			want: broker.Caller{Principal: broker.Principal{Tenant: "t", User: "ana", Role: broker.TenantAdministrator}, ReadOnly: true}},
		"of one role what may write, then any profile": {specs: []Spec{{Tenant: "t", User: "ana", Role: broker.User, ReadOnly: true},
			{Tenant: "t", User: "ana", Role: broker.User, Profiles: []string{"full"}}, {Tenant: "t", User: "ana", Role: broker.User}},
			tenant: "t", user: "ana",
			want: broker.Caller{Principal: broker.Principal{Tenant: "t", User: "ana", Role: broker.User}}},
	} {
		t.Run(name, func(t *testing.T) {
			l, d, _ := launches(t)
			for _, s := range tt.specs {
				create(t, d, s)
			}
			m := missionOf(tt.tenant, tt.user)
			token, why := l.Issue(m)
			if tt.none {
				if token != "" || why == "" || l.Would(m) != why {
					t.Fatalf("token %v, why %q, would %q", token != "", why, l.Would(m))
				}
				return
			}
			if why != "" || l.Would(m) != "" || !regexp.MustCompile(`^[A-Za-z0-9]{64}$`).MatchString(token) {
				t.Fatalf("why %q, would %q", why, l.Would(m))
			}
			got, ok := l.Bearer(token)
			tt.want.Mission = m.ID
			if !ok || got.Principal != tt.want.Principal || got.ReadOnly != tt.want.ReadOnly || fmt.Sprint(got.Profiles) != fmt.Sprint(tt.want.Profiles) {
				t.Errorf("%v, %+v; want %+v", ok, got, tt.want)
			}
			if got.Life == nil || got.Life.Err() != nil {
				t.Error("a caller by a launch token has a life, and it goes on")
			}
		})
	}
}

func TestALaunchTokenIsNewEachTimeAndKeptNowhere(t *testing.T) {
	l, d, m := launches(t)
	create(t, d, ana)
	first, _ := l.Issue(missionOf("t", "ana"))
	second, _ := l.Issue(missionOf("t", "ana"))
	if first == second || first == "" {
		t.Error("each launch has a token of its own")
	}
	kept := m.all(t)
	inside := fmt.Sprintf("%+v", l.byHash)
	listed, err := json.Marshal(d.List())
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range []string{first, second} {
		if strings.Contains(kept, token) || strings.Contains(inside, token) || strings.Contains(string(listed), token) {
			t.Error("a launch token is kept")
		}
		if _, ok := d.Bearer(token); ok {
			t.Error("a launch token is taken for a credential's")
		}
	}
}

func TestARevokedLaunchTokenIsRefusedAndEndsWhatItHasOpen(t *testing.T) {
	l, _, _ := launches(t)
	mine, others := missionOf("default", "operator"), missionOf("default", "operator")
	others.ID = "msn_2"
	one, _ := l.Issue(mine)
	two, _ := l.Issue(mine)
	other, _ := l.Issue(others)
	a, _ := l.Bearer(one)
	b, _ := l.Bearer(two)
	c, _ := l.Bearer(other)
	l.Revoke(mine.ID)
	l.Revoke(mine.ID)
	for _, caller := range []broker.Caller{a, b} {
		<-caller.Life.Done()
	}
	for token, want := range map[string]bool{one: false, two: false, other: true, "": false, strings.Repeat("x", 64): false, one[:63]: false, one + "x": false} {
		if _, ok := l.Bearer(token); ok != want {
			t.Errorf("a token of %d characters: %v", len(token), ok)
		}
	}
	if c.Life.Err() != nil {
		t.Error("the token of another mission ended with it")
	}
}

func TestALaunchTokenEndsWithTheLastCredentialOfItsOwner(t *testing.T) {
	l, d, _ := launches(t)
	first, _ := create(t, d, Spec{Tenant: "t", User: "ana", Role: broker.TenantAdministrator})
	second, _ := create(t, d, ana)
	token, _ := l.Issue(missionOf("t", "ana"))
	before, _ := l.Bearer(token)
	if _, err := d.Revoke(t.Context(), admin, first.ID, "it is over"); err != nil {
		t.Fatal(err)
	}
	<-before.Life.Done()
	after, ok := l.Bearer(token)
	if !ok || after.Role != broker.User || after.Mission != "msn_1" || after.Life.Err() != nil {
		t.Fatalf("by the other credential: %v %+v", ok, after)
	}
	if _, err := d.Revoke(t.Context(), admin, second.ID, "it is over"); err != nil {
		t.Fatal(err)
	}
	<-after.Life.Done()
	if _, ok := l.Bearer(token); ok {
		t.Error("nobody is left for whom it could stand")
	}
	l.Revoke("msn_1")
}

func TestThereAreOnlySoManyLaunchTokens(t *testing.T) {
	l, _, _ := launches(t)
	for i := range maxLaunches {
		if token, why := l.Issue(missionOf("default", "operator")); token == "" {
			t.Fatalf("%d: %s", i, why)
		}
	}
	if token, why := l.Issue(missionOf("default", "operator")); token != "" || why == "" {
		t.Error("one more was made")
	}
	l.Revoke("msn_1")
	if token, why := l.Issue(missionOf("default", "operator")); token == "" {
		t.Error(why)
	}
}

func TestWithoutRandomnessThereIsNoLaunchToken(t *testing.T) {
	_, d, _ := launches(t)
	l := NewLaunches(d, strings.NewReader("short"), broker.LocalOperator)
	if token, why := l.Issue(missionOf("default", "operator")); token != "" || why == "" {
		t.Errorf("%v %q", token != "", why)
	}
}

// Whatever is issued and revoked, a token is good exactly while its mission has
// not been revoked since and its owner has a credential.
func TestLaunchTokensFollowTheirModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l, d, _ := launches(t)
		owner := map[string]string{} // credential -> user
		type issued struct{ mission, user string }
		good := map[string]issued{}
		users := []string{"ana", "bob"}
		has := func(user string) bool {
			for _, u := range owner {
				if u == user {
					return true
				}
			}
			return false
		}
		made := 0
		rt.Repeat(map[string]func(*rapid.T){
			"credential": func(rt *rapid.T) {
				if made == 5 { // as many as the desk takes
					return
				}
				made++
				user := rapid.SampledFrom(users).Draw(rt, "user")
				r, _ := create(t, d, Spec{Tenant: "t", User: user, Role: rapid.SampledFrom(broker.Roles).Draw(rt, "role")})
				owner[r.ID] = user
			},
			"end credential": func(rt *rapid.T) {
				for id := range owner {
					if _, err := d.Revoke(t.Context(), admin, id, ""); err != nil {
						rt.Fatal(err)
					}
					delete(owner, id)
					return
				}
			},
			"issue": func(rt *rapid.T) {
				m := missionOf("t", rapid.SampledFrom(users).Draw(rt, "user"))
				m.ID = rapid.SampledFrom([]string{"msn_a", "msn_b"}).Draw(rt, "mission")
				token, why := l.Issue(m)
				if (token != "") != has(m.UserID) || (why == "") != has(m.UserID) {
					rt.Fatalf("issued %v (%s), the owner has a credential: %v", token != "", why, has(m.UserID))
				}
				if token != "" {
					good[token] = issued{m.ID, m.UserID}
				}
			},
			"revoke": func(rt *rapid.T) {
				mission := rapid.SampledFrom([]string{"msn_a", "msn_b"}).Draw(rt, "mission")
				l.Revoke(mission)
				for token, i := range good {
					if i.mission == mission {
						delete(good, token)
						if _, ok := l.Bearer(token); ok {
							rt.Fatal("revoked, and good")
						}
					}
				}
			},
			"": func(rt *rapid.T) {
				for token, i := range good {
					c, ok := l.Bearer(token)
					if ok != has(i.user) || ok && (c.Mission != i.mission || c.User != i.user || c.Tenant != "t") {
						rt.Fatalf("%v %+v of %+v", ok, c, i)
					}
				}
			},
		})
	})
}

func TestLaunchTokensMayBeUsedAndRevokedAtOnce(t *testing.T) {
	l, _, _ := launches(t)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			m := missionOf("default", "operator")
			m.ID = fmt.Sprintf("msn_%d", i%4)
			for range 50 {
				if token, why := l.Issue(m); token == "" {
					t.Error(why)
				} else {
					l.Bearer(token)
				}
				l.Revoke(m.ID)
			}
		})
	}
	all.Wait()
	if len(l.byHash) != 0 {
		t.Errorf("%d are left", len(l.byHash))
	}
}
