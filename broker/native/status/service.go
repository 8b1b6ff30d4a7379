package status

import (
	"log/slog"
	"strings"
	"time"

	"berth/broker"
	"berth/broker/native"
	"berth/broker/native/events"
	"berth/broker/native/hold"
)

// Jobs lists jobs.
type Jobs interface {
	Job(id string) (broker.Job, error)
	Jobs(filter broker.JobFilter) (broker.JobPage, error)
}

// Options is what the service stands on. Jobs, Events, Now and Log are required.
type Options struct {
	Jobs   Jobs
	Events *events.Service
	Now    func() time.Time
	Log    *slog.Logger
	// More are entities that other families list.
	More []Entity
	// Hold is the dispatch hold in force, nil while there is none; Signals are the
	// latest signals, newest first. A nil function is not known.
	Hold    func() *hold.View
	Signals func() (any, error)
}

// Service answers for the tools and for the operator API.
type Service struct {
	opts     Options
	entities []Entity
}

// New makes a service.
func New(o Options) *Service {
	s := &Service{opts: o}
	s.entities = append([]Entity{
		{Names: [2]string{"events", "event"}, List: s.listEvents},
		{Names: [2]string{"jobs", "job"}, List: s.listJobs},
	}, o.More...)
	return s
}

// Report is the answer of `status`. A null is a number that nobody measured:
// this broker has no captains, voyages or missions.
type Report struct {
	TotalCaptains            *int
	IdleCaptains             *int
	WorkingCaptains          *int
	StalledCaptains          *int
	ActiveVoyages            *int
	MissionsByStatus         map[string]int
	Voyages                  []any
	RecentSignals            any
	DispatchHold             *hold.View
	UnfinishedJobCount       *int
	UnreadableJournalRecords *int
	TimestampUTC             string `json:"TimestampUtc"`
}

// Report tells how the broker stands. A part that cannot be read is null: this
// is what an operator looks at when something cannot be read.
func (s *Service) Report() Report {
	r := Report{TimestampUTC: broker.FormatTime(s.opts.Now())}
	if open, err := s.opts.Jobs.Jobs(broker.JobFilter{Unfinished: true, Limit: 1}); err == nil {
		r.UnfinishedJobCount = &open.Total
	}
	if all, err := s.opts.Jobs.Jobs(broker.JobFilter{Limit: 1}); err == nil {
		r.UnreadableJournalRecords = &all.Unreadable
	}
	r.RecentSignals = known(s.opts.Signals)
	if s.opts.Hold != nil {
		r.DispatchHold = s.opts.Hold()
	}
	return r
}

func known(part func() (any, error)) any {
	if part == nil {
		return nil
	}
	v, err := part()
	if err != nil {
		return nil
	}
	return v
}

// LostFor is how long a lost job waits in the inbox.
const LostFor = 24 * time.Hour

// maxItems is how many items an inbox shows; its counts are of all.
const maxItems = 1000

// Inbox is what waits for an operator. An empty list: nothing does.
type Inbox struct {
	Count         int    `json:"count"`
	CriticalCount int    `json:"criticalCount"`
	WarningCount  int    `json:"warningCount"`
	Items         []Item `json:"items"`
}

// Item is one thing that waits.
type Item struct {
	Kind       string `json:"kind"`
	Severity   string `json:"severity"` // Critical, Warning or Info
	Title      string `json:"title"`
	Detail     string `json:"detail"`
	EntityType string `json:"entityType"`
	EntityID   string `json:"entityId"`
	Href       string `json:"href"` // where the operator API shows it
}

// Inbox lists what waits, the gravest first, then the newest.
func (s *Service) Inbox() (Inbox, error) {
	now := s.opts.Now()
	lost, err := s.opts.Jobs.Jobs(broker.JobFilter{Status: broker.JobLost, CompletedAfter: now.Add(-LostFor)})
	if err != nil {
		return Inbox{}, native.Unreadable(s.opts.Log, err)
	}
	box := Inbox{Count: len(lost.Jobs), WarningCount: len(lost.Jobs), Items: []Item{}}
	newestFirst(lost.Jobs)
	for _, j := range lost.Jobs[:min(len(lost.Jobs), maxItems)] {
		box.Items = append(box.Items, Item{Kind: "job_lost", Severity: "Warning", Title: "Job lost: " + j.Operation,
			Detail: strings.TrimSpace(j.FailureMessage), EntityType: "job", EntityID: j.ID, Href: "/api/v1/jobs/" + j.ID})
	}
	return box, nil
}
