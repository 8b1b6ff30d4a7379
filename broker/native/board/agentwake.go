package board

import (
	"cmp"
	"context"
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"berth/broker"
)

// The ways in which a wake reaches its participant besides being stored, which
// every one is.
const (
	SpawnProcess = "SpawnProcess"
	StoredWake   = "StoredWake"
	Both         = "Both"
)

// AgentWake is the process target of the configuration.
type AgentWake struct {
	ParticipantKey   string
	DeliveryMode     string // empty: StoredWake
	Runtime          string // empty: none, so that nothing is started
	SessionID        string
	Command          string // empty: the runtime's own
	WorkingDirectory string
}

// Target is a registered process target.
type Target struct {
	Runtime          string
	ParticipantKey   *string
	SessionID        *string `json:"SessionId"`
	Command          *string
	WorkingDirectory *string
	ClientName       *string
	RegisteredUtc    string

	tenant string
}

// runtime is a program that can be woken: its own name, and how it is told to
// read its task from standard input.
type runtime struct {
	command string
	argv    func(session string) []string
}

// runtimes are the programs. Claude goes on with the latest conversation of its
// working directory or takes up the one that is named, Codex takes up, OpenCode
// begins anew.
var runtimes = map[string]runtime{
	"Claude": {"claude", func(session string) []string {
		if session == "" {
			return []string{"-p", "--continue"}
		}
		return []string{"-p", "--resume", session}
	}},
	"Codex": {"codex", func(session string) []string {
		return []string{"exec", "resume", cmp.Or(session, "--last"), "-"}
	}},
	"OpenCode": {"opencode", func(string) []string { return []string{"run"} }},
}

// Runtimes are the names of the programs that can be woken.
func Runtimes() []string { return []string{"Claude", "Codex", "OpenCode"} }

// sessionID is what may stand on a command line as one.
var sessionID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// Registration is what somebody wants to register.
type Registration struct {
	Runtime, ParticipantKey, SessionID, Command, WorkingDirectory, ClientName string
}

// Register takes the one slot, in memory. Its participant key goes before the
// configured one until the broker stops.
func (b *Board) Register(who Caller, r Registration) (Target, error) {
	switch _, known := runtimes[r.Runtime]; {
	case !known:
		return Target{}, broker.Refuse(broker.CodeInvalidRuntime, "A process target has one of these runtimes: "+strings.Join(Runtimes(), ", ")+".",
			map[string]any{"Runtimes": Runtimes()})
	case r.SessionID != "" && !sessionID.MatchString(r.SessionID):
		return Target{}, unfit("sessionId", "pattern: wanted 1 to 128 of A-Z a-z 0-9 . _ -, no dash in front")
	case utf8.RuneCountInString(r.ClientName) > maxName:
		return Target{}, unfit("clientName", "maxLength: wanted at most 128 characters")
	}
	if r.ParticipantKey != "" {
		if err := participantKey("participantKey", r.ParticipantKey); err != nil {
			return Target{}, err
		}
	}
	for _, given := range []struct{ argument, path string }{{"command", r.Command}, {"workingDirectory", r.WorkingDirectory}} {
		if given.path != "" && (!who.all() || !path.IsAbs(given.path) || strings.ContainsRune(given.path, 0) || len(given.path) > 4096) {
			return Target{}, broker.Refuse(broker.CodeServerPath, "A path on the broker's machine is an absolute one, and only a global administrator names it.",
				map[string]any{"Argument": given.argument})
		}
	}
	t := Target{Runtime: r.Runtime, ParticipantKey: orNull(r.ParticipantKey), SessionID: orNull(r.SessionID), Command: orNull(r.Command),
		WorkingDirectory: orNull(r.WorkingDirectory), ClientName: orNull(r.ClientName), RegisteredUtc: utc(who.Now), tenant: who.Tenant}
	b.mu.Lock()
	b.target = &t
	b.mu.Unlock()
	return t, nil
}

// registered is the registered target; nil: none.
func (b *Board) registered() *Target {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.target
}

// effective is the AgentWake participant and the tenant that its process belongs
// to: that of who registered it, else the default one.
func (b *Board) effective() (key, tenant string) {
	if t := b.registered(); t != nil && t.ParticipantKey != nil {
		return *t.ParticipantKey, t.tenant
	}
	return b.opts.AgentWake.ParticipantKey, broker.LocalOperator.Tenant
}

// Status is the configured and the registered state.
type Status struct {
	HasSession               bool
	Session                  *Target
	ConfiguredParticipantKey *string
	EffectiveParticipantKey  *string
	DeliveryMode             string
	Runtime                  *string
}

// AgentWakeStatus shows it. A target that another tenant registered is none for
// the caller: its paths and its session are not theirs, and no note of theirs
// starts it.
func (b *Board) AgentWakeStatus(who Caller) Status {
	key, _ := b.effective()
	t := b.registered()
	if t != nil && !who.sees(t.tenant) {
		key, t = b.opts.AgentWake.ParticipantKey, nil
	}
	out := Status{HasSession: t != nil, Session: t, ConfiguredParticipantKey: orNull(b.opts.AgentWake.ParticipantKey), EffectiveParticipantKey: orNull(key),
		DeliveryMode: cmp.Or(b.opts.AgentWake.DeliveryMode, StoredWake), Runtime: orNull(b.opts.AgentWake.Runtime)}
	if t != nil {
		out.Runtime = &t.Runtime
	}
	return out
}

// starts reports whether a note of a tenant to a participant starts the process
// target. A tenant cannot start another's process.
func (b *Board) starts(to, tenant string) bool {
	key, of := b.effective()
	mode := b.opts.AgentWake.DeliveryMode
	return key == to && of == tenant && (mode == SpawnProcess || mode == Both) && (b.registered() != nil || b.opts.AgentWake.Runtime != "")
}

// NextRun says what to start now: the unread notes of the effective participant
// are its task. ok is false when all were read meanwhile.
func (b *Board) NextRun() (run broker.WakeRun, ok bool, err error) {
	key, tenant := b.effective()
	if !b.starts(key, tenant) {
		return run, false, nil
	}
	now := b.opts.Now()
	who := Caller{Principal: broker.Principal{Tenant: tenant, Role: broker.User}, Participant: key, Now: now}
	records, err := b.records(b.unreadQuery(who, who.listsFor(unreadList(key))[0], maxTask))
	if err != nil {
		return run, false, err
	}
	var task []stored
	for _, r := range records {
		var s stored
		if err := decode(r, &s); err != nil {
			return run, false, err
		}
		task = append(task, s)
	}
	if len(task) == 0 {
		return run, false, nil
	}
	run = b.runOf(key, task)
	run.ID, err = b.newID(broker.RunPrefix, now)
	return run, err == nil, err
}

// runOf is the process for a task: the registered target where there is one.
func (b *Board) runOf(key string, task []stored) broker.WakeRun {
	c := b.opts.AgentWake
	if t := b.registered(); t != nil {
		text := func(p *string) string {
			if p == nil {
				return ""
			}
			return *p
		}
		c = AgentWake{Runtime: t.Runtime, SessionID: text(t.SessionID), Command: text(t.Command), WorkingDirectory: text(t.WorkingDirectory)}
	}
	of := runtimes[c.Runtime]
	return broker.WakeRun{ParticipantKey: key, Runtime: c.Runtime, Command: cmp.Or(c.Command, of.command), Args: of.argv(c.SessionID),
		Dir: c.WorkingDirectory, Input: taskText(key, task)}
}

// Limits of a task.
const (
	maxTask      = 20
	maxTaskBytes = 256 << 10
)

// taskText is what the program reads: the wakes, and of a note that a wake cuts
// the whole content.
func taskText(key string, task []stored) string {
	var out strings.Builder
	out.WriteString("[ARMADA WAKE] You are " + key + ". " + strconv.Itoa(len(task)) + " of your notes on the coordination board are unread, the oldest first. " +
		"Act on them; mark each one read with mark_signal_read.\n")
	for _, s := range task {
		text := s.Payload
		if s.Note != nil {
			head, _, _ := strings.Cut(s.Payload, "] [from=")
			from := strings.TrimPrefix(s.Payload, head+"] ")
			from, _, _ = strings.Cut(from, "] ")
			text = head + "] " + from + "] " + s.Note.Content
		}
		if out.Len()+len(text) > maxTaskBytes {
			out.WriteString("\n(more; read the board for the rest)\n")
			break
		}
		out.WriteString("\n" + text + "\n")
	}
	return out.String()
}

// The events of a run.
const (
	EventStarted = "agentwake.started"
	EventEnded   = "agentwake.ended"
	EventFailed  = "agentwake.failed"
)

// wakeRun is what is kept of a run.
type wakeRun struct {
	ParticipantKey string
	Runtime        string
	StartedUtc     string
	EndedUtc       *string
	Failed         bool
	Reason         *string
}

// RunStarted notes that a run begins; it is called before anything is started.
func (b *Board) RunStarted(ctx context.Context, run broker.WakeRun, at time.Time) error {
	r := wakeRun{ParticipantKey: run.ParticipantKey, Runtime: run.Runtime, StartedUtc: utc(at)}
	return b.putRun(ctx, run, r, EventStarted, "A wake of "+run.ParticipantKey+" starts "+run.Runtime+".", at)
}

// RunEnded notes the end of a run: all of its processes are gone, or none was
// ever started. reason says how in one sentence.
func (b *Board) RunEnded(ctx context.Context, run broker.WakeRun, started, at time.Time, failed bool, reason string) error {
	end := utc(at)
	r := wakeRun{ParticipantKey: run.ParticipantKey, Runtime: run.Runtime, StartedUtc: utc(started), EndedUtc: &end, Failed: failed, Reason: orNull(reason)}
	event := EventEnded
	if failed {
		event = EventFailed
	}
	return b.putRun(ctx, run, r, event, run.Runtime+", which a wake of "+run.ParticipantKey+" started, "+reason+".", at)
}

func (b *Board) putRun(ctx context.Context, run broker.WakeRun, r wakeRun, event, message string, at time.Time) error {
	_, tenant := b.effective()
	payload, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return b.put(ctx, broker.RecordChange{Kind: KindRun, ID: run.ID, Keys: []string{"runs"}, Expires: at.Add(Retention), Events: []broker.Event{{
		EventType: event, EntityType: "agentwake", EntityID: run.ID, TenantID: tenant, Message: message, Payload: payload, CreatedAt: at}}}, r)
}

// CheckMode reports whether a delivery mode exists.
func CheckMode(mode string) bool {
	return slices.Contains([]string{SpawnProcess, StoredWake, Both}, mode)
}
