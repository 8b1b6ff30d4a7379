package board_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"berth/broker"
	"berth/broker/native/board"
)

func TestSignalsAreListedInPages(t *testing.T) {
	store := newMemory()
	b, _ := newBoard(store, board.AgentWake{}, nil)
	for n := range 4 {
		must(b.Post(t.Context(), as(member("t1"), "", seconds(n)), board.Draft{Content: text(n), AuthorName: "a", ToParticipantKey: "lane-a"}))(t)
	}
	must(b.Post(t.Context(), as(admin, "", at), board.Draft{Content: "a note is no signal", AuthorName: "a"}))(t)
	must(b.MarkRead(t.Context(), as(admin, "", seconds(9)), signals(store)[1]))(t)
	for _, tt := range []struct {
		name  string
		query board.SignalQuery
		page  broker.PageRequest
		want  string
		total int
	}{
		{"all", board.SignalQuery{}, broker.PageRequest{}, "n3 n2 n1 n0", 4},
		{"the oldest first", board.SignalQuery{}, broker.PageRequest{OldestFirst: true}, "n0 n1 n2 n3", 4},
		{"a later page", board.SignalQuery{}, broker.PageRequest{Number: 2, Size: 3}, "n0", 4},
		{"unread", board.SignalQuery{UnreadOnly: true}, broker.PageRequest{}, "n3 n2 n0", 3},
		{"a type", board.SignalQuery{Type: "wake"}, broker.PageRequest{Size: 1}, "n3", 4},
		{"another type", board.SignalQuery{Type: "Mail"}, broker.PageRequest{}, "", 0},
		{"a time", board.SignalQuery{CreatedAfter: seconds(1), CreatedBefore: seconds(3)}, broker.PageRequest{}, "n2 n1", 2},
	} {
		tt.query.WithPayload = true
		got := must(b.Signals(tt.query, tt.page))(t)
		var texts []string
		for _, row := range got.Objects {
			texts = append(texts, strings.TrimPrefix(*row.Payload, "[to=lane-a] [from=a] "))
			if row.TenantID != "t1" || *row.ToParticipantKey != "lane-a" || row.Read != strings.HasSuffix(*row.Payload, "n1") {
				t.Errorf("%s: %+v", tt.name, row)
			}
		}
		if strings.Join(texts, " ") != tt.want || got.TotalRecords != tt.total {
			t.Errorf("%s: %v of %d, want %s of %d", tt.name, texts, got.TotalRecords, tt.want, tt.total)
		}
	}
	if row := must(b.Signals(board.SignalQuery{}, broker.PageRequest{Size: 1}))(t).Objects[0]; row.Payload != nil || *row.PayloadLength != len("[to=lane-a] [from=a] n3") {
		t.Errorf("without payloads: %+v", row)
	}
}

func TestTheLatestSignalsAreTheNewestAndNoneThatExpired(t *testing.T) {
	store := newMemory()
	b, _ := newBoard(store, board.AgentWake{}, nil)
	must(b.Post(t.Context(), as(admin, "", at.Add(-board.Retention-time.Hour)), board.Draft{Content: "old", AuthorName: "a", ToParticipantKey: "k"}))(t)
	if got := must(b.RecentSignals())(t); got == nil || len(got) != 0 {
		t.Fatalf("%+v", got)
	}
	for n := range 12 {
		must(b.Post(t.Context(), as(admin, "", seconds(n)), board.Draft{Content: text(n), AuthorName: "a", ToParticipantKey: "k"}))(t)
	}
	got := must(b.RecentSignals())(t)
	if len(got) != 10 || !strings.HasSuffix(*got[0].Payload, "n11") || !strings.HasSuffix(*got[9].Payload, "n2") {
		t.Errorf("%+v", got)
	}
}

// broken is a journal that cannot be read.
type broken struct{ *memory }

func (broken) Records(broker.RecordQuery) ([]broker.Record, error) {
	return nil, errors.New("the disk is gone")
}

func TestSignalsOfAJournalThatCannotBeReadAreNoEmptyList(t *testing.T) {
	b, _ := newBoard(broken{newMemory()}, board.AgentWake{}, nil)
	if _, err := b.Signals(board.SignalQuery{}, broker.PageRequest{}); err == nil {
		t.Error("a list")
	}
	if _, err := b.RecentSignals(); err == nil {
		t.Error("a list")
	}
}
