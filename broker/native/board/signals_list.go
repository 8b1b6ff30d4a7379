package board

import (
	"strings"
	"time"

	"berth/broker"
)

// SignalQuery selects signals of every tenant; the zero value selects all. It is
// for global administrators.
type SignalQuery struct {
	Type                        string
	UnreadOnly                  bool
	ToCaptainID                 string
	VoyageID, MissionID         string
	CreatedAfter, CreatedBefore time.Time // at or after, before
	WithPayload                 bool      // else its length
}

// SignalRow is a signal in a list of them.
type SignalRow struct {
	ID               string `json:"Id"`
	TenantID         string `json:"TenantId"` // empty: the broker's own
	ToParticipantKey *string
	Type             string
	Payload          *string `json:",omitempty"`
	PayloadLength    *int    `json:",omitempty"` // in bytes
	Read             bool
	CreatedUtc       string
	targets
}

// signalsAtOnce is how many records one look at the journal reads.
const signalsAtOnce = 1000

// Signals lists what a query selects, as it stands while it is read.
func (b *Board) Signals(q SignalQuery, p broker.PageRequest) (broker.Page[SignalRow], error) {
	p = p.Normal()
	began := b.opts.Now()
	rows, total := []SignalRow{}, 0
	err := b.eachSignal(!p.OldestFirst, began, func(id string, s stored) bool {
		if !q.selects(s) {
			return true
		}
		if total >= p.Offset() && len(rows) < p.Size {
			rows = append(rows, s.row(id, q.WithPayload))
		}
		total++
		return true
	})
	if err != nil {
		return broker.Page[SignalRow]{}, err
	}
	return broker.NewPage(p, rows, total, b.opts.Now().Sub(began)), nil
}

// recent is how many signals an overview shows.
const recent = 10

// RecentSignals are the latest signals of every tenant, the newest first.
func (b *Board) RecentSignals() ([]SignalRow, error) {
	rows := []SignalRow{}
	err := b.eachSignal(true, b.opts.Now(), func(id string, s stored) bool {
		rows = append(rows, s.row(id, true))
		return len(rows) < recent
	})
	return rows, err
}

// eachSignal visits what has not expired until visit says no.
func (b *Board) eachSignal(newest bool, now time.Time, visit func(id string, s stored) bool) error {
	q := broker.RecordQuery{Kind: KindSignal, Newest: newest, Limit: signalsAtOnce}
	for {
		records, err := b.records(q)
		if err != nil || len(records) == 0 {
			return err
		}
		for _, r := range records {
			var s stored
			if err := decode(r, &s); err != nil {
				return err
			}
			if !expired(r, now) && !visit(r.ID, s) {
				return nil
			}
		}
		q.After = records[len(records)-1].ID
	}
}

func (q SignalQuery) selects(s stored) bool {
	is := func(wanted, there string) bool { return wanted == "" || wanted == there }
	return (q.Type == "" || strings.EqualFold(q.Type, s.Type)) && (!q.UnreadOnly || s.Read == nil) &&
		is(q.ToCaptainID, s.Captain) && is(q.VoyageID, s.Voyage) && is(q.MissionID, s.Mission) &&
		(q.CreatedAfter.IsZero() || !s.Created.Before(q.CreatedAfter)) && (q.CreatedBefore.IsZero() || s.Created.Before(q.CreatedBefore))
}

func (s stored) row(id string, payload bool) SignalRow {
	row := SignalRow{ID: id, TenantID: s.Tenant, ToParticipantKey: orNull(s.To), Type: s.Type, Read: s.Read != nil, CreatedUtc: utc(s.Created), targets: s.targets()}
	if payload {
		row.Payload = &s.Payload
		return row
	}
	n := len(s.Payload)
	row.PayloadLength = &n
	return row
}
