// Package catalogs captures what public MCP servers list, for the tests of the
// catalog (broker/catalog/catalogtest).
//
// It is run by `make catalogs`, which installs the servers of package.json and
// sets BERTH_CATALOGS; in `make test` it is skipped. A server runs in an empty
// directory with an environment of its own, and is asked for its list only.
package catalogs

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var update = flag.Bool("update", false, "write the lists")

// limit bounds how long one server may take from its start to its last page.
const limit = 60 * time.Second

// servers is how each is started; @ is its directory under node_modules, $ the
// empty directory that it runs in.
var servers = []struct {
	name, pkg, script string
	args              []string
}{
	{"chrome", "chrome-devtools-mcp", "build/src/bin/chrome-devtools-mcp.js", []string{"--no-usage-statistics"}},
	{"context7", "@upstash/context7-mcp", "dist/index.js", nil},
	{"everything", "@modelcontextprotocol/server-everything", "dist/index.js", []string{"stdio"}},
	{"fs", "@modelcontextprotocol/server-filesystem", "dist/index.js", []string{"$"}},
	{"git", "@cyanheads/git-mcp-server", "dist/index.js", nil},
	{"github", "@modelcontextprotocol/server-github", "dist/index.js", nil},
	{"kubernetes", "mcp-server-kubernetes", "dist/index.js", nil},
	{"memory", "@modelcontextprotocol/server-memory", "dist/index.js", nil},
	{"playwright", "@playwright/mcp", "cli.js", nil},
	{"thinking", "@modelcontextprotocol/server-sequential-thinking", "dist/index.js", nil},
}

func TestTheCapturedListsAreWhatTheServersList(t *testing.T) {
	if os.Getenv("BERTH_CATALOGS") == "" {
		t.Skip("it starts the public servers themselves, which npm has to install: make catalogs does, and runs it")
	}
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range servers {
		t.Run(s.name, func(t *testing.T) {
			home := t.TempDir()
			line := []string{"node", filepath.Join(root, ".catalogs", "node_modules", filepath.FromSlash(s.pkg), filepath.FromSlash(s.script))}
			for _, a := range s.args {
				line = append(line, strings.ReplaceAll(a, "$", home))
			}
			got := capture(t, home, line)
			for _, private := range []string{root, home} {
				if bytes.Contains(got, []byte(private)) {
					t.Fatalf("the list holds the path %s", private)
				}
			}
			path := filepath.Join(root, "broker", "catalog", "catalogtest", "lists", s.name+".json")
			if *update {
				if err := os.WriteFile(path, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%s is not what the server lists (run make catalogs CATALOGS_FLAGS=-update and read the diff)", path)
			}
		})
	}
}

// capture starts a server and gives its list: an array, one tool a line, each
// entry compact and otherwise as it came.
func capture(t *testing.T, home string, line []string) []byte {
	t.Helper()
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Dir = home
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + home, "NO_COLOR=1"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = 5 * time.Second
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
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
	kill := func() {
		if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != nil && err != syscall.ESRCH {
			t.Errorf("end %s: %v", line[1], err)
		}
	}
	timer := time.AfterFunc(limit, kill)
	defer func() {
		timer.Stop()
		kill()
		_ = cmd.Wait() // it was killed
		if t.Failed() {
			t.Logf("stderr:\n%s", stderr.String())
		}
	}()
	c := &conn{in: in, out: bufio.NewReaderSize(out, 1<<20)}
	if _, err := c.call("initialize", `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"berth-catalogs","version":"1"}}`); err != nil {
		t.Fatal(err)
	}
	if err := c.write(`{"jsonrpc":"2.0","method":"notifications/initialized"}`); err != nil {
		t.Fatal(err)
	}
	var list bytes.Buffer
	cursor, sep := "", "[\n"
	for {
		result, err := c.call("tools/list", `{`+cursor+`}`)
		if err != nil {
			t.Fatal(err)
		}
		var page struct {
			Tools      []json.RawMessage
			NextCursor string
		}
		if err := json.Unmarshal(result, &page); err != nil {
			t.Fatal(err)
		}
		for _, tool := range page.Tools {
			list.WriteString(sep)
			sep = ",\n"
			if err := json.Compact(&list, tool); err != nil {
				t.Fatal(err)
			}
		}
		if page.NextCursor == "" {
			break
		}
		cursor = fmt.Sprintf(`"cursor":%q`, page.NextCursor)
	}
	list.WriteString("\n]\n")
	return list.Bytes()
}

// conn speaks one request at a time.
type conn struct {
	in  io.Writer
	out *bufio.Reader
	id  int
}

func (c *conn) write(message string) error {
	_, err := io.WriteString(c.in, message+"\n")
	return err
}

// call sends a request and reads until its answer; what else comes is dropped.
func (c *conn) call(method, params string) (json.RawMessage, error) {
	c.id++
	if err := c.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, c.id, method, params)); err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	for {
		line, err := c.out.ReadBytes('\n')
		if err != nil {
			return nil, fmt.Errorf("%s: %w", method, err)
		}
		var answer struct {
			ID     *int
			Method string
			Result json.RawMessage
			Error  json.RawMessage
		}
		if json.Unmarshal(line, &answer) != nil || answer.ID == nil || *answer.ID != c.id || answer.Method != "" {
			continue
		}
		if answer.Error != nil {
			return nil, fmt.Errorf("%s: %s", method, answer.Error)
		}
		return answer.Result, nil
	}
}
