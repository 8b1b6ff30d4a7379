package board

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"berth/broker"
)

// Limits of a note, in characters.
const (
	maxContent = 65_536
	maxName    = 128 // of an author, and of each id that a note names
	preview    = 600
	maxBody    = 500 // of a note in its wake
)

// The types of authors.
const (
	Operator = "Operator" // whoever came with a credential
	System   = "System"   // the broker itself
)

// Draft is a note that somebody wants to post.
type Draft struct {
	Content, AuthorName, AuthorID, RoomKey    string
	VoyageID, MissionID, VesselID, IncidentID string
	ToParticipantKey                          string
}

// note is what is stored of one.
type note struct {
	Room       string `json:"room"`
	AuthorType string `json:"authorType"`
	AuthorID   string `json:"authorId"`
	AuthorName string `json:"authorName"`
	Content    string `json:"content"`
	Voyage     string `json:"voyage,omitempty"`
	Mission    string `json:"mission,omitempty"`
	Vessel     string `json:"vessel,omitempty"`
	Incident   string `json:"incident,omitempty"`
}

// stored is a record of the kinds note and signal: a note, a signal, or both.
type stored struct {
	Tenant  string     `json:"tenant"`
	User    string     `json:"user"`
	Created time.Time  `json:"created"`
	To      string     `json:"to,omitempty"`
	Type    string     `json:"type,omitempty"` // of the signal
	Payload string     `json:"payload,omitempty"`
	Read    *time.Time `json:"read,omitempty"`
	Note    *note      `json:"note,omitempty"`
	// Of a signal to who works on a mission: to whom it goes, who said it, and
	// the mission whose brief it stands in.
	Captain string `json:"captain,omitempty"`
	Voyage  string `json:"voyage,omitempty"`
	Mission string `json:"mission,omitempty"`
	By      string `json:"by,omitempty"`
	Joined  string `json:"joined,omitempty"`
}

// Message is a note as it is answered.
type Message struct {
	ID               string  `json:"Id"`
	AuthorType       string  `json:"AuthorType"`
	AuthorID         string  `json:"AuthorId"`
	AuthorName       string  `json:"AuthorName"`
	Content          string  `json:"Content"`
	VoyageID         *string `json:"VoyageId"`
	MissionID        *string `json:"MissionId"`
	VesselID         *string `json:"VesselId"`
	IncidentID       *string `json:"IncidentId"`
	ToParticipantKey *string `json:"ToParticipantKey"`
	CreatedUtc       string  `json:"CreatedUtc"`
}

func orNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// utc writes a time to the millisecond and finer, as it was.
func utc(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// message is the view of a record's note. The note of a wake has the wake's id
// with its own prefix.
func (s stored) message(id string) Message {
	if tail, of := strings.CutPrefix(id, broker.SignalPrefix); of {
		id = broker.NotePrefix + tail
	}
	n := s.Note
	return Message{ID: id, AuthorType: n.AuthorType, AuthorID: n.AuthorID, AuthorName: n.AuthorName, Content: n.Content,
		VoyageID: orNull(n.Voyage), MissionID: orNull(n.Mission), VesselID: orNull(n.Vessel), IncidentID: orNull(n.Incident),
		ToParticipantKey: orNull(s.To), CreatedUtc: utc(s.Created)}
}

// Post stores a note, and with it the wake of whoever it is addressed to. It is
// also the author's heartbeat.
func (b *Board) Post(ctx context.Context, who Caller, d Draft) (Message, error) {
	d.AuthorID = cmp.Or(strings.TrimSpace(d.AuthorID), who.Participant, d.AuthorName)
	room, err := d.check()
	if err != nil {
		return Message{}, err
	}
	n := &note{Room: room, AuthorType: Operator, AuthorID: d.AuthorID, AuthorName: d.AuthorName, Content: d.Content,
		Voyage: d.VoyageID, Mission: d.MissionID, Vessel: d.VesselID, Incident: d.IncidentID}
	out, err := b.store(ctx, stored{Tenant: who.Tenant, User: who.User, Created: who.Now, To: d.ToParticipantKey, Note: n})
	if err != nil {
		return Message{}, err
	}
	if broker.ParticipantKey(d.AuthorID) {
		// The note stands, whatever becomes of this.
		if _, err := b.beat(ctx, who, d.AuthorID, d.AuthorName, room); err != nil {
			b.opts.Log.Warn("the author of a note could not be marked as present", slog.String("cause", err.Error()))
		}
	}
	if d.ToParticipantKey != "" && b.opts.Due != nil && b.starts(d.ToParticipantKey, who.Tenant) {
		b.opts.Due()
	}
	return out, nil
}

// PostSystem stores a note of the broker itself, which every tenant sees.
func (b *Board) PostSystem(ctx context.Context, content string) error {
	_, err := b.store(ctx, stored{Created: b.opts.Now(), Note: &note{Room: broker.DefaultRoom, AuthorType: System, AuthorID: "berth", AuthorName: "berth",
		Content: cut(content, maxContent)}})
	return err
}

func (d Draft) check() (room string, err error) {
	switch {
	case strings.TrimSpace(d.Content) == "":
		return "", missing(broker.CodeMissingContent, "content")
	case strings.TrimSpace(d.AuthorName) == "":
		return "", missing(broker.CodeMissingAuthorName, "authorName")
	case utf8.RuneCountInString(d.Content) > maxContent:
		return "", unfit("content", "maxLength: wanted at most "+strconv.Itoa(maxContent)+" characters")
	}
	for _, named := range []struct{ argument, value string }{{"authorName", d.AuthorName}, {"authorId", d.AuthorID}, {"voyageId", d.VoyageID},
		{"missionId", d.MissionID}, {"vesselId", d.VesselID}, {"incidentId", d.IncidentID}} {
		if utf8.RuneCountInString(named.value) > maxName {
			return "", unfit(named.argument, "maxLength: wanted at most "+strconv.Itoa(maxName)+" characters")
		}
	}
	if d.ToParticipantKey != "" {
		if err := participantKey("toParticipantKey", d.ToParticipantKey); err != nil {
			return "", err
		}
	}
	return roomKey(strings.TrimSpace(d.RoomKey))
}

// store writes a note in one record, with its wake in the same one.
func (b *Board) store(ctx context.Context, s stored) (Message, error) {
	s.Created = s.Created.UTC()
	kind, prefix, list := KindNote, broker.NotePrefix, "room:"+s.Note.Room
	if s.To != "" {
		kind, prefix, list = KindSignal, broker.SignalPrefix, toList(s.To, s.Note.Room)
		author := s.Note.AuthorID
		if !broker.ParticipantKey(author) {
			author = bracketless(s.Note.AuthorName)
		}
		s.Type, s.Payload = Wake, "[to="+s.To+"] [from="+author+"] "+cut(s.Note.Content, maxBody)
	}
	id, err := b.newID(prefix, s.Created)
	if err != nil {
		return Message{}, err
	}
	keys := keysOf(list, s.Tenant)
	if s.To != "" {
		keys = append(keys, s.signalKeys()...)
	}
	change := broker.RecordChange{Kind: kind, ID: id, If: broker.AtRevision(0), Keys: keys, Expires: s.Created.Add(Retention)}
	if err := b.put(ctx, change, s); err != nil {
		return Message{}, err
	}
	return s.message(id), nil
}

// toList is the list of the notes to a participant in a room. No key holds a
// slash or a space.
func toList(to, room string) string { return "to:" + to + " " + room }

// bracketless is text that cannot be taken for the marks of a payload.
func bracketless(text string) string {
	return strings.NewReplacer("[", "(", "]", ")").Replace(oneLine(text))
}

// oneLine is text as one line: whatever breaks lines, controls a terminal or
// turns the direction of writing is a space.
func oneLine(text string) string {
	return strings.TrimSpace(strings.Join(strings.FieldsFunc(text, func(r rune) bool {
		return unicode.IsControl(r) || unicode.In(r, unicode.Zl, unicode.Zp, unicode.Bidi_Control)
	}), " "))
}

// cut is the first n characters of text.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for at := range text {
		if n--; n < 0 {
			return text[:at]
		}
	}
	return text
}

// Query is what somebody wants to read.
type Query struct {
	RoomKey        string
	Limit          int       // [1..500]; 0: 50
	After          time.Time // notes made later than this, the earliest first; zero: the latest
	ActiveWithin   time.Duration
	ParticipantKey string // empty: broadcast notes only
	Full           bool
}

// Shown is a note in a list.
type Shown struct {
	Message
	ContentLength int `json:"ContentLength"` // characters
	Truncated     bool
}

// Room is what a read gives.
type Room struct {
	RoomKey               string
	Messages              []Shown // in the order in which they were written
	TruncatedMessageCount int
	ActiveParticipants    []Participant
	ActiveClaims          []Claim
	UnreadWakes           []Signal
}

// How many notes an answer holds.
const (
	DefaultLimit = 50
	MaxLimit     = 500
)

// Read gives a room as the caller sees it.
func (b *Board) Read(who Caller, q Query) (Room, error) {
	room, err := roomKey(strings.TrimSpace(q.RoomKey))
	if err != nil {
		return Room{}, err
	}
	if q.ParticipantKey != "" {
		if err := participantKey("participantKey", q.ParticipantKey); err != nil {
			return Room{}, err
		}
	}
	out := Room{RoomKey: room, Messages: []Shown{}, UnreadWakes: []Signal{}}
	found, err := b.notes(who, room, q)
	if err != nil {
		return Room{}, err
	}
	for _, f := range found {
		shown := Shown{Message: f.message(f.id)}
		shown.ContentLength = utf8.RuneCountInString(shown.Content)
		if f.To == "" && !q.Full && shown.ContentLength > preview {
			shown.Content, shown.Truncated = cut(shown.Content, preview), true
			out.TruncatedMessageCount++
		}
		out.Messages = append(out.Messages, shown)
	}
	if out.ActiveParticipants, err = b.active(who, room, q.ActiveWithin); err != nil {
		return Room{}, err
	}
	if out.ActiveClaims, err = b.claims(who, room); err != nil {
		return Room{}, err
	}
	if q.ParticipantKey != "" {
		if out.UnreadWakes, err = b.unread(who, q.ParticipantKey, maxUnread); err != nil {
			return Room{}, err
		}
	}
	return out, nil
}

// found is a note with the id of its record.
type found struct {
	stored
	id string
}

// notes merges the lists that the caller sees: what goes to everybody, and what
// goes to the participant.
func (b *Board) notes(who Caller, room string, q Query) ([]found, error) {
	type list struct{ kind, prefix, key string }
	var lists []list
	for _, key := range who.listsFor("room:" + room) {
		lists = append(lists, list{KindNote, broker.NotePrefix, key})
	}
	if q.ParticipantKey != "" {
		for _, key := range who.listsFor(toList(q.ParticipantKey, room)) {
			lists = append(lists, list{KindSignal, broker.SignalPrefix, key})
		}
	}
	limit := q.Limit
	if limit == 0 {
		limit = DefaultLimit
	}
	limit = min(max(limit, 1), MaxLimit)
	var all []found
	for _, l := range lists {
		query := broker.RecordQuery{Kind: l.kind, Key: l.key, Limit: limit, Newest: q.After.IsZero()}
		if !query.Newest {
			query.After = broker.BeforeIDs(l.prefix, later(q.After, who.Now.Add(-Retention)))
		}
		some, err := b.listed(query, who.Now, q.After)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	// Ids sort by age behind their prefix, of which all have the same length.
	slices.SortFunc(all, func(a, b found) int {
		return strings.Compare(a.id[len(broker.NotePrefix):], b.id[len(broker.NotePrefix):])
	})
	if len(all) > limit {
		if q.After.IsZero() {
			all = all[len(all)-limit:]
		} else {
			all = all[:limit]
		}
	}
	return all, nil
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// listed reads a list up to its limit. Of the newest it stops at the first that
// has expired, because the rest are older; otherwise it passes over what is not
// later than after.
func (b *Board) listed(q broker.RecordQuery, now, after time.Time) (out []found, err error) {
	limit := q.Limit
	for {
		records, err := b.records(q)
		if err != nil {
			return nil, err
		}
		for _, r := range records {
			q.After = r.ID
			f := found{id: r.ID}
			if expired(r, now) {
				if q.Newest {
					return out, nil
				}
				continue
			}
			if err := decode(r, &f.stored); err != nil {
				return nil, err
			}
			if f.Created.After(after) && len(out) < limit {
				out = append(out, f)
			}
		}
		if q.Newest || len(out) == limit || len(records) < q.Limit {
			return out, nil
		}
	}
}
