package board

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"berth/broker"
)

// Wake is the type of a signal that asks its addressee to act.
const Wake = "Wake"

// maxUnread is how many unread wakes an answer holds, the oldest first: the next
// come when those were read.
const maxUnread = 200

// Signal is one as it is answered.
type Signal struct {
	ID         string `json:"Id"`
	Type       string
	Payload    string
	Read       bool
	CreatedUtc string
	targets
}

// targets are to whom a signal goes that is no wake, and who said it.
type targets struct {
	CreatedBy   *string `json:",omitempty"`
	ToCaptainID *string `json:"ToCaptainId,omitempty"`
	VoyageID    *string `json:"VoyageId,omitempty"`
	MissionID   *string `json:"MissionId,omitempty"`
	// JoinedMissionID is the mission whose brief it stands in.
	JoinedMissionID *string `json:"JoinedMissionId,omitempty"`
}

func (s stored) targets() targets {
	return targets{orNull(s.By), orNull(s.Captain), orNull(s.Voyage), orNull(s.Mission), orNull(s.Joined)}
}

func (s stored) signal(id string) Signal {
	return Signal{ID: id, Type: s.Type, Payload: s.Payload, Read: s.Read != nil, CreatedUtc: utc(s.Created), targets: s.targets()}
}

// unreadList is the list of unread wakes of a participant; empty: of those that
// are addressed to nobody.
func unreadList(to string) string { return "unread:" + to }

// signalKeys are the lists that a signal stands in as one.
func (s stored) signalKeys() []string {
	if s.Type != Wake || s.Read != nil {
		return nil
	}
	return keysOf(unreadList(s.To), s.Tenant)
}

// StoreWake stores a wake that is addressed to nobody: it is the effective
// AgentWake participant's.
func (b *Board) StoreWake(ctx context.Context, payload string) error {
	return b.storeWake(ctx, "", payload)
}

// storeWake stores a wake for a tenant; an empty one is every tenant.
func (b *Board) storeWake(ctx context.Context, tenant, payload string) error {
	s := stored{Tenant: tenant, Created: b.opts.Now().UTC(), Type: Wake, Payload: cut(payload, maxContent)}
	id, err := b.newID(broker.SignalPrefix, s.Created)
	if err != nil {
		return err
	}
	return b.put(ctx, broker.RecordChange{Kind: KindSignal, ID: id, If: broker.AtRevision(0), Keys: s.signalKeys(), Expires: s.Created.Add(Retention)}, s)
}

// wakeLists are the lists of the unread wakes of a participant, its own before
// those that are addressed to nobody.
func (b *Board) wakeLists(who Caller, participant string) []string {
	lists := who.listsFor(unreadList(participant))[:1] // the broker addresses nobody
	if key, tenant := b.effective(); key == participant && (who.all() || tenant == who.Tenant) {
		lists = append(lists, who.listsFor(unreadList(""))...)
	}
	return lists
}

// unread gives the unread wakes of a participant, the oldest first.
func (b *Board) unread(who Caller, participant string, limit int) ([]Signal, error) {
	out := []Signal{}
	for _, key := range b.wakeLists(who, participant) {
		if len(out) >= limit {
			break
		}
		records, err := b.records(b.unreadQuery(who, key, limit-len(out)))
		if err != nil {
			return nil, err
		}
		for _, r := range records {
			var s stored
			if err := decode(r, &s); err != nil {
				return nil, err
			}
			if !expired(r, who.Now) {
				out = append(out, s.signal(r.ID))
			}
		}
	}
	return out, nil
}

// unreadQuery leaves out what has expired, which is in front of all else.
func (b *Board) unreadQuery(who Caller, key string, limit int) broker.RecordQuery {
	return broker.RecordQuery{Kind: KindSignal, Key: key, Limit: limit, After: broker.BeforeIDs(broker.SignalPrefix, who.Now.Add(-Retention))}
}

// What became of an acknowledgement.
const (
	Marked      = "marked"
	AlreadyRead = "already_read"
	NotFound    = "not_found"
)

// Acknowledged is the answer to one.
type Acknowledged struct {
	Status   string
	SignalID string `json:"SignalId"`
}

// MarkRead marks a signal as read. With a participant it may be one of that
// participant's wakes only; without, any that the caller sees.
func (b *Board) MarkRead(ctx context.Context, who Caller, id string) (Acknowledged, error) {
	status, err := b.mark(ctx, who, id, b.mayMark)
	return Acknowledged{status, id}, err
}

// maxTries bounds how often a change is tried again that met another one.
const maxTries = 8

func (b *Board) mark(ctx context.Context, who Caller, id string, may func(Caller, stored) error) (string, error) {
	for try := 0; ; try++ {
		r, err := b.record(KindSignal, id, who.Now)
		if err != nil {
			return "", err
		}
		if r == nil {
			return NotFound, nil
		}
		var s stored
		if err := decode(*r, &s); err != nil {
			return "", err
		}
		if !who.sees(s.Tenant) || (s.Tenant == "" && !who.all() && who.Participant == "") {
			return NotFound, nil
		}
		if may != nil {
			if err := may(who, s); err != nil {
				return "", err
			}
		}
		if s.Read != nil {
			return AlreadyRead, nil
		}
		now := who.Now.UTC()
		unread := s.signalKeys()
		s.Read = &now
		keys := slices.DeleteFunc(slices.Clone(r.Keys), func(k string) bool { return slices.Contains(unread, k) })
		err = b.put(ctx, broker.RecordChange{Kind: KindSignal, ID: id, If: broker.AtRevision(r.Revision), Keys: keys, Expires: r.Expires}, s)
		if err == nil {
			return Marked, nil
		}
		if !errors.Is(err, broker.ErrRecordRevision) || try == maxTries {
			return "", err
		}
	}
}

// mayMark is who may acknowledge what (contracts/native.md section 7).
func (b *Board) mayMark(who Caller, s stored) error {
	if who.Participant == "" {
		if who.all() || b.opts.Team() {
			return nil
		}
		return broker.Refuse(broker.CodeGlobalAdministrator, "Without a participant key only a global administrator marks signals as read.",
			map[string]any{"Reason": broker.CodeGlobalAdministrator})
	}
	effective, tenant := b.effective()
	switch {
	case s.Type != Wake:
		return broker.Refuse(broker.CodeSignalNotWake, "The signal is no wake, and a participant acknowledges its wakes only.", map[string]any{"Type": s.Type})
	case s.To != "" && s.To != who.Participant:
		return broker.Refuse(broker.CodeWakeNotAddressed, "The wake is addressed to another participant.", nil)
	case s.To == "" && (who.Participant != effective || (!who.all() && tenant != who.Tenant)):
		return broker.Refuse(broker.CodeWakeOwnerOnly, "The wake is addressed to nobody; only the AgentWake participant acknowledges it.",
			map[string]any{"ParticipantKey": orNull(effective)})
	}
	return nil
}

// Deleted is the answer to a deletion of many.
type Deleted struct {
	Status  string
	Deleted int
	Skipped []Skipped
}

// Skipped is one that was not deleted.
type Skipped struct {
	ID     string `json:"Id"`
	Reason string
}

// maxIDs is how many ids one deletion may name.
const maxIDs = 1000

// DeleteSignals takes signals away: each is marked as read and kept. One bad id
// does not stop the rest; a failing journal does.
func (b *Board) DeleteSignals(ctx context.Context, who Caller, ids []string) (Deleted, error) {
	switch {
	case len(ids) == 0:
		return Deleted{}, missing(broker.CodeMissingIDs, "ids")
	case len(ids) > maxIDs:
		return Deleted{}, unfit("ids", "maxItems: wanted at most "+strconv.Itoa(maxIDs))
	}
	out := Deleted{Skipped: []Skipped{}}
	for _, id := range ids {
		status, err := b.mark(ctx, who, id, nil)
		switch {
		case err != nil:
			return Deleted{}, err
		case status == NotFound:
			out.Skipped = append(out.Skipped, Skipped{id, NotFound})
		default:
			out.Deleted++
		}
	}
	switch {
	case out.Deleted == 0:
		out.Status = "NoneDeleted"
	case len(out.Skipped) > 0:
		out.Status = "PartiallyDeleted"
	default:
		out.Status = "Deleted"
	}
	return out, nil
}
