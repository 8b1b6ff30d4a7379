package real

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

// typeScript is speak.mjs on one of the official TypeScript SDKs.
type typeScript struct {
	in   io.WriteCloser
	mu   sync.Mutex
	last int
	wait map[int]*spoken
	era  string
}

// spoken is one thing that the program was told to do.
type spoken struct {
	progress func(float64)
	done     chan spokenLine
}

type spokenLine struct {
	ID       int
	Progress *float64
	Result   json.RawMessage
	Error    string
}

// connectTypeScript starts it with the package of that name.
func connectTypeScript(pkg string) func(t *testing.T, to target) speaker {
	return func(t *testing.T, to target) speaker {
		t.Helper()
		env := append(environment(t.TempDir()), "SDK="+filepath.Join(modules(t), "@modelcontextprotocol", pkg), "ERA="+to.era)
		if to.tasks {
			env = append(env, "TASKS=1")
		}
		if to.url != "" {
			env = append(env, "URL="+to.url, "TOKEN="+to.token)
		} else {
			env = append(env, "COMMAND="+mustJSON(t, to.line))
		}
		cmd := exec.Command("node", filepath.Join(root(t), "test", "real", "speak.mjs"))
		cmd.Env, cmd.WaitDelay = env, 5*time.Second
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		in, err := cmd.StdinPipe()
		mustNot(t, "start", err)
		out, err := cmd.StdoutPipe()
		mustNot(t, "start", err)
		stderr := newLines()
		cmd.Stderr = stderr
		s := &typeScript{in: in, era: to.era, wait: map[int]*spoken{0: {done: make(chan spokenLine, 1)}}}
		mustNot(t, "start", cmd.Start())
		read := make(chan struct{})
		go func() {
			defer close(read)
			s.read(out)
		}()
		t.Cleanup(func() {
			_ = in.Close() // it ends then
			late := time.AfterFunc(20*time.Second, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
			<-read
			err := cmd.Wait()
			late.Stop()
			if err != nil || t.Failed() {
				t.Logf("the client ended: %v\n%s", err, stderr.tail())
			}
		})
		if _, err := s.await(bounded(t), 0); err != nil {
			t.Fatalf("connect: %v\n%s", err, stderr.tail())
		}
		return s
	}
}

func (s *typeScript) read(out io.Reader) {
	sc := bufio.NewScanner(out)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		var line spokenLine
		if json.Unmarshal(sc.Bytes(), &line) != nil {
			continue
		}
		s.mu.Lock()
		w := s.wait[line.ID]
		if w != nil && line.Progress == nil {
			delete(s.wait, line.ID)
		}
		s.mu.Unlock()
		switch {
		case w == nil:
		case line.Progress != nil:
			if w.progress != nil {
				w.progress(*line.Progress)
			}
		default:
			w.done <- line
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, w := range s.wait {
		delete(s.wait, id)
		w.done <- spokenLine{Error: "the client is gone"}
	}
}

// tell gives the id of what it is told to do.
func (s *typeScript) tell(m map[string]any, progress func(float64)) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	m["id"] = s.last
	s.wait[s.last] = &spoken{progress: progress, done: make(chan spokenLine, 1)}
	line, err := json.Marshal(m)
	if err == nil {
		_, err = s.in.Write(append(line, '\n'))
	}
	return s.last, err
}

func (s *typeScript) await(ctx context.Context, id int) (json.RawMessage, error) {
	s.mu.Lock()
	w := s.wait[id]
	s.mu.Unlock()
	if w == nil {
		return nil, errors.New("it was answered already")
	}
	select {
	case line := <-w.done:
		if line.Error != "" {
			return nil, errors.New(line.Error)
		}
		return line.Result, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *typeScript) do(ctx context.Context, m map[string]any, into any) error {
	id, err := s.tell(m, nil)
	if err != nil {
		return err
	}
	result, err := s.await(ctx, id)
	if err != nil {
		return err
	}
	return json.Unmarshal(result, into)
}

func (s *typeScript) version() string {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	var v string
	if err := s.do(ctx, map[string]any{"do": "version"}, &v); err != nil {
		return fmt.Sprint(err)
	}
	return v
}

func (s *typeScript) list(ctx context.Context) (names []string, err error) {
	err = s.do(ctx, map[string]any{"do": "list"}, &names)
	return names, err
}

func (s *typeScript) call(ctx context.Context, tool string, arguments map[string]any, progress func(float64)) (text string, err error) {
	id, err := s.tell(map[string]any{"do": "call", "tool": tool, "arguments": arguments}, progress)
	if err != nil {
		return "", err
	}
	stop := context.AfterFunc(ctx, func() { _, _ = s.tell(map[string]any{"do": "cancel", "call": id}, nil) })
	defer stop()
	over, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	result, err := s.await(over, id)
	if err != nil {
		return "", err
	}
	err = json.Unmarshal(result, &text)
	return text, err
}

func (s *typeScript) begin(ctx context.Context, tool string, arguments map[string]any) (id string, err error) {
	err = s.do(ctx, map[string]any{"do": "begin", "tool": tool, "arguments": arguments}, &id)
	return id, err
}

func (s *typeScript) poll(ctx context.Context, id string) (status, text string, err error) {
	var r struct{ Status, Text string }
	err = s.do(ctx, map[string]any{"do": "poll", "task": id}, &r)
	return r.Status, r.Text, err
}
