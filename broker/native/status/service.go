package status

import (
	"cmp"
	"log/slog"
	"slices"
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
	// Work counts captains, voyages and missions; nil: nobody does. Waiting are
	// more things that wait for an operator.
	Work    func() (Work, error)
	Waiting func() ([]Waits, error)
}

// Work is how the work of captains stands.
type Work struct {
	TotalCaptains, IdleCaptains, WorkingCaptains, StalledCaptains int

	ActiveVoyages    int
	MissionsByStatus map[string]int
	Voyages          []any // those that go on, the newest first
}

// Waits is something that waits for an operator, and since when.
type Waits struct {
	Item
	At time.Time
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

// Report is the answer of `status`. A null is a number that nobody measured: a
// broker that dispatches nothing has no captains, voyages or missions.
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
	if s.opts.Work != nil {
		if w, err := s.opts.Work(); err == nil {
			r.TotalCaptains, r.IdleCaptains, r.WorkingCaptains, r.StalledCaptains = &w.TotalCaptains, &w.IdleCaptains, &w.WorkingCaptains, &w.StalledCaptains
			r.ActiveVoyages, r.MissionsByStatus, r.Voyages = &w.ActiveVoyages, w.MissionsByStatus, w.Voyages
		}
	}
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
	waiting := []Waits{}
	for _, j := range lost.Jobs {
		waiting = append(waiting, Waits{At: *j.CompletedAt, Item: Item{Kind: "job_lost", Severity: warning, Title: "Job lost: " + j.Operation,
			Detail: strings.TrimSpace(j.FailureMessage), EntityType: "job", EntityID: j.ID, Href: "/api/v1/jobs/" + j.ID}})
	}
	if s.opts.Waiting != nil {
		more, err := s.opts.Waiting()
		if err != nil {
			return Inbox{}, err
		}
		waiting = append(waiting, more...)
	}
	return boxed(waiting), nil
}

// The severities, the gravest first.
const (
	critical = "Critical"
	warning  = "Warning"
	info     = "Info"
)

var severities = []string{critical, warning, info}

// boxed is an inbox of these.
func boxed(waiting []Waits) Inbox {
	slices.SortStableFunc(waiting, func(a, b Waits) int {
		return cmp.Or(cmp.Compare(slices.Index(severities, a.Severity), slices.Index(severities, b.Severity)), b.At.Compare(a.At))
	})
	box := Inbox{Count: len(waiting), Items: []Item{}}
	for _, w := range waiting {
		switch w.Severity {
		case critical:
			box.CriticalCount++
		case warning:
			box.WarningCount++
		}
		if len(box.Items) < maxItems {
			box.Items = append(box.Items, w.Item)
		}
	}
	return box
}
