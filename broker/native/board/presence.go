package board

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"berth/broker"
)

// Participant is who was seen in a room.
type Participant struct {
	ParticipantKey string
	DisplayName    string
	RoomKey        string
	LastSeenUtc    string
}

// seen is what is stored of one.
type seen struct {
	Tenant string    `json:"tenant"`
	Key    string    `json:"key"`
	Name   string    `json:"name"`
	Room   string    `json:"room"`
	At     time.Time `json:"at"`
}

func (s seen) view() Participant { return Participant{s.Key, s.Name, s.Room, utc(s.At)} }

// Heard is the answer to a heartbeat.
type Heard struct {
	Participant Participant
	UnreadWakes []Signal
}

// Heartbeat says that a participant is there. Its claims last at least four hours
// from now.
func (b *Board) Heartbeat(ctx context.Context, who Caller, key, name, roomText string) (Heard, error) {
	room, err := roomKey(strings.TrimSpace(roomText))
	switch {
	case strings.TrimSpace(key) == "":
		return Heard{}, missing(broker.CodeMissingParticipant, "participantKey")
	case strings.TrimSpace(name) == "":
		return Heard{}, missing(broker.CodeMissingDisplayName, "displayName")
	case utf8.RuneCountInString(name) > maxName:
		return Heard{}, unfit("displayName", "maxLength: wanted at most 128 characters")
	case err != nil:
		return Heard{}, err
	}
	if err := participantKey("participantKey", key); err != nil {
		return Heard{}, err
	}
	at, err := b.beat(ctx, who, key, name, room)
	if err != nil {
		return Heard{}, err
	}
	wakes, err := b.unread(who, key, maxUnread)
	return Heard{at, wakes}, err
}

// beat marks a participant as present and extends its claims.
func (b *Board) beat(ctx context.Context, who Caller, key, name, room string) (Participant, error) {
	s := seen{Tenant: who.Tenant, Key: key, Name: name, Room: room, At: who.Now.UTC()}
	change := broker.RecordChange{Kind: KindPresence, ID: room + " " + key + "/" + who.Tenant, Keys: keysOf("room:"+room, who.Tenant), Expires: s.At.Add(presence)}
	if err := b.put(ctx, change, s); err != nil {
		return Participant{}, err
	}
	return s.view(), b.extend(ctx, who, key)
}

const (
	defaultActive = 15 * time.Minute
	maxActive     = 1000 // participants that are looked at
)

// active gives who was seen in a room, the latest first.
func (b *Board) active(who Caller, room string, within time.Duration) ([]Participant, error) {
	if within <= 0 {
		within = defaultActive
	}
	var all []seen
	for _, key := range who.listsFor("room:" + room)[:1] { // the broker is nobody
		records, err := b.records(broker.RecordQuery{Kind: KindPresence, Key: key, Limit: maxActive})
		if err != nil {
			return nil, err
		}
		for _, r := range records {
			var s seen
			if err := decode(r, &s); err != nil {
				return nil, err
			}
			if !expired(r, who.Now) && who.Now.Sub(s.At) <= within {
				all = append(all, s)
			}
		}
	}
	slices.SortFunc(all, func(a, b seen) int { return cmp.Or(b.At.Compare(a.At), strings.Compare(a.Key, b.Key)) })
	out := make([]Participant, 0, len(all))
	for _, s := range all {
		out = append(out, s.view())
	}
	return out, nil
}
