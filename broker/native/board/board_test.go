package board_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"go.uber.org/goleak"

	"berth/broker"
	"berth/broker/native/board"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestANoteIsSeenByWhomItIsFor(t *testing.T) {
	b, _ := newBoard(newMemory(), board.AgentWake{}, nil)
	post := func(who broker.Principal, room, to, content string, n int) {
		must(b.Post(t.Context(), as(who, "", seconds(n)), board.Draft{Content: content, AuthorName: "x", RoomKey: room, ToParticipantKey: to}))(t)
	}
	post(member("t1"), "", "", "all1", 1)
	post(member("t1"), "default", "lane-a", "toA", 2)
	post(member("t2"), "fleet", "", "other-tenant", 3)
	post(member("t1"), "side", "", "side", 4)
	post(member("t2"), "fleet", "lane-a", "other-toA", 5)
	if err := b.PostSystem(t.Context(), "[hold]"); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name      string
		who       broker.Principal
		room, key string
		want      string
	}{
		{"broadcast only", member("t1"), "", "", "all1 [hold]"},
		{"its own too", member("t1"), "fleet", "lane-a", "all1 toA [hold]"},
		{"not another's", member("t1"), "", "lane-b", "all1 [hold]"},
		{"another room", member("t1"), "side", "lane-a", "side"},
		{"another tenant", member("t2"), "", "lane-a", "other-tenant other-toA [hold]"},
		{"an administrator of everything", admin, "", "lane-a", "all1 toA other-tenant other-toA [hold]"},
		{"an administrator of a tenant", broker.Principal{Tenant: "t1", Role: broker.TenantAdministrator}, "", "", "all1 [hold]"},
	} {
		room := must(b.Read(as(tt.who, "", at.Add(time.Hour)), board.Query{RoomKey: tt.room, ParticipantKey: tt.key}))(t)
		if got := contents(room); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestARefusedNoteIsNotStored(t *testing.T) {
	store := newMemory()
	b, _ := newBoard(store, board.AgentWake{}, nil)
	long := strings.Repeat("é", 65_536)
	for _, tt := range []struct {
		name  string
		draft board.Draft
		want  broker.Code
	}{
		{"no text", board.Draft{Content: " \n", AuthorName: "a"}, broker.CodeMissingContent},
		{"no author", board.Draft{Content: "x", AuthorName: "\t"}, broker.CodeMissingAuthorName},
		{"a participant with a space", board.Draft{Content: "x", AuthorName: "a", ToParticipantKey: "a b"}, broker.CodeInvalidParticipant},
		{"a participant that is too long", board.Draft{Content: "x", AuthorName: "a", ToParticipantKey: strings.Repeat("k", 129)}, broker.CodeInvalidParticipant},
		{"a participant that would be another list", board.Draft{Content: "x", AuthorName: "a", ToParticipantKey: "a/t2"}, broker.CodeInvalidParticipant},
		{"a room with a slash", board.Draft{Content: "x", AuthorName: "a", RoomKey: "a/b"}, broker.CodeInvalidRoomKey},
		{"a room that is too long", board.Draft{Content: "x", AuthorName: "a", RoomKey: strings.Repeat("k", 65)}, broker.CodeInvalidRoomKey},
		{"one character too many", board.Draft{Content: long + "x", AuthorName: "a"}, broker.CodeInvalidArguments},
		{"a long author", board.Draft{Content: "x", AuthorName: strings.Repeat("a", 129)}, broker.CodeInvalidArguments},
		{"a long vessel", board.Draft{Content: "x", AuthorName: "a", VesselID: strings.Repeat("a", 129)}, broker.CodeInvalidArguments},
	} {
		if _, err := b.Post(t.Context(), as(admin, "", at), tt.draft); code(err) != tt.want {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
		}
	}
	if len(store.records) != 0 {
		t.Errorf("%d records", len(store.records))
	}
	m := must(b.Post(t.Context(), as(admin, "", at), board.Draft{Content: long, AuthorName: "a\x00\u202e", ToParticipantKey: "k"}))(t)
	if room := must(b.Read(as(admin, "", at), board.Query{ParticipantKey: "k"}))(t); len(room.Messages) != 1 || room.Messages[0].Content != long || room.Messages[0].ID != m.ID {
		t.Error("the longest note is not what it was")
	}
}

func TestBroadcastNotesArePreviewedAndDirectedOnesAreWhole(t *testing.T) {
	b, _ := newBoard(newMemory(), board.AgentWake{}, nil)
	long := strings.Repeat("é", 700)
	for _, to := range []string{"", "k"} {
		must(b.Post(t.Context(), as(admin, "", at), board.Draft{Content: long, AuthorName: "a", ToParticipantKey: to}))(t)
	}
	room := must(b.Read(as(admin, "", at), board.Query{ParticipantKey: "k"}))(t)
	if room.TruncatedMessageCount != 1 || len(room.Messages) != 2 {
		t.Fatalf("%+v", room)
	}
	for _, m := range room.Messages {
		if want := 700 - 100*btoi(m.Truncated); m.ContentLength != 700 || utf8.RuneCountInString(m.Content) != want || m.Truncated != (m.ToParticipantKey == nil) {
			t.Errorf("%d characters, truncated %v", utf8.RuneCountInString(m.Content), m.Truncated)
		}
	}
	if payload := room.UnreadWakes[0].Payload; payload != "[to=k] [from=a] "+strings.Repeat("é", 500) {
		t.Errorf("payload %q", payload)
	}
	if room = must(b.Read(as(admin, "", at), board.Query{Full: true}))(t); room.TruncatedMessageCount != 0 || room.Messages[0].Content != long {
		t.Error("includeFullContent cuts")
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func TestTheAuthorIsTheArgumentThenTheHeaderThenTheName(t *testing.T) {
	b, _ := newBoard(newMemory(), board.AgentWake{}, nil)
	for _, tt := range []struct{ id, header, want, payload string }{
		{"own", "head", "own", "[to=k] [from=own] x"},
		{"", "head", "head", "[to=k] [from=head] x"},
		{"", "", "Lane [B]\n- x", "[to=k] [from=Lane (B) - x] x"},
	} {
		m := must(b.Post(t.Context(), as(admin, tt.header, at), board.Draft{Content: "x", AuthorName: "Lane [B]\n- x", AuthorID: tt.id, ToParticipantKey: "k"}))(t)
		room := must(b.Read(as(admin, "", at), board.Query{ParticipantKey: "k"}))(t)
		if got := room.UnreadWakes[len(room.UnreadWakes)-1].Payload; m.AuthorID != tt.want || !strings.Contains(payloads(room.UnreadWakes), tt.payload) {
			t.Errorf("author %q, want %q; payload %q", m.AuthorID, tt.want, got)
		}
	}
	// Who has a key was there; a name that is none was not.
	room := must(b.Read(as(admin, "", at), board.Query{}))(t)
	var keys []string
	for _, p := range room.ActiveParticipants {
		keys = append(keys, p.ParticipantKey)
	}
	if strings.Join(keys, " ") != "head own" {
		t.Errorf("active: %v", keys)
	}
}

func TestALaterReadGoesOnWhereTheLastOneEnded(t *testing.T) {
	b, _ := newBoard(newMemory(), board.AgentWake{}, nil)
	for n := range 25 {
		to := ""
		if n%3 == 0 {
			to = "k"
		}
		must(b.Post(t.Context(), as(admin, "", seconds(n)), board.Draft{Content: text(n), AuthorName: "a", ToParticipantKey: to}))(t)
	}
	q := board.Query{Limit: 4, ParticipantKey: "k"}
	if got := contents(must(b.Read(as(admin, "", seconds(60)), q))(t)); got != "n21 n22 n23 n24" {
		t.Errorf("the latest: %s", got)
	}
	var all []string
	for q.After = at.Add(-time.Hour); ; {
		room := must(b.Read(as(admin, "", seconds(60)), q))(t)
		if len(room.Messages) == 0 {
			break
		}
		all = append(all, contents(room))
		q.After = must(time.Parse(time.RFC3339Nano, room.Messages[len(room.Messages)-1].CreatedUtc))(t)
	}
	var want []string
	for n := range 25 {
		want = append(want, text(n))
	}
	if strings.Join(all, " ") != strings.Join(want, " ") {
		t.Errorf("all pages: %v", all)
	}
}

func TestNothingThatExpiredIsShown(t *testing.T) {
	store := newMemory()
	b, _ := newBoard(store, board.AgentWake{ParticipantKey: "k"}, nil)
	ctx := t.Context()
	must(b.Post(ctx, as(admin, "a", at), board.Draft{Content: "old", AuthorName: "a"}))(t)
	must(b.Post(ctx, as(admin, "a", at), board.Draft{Content: "oldK", AuthorName: "a", ToParticipantKey: "k"}))(t)
	c := must(b.Claim(ctx, as(admin, "a", at), board.ClaimAsk{SubjectType: "vessel", SubjectID: "v", TTL: 72 * time.Hour}))(t)
	for _, tt := range []struct {
		after                        time.Duration
		notes                        string
		participants, claims, unread int
	}{
		{14 * time.Minute, "old oldK", 1, 1, 1},
		{16 * time.Minute, "old oldK", 0, 1, 1},
		{73 * time.Hour, "old oldK", 0, 0, 1},
		{board.Retention - time.Second, "old oldK", 0, 0, 1},
		{board.Retention, "", 0, 0, 0},
	} {
		now := at.Add(tt.after)
		room := must(b.Read(as(admin, "", now), board.Query{ParticipantKey: "k"}))(t)
		after := must(b.Read(as(admin, "", now), board.Query{ParticipantKey: "k", After: at.Add(-time.Hour)}))(t)
		if contents(room) != tt.notes || contents(after) != tt.notes || len(room.ActiveParticipants) != tt.participants || len(room.ActiveClaims) != tt.claims || len(room.UnreadWakes) != tt.unread {
			t.Errorf("after %v: %+v", tt.after, room)
		}
	}
	if _, found, err := b.Release(ctx, as(admin, "", at.Add(73*time.Hour)), c.ID); found || err != nil {
		t.Errorf("an expired claim was released: %v %v", found, err)
	}
	late := as(admin, "", at.Add(board.Retention))
	if got := must(b.MarkRead(ctx, late, signals(store)[0]))(t); got.Status != board.NotFound {
		t.Errorf("an expired signal: %+v", got)
	}
}

func signals(m *memory) []string {
	var out []string
	for name := range m.records {
		if id, ok := strings.CutPrefix(name, board.KindSignal+"\x00"); ok {
			out = append(out, id)
		}
	}
	slices.Sort(out) // by age
	return out
}

func TestWakesAreAcknowledgedByWhomTheyAreFor(t *testing.T) {
	store := newMemory()
	b, _ := newBoard(store, board.AgentWake{ParticipantKey: "owner"}, nil)
	ctx := t.Context()
	m := must(b.Post(ctx, as(member("t1"), "", at), board.Draft{Content: "x", AuthorName: "a", ToParticipantKey: "k"}))(t)
	directed := "sig_" + m.ID[4:]
	if err := b.StoreWake(ctx, "[CRITICAL] stop"); err != nil {
		t.Fatal(err)
	}
	unaddressed := ""
	for _, id := range signals(store) {
		if id != directed {
			unaddressed = id
		}
	}
	mail := broker.RecordChange{Kind: board.KindSignal, ID: "sig_mail", Value: []byte(`{"tenant":"t1","type":"Mail","payload":"m"}`)}
	must(store.Put(ctx, mail))(t)
	now := at.Add(time.Hour)
	for _, tt := range []struct {
		name   string
		who    board.Caller
		id     string
		status string
		code   broker.Code
	}{
		{"another participant", as(admin, "other", now), directed, "", broker.CodeWakeNotAddressed},
		{"the owner of unaddressed ones", as(admin, "owner", now), directed, "", broker.CodeWakeNotAddressed},
		{"another tenant, as if it did not exist", as(member("t2"), "k", now), directed, board.NotFound, ""},
		{"an id of nobody", as(admin, "k", now), "sig_none", board.NotFound, ""},
		{"an id with a zero byte", as(admin, "k", now), "sig_\x00x", board.NotFound, ""},
		{"no wake", as(member("t1"), "k", now), "sig_mail", "", broker.CodeSignalNotWake},
		{"unaddressed, by another", as(admin, "k", now), unaddressed, "", broker.CodeWakeOwnerOnly},
		{"unaddressed, by the owner's name in another tenant", as(member("t1"), "owner", now), unaddressed, "", broker.CodeWakeOwnerOnly},
		{"its addressee", as(member("t1"), "k", now), directed, board.Marked, ""},
		{"again", as(member("t1"), "k", now), directed, board.AlreadyRead, ""},
		{"unaddressed, by the owner", as(admin, "owner", now), unaddressed, board.Marked, ""},
		{"no header, and no administrator", as(member("t1"), "", now), "sig_mail", "", broker.CodeGlobalAdministrator},
		{"no header, no administrator, a wake of the broker", as(member("t1"), "", now), unaddressed, board.NotFound, ""},
		{"no header: any", as(admin, "", now), "sig_mail", board.Marked, ""},
	} {
		got, err := b.MarkRead(ctx, tt.who, tt.id)
		if code(err) != tt.code || got.Status != tt.status {
			t.Errorf("%s: %+v %v", tt.name, got, err)
		}
	}
	if got := must(b.Read(as(admin, "", now), board.Query{ParticipantKey: "k"}))(t); len(got.UnreadWakes) != 0 || contents(got) != "x" {
		t.Errorf("a wake that was read is still unread, or its note is gone: %+v", got)
	}
}

func TestTheOwnerSeesUnaddressedWakesAfterItsOwn(t *testing.T) {
	b, _ := newBoard(newMemory(), board.AgentWake{ParticipantKey: "owner"}, nil)
	for range 3 {
		if err := b.StoreWake(t.Context(), "[vsl=v]"); err != nil {
			t.Fatal(err)
		}
	}
	must(b.Post(t.Context(), as(admin, "", at.Add(time.Hour)), board.Draft{Content: "x", AuthorName: "a", ToParticipantKey: "owner"}))(t)
	heard := must(b.Heartbeat(t.Context(), as(admin, "", at.Add(time.Hour)), "owner", "O", ""))(t)
	if got := payloads(heard.UnreadWakes); got != "[to=owner] [from=a] x|[vsl=v]|[vsl=v]|[vsl=v]" {
		t.Error(got)
	}
	if heard := must(b.Heartbeat(t.Context(), as(admin, "", at.Add(time.Hour)), "other", "O", ""))(t); len(heard.UnreadWakes) != 0 {
		t.Errorf("another sees %v", heard.UnreadWakes)
	}
}

func TestSignalsAreDeletedAsRead(t *testing.T) {
	store := newMemory()
	b, _ := newBoard(store, board.AgentWake{}, nil)
	var ids []string
	for range 2 {
		m := must(b.Post(t.Context(), as(admin, "", at), board.Draft{Content: "x", AuthorName: "a", ToParticipantKey: "k"}))(t)
		ids = append(ids, "sig_"+m.ID[4:])
	}
	for _, tt := range []struct {
		ids     []string
		status  string
		deleted int
		skipped int
		code    broker.Code
	}{
		{nil, "", 0, 0, broker.CodeMissingIDs},
		{make([]string, 1001), "", 0, 0, broker.CodeInvalidArguments},
		{[]string{"sig_none"}, "NoneDeleted", 0, 1, ""},
		{[]string{"sig_none", ids[0]}, "PartiallyDeleted", 1, 1, ""},
		{ids, "Deleted", 2, 0, ""},
	} {
		got, err := b.DeleteSignals(t.Context(), as(admin, "", at), tt.ids)
		if got.Status != tt.status || got.Deleted != tt.deleted || len(got.Skipped) != tt.skipped || code(err) != tt.code {
			t.Errorf("%v: %+v %v", tt.ids, got, err)
		}
	}
	if len(signals(store)) != 2 {
		t.Error("a row is gone")
	}
}

func TestClaimsAreAdviceThatAHeartbeatExtends(t *testing.T) {
	b, _ := newBoard(newMemory(), board.AgentWake{}, nil)
	ctx := t.Context()
	ask := board.ClaimAsk{SubjectType: "vessel", SubjectID: "v1", ParticipantKey: "k"}
	for _, tt := range []struct {
		name string
		ask  board.ClaimAsk
		want broker.Code
	}{
		{"no subject", board.ClaimAsk{SubjectType: "vessel", ParticipantKey: "k"}, broker.CodeMissingSubject},
		{"no type", board.ClaimAsk{SubjectID: "v", ParticipantKey: "k"}, broker.CodeMissingSubject},
		{"another type", board.ClaimAsk{SubjectType: "fleet", SubjectID: "v", ParticipantKey: "k"}, broker.CodeInvalidArguments},
		{"nobody", board.ClaimAsk{SubjectType: "vessel", SubjectID: "v"}, broker.CodeMissingParticipant},
		{"a bad key", board.ClaimAsk{SubjectType: "vessel", SubjectID: "v", ParticipantKey: "a/b"}, broker.CodeInvalidParticipant},
		{"a bad room", board.ClaimAsk{SubjectType: "vessel", SubjectID: "v", ParticipantKey: "k", RoomKey: "é"}, broker.CodeInvalidRoomKey},
		{"a long note", board.ClaimAsk{SubjectType: "vessel", SubjectID: "v", ParticipantKey: "k", Note: strings.Repeat("n", 1001)}, broker.CodeInvalidArguments},
	} {
		if _, err := b.Claim(ctx, as(admin, "", at), tt.ask); code(err) != tt.want {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	first := must(b.Claim(ctx, as(member("t1"), "", at), ask))(t)
	other := must(b.Claim(ctx, as(member("t1"), "lane-b", at), board.ClaimAsk{SubjectType: "vessel", SubjectID: "v1"}))(t)
	if other.ID == first.ID || other.ParticipantKey != "lane-b" {
		t.Errorf("a claim locks: %+v", other)
	}
	if again := must(b.Claim(ctx, as(member("t1"), "", seconds(60)), ask))(t); again.ID != first.ID || again.CreatedUtc != first.CreatedUtc || again.ExpiresUtc <= first.ExpiresUtc {
		t.Errorf("renewed: %+v", again)
	}
	long := must(b.Claim(ctx, as(member("t1"), "", at), board.ClaimAsk{SubjectType: "objective", SubjectID: "o", ParticipantKey: "k", TTL: 1000 * time.Hour}))(t)
	if want := at.Add(72 * time.Hour).Format(time.RFC3339Nano); long.ExpiresUtc != want {
		t.Errorf("expires %s, want %s", long.ExpiresUtc, want)
	}
	must(b.Heartbeat(ctx, as(member("t1"), "", at.Add(3*time.Hour)), "k", "K", ""))(t)
	claims := must(b.Claims(as(member("t1"), "", at.Add(5*time.Hour)), ""))(t)
	if len(claims) != 2 || claims[0].ID != first.ID || claims[0].ExpiresUtc != at.Add(7*time.Hour).Format(time.RFC3339Nano) || claims[1].ExpiresUtc != long.ExpiresUtc {
		t.Errorf("after the heartbeat: %+v", claims)
	}
	if _, found, err := b.Release(ctx, as(member("t2"), "", at), first.ID); found || err != nil {
		t.Errorf("released by another tenant: %v", err)
	}
	if _, _, err := b.Release(ctx, as(admin, "", at), " "); code(err) != broker.CodeMissingClaimID {
		t.Errorf("released nothing: %v", err)
	}
	if c, found, err := b.Release(ctx, as(member("t1"), "", at), first.ID); !found || err != nil || c.ReleasedUtc == nil {
		t.Errorf("%+v %v %v", c, found, err)
	}
	if _, found, err := b.Release(ctx, as(member("t1"), "", at), first.ID); found || err != nil {
		t.Errorf("released twice: %v %v", found, err)
	}
}

func TestAParticipantHasABoundedNumberOfClaims(t *testing.T) {
	b, _ := newBoard(newMemory(), board.AgentWake{}, nil)
	for n := range 201 {
		_, err := b.Claim(t.Context(), as(admin, "k", at), board.ClaimAsk{SubjectType: "vessel", SubjectID: text(n)})
		if want := map[bool]broker.Code{true: broker.CodeOverloaded}[n == 200]; code(err) != want {
			t.Fatalf("claim %d: %v", n, err)
		}
	}
}

func TestAHeartbeatNamesItsParticipant(t *testing.T) {
	b, _ := newBoard(newMemory(), board.AgentWake{}, nil)
	for _, tt := range []struct {
		key, name, room string
		want            broker.Code
	}{
		{"", "n", "", broker.CodeMissingParticipant}, {"k", " ", "", broker.CodeMissingDisplayName}, {"a b", "n", "", broker.CodeInvalidParticipant},
		{"k", strings.Repeat("n", 129), "", broker.CodeInvalidArguments}, {"k", "n", "/", broker.CodeInvalidRoomKey}, {"k", "n", "", ""},
	} {
		if _, err := b.Heartbeat(t.Context(), as(admin, "", at), tt.key, tt.name, tt.room); code(err) != tt.want {
			t.Errorf("%+v: %v", tt, err)
		}
	}
}

func TestAJournalThatFailsIsNotHidden(t *testing.T) {
	store := newMemory()
	b, log := newBoard(store, board.AgentWake{}, nil)
	for failure, want := range map[error]broker.Code{broker.ErrJournalBusy: broker.CodeJobJournal, errors.New("sync: a secret"): broker.CodeOutcomeUnknown} {
		store.fail = failure
		if _, err := b.Post(t.Context(), as(admin, "", at), board.Draft{Content: "x", AuthorName: "a"}); code(err) != want || strings.Contains(err.Error(), "secret") {
			t.Errorf("%v: %v", failure, err)
		}
		if _, err := b.Read(as(admin, "", at), board.Query{}); err == nil {
			t.Error("an empty board instead of an error")
		}
		if _, err := b.Banner(admin, "k", "mark_signal_read"); err == nil {
			t.Error("no wakes instead of an error")
		}
	}
	if !strings.Contains(log.String(), "a secret") {
		t.Error("the cause is lost")
	}
}

// failing fails the writes of one kind.
type failing struct {
	*memory
	kind string
}

func (f failing) Put(ctx context.Context, c broker.RecordChange) (broker.Record, error) {
	if c.Kind == f.kind {
		return broker.Record{}, errors.New("the disk is full")
	}
	return f.memory.Put(ctx, c)
}

func TestANoteStandsWhenItsAuthorsPresenceCannotBeWritten(t *testing.T) {
	b, log := newBoard(failing{newMemory(), board.KindPresence}, board.AgentWake{}, nil)
	must(b.Post(t.Context(), as(admin, "a", at), board.Draft{Content: "x", AuthorName: "a", ToParticipantKey: "k"}))(t)
	if room := must(b.Read(as(admin, "", at), board.Query{ParticipantKey: "k"}))(t); contents(room) != "x" || len(room.UnreadWakes) != 1 {
		t.Errorf("%+v", room)
	}
	if !strings.Contains(log.String(), "present") {
		t.Error("nobody was told")
	}
}

// TestAReadTouchesWhatItShows: 100,000 notes make no read longer.
func TestAReadTouchesWhatItShows(t *testing.T) {
	store := newMemory()
	b, _ := newBoard(store, board.AgentWake{}, nil)
	// As many records as posts would leave, without their cost: those of two posts,
	// again and again.
	var templates []broker.Record
	for _, to := range []string{"", "busy"} {
		m := must(b.Post(t.Context(), as(member("t"), "", at), board.Draft{Content: "x", AuthorName: "a b", ToParticipantKey: to}))(t)
		kind, id := board.KindNote, m.ID
		if to != "" {
			kind, id = board.KindSignal, "sig_"+m.ID[4:]
		}
		templates = append(templates, must(store.Record(kind, id))(t))
	}
	for n := range 100_000 {
		r := templates[btoi(n%10 == 0)]
		when := at.Add(time.Duration(n) * time.Millisecond)
		value := bytes.Replace(r.Value, []byte(at.Format(time.RFC3339Nano)), []byte(when.Format(time.RFC3339Nano)), 1)
		id := broker.BeforeIDs(r.ID[:4], when) + "_00000000000"
		must(store.Put(t.Context(), broker.RecordChange{Kind: r.Kind, ID: id, Value: value, Keys: r.Keys, Expires: when.Add(board.Retention)}))(t)
	}
	now := at.Add(time.Hour)
	must(b.Post(t.Context(), as(member("t"), "", now), board.Draft{Content: "mine", AuthorName: "a b", ToParticipantKey: "quiet"}))(t)
	for _, tt := range []struct {
		name string
		most int
		do   func() (any, error)
	}{
		{"the latest 50", 51, func() (any, error) { return b.Read(as(member("t"), "", now), board.Query{ParticipantKey: "nobody"}) }},
		{"the latest 50 of everybody", 51, func() (any, error) { return b.Read(as(admin, "", now), board.Query{}) }},
		{"50 in the middle", 52, func() (any, error) {
			return b.Read(as(member("t"), "", now), board.Query{After: at.Add(40 * time.Second)})
		}},
		{"a banner beside 10,000 of another", 2, func() (any, error) { return b.Banner(member("t"), "quiet", "m") }},
		{"a banner of 10,000", 1005, func() (any, error) { return b.Banner(member("t"), "busy", "m") }},
	} {
		store.touched = 0
		if _, err := tt.do(); err != nil || store.touched > tt.most {
			t.Errorf("%s: %d records were touched, want at most %d (%v)", tt.name, store.touched, tt.most, err)
		}
	}
}
