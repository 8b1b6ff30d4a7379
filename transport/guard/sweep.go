//go:build unix

package guard

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"berth/transport/guard/procid"
)

// Swept is what a sweep found and did.
type Swept struct {
	// Records is how many records an earlier broker had left.
	Records int
	// Killed are the processes that got SIGKILL and are gone.
	Killed []Leftover
	// Left are those that are still there; their records are kept.
	Left []Leftover
	// Unreadable are files that are no records; they were removed.
	Unreadable []string
}

// Leftover is a process of an earlier broker.
type Leftover struct {
	Name    string // the backend's
	Command string
	Process procid.ID
}

// Sweep ends what the children of an earlier broker left running and removes
// their records. It is called once, under the broker's lock, before the first
// Start. Children of this broker are not touched. It takes a few seconds for
// each record at most, and those only when something does not die.
func (l *Ledger) Sweep(ctx context.Context) (Swept, error) {
	records, partials, err := l.foreign()
	if err != nil {
		return Swept{}, err
	}
	var swept Swept
	var errs []error
	for _, name := range partials {
		errs = append(errs, l.remove(name))
	}
	for _, name := range records {
		if err := ctx.Err(); err != nil {
			errs = append(errs, fmt.Errorf("sweep: %w", err))
			break
		}
		rec, err := l.read(name)
		switch {
		case errors.Is(err, errRecord):
			swept.Unreadable = append(swept.Unreadable, name)
			errs = append(errs, l.remove(name))
			continue
		case err != nil:
			errs = append(errs, fmt.Errorf("sweep: %w", err))
			continue
		}
		swept.Records++
		killed, left, err := hunt(rec, killWait)
		for _, id := range killed {
			swept.Killed = append(swept.Killed, Leftover{rec.Name, rec.Command, id})
		}
		for _, id := range left {
			swept.Left = append(swept.Left, Leftover{rec.Name, rec.Command, id})
		}
		errs = append(errs, err)
		if err == nil && len(left) == 0 {
			errs = append(errs, l.remove(name))
		}
	}
	return swept, errors.Join(errs...)
}

func (l *Ledger) remove(name string) error {
	if err := os.Remove(filepath.Join(l.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("sweep: %w", err)
	}
	return nil
}

// hunt kills what belongs to rec until nothing of it is there or limit has
// passed. The guard goes last: as long as it lives, orphans come to it and are
// found.
func hunt(rec Record, limit time.Duration) (killed, left []procid.ID, err error) {
	const first, last = time.Millisecond, 100 * time.Millisecond
	if !procid.Same(rec.Guard) {
		return nil, nil, nil // another boot: nothing of it can run
	}
	deadline := time.Now().Add(limit)
	hit := make(map[procid.ID]struct{})
	for pause := first; ; pause = min(2*pause, last) {
		table, err := procid.Table()
		if errors.Is(err, procid.ErrUnsupported) {
			return nil, nil, nil
		}
		if err != nil {
			return keys(hit), nil, fmt.Errorf("sweep: %w", err)
		}
		left = leftovers(rec, table, os.Getpid(), rec.ours)
		if len(left) == 0 {
			return keys(hit), nil, nil
		}
		for _, id := range left {
			if err := procid.Signal(id, syscall.SIGKILL); err == nil {
				hit[id] = struct{}{}
			}
			// An error: it went by itself, or it stays in left.
		}
		if time.Now().After(deadline) {
			for _, id := range left {
				delete(hit, id)
			}
			return keys(hit), left, nil
		}
		timer := time.NewTimer(pause)
		<-timer.C
	}
}

func keys(set map[procid.ID]struct{}) []procid.ID {
	out := make([]procid.ID, 0, len(set))
	for id := range set {
		out = append(out, id)
	}
	return out
}

// leftovers picks from a process table what certainly belongs to rec, the guard
// only when nothing else is left. Evidence, each of it safe against reused pids:
//
//   - the guard or the child itself, when pid and start time match;
//   - the guard's session, while the guard is there (a zombie will do): a pid
//     that names a session is not given away;
//   - the child's group and the session it is in, while the child is there;
//   - the child's end of one of its pipes, or the record's mark in the
//     environment that it was started with (ours says so);
//   - a child of one of these.
//
// self is never picked, nor is anything that is older than the guard.
func leftovers(rec Record, table []procid.Entry, self int, ours func(pid int) bool) []procid.ID {
	byPID := make(map[int]procid.Entry, len(table))
	for _, e := range table {
		byPID[e.PID] = e
	}
	guard, guardIs := byPID[rec.Guard.PID]
	guardIs = guardIs && guard.ID == rec.Guard
	child, childIs := byPID[rec.Child.PID]
	childIs = childIs && child.ID == rec.Child

	picked := make(map[int]bool)
	if guardIs {
		picked[guard.PID] = true
	}
	if childIs {
		picked[child.PID] = true
	}
	candidates := make([]procid.Entry, 0)
	for _, e := range table {
		if e.PID <= 1 || e.PID == self || e.Zombie || picked[e.PID] || e.Start < rec.Guard.Start || e.Boot != rec.Guard.Boot {
			continue
		}
		candidates = append(candidates, e)
		inSession := e.Session == rec.Guard.PID && (guardIs || childIs && child.Session == rec.Guard.PID)
		inGroup := childIs && e.Group == child.PID && child.Group == child.PID
		if inSession || inGroup || ours(e.PID) {
			picked[e.PID] = true
		}
	}
	for grew := true; grew; {
		grew = false
		for _, e := range candidates {
			if !picked[e.PID] && picked[e.Parent] {
				picked[e.PID], grew = true, true
			}
		}
	}
	var out []procid.ID
	for _, e := range table {
		if picked[e.PID] && !e.Zombie && e.ID != rec.Guard {
			out = append(out, e.ID)
		}
	}
	if len(out) == 0 && guardIs && !guard.Zombie {
		out = append(out, guard.ID)
	}
	return out
}
