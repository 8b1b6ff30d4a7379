package board

import (
	"cmp"
	"context"
	"encoding/json"
	"math"
	"strconv"
	"time"

	"berth/broker"
	"berth/broker/catalog"
	"berth/broker/condition"
	"berth/broker/native"
)

// Family is the name of the family.
const Family = "board"

// The verbs.
const (
	VerbPost      = "coordination_post"
	VerbRead      = "coordination_read"
	VerbHeartbeat = "coordination_heartbeat"
	VerbClaim     = "coordination_claim"
	VerbMark      = "mark_signal_read"
	VerbDelete    = "delete_signals"
	VerbRegister  = "register_agentwake_session"
	VerbStatus    = "agentwake_status"
	VerbSend      = "send_signal"
	VerbNudge     = "nudge_voyage"
)

const room = `"roomKey":{"type":"string","description":"default: fleet"}`

const (
	postEntry = `{"name":"coordination_post","title":"Post a note","description":"Post a note to the coordination board, for everybody in the room or, with toParticipantKey, for one participant, who is woken with it: its next tool result says so until it acknowledges the wake.",` +
		`"inputSchema":{"type":"object","properties":{"content":{"type":"string","maxLength":65536},"authorName":{"type":"string","maxLength":128,"description":"Who writes."},` +
		`"authorId":{"type":"string","maxLength":128,"description":"Your participant key; default: that of your session, else authorName."},` + room + `,` +
		`"voyageId":{"type":"string","maxLength":128},"missionId":{"type":"string","maxLength":128},"vesselId":{"type":"string","maxLength":128},"incidentId":{"type":"string","maxLength":128},` +
		`"toParticipantKey":{"type":"string","description":"The one participant it is for."}},"required":["content","authorName"]},"annotations":{"openWorldHint":false}}`
	readEntry = `{"name":"coordination_read","title":"Read the board","description":"Read a room of the coordination board: its latest notes, who was active, what is claimed and, with a participantKey, notes and unread wakes for it.",` +
		`"inputSchema":{"type":"object","properties":{` + room + `,"limit":{"type":"integer","default":50,"description":"1 to 500"},` +
		`"afterUtc":{"type":"string","description":"Only notes later than this time, the earliest first in line; ISO 8601."},` +
		`"activeWithinMinutes":{"type":"number","default":15,"description":"1 to 60"},"participantKey":{"type":"string","description":"default: that of your session"},` +
		`"includeFullContent":{"type":"boolean","default":false,"description":"Notes to everybody are cut at 600 characters otherwise."}}},"annotations":{"openWorldHint":false}}`
	heartbeatEntry = `{"name":"coordination_heartbeat","title":"Say that you are there","description":"Say that a participant is active, extend its claims by four hours, and get its unread wakes.",` +
		`"inputSchema":{"type":"object","properties":{"participantKey":{"type":"string"},"displayName":{"type":"string","maxLength":128},` + room + `},"required":["participantKey","displayName"]},` +
		`"annotations":{"idempotentHint":true,"openWorldHint":false}}`
	claimEntry = `{"name":"coordination_claim","title":"Claim what you work on","description":"Claim a vessel or an objective for a participant, release a claim, or list the claims of a room. A claim is advice, not a lock.",` +
		`"inputSchema":{"type":"object","properties":{"action":{"type":"string","description":"claim, release or list"},"subjectType":{"type":"string","description":"vessel or objective"},` +
		`"subjectId":{"type":"string","maxLength":128},"note":{"type":"string","maxLength":1000},"participantKey":{"type":"string","description":"default: that of your session"},"displayName":{"type":"string","maxLength":128},` +
		`"ttlHours":{"type":"number","default":4,"description":"0.5 to 72"},"claimId":{"type":"string","description":"of the claim to release"},` + room + `},"required":["action"]},"annotations":{"openWorldHint":false}}`
	markEntry = `{"name":"mark_signal_read","title":"Mark a wake as read","description":"Mark a signal as read, once you have acted on it. The ids of your unread wakes are in the answers of coordination_read and coordination_heartbeat.",` +
		`"inputSchema":{"type":"object","properties":{"signalId":{"type":"string"}},"required":["signalId"]},"annotations":{"idempotentHint":true,"openWorldHint":false}}`
	deleteEntry = `{"name":"delete_signals","title":"Delete signals","description":"Take signals away, by their ids: they count as read and are kept.",` +
		`"inputSchema":{"type":"object","properties":{"ids":{"type":"array","items":{"type":"string"},"maxItems":1000}},"required":["ids"]},"annotations":{"idempotentHint":true,"openWorldHint":false}}`
	registerEntry = `{"name":"register_agentwake_session","title":"Register a process target","description":"Register the one process target that a wake starts, until the broker stops. Its participant key goes before the configured one.",` +
		`"inputSchema":{"type":"object","properties":{"runtime":{"type":"string","description":"Claude, Codex or OpenCode"},"participantKey":{"type":"string"},` +
		`"sessionId":{"type":"string","maxLength":128,"description":"The conversation to take up; OpenCode always begins anew."},"command":{"type":"string","description":"absolute path of the program on the broker's machine"},` +
		`"workingDirectory":{"type":"string","description":"absolute path"},"clientName":{"type":"string","maxLength":128}},"required":["runtime"]},"annotations":{"idempotentHint":true,"openWorldHint":false}}`
	sendEntry = `{"name":"send_signal","title":"Write to a captain","description":"Leave mail for a captain. It stands in the brief of the mission that the captain works on next.",` +
		`"inputSchema":{"type":"object","properties":{"captainId":{"type":"string"},"message":{"type":"string","maxLength":16384}},"required":["captainId","message"]},"annotations":{"openWorldHint":false}}`
	nudgeEntry = `{"name":"nudge_voyage","title":"Say something to a voyage","description":"Say something to who works on a voyage or a mission. It joins the brief of the next stage that begins; an agent that works already does not see it.",` +
		`"inputSchema":{"type":"object","properties":{"voyageId":{"type":"string","description":"Either this"},"missionId":{"type":"string","description":"or this"},"type":{"type":"string","description":"Nudge or Mail"},` +
		`"message":{"type":"string","maxLength":16384},"createdBy":{"type":"string","maxLength":128,"description":"Who says it; the participant key of your session goes before it."}},"required":["type","message"]},"annotations":{"openWorldHint":false}}`
	statusEntry = `{"name":"agentwake_status","title":"State of AgentWake","description":"The configured and the registered process target of wakes, and which of the two is in force.",` +
		`"inputSchema":{"type":"object"},"annotations":{"openWorldHint":false}}`
)

// administrators is the scope of contracts/native.md section 7.
var administrators = []broker.Role{broker.GlobalAdministrator}

// NewFamily is the board as verbs.
func NewFamily(b *Board, o native.Options) *native.Verbs {
	v := verbs{b}
	facts := func(keywords ...string) catalog.Facts {
		return catalog.Facts{Scope: administrators, Keywords: append(keywords, "board", "coordination")}
	}
	mark := facts("acknowledge", "wake", "signal")
	mark.Participants = true
	listed := []native.Verb{
		{Name: VerbPost, Entry: postEntry, Aliases: []string{"armada_" + VerbPost}, Effects: broker.Write | broker.Exec,
			// Whether a note starts a process depends on whom it is for, so one that is
			// for nobody in particular is known to start none.
			Rules: only(VerbPost, broker.Write, "args:/toParticipantKey", condition.Absent, nil), Facts: facts("message", "note", "tell", "wake"), Answer: v.post},
		{Name: VerbRead, Entry: readEntry, Aliases: []string{"armada_" + VerbRead}, Effects: broker.Read, Facts: facts("messages", "notes", "wakes"), Answer: v.read},
		{Name: VerbHeartbeat, Entry: heartbeatEntry, Aliases: []string{"armada_" + VerbHeartbeat}, Effects: broker.Write, Facts: facts("presence", "wakes"), Answer: v.heartbeat},
		{Name: VerbClaim, Entry: claimEntry, Aliases: []string{"armada_" + VerbClaim}, Effects: broker.Write,
			Rules: only(VerbClaim, broker.Read, "args:/action", condition.Eq, json.RawMessage(`"list"`)), Facts: facts("reserve", "lock"), Answer: v.claim},
		{Name: VerbMark, Entry: markEntry, Aliases: []string{"armada_" + VerbMark}, Effects: broker.Write, Facts: mark, Answer: v.mark},
		{Name: VerbDelete, Entry: deleteEntry, Aliases: []string{"armada_" + VerbDelete}, Effects: broker.Destroy, Facts: facts("signal"), Answer: v.delete},
		{Name: VerbRegister, Entry: registerEntry, Aliases: []string{"armada_" + VerbRegister}, Effects: broker.Write, Facts: facts("wake", "process"), Answer: v.register},
		{Name: VerbStatus, Entry: statusEntry, Aliases: []string{"armada_" + VerbStatus}, Effects: broker.Read, Facts: facts("wake", "process"), Answer: v.status},
	}
	if b.opts.Dispatch {
		listed = append(listed,
			native.Verb{Name: VerbSend, Entry: sendEntry, Aliases: []string{"armada_" + VerbSend}, Effects: broker.Write, Facts: facts("mail", "captain"), Answer: v.send},
			native.Verb{Name: VerbNudge, Entry: nudgeEntry, Aliases: []string{"armada_" + VerbNudge}, Effects: broker.Write, Facts: facts("mail", "mission", "brief"), Answer: v.nudge})
	}
	return native.NewFamily(Family, o, listed...)
}

// only is a rule for the calls of a verb that one condition selects. What does
// not parse narrows nothing, and a test would fail.
func only(verb string, is broker.Effects, at, op string, value json.RawMessage) []catalog.EffectRule {
	c, err := condition.Parse(at, op, value)
	if err != nil {
		return nil
	}
	return []catalog.EffectRule{{Verb: verb, When: []condition.Condition{c}, Is: is}}
}

// verbs maps arguments to the board and its answers to results.
type verbs struct{ board *Board }

func caller(ask native.Ask) Caller {
	return Caller{Principal: ask.Call.Principal, Participant: ask.Call.Origin.Participant, Now: ask.Now}
}

func (v verbs) post(ctx context.Context, ask native.Ask) (any, error) {
	var d Draft
	if err := ask.Decode(&d); err != nil {
		return nil, err
	}
	return v.board.Post(ctx, caller(ask), d)
}

func (v verbs) read(_ context.Context, ask native.Ask) (any, error) {
	var args struct {
		RoomKey, AfterUtc, ParticipantKey string
		Limit, ActiveWithinMinutes        json.Number
		IncludeFullContent                bool
	}
	if err := ask.Decode(&args); err != nil {
		return nil, err
	}
	// A session with a key gets no banner on this answer, so its wakes are in it
	// whether or not it names itself again.
	who := caller(ask)
	q := Query{RoomKey: args.RoomKey, ParticipantKey: cmp.Or(args.ParticipantKey, who.Participant), Full: args.IncludeFullContent}
	var err error
	if q.After, err = ParseTime("afterUtc", args.AfterUtc); err != nil {
		return nil, err
	}
	q.Limit = int(clamped(args.Limit, DefaultLimit, 1, MaxLimit))
	q.ActiveWithin = time.Duration(clamped(args.ActiveWithinMinutes, defaultActive.Minutes(), 1, 60) * float64(time.Minute))
	return v.board.Read(who, q)
}

// ParseTime reads a time of a caller; empty is the zero time.
func ParseTime(argument, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || t.Year() < 1970 || t.Year() > 9999 {
		return time.Time{}, unfit(argument, "format: wanted a time such as 2026-05-04T09:12:00Z")
	}
	return t.UTC(), nil
}

// clamped reads a number that its schema admits; one outside is the nearest one
// inside.
func clamped(n json.Number, otherwise, low, high float64) float64 {
	if n == "" {
		return otherwise
	}
	f, err := strconv.ParseFloat(string(n), 64)
	if (err != nil && f == 0) || math.IsNaN(f) {
		return otherwise
	}
	return min(max(f, low), high)
}

func (v verbs) heartbeat(ctx context.Context, ask native.Ask) (any, error) {
	var args struct{ ParticipantKey, DisplayName, RoomKey string }
	if err := ask.Decode(&args); err != nil {
		return nil, err
	}
	return v.board.Heartbeat(ctx, caller(ask), args.ParticipantKey, args.DisplayName, args.RoomKey)
}

func (v verbs) claim(ctx context.Context, ask native.Ask) (any, error) {
	var args struct {
		Action, SubjectType, SubjectID, Note, ParticipantKey, DisplayName, RoomKey, ClaimID string
		TTLHours                                                                            json.Number
	}
	if err := ask.Decode(&args); err != nil {
		return nil, err
	}
	who := caller(ask)
	switch args.Action {
	case "claim":
		return v.board.Claim(ctx, who, ClaimAsk{args.SubjectType, args.SubjectID, args.Note, args.ParticipantKey, args.DisplayName, args.RoomKey,
			time.Duration(clamped(args.TTLHours, claimTime.Hours(), minClaimTime.Hours(), maxClaimTime.Hours()) * float64(time.Hour))})
	case "release":
		c, ok, err := v.board.Release(ctx, who, args.ClaimID)
		if err != nil || ok {
			return c, err
		}
		return map[string]string{"Status": NotFound, "ClaimId": args.ClaimID}, nil
	case "list":
		claims, err := v.board.Claims(who, args.RoomKey)
		return map[string][]Claim{"Claims": claims}, err
	}
	return nil, broker.Refuse(broker.CodeInvalidAction, "The action is claim, release or list.", map[string]any{"Actions": []string{"claim", "release", "list"}})
}

func (v verbs) mark(ctx context.Context, ask native.Ask) (any, error) {
	var args struct{ SignalID string }
	if err := ask.Decode(&args); err != nil {
		return nil, err
	}
	return v.board.MarkRead(ctx, caller(ask), args.SignalID)
}

func (v verbs) delete(ctx context.Context, ask native.Ask) (any, error) {
	var args struct{ IDs []string }
	if err := ask.Decode(&args); err != nil {
		return nil, err
	}
	return v.board.DeleteSignals(ctx, caller(ask), args.IDs)
}

func (v verbs) register(_ context.Context, ask native.Ask) (any, error) {
	var r Registration
	if err := ask.Decode(&r); err != nil {
		return nil, err
	}
	session, err := v.board.Register(caller(ask), r)
	return struct {
		Status  string
		Session Target
	}{"registered", session}, err
}

func (v verbs) status(_ context.Context, ask native.Ask) (any, error) {
	return v.board.AgentWakeStatus(caller(ask)), nil
}

func (v verbs) send(ctx context.Context, ask native.Ask) (any, error) {
	var args struct{ CaptainID, Message string }
	if err := ask.Decode(&args); err != nil {
		return nil, err
	}
	return v.board.SendSignal(ctx, caller(ask), args.CaptainID, args.Message)
}

func (v verbs) nudge(ctx context.Context, ask native.Ask) (any, error) {
	var n NudgeAsk
	if err := ask.Decode(&n); err != nil {
		return nil, err
	}
	return v.board.NudgeVoyage(ctx, caller(ask), n)
}
