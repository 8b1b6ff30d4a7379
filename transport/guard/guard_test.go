//go:build linux

package guard

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/transport/guard/procid"
)

func TestEndOfStdinReachesTheChild(t *testing.T) {
	t.Parallel()
	p := run(t, Spec{}, "echo")
	_, err := io.WriteString(p.Stdin, "hello")
	must(t, err)
	must(t, p.Stdin.Close())
	out, err := io.ReadAll(p.Stdout)
	must(t, err)
	if string(out) != "hello" {
		t.Errorf("read %q", out)
	}
	await(t, "done", p.Done())
	if got := p.ExitReason(); got != "exited with code 0" {
		t.Errorf("reason %q", got)
	}
}

func TestChildThatClosesItsOutputIsHeardToDoSo(t *testing.T) {
	t.Parallel()
	p := run(t, Spec{}, "turn-mute")
	end := make(chan error, 1)
	go func() { _, err := io.ReadAll(p.Stdout); end <- err }()
	select { // nobody but the child may hold the other end
	case err := <-end:
		must(t, err)
	case <-time.After(patience):
		t.Fatal("the output does not end")
	}
	select {
	case <-p.Done():
		t.Error("the child ended")
	default:
	}
	must(t, p.Stdin.Close())
	await(t, "done", p.Done())
}

func TestEndedChildLeavesNothingOpenWithoutStop(t *testing.T) {
	t.Parallel()
	var whole strings.Builder
	p := run(t, Spec{Stderr: &whole}, "complain", "1")
	await(t, "done", p.Done())
	await(t, "all of stderr", p.Drained())
	if whole.String() != "complaint 1\n" {
		t.Errorf("stderr as it came %q", whole.String())
	}
	if code, ok := p.ExitCode(); !ok || code != 3 {
		t.Errorf("exit status %d, %v", code, ok)
	}
	if _, err := p.Stdin.Write([]byte("x")); !errors.Is(err, os.ErrClosed) {
		t.Errorf("write to stdin: %v", err)
	}
	if got := p.StderrTail(); got != "complaint 1\n" {
		t.Errorf("stderr %q", got)
	}
}

func TestLargeOutputArrivesWhole(t *testing.T) {
	t.Parallel()
	const size = 32 << 20
	p := run(t, Spec{}, "flood", strconv.Itoa(size))
	n, err := io.Copy(io.Discard, p.Stdout)
	must(t, err)
	if n != size {
		t.Errorf("%d bytes, want %d", n, size)
	}
}

func TestChildGetsItsEnvironmentItsMarkAndThreeFiles(t *testing.T) {
	// What the broker itself holds open without close-on-exec must not pass on.
	var leak [2]int
	must(t, unix.Pipe(leak[:]))
	defer unix.Close(leak[0])
	defer unix.Close(leak[1])
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	env := []string{"Z=first", "PATH=/nowhere", "EMPTY=", "TOKEN=s3cret-value", "Q=a b\"c=d"}
	p := run(t, Spec{
		Env:  append([]string{"TOKEN=overridden", MarkVariable + "=of another"}, env...),
		Dir:  dir,
		Args: []string{"hostile", "facts"}, Command: ownPath(t),
	})
	var got facts
	must(t, json.NewDecoder(p.Stdout).Decode(&got))
	if want := append(slices.Clone(env), markEntry(p.mark)); len(p.mark) != 32 || !slices.Equal(got.Env, want) {
		t.Errorf("environment %q, want %q", got.Env, want)
	}
	if len(got.Pipes) > 0 {
		t.Errorf("the child has other pipes open: %q", got.Pipes)
	}
	for fd, flags := range got.Flags {
		if flags&unix.O_NONBLOCK != 0 {
			t.Errorf("descriptor %d of the child is non-blocking", fd)
		}
	}
	if !got.Group {
		t.Error("the child does not lead its own process group")
	}
	if got.Dir != dir {
		t.Errorf("directory %q, want %q", got.Dir, dir)
	}
	if want := []string{ownPath(t), "hostile", "facts"}; !slices.Equal(got.Args, want) {
		t.Errorf("arguments %q, want %q", got.Args, want)
	}
}

func TestSecretsAreInNoArgumentList(t *testing.T) {
	t.Parallel()
	p := run(t, Spec{Env: []string{"TOKEN=s3cret-value"}}, "echo")
	for _, pid := range []int{p.GuardPID, p.PID} {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		must(t, err)
		if strings.Contains(string(line), "s3cret") || !strings.Contains(string(line), "hostile") {
			t.Errorf("command line of %d: %q", pid, line)
		}
	}
}

func TestIdentityOfTheChildIsTold(t *testing.T) {
	t.Parallel()
	p := run(t, Spec{}, "echo")
	id, err := procid.Of(p.PID)
	must(t, err)
	if id.Start != p.StartTime || p.StartTime == 0 {
		t.Errorf("start time %d, the table says %d", p.StartTime, id.Start)
	}
	if p.PID == p.GuardPID {
		t.Error("child and guard have one pid")
	}
}

func TestCommandIsLookedUpInThePathOfItsEnvironment(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must(t, os.Symlink(ownPath(t), filepath.Join(dir, "my-server")))
	p := run(t, Spec{Command: "my-server", Args: []string{"hostile", "facts"}, Env: []string{"PATH=" + dir}})
	var got facts
	must(t, json.NewDecoder(p.Stdout).Decode(&got))
	if got.Args[0] != "my-server" {
		t.Errorf("argument 0 is %q", got.Args[0])
	}
}

func TestStartSaysWhyACommandCannotRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, content string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, []byte(content), mode))
		return path
	}
	plain := file("plain", "#!/bin/sh\n", 0o600)
	orphan := file("orphan", "#!/nowhere/interpreter\n", 0o700)
	junk := file("junk", "\x7fELF but not really", 0o700)
	secret := []string{"TOKEN=s3cret-value", "PATH=" + dir}
	tests := []struct {
		name string
		spec Spec
		want string
	}{
		{"not in PATH", Spec{Command: "no-such-server"}, `"no-such-server" was not found in the PATH`},
		{"no file", Spec{Command: dir + "/none"}, `none" does not exist`},
		{"no permission", Spec{Command: plain}, `plain" may not be executed`},
		{"no interpreter", Spec{Command: orphan}, `orphan" does not exist, or its interpreter`},
		{"no program", Spec{Command: junk}, `junk" could not be started: exec format error`},
		{"a directory", Spec{Command: dir}, `could not be started: is a directory`},
		{"no command", Spec{}, "there is no command"},
		{"no directory", Spec{Command: "cat", Dir: dir + "/none"}, `start "cat": working directory`},
		{"a file for a directory", Spec{Command: "cat", Dir: plain}, `is no directory`},
		{"NUL in an argument", Spec{Command: "cat", Args: []string{"a\x00b"}}, "NUL"},
		{"NUL in the environment", Spec{Command: "cat", Env: []string{"A=s3cret\x00"}}, "entry 1 of its environment"},
		{"no guard", Spec{Command: "cat", Executable: dir + "/none"}, `start "cat": guard process: no such file`},
		{"not a guard", Spec{Command: "cat", Executable: "/bin/true"}, "guard process ended before"},
		{"a guard that talks nonsense", Spec{Command: "cat", Executable: file("liar", "#!/bin/sh\necho hello >&4\n", 0o700)}, "means nothing"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.spec.Env == nil {
				tt.spec.Env = secret
			}
			p, err := Start(context.Background(), tt.spec)
			if err == nil {
				kill(t, p)
				t.Fatal("it started")
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %q, want %q in it", err, tt.want)
			}
			if strings.Contains(err.Error(), "s3cret") {
				t.Errorf("error %q shows the environment", err)
			}
		})
	}
}

func TestStartGivesUpWithItsContext(t *testing.T) {
	t.Parallel()
	w := newWitness(t)
	mute := filepath.Join(t.TempDir(), "mute")
	must(t, os.WriteFile(mute, []byte("#!/bin/sh\nexec 9>$WITNESS\necho mute $$ >&9\nexec sleep 1000\n"), 0o700))
	ctx, cancel := context.WithCancel(context.Background())
	failed := make(chan error)
	go func() {
		_, err := Start(ctx, Spec{Command: "cat", Executable: mute, Env: []string{"PATH=/usr/bin:/bin", "WITNESS=" + w.path}})
		failed <- err
	}()
	w.gather("mute")
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), `start "cat": its guard has not answered`) {
		t.Errorf("error %v", err)
	}
	w.awaitNobody()
	if _, err := Start(ctx, Spec{Command: "cat"}); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
}

func TestMainRefusesToBeRunByHand(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"guard"}, {"guard", "--"}, {"guard", "--", "cat"}} {
		out, err := exec.Command(ownPath(t), args...).CombinedOutput()
		exit, ok := err.(*exec.ExitError)
		if !ok || exit.ExitCode() != exitUsage || !strings.Contains(string(out), "not by hand") {
			t.Errorf("%q: %v, %q", args, err, out)
		}
	}
}

func TestExitReasonTellsHowTheChildEnded(t *testing.T) {
	t.Parallel()
	tests := []struct {
		args []string
		want string
	}{
		{[]string{"echo"}, "exited with code 0"},
		{[]string{"complain", "1"}, "exited with code 3"},
		{[]string{"suicide"}, "killed by signal 9 (killed)"},
	}
	for _, tt := range tests {
		p := run(t, Spec{}, tt.args...)
		must(t, p.Stdin.Close())
		await(t, "done", p.Done())
		if got := p.ExitReason(); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.args, got, tt.want)
		}
		if code, ok := p.ExitCode(); ok != strings.HasSuffix(tt.want, fmt.Sprint("code ", code)) {
			t.Errorf("%q: exit status %d, %v", tt.args, code, ok)
		}
	}
}

func TestGuardMirrorsTheExitCodeOfTheChild(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]int{"complain": 3, "suicide": 128 + 9} {
		lifeR, lifeW, err := os.Pipe()
		must(t, err)
		statusR, statusW, err := os.Pipe()
		must(t, err)
		cmd := exec.Command(ownPath(t), "guard", "--", ownPath(t), "hostile", mode, "1")
		cmd.ExtraFiles = []*os.File{lifeR, statusW}
		err = cmd.Run()
		exit, ok := err.(*exec.ExitError)
		if !ok || exit.ExitCode() != want {
			t.Errorf("%s: %v, want code %d", mode, err, want)
		}
		for _, f := range []*os.File{lifeR, lifeW, statusR, statusW} {
			must(t, f.Close())
		}
	}
}

func TestDoneComesAfterTheLastWordOnStderr(t *testing.T) {
	t.Parallel()
	const lines = 20_000
	p := run(t, Spec{}, "complain", strconv.Itoa(lines))
	await(t, "done", p.Done())
	got := p.StderrTail()
	if len(got) != DefaultStderrLimit || !strings.HasSuffix(got, fmt.Sprintf("complaint %d\n", lines)) {
		t.Errorf("%d bytes that end with %q", len(got), got[max(0, len(got)-40):])
	}
}

func TestGuardIsDeafToSignals(t *testing.T) {
	t.Parallel()
	p := run(t, Spec{}, "echo")
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		must(t, syscall.Kill(p.GuardPID, sig))
	}
	_, err := io.WriteString(p.Stdin, "still here\n")
	must(t, err)
	line, err := bufio.NewReader(p.Stdout).ReadString('\n')
	must(t, err)
	if line != "still here\n" {
		t.Errorf("read %q", line)
	}
	must(t, p.Stop(context.Background()))
	if got := p.ExitReason(); got != "exited with code 0" {
		t.Errorf("reason %q", got)
	}
}

func TestChildIgnoresNoSignalThatItDidNotAskToIgnore(t *testing.T) {
	t.Parallel()
	p := run(t, Spec{Command: "sleep", Args: []string{"1000"}, Env: []string{"PATH=/usr/bin:/bin"}})
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID))
	must(t, err)
	_, rest, _ := strings.Cut(string(status), "SigIgn:")
	line, _, _ := strings.Cut(rest, "\n")
	ignored, err := strconv.ParseUint(strings.TrimSpace(line), 16, 64)
	must(t, err)
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT} {
		if ignored&(1<<(sig-1)) != 0 {
			t.Errorf("%v is ignored", sig)
		}
	}
}

func TestStopClosesStdinFirst(t *testing.T) {
	t.Parallel()
	p := run(t, Spec{StopGrace: patience}, "echo")
	must(t, p.Stop(context.Background())) // hangs for a minute if it waits for more
	if got := p.ExitReason(); got != "exited with code 0" {
		t.Errorf("reason %q", got)
	}
	await(t, "done", p.Done())
}

func TestStopAsksWithSIGTERMNext(t *testing.T) {
	t.Parallel()
	w := newWitness(t)
	p := run(t, Spec{StopGrace: 2 * time.Second}, "polite", w.path)
	w.gather("polite")
	if _, err := bufio.NewReader(p.Stdout).ReadString('\n'); err != nil { // it listens
		t.Fatal(err)
	}
	must(t, p.Stop(context.Background()))
	if got := p.ExitReason(); got != "exited with code 7" {
		t.Errorf("reason %q", got)
	}
	w.awaitNobody()
}

func TestStopKillsAtLast(t *testing.T) {
	t.Parallel()
	w := newWitness(t)
	p := run(t, Spec{StopGrace: 1}, "family", w.path)
	w.gather("family", "deaf", "fork", "daemon")
	must(t, p.Stop(context.Background()))
	w.awaitNobody()
	if got := p.ExitReason(); got != "killed by signal 9 (killed)" {
		t.Errorf("reason %q", got)
	}
	must(t, p.Stop(context.Background())) // again
}

func TestStopFromManySidesIsOneStop(t *testing.T) {
	t.Parallel()
	w := newWitness(t)
	p := run(t, Spec{StopGrace: 10 * time.Millisecond}, "deaf", w.path)
	w.gather("deaf")
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if err := p.Stop(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	w.awaitNobody()
}

func TestDaemonOfAChildThatEndsIsKilled(t *testing.T) {
	t.Parallel()
	w := newWitness(t)
	p := run(t, Spec{}, "parent", w.path)
	w.gather("parent", "fork", "daemon")
	_, err := p.Stdin.Write([]byte{'.'}) // it may end now
	must(t, err)
	w.awaitNobody()
	await(t, "done", p.Done())
	if got := p.ExitReason(); got != "exited with code 5" {
		t.Errorf("reason %q", got)
	}
}

func TestManyStartAtOnce(t *testing.T) {
	cat, err := exec.LookPath("cat")
	must(t, err)
	var group sync.WaitGroup
	for i := range 64 {
		group.Go(func() {
			p, err := Start(context.Background(), Spec{Command: cat, StopGrace: patience, Env: prompt})
			if err != nil {
				t.Error(err)
				return
			}
			line := fmt.Sprintf("child %d\n", i)
			if _, err := io.WriteString(p.Stdin, line); err != nil {
				t.Error(err)
			}
			if err := p.Stop(context.Background()); err != nil {
				t.Error(err)
			}
			if got, err := io.ReadAll(p.Stdout); err != nil || string(got) != line {
				t.Errorf("read %q, %v", got, err)
			}
		})
	}
	group.Wait()
}

func TestNoDescriptorIsLeaked(t *testing.T) {
	ledger, err := OpenLedger(t.TempDir())
	must(t, err)
	round := func() {
		p, err := Start(context.Background(), Spec{Command: "/bin/cat", Ledger: ledger, Env: prompt})
		must(t, err)
		kill(t, p)
		_, err = io.Copy(io.Discard, p.Stdout)
		must(t, err)
		if _, err := Start(context.Background(), Spec{Command: "/no/such/thing"}); err == nil {
			t.Fatal("it started")
		}
	}
	count := func() int {
		names, err := os.ReadDir("/proc/self/fd")
		must(t, err)
		return len(names)
	}
	round() // opens what is kept for good: the poller, the process table
	before := count()
	for range 5 {
		round()
	}
	if after := count(); after != before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
	if left, err := os.ReadDir(ledger.dir); err != nil || len(left) > 0 {
		t.Errorf("the ledger holds %v, %v", left, err)
	}
}
