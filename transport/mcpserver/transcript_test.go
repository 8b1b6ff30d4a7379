package mcpserver

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/tools/txtar"

	"berth/actors"
	"berth/broker/catalog"
)

var update = flag.Bool("update", false, "write what was seen into the transcripts")

// A transcript is a txtar file. Its sections run in order:
//
//	> N POST /mcp    a request: header lines, an empty line, a body
//	>& N POST /mcp   the same, without waiting for the answer
//	< N              the answer: status, headers that matter, body; on a
//	                 stream every line with the time since the request
//	<& N             what has come of the answer so far, on a stream that goes on
//	end N            the client of that request leaves
//	wait 10s         time passes
//	notice [BACKEND] a backend (fs) says something outside of any call
//	offers           two backends, one and two, have prompts and resources
//	grow             the backend fs has one more tool
//	late             the backend "late" lists its tools
//	in, out, stderr  lines of the bridge; each output line with its time
//	broker stops, broker starts
//	calls            what the broker was asked to do
//
// $SESSION stands for the last session id that was given, $STATE for the last
// requestState. -update rewrites the
// answers.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(strings.TrimPrefix(filepath.ToSlash(file), "testdata/"), ".txtar"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			archive := txtar.Parse(data)
			synctest.Test(t, func(t *testing.T) {
				if strings.HasPrefix(filepath.ToSlash(file), "testdata/meta/") {
					playWith(t, newMetaBroker(t), archive)
					return
				}
				play(t, archive)
			})
			if *update {
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// player is the state of one transcript.
type player struct {
	t       *testing.T
	front   *front
	session string
	state   string
	answers map[string]chan string
	streams map[string]*stream
	bridge  *bridgeRun
}

func play(t *testing.T, archive *txtar.Archive) {
	playWith(t, newFakeBroker(t, catalog.Source{Backend: "late"}), archive)
}

// playWith plays a transcript in front of b.
func playWith(t *testing.T, b *fakeBroker, archive *txtar.Archive) {
	p := &player{t: t, front: serve(t, b, nil), answers: map[string]chan string{}, streams: map[string]*stream{}}
	defer func() {
		p.bridge.close()
		for _, s := range p.streams {
			s.leave()
		}
		p.front.stop()
		synctest.Wait()
	}()
	for i := range archive.Files {
		section := &archive.Files[i]
		if want, is := p.step(section.Name, string(section.Data)); is {
			if *update {
				section.Data = []byte(want)
			} else if want != string(section.Data) {
				t.Errorf("section %q\ngot:\n%s\nwant:\n%s", section.Name, want, section.Data)
			}
		}
	}
}

// step runs a section; what it gives is compared with the section when is.
func (p *player) step(name, data string) (got string, is bool) {
	verb, rest, _ := strings.Cut(name, " ")
	switch verb {
	case ">", ">&":
		n, line, _ := strings.Cut(rest, " ")
		answer := make(chan string, 1)
		ctx, leave := context.WithCancel(context.Background())
		s := &stream{leave: leave}
		p.answers[n], p.streams[n] = answer, s
		go func() {
			p.send(ctx, s, line, data)
			answer <- s.take()
		}()
		if verb == ">" {
			answer <- <-answer
		} else {
			synctest.Wait()
		}
	case "<":
		return <-p.answers[rest], true
	case "<&":
		synctest.Wait()
		if p.streams[rest] == nil {
			p.t.Fatalf("request %s is over, so nothing more can come of it", rest)
		}
		return p.streams[rest].take(), true
	case "end":
		p.streams[rest].leave()
		delete(p.streams, rest)
		synctest.Wait()
	case "notice":
		if rest == "" {
			rest = "fs"
		}
		for line := range strings.Lines(data) {
			method, params, _ := strings.Cut(strings.TrimSpace(line), " ")
			p.front.broker.publish(actors.Notice{Backend: rest, Method: method, Params: json.RawMessage(params)})
		}
		synctest.Wait()
	case "offers":
		p.front.broker.set(p.t, nativeSource(), offering("one"), offering("two"))
	case "grow":
		source := fsSource()
		source.Tools = append(source.Tools, tool("more", ""))
		p.front.broker.set(p.t, nativeSource(), source, catalog.Source{Backend: "late"})
		p.front.broker.publish(actors.Notice{Method: actors.CatalogChanged})
		synctest.Wait()
	case "wait":
		d, err := time.ParseDuration(rest)
		if err != nil {
			p.t.Fatal(err)
		}
		elapse(d)
		synctest.Wait()
	case "late":
		p.front.broker.set(p.t, nativeSource(), fsSource(), catalog.Source{Backend: "late", Listed: true, Tools: fsTools()[1:2]})
	case "calls":
		return p.calls(), true
	case "in":
		if p.bridge == nil {
			p.bridge = startBridge(p.t, p.front, Bridge{})
		}
		p.bridge.write(data)
	case "out":
		return p.bridge.output(), true
	case "stderr":
		return p.bridge.errors(), true
	case "broker":
		p.restart(rest)
	default:
		p.t.Fatalf("a section named %q is not known", name)
	}
	return "", false
}

func (p *player) restart(what string) {
	if what == "stops" {
		p.front.stop()
		synctest.Wait()
		return
	}
	p.front = serve(p.t, newFakeBroker(p.t), nil)
	if p.bridge != nil {
		p.bridge.follow(p.front)
	}
}

// stream is what has come of an answer.
type stream struct {
	mu    sync.Mutex
	text  strings.Builder
	leave context.CancelFunc
}

func (s *stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *stream) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := s.text.String()
	s.text.Reset()
	return text
}

// send makes one HTTP request of a section and writes its answer down.
func (p *player) send(ctx context.Context, out *stream, line, data string) {
	method, path, _ := strings.Cut(line, " ")
	head, body, _ := strings.Cut(data, "\n\n")
	if strings.HasPrefix(data, "\n") {
		head, body = "", data[1:]
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://127.0.0.1:7420"+path, strings.NewReader(strings.ReplaceAll(strings.TrimSuffix(body, "\n"), "$STATE", p.state)))
	if err != nil {
		fmt.Fprintln(out, err)
		return
	}
	req.Header.Set("Authorization", "Bearer "+testToken)
	for h := range strings.Lines(head) {
		key, value, ok := strings.Cut(strings.TrimSpace(h), ":")
		if !ok {
			continue
		}
		value = strings.ReplaceAll(strings.TrimSpace(value), "$SESSION", p.session)
		switch {
		case strings.EqualFold(key, "host"):
			req.Host = value
		case value == "":
			req.Header.Del(key)
		default:
			req.Header.Set(key, value)
		}
	}
	began := time.Now()
	resp, err := p.front.client.Do(req)
	if err != nil {
		fmt.Fprintln(out, err)
		return
	}
	defer resp.Body.Close()
	fmt.Fprintf(out, "%d\n", resp.StatusCode)
	for _, key := range []string{"Content-Type", "Allow", "Www-Authenticate", headerSession} {
		value := resp.Header.Get(key)
		if key == headerSession && value != "" {
			p.session, value = value, "$SESSION"
		}
		if value != "" {
			fmt.Fprintf(out, "%s: %s\n", key, value)
		}
	}
	fmt.Fprintln(out)
	timed := strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream")
	if timed {
		fmt.Fprintf(out, "[%v] headers\n", time.Since(began).Round(time.Millisecond))
	}
	lines := bufio.NewReader(resp.Body)
	for {
		text, err := lines.ReadString('\n')
		if text = strings.TrimRight(text, "\n"); text != "" {
			if _, rest, ok := strings.Cut(text, `"requestState":"berth1.`); ok {
				state, _, _ := strings.Cut(rest, `"`)
				p.state = statePrefix + state
				text = strings.ReplaceAll(text, p.state, "$STATE")
			}
			if timed {
				fmt.Fprintf(out, "[%v] ", time.Since(began).Round(time.Millisecond))
			}
			fmt.Fprintln(out, text)
		}
		if err != nil {
			if err != io.EOF {
				fmt.Fprintf(out, "broken: %v\n", err)
			}
			return
		}
	}
}

// calls lists what the broker was asked since the last time.
func (p *player) calls() string {
	b := p.front.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	var out strings.Builder
	for _, r := range b.requests {
		session := "a session"
		if r.Call.Session == "" {
			session = "no session"
		}
		fmt.Fprintf(&out, "do id=%s %s verb=%s promote=%v progress=%v expect=%q %s\n", r.RequestID, session, r.Call.Verb, r.PromoteAfter, r.Call.WantProgress, r.Call.ExpectedRuntimeID, r.Call.Params)
	}
	// Several backends are asked at once, in no order that means anything.
	lines := slices.Collect(strings.Lines(out.String()))
	gathered := func(line string) bool { return strings.HasPrefix(line, "do id= a session") }
	for from := 0; from < len(lines); from++ {
		to := from
		for to < len(lines) && gathered(lines[to]) {
			to++
		}
		slices.Sort(lines[from:to])
		from = max(from, to-1)
	}
	out.Reset()
	out.WriteString(strings.Join(lines, ""))
	for _, c := range b.cancels {
		fmt.Fprintf(&out, "cancel %s\n", c)
	}
	for range b.ended {
		out.WriteString("end of a session\n")
	}
	b.requests, b.cancels, b.ended = nil, nil, nil
	return out.String()
}

// bridgeRun is a running Bridge with its pipes.
type bridgeRun struct {
	stdin  *io.PipeWriter
	stdout *timedLines
	stderr *timedLines
	ended  chan error
	finds  chan struct{} // one for each discovery; capacity 64

	mu    sync.Mutex
	front *front
}

func startBridge(t *testing.T, f *front, b Bridge) *bridgeRun {
	in, stdin := io.Pipe()
	r := &bridgeRun{stdin: stdin, stdout: newTimedLines(), stderr: newTimedLines(), ended: make(chan error, 1), finds: make(chan struct{}, 64), front: f}
	b.Discover = func() (string, string, error) {
		r.finds <- struct{}{}
		return "http://127.0.0.1:7420", testToken, nil
	}
	if b.Transport == nil {
		b.Transport = r
	}
	go func() { r.ended <- b.Run(t.Context(), in, r.stdout, r.stderr) }()
	return r
}

// RoundTrip goes to the broker that runs now.
func (r *bridgeRun) RoundTrip(req *http.Request) (*http.Response, error) {
	r.mu.Lock()
	f := r.front
	r.mu.Unlock()
	return f.client.Transport.RoundTrip(req)
}

func (r *bridgeRun) follow(f *front) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.front = f
}

func (r *bridgeRun) write(text string) {
	for line := range strings.Lines(text) {
		_, _ = io.WriteString(r.stdin, line)
		synctest.Wait() // so that messages reach the broker in this order
	}
}

func (r *bridgeRun) output() string { synctest.Wait(); return r.stdout.take() }
func (r *bridgeRun) errors() string { synctest.Wait(); return r.stderr.take() }

func (r *bridgeRun) close() error {
	if r == nil {
		return nil
	}
	_ = r.stdin.Close()
	return <-r.ended
}

// timedLines keeps what is written, each line with its time. Lines of one
// moment are in no order that means anything, so they are sorted.
type timedLines struct {
	mu    sync.Mutex
	began time.Time
	lines []string
}

func newTimedLines() *timedLines { return &timedLines{began: time.Now()} }

func (l *timedLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for text := range bytes.Lines(p) {
		l.lines = append(l.lines, fmt.Sprintf("[%v] %s", time.Since(l.began).Round(time.Millisecond), text))
	}
	return len(p), nil
}

func (l *timedLines) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := func(s string) string { t, _, _ := strings.Cut(s, " "); return t }
	for from := 0; from < len(l.lines); {
		to := from
		for to < len(l.lines) && at(l.lines[to]) == at(l.lines[from]) {
			to++
		}
		slices.Sort(l.lines[from:to])
		from = to
	}
	text := strings.Join(l.lines, "")
	l.lines = nil
	return text
}
