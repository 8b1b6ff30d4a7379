//go:build linux

package guard

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"berth/transport/guard/procid"
)

// middle is a broker that can be killed.
type middle struct {
	broker, guard, child pinned
	guardID, childID     procid.ID
}

func startMiddle(t *testing.T, ledgerDir, mode string, w *witness) middle {
	t.Helper()
	cmd := exec.Command(ownPath(t), "broker", ledgerDir, mode, w.path)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	must(t, err)
	var m middle
	_, err = fmt.Sscan(line, &m.guardID.PID, &m.childID.PID)
	must(t, err)
	m.broker, m.guard, m.child = pin(t, cmd.Process.Pid), pin(t, m.guardID.PID), pin(t, m.childID.PID)
	m.guardID, err = procid.Of(m.guardID.PID)
	must(t, err)
	m.childID, err = procid.Of(m.childID.PID)
	must(t, err)
	return m
}

func TestNobodyOutlivesAKilledBroker(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"family", "clingy", "deaf"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			w := newWitness(t)
			m := startMiddle(t, t.TempDir(), mode, w)
			if mode == "deaf" {
				w.gather("deaf")
			} else {
				w.gather(mode, "deaf", "fork", "daemon")
			}
			m.broker.signal(syscall.SIGKILL)
			w.awaitNobody()
			m.guard.awaitEnd()
		})
	}
}

func TestNobodyOutlivesABrokerThatWasKilledWhileTheyWereBorn(t *testing.T) {
	t.Parallel()
	// Whatever part of the family is there already: it goes, and what it was
	// about to start too.
	w := newWitness(t)
	m := startMiddle(t, t.TempDir(), "family", w)
	m.broker.signal(syscall.SIGKILL)
	m.guard.awaitEnd()
	must(t, w.own.Close())
	must(t, w.file.SetReadDeadline(soon()))
	for {
		if _, err := w.lines.ReadString('\n'); err != nil {
			if !errors.Is(err, io.EOF) {
				t.Fatalf("a descendant is left: %v", err)
			}
			return
		}
	}
}

func TestKilledGuardTakesItsChildAlong(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"deaf", "clingy", "family"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			w := newWitness(t)
			p := run(t, Spec{}, mode, w.path)
			if mode == "deaf" {
				w.gather("deaf")
			} else {
				w.gather(mode, "deaf", "fork", "daemon")
			}
			must(t, syscall.Kill(p.GuardPID, syscall.SIGKILL))
			w.awaitNobody() // the living broker sees to the rest
			await(t, "done", p.Done())
			if got := p.ExitReason(); got != "its guard process ended: signal: killed" {
				t.Errorf("reason %q", got)
			}
			must(t, p.Stop(context.Background()))
		})
	}
}

func TestStopForcesAGuardThatDoesNotMove(t *testing.T) {
	t.Parallel()
	w := newWitness(t)
	p := run(t, Spec{StopGrace: 1}, "family", w.path)
	w.gather("family", "deaf", "fork", "daemon")
	must(t, syscall.Kill(p.GuardPID, syscall.SIGSTOP))
	must(t, p.Stop(context.Background()))
	w.awaitNobody()
}

func TestSweepTakesWhatAKilledGuardLeft(t *testing.T) {
	t.Parallel()
	// The daemon of a family has left the session and closed the pipes.
	for _, mode := range []string{"clingy", "family"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			w := newWitness(t)
			m := startMiddle(t, dir, mode, w)
			pids := w.gather(mode, "deaf", "fork", "daemon")
			m.guard.signal(syscall.SIGSTOP) // it must not act on the end of the broker
			m.broker.signal(syscall.SIGKILL)
			m.broker.awaitEnd()
			m.guard.signal(syscall.SIGKILL)
			m.child.awaitEnd() // by the parent-death signal
			w.somebody()

			ledger, err := OpenLedger(dir)
			must(t, err)
			swept, err := ledger.Sweep(context.Background())
			must(t, err)
			w.awaitNobody()
			if swept.Records != 1 {
				t.Errorf("swept %+v", swept)
			}
			checkSwept(t, swept, pids, pids["deaf"], pids["daemon"])
			empty(t, dir)
		})
	}
}

func TestSweepLeavesWhoCarriesAnotherMarkOrIsOlderThanTheGuard(t *testing.T) {
	t.Parallel()
	w := newWitness(t)
	bystander := run(t, Spec{}, "deaf", w.path)
	w.gather("deaf")
	guard, err := procid.Of(bystander.GuardPID)
	must(t, err)
	child, err := procid.Of(bystander.PID)
	must(t, err)
	// A start that is over; nobody has the pid of its guard.
	over := func(start uint64, mark string) Record {
		return Record{Command: "x", Mark: mark, Guard: procid.ID{PID: 1 << 30, Start: start, Boot: guard.Boot}, Child: procid.ID{PID: 1<<30 + 1, Start: start, Boot: guard.Boot}}
	}
	for name, rec := range map[string]Record{
		"another mark":   over(guard.Start, newMark()),
		"no mark":        over(guard.Start, ""),
		"half of a mark": over(guard.Start, bystander.mark[:16]),
		"older":          over(child.Start+1, bystander.mark),
	} {
		t.Run(name, func(t *testing.T) {
			if killed, left, err := hunt(rec, patience); err != nil || len(killed)+len(left) > 0 {
				t.Errorf("killed %v, left %v, %v", killed, left, err)
			}
			if alive, err := procid.Alive(child); err != nil || !alive {
				t.Errorf("the bystander is gone (%v)", err)
			}
		})
	}
}

func TestSweepEndsAGuardThatStillRuns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := newWitness(t)
	m := startMiddle(t, dir, "family", w)
	pids := w.gather("family", "deaf", "fork", "daemon")
	m.guard.signal(syscall.SIGSTOP)
	m.broker.signal(syscall.SIGKILL)
	m.broker.awaitEnd()
	w.somebody()

	ledger, err := OpenLedger(dir)
	must(t, err)
	swept, err := ledger.Sweep(context.Background())
	must(t, err)
	w.awaitNobody()
	m.guard.awaitEnd()
	pids["guard"] = m.guardID.PID
	checkSwept(t, swept, pids, pids["family"], pids["deaf"], pids["daemon"], pids["guard"])
	empty(t, dir)
}

func TestSweepLeavesAReusedPidAlone(t *testing.T) {
	t.Parallel()
	w := newWitness(t)
	bystander := run(t, Spec{}, "deaf", w.path)
	w.gather("deaf")
	guard, err := procid.Of(bystander.GuardPID)
	must(t, err)
	child, err := procid.Of(bystander.PID)
	must(t, err)
	later := func(id procid.ID) procid.ID { id.Start++; return id }
	otherBoot := func(id procid.ID) procid.ID { id.Boot = "another"; return id }
	older := func(id procid.ID) procid.ID { id.Start--; return id }
	tests := map[string]Record{
		"started later":   {Command: "x", Guard: later(guard), Child: later(child)},
		"started earlier": {Command: "x", Guard: older(guard), Child: older(child)},
		"another boot":    {Command: "x", Guard: otherBoot(guard), Child: otherBoot(child)},
		"swapped":         {Command: "x", Guard: procid.ID{PID: guard.PID, Start: child.Start + 1, Boot: guard.Boot}, Child: procid.ID{PID: child.PID, Start: guard.Start - 1, Boot: guard.Boot}},
	}
	for name, rec := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			data, err := json.Marshal(rec)
			must(t, err)
			must(t, os.WriteFile(filepath.Join(dir, "1-x.json"), data, 0o600))
			ledger, err := OpenLedger(dir)
			must(t, err)
			swept, err := ledger.Sweep(context.Background())
			must(t, err)
			if swept.Records != 1 || len(swept.Killed) > 0 || len(swept.Left) > 0 {
				t.Errorf("swept %+v", swept)
			}
			for _, id := range []procid.ID{guard, child} {
				if alive, err := procid.Alive(id); err != nil || !alive {
					t.Errorf("%s is gone (%v)", id, err)
				}
			}
			empty(t, dir)
		})
	}
}

func TestSweepPassesOverOwnChildrenAndRemovesJunk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ledger, err := OpenLedger(dir)
	must(t, err)
	p := run(t, Spec{Ledger: ledger, Command: ownPath(t), Args: []string{"hostile", "echo"}})
	files := map[string]string{"7-a.json": "{", "7-b.json": `{"guard":{"pid":1}}`, "7-c.json": `{} {}`, "7-d.partial": "{", "notes.txt": "mine"}
	for name, content := range files {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	swept, err := ledger.Sweep(context.Background())
	must(t, err)
	if len(swept.Unreadable) != 3 || swept.Records != 0 || len(swept.Killed) > 0 {
		t.Errorf("swept %+v", swept)
	}
	select {
	case <-p.Done():
		t.Error("the sweep ended a child of this broker")
	default:
	}
	left, err := os.ReadDir(dir)
	must(t, err)
	if len(left) != 2 { // the own record and the notes
		t.Errorf("left %v", left)
	}
	for _, e := range left {
		info, err := e.Info()
		must(t, err)
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %o", e.Name(), info.Mode().Perm())
		}
	}
}

func TestRecordHoldsNeitherArgumentsNorEnvironment(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ledger, err := OpenLedger(dir)
	must(t, err)
	p := run(t, Spec{Ledger: ledger, Name: "b", Command: ownPath(t), Args: []string{"hostile", "echo", "an-argument"}, Env: []string{"TOKEN=s3cret"}})
	entries, err := os.ReadDir(dir)
	must(t, err)
	if len(entries) != 1 {
		t.Fatalf("entries %v", entries)
	}
	data, err := os.ReadFile(filepath.Join(dir, entries[0].Name()))
	must(t, err)
	rec, err := parseRecord(data)
	must(t, err)
	if rec.Guard.PID != p.GuardPID || rec.Child.PID != p.PID || rec.Child.Start != p.StartTime || rec.Name != "b" {
		t.Errorf("record %+v", rec)
	}
	if rec.Mark == "" || rec.Mark != p.mark {
		t.Errorf("mark %q, want %q", rec.Mark, p.mark)
	}
	var known map[string]any
	must(t, json.Unmarshal(data, &known))
	for key := range known {
		if !slices.Contains([]string{"name", "command", "guard", "child", "pipes", "mark"}, key) {
			t.Errorf("the record has %q", key)
		}
	}
	must(t, p.Stop(context.Background()))
	empty(t, dir)
}

func TestStartThatCannotBeRecordedLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "children")
	ledger, err := OpenLedger(dir)
	must(t, err)
	must(t, os.Remove(dir))
	w := newWitness(t)
	_, err = Start(context.Background(), Spec{Ledger: ledger, Command: ownPath(t), Args: []string{"hostile", "deaf", w.path}})
	if err == nil {
		t.Fatal("it started")
	}
	must(t, w.own.Close())
	must(t, w.file.SetReadDeadline(soon()))
	for {
		if _, err := w.lines.ReadByte(); err != nil {
			if !errors.Is(err, io.EOF) {
				t.Fatalf("the child is left: %v", err)
			}
			return
		}
	}
}

// checkSwept wants all of want killed and nobody who is not of the family; the
// first half of the double fork may or may not have been met.
func checkSwept(t *testing.T, swept Swept, family map[string]int, want ...int) {
	t.Helper()
	var killed []int
	for _, k := range swept.Killed {
		killed = append(killed, k.Process.PID)
		if k.Name != "backend" || k.Command != "/proc/self/exe" {
			t.Errorf("killed %+v: whose was it?", k)
		}
		if !slices.Contains(slices.Collect(maps.Values(family)), k.Process.PID) {
			t.Errorf("killed %+v, a stranger", k)
		}
	}
	for _, pid := range want {
		if !slices.Contains(killed, pid) {
			t.Errorf("killed %v, want %d (of %v) among them", killed, pid, family)
		}
	}
	if len(swept.Left) > 0 {
		t.Errorf("left %+v", swept.Left)
	}
}

func empty(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	must(t, err)
	if len(left) > 0 {
		t.Errorf("left in the ledger: %v", left)
	}
}
