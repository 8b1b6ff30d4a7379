//go:build unix

package statedir

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The test binary is the other broker too.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "other-broker" {
		os.Exit(otherBroker(os.Args[2]))
	}
	os.Exit(m.Run())
}

// otherBroker takes the directory, says how that went, and stays until its stdin
// ends.
func otherBroker(path string) int {
	d, err := Open(path)
	if err != nil {
		fmt.Println("failed:", err)
		return 1
	}
	_, err = d.Lock()
	if errors.Is(err, ErrRunning) {
		fmt.Println("refused:", err)
		return 0
	}
	if err == nil {
		_, err = d.Credential()
	}
	if err == nil {
		err = d.WritePort("127.0.0.1:7420")
	}
	if err != nil {
		fmt.Println("failed:", err)
		return 1
	}
	fmt.Println("running")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// A peer is another broker process.
type peer struct {
	t    *testing.T
	cmd  *exec.Cmd
	out  *bufio.Reader
	word string // what it said first
}

func startPeer(t *testing.T, dir string) *peer {
	t.Helper()
	p := launchPeer(t, dir)
	p.listen()
	return p
}

func launchPeer(t *testing.T, dir string) *peer {
	t.Helper()
	p := &peer{t: t, cmd: exec.Command(os.Args[0], "other-broker", dir)}
	p.cmd.Stderr = os.Stderr
	_, err := p.cmd.StdinPipe() // open until kill
	must(t, err)
	out, err := p.cmd.StdoutPipe()
	must(t, err)
	p.out = bufio.NewReader(out)
	must(t, p.cmd.Start())
	t.Cleanup(p.kill)
	return p
}

func (p *peer) listen() {
	p.t.Helper()
	line, err := p.out.ReadString('\n')
	must(p.t, err)
	p.word = strings.TrimSpace(line)
}

func (p *peer) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func opened(t *testing.T) *Dir {
	t.Helper()
	d, err := Open(filepath.Join(t.TempDir(), "state"))
	must(t, err)
	return d
}

func mode(t *testing.T, path string) os.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	must(t, err)
	return info.Mode().Perm()
}
