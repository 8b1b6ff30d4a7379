package board_test

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"berth/broker"
	"berth/broker/native/board"
)

// modelNote is a note of the model, which keeps everything in one list.
type modelNote struct {
	id, tenant, room, to, content string
	at                            time.Time
	read                          bool
}

type modelClaim struct {
	id, tenant, room, subject, by string
	until                         time.Time
}

type model struct {
	now    time.Time
	notes  []modelNote
	claims []modelClaim
	seen   map[string]time.Time // tenant, room, key
}

func (m *model) sees(who broker.Principal, tenant string) bool {
	return who.Role == broker.GlobalAdministrator || who.Tenant == tenant || tenant == ""
}

func (m *model) live(n modelNote) bool { return n.at.Add(board.Retention).After(m.now) }

func (m *model) beat(tenant, room, key string) {
	m.seen[tenant+" "+room+" "+key] = m.now
	for i, c := range m.claims {
		if c.tenant == tenant && c.by == key && c.until.After(m.now) && c.until.Before(m.now.Add(4*time.Hour)) {
			m.claims[i].until = m.now.Add(4 * time.Hour)
		}
	}
}

// reads is what a read shows: notes, who was active, claims, unread wakes.
func (m *model) reads(who broker.Principal, room, key string, limit int, after time.Time) string {
	var notes, wakes, claims, active []string
	for _, n := range m.notes {
		if !m.live(n) || !m.sees(who, n.tenant) {
			continue
		}
		if n.to == key && key != "" && !n.read {
			wakes = append(wakes, n.content)
		}
		if n.room == room && (n.to == "" || n.to == key) && n.at.After(after) {
			notes = append(notes, n.content)
		}
	}
	if len(notes) > limit {
		if after.IsZero() {
			notes = notes[len(notes)-limit:]
		} else {
			notes = notes[:limit]
		}
	}
	for _, c := range m.claims {
		if c.room == room && m.sees(who, c.tenant) && c.until.After(m.now) {
			claims = append(claims, c.subject+"/"+c.by+"@"+c.until.Format(time.RFC3339Nano))
		}
	}
	for place, at := range m.seen {
		part := strings.Fields(place)
		if part[1] == room && m.sees(who, part[0]) && m.now.Sub(at) <= 15*time.Minute {
			active = append(active, part[2])
		}
	}
	slices.Sort(active)
	return fmt.Sprint(notes, wakes, claims, active)
}

func shows(room board.Room) string {
	var notes, wakes, claims, active []string
	for _, n := range room.Messages {
		notes = append(notes, n.Content)
	}
	for _, w := range room.UnreadWakes {
		wakes = append(wakes, w.Payload[strings.LastIndex(w.Payload, " ")+1:])
	}
	for _, c := range room.ActiveClaims {
		claims = append(claims, c.SubjectID+"/"+c.ParticipantKey+"@"+c.ExpiresUtc)
	}
	for _, p := range room.ActiveParticipants {
		active = append(active, p.ParticipantKey)
	}
	slices.Sort(active)
	return fmt.Sprint(notes, wakes, claims, active)
}

// TestTheBoardIsItsModel: whatever is posted, claimed, acknowledged and let
// pass, each principal reads what a list of everything would show it.
func TestTheBoardIsItsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := board.New(board.Options{Store: newMemory(), Now: func() time.Time { return at }, Random: &sequence{n: 7}, Log: slog.New(slog.DiscardHandler), Team: func() bool { return true }})
		m := &model{now: at, seen: map[string]time.Time{}}
		who := rapid.SampledFrom([]broker.Principal{member("t1"), member("t2"), admin, {Tenant: "t1", User: "v", Role: broker.TenantAdministrator}})
		rooms, keys := rapid.SampledFrom([]string{"fleet", "r.2"}), rapid.SampledFrom([]string{"a", "b"})
		t.Repeat(map[string]func(*rapid.T){
			"post": func(t *rapid.T) {
				p, room, to := who.Draw(t, "who"), rooms.Draw(t, "room"), rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "to")
				from, content := keys.Draw(t, "from"), fmt.Sprintf("c%d", len(m.notes))
				got := must(b.Post(t.Context(), as(p, from, m.now), board.Draft{Content: content, AuthorName: "N", RoomKey: room, ToParticipantKey: to}))(t)
				m.notes = append(m.notes, modelNote{got.ID, p.Tenant, room, to, content, m.now, false})
				m.beat(p.Tenant, room, from)
				m.now = m.now.Add(time.Millisecond) // ids of one millisecond have no order
			},
			"heartbeat": func(t *rapid.T) {
				p, room, key := who.Draw(t, "who"), rooms.Draw(t, "room"), keys.Draw(t, "key")
				must(b.Heartbeat(t.Context(), as(p, "", m.now), key, "N", room))(t)
				m.beat(p.Tenant, room, key)
			},
			"mark": func(t *rapid.T) {
				if len(m.notes) == 0 {
					t.Skip("no note was posted in this state, so rapid draws another action")
				}
				p, key := who.Draw(t, "who"), rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "key")
				n := &m.notes[rapid.IntRange(0, len(m.notes)-1).Draw(t, "which")]
				got, err := b.MarkRead(t.Context(), as(p, key, m.now), "sig_"+n.id[4:])
				switch {
				case n.to == "" || !m.live(*n) || !m.sees(p, n.tenant):
					if err != nil || got.Status != board.NotFound {
						t.Fatalf("%+v %v", got, err)
					}
				case key != "" && key != n.to:
					if code(err) != broker.CodeWakeNotAddressed {
						t.Fatalf("%+v %v", got, err)
					}
				default:
					if want := map[bool]string{true: board.AlreadyRead, false: board.Marked}[n.read]; err != nil || got.Status != want {
						t.Fatalf("%+v %v, want %s", got, err, want)
					}
					n.read = true
				}
			},
			"claim": func(t *rapid.T) {
				p, room, key := who.Draw(t, "who"), rooms.Draw(t, "room"), keys.Draw(t, "key")
				subject, hours := rapid.SampledFrom([]string{"v", "w"}).Draw(t, "subject"), rapid.IntRange(1, 72).Draw(t, "hours")
				got := must(b.Claim(t.Context(), as(p, key, m.now), board.ClaimAsk{SubjectType: "vessel", SubjectID: subject, RoomKey: room, TTL: time.Duration(hours) * time.Hour}))(t)
				until := m.now.Add(time.Duration(hours) * time.Hour)
				i := slices.IndexFunc(m.claims, func(c modelClaim) bool {
					return c.tenant == p.Tenant && c.room == room && c.subject == subject && c.by == key && c.until.After(m.now)
				})
				if i >= 0 {
					m.claims[i].until = until
				} else {
					m.claims = append(m.claims, modelClaim{got.ID, p.Tenant, room, subject, key, until})
				}
				m.now = m.now.Add(time.Millisecond)
			},
			"release": func(t *rapid.T) {
				if len(m.claims) == 0 {
					t.Skip("no claim was made in this state, so rapid draws another action")
				}
				p, i := who.Draw(t, "who"), rapid.IntRange(0, len(m.claims)-1).Draw(t, "which")
				c := &m.claims[i]
				_, found, err := b.Release(t.Context(), as(p, "", m.now), c.id)
				if want := m.sees(p, c.tenant) && c.until.After(m.now); err != nil || found != want {
					t.Fatalf("released %v %v, want %v", found, err, want)
				}
				if found {
					c.until = time.Time{}
				}
			},
			"wait": func(t *rapid.T) {
				m.now = m.now.Add(rapid.SampledFrom([]time.Duration{time.Second, 10 * time.Minute, 3 * time.Hour, 40 * 24 * time.Hour}).Draw(t, "how long"))
			},
			"": func(t *rapid.T) {
				p, room, key := who.Draw(t, "reader"), rooms.Draw(t, "room read"), rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "reads as")
				limit := rapid.IntRange(1, 6).Draw(t, "limit")
				var after time.Time
				if len(m.notes) > 0 && rapid.Bool().Draw(t, "since a note") {
					after = m.notes[rapid.IntRange(0, len(m.notes)-1).Draw(t, "since")].at
				}
				got := shows(must(b.Read(as(p, "", m.now), board.Query{RoomKey: room, ParticipantKey: key, Limit: limit, After: after}))(t))
				if want := m.reads(p, room, key, limit, after); got != want {
					t.Fatalf("%+v reads %s as %q from %v:\ngot  %s\nwant %s", p, room, key, after, got, want)
				}
			},
		})
	})
}
