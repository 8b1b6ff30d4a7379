package dashboard

import (
	"net/http"
	"time"

	"berth/broker"
)

// Start is what the start of a broker found. It is fixed before the dashboard
// is made, but for Pruned.
type Start struct {
	Version, RuntimeID string
	// At is when the journal was recovered: jobs that were lost by that ended then.
	At          time.Time
	Lost        int
	Tracked     []broker.Job // as they were found
	Unreadable  int
	OrphanFiles int
	Killed      int // processes that an earlier broker had left
	Left        int // of those, the ones that could not be told to be its own
	// Pruned is how many expired jobs were removed since; nil: nobody counts.
	Pruned func() int64
}

const (
	shownLost    = 100
	shownTracked = 100
)

func (d *Dashboard) restart(r *http.Request) (*page, error) {
	if err := d.gate(r, "/api/v1/jobs"); err != nil {
		return nil, err
	}
	lost, err := d.Jobs.Jobs(broker.JobFilter{Status: broker.JobLost, Text: string(broker.CodeJobLostOnRestart), Limit: 1000, Brief: true, Visit: visited})
	if err != nil {
		return nil, err
	}
	var rows, tracked []jobRow
	for _, j := range lost.Jobs {
		if j.CompletedAt != nil && j.CompletedAt.Sub(d.Start.At).Abs() < time.Millisecond && len(rows) < shownLost {
			rows = append(rows, d.jobRow(j))
		}
	}
	for _, j := range d.Start.Tracked[:min(len(d.Start.Tracked), shownTracked)] {
		if now, err := d.Jobs.JobWithoutResult(j.ID); err == nil {
			j = now
		}
		tracked = append(tracked, d.jobRow(j))
	}
	data := map[string]any{"Start": d.Start, "At": d.moment(d.Start.At), "Tracked": len(d.Start.Tracked), "Clean": d.Start.Lost+len(d.Start.Tracked)+d.Start.Unreadable+d.Start.OrphanFiles+d.Start.Killed+d.Start.Left == 0}
	if d.Start.Pruned != nil {
		data["Pruned"] = d.Start.Pruned()
	}
	return &page{Title: "Restart report", At: "/restart", Parts: []part{
		{ID: "report", Name: "report", Data: data},
		{ID: "lost", Name: "lost", Data: map[string]any{"Rows": rows, "More": max(0, d.Start.Lost-len(rows))}},
		{ID: "tracked", Name: "tracked", Data: map[string]any{"Rows": tracked, "More": len(d.Start.Tracked) - len(tracked)}},
	}}, nil
}
