package board

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"berth/broker"
	"berth/broker/dispatch"
)

// The types of signals that go to those who work on missions.
const (
	Mail  = "Mail"
	Nudge = "Nudge"
)

// Progress is the type of a signal by which the broker tells the owner of a
// mission what was done with it. It stands in no brief.
const Progress = "Progress"

const maxMessage = 16_384 // characters of a signal to a captain or a voyage

// NudgeAsk is what somebody wants to say to who works on a voyage or a mission.
type NudgeAsk struct {
	VoyageID, MissionID, Type, Message, CreatedBy string
}

// SendSignal stores mail for a captain, which stands in the brief of the mission
// that it works on next.
func (b *Board) SendSignal(ctx context.Context, who Caller, captainID, message string) (Signal, error) {
	captain, err := readable[dispatch.Captain](b, who, strings.TrimSpace(captainID), "Captain", broker.CodeCaptainNotFound)
	if err != nil {
		return Signal{}, err
	}
	s := stored{Type: Mail, Captain: captain.ID, By: who.Participant}
	return b.say(ctx, who, s, message, captainList(captain.ID))
}

// NudgeVoyage stores what stands in the brief of the stage that begins next: of
// a voyage, or of a mission, which is its own while it waits, and after that the
// one that builds on it.
func (b *Board) NudgeVoyage(ctx context.Context, who Caller, ask NudgeAsk) (Signal, error) {
	voyage, mission := strings.TrimSpace(ask.VoyageID), strings.TrimSpace(ask.MissionID)
	switch {
	case (voyage == "") == (mission == ""):
		return Signal{}, broker.Refuse(broker.CodeTargetAmbiguous, "Name a voyage or a mission, and not both.", map[string]any{"Arguments": []string{"voyageId", "missionId"}})
	case ask.Type != Nudge && ask.Type != Mail:
		return Signal{}, broker.Refuse(broker.CodeInvalidType, "The type is Nudge or Mail.", map[string]any{"Types": []string{Nudge, Mail}})
	case utf8.RuneCountInString(ask.CreatedBy) > maxName:
		return Signal{}, unfit("createdBy", fmt.Sprintf("maxLength: wanted at most %d characters", maxName))
	}
	s := stored{Type: ask.Type, By: cmp.Or(who.Participant, oneLine(ask.CreatedBy))}
	if voyage != "" {
		v, err := readable[dispatch.Voyage](b, who, voyage, "Voyage", broker.CodeVoyageNotFound)
		if err != nil {
			return Signal{}, err
		}
		s.Voyage = v.ID
		return b.say(ctx, who, s, ask.Message, voyageList(v.ID))
	}
	m, err := readable[dispatch.Mission](b, who, mission, "Mission", broker.CodeMissionNotFound)
	if err != nil {
		return Signal{}, err
	}
	s.Mission = m.ID
	return b.say(ctx, who, s, ask.Message, missionList(m.ID))
}

// say stores a signal of the caller's in a list of its target.
func (b *Board) say(ctx context.Context, who Caller, s stored, message, list string) (Signal, error) {
	switch {
	case strings.TrimSpace(message) == "":
		return Signal{}, missing(broker.CodeMissingMessage, "message")
	case utf8.RuneCountInString(message) > maxMessage:
		return Signal{}, unfit("message", fmt.Sprintf("maxLength: wanted at most %d characters", maxMessage))
	}
	s.Tenant, s.User, s.Created, s.Payload = who.Tenant, who.User, who.Now.UTC(), message
	s.By = cmp.Or(s.By, who.Key())
	id, err := b.newID(broker.SignalPrefix, s.Created)
	if err != nil {
		return Signal{}, err
	}
	change := broker.RecordChange{Kind: KindSignal, ID: id, If: broker.AtRevision(0), Keys: []string{list}, Expires: s.Created.Add(Retention)}
	if err := b.put(ctx, change, s); err != nil {
		return Signal{}, err
	}
	return s.signal(id), nil
}

// The lists of what was said to a captain, a voyage or a mission. Ids hold no
// slash or space.
func captainList(id string) string { return "captain:" + id }
func voyageList(id string) string  { return "voyage:" + id }
func missionList(id string) string { return "mission:" + id }

// maxEcho is how much of an id that names nothing is repeated, in bytes.
const maxEcho = 64

// readable reads a record that the caller may know of; another's reads as one
// that never existed.
func readable[R dispatch.Stored](b *Board, who Caller, id, word string, code broker.Code) (R, error) {
	kept, err := dispatch.Read[R](b.opts.Store, id)
	switch {
	case errors.Is(err, broker.ErrRecordNotFound), err == nil && !kept.Value.Whose().Readable(who.Principal):
		if len(id) > maxEcho {
			id = strings.ToValidUTF8(id[:maxEcho], "") + "..."
		}
		return kept.Value, broker.Refuse(code, word+" not found", map[string]any{word + "Id": id})
	}
	return kept.Value, err
}

// Said is something that was said to who works on a mission.
type Said struct {
	ID      string
	Type    string
	By      string
	Message string
}

// maxSaid is how much of each list a brief takes, the oldest first: what is left
// is taken by the next one.
const maxSaid = 50

// Join takes what was said to a mission that is about to begin and that no brief
// has had: to the mission itself, to the one that it builds on, to its voyage
// and to its captain. Each counts as read from then on and belongs to this
// mission: asked again for it, Join gives it again, so that a mission that is
// begun again has it too. What cannot be marked is given and stays unread.
func (b *Board) Join(ctx context.Context, m dispatch.Mission, captainID string) ([]Said, error) {
	lists := []string{missionList(m.ID)}
	if m.DependsOn != nil {
		lists = append(lists, missionList(*m.DependsOn))
	}
	if m.VoyageID != nil {
		lists = append(lists, voyageList(*m.VoyageID))
	}
	if captainID != "" {
		lists = append(lists, captainList(captainID))
	}
	now := b.opts.Now()
	out := []Said{}
	for _, list := range lists {
		said, err := b.join(ctx, m, list, Caller{Now: now})
		if err != nil {
			return nil, err
		}
		out = append(out, said...)
	}
	slices.SortFunc(out, func(x, y Said) int { return strings.Compare(x.ID, y.ID) })
	return out, nil
}

func (b *Board) join(ctx context.Context, m dispatch.Mission, list string, at Caller) (out []Said, err error) {
	q := broker.RecordQuery{Kind: KindSignal, Key: list, Limit: signalsAtOnce, After: broker.BeforeIDs(broker.SignalPrefix, at.Now.Add(-Retention))}
	for len(out) < maxSaid {
		records, err := b.records(q)
		if err != nil || len(records) == 0 {
			return out, err
		}
		for _, r := range records {
			q.After = r.ID
			var s stored
			if err := decode(r, &s); err != nil {
				return nil, err
			}
			if expired(r, at.Now) || len(out) == maxSaid || s.Joined != m.ID && (s.Joined != "" || s.Read != nil) {
				continue
			}
			out = append(out, Said{r.ID, s.Type, s.By, s.Payload})
			if s.Joined == m.ID {
				continue
			}
			read := at.Now.UTC()
			s.Joined, s.Read = m.ID, &read
			err := b.put(ctx, broker.RecordChange{Kind: KindSignal, ID: r.ID, If: broker.AtRevision(r.Revision), Keys: r.Keys, Expires: r.Expires}, s)
			if errors.Is(err, broker.ErrRecordRevision) { // another brief has it, or it was marked
				out = out[:len(out)-1]
			} else if err != nil {
				b.opts.Log.Warn("a signal that joined a brief could not be marked", slog.String("mission", m.ID), slog.String("cause", err.Error()))
			}
		}
	}
	return out, nil
}

// maxTitle is how much of a mission's title and of why it failed a wake has.
const maxTitle = 200

// MissionEnded stores the wake that tells of a mission's end. It is addressed to
// nobody: the effective AgentWake participant of the mission's tenant has it. A
// board that fails is logged; the mission has ended all the same.
func (b *Board) MissionEnded(m dispatch.Mission) {
	text := fmt.Sprintf("[vsl=%s] Mission %s (%s) ended %s", m.VesselID, m.ID, cut(bracketless(m.Title), maxTitle), m.Status)
	if m.FailureReason != nil {
		text += ": " + string(*m.FailureReason)
		if m.FailureMessage != nil && *m.FailureMessage != "" {
			text += " (" + cut(bracketless(*m.FailureMessage), maxTitle) + ")"
		}
	}
	if err := b.storeWake(context.Background(), m.TenantID, text+"."); err != nil {
		b.opts.Log.Warn("the wake of a mission's end could not be stored", slog.String("mission", m.ID), slog.String("cause", err.Error()))
	}
}

// Restarted stores the signal of a mission that somebody restarted. It belongs to
// the mission's owner, whoever restarted it.
func (b *Board) Restarted(ctx context.Context, by broker.Principal, m dispatch.Mission) error {
	s := stored{Tenant: m.TenantID, User: m.UserID, Created: b.opts.Now().UTC(), Type: Progress, By: by.Key(), Mission: m.ID,
		Payload: fmt.Sprintf("The mission %s (%s) was restarted.", m.ID, cut(oneLine(m.Title), maxTitle))}
	id, err := b.newID(broker.SignalPrefix, s.Created)
	if err != nil {
		return err
	}
	return b.put(ctx, broker.RecordChange{Kind: KindSignal, ID: id, If: broker.AtRevision(0), Expires: s.Created.Add(Retention)}, s)
}

// Dispatched posts a note when work on a vessel goes across others' claims of
// it, in the room of each claim; without one it posts nothing. A claim is advice:
// whoever dispatches goes on. title is that of the voyage.
func (b *Board) Dispatched(ctx context.Context, by broker.Principal, participant string, v dispatch.Vessel, title string) error {
	now := b.opts.Now()
	across, err := b.claimed(v, participant, now)
	if err != nil {
		return err
	}
	for _, room := range slices.Sorted(maps.Keys(across)) {
		content := fmt.Sprintf("[claims] %s dispatched %q on vessel %s (%s) across the claim of %s.", cmp.Or(participant, by.Key()), cut(oneLine(title), maxTitle), v.Name, v.ID, strings.Join(across[room], "; "))
		n := &note{Room: room, AuthorType: System, AuthorID: "berth", AuthorName: "berth", Content: cut(content, maxContent), Vessel: v.ID}
		if _, err := b.store(ctx, stored{Tenant: v.TenantID, Created: now, Note: n}); err != nil {
			return err
		}
	}
	return nil
}

// claimed describes the claims of a vessel, by its id or its name, that are not a
// participant's own, by room.
func (b *Board) claimed(v dispatch.Vessel, own string, now time.Time) (map[string][]string, error) {
	byRoom := map[string][]string{}
	for _, subject := range []string{v.ID, v.Name} {
		records, err := b.records(broker.RecordQuery{Kind: KindClaim, Key: onList("vessel", subject) + "/" + v.TenantID, Limit: maxRoomClaims})
		if err != nil {
			return nil, err
		}
		for _, r := range records {
			var c claim
			if err := decode(r, &c); err != nil {
				return nil, err
			}
			if expired(r, now) || c.Key == own {
				continue
			}
			text := c.Key
			if c.Name != "" {
				text += " (" + bracketless(c.Name) + ")"
			}
			if c.Note != "" {
				text += ": " + cut(bracketless(c.Note), maxTitle)
			}
			byRoom[c.Room] = append(byRoom[c.Room], text)
		}
	}
	return byRoom, nil
}
