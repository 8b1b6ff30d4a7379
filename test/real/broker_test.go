package real

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// broker is a `berth serve` with what a client needs to find it.
type broker struct {
	*process
	config   string
	stateDir string
	home     string
	env      []string
	url      string // without a path
	token    string
}

// startBroker serves the backends: name to entry of mcpServers.
func startBroker(t *testing.T, backends map[string]any) *broker {
	t.Helper()
	return startConfigured(t, map[string]any{"mcpServers": backends})
}

func startConfigured(t *testing.T, config map[string]any) *broker {
	t.Helper()
	dir := t.TempDir()
	b := &broker{stateDir: filepath.Join(dir, "state"), home: filepath.Join(dir, "home")}
	b.env = environment(b.home)
	if err := os.MkdirAll(b.home, 0o700); err != nil {
		t.Fatal(err)
	}
	b.config = filepath.Join(dir, "berth.json")
	write(t, b.config, mustJSON(t, config))
	b.serve(t, "127.0.0.1:0")
	token, err := os.ReadFile(filepath.Join(b.stateDir, "api-token"))
	if err != nil {
		t.Fatal(err)
	}
	b.token = strings.TrimSpace(string(token))
	return b
}

func (b *broker) serve(t *testing.T, listen string) {
	t.Helper()
	b.process = startProcess(t, "berth serve", b.env, []string{berthPath(t), "serve", "--config", b.config, "--state-dir", b.stateDir, "--listen", listen})
	b.url = b.saw(t, `listens on (http://\S+)`)
}

// restart ends the broker as a crash would and starts it again at its address.
func (b *broker) restart(t *testing.T) {
	t.Helper()
	b.kill(t)
	b.serve(t, strings.TrimPrefix(b.url, "http://"))
}

// berth runs a command against the broker.
func (b *broker) berth(t *testing.T, env []string, args ...string) string {
	t.Helper()
	out, err := run(t, b.home, append(append([]string{}, b.env...), env...), append([]string{berthPath(t), "--state-dir", b.stateDir}, args...))
	if err != nil {
		t.Fatalf("berth %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// backend is what the operator's view says of one.
type backend struct {
	Name      string
	State     string
	RuntimeID *string `json:"RuntimeId"`
	PID       *int    `json:"Pid"`
	InFlight  int
	Abandoned int
	LastError *string
}

func (b *broker) backend(t *testing.T, name string) backend {
	t.Helper()
	var page struct{ Objects []backend }
	if err := json.Unmarshal([]byte(b.berth(t, nil, "backends", "--json")), &page); err != nil {
		t.Fatal(err)
	}
	for _, v := range page.Objects {
		if v.Name == name {
			return v
		}
	}
	t.Fatalf("berth backends does not show %s: %+v", name, page.Objects)
	return backend{}
}

// session is what the operator's view says of one.
type session struct {
	ClientName, ClientVersion, ProtocolVersion string
}

func (b *broker) sessions(t *testing.T) []session {
	t.Helper()
	var page struct{ Objects []session }
	if err := json.Unmarshal([]byte(b.berth(t, nil, "sessions", "--json")), &page); err != nil {
		t.Fatal(err)
	}
	return page.Objects
}

// child is server-everything as a stdio backend with Berth's own keys.
func child(t *testing.T, keys map[string]any) map[string]any {
	line := everything(t, "stdio")
	return map[string]any{"command": line[0], "args": line[1:], "berth": keys}
}

// upstream is server-everything as an HTTP backend.
func upstream(url string, keys map[string]any) map[string]any {
	return map[string]any{"type": "http", "url": url, "berth": keys}
}

// startEverything starts server-everything on HTTP; port 0 picks one.
func startEverything(t *testing.T, port string) (p *process, url string) {
	t.Helper()
	p = startProcess(t, "server-everything", append(environment(t.TempDir()), "PORT="+port), everything(t, "streamableHttp"))
	return p, "http://127.0.0.1:" + p.saw(t, `^listens on (\d+)`) + "/mcp"
}

// tokenNowhere looks that the token is in no file of a client.
func tokenNowhere(t *testing.T, b *broker, home string) {
	t.Helper()
	err := filepath.WalkDir(home, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) { // a client may still tidy up
			return nil
		}
		if strings.Contains(string(text), b.token) {
			t.Errorf("the token stands in %s", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
