package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/cmd/internal/brokerproc"
)

// The input of the bridge stays open, as it does with a client that signals
// first and closes later.
func TestABridgeThatIsToldToStopEndsAtOnceAndTellsWhatRuns(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.configure(map[string]any{"mcpServers": map[string]any{"st": h.fixtureEntry(nil)}})
	must(t, h.start())
	for _, tt := range []struct {
		name   string
		signal os.Signal
	}{{"SIGTERM", syscall.SIGTERM}, {"SIGINT", os.Interrupt}} {
		t.Run(tt.name, func(t *testing.T) {
			cmd := exec.Command(h.bin.berth, "stdio", "--state-dir", h.state)
			cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
			stdin, err := cmd.StdinPipe()
			must(t, err)
			out, err := cmd.StdoutPipe()
			must(t, err)
			must(t, cmd.Start())
			t.Cleanup(func() { _ = cmd.Process.Kill(); _ = stdin.Close() })
			lines := bufio.NewReader(out)
			_, err = io.WriteString(stdin, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`+"\n"+
				`{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
			must(t, err)
			_, err = lines.ReadString('\n')
			must(t, err)
			file := h.dir + "/" + tt.name
			arguments, err := json.Marshal(map[string]any{"file": file, "line": "a", "seconds": 600})
			must(t, err)
			_, err = io.WriteString(stdin, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"st__append","arguments":`+string(arguments)+`}}`+"\n")
			must(t, err)
			eventually(t, "the call runs", func() bool { return countLines(file, "a") == 1 })

			must(t, cmd.Process.Signal(tt.signal))
			answer := make(chan string, 1)
			ended := make(chan error, 1)
			go func() {
				text, _ := io.ReadAll(lines)
				answer <- string(text)
				ended <- cmd.Wait()
			}()
			select {
			case err := <-ended:
				var exit *exec.ExitError
				if !errors.As(err, &exit) || exit.ExitCode() != exitInterrupted {
					t.Errorf("it ended with %v, want code %d", err, exitInterrupted)
				}
			case <-time.After(brokerproc.Patience):
				t.Fatal("it does not end")
			}
			var m struct {
				ID    int
				Error struct{ Data struct{ Code string } }
			}
			// The backend listed its tools for the call, which is news to the session.
			text := <-answer
			last := text[strings.LastIndex(strings.TrimSuffix(text, "\n"), "\n")+1:]
			if json.Unmarshal([]byte(last), &m) != nil || m.ID != 2 || m.Error.Data.Code != "outcome_unknown" {
				t.Errorf("the running call was told %q", text)
			}
		})
	}
}
