package board_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"berth/broker"
	"berth/broker/dispatch"
	"berth/broker/native"
	"berth/broker/native/board"
	"berth/broker/native/nativetest"
)

// crew is a board of a broker that dispatches, with records of work.
type crew struct {
	*board.Board
	t     testing.TB
	store *memory
	now   time.Time
	log   *strings.Builder
	verbs *native.Verbs
}

func newCrew(t testing.TB) *crew {
	c := &crew{t: t, store: newMemory(), now: at, log: &strings.Builder{}}
	c.Board = board.New(board.Options{Store: c.store, Now: func() time.Time { return c.now }, Random: &sequence{n: 7}, Dispatch: true,
		AgentWake: board.AgentWake{ParticipantKey: "admiral"}, Log: slog.New(slog.NewTextHandler(c.log, nil))})
	c.verbs = board.NewFamily(c.Board, native.Options{RuntimeID: "r1", Now: func() time.Time { return c.now }, Log: slog.New(slog.DiscardHandler)})
	own := dispatch.Owner{TenantID: "t1", UserID: "u"}
	voyage, first := "vyg_1", "msn_1"
	keep(c, dispatch.Captain{ID: "cpt_1", Owner: own, Name: "Ann", State: dispatch.CaptainIdle})
	keep(c, dispatch.Voyage{ID: voyage, Owner: own, Title: "V", Status: dispatch.VoyageOpen})
	keep(c, dispatch.Mission{ID: first, Owner: own, VoyageID: &voyage, VesselID: "vsl_1", Status: dispatch.MissionInProgress})
	keep(c, dispatch.Mission{ID: "msn_2", Owner: own, VoyageID: &voyage, VesselID: "vsl_1", DependsOn: &first, Status: dispatch.MissionPending})
	return c
}

// keep stores a record of work.
func keep[R dispatch.Stored](c *crew, r R) R {
	c.t.Helper()
	change, err := dispatch.Write(r, 0)
	if err == nil {
		_, err = c.store.Put(c.t.Context(), change)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return r
}

func (c *crew) mission(id string) dispatch.Mission {
	c.t.Helper()
	kept, err := dispatch.Read[dispatch.Mission](c.store, id)
	if err != nil {
		c.t.Fatal(err)
	}
	return kept.Value
}

// joined is what a mission's brief gets, in one line.
func (c *crew) joined(mission, captain string) string {
	c.t.Helper()
	said, err := c.Join(c.t.Context(), c.mission(mission), captain)
	if err != nil {
		c.t.Fatal(err)
	}
	var out []string
	for _, s := range said {
		out = append(out, s.Type+" of "+s.By+": "+s.Message)
	}
	return strings.Join(out, "; ")
}

func TestWhatIsSaidToWorkIsStoredOrRefused(t *testing.T) {
	for _, tt := range []struct {
		who                         broker.Principal
		participant                 string
		verb, arguments, code, want string
	}{
		{admin, "", "send_signal", `{"captainId":"cpt_1","message":"Mind the tests."}`, "", `"Type":"Mail","Payload":"Mind the tests.","Read":false,"CreatedUtc":"2026-11-30T12:00:00Z","CreatedBy":"default/operator","ToCaptainId":"cpt_1"}`},
		{admin, "", "send_signal", `{"captainId":"cpt_9","message":"x"}`, "captain_not_found", `"Error":"Captain not found"`},
		{member("t2"), "", "send_signal", `{"captainId":"cpt_1","message":"x"}`, "captain_not_found", `"Error":"Captain not found"`},
		{member("t1"), "", "send_signal", `{"captainId":"cpt_1","message":"x"}`, "", `"ToCaptainId":"cpt_1"`},
		{admin, "", "send_signal", `{"captainId":"cpt_1","message":" \n"}`, "missing_message", ``},
		{admin, "", "send_signal", `{"captainId":"cpt_1"}`, "missing_message", ``},
		{admin, "", "send_signal", `{"message":"x"}`, "invalid_arguments", `"/captainId"`},
		{admin, "", "send_signal", `{"captainId":"cpt_1","message":"` + strings.Repeat("x", 16_385) + `"}`, "invalid_arguments", `"/message"`},
		{admin, "", "nudge_voyage", `{"voyageId":"vyg_1","type":"Nudge","message":"Smaller steps.","createdBy":"ops"}`, "", `"Type":"Nudge","Payload":"Smaller steps.","Read":false,"CreatedUtc":"2026-11-30T12:00:00Z","CreatedBy":"ops","VoyageId":"vyg_1"}`},
		{admin, "", "nudge_voyage", `{"missionId":"msn_1","type":"Mail","message":"x"}`, "", `"CreatedBy":"default/operator","MissionId":"msn_1"}`},
		{admin, "", "nudge_voyage", `{"type":"Nudge","message":"x"}`, "target_ambiguous", ``},
		{admin, "", "nudge_voyage", `{"voyageId":"vyg_1","missionId":"msn_1","type":"Nudge","message":"x"}`, "target_ambiguous", ``},
		{admin, "", "nudge_voyage", `{"voyageId":" ","missionId":"","type":"Nudge","message":"x"}`, "target_ambiguous", ``},
		{admin, "", "nudge_voyage", `{"voyageId":"vyg_1","type":"Wake","message":"x"}`, "invalid_type", `"Types":["Nudge","Mail"]`},
		{admin, "", "nudge_voyage", `{"voyageId":"vyg_1","message":"x"}`, "invalid_type", ``},
		{admin, "", "nudge_voyage", `{"voyageId":"vyg_1","type":"Nudge"}`, "missing_message", ``},
		{admin, "", "nudge_voyage", `{"voyageId":"vyg_9","type":"Nudge","message":"x"}`, "voyage_not_found", `"Error":"Voyage not found"`},
		{member("t2"), "", "nudge_voyage", `{"voyageId":"vyg_1","type":"Nudge","message":"x"}`, "voyage_not_found", `"Error":"Voyage not found"`},
		{admin, "", "nudge_voyage", `{"missionId":"` + strings.Repeat("m", 200) + `","type":"Nudge","message":"x"}`, "mission_not_found", `"MissionId":"` + strings.Repeat("m", 64) + `..."`},
		{admin, "", "nudge_voyage", `{"voyageId":"vyg_1","type":"Nudge","message":"x","createdBy":"` + strings.Repeat("é", 129) + `"}`, "invalid_arguments", `"/createdBy"`},
	} {
		c := newCrew(t)
		got := nativetest.Call(t, c.verbs, tt.who, tt.verb, tt.arguments)
		var refused struct{ Code string }
		if err := json.Unmarshal([]byte(got), &refused); err != nil || refused.Code != tt.code || !strings.Contains(got, tt.want) {
			t.Errorf("%s %.120s:\n got %s\nwant %s with %s", tt.verb, tt.arguments, got, tt.code, tt.want)
		}
		if stored := len(c.store.ids[board.KindSignal+"\x00"]); stored != map[bool]int{true: 1}[tt.code == ""] {
			t.Errorf("%s %.120s: %d signals are stored", tt.verb, tt.arguments, stored)
		}
	}
}

func TestTheKeyOfTheSessionSaysWhoNudges(t *testing.T) {
	c := newCrew(t)
	s := must(c.NudgeVoyage(t.Context(), as(admin, "lane-a", at), board.NudgeAsk{VoyageID: "vyg_1", Type: board.Nudge, Message: "x", CreatedBy: "somebody else"}))(t)
	if s.CreatedBy == nil || *s.CreatedBy != "lane-a" {
		t.Errorf("%+v", s)
	}
}

func TestWithoutDispatchTheBoardHasNoVerbsForIt(t *testing.T) {
	b, _ := newBoard(newMemory(), board.AgentWake{}, nil)
	for _, tool := range board.NewFamily(b, native.Options{Now: func() time.Time { return at }}).Source().Tools {
		if tool.Name == board.VerbSend || tool.Name == board.VerbNudge {
			t.Errorf("%s is listed", tool.Name)
		}
	}
}

func TestWhatWasSaidJoinsTheBriefOfTheNextStage(t *testing.T) {
	for name, tt := range map[string]struct {
		say  func(c *crew)
		want map[string]string // by mission, asked in the order of the ids
	}{
		"to the voyage, once": {func(c *crew) { c.nudge("vyg_1", "", "slower") },
			map[string]string{"msn_1": "Nudge of lane: slower", "msn_2": ""}},
		"to a mission that waits": {func(c *crew) { c.nudge("", "msn_2", "slower") },
			map[string]string{"msn_1": "", "msn_2": "Nudge of lane: slower"}},
		"to a mission whose brief is out already": {func(c *crew) { c.joined("msn_1", "cpt_1"); c.nudge("", "msn_1", "slower") },
			map[string]string{"msn_2": "Nudge of lane: slower"}},
		"to the captain": {func(c *crew) { c.mail("cpt_1", "hello") },
			map[string]string{"msn_1": "Mail of lane: hello", "msn_2": ""}},
		"to another captain": {func(c *crew) {
			keep(c, dispatch.Captain{ID: "cpt_2", Owner: dispatch.Owner{TenantID: "t1"}})
			c.mail("cpt_2", "hello")
		}, map[string]string{"msn_1": ""}},
		"all in the order in which it was said": {func(c *crew) {
			c.mail("cpt_1", "one")
			c.nudge("", "msn_1", "two")
			c.nudge("vyg_1", "", "three")
		}, map[string]string{"msn_1": "Mail of lane: one; Nudge of lane: two; Nudge of lane: three"}},
		"marked as read before": {func(c *crew) {
			s := c.nudge("vyg_1", "", "slower")
			must(c.MarkRead(c.t.Context(), as(admin, "", c.now), s.ID))(c.t.(fataler))
		}, map[string]string{"msn_1": ""}},
		"deleted before": {func(c *crew) {
			s := c.nudge("vyg_1", "", "slower")
			must(c.DeleteSignals(c.t.Context(), as(admin, "", c.now), []string{s.ID}))(c.t.(fataler))
		}, map[string]string{"msn_1": ""}},
		"too long ago": {func(c *crew) { c.nudge("vyg_1", "", "slower"); c.now = c.now.Add(board.Retention + time.Hour) },
			map[string]string{"msn_1": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCrew(t)
			tt.say(c)
			for _, id := range []string{"msn_1", "msn_2"} {
				want, asked := tt.want[id]
				if !asked {
					continue
				}
				for _, again := range []string{"", " again"} { // a mission that begins again has it too
					if got := c.joined(id, "cpt_1"); got != want {
						t.Errorf("%s%s: %q, want %q", id, again, got, want)
					}
				}
			}
		})
	}
}

func (c *crew) nudge(voyage, mission, message string) board.Signal {
	c.t.Helper()
	c.now = c.now.Add(time.Second)
	s, err := c.NudgeVoyage(c.t.Context(), as(admin, "lane", c.now), board.NudgeAsk{VoyageID: voyage, MissionID: mission, Type: board.Nudge, Message: message})
	if err != nil {
		c.t.Fatal(err)
	}
	return s
}

func (c *crew) mail(captain, message string) board.Signal {
	c.t.Helper()
	c.now = c.now.Add(time.Second)
	s, err := c.SendSignal(c.t.Context(), as(admin, "lane", c.now), captain, message)
	if err != nil {
		c.t.Fatal(err)
	}
	return s
}

func TestASignalSaysWhoseBriefItStandsIn(t *testing.T) {
	c := newCrew(t)
	c.nudge("vyg_1", "", "slower")
	c.joined("msn_1", "")
	page := must(c.Signals(board.SignalQuery{VoyageID: "vyg_1"}, broker.PageRequest{}))(t)
	if len(page.Objects) != 1 || !page.Objects[0].Read || page.Objects[0].JoinedMissionID == nil || *page.Objects[0].JoinedMissionID != "msn_1" {
		t.Errorf("%+v", page.Objects)
	}
}

func TestABriefTakesNoMoreThanItHoldsAndTheNextOneTheRest(t *testing.T) {
	c := newCrew(t)
	for i := range 60 {
		c.nudge("vyg_1", "", fmt.Sprint(i))
	}
	first, second := c.joined("msn_1", ""), c.joined("msn_2", "")
	if strings.Count(first, ";") != 49 || !strings.HasSuffix(first, ": 49") || strings.Count(second, ";") != 9 || !strings.HasPrefix(second, "Nudge of lane: 50") {
		t.Errorf("%q\n%q", first, second)
	}
}

func TestWhatCannotBeMarkedIsSaidAllTheSame(t *testing.T) {
	c := newCrew(t)
	c.nudge("vyg_1", "", "slower")
	m := c.mission("msn_1")
	failing := board.New(board.Options{Store: &unwritable{c.store}, Now: func() time.Time { return c.now }, Random: &sequence{n: 9}, Log: slog.New(slog.NewTextHandler(c.log, nil))})
	said, err := failing.Join(t.Context(), m, "")
	if err != nil || len(said) != 1 || said[0].Message != "slower" {
		t.Errorf("%v %v", said, err)
	}
	if !strings.Contains(c.log.String(), "could not be marked") {
		t.Errorf("the log: %s", c.log)
	}
	if got := c.joined("msn_2", ""); got != "Nudge of lane: slower" {
		t.Errorf("it is unread: %q", got)
	}
}

func TestAJournalThatCannotBeReadGivesNoBriefHalfOfWhatWasSaid(t *testing.T) {
	c := newCrew(t)
	c.nudge("vyg_1", "", "slower")
	m := c.mission("msn_1")
	c.store.fail = errors.New("the disk is gone")
	if said, err := c.Join(t.Context(), m, ""); err == nil {
		t.Errorf("%v", said)
	}
}

// Each thing that was said stands in the brief of exactly one mission, whatever
// the order of saying and beginning.
func TestEachSignalJoinsOneBriefAtMost(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := newCrew(t)
		said, briefs := 0, map[string]string{} // message -> mission
		for range rapid.IntRange(1, 20).Draw(rt, "steps") {
			switch rapid.IntRange(0, 3).Draw(rt, "step") {
			case 0:
				said++
				c.nudge("vyg_1", "", fmt.Sprint("v", said))
			case 1:
				said++
				c.nudge("", rapid.SampledFrom([]string{"msn_1", "msn_2"}).Draw(rt, "to"), fmt.Sprint("m", said))
			case 2:
				said++
				c.mail("cpt_1", fmt.Sprint("c", said))
			default:
				id := rapid.SampledFrom([]string{"msn_1", "msn_2"}).Draw(rt, "begins")
				for _, s := range must(c.Join(t.Context(), c.mission(id), "cpt_1"))(t) {
					if other := briefs[s.Message]; other != "" && other != id {
						rt.Fatalf("%s stands in %s and %s", s.Message, other, id)
					}
					briefs[s.Message] = id
				}
			}
		}
		c.joined("msn_1", "cpt_1")
		for _, s := range must(c.Join(t.Context(), c.mission("msn_2"), "cpt_1"))(t) {
			briefs[s.Message] = "msn_2"
		}
		for _, s := range must(c.Join(t.Context(), c.mission("msn_1"), "cpt_1"))(t) {
			briefs[s.Message] = "msn_1"
		}
		if len(briefs) != said {
			rt.Fatalf("%d of %d joined a brief", len(briefs), said)
		}
	})
}

func TestTwoMissionsThatBeginAtOnceShareWhatWasSaid(t *testing.T) {
	c := newCrew(t)
	for i := range 40 {
		c.nudge("vyg_1", "", fmt.Sprint(i))
	}
	var all sync.WaitGroup
	got := make(chan board.Said, 200)
	for _, id := range []string{"msn_1", "msn_2"} {
		m := c.mission(id)
		all.Go(func() {
			said, err := c.Join(t.Context(), m, "")
			if err != nil {
				t.Error(err)
			}
			for _, s := range said {
				got <- s
			}
		})
	}
	all.Wait()
	close(got)
	seen := map[string]bool{}
	for s := range got {
		if seen[s.Message] {
			t.Errorf("%s stands in both", s.Message)
		}
		seen[s.Message] = true
	}
	if len(seen) != 40 {
		t.Errorf("%d of 40", len(seen))
	}
}

func TestTheEndOfAMissionWakesTheAgentWakeParticipant(t *testing.T) {
	reason, message := dispatch.NoCommitProduced, "No commit [on] the\nbranch."
	for _, tt := range []struct {
		mission dispatch.Mission
		want    string
	}{
		{dispatch.Mission{ID: "msn_1", Owner: dispatch.Owner{TenantID: "default"}, VesselID: "vsl_1", Title: "Add [x]", Status: dispatch.MissionComplete},
			"[vsl=vsl_1] Mission msn_1 (Add (x)) ended Complete."},
		{dispatch.Mission{ID: "msn_1", Owner: dispatch.Owner{TenantID: "default"}, VesselID: "vsl_1", Title: "Add", Status: dispatch.MissionFailed, FailureReason: &reason, FailureMessage: &message},
			"[vsl=vsl_1] Mission msn_1 (Add) ended Failed: no_commit_produced (No commit (on) the branch.)."},
	} {
		c := newCrew(t)
		c.MissionEnded(tt.mission)
		room := must(c.Read(as(admin, "admiral", c.now), board.Query{ParticipantKey: "admiral"}))(t)
		if got := payloads(room.UnreadWakes); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
		if other := must(c.Read(as(member("t2"), "lane", c.now), board.Query{ParticipantKey: "lane"}))(t); len(other.UnreadWakes) != 0 {
			t.Errorf("somebody else has %q", payloads(other.UnreadWakes))
		}
	}
	c := newCrew(t)
	c.MissionEnded(dispatch.Mission{ID: "msn_1", Owner: dispatch.Owner{TenantID: "t2"}, Status: dispatch.MissionComplete})
	outsider := broker.Principal{Tenant: "default", User: "u", Role: broker.TenantAdministrator}
	if room := must(c.Read(as(outsider, "admiral", c.now), board.Query{ParticipantKey: "admiral"}))(t); len(room.UnreadWakes) != 0 {
		t.Errorf("the wake of another tenant: %q", payloads(room.UnreadWakes))
	}
	c.store.fail = errors.New("the disk is gone")
	c.MissionEnded(dispatch.Mission{ID: "msn_1"})
	if !strings.Contains(c.log.String(), "could not be stored") {
		t.Errorf("the log: %s", c.log)
	}
}

func TestADispatchAcrossAClaimIsNotedInTheRoomOfTheClaim(t *testing.T) {
	v := dispatch.Vessel{ID: "vsl_1", Owner: dispatch.Owner{TenantID: "t1"}, Name: "shop"}
	claim := func(key, subject, room string) func(c *crew) {
		return func(c *crew) {
			must(c.Claim(c.t.Context(), as(member("t1"), key, c.now), board.ClaimAsk{SubjectType: "vessel", SubjectID: subject, RoomKey: room, Note: "mine [x]", DisplayName: "Lane"}))(c.t.(fataler))
		}
	}
	for name, tt := range map[string]struct {
		claims []func(c *crew)
		want   map[string]string // by room
	}{
		"without a claim":         {nil, map[string]string{"fleet": ""}},
		"its own":                 {[]func(c *crew){claim("lane-a", "vsl_1", "")}, map[string]string{"fleet": ""}},
		"of another vessel":       {[]func(c *crew){claim("lane-b", "vsl_2", "")}, map[string]string{"fleet": ""}},
		"one that has run out":    {[]func(c *crew){claim("lane-b", "vsl_1", ""), func(c *crew) { c.now = c.now.Add(5 * time.Hour) }}, map[string]string{"fleet": ""}},
		"another's, by the id":    {[]func(c *crew){claim("lane-b", "vsl_1", "")}, map[string]string{"fleet": `[claims] lane-a dispatched "Rate limits" on vessel shop (vsl_1) across the claim of lane-b (Lane): mine (x).`}},
		"another's, by the name":  {[]func(c *crew){claim("lane-b", "shop", "side")}, map[string]string{"fleet": "", "side": `[claims] lane-a dispatched "Rate limits" on vessel shop (vsl_1) across the claim of lane-b (Lane): mine (x).`}},
		"two, and one of its own": {[]func(c *crew){claim("lane-c", "vsl_1", ""), claim("lane-a", "vsl_1", ""), claim("lane-b", "vsl_1", "")}, map[string]string{"fleet": `[claims] lane-a dispatched "Rate limits" on vessel shop (vsl_1) across the claim of lane-c (Lane): mine (x); lane-b (Lane): mine (x).`}},
		"a subject with a slash":  {[]func(c *crew){claim("lane-b", "vsl_1/t1", "")}, map[string]string{"fleet": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCrew(t)
			for _, do := range tt.claims {
				do(c)
			}
			if err := c.Dispatched(t.Context(), member("t1"), "lane-a", v, "Rate\nlimits"); err != nil {
				t.Fatal(err)
			}
			for room, want := range tt.want {
				if got := contents(must(c.Read(as(member("t1"), "", c.now), board.Query{RoomKey: room}))(t)); got != want {
					t.Errorf("%s: got %q, want %q", room, got, want)
				}
				if got := contents(must(c.Read(as(member("t2"), "", c.now), board.Query{RoomKey: room}))(t)); got != "" {
					t.Errorf("another tenant reads %q", got)
				}
			}
		})
	}
}

// unwritable is a store that can only be read.
type unwritable struct{ *memory }

func (*unwritable) Put(context.Context, broker.RecordChange) (broker.Record, error) {
	return broker.Record{}, errors.New("the disk is full")
}

func TestARestartIsToldToTheMissionsOwner(t *testing.T) {
	c := newCrew(t)
	m := c.mission("msn_2")
	m.Title = "Add\nlimiter"
	if err := c.Restarted(t.Context(), broker.LocalOperator, m); err != nil {
		t.Fatal(err)
	}
	records := must(c.store.Records(broker.RecordQuery{Kind: board.KindSignal, Limit: 10}))(t)
	if len(records) != 1 {
		t.Fatalf("%d signals", len(records))
	}
	var s struct{ Tenant, User, Type, Payload, By, Mission string }
	if err := json.Unmarshal(records[0].Value, &s); err != nil {
		t.Fatal(err)
	}
	if s.Tenant != "t1" || s.User != "u" || s.Type != board.Progress || s.Mission != "msn_2" || s.By != broker.LocalOperator.Key() || s.Payload != "The mission msn_2 (Add limiter) was restarted." {
		t.Errorf("got %+v (%s)", s, records[0].Value)
	}
	if said := must(c.Join(t.Context(), m, "cpt_1"))(t); len(said) != 0 {
		t.Errorf("a brief has %v", said)
	}
}
