package install

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
)

func plan(t *testing.T, client string, o Options) Registration {
	t.Helper()
	r, err := Plan(client, o)
	if err != nil {
		t.Fatalf("Plan(%s): %v", client, err)
	}
	return r
}

func TestPlanSaysWhatAPersonCanRun(t *testing.T) {
	home := filepath.FromSlash("/home/ada")
	tests := []struct {
		name, client  string
		options       Options
		command, file string
		snippet       []string
	}{
		{"claude over the bridge", "claude", Options{Home: home, BerthPath: "/opt/my tools/berth", StateDir: "/var/lib/berth"},
			`claude mcp add --scope user berth -- '/opt/my tools/berth' stdio --state-dir /var/lib/berth`, "/home/ada/.claude.json",
			[]string{`"command": "/opt/my tools/berth"`, `"stdio",`, `"--state-dir"`}},
		{"claude over http", "claude", Options{Home: home, Via: ViaHTTP, URL: "http://127.0.0.1:7420/mcp"},
			`claude mcp add --transport http --scope user berth http://127.0.0.1:7420/mcp --header 'Authorization: Bearer ${BERTH_TOKEN}'`, "/home/ada/.claude.json",
			[]string{`"type": "http"`, `"Authorization": "Bearer ${BERTH_TOKEN}"`}},
		{"claude in a project", "claude", Options{Scope: ScopeProject, ProjectDir: "/src/app"},
			`claude mcp add --scope project berth -- berth stdio`, "/src/app/.mcp.json", []string{`"command": "berth"`}},
		{"claude with its own directory", "claude", Options{Home: home, ClaudeConfigDir: "/etc/claude"},
			`claude mcp add --scope user berth -- berth stdio`, "/etc/claude/.claude.json", nil},
		{"codex over the bridge", "codex", Options{Home: home},
			`codex mcp add berth -- berth stdio`, "/home/ada/.codex/config.toml", []string{"[mcp_servers.berth]\n", "command = \"berth\"\n", "args = [\"stdio\"]\n"}},
		{"codex over http", "codex", Options{Home: home, CodexHome: "/etc/codex", Via: ViaHTTP, URL: "http://127.0.0.1:7420/mcp", TokenEnv: "MY_TOKEN"},
			`codex mcp add berth --url http://127.0.0.1:7420/mcp --bearer-token-env-var MY_TOKEN`, "/etc/codex/config.toml", []string{"bearer_token_env_var = \"MY_TOKEN\"\n"}},
		{"claude with a profile over the bridge", "claude", Options{Home: home, Profile: "editor", StateDir: "/var/lib/berth"},
			`claude mcp add --scope user berth -- berth stdio --profile editor --state-dir /var/lib/berth`, "/home/ada/.claude.json", []string{`"--profile",`, `"editor",`}},
		{"claude with a profile over http", "claude", Options{Home: home, Profile: "full", Via: ViaHTTP, URL: "http://127.0.0.1:7420/mcp"},
			`claude mcp add --transport http --scope user berth http://127.0.0.1:7420/mcp/full --header 'Authorization: Bearer ${BERTH_TOKEN}'`, "/home/ada/.claude.json",
			[]string{`"url": "http://127.0.0.1:7420/mcp/full"`}},
		{"codex with a profile over the bridge", "codex", Options{Home: home, Profile: "a.b"},
			`codex mcp add berth -- berth stdio --profile a.b`, "/home/ada/.codex/config.toml", []string{`args = ["stdio", "--profile", "a.b"]`}},
		{"codex with a profile over http", "codex", Options{Home: home, Profile: "full", Via: ViaHTTP, URL: "http://h/mcp/"},
			`codex mcp add berth --url http://h/mcp/full --bearer-token-env-var BERTH_TOKEN`, "/home/ada/.codex/config.toml", []string{"url = \"http://h/mcp/full\"\n"}},
		{"codex in a project", "codex", Options{Scope: ScopeProject, ProjectDir: "/src/app"},
			"", "/src/app/.codex/config.toml", []string{"[mcp_servers.berth]\n"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := plan(t, tt.client, tt.options)
			if r.Command != tt.command {
				t.Errorf("command\n got %s\nwant %s", r.Command, tt.command)
			}
			if r.File != filepath.FromSlash(tt.file) {
				t.Errorf("file %s, want %s", r.File, tt.file)
			}
			for _, want := range append(tt.snippet, r.Snippet) {
				if want != r.Snippet && !strings.Contains(r.Snippet, want) {
					t.Errorf("the snippet lacks %q:\n%s", want, r.Snippet)
				}
			}
			text := r.Text()
			if !strings.Contains(text, tt.command) || !strings.Contains(text, r.File) || r.Snippet == "" {
				t.Errorf("the text is not complete:\n%s", text)
			}
			if strings.Contains(text, "Run:") != (tt.command != "") {
				t.Errorf("the text has a command to run, or has none, against the plan:\n%s", text)
			}
		})
	}
}

func TestPlanRefusesWhatItCannotRegister(t *testing.T) {
	home := filepath.FromSlash("/home/ada")
	tests := []struct {
		name, client string
		options      Options
		want         string
	}{
		{"a client that is not known", "emacs", Options{Home: home}, "claude, codex"},
		{"a scope that is not known", "claude", Options{Home: home, Scope: "local"}, "user and project"},
		{"no home", "claude", Options{}, "home directory"},
		{"no project", "claude", Options{Scope: ScopeProject}, "project directory"},
		{"a way that is not known", "claude", Options{Home: home, Via: "sse"}, "stdio and http"},
		{"no address", "claude", Options{Home: home, Via: ViaHTTP}, "http or https URL"},
		{"an address with a password", "codex", Options{Home: home, Via: ViaHTTP, URL: "http://a:hunter2@h/mcp"}, "without a user name"},
		{"a token in place of a variable", "codex", Options{Home: home, Via: ViaHTTP, URL: "http://h/mcp", TokenEnv: "a-b c"}, "environment variable"},
		{"a profile that is no name", "codex", Options{Home: home, Profile: "../api"}, "cannot name a profile"},
		{"a profile of dots", "codex", Options{Home: home, Profile: ".."}, "cannot name a profile"},
		{"a profile after a query", "codex", Options{Home: home, Profile: "full", Via: ViaHTTP, URL: "http://h/mcp?a=b"}, "without a query"},
		{"a path of two lines", "codex", Options{Home: home, BerthPath: "a\nb"}, "control character"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Plan(tt.client, tt.options)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v, want %q", err, tt.want)
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error shows a password: %v", err)
			}
		})
	}
}

var bridge = Options{BerthPath: "/bin/berth"}
var overHTTP = Options{Via: ViaHTTP, URL: "http://127.0.0.1:7420/mcp"}

func TestClaudeFileKeepsEverythingElse(t *testing.T) {
	tests := []struct {
		name     string
		options  Options
		old, new string
	}{
		{"a new file", bridge, "", `{
  "mcpServers": {
    "berth": {
      "type": "stdio",
      "command": "/bin/berth",
      "args": [
        "stdio"
      ]
    }
  }
}
`},
		{"an empty object", overHTTP, "{}\n", `{
  "mcpServers": {
    "berth": {
      "type": "http",
      "url": "http://127.0.0.1:7420/mcp",
      "headers": {
        "Authorization": "Bearer ${BERTH_TOKEN}"
      }
    }
  }
}
`},
		{"other keys, order and big numbers", bridge, "{\n\t\"z\": 12345678901234567890,\n\t\"mcpServers\": {\n\t\t\"other\": {\"command\": \"x\", \"n\": 1.0}\n\t},\n\t\"a\": \"\\u00e9<\"\n}",
			"{\n\t\"z\": 12345678901234567890,\n\t\"mcpServers\": {\n\t\t\"other\": {\"command\": \"x\", \"n\": 1.0},\n\t\t\"berth\": {\n\t\t\t\"type\": \"stdio\",\n\t\t\t\"command\": \"/bin/berth\",\n\t\t\t\"args\": [\n\t\t\t\t\"stdio\"\n\t\t\t]\n\t\t}\n\t},\n\t\"a\": \"\\u00e9<\"\n}"},
		{"one line", bridge, `{"mcpServers":{"other":{"command":"x"}},"b":[1, 2]}`,
			`{"mcpServers":{"other":{"command":"x"}, "berth": {"type": "stdio", "command": "/bin/berth", "args": ["stdio"]}},"b":[1, 2]}`},
		{"lines of Windows", bridge, "{\r\n  \"a\": 1\r\n}\r\n",
			"{\r\n  \"a\": 1,\r\n  \"mcpServers\": {\r\n    \"berth\": {\r\n      \"type\": \"stdio\",\r\n      \"command\": \"/bin/berth\",\r\n      \"args\": [\r\n        \"stdio\"\r\n      ]\r\n    }\r\n  }\r\n}\r\n"},
		{"an entry of ours with a key of the user", overHTTP, `{
  "mcpServers": {
    "berth": {
      "timeout": 600000,
      "command": "/old/berth",
      "args": ["stdio"],
      "headers": { "X-Team": "a", "authorization": "Bearer literal" }
    },
    "last": {}
  }
}`, `{
  "mcpServers": {
    "berth": {
      "timeout": 600000,
      "headers": {
        "X-Team": "a",
        "Authorization": "Bearer ${BERTH_TOKEN}"
      },
      "type": "http",
      "url": "http://127.0.0.1:7420/mcp"
    },
    "last": {}
  }
}`},
		{"a key with an escaped quote", bridge, "{\n  \"a\\\\\\\"b\": 1\n}", "{\n  \"a\\\\\\\"b\": 1,\n  \"mcpServers\": {\n    \"berth\": {\n      \"type\": \"stdio\",\n      \"command\": \"/bin/berth\",\n      \"args\": [\n        \"stdio\"\n      ]\n    }\n  }\n}"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := tt.options
			o.Scope, o.ProjectDir = ScopeProject, t.TempDir()
			r := plan(t, "claude", o)
			if tt.old != "" {
				write(t, r.File, tt.old, 0o640)
			}
			apply(t, r, true)
			if got := read(t, r.File); got != tt.new {
				t.Errorf("got\n%s\nwant\n%s", got, tt.new)
			}
			apply(t, r, false)
		})
	}
}

func TestCodexFileKeepsEverythingElse(t *testing.T) {
	table := "[mcp_servers.berth]\ncommand = \"/bin/berth\"\nargs = [\"stdio\"]\n"
	tests := []struct {
		name     string
		options  Options
		old, new string
	}{
		{"a new file", bridge, "", table},
		{"no line break at the end", bridge, "# mine\nmodel = \"x\" # why", "# mine\nmodel = \"x\" # why\n\n" + table},
		{"other tables and comments", bridge, "model = \"x\"\n\n[mcp_servers.other] # o\ncommand = \"y\"\n\n# the end\n",
			"model = \"x\"\n\n[mcp_servers.other] # o\ncommand = \"y\"\n\n# the end\n\n" + table},
		{"our table, replaced in its place", overHTTP,
			"a = 1\n\n[mcp_servers.berth] # berth\n# mine\ncommand = \"/old/berth\"\nargs = [\n  \"stdio\", # bridge\n  \"]\",\n]\ntool_timeout_sec = 200 # long\n\n[mcp_servers.berth.tools.x]\napproval_mode = \"auto\"\n\n# about z\n[z]\ncommand = \"z\"\n",
			"a = 1\n\n[mcp_servers.berth] # berth\nurl = \"http://127.0.0.1:7420/mcp\"\nbearer_token_env_var = \"BERTH_TOKEN\"\n# mine\ntool_timeout_sec = 200 # long\n\n[mcp_servers.berth.tools.x]\napproval_mode = \"auto\"\n\n# about z\n[z]\ncommand = \"z\"\n"},
		{"our table at the end without a line break", bridge, "[ mcp_servers . \"berth\" ]\ncommand = \"\"\"\nold\n\"\"\"", "[ mcp_servers . \"berth\" ]\ncommand = \"/bin/berth\"\nargs = [\"stdio\"]\n"},
		{"an empty table of ours at the end", bridge, "[mcp_servers.berth]", table},
		{"lines of Windows", bridge, "a = 1\r\n", "a = 1\r\n\r\n" + strings.ReplaceAll(table, "\n", "\r\n")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := tt.options
			o.Home = t.TempDir()
			r := plan(t, "codex", o)
			r.Force = strings.Contains(tt.old, `"""`) // an entry that says nothing of Berth
			if tt.old != "" {
				write(t, r.File, tt.old, 0o600)
			}
			apply(t, r, true)
			if got := read(t, r.File); got != tt.new {
				t.Errorf("got\n%s\nwant\n%s", got, tt.new)
			}
			apply(t, r, false)
		})
	}
}

func TestApplyRefusesAndWritesNothing(t *testing.T) {
	tests := []struct {
		name, client string
		options      Options
		old, want    string
	}{
		{"JSON that does not parse", "claude", bridge, `{"mcpServers": {`, "JSON"},
		{"JSON with comments", "claude", bridge, "{ // mine\n}", "JSON"},
		{"JSON that is a list", "claude", bridge, `[]`, "not an object"},
		{"JSON with more behind it", "claude", bridge, `{} {}`, "more text"},
		{"a key twice", "claude", bridge, `{"mcpServers": {"a": {}, "a": {}}}`, "duplicate"},
		{"servers that are a list", "claude", bridge, `{"mcpServers": []}`, "mcpServers"},
		{"headers that are a list", "claude", overHTTP, `{"mcpServers": {"berth": {"headers": []}}}`, "headers"},
		{"TOML that does not parse", "codex", bridge, "a = \n", "TOML"},
		{"TOML with a table twice", "codex", bridge, "[a]\n[a]\n", "TOML"},
		{"servers in one line", "codex", bridge, "mcp_servers = { x = { command = \"y\" } }\n", "would not parse"},
		{"our entry in one line", "codex", bridge, "[mcp_servers]\nberth = { command = \"y\" }\n", "by hand"},
		{"our entry as dotted keys", "codex", bridge, "mcp_servers.berth.command = \"y\"\n", "by hand"},
		{"our entry as a list of tables", "codex", bridge, "[[mcp_servers.berth]]\ncommand = \"y\"\n", "not a table"},
		{"servers that are text", "codex", bridge, "mcp_servers = 1\n", "not a table"},
		{"keys of the bridge with http", "codex", overHTTP, "[mcp_servers.berth]\ncommand = \"y\"\n[mcp_servers.berth.env]\nA = \"1\"\n", "does not go with url"},
		{"keys of http with the bridge", "codex", bridge, "[mcp_servers.berth]\nurl = \"http://h\"\nhttp_headers = { A = \"1\" }\n", "does not go with command"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := tt.options
			o.Home = t.TempDir()
			r := plan(t, tt.client, o)
			write(t, r.File, tt.old, 0o600)
			change, err := r.Apply()
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if change.Changed {
				t.Error("a refused change was reported as made")
			}
			if got := read(t, r.File); got != tt.old {
				t.Errorf("the file was changed:\n%s", got)
			}
			entries, err := os.ReadDir(filepath.Dir(r.File))
			if err != nil || len(entries) != 1 {
				t.Errorf("something was left beside the file: %v %v", entries, err)
			}
		})
	}
}

func TestApplyKeepsModeAndSymbolicLink(t *testing.T) {
	home := t.TempDir()
	real := filepath.Join(home, "dotfiles", "codex.toml")
	write(t, real, "a = 1\n", 0o640)
	o := bridge
	o.Home = home
	r := plan(t, "codex", o)
	if err := os.MkdirAll(filepath.Dir(r.File), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(real, r.File); err != nil {
		t.Fatal(err)
	}
	apply(t, r, true)
	info, err := os.Lstat(r.File)
	if err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is gone: %v %v", info, err)
	}
	if info, err = os.Stat(real); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("mode %v, want 0640 (%v)", info.Mode(), err)
	}
	if got := read(t, real); !strings.Contains(got, tomlHeader) {
		t.Errorf("the target was not changed:\n%s", got)
	}
}

func TestNewFilesOfTheUserArePrivate(t *testing.T) {
	for _, client := range Clients() {
		o := bridge
		o.Home = t.TempDir()
		r := plan(t, client, o)
		change := apply(t, r, true)
		info, err := os.Stat(r.File)
		if err != nil || info.Mode().Perm() != 0o600 || !change.Created {
			t.Errorf("%s: mode %v created %v (%v)", client, info.Mode(), change.Created, err)
		}
	}
}

func TestApplyRefusesAFileThatChangedMeanwhile(t *testing.T) {
	o := bridge
	o.Home = t.TempDir()
	r := plan(t, "codex", o)
	write(t, r.File, "a = 1\n", 0o600)
	edit := r.edit
	r.edit = func(old []byte) ([]byte, error) {
		write(t, r.File, "a = 2\n", 0o600)
		return edit(old)
	}
	if _, err := r.Apply(); err == nil || !strings.Contains(err.Error(), "meanwhile") {
		t.Errorf("got %v", err)
	}
	if got := read(t, r.File); got != "a = 2\n" {
		t.Errorf("the other program's change is lost: %q", got)
	}
}

func FuzzEditJSON(f *testing.F) {
	for _, s := range []string{"", "{}", `{"mcpServers":{}}`, "{\n \"a\":1}", `{"mcpServers":{"berth":{"headers":{"authorization":"x"}}}}`, "[]", "{\"a\":\"}\"}"} {
		f.Add(s, true)
		f.Add(s, false)
	}
	f.Fuzz(func(t *testing.T, old string, http bool) {
		r := plan(t, "claude", pick(http, t))
		out, err := r.edit([]byte(old))
		if err != nil {
			return
		}
		again, err := r.edit(out)
		if err != nil || string(again) != string(out) {
			t.Errorf("a second edit of %q gives %q (%v)", out, again, err)
		}
	})
}

func FuzzEditTOML(f *testing.F) {
	for _, s := range []string{"", "a=1", "[mcp_servers.berth]\ncommand='x'", "[mcp_servers]\n", "[mcp_servers.berth]\nargs=[\n'a',#c\n]\n[z]\n", "[mcp_servers.berth.env]\nA='b'\n"} {
		f.Add(s, true)
		f.Add(s, false)
	}
	f.Fuzz(func(t *testing.T, old string, http bool) {
		r := plan(t, "codex", pick(http, t))
		out, err := r.edit([]byte(old))
		if err != nil {
			return
		}
		var decoded map[string]any
		if err := toml.Unmarshal(out, &decoded); err != nil {
			t.Fatalf("%q does not parse: %v", out, err)
		}
		again, err := r.edit(out)
		if err != nil || string(again) != string(out) {
			t.Errorf("a second edit of %q gives %q (%v)", out, again, err)
		}
	})
}

func pick(http bool, t *testing.T) Options {
	o := bridge
	if http {
		o = overHTTP
	}
	o.Home = filepath.FromSlash("/home/ada")
	return o
}

func apply(t *testing.T, r Registration, changed bool) Change {
	t.Helper()
	change, err := r.Apply()
	if err != nil {
		t.Fatalf("Apply: %v", err)
	}
	if change.Changed != changed {
		t.Fatalf("Apply changed the file: %v, want %v", change.Changed, changed)
	}
	return change
}

func write(t *testing.T, file, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, mode); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
