package dispatch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"berth/broker"
	"berth/broker/dispatch"
	"berth/broker/dispatch/runtime"
	"berth/broker/native"
)

// captainFields are the arguments that create_captain and update_captain share.
type captainFields struct {
	Name             *string   `json:"name"`
	Runtime          *string   `json:"runtime"`
	Model            *string   `json:"model"`
	APIKey           *string   `json:"apiKey"`
	APIBaseURL       *string   `json:"apiBaseUrl"`
	Instructions     *string   `json:"systemInstructions"`
	AllowedPersonas  *string   `json:"allowedPersonas"`
	PreferredPersona *string   `json:"preferredPersona"`
	Tier             *string   `json:"tier"`
	PreferenceRank   *int      `json:"preferenceRank"`
	ReasoningEffort  *string   `json:"reasoningEffort"`
	Playbooks        []any     `json:"defaultPlaybooks"`
	CustomCommand    *[]string `json:"customCommand"`
	PromptDelivery   *string   `json:"customPromptDelivery"`
}

// captainProperties describe them. word makes those texts that a change can
// clear; a name, which cannot be, is refused rather than left as it is.
func captainProperties(name property, word func(name, description string) property) []property {
	return []property{
		name,
		word("runtime", "ClaudeCode (the default), Codex, Gemini, Cursor, OpenCode or Custom."),
		word("model", "The model, as the program calls it."),
		word("apiKey", "A key for the model's provider; it is never shown again."),
		word("apiBaseUrl", "The provider's address."),
		word("systemInstructions", "What the agent is told beside each brief."),
		word("allowedPersonas", "A JSON array of the personas that it may take; all when it is empty."),
		word("preferredPersona", "The persona that it takes first."),
		word("tier", "Economy, Standard or Premium; an empty string classifies it from the model's name."),
		{"preferenceRank", `{"type":"integer","default":0,"description":"-1000 to 1000; within a tier the higher one is tried first. A number outside is taken as the nearest one inside."}`},
		{"reasoningEffort", `{"type":"string","emptyStringClears":true,"enum":["","low","medium","high"]}`},
		{"defaultPlaybooks", `{"type":"array","description":"Not built."}`},
		{"customCommand", `{"type":"array","items":{"type":"string"},"maxItems":100,"description":"The argument vector of a Custom captain: an absolute path first. {prompt} {promptFile} {worktree} {missionId} {model} are replaced."}`},
		{"customPromptDelivery", `{"type":"string","emptyStringClears":true,"enum":["","stdin","argument","file"],"description":"How a Custom captain gets its brief; stdin is the default. An argument stands for {prompt}, a file for {promptFile}."}`},
	}
}

const uniqueName = "A name that no other captain of the tenant has."

// owned are the fields that the broker alone writes. Each may be sent with the
// value that is stored, so that a record that was read can be sent back.
var owned = []string{"id", "tenantId", "userId", "state", "currentMissionId", "currentDockId", "processId", "processStartedUtc", "recoveryAttempts", "lastHeartbeatUtc",
	"lastProcessAliveUtc", "quarantineUntilUtc", "quarantineReason", "createdUtc", "lastUpdateUtc"}

var captainID = text("*captainId", "The Id of the captain, such as cpt_mp1a2b3c_9fQ2kLmN0pQ.")

func (f *Family) captainVerbs() []native.Verb {
	return []native.Verb{
		verb(broker.Write, f.createCaptain, "create_captain", "Create a captain", "Register an agent program that takes one mission at a time. It is Idle until one is assigned.", captainProperties(text("*name", uniqueName), text)...),
		verb(broker.Write, f.updateCaptain, "update_captain", "Change a captain", "Change the given fields of a captain; the others stay.", append([]property{captainID}, captainProperties(property{"name", `{"type":"string","emptyStringClears":true,"description":` + quoted(uniqueName) + `}`}, clearable)...)...),
		verb(broker.Read, f.getCaptain, "get_captain", "A captain", "One captain: its program, its state and what it works on. Its key is never shown.", captainID),
		verb(broker.Write, f.benchCaptain, "bench_captain", "Bench a captain", "Keep an idle captain from being given work, until a time or until it is lifted.", captainID, text("*reason", "Why."),
			property{"untilUtc", `{"type":"string","format":"date-time","description":"Until when; it wins over durationMinutes."}`}, property{"durationMinutes", `{"type":"integer","minimum":1,"maximum":525600}`}),
		verb(broker.Write, f.unbenchCaptain, "unbench_captain", "Take a captain off the bench", "Make a benched captain Idle again.", captainID),
		verb(broker.Destroy, f.deleteCaptain, "delete_captain", "Delete a captain", "Delete a captain that does nothing.", captainID),
		verb(broker.Destroy, f.deleteMany(f.dropCaptain), "delete_captains", "Delete captains", "Delete several captains, each by itself.", idsProperty),
	}
}

// nameKey is the id of the claim of a name.
func nameKey(tenant, name string) string {
	return tenant + "/" + strings.ToLower(strings.TrimSpace(name))
}

// maxName is the longest name of a captain, in characters.
const maxName = 100

// check judges what was given. stored is the record before it; its zero value
// is that of a captain to be made.
func (a captainFields) check() *broker.Refusal {
	switch {
	case a.Name != nil && (strings.TrimSpace(*a.Name) == "" || utf8.RuneCountInString(*a.Name) > maxName || strings.ContainsFunc(*a.Name, func(r rune) bool { return r < ' ' })):
		return invalid("name", "is blank, too long or holds a control character")
	case set(a.Instructions) && utf8.RuneCountInString(*a.Instructions) > dispatch.MaxText:
		return invalid("systemInstructions", fmt.Sprintf("is longer than %d characters", dispatch.MaxText))
	case len(a.Playbooks) > 0:
		return notBuilt("defaultPlaybooks")
	case set(a.Runtime) && !slices.Contains(dispatch.Runtimes, dispatch.Runtime(*a.Runtime)):
		return runtime.Unsupported(dispatch.Runtime(*a.Runtime))
	case set(a.Tier) && !slices.Contains([]dispatch.Tier{dispatch.Economy, dispatch.Standard, dispatch.Premium}, dispatch.Tier(*a.Tier)):
		return broker.Refuse(broker.CodeInvalidTier, "A tier is Economy, Standard or Premium; nothing was written.", map[string]any{"Tiers": []dispatch.Tier{dispatch.Economy, dispatch.Standard, dispatch.Premium}})
	case a.CustomCommand != nil && len(*a.CustomCommand) > 0 && !path.IsAbs((*a.CustomCommand)[0]):
		return invalid("customCommand", "does not begin with an absolute path")
	}
	if set(a.AllowedPersonas) {
		var personas []string
		if err := json.Unmarshal([]byte(*a.AllowedPersonas), &personas); err != nil {
			return invalid("allowedPersonas", "is no JSON array of names")
		}
	}
	return nil
}

// apply gives the captain with what was given.
func (a captainFields) apply(c dispatch.Captain, now time.Time) dispatch.Captain {
	if a.Name != nil {
		c.Name = strings.TrimSpace(*a.Name)
	}
	if a.Runtime != nil {
		c.Runtime = cmp.Or(dispatch.Runtime(*a.Runtime), dispatch.ClaudeCode)
	}
	for _, field := range []struct {
		to   **string
		from *string
	}{{&c.Model, a.Model}, {&c.APIBaseURL, a.APIBaseURL}, {&c.Instructions, a.Instructions}, {&c.PreferredPersona, a.PreferredPersona}, {&c.ReasoningEffort, a.ReasoningEffort}} {
		switch {
		case field.from == nil:
		case *field.from == "":
			*field.to = nil
		default:
			*field.to = field.from
		}
	}
	if a.AllowedPersonas != nil {
		c.AllowedPersonas = []string{}
		if *a.AllowedPersonas != "" {
			_ = json.Unmarshal([]byte(*a.AllowedPersonas), &c.AllowedPersonas) // it was checked
		}
	}
	switch {
	case set(a.Tier):
		c.Tier = dispatch.Tier(*a.Tier)
	case a.Tier != nil || c.Tier == "":
		c.Tier = dispatch.TierOf(c.Model)
	}
	if a.PreferenceRank != nil {
		c.PreferenceRank = min(max(*a.PreferenceRank, -1000), 1000)
	}
	if a.CustomCommand != nil {
		c.CustomCommand = *a.CustomCommand
	}
	if a.PromptDelivery != nil {
		c.PromptDelivery = cmp.Or(*a.PromptDelivery, runtime.ByStdin)
	}
	c.LastUpdateUTC = now
	return c
}

// complete refuses a captain that could not be launched.
func complete(c dispatch.Captain) *broker.Refusal {
	if (c.Runtime == dispatch.Custom) != (len(c.CustomCommand) > 0) {
		return broker.Refuse(broker.CodeInvalid, "A Custom captain has a customCommand, and no other has one; nothing was written.", map[string]any{"Argument": "customCommand"})
	}
	wants := map[string]string{runtime.ByArgument: "{prompt}", runtime.ByFile: "{promptFile}"}[c.PromptDelivery]
	if c.Runtime == dispatch.Custom && !slices.ContainsFunc(c.CustomCommand, func(word string) bool { return strings.Contains(word, wants) }) {
		return invalid("customCommand", "has no "+wants+", by which its agent would get its brief") // it would never see it
	}
	return nil
}

// serverOwned refuses fields of the broker's that are not what is stored.
func serverOwned(ask native.Ask, stored dispatch.Captain) error {
	var args map[string]any
	if err := ask.Decode(&args); err != nil {
		return err
	}
	raw, err := json.Marshal(stored)
	if err != nil {
		return err
	}
	var has map[string]any
	if err := json.Unmarshal(raw, &has); err != nil {
		return err
	}
	if _, kept := has["RecoveryAttempts"]; !kept { // nothing is ever carried on by itself
		has["RecoveryAttempts"] = 0.0
	}
	var touched []string
	for _, name := range owned {
		if sent, given := args[name]; given && !reflect.DeepEqual(sent, has[strings.ToUpper(name[:1])+name[1:]]) {
			touched = append(touched, name)
		}
	}
	if len(touched) == 0 {
		return nil
	}
	return broker.Refuse(broker.CodeServerOwnedField, "captain_server_owned_field: "+strings.Join(touched, ", ")+". The broker alone writes these; nothing was written.", map[string]any{"Fields": touched})
}

func (f *Family) createCaptain(ctx context.Context, ask native.Ask) (any, error) {
	var args captainFields
	if err := ask.Decode(&args); err != nil {
		return nil, err
	}
	who := ask.Call.Principal
	c := args.apply(dispatch.Captain{Owner: dispatch.OwnedBy(who), Runtime: dispatch.ClaudeCode, State: dispatch.CaptainIdle, AllowedPersonas: []string{},
		CustomCommand: []string{}, PromptDelivery: runtime.ByStdin, CreatedUTC: ask.Now}, ask.Now)
	if err := serverOwned(ask, dispatch.Captain{State: dispatch.CaptainIdle}); err != nil {
		return nil, err
	}
	if refusal := cmp.Or(args.check(), complete(c)); refusal != nil {
		return nil, refusal
	}
	id, err := f.newID(dispatch.CaptainPrefix, ask.Now)
	if err != nil {
		return nil, err
	}
	c.ID = id
	if err := f.keepSecret(dispatch.KindCaptain, id, args.APIKey); err != nil {
		return nil, err
	}
	c.HasAPIKey = f.opts.Secrets.HasSecret(secretOf(dispatch.KindCaptain, id))
	err = f.write(ctx, func() ([]broker.RecordChange, error) {
		name, err := f.claimName(c)
		if err != nil {
			return nil, err
		}
		return changes(name, put(c, 0, happened(c, "created", who, "The captain "+c.Name+" was created.")))
	})
	if err != nil {
		return nil, f.unkept(dispatch.KindCaptain, id, err)
	}
	f.wake()
	return c, nil
}

// kindName is the kind of the records that make a captain's name its own: one
// for each name of a tenant, written in one step with the captain that bears it.
const kindName = "captainName"

type claim struct {
	Captain string `json:"captain"`
}

// claimed gives the claim of a name, and at which revision; 0: there is none.
func (f *Family) claimed(key string) (c claim, revision uint64, err error) {
	stored, err := f.store.Record(kindName, key)
	if errors.Is(err, broker.ErrRecordNotFound) {
		return c, 0, nil
	}
	if err == nil {
		err = json.Unmarshal(stored.Value, &c)
	}
	if err != nil {
		return c, 0, f.unreadable(err)
	}
	return c, stored.Revision, nil
}

// claimName is the change that gives a captain its name, or the refusal of one
// that is taken. A claim whose captain is gone counts for nothing.
func (f *Family) claimName(c dispatch.Captain) (planned, error) {
	key := nameKey(c.TenantID, c.Name)
	had, revision, err := f.claimed(key)
	if err != nil {
		return planned{}, err
	}
	if revision > 0 && had.Captain != c.ID {
		switch _, err := f.store.Record(dispatch.KindCaptain, had.Captain); {
		case err == nil:
			return planned{}, nameTaken(c.Name)
		case !errors.Is(err, broker.ErrRecordNotFound):
			return planned{}, f.unreadable(err)
		}
	}
	value, err := json.Marshal(claim{c.ID})
	return planned{broker.RecordChange{Kind: kindName, ID: key, If: &revision, Value: value}, err}, nil
}

// freeName is the change that gives a captain's name up; none when it has none.
func (f *Family) freeName(c dispatch.Captain) ([]planned, error) {
	key := nameKey(c.TenantID, c.Name)
	had, revision, err := f.claimed(key)
	if err != nil || revision == 0 || had.Captain != c.ID {
		return nil, err
	}
	return []planned{{broker.RecordChange{Kind: kindName, ID: key, If: &revision}, nil}}, nil
}

func nameTaken(name string) *broker.Refusal {
	return broker.Refuse(broker.CodeCaptainNameTaken, "A captain with that name already exists.", map[string]any{"Name": name})
}

func (f *Family) updateCaptain(ctx context.Context, ask native.Ask) (any, error) {
	var args captainFields
	if err := ask.Decode(&args); err != nil {
		return nil, err
	}
	who := ask.Call.Principal
	before, err := named[dispatch.Captain](f, ask, "captainId")
	if err != nil {
		return nil, err
	}
	id := before.Value.ID
	if err := serverOwned(ask, before.Value); err != nil {
		return nil, err
	}
	if refusal := cmp.Or(args.check(), complete(args.apply(before.Value, ask.Now))); refusal != nil {
		return nil, refusal
	}
	if args.Name != nil {
		if _, err := f.claimName(args.apply(before.Value, ask.Now)); err != nil {
			return nil, err // before the key is kept
		}
	}
	if err := f.keepSecret(dispatch.KindCaptain, id, args.APIKey); err != nil {
		return nil, err
	}
	var next dispatch.Captain
	err = f.write(ctx, func() ([]broker.RecordChange, error) {
		kept, err := read[dispatch.Captain](f, who, id)
		if err != nil {
			return nil, err
		}
		next = args.apply(kept.Value, ask.Now)
		next.HasAPIKey = f.opts.Secrets.HasSecret(secretOf(dispatch.KindCaptain, id))
		plan := []planned{put(next, kept.Revision, happened(next, "updated", who, "The captain "+next.Name+" was changed."))}
		if nameKey(next.TenantID, next.Name) != nameKey(kept.Value.TenantID, kept.Value.Name) {
			name, err := f.claimName(next)
			if err != nil {
				return nil, err
			}
			old, err := f.freeName(kept.Value)
			if err != nil {
				return nil, err
			}
			plan = append(append(plan, name), old...)
		}
		return changes(plan...)
	})
	if err != nil {
		return nil, err
	}
	f.wake()
	return next, nil
}

func (f *Family) getCaptain(_ context.Context, ask native.Ask) (any, error) {
	kept, err := named[dispatch.Captain](f, ask, "captainId")
	if err != nil {
		return nil, err
	}
	return kept.Value, nil
}

func captainBusy(c dispatch.Captain) *broker.Refusal {
	return broker.Refuse(broker.CodeCaptainBusy, "The captain is "+string(c.State)+"; nothing was changed.", map[string]any{"CaptainId": c.ID, "State": c.State, "MissionId": c.MissionID})
}

// benched is the answer to bench_captain.
type benched struct {
	Status    string                `json:"Status"`
	CaptainID string                `json:"CaptainId"`
	Name      string                `json:"Name"`
	State     dispatch.CaptainState `json:"State"`
	Reason    *string               `json:"BenchReason"`
	Until     *time.Time            `json:"BenchUntilUtc"`
}

func (f *Family) benchCaptain(ctx context.Context, ask native.Ask) (any, error) {
	var args struct {
		Reason  string  `json:"reason"`
		Until   *string `json:"untilUtc"`
		Minutes *int    `json:"durationMinutes"`
	}
	id, err := idOf(ask, "captainId")
	if err == nil {
		err = ask.Decode(&args)
	}
	if err != nil {
		return nil, err
	}
	var until *time.Time
	switch {
	case set(args.Until):
		t, err := time.Parse(time.RFC3339, *args.Until)
		if err != nil {
			return nil, invalid("untilUtc", "is no time of ISO 8601, such as 2026-05-04T09:12:00Z")
		}
		t = t.UTC()
		until = &t
	case args.Minutes != nil:
		t := ask.Now.Add(time.Duration(*args.Minutes) * time.Minute)
		until = &t
	}
	c, err := change(ctx, f, ask.Call.Principal, id, "benched", "The captain was benched.", func(c dispatch.Captain) (dispatch.Captain, error) {
		if c.State == dispatch.CaptainBenched || c.State == dispatch.CaptainQuarantined {
			c, _ = c.Step(dispatch.CaptainIdle)
		}
		if c.State != dispatch.CaptainIdle {
			return c, captainBusy(c)
		}
		c, err := c.Step(dispatch.CaptainBenched)
		c.BenchReason, c.BenchUntil, c.LastUpdateUTC = &args.Reason, until, ask.Now
		return c, err
	})
	if err != nil {
		return nil, err
	}
	return benched{"benched", id, c.Name, c.State, c.BenchReason, c.BenchUntil}, nil
}

func (f *Family) unbenchCaptain(ctx context.Context, ask native.Ask) (any, error) {
	id, err := idOf(ask, "captainId")
	if err != nil {
		return nil, err
	}
	c, err := change(ctx, f, ask.Call.Principal, id, "unbenched", "The captain was taken off the bench.", func(c dispatch.Captain) (dispatch.Captain, error) {
		if c.State != dispatch.CaptainBenched {
			return c, broker.Refuse(broker.CodeCaptainNotBenched, "The captain is not benched; it is "+string(c.State)+".", map[string]any{"CaptainId": id, "State": c.State})
		}
		c, err := c.Step(dispatch.CaptainIdle)
		c.LastUpdateUTC = ask.Now
		return c, err
	})
	if err != nil {
		return nil, err
	}
	f.wake()
	return map[string]any{"Status": "unbenched", "CaptainId": id, "State": c.State}, nil
}

func (f *Family) deleteCaptain(ctx context.Context, ask native.Ask) (any, error) {
	id, err := idOf(ask, "captainId")
	if err == nil {
		err = f.dropCaptain(ctx, ask.Call.Principal, id)
	}
	if err != nil {
		return nil, err
	}
	return map[string]any{"Status": "deleted", "CaptainId": id}, nil
}

// dropCaptain deletes a captain that does nothing, and its key.
func (f *Family) dropCaptain(ctx context.Context, who broker.Principal, id string) error {
	err := f.write(ctx, func() ([]broker.RecordChange, error) {
		kept, err := read[dispatch.Captain](f, who, id)
		if err != nil {
			return nil, err
		}
		n, err := f.live(dispatch.OfCaptain(id))
		if err != nil {
			return nil, err
		}
		if kept.Value.State.Busy() {
			return nil, captainBusy(kept.Value)
		}
		if n > 0 {
			return nil, broker.Refuse(broker.CodeCaptainBusy, "A mission that is under way is the captain's; nothing was changed.", map[string]any{"CaptainId": id, "State": kept.Value.State, "Missions": n})
		}
		name, err := f.freeName(kept.Value)
		if err != nil {
			return nil, err
		}
		return changes(append(name, remove(kept, happened(kept.Value, "deleted", who, "The captain "+kept.Value.Name+" was deleted.")))...)
	})
	if err != nil {
		return err
	}
	return f.opts.Secrets.SetSecret(secretOf(dispatch.KindCaptain, id), "")
}
