package board

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"
	"unicode/utf8"

	"berth/broker"
)

// How long a claim lasts.
const (
	claimTime    = 4 * time.Hour
	minClaimTime = 30 * time.Minute
	maxClaimTime = 72 * time.Hour
)

const (
	maxClaims     = 200 // of one participant
	maxRoomClaims = 500 // that one answer holds
	maxClaimNote  = 1000
)

// Claim is one as it is answered. It is advice, never a lock.
type Claim struct {
	ID             string `json:"Id"`
	SubjectType    string
	SubjectID      string `json:"SubjectId"`
	ParticipantKey string
	DisplayName    *string
	Note           *string
	RoomKey        string
	CreatedUtc     string
	ExpiresUtc     string
	ReleasedUtc    *string `json:",omitempty"`
}

// claim is what is stored of one.
type claim struct {
	Tenant      string    `json:"tenant"`
	Key         string    `json:"key"`
	Name        string    `json:"name,omitempty"`
	Room        string    `json:"room"`
	SubjectType string    `json:"subjectType"`
	SubjectID   string    `json:"subjectId"`
	Note        string    `json:"note,omitempty"`
	Created     time.Time `json:"created"`
}

func (c claim) view(id string, expires time.Time) Claim {
	return Claim{ID: id, SubjectType: c.SubjectType, SubjectID: c.SubjectID, ParticipantKey: c.Key, DisplayName: orNull(c.Name), Note: orNull(c.Note),
		RoomKey: c.Room, CreatedUtc: utc(c.Created), ExpiresUtc: utc(expires)}
}

func byList(key string) string { return "by:" + key }

// onList is the list of the claims of one subject. A subject with a slash stands
// in none: no id or name of a vessel has one.
func onList(subjectType, id string) string { return "on:" + subjectType + ":" + id }

// keys are the lists that a claim stands in.
func (c claim) keys() []string {
	keys := append(keysOf("room:"+c.Room, c.Tenant), byList(c.Key)+"/"+c.Tenant)
	if !strings.Contains(c.SubjectID, "/") {
		keys = append(keys, onList(c.SubjectType, c.SubjectID)+"/"+c.Tenant)
	}
	return keys
}

// ClaimAsk is what somebody wants to claim.
type ClaimAsk struct {
	SubjectType, SubjectID, Note, ParticipantKey, DisplayName, RoomKey string
	TTL                                                                time.Duration // zero: four hours
}

// Claim says that a participant works on something. Of what it claims already
// the claim is renewed.
func (b *Board) Claim(ctx context.Context, who Caller, ask ClaimAsk) (Claim, error) {
	c, err := ask.check(who)
	if err != nil {
		return Claim{}, err
	}
	ttl := cmp.Or(ask.TTL, claimTime)
	expires := c.Created.Add(min(max(ttl, minClaimTime), maxClaimTime))
	own, err := b.claimsOf(who, c.Key)
	if err != nil {
		return Claim{}, err
	}
	change := broker.RecordChange{Kind: KindClaim, If: broker.AtRevision(0), Keys: c.keys(), Expires: expires}
	for _, r := range own {
		var before claim
		if err := decode(r, &before); err != nil {
			return Claim{}, err
		}
		if before.SubjectType == c.SubjectType && before.SubjectID == c.SubjectID && before.Room == c.Room {
			c.Created = before.Created
			change.ID, change.If = r.ID, nil
		}
	}
	if change.ID == "" {
		if len(own) >= maxClaims {
			return Claim{}, broker.Refuse(broker.CodeOverloaded, "This participant has as many claims as one may have; release some.", map[string]any{"Claims": len(own)})
		}
		if change.ID, err = b.newID(broker.ClaimPrefix, who.Now); err != nil {
			return Claim{}, err
		}
	}
	if err := b.put(ctx, change, c); err != nil {
		return Claim{}, err
	}
	return c.view(change.ID, expires), nil
}

func (ask ClaimAsk) check(who Caller) (claim, error) {
	key := cmp.Or(ask.ParticipantKey, who.Participant)
	subject := strings.TrimSpace(ask.SubjectID)
	room, err := roomKey(strings.TrimSpace(ask.RoomKey))
	switch {
	case subject == "" || ask.SubjectType == "":
		return claim{}, missing(broker.CodeMissingSubject, "subjectType and subjectId")
	case ask.SubjectType != "vessel" && ask.SubjectType != "objective":
		return claim{}, unfit("subjectType", "enum: wanted vessel or objective")
	case key == "":
		return claim{}, missing(broker.CodeMissingParticipant, "participantKey")
	case err != nil:
		return claim{}, err
	case utf8.RuneCountInString(subject) > maxName:
		return claim{}, unfit("subjectId", "maxLength: wanted at most 128 characters")
	case utf8.RuneCountInString(ask.DisplayName) > maxName:
		return claim{}, unfit("displayName", "maxLength: wanted at most 128 characters")
	case utf8.RuneCountInString(ask.Note) > maxClaimNote:
		return claim{}, unfit("note", "maxLength: wanted at most 1000 characters")
	}
	return claim{Tenant: who.Tenant, Key: key, Name: ask.DisplayName, Room: room, SubjectType: ask.SubjectType, SubjectID: subject,
		Note: ask.Note, Created: who.Now.UTC()}, participantKey("participantKey", key)
}

// Release ends a claim; anybody who sees it may. false: there is none.
func (b *Board) Release(ctx context.Context, who Caller, id string) (Claim, bool, error) {
	if strings.TrimSpace(id) == "" {
		return Claim{}, false, missing(broker.CodeMissingClaimID, "claimId")
	}
	r, err := b.record(KindClaim, id, who.Now)
	if err != nil || r == nil {
		return Claim{}, false, err
	}
	var c claim
	if err := decode(*r, &c); err != nil {
		return Claim{}, false, err
	}
	if !who.sees(c.Tenant) {
		return Claim{}, false, nil
	}
	err = b.put(ctx, broker.RecordChange{Kind: KindClaim, ID: id}, nil)
	if errors.Is(err, broker.ErrRecordNotFound) {
		return Claim{}, false, nil
	}
	if err != nil {
		return Claim{}, false, err
	}
	out := c.view(id, r.Expires)
	at := utc(who.Now)
	out.ReleasedUtc = &at
	return out, true, nil
}

// Claims lists the claims of a room, the oldest first.
func (b *Board) Claims(who Caller, roomText string) ([]Claim, error) {
	room, err := roomKey(strings.TrimSpace(roomText))
	if err != nil {
		return nil, err
	}
	return b.claims(who, room)
}

func (b *Board) claims(who Caller, room string) ([]Claim, error) {
	out := []Claim{}
	records, err := b.records(broker.RecordQuery{Kind: KindClaim, Key: who.listsFor("room:" + room)[0], Limit: maxRoomClaims})
	if err != nil {
		return nil, err
	}
	for _, r := range records {
		var c claim
		if err := decode(r, &c); err != nil {
			return nil, err
		}
		if !expired(r, who.Now) {
			out = append(out, c.view(r.ID, r.Expires))
		}
	}
	return out, nil
}

// claimsOf are the records of the claims of a participant of the caller's tenant.
func (b *Board) claimsOf(who Caller, key string) ([]broker.Record, error) {
	records, err := b.records(broker.RecordQuery{Kind: KindClaim, Key: byList(key) + "/" + who.Tenant, Limit: 2 * maxClaims})
	live := records[:0]
	for _, r := range records {
		if !expired(r, who.Now) {
			live = append(live, r)
		}
	}
	return live, err
}

// extend has a participant's claims last four hours from now. One that was
// changed meanwhile is as that change left it.
func (b *Board) extend(ctx context.Context, who Caller, key string) error {
	own, err := b.claimsOf(who, key)
	if err != nil {
		return err
	}
	until := who.Now.UTC().Add(claimTime)
	for _, r := range own {
		if !r.Expires.Before(until) {
			continue
		}
		_, err := b.opts.Store.Put(ctx, broker.RecordChange{Kind: KindClaim, ID: r.ID, If: broker.AtRevision(r.Revision), Value: r.Value, Keys: r.Keys, Expires: until})
		if err != nil && !errors.Is(err, broker.ErrRecordRevision) && !errors.Is(err, broker.ErrRecordNotFound) {
			b.opts.Log.Warn("a claim could not be extended", slog.String("claim", r.ID), slog.String("cause", err.Error()))
		}
	}
	return nil
}
