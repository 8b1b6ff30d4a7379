//go:build linux || darwin

package statedir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/transport/guard/procid"
)

func TestSecondBrokerIsRefusedWithThePidOfTheFirst(t *testing.T) {
	d := opened(t)
	first := startPeer(t, d.Root())
	if first.word != "running" {
		t.Fatal(first.word)
	}
	_, err := d.Lock()
	var running *RunningError
	if !errors.As(err, &running) || !errors.Is(err, ErrRunning) || running.PID != first.cmd.Process.Pid {
		t.Fatalf("lock: %v, want pid %d", err, first.cmd.Process.Pid)
	}
	if want := fmt.Sprintf("another broker (pid %d) runs on %s", running.PID, d.Root()); err.Error() != want {
		t.Errorf("error %q, want %q", err, want)
	}
	first.kill() // leaves its files
	lock, err := d.Lock()
	must(t, err)
	if second := startPeer(t, d.Root()); second.word != fmt.Sprintf("refused: another broker (pid %d) runs on %s", os.Getpid(), d.Root()) {
		t.Errorf("the other said %q", second.word)
	}
	if _, err := d.Lock(); !errors.Is(err, ErrRunning) {
		t.Errorf("a second time in one process: %v", err)
	}
	must(t, lock.Release())
	must(t, lock.Release())
	if third := startPeer(t, d.Root()); third.word != "running" {
		t.Errorf("after the release: %q", third.word)
	}
}

func TestOfManyBrokersOneGetsTheLock(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	peers := make([]*peer, 6)
	for i := range peers {
		peers[i] = launchPeer(t, dir)
	}
	got := make(map[string]int)
	for _, p := range peers {
		p.listen()
		word, _, _ := strings.Cut(p.word, ":")
		got[word]++
	}
	if got["running"] != 1 || got["refused"] != len(peers)-1 {
		t.Errorf("answers %v", got)
	}
}

func TestLockIsRefusedWhenItsHolderHasNotSaidWhoItIs(t *testing.T) {
	d := opened(t)
	f, err := os.OpenFile(d.Path(lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	must(t, err)
	must(t, flock(f, 2)) // LOCK_EX
	_, err = d.Lock()
	if want := "another broker runs on " + d.Root(); err == nil || err.Error() != want {
		t.Errorf("error %v, want %q", err, want)
	}
	must(t, f.Close())
}

func TestLockRemovesWhatADeadWriterLeft(t *testing.T) {
	d := opened(t)
	for _, name := range []string{".api-token-ABC", ".berth.port-ABC", ".session.key-ABC", ".mine"} {
		must(t, os.WriteFile(d.Path(name), []byte("x"), 0o600))
	}
	lock, err := d.Lock()
	must(t, err)
	defer lock.Release()
	if got := mode(t, d.Path(lockFile)); got != 0o600 {
		t.Errorf("mode %o", got)
	}
	entries, err := os.ReadDir(d.Root())
	must(t, err)
	if len(entries) != 2 { // .mine and berth.lock
		t.Errorf("left %v", entries)
	}
}

func TestClientFindsTheBroker(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	_, _, err := Discover(dir)
	if want := fmt.Sprintf("no broker runs on %s: start one with `berth serve`", dir); !errors.Is(err, ErrNotRunning) || errors.Is(err, ErrStale) || err.Error() != want {
		t.Errorf("without a directory: %v", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a client made the directory (%v)", err)
	}
	d, err := Open(dir)
	must(t, err)
	if _, _, err := Discover(dir); !errors.Is(err, ErrNotRunning) {
		t.Errorf("in an empty directory: %v", err)
	}

	broker := startPeer(t, dir)
	addr, secret, err := Discover(dir)
	must(t, err)
	if addr != "127.0.0.1:7420" || secret != token(t, d) {
		t.Errorf("address %q", addr)
	}
	if got := mode(t, d.Path(portFile)); got != 0o600 {
		t.Errorf("mode %o", got)
	}
	t.Setenv(EnvDir, dir)
	if addr, _, err := Discover(""); err != nil || addr != "127.0.0.1:7420" {
		t.Errorf("by default: %q, %v", addr, err)
	}

	must(t, os.Chmod(d.Path(tokenFile), 0o644))
	if _, _, err := Discover(dir); !errors.Is(err, ErrUnsafe) || strings.Contains(err.Error(), secret) {
		t.Errorf("with a readable token: %v", err)
	}
	must(t, os.Remove(d.Path(tokenFile)))
	if _, _, err := Discover(dir); !errors.Is(err, ErrDamaged) || errors.Is(err, ErrNotRunning) {
		t.Errorf("without a token: %v", err)
	}
	must(t, os.Chmod(dir, 0o777))
	if _, _, err := Discover(dir); !errors.Is(err, ErrUnsafe) {
		t.Errorf("in an open directory: %v", err)
	}
	must(t, os.Chmod(dir, 0o700))

	broker.kill()
	_, _, err = Discover(dir)
	if !errors.Is(err, ErrStale) || !errors.Is(err, ErrNotRunning) || !strings.Contains(err.Error(), fmt.Sprint(broker.cmd.Process.Pid)) {
		t.Errorf("after the broker was killed: %v", err)
	}
}

func TestPortFileIsJudgedByItsProcess(t *testing.T) {
	d := opened(t)
	self, err := procid.Self()
	must(t, err)
	earlier, elsewhere := self, self
	earlier.Start--
	elsewhere.Boot = "another"
	write := func(owner procid.ID) {
		must(t, d.replace(portFile, []byte("address [::1]:80\n"+formatOwner(owner))))
	}
	write(self)
	if addr, err := d.ReadPort(); err != nil || addr != "[::1]:80" {
		t.Errorf("own: %q, %v", addr, err)
	}
	write(earlier)
	if _, err := d.ReadPort(); !errors.Is(err, ErrStale) {
		t.Errorf("a reused pid: %v", err)
	}
	must(t, d.RemovePort())
	if _, err := os.Stat(d.Path(portFile)); err != nil {
		t.Errorf("the file of another was removed: %v", err)
	}
	// Where the pid means nothing the lock decides.
	write(elsewhere)
	if _, err := d.ReadPort(); !errors.Is(err, ErrStale) {
		t.Errorf("out of sight, lock never made: %v", err)
	}
	lock, err := d.Lock()
	must(t, err)
	if addr, err := d.ReadPort(); err != nil || addr != "[::1]:80" {
		t.Errorf("out of sight, lock held: %q, %v", addr, err)
	}
	must(t, lock.Release())
	if _, err := d.ReadPort(); !errors.Is(err, ErrStale) {
		t.Errorf("out of sight, lock free: %v", err)
	}
}

func TestPortFileGoesAtACleanStop(t *testing.T) {
	d := opened(t)
	must(t, d.RemovePort()) // there is none
	for _, bad := range []string{"", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:", "a b:1", "a:1\npid 1"} {
		if err := d.WritePort(bad); err == nil {
			t.Errorf("address %q was written", bad)
		}
	}
	must(t, d.WritePort("127.0.0.1:9"))
	if addr, err := d.ReadPort(); err != nil || addr != "127.0.0.1:9" {
		t.Errorf("%q, %v", addr, err)
	}
	noPartials(t, d)
	must(t, d.RemovePort())
	if _, err := d.ReadPort(); !errors.Is(err, ErrNotRunning) || errors.Is(err, ErrStale) {
		t.Errorf("after the stop: %v", err)
	}
	must(t, os.WriteFile(d.Path(portFile), []byte("7420\n"), 0o600))
	if _, err := d.ReadPort(); !errors.Is(err, ErrDamaged) {
		t.Errorf("damaged: %v", err)
	}
	if err := d.RemovePort(); !errors.Is(err, ErrDamaged) {
		t.Errorf("removal of a damaged one: %v", err)
	}
}

func FuzzParsePort(f *testing.F) {
	f.Add([]byte("address 127.0.0.1:7420\npid 12\nstart 34\nboot b\n"))
	f.Add([]byte("pid"))
	f.Fuzz(func(t *testing.T, data []byte) {
		addr, owner, err := parsePort(data)
		if err != nil {
			return
		}
		if !isAddress(addr) || owner.PID <= 0 {
			t.Fatalf("%q, %+v", addr, owner)
		}
		again, same, err := parsePort([]byte("address " + addr + "\n" + formatOwner(owner)))
		if err != nil || again != addr || same != owner {
			t.Fatalf("%q, %+v: %v", again, same, err)
		}
	})
}
