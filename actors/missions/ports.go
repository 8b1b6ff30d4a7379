package missions

import (
	"context"
	"time"

	"berth/broker"
	"berth/broker/dispatch"
	"berth/broker/dispatch/runtime"
)

// Store keeps the records; *journal.Journal satisfies it.
type Store interface {
	dispatch.Reader
	PutAll(ctx context.Context, changes ...broker.RecordChange) ([]broker.Record, error)
}

// Work is one mission with everything that it is carried out with. It is made
// when the mission is assigned and not changed afterwards, except for Mission,
// which each step gets as it stands.
type Work struct {
	Mission dispatch.Mission
	Voyage  *dispatch.Voyage // nil: the mission stands alone
	Vessel  dispatch.Vessel
	Captain dispatch.Captain
	Dock    dispatch.Dock
	// Before is the mission on whose branch this one goes on; nil: it begins at
	// Mission.StartFromRef, or at the vessel's default branch.
	Before *dispatch.Mission
}

// Docks are the worktrees of missions and what was made in them. An error that
// is a *dispatch.Fault says which reason the mission ends with; any other is
// provision_failed of Prepare, and of the others what their comment says. Its
// text goes to the log, not to the caller.
type Docks interface {
	// Prepare brings the vessel's bare clone up to date (a failed fetch is a
	// warning), makes the worktree at Dock.Path on Dock.Branch, checks that its
	// HEAD resolves, and copies the prestaged files. What stands at Dock.Path
	// from an earlier try is removed first. start_from_ref_missing is a Fault.
	Prepare(ctx context.Context, w Work) (Prepared, error)
	// Collect saves what the mission changed and gives what was found. It is
	// asked after the agent's last process is gone. A vessel or worktree that
	// vanished is no error: what cannot be known stays nil.
	Collect(ctx context.Context, w Work) (Collected, error)
	// Land merges the mission's commit into the vessel's default branch, as the
	// vessel's landing mode has it, and gives the merge commit.
	// merge_conflict, working_directory_dirty and protected_path_changed are Faults.
	Land(ctx context.Context, w Work) (commit string, err error)
	// Reclaim removes the worktree. The branch stays, unless the vessel's policy
	// is to remove a landed one: landed says that it was.
	Reclaim(ctx context.Context, v dispatch.Vessel, d dispatch.Dock, landed bool) error
}

// Prepared is a worktree that is ready.
type Prepared struct {
	StartCommit string   // the commit that it begins at
	Warnings    []string // for the mission's log
}

// Collected is what was found after an agent ended.
type Collected struct {
	Commit *string // what the branch stands on; nil: it could not be read
	// Produced says whether the branch has a commit that StartCommit has not;
	// nil: it could not be found out.
	Produced *bool
}

// Agents start agent programs.
type Agents interface {
	// Start runs the captain's program in the dock, with brief as its prompt and
	// token, unless it is empty, as what it authenticates to the broker with. It
	// returns when the program runs. Each line that it writes goes to the
	// mission's log and then, as a Beat, to heard, which must not block and is
	// called from several goroutines, until Done is closed; lines that come
	// together make one Beat. ctx limits the start only. prompt_too_large is a *dispatch.Fault, every other
	// error is launch_failed.
	Start(ctx context.Context, w Work, brief, token string, heard func(Beat)) (Agent, error)
	// Note adds a line of the broker's own to a mission's log.
	Note(missionID, line string)
}

// Beat is a line that an agent wrote, as far as it tells something.
type Beat struct {
	Progress *int   // percent, when the line set it
	Status   string // what it said of itself, when the line set it
}

// Agent is a program that runs. Its methods are safe for concurrent use.
type Agent interface {
	PID() int
	Started() time.Time
	// Done is closed when the program has ended and no descendant of it is left.
	Done() <-chan struct{}
	// End is how it ended; its zero value before that.
	End() End
	// Stop kills it with every descendant, at once, and returns when none is
	// left. A descendant that does not die within ctx is an error.
	Stop(ctx context.Context) error
}

// End is how an agent's program ended.
type End struct {
	Code    *int   // its exit status; nil: it has none, or it is not known
	Words   string // how it ended, such as "killed by signal 9 (killed)" or "exited with code 3"
	Result  runtime.Result
	Verdict runtime.Verdict
	Stderr  string // the end of its standard error, redacted
}

// Tokens gives agents what they authenticate to the broker with.
type Tokens interface {
	// Issue makes a token that stands for the mission's owner and names the
	// mission. why says why there is none, for the log; it is empty otherwise.
	Issue(m dispatch.Mission) (token, why string)
	// Revoke ends a mission's tokens.
	Revoke(missionID string)
}

// Briefs writes what an agent is told. It may read the journal.
type Briefs interface {
	// Brief is the prompt of a mission, with what was said to it since it was
	// created and, where it asks for one, its pack of code.
	Brief(ctx context.Context, w Work) (string, error)
}

// Board is told of a mission's end, for who waits for it.
type Board interface {
	MissionEnded(m dispatch.Mission)
}
