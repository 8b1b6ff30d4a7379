package board_test

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"berth/broker"
	"berth/broker/catalog"
	"berth/broker/native"
	"berth/broker/native/board"
)

// desk is the family as callers reach it: arguments are normalised and checked
// by the catalog first.
type desk struct {
	t       *testing.T
	profile *catalog.Profile
	conn    broker.Conn
}

func newDesk(t *testing.T) (*desk, *memory) {
	t.Helper()
	store := newMemory()
	b, _ := newBoard(store, board.AgentWake{}, nil)
	family := board.NewFamily(b, native.Options{RuntimeID: "r1", Now: func() time.Time { return at }, Log: slog.New(slog.DiscardHandler)})
	snapshot, faults := catalog.Build(1, []catalog.Source{family.Source()})
	if len(faults) > 0 {
		t.Fatalf("%+v", faults)
	}
	conn := must(family.Open(t.Context(), nil))(t)
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	profile, _ := snapshot.Profile(catalog.Full)
	return &desk{t, profile, conn}, store
}

// call gives the text of the result.
func (d *desk) call(participant, name, arguments string) string {
	d.t.Helper()
	v, ok := d.profile.Resolve(name)
	if !ok {
		d.t.Fatalf("there is no %s", name)
	}
	normal := v.NormaliseArguments(json.RawMessage(arguments))
	if refusal := v.CheckArguments(normal); refusal != nil {
		return string(refusal.NativeJSON())
	}
	answer, err := d.conn.Call(d.t.Context(), &broker.Call{Verb: v.Name, Principal: admin, Origin: broker.Origin{Participant: participant},
		Params: json.RawMessage(`{"name":"` + v.Name + `","arguments":` + string(normal) + `}`)}, broker.Peer{})
	if err != nil {
		d.t.Fatal(err)
	}
	var result struct{ Content []struct{ Text string } }
	if err := json.Unmarshal(answer.Result, &result); err != nil || len(result.Content) != 1 {
		d.t.Fatalf("%s: %v", answer.Result, err)
	}
	return result.Content[0].Text
}

func TestTheVerbsAnswerAndRefuseAsTheTablesSay(t *testing.T) {
	d, _ := newDesk(t)
	for _, tt := range []struct{ participant, verb, arguments, want string }{
		{"", "armada_coordination_post", `{"authorName":"a"}`, `"Code":"missing_content"`},
		{"", "coordination_post", `{"content":"  ","authorName":"a"}`, `"Code":"missing_content"`},
		{"", "coordination_post", `{"content":"x"}`, `"Code":"missing_author_name"`},
		{"", "coordination_post", `{"content":"x","authorName":"a","toParticipantKey":"a b"}`, `"Code":"invalid_participant_key"`},
		{"", "coordination_post", `{"content":"x","authorName":"a","roomKey":"a b"}`, `"Code":"invalid_room_key"`},
		{"", "coordination_post", `{"content":"` + strings.Repeat("x", 65_537) + `","authorName":"a"}`, `"Code":"invalid_arguments"`},
		{"lane-b", "coordination_post", `{"content":"x <b>","authorName":"Lane B","toParticipantKey":"lane-a","voyageId":"v","roomKey":""}`,
			`"AuthorType":"Operator","AuthorId":"lane-b","AuthorName":"Lane B","Content":"x <b>","VoyageId":"v","MissionId":null,"VesselId":null,"IncidentId":null,"ToParticipantKey":"lane-a","CreatedUtc":"2026-11-30T12:00:00Z"}`},
		{"", "armada_coordination_read", `{"participantKey":"lane-a","limit":"1000000000000"}`, `"Payload":"[to=lane-a] [from=lane-b] x <b>","Read":false`},
		{"lane-a", "coordination_read", `{}`, `"Payload":"[to=lane-a] [from=lane-b] x <b>","Read":false`},
		{"lane-a", "coordination_read", `{"participantKey":"lane-c"}`, `"UnreadWakes":[]`},
		{"", "coordination_read", `{"afterUtc":"yesterday"}`, `"Path":"/afterUtc"`},
		{"", "coordination_read", `{"afterUtc":"2026-11-30T12:00:00Z","participantKey":"lane-a"}`, `"Messages":[]`},
		{"", "coordination_read", `{"participantKey":"é"}`, `"Code":"invalid_participant_key"`},
		{"", "coordination_read", `{"activeWithinMinutes":-5}`, `"ActiveParticipants":[{"ParticipantKey":"lane-b","DisplayName":"Lane B"`},
		{"", "armada_coordination_heartbeat", `{"displayName":"A"}`, `"Code":"missing_participant_key"`},
		{"", "coordination_heartbeat", `{"participantKey":"lane-a"}`, `"Code":"missing_display_name"`},
		{"", "coordination_heartbeat", `{"participantKey":"lane-a","displayName":"A"}`, `{"Participant":{"ParticipantKey":"lane-a","DisplayName":"A","RoomKey":"fleet","LastSeenUtc":"2026-11-30T12:00:00Z"},"UnreadWakes":[{"Id":"sig_`},
		{"", "coordination_claim", `{}`, `"Code":"invalid_action"`},
		{"", "coordination_claim", `{"action":"steal"}`, `"Code":"invalid_action"`},
		{"", "armada_coordination_claim", `{"action":"claim","participantKey":"k"}`, `"Code":"missing_subject"`},
		{"", "coordination_claim", `{"action":"claim","subjectType":"vessel","subjectId":"v"}`, `"Code":"missing_participant_key"`},
		{"", "coordination_claim", `{"action":"release"}`, `"Code":"missing_claim_id"`},
		{"", "coordination_claim", `{"action":"release","claimId":"ccl_none"}`, `{"ClaimId":"ccl_none","Status":"not_found"}`},
		{"lane-a", "coordination_claim", `{"action":"claim","subjectType":"vessel","subjectId":"v","ttlHours":"0.1"}`, `"ExpiresUtc":"2026-11-30T12:30:00Z"}`},
		{"", "coordination_claim", `{"action":"list"}`, `{"Claims":[{"Id":"ccl_`},
		{"", "mark_signal_read", `{}`, `"Code":"invalid_arguments"`},
		{"", "armada_mark_signal_read", `{"signalId":"sig_none"}`, `{"Status":"not_found","SignalId":"sig_none"}`},
		{"", "delete_signals", `{}`, `"Code":"missing_ids"`},
		{"", "delete_signals", `{"ids":[]}`, `"Code":"missing_ids"`},
		{"", "armada_delete_signals", `{"ids":["sig_none"]}`, `{"Status":"NoneDeleted","Deleted":0,"Skipped":[{"Id":"sig_none","Reason":"not_found"}]}`},
		{"", "register_agentwake_session", `{}`, `"Code":"invalid_runtime"`},
		{"", "register_agentwake_session", `{"runtime":"Auto"}`, `"Code":"invalid_runtime"`},
		{"", "register_agentwake_session", `{"runtime":"Codex","command":"codex --yolo"}`, `"Code":"server_path_forbidden"`},
		{"", "agentwake_status", `{}`, `{"HasSession":false,"Session":null,"ConfiguredParticipantKey":null,"EffectiveParticipantKey":null,"DeliveryMode":"StoredWake","Runtime":null}`},
		{"", "armada_register_agentwake_session", `{"runtime":"Codex","participantKey":"k"}`,
			`{"Status":"registered","Session":{"Runtime":"Codex","ParticipantKey":"k","SessionId":null,"Command":null,"WorkingDirectory":null,"ClientName":null,"RegisteredUtc":"2026-11-30T12:00:00Z"}}`},
		{"", "armada_agentwake_status", `{}`, `"EffectiveParticipantKey":"k","DeliveryMode":"StoredWake","Runtime":"Codex"`},
	} {
		if got := d.call(tt.participant, tt.verb, tt.arguments); !strings.Contains(got, tt.want) {
			t.Errorf("%s %.80s: got %s, want %s", tt.verb, tt.arguments, got, tt.want)
		}
	}
}

// A miss refuses too much, never too little.
func TestWhatACallMayDoFollowsFromItsArguments(t *testing.T) {
	d, _ := newDesk(t)
	for _, tt := range []struct {
		verb, arguments string
		want            broker.Effects
	}{
		{"coordination_post", `{"content":"x"}`, broker.Write},
		{"coordination_post", `{"content":"x","toParticipantKey":""}`, broker.Write},
		{"coordination_post", `{"content":"x","toParticipantKey":"k"}`, broker.Write | broker.Exec},
		{"coordination_post", `{"content":"x","toParticipantKey":null}`, broker.Write | broker.Exec},
		{"coordination_claim", `{"action":"list"}`, broker.Read},
		{"coordination_claim", `{"action":"claim"}`, broker.Write},
		{"coordination_claim", `{}`, broker.Write},
		{"coordination_read", `{}`, broker.Read},
		{"coordination_heartbeat", `{}`, broker.Write},
		{"mark_signal_read", `{}`, broker.Write},
		{"delete_signals", `{}`, broker.Destroy},
		{"register_agentwake_session", `{}`, broker.Write},
		{"agentwake_status", `{}`, broker.Read},
	} {
		v, ok := d.profile.Resolve(tt.verb)
		if !ok {
			t.Fatal(tt.verb)
		}
		if got := v.EffectsFor(v.NormaliseArguments(json.RawMessage(tt.arguments))); got != tt.want {
			t.Errorf("%s %s: %v, want %v", tt.verb, tt.arguments, got.Names(), tt.want.Names())
		}
	}
}

func TestOnlyAdministratorsSeeTheBoardAndParticipantsTheirAcknowledgement(t *testing.T) {
	d, _ := newDesk(t)
	for _, tt := range []struct {
		class catalog.Class
		want  int
	}{
		{catalog.Class{Role: broker.GlobalAdministrator}, 8}, {catalog.Class{Role: broker.TenantAdministrator}, 0}, {catalog.Class{Role: broker.User}, 0},
		{catalog.Class{Role: broker.User, Participant: true}, 1},
	} {
		view := d.profile.As(tt.class)
		if got := view.Entries(); len(got) != tt.want || (tt.want == 1 && got[0].Name != board.VerbMark) {
			t.Errorf("%+v: %v", tt.class, got)
		}
	}
}
