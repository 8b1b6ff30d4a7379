//go:build linux

package procid

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

func TestSelfIsAliveAndInTheTable(t *testing.T) {
	self, err := Self()
	if err != nil {
		t.Fatal(err)
	}
	if self.PID != os.Getpid() || self.Start == 0 || self.Boot == "" || !Same(self) {
		t.Errorf("self is %+v", self)
	}
	if alive, err := Alive(self); err != nil || !alive {
		t.Errorf("alive: %v, %v", alive, err)
	}
	table, err := Table()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range table {
		if e.ID == self {
			if e.Parent != os.Getppid() || e.Group != syscall.Getpgrp() {
				t.Errorf("entry %+v", e)
			}
			return
		}
	}
	t.Error("the table does not hold this process")
}

func TestAnotherLifeOfAPidIsNobody(t *testing.T) {
	self, err := Self()
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*ID){
		"start": func(id *ID) { id.Start++ },
		"boot":  func(id *ID) { id.Boot += "x" },
		"pid":   func(id *ID) { id.PID = 1 << 30 },
	} {
		other := self
		change(&other)
		if alive, err := Alive(other); err != nil || alive {
			t.Errorf("%s: alive %v, %v", name, alive, err)
		}
		// SIGKILL: that this test lives on is the proof.
		if err := Signal(other, syscall.SIGKILL); !errors.Is(err, ErrGone) {
			t.Errorf("%s: signal: %v", name, err)
		}
	}
}

func TestSignalReachesItsProcessAndAZombieIsNotAlive(t *testing.T) {
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	id, err := Of(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	ends := func(f any, write bool) []PipeEnd {
		info, err := f.(interface{ Stat() (os.FileInfo, error) }).Stat()
		if err != nil {
			t.Fatal(err)
		}
		return []PipeEnd{{Inode: info.Sys().(*syscall.Stat_t).Ino, Write: write}}
	}
	// cat has the reading end of its input and the writing end of its output.
	for _, tt := range []struct {
		pid  int
		end  []PipeEnd
		want bool
	}{
		{id.PID, ends(in, false), true},
		{id.PID, ends(in, true), false},
		{id.PID, ends(out, true), true},
		{id.PID, ends(out, false), false},
		{os.Getpid(), ends(in, true), true},
		{os.Getpid(), ends(in, false), false},
	} {
		if got := Holds(tt.pid, tt.end); got != tt.want {
			t.Errorf("process %d holds %+v: %v", tt.pid, tt.end, got)
		}
	}
	if err := Signal(id, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err == nil { // its end
		t.Error("cat said something")
	}
	if err := cmd.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Errorf("cat ended with %v", err)
	}
	if alive, err := Alive(id); err != nil || alive {
		t.Errorf("alive: %v, %v", alive, err)
	}
}

func TestOnlyAWholeEntryOfTheEnvironmentIsCarried(t *testing.T) {
	cmd := exec.Command("cat")
	cmd.Env = []string{"A=1", "MARK=0123", "LAST=x=y"}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close(); _ = cmd.Wait() }()
	// It has become cat once it answers.
	if _, err := in.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	for entry, want := range map[string]bool{"MARK=0123": true, "A=1": true, "LAST=x=y": true, "MARK=012": false, "ARK=0123": false, "MARK=": false} {
		if got := Carries(cmd.Process.Pid, entry); got != want {
			t.Errorf("%q: %v", entry, got)
		}
	}
	if Carries(1<<30, "A=1") {
		t.Error("nobody carries something")
	}
}

func TestStatLineWithAHostileName(t *testing.T) {
	const rest = " S 7 8 9 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 4711 0 0"
	for _, name := range []string{"cat", ") Z 1 2 3 (", "a b", "", "((", "\n"} {
		e, err := parseStat([]byte("42 (" + name + ")" + rest))
		if err != nil || e.PID != 42 || e.Parent != 7 || e.Group != 8 || e.Session != 9 || e.Start != 4711 || e.Zombie {
			t.Errorf("%q: %+v, %v", name, e, err)
		}
	}
	for _, bad := range []string{"", "42", "42 (x", "42 (x) S 1", "x (x)" + rest, "42 (x) S a 8 9 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 4711"} {
		if e, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q was read as %+v", bad, e)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("42 (cat) S 7 8 9 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 4711 0 0"))
	f.Add([]byte(")("))
	f.Fuzz(func(t *testing.T, data []byte) {
		if e, err := parseStat(data); err == nil && e.Boot != Boot() {
			t.Fatalf("entry %+v of another boot", e)
		}
	})
}
