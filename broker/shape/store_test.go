package shape

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"berth/broker"

	"pgregory.net/rapid"
)

var (
	alice   = broker.Principal{Tenant: "t", User: "alice", Role: broker.User}
	bob     = broker.Principal{Tenant: "t", User: "bob", Role: broker.User}
	outside = broker.Principal{Tenant: "t2", User: "alice", Role: broker.User}
	started = time.Date(2026, 5, 4, 9, 0, 0, 0, time.UTC)
)

func TestHandlesAreRandom(t *testing.T) {
	h, err := NewHandle(bytes.NewReader(bytes.Repeat([]byte{0xFF}, 16)))
	if err != nil || h != "m_"+strings.Repeat("7", 25)+"4" {
		t.Errorf("got %q, %v", h, err)
	}
	if _, err := NewHandle(bytes.NewReader(make([]byte, 15))); err == nil {
		t.Error("15 bytes were enough")
	}
}

func TestOnlyItsOwnerFindsAHandle(t *testing.T) {
	s := NewStore(StoreOptions{})
	s.Put(started, alice, []Kept{keepText("m_a", "text", 1, 500)}, nil)
	kept, next, refusal := s.Find(started, alice, "m_a")
	if refusal != nil || kept.Text() != "text" || next != 1 {
		t.Fatal(kept, next, refusal)
	}
	admin := alice
	admin.Role = broker.GlobalAdministrator
	if _, _, refusal := s.Find(started, admin, "m_a"); refusal != nil {
		t.Error("a handle is bound to tenant and user, not to a role")
	}
	_, _, never := s.Find(started, alice, "m_never")
	if never == nil || never.Code != broker.CodeHandleUnknown || never.Retryable {
		t.Fatal(never)
	}
	for name, who := range map[string]broker.Principal{"another user": bob, "another tenant": outside} {
		if _, _, refusal := s.Find(started, who, "m_a"); refusal == nil || string(refusal.JSON()) != string(never.JSON()) {
			t.Errorf("%s: %v", name, refusal)
		}
		if _, complete := s.Delivered(started, who, "m_a", Page{Count: 4}); complete {
			t.Errorf("%s moved it", name)
		}
	}
	_, _, expired := s.Find(started.Add(DefaultIdle), alice, "m_a")
	if expired == nil || string(expired.JSON()) != string(never.JSON()) {
		t.Error(expired)
	}
	if handles, bytes := s.Stats(); handles != 0 || bytes != 0 || len(s.accounts) != 0 {
		t.Errorf("%d handles, %d bytes are left", handles, bytes)
	}
}

func TestAHandleLivesFromItsLastUse(t *testing.T) {
	s := NewStore(StoreOptions{Idle: 2 * time.Hour}) // an hour at most
	s.Put(started, alice, []Kept{keepText("m_a", "a", 0, 500)}, nil)
	if got := s.Until(started); got != started.Add(time.Hour) {
		t.Errorf("until %v", got)
	}
	for at := started; at.Before(started.Add(3 * time.Hour)); at = at.Add(59 * time.Minute) {
		if _, _, refusal := s.Find(at, alice, "m_a"); refusal != nil {
			t.Fatal(at, refusal)
		}
	}
	s.Expire(started.Add(5 * time.Hour))
	if handles, _ := s.Stats(); handles != 0 {
		t.Error("it is still there")
	}
}

func TestTheLeastRecentlyUsedMakesRoom(t *testing.T) {
	big := strings.Repeat("x", 10<<20)
	s := NewStore(StoreOptions{})
	put := func(who broker.Principal, handle string) {
		s.Put(started, who, []Kept{keepText(handle, big, 0, 500)}, nil)
	}
	for i := range 6 {
		put(alice, fmt.Sprint("m_", i))
	}
	put(bob, "m_bob")
	s.Find(started, alice, "m_0") // so that m_1 is the oldest
	put(alice, "m_6")
	for handle, want := range map[string]bool{"m_0": true, "m_1": false, "m_2": true, "m_6": true} {
		if _, _, refusal := s.Find(started, alice, handle); (refusal == nil) != want {
			t.Errorf("%s: %v", handle, refusal)
		}
	}
	if _, _, refusal := s.Find(started, bob, "m_bob"); refusal != nil {
		t.Error("another principal's was dropped for room in one account")
	}
	for i := range 30 {
		put(broker.Principal{Tenant: "t", User: fmt.Sprint(i)}, fmt.Sprint("m_u", i))
	}
	if _, bytes := s.Stats(); bytes > MaxStore {
		t.Errorf("%d bytes are kept", bytes)
	}
	small := NewStore(StoreOptions{MaxPrincipal: 1 << 20})
	small.Put(started, alice, []Kept{keepText("m_a", big, 0, 500)}, nil)
	if handles, bytes := small.Stats(); handles != 0 || bytes != 0 {
		t.Error("more is kept than may be")
	}
}

func TestWhatWaitsForTheLastPartIsGivenOnce(t *testing.T) {
	array := `[1,2,"` + strings.Repeat("z", 5000) + `",4]`
	keep := []Kept{keepList("m_a", UnitItems, newList(array, 0, len(array)), 1, 500), keepText("m_b", "some text", 4, 500)}
	put := func() *Store {
		s := NewStore(StoreOptions{})
		s.Put(started, alice, keep, "marks")
		return s
	}
	deliver := func(s *Store, handle string, p Page, want bool) {
		t.Helper()
		then, complete := s.Delivered(started, alice, handle, p)
		if complete != want || (complete && then != "marks") {
			t.Errorf("%s from %d: %v, %v", handle, p.Offset, then, complete)
		}
	}
	child := keepText("m_c", array[5:5007], 100, 500)
	s := put()
	deliver(s, "m_b", Page{Offset: 4, Count: 5}, false)
	deliver(s, "m_a", Page{Offset: 1, Count: 1}, false)
	deliver(s, "m_a", Page{Offset: 3, Count: 1}, false) // leaves a gap
	deliver(s, "m_a", Page{Offset: 2, Count: 1, Split: true, Child: &child}, false)
	if h, ok := s.Child(started, alice, "m_a")(2); !ok || h != "m_c" {
		t.Errorf("child %q, %v", h, ok)
	}
	if _, ok := s.Child(started, alice, "m_a")(3); ok {
		t.Error("an item that was not split has a child")
	}
	deliver(s, "m_a", Page{Offset: 3, Count: 1}, false)
	if _, next, _ := s.Find(started, alice, "m_a"); next != 4 {
		t.Errorf("next %d", next)
	}
	deliver(s, "m_c", Page{Offset: 200, Count: child.Total - 200}, false)
	deliver(s, "m_c", Page{Offset: 100, Count: 100}, false)
	deliver(s, "m_c", Page{Offset: 150, Count: child.Total - 150}, true)
	deliver(s, "m_c", Page{Offset: 150, Count: child.Total - 150}, false) // once

	s = NewStore(StoreOptions{})
	k := keepText("m_a", "abc", 0, 500)
	k.Dropped = 1
	s.Put(started, alice, []Kept{k}, "marks")
	deliver(s, "m_a", Page{Count: 3}, false) // nobody can have seen it all
}

// A server that answers a text says it once more in its structured content, which
// is left out first: who has read the text has read the answer.
func TestWhatOnlyRepeatsATextIsNotWaitedFor(t *testing.T) {
	long := strings.Repeat("a line of text\\n", 1000)
	for name, tt := range map[string]struct {
		content, structured string
		budget              Budget
		pieces              int // that are waited for
	}{
		"the text is cut, too":       {`{"type":"text","text":"` + long + `"}`, `{"content":"` + long + `"}`, 500, 1},
		"the text fits":              {`{"type":"text","text":"` + long + `"}`, `{"content":"` + long + `"}`, 20_000, 0},
		"it says more":               {`{"type":"text","text":"` + long + `"}`, `{"content":"` + long + `","n":1}`, 20_000, 1},
		"it says something else":     {`{"type":"text","text":"found it"}`, `{"content":"` + long + `"}`, 500, 1},
		"it is cut beside a summary": {`{"type":"text","text":"three"}`, `{"items":["` + long + `","` + long + `"]}`, 5_000, 1},
	} {
		n := 0
		shaped, err := Shape([]byte(`{"content":[`+tt.content+`],"structuredContent":`+tt.structured+`}`), Limits{Budget: tt.budget, CanMore: true}, &bytesCounter{},
			func() (string, error) { n++; return fmt.Sprintf("m_%d", n), nil })
		if err != nil || len(shaped.Keep) == 0 {
			t.Fatalf("%s: %d pieces, %v", name, len(shaped.Keep), err)
		}
		s := NewStore(StoreOptions{})
		s.Put(started, alice, shaped.Keep, "marks")
		waited, complete := 0, OnlyRepeat(shaped.Keep)
		for _, k := range shaped.Keep {
			if k.Repeats {
				continue
			}
			waited++
			_, complete = s.Delivered(started, alice, k.Handle, Page{Offset: k.First, Count: k.Total})
		}
		if waited != tt.pieces || !complete {
			t.Errorf("%s: waited for %d of %d pieces, want %d; complete: %v", name, waited, len(shaped.Keep), tt.pieces, complete)
		}
	}
}

func TestPagesOfAnyOffset(t *testing.T) {
	text := keepText("m_a", "aé漢b", 0, 500)
	array := `[1,22,333]`
	items := keepList("m_b", UnitItems, newList(array, 0, len(array)), 0, 500)
	broken := errors.New("no randomness")
	for _, tt := range []struct {
		kept   Kept
		offset int
		want   string
	}{
		{text, 0, `{"unit":"bytes","offset":0,"count":7,"total":7,"next_offset":null,"text":"aé漢b"}`},
		{text, 2, `{"unit":"bytes","offset":3,"count":4,"total":7,"next_offset":null,"text":"漢b"}`}, // inside a character
		{text, 7, `{"unit":"bytes","offset":7,"count":0,"total":7,"next_offset":null,"text":""}`},
		{text, 999, `{"unit":"bytes","offset":7,"count":0,"total":7,"next_offset":null,"text":""}`},
		{text, -1, `{"unit":"bytes","offset":0,"count":7,"total":7,"next_offset":null,"text":"aé漢b"}`},
		{items, 1, `{"unit":"items","offset":1,"count":2,"total":3,"next_offset":null,"items":[22,333]}`},
		{items, 3, `{"unit":"items","offset":3,"count":0,"total":3,"next_offset":null,"items":[]}`},
	} {
		p, err := tt.kept.Page(tt.offset, Limits{}, &bytesCounter{}, func(int) (string, bool) { return "", false }, func() (string, error) { return "", broken })
		if err != nil || string(p.Document) != tt.want {
			t.Errorf("%d: %s, %v", tt.offset, p.Document, err)
		}
	}
	large := `["` + strings.Repeat("x", 600) + `"]`
	k := keepList("m_c", UnitItems, newList(large, 0, len(large)), 0, 500)
	if _, err := k.Page(0, Limits{}, &bytesCounter{}, func(int) (string, bool) { return "", false }, func() (string, error) { return "", broken }); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	p, err := k.Page(0, Limits{Budget: 700}, &bytesCounter{}, nil, nil) // a larger page
	if err != nil || p.Split || p.Count != 1 {
		t.Errorf("%+v, %v", p, err)
	}
}

// TestStoreModel compares with a list that is searched for everything.
func TestStoreModel(t *testing.T) {
	type entry struct {
		handle  string
		who     broker.Principal
		size    int
		expires time.Time
	}
	rapid.Check(t, func(t *rapid.T) {
		const perPrincipal, all = 40 << 10, 60 << 10
		s := NewStore(StoreOptions{Idle: time.Minute, MaxPrincipal: perPrincipal, MaxStore: all})
		var model []entry // the least recently used first
		now, made := started, 0
		expire := func() {
			for len(model) > 0 && !now.Before(model[0].expires) {
				model = model[1:]
			}
		}
		sum := func(of func(entry) bool) (n int) {
			for _, e := range model {
				if of(e) {
					n += e.size
				}
			}
			return n
		}
		who := rapid.SampledFrom([]broker.Principal{alice, bob, outside})
		t.Repeat(map[string]func(*rapid.T){
			"wait": func(t *rapid.T) { now = now.Add(time.Duration(rapid.IntRange(0, 50).Draw(t, "s")) * time.Second) },
			"put": func(t *rapid.T) {
				p := who.Draw(t, "who")
				text := strings.Repeat("x", rapid.IntRange(1, 30<<10).Draw(t, "bytes"))
				made++
				e := entry{fmt.Sprint("m_", made), p, len(text) + overhead, now.Add(time.Minute)}
				expire()
				mine := func(o entry) bool { return o.who == p }
				for sum(mine)+e.size > perPrincipal || sum(func(entry) bool { return true })+e.size > all {
					for i, o := range model {
						if sum(mine)+e.size <= perPrincipal || mine(o) {
							model = append(model[:i:i], model[i+1:]...)
							break
						}
					}
				}
				model = append(model, e)
				s.Put(now, p, []Kept{keepText(e.handle, text, 0, 500)}, nil)
			},
			"find": func(t *rapid.T) {
				p, h := who.Draw(t, "who"), fmt.Sprint("m_", rapid.IntRange(0, made+1).Draw(t, "n"))
				expire()
				want := false
				for i, e := range model {
					if e.handle == h && e.who == p {
						e.expires = now.Add(time.Minute)
						model = append(append(model[:i:i], model[i+1:]...), e)
						want = true
						break
					}
				}
				if _, _, refusal := s.Find(now, p, h); (refusal == nil) != want {
					t.Fatalf("%s: %v, want found: %v", h, refusal, want)
				}
			},
			"": func(t *rapid.T) {
				expire()
				s.Expire(now)
				if n, bytes := s.Stats(); n != len(model) || bytes != sum(func(entry) bool { return true }) {
					t.Fatalf("%d handles with %d bytes, want %d with %d", n, bytes, len(model), sum(func(entry) bool { return true }))
				}
			},
		})
	})
}
