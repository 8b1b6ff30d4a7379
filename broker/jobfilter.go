package broker

import (
	"strings"
	"time"
)

// JobFilter selects jobs of a list; zero fields select everything.
type JobFilter struct {
	Tenant, User string
	Status       JobStatus
	Operation    string
	Backend      string
	VesselID     string
	Unfinished   bool
	CompletedBy  time.Time // only final jobs completed at or before it

	CompletedAfter  time.Time // only final jobs completed at or after it
	SubmittedAfter  time.Time // at or after it
	SubmittedBefore time.Time
	// KeptAt leaves out final jobs that are past their retention by then and not
	// pruned yet.
	KeptAt time.Time

	// Text is looked for, in any letter case, in the id, the operation, the
	// reason and the failure message.
	Text string
	// Brief ends the list one record behind its page: Total is then no more than
	// the end of the page and one.
	Brief bool
	// Visit ends the list when so many records were visited; 0: no limit.
	Visit  int
	Limit  int // 0: no limit
	Offset int
}

// Match reports whether j is selected; Limit and Offset are the lister's.
func (f JobFilter) Match(j Job) bool {
	return (f.Tenant == "" || f.Tenant == j.Tenant) &&
		(f.User == "" || f.User == j.User) &&
		(f.Status == "" || f.Status == j.Status) &&
		(f.Operation == "" || f.Operation == j.Operation) &&
		(f.Backend == "" || f.Backend == j.Backend) &&
		(!f.Unfinished || !j.Status.Final()) &&
		(f.CompletedBy.IsZero() || (j.CompletedAt != nil && !j.CompletedAt.After(f.CompletedBy))) &&
		(f.VesselID == "" || f.VesselID == j.VesselID) &&
		(f.CompletedAfter.IsZero() || (j.CompletedAt != nil && !j.CompletedAt.Before(f.CompletedAfter))) &&
		(f.SubmittedAfter.IsZero() || !j.SubmittedAt.Before(f.SubmittedAfter)) &&
		(f.SubmittedBefore.IsZero() || j.SubmittedAt.Before(f.SubmittedBefore)) &&
		(f.KeptAt.IsZero() || !j.Expired(f.KeptAt)) &&
		(f.Text == "" || j.mentions(strings.ToLower(f.Text)))
}

func (j Job) mentions(lower string) bool {
	for _, text := range []string{j.ID, j.Operation, string(j.Reason), j.FailureMessage} {
		if strings.Contains(strings.ToLower(text), lower) {
			return true
		}
	}
	return false
}

// JobPage is one page of a list, newest submission first, without results.
type JobPage struct {
	Jobs       []Job
	Total      int // that match, over all pages
	Unreadable int // records in the journal that could not be decoded
	// Capped says that the list ended at the filter's Visit, before its end.
	Capped bool
}
