package real

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// npmServer is a stdio server from npm whose calls leave something on disk.
type npmServer struct {
	name string
	pkg  string
	// entry gives its arguments and environment; what it may touch is in dir.
	entry func(dir string) (args []string, env map[string]string)
	// calls are made in order on an empty dir; DIR in arguments stands for it.
	calls []toolCall
	// left is what a file below dir holds after the calls, by its path.
	left map[string]string
}

var npmServers = []npmServer{
	{
		name:  "filesystem",
		pkg:   "server-filesystem",
		entry: func(dir string) ([]string, map[string]string) { return []string{dir}, nil },
		calls: []toolCall{
			{tool: "list_allowed_directories", arguments: `{}`},
			{tool: "create_directory", arguments: `{"path":"DIR/a/b"}`},
			{tool: "write_file", arguments: `{"path":"DIR/a/one.txt","content":"first <line>\nsecond é 日本 😀\nthird\n"}`},
			{tool: "read_text_file", arguments: `{"path":"DIR/a/one.txt"}`},
			{tool: "read_text_file", arguments: `{"path":"DIR/a/one.txt","head":1}`},
			{tool: "read_file", arguments: `{"path":"DIR/a/one.txt","tail":1}`},
			{tool: "edit_file", arguments: `{"path":"DIR/a/one.txt","edits":[{"oldText":"third","newText":"3"}],"dryRun":true}`},
			{tool: "edit_file", arguments: `{"path":"DIR/a/one.txt","edits":[{"oldText":"third","newText":"3"}]}`},
			{tool: "edit_file", arguments: `{"path":"DIR/a/one.txt","edits":[{"oldText":"not there","newText":"x"}]}`, isError: true},
			{tool: "write_file", arguments: `{"path":"DIR/a/b/two.txt","content":"` + strings.Repeat("0123456789abcdef", 1<<14) + `"}`},
			{tool: "read_text_file", arguments: `{"path":"DIR/a/b/two.txt"}`},
			{tool: "write_file", arguments: `{"path":"DIR/dot.png","content":"no picture"}`},
			{tool: "read_media_file", arguments: `{"path":"DIR/dot.png"}`},
			{tool: "read_multiple_files", arguments: `{"paths":["DIR/a/one.txt","DIR/none.txt"]}`},
			{tool: "list_directory", arguments: `{"path":"DIR"}`},
			{tool: "list_directory_with_sizes", arguments: `{"path":"DIR/a","sortBy":"size"}`},
			{tool: "directory_tree", arguments: `{"path":"DIR"}`},
			{tool: "search_files", arguments: `{"path":"DIR","pattern":"**/*.txt"}`},
			{tool: "get_file_info", arguments: `{"path":"DIR/a/b/two.txt"}`},
			{tool: "move_file", arguments: `{"source":"DIR/a/b/two.txt","destination":"DIR/two.txt"}`},
			{tool: "move_file", arguments: `{"source":"DIR/a/b/two.txt","destination":"DIR/three.txt"}`, isError: true},
			{tool: "read_text_file", arguments: `{"path":"DIR/../outside.txt"}`, isError: true},
			{tool: "write_file", arguments: `{"path":"/outside.txt","content":"x"}`, isError: true},
			{tool: "read_text_file", arguments: `{"path":"DIR/a/one.txt","head":1,"tail":1}`, isError: true},
			{tool: "read_text_file", arguments: `{"path":7}`, isError: true, misfit: true},
			{tool: "write_file", arguments: `{"path":"DIR/half.txt"}`, isError: true, misfit: true},
		},
		left: map[string]string{
			"a/one.txt": "first <line>\nsecond é 日本 😀\n3\n",
			"two.txt":   strings.Repeat("0123456789abcdef", 1<<14),
			"dot.png":   "no picture",
		},
	},
	{
		name: "memory",
		pkg:  "server-memory",
		entry: func(dir string) ([]string, map[string]string) {
			return nil, map[string]string{"MEMORY_FILE_PATH": filepath.Join(dir, "memory.jsonl")}
		},
		calls: []toolCall{
			{tool: "read_graph", arguments: `{}`},
			{tool: "create_entities", arguments: `{"entities":[{"name":"Ada","entityType":"person","observations":["writes <notes>"]},{"name":"Engine","entityType":"machine","observations":[]}]}`},
			{tool: "create_entities", arguments: `{"entities":[{"name":"Ada","entityType":"person","observations":[]}]}`},
			{tool: "create_relations", arguments: `{"relations":[{"from":"Ada","to":"Engine","relationType":"programs"}]}`},
			{tool: "add_observations", arguments: `{"observations":[{"entityName":"Engine","contents":["brass","日本"]}]}`},
			{tool: "add_observations", arguments: `{"observations":[{"entityName":"Nobody","contents":["x"]}]}`, isError: true},
			{tool: "search_nodes", arguments: `{"query":"brass"}`},
			{tool: "open_nodes", arguments: `{"names":["Ada"]}`},
			{tool: "delete_observations", arguments: `{"deletions":[{"entityName":"Engine","observations":["brass"]}]}`},
			{tool: "delete_relations", arguments: `{"relations":[{"from":"Ada","to":"Engine","relationType":"programs"}]}`},
			{tool: "delete_entities", arguments: `{"entityNames":["Ada"]}`},
			{tool: "create_entities", arguments: `{"entities":"none"}`, isError: true, misfit: true},
			{tool: "read_graph", arguments: `{}`},
		},
		left: map[string]string{
			"memory.jsonl": `{"type":"entity","name":"Engine","entityType":"machine","observations":["日本"]}`,
		},
	},
}

// TestServersWithEffectsAreTheSameThroughBerth makes the same calls on the
// server itself and through Berth, each on an empty directory, and compares the
// answers and what is left on disk.
func TestServersWithEffectsAreTheSameThroughBerth(t *testing.T) {
	need(t)
	for _, s := range npmServers {
		t.Run(s.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "files")
			args, env := s.entry(dir)
			line := append([]string{"node", filepath.Join(modules(t), "@modelcontextprotocol", s.pkg, "dist", "index.js")}, args...)
			empty(t, dir)
			b := startBroker(t, map[string]any{s.name: map[string]any{"command": line[0], "args": line[1:], "env": env, "berth": whole()}})
			var vars []string
			for k, v := range env {
				vars = append(vars, k+"="+v)
			}
			direct := overStdio(t, "a child of the test", append(slices.Clone(b.env), vars...), line)
			bridge := []string{berthPath(t), "stdio", "--state-dir", b.stateDir}
			names, entries := direct.list()
			slices.Sort(names)
			for _, name := range names {
				if !slices.ContainsFunc(s.calls, func(c toolCall) bool { return c.tool == name }) {
					t.Errorf("the tool %s is called by no case", name)
				}
			}
			var script []toolCall
			for _, c := range s.calls {
				c.arguments = strings.ReplaceAll(c.arguments, "DIR", dir)
				script = append(script, c)
			}
			want := results(t, direct, "", script)
			s.sameFiles(t, dir, direct.name)
			for _, c := range []*client{
				overHTTP(t, "/mcp/"+s.name, b.url+"/mcp/"+s.name, b.token),
				overStdio(t, "berth stdio --profile "+s.name, b.env, append(slices.Clone(bridge), "--profile", s.name)),
			} {
				sameServer(t, direct, c)
				sameExactList(t, names, entries, c)
				for _, method := range []string{"resources/list", "resources/templates/list", "prompts/list"} {
					w, g := direct.request(method, map[string]any{}), c.request(method, map[string]any{})
					if !reflect.DeepEqual(steady(t, w), steady(t, g)) {
						t.Errorf("%s: %s gave %s, want %s", c.name, method, mustJSON(t, g), mustJSON(t, w))
					}
				}
				empty(t, dir)
				sameResults(t, script, want, results(t, c, "", script), c, false)
				s.sameFiles(t, dir, c.name)
			}
			for _, c := range []*client{
				overHTTP(t, "/mcp", b.url+"/mcp", b.token),
				overStdio(t, "berth stdio", b.env, bridge),
			} {
				sameMergedList(t, s.name, names, entries, c)
				empty(t, dir)
				sameResults(t, script, want, results(t, c, s.name+"__", script), c, true)
				s.sameFiles(t, dir, c.name)
			}
		})
	}
}

// empty makes dir anew: the servers hold nothing of it but its path.
func empty(t *testing.T, dir string) {
	t.Helper()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
}

func (s npmServer) sameFiles(t *testing.T, dir, who string) {
	t.Helper()
	got := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		got[filepath.ToSlash(rel)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, s.left) {
		t.Errorf("%s left %.2000s", who, mustJSON(t, json.RawMessage(mustJSON(t, got))))
	}
}
