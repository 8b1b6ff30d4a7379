package install

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPlanKnowsWhereEachClientLooks(t *testing.T) {
	there := func(names ...string) func(string) bool {
		return func(file string) bool {
			for _, n := range names {
				if file == n {
					return true
				}
			}
			return false
		}
	}
	tests := []struct {
		name, client string
		options      Options
		file         string
		snippet      []string
	}{
		{"cursor of the user", "cursor", Options{Home: "/home/ada", BerthPath: "/bin/berth", StateDir: "/s"}, "/home/ada/.cursor/mcp.json",
			[]string{`"mcpServers"`, `"type": "stdio"`, `"command": "/bin/berth"`, `"--state-dir"`}},
		{"cursor over http", "cursor", Options{Home: "/home/ada", Via: ViaHTTP, URL: "http://127.0.0.1:7420/mcp"}, "/home/ada/.cursor/mcp.json",
			[]string{`"url": "http://127.0.0.1:7420/mcp"`, `"Authorization": "Bearer ${env:BERTH_TOKEN}"`}},
		{"cursor in a project", "cursor", Options{Scope: ScopeProject, ProjectDir: "/src"}, "/src/.cursor/mcp.json", nil},
		{"gemini of the user", "gemini", Options{Home: "/home/ada"}, "/home/ada/.gemini/settings.json", []string{`"command": "berth"`}},
		{"gemini over http", "gemini", Options{Home: "/home/ada", Via: ViaHTTP, URL: "http://h/mcp", TokenEnv: "T"}, "/home/ada/.gemini/settings.json",
			[]string{`"httpUrl": "http://h/mcp"`, `"Authorization": "Bearer ${T}"`}},
		{"gemini in a project", "gemini", Options{Scope: ScopeProject, ProjectDir: "/src"}, "/src/.gemini/settings.json", nil},
		{"opencode of the user", "opencode", Options{Home: "/home/ada"}, "/home/ada/.config/opencode/opencode.json",
			[]string{`"mcp"`, `"type": "local"`, "\"command\": [\n        \"berth\",\n        \"stdio\"\n      ]"}},
		{"opencode over http", "opencode", Options{Home: "/home/ada", ConfigHome: "/cfg", Via: ViaHTTP, URL: "http://h/mcp"}, "/cfg/opencode/opencode.json",
			[]string{`"type": "remote"`, `"Authorization": "Bearer {env:BERTH_TOKEN}"`}},
		{"opencode with comments", "opencode", Options{Home: "/home/ada", Exists: there("/home/ada/.config/opencode/opencode.jsonc")}, "/home/ada/.config/opencode/opencode.jsonc", nil},
		{"opencode with both", "opencode", Options{Home: "/home/ada", Exists: there("/home/ada/.config/opencode/opencode.json", "/home/ada/.config/opencode/opencode.jsonc")}, "/home/ada/.config/opencode/opencode.json", nil},
		{"opencode in a project", "opencode", Options{Scope: ScopeProject, ProjectDir: "/src", OpenCodeConfig: "/other.json"}, "/src/opencode.json", nil},
		{"opencode elsewhere", "opencode", Options{Home: "/home/ada", OpenCodeConfig: "/other.json"}, "/other.json", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := plan(t, tt.client, tt.options)
			if r.File != tt.file {
				t.Errorf("file %s, want %s", r.File, tt.file)
			}
			for _, part := range tt.snippet {
				if !strings.Contains(r.Snippet, part) {
					t.Errorf("%q is not in\n%s", part, r.Snippet)
				}
			}
		})
	}
}

// What a person wrote stays, comments and their places included.
func TestCommentsAndUnknownContentStay(t *testing.T) {
	bridge, remote := Options{Home: "/h", BerthPath: "/b"}, Options{Home: "/h", Via: ViaHTTP, URL: "http://h/mcp"}
	tests := []struct {
		name, client string
		options      Options
		old, new     string
	}{
		{"a comment behind the last member", "gemini", bridge,
			"{\n  // the theme\n  \"theme\": \"dark\" // of the night\n}\n",
			"{\n  // the theme\n  \"theme\": \"dark\", // of the night\n  \"mcpServers\": {\n    \"berth\": {\n      \"command\": \"/b\",\n      \"args\": [\n        \"stdio\"\n      ]\n    }\n  }\n}\n"},
		{"a trailing comma", "opencode", bridge,
			"{\n  \"mcp\": {\n    \"other\": {\"type\": \"local\", \"command\": [\"x\"]}, // mine\n  },\n}\n",
			"{\n  \"mcp\": {\n    \"other\": {\"type\": \"local\", \"command\": [\"x\"]}, // mine\n    \"berth\": {\n      \"type\": \"local\",\n      \"command\": [\n        \"/b\",\n        \"stdio\"\n      ]\n    },\n  },\n}\n"},
		{"nothing but a comment", "cursor", bridge,
			"{\n  // nothing yet\n}\n",
			"{\n  // nothing yet\n\n  \"mcpServers\": {\n    \"berth\": {\n      \"type\": \"stdio\",\n      \"command\": \"/b\",\n      \"args\": [\n        \"stdio\"\n      ]\n    }\n  }\n}\n"},
		{"an entry of the other way, and what else it holds", "opencode", remote,
			"{\n  \"mcp\": {\n    /* ours */\n    \"berth\": {\"type\": \"local\", \"command\": [\"berth\", \"stdio\"], \"enabled\": false, \"timeout\": 9}\n  }\n}",
			"{\n  \"mcp\": {\n    /* ours */\n    \"berth\": {\n      \"type\": \"remote\",\n      \"enabled\": false,\n      \"timeout\": 9,\n      \"url\": \"http://h/mcp\",\n      \"headers\": {\n        \"Authorization\": \"Bearer {env:BERTH_TOKEN}\"\n      },\n      \"oauth\": false\n    }\n  }\n}"},
		{"back to the bridge", "opencode", bridge, `{"mcp": {"berth": {"type": "remote", "url": "x", "oauth": false, "headers": {}}}}`,
			`{"mcp": {"berth": {"type": "local", "command": ["/b", "stdio"]}}}`},
		{"the second form of opencode", "opencode", bridge,
			"{\n  \"mcp\": {\n    \"servers\": {\n      \"x\": {\"type\": \"local\", \"command\": [\"x\"]}\n    }\n  }\n}",
			"{\n  \"mcp\": {\n    \"servers\": {\n      \"x\": {\"type\": \"local\", \"command\": [\"x\"]},\n      \"berth\": {\n        \"type\": \"local\",\n        \"command\": [\n          \"/b\",\n          \"stdio\"\n        ]\n      }\n    }\n  }\n}"},
		{"a text that looks like a comment", "gemini", bridge,
			"{\n  \"url\": \"http://x/*y*/ \\\"//\\\" ,}\"\n}",
			"{\n  \"url\": \"http://x/*y*/ \\\"//\\\" ,}\",\n  \"mcpServers\": {\n    \"berth\": {\n      \"command\": \"/b\",\n      \"args\": [\n        \"stdio\"\n      ]\n    }\n  }\n}"},
		{"a comment to the end of one line", "cursor", bridge, "{ \"a\": 1, // c\n}", "{ \"a\": 1, // c\n\"mcpServers\": {\"berth\": {\"type\": \"stdio\", \"command\": \"/b\", \"args\": [\"stdio\"]}},\n}"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := plan(t, tt.client, tt.options)
			r.Force = strings.Contains(tt.old, `"url": "x"`) // of another broker, as far as anybody can see
			r.File = filepath.Join(t.TempDir(), "file.json")
			if err := os.WriteFile(r.File, []byte(tt.old), 0o600); err != nil {
				t.Fatal(err)
			}
			if c, err := r.Apply(); err != nil || !c.Changed {
				t.Fatalf("%+v %v", c, err)
			}
			text, err := os.ReadFile(r.File)
			if err != nil || string(text) != tt.new {
				t.Fatalf("%v\ngot\n%s\nwant\n%s", err, text, tt.new)
			}
			if c, err := r.Apply(); err != nil || c.Changed {
				t.Fatalf("the second time: %+v %v", c, err)
			}
			if info, err := os.Stat(r.File); err != nil || info.Mode().Perm() != 0o600 {
				t.Fatalf("%v %v", info, err)
			}
		})
	}
}

func TestWhatCannotBeChangedWithoutLossIsRefused(t *testing.T) {
	bridge, remote := Options{Home: "/h", BerthPath: "/b"}, Options{Home: "/h", Via: ViaHTTP, URL: "http://h/mcp"}
	tests := []struct {
		name, client string
		options      Options
		old, says    string
	}{
		{"a comment in our own entry", "gemini", bridge, "{\"mcpServers\": {\"berth\": {\n // why\n \"command\": \"x\"}}}", "comments"},
		{"an environment beside a url", "opencode", remote, `{"mcp": {"berth": {"type": "local", "command": ["x"], "environment": {"A": "b"}}}}`, "environment"},
		{"oauth beside a command", "opencode", bridge, `{"mcp": {"berth": {"type": "remote", "url": "x", "oauth": {}}}}`, "oauth"},
		{"a comment that does not end", "cursor", bridge, `{"a": 1 /* }`, "JSON"},
		{"servers that are a list", "opencode", bridge, `{"mcp": []}`, "mcp"},
		{"a key twice", "cursor", bridge, `{"mcpServers": {"a": {}, "a": {}}}`, "duplicate"},
		{"two commas", "gemini", bridge, `{"a": 1,,}`, "JSON"},
		{"a comment for a client that reads none", "claude", bridge, "{ // c\n}", "JSON"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := plan(t, tt.client, tt.options)
			r.File = filepath.Join(t.TempDir(), "file.json")
			if err := os.WriteFile(r.File, []byte(tt.old), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := r.Apply(); err == nil || !strings.Contains(err.Error(), tt.says) || !strings.Contains(err.Error(), "nothing was written") {
				t.Fatalf("%v", err)
			}
			if text, err := os.ReadFile(r.File); err != nil || string(text) != tt.old {
				t.Fatalf("the file is another: %s %v", text, err)
			}
		})
	}
}

// Whatever a file holds, an edit is refused or keeps every byte of it but
// Berth's own entry, and has nothing to do the second time.
func FuzzCommentedEdit(f *testing.F) {
	for _, s := range []string{"", "{}", "{ // c\n}", "{\"a\":1,}", "{\"a\":1 /*x*/ , // y\n}", `{"mcp":{"servers":{}}}`, `{"mcp":{"x":{"type":"local"},},}`,
		"{\"mcp\":{\"berth\":{\"type\":\"remote\",\"url\":\"x\"}}} // end", `{"a":"//\"","b":[1,2,],}`, "/*", "{\"a\":1}//"} {
		f.Add([]byte(s))
	}
	r, err := Plan("opencode", Options{Home: "/h", BerthPath: "/b"})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, old []byte) {
		out, err := r.edit(old)
		if err != nil {
			return
		}
		again, err := r.edit(out)
		if err != nil || !bytes.Equal(again, out) {
			t.Fatalf("the second time: %v\n%s\nbecame\n%s", err, out, again)
		}
		if comments := bytes.Count(old, []byte("//")) + bytes.Count(old, []byte("/*")); bytes.Count(out, []byte("//"))+bytes.Count(out, []byte("/*")) < comments {
			t.Fatalf("a comment is lost:\n%s\nbecame\n%s", old, out)
		}
	})
}

// TestSomebodysOwnEntryIsNotReplacedUnasked: an entry named berth that starts, or
// connects to, something else.
func TestSomebodysOwnEntryIsNotReplacedUnasked(t *testing.T) {
	secret := "ghp_0123456789abcdefghijklmnopqrstuvwxyzA"
	for _, client := range Clients() {
		for name, tt := range map[string]struct {
			options Options
			entry   Entry
			foreign bool
		}{
			"another program":            {bridge, Entry{Command: []string{"node", "mine.js", "--token=" + secret}}, true},
			"another way of berth":       {bridge, Entry{Command: []string{"berth", "serve"}}, true},
			"another address":            {overHTTP, Entry{URL: "http://example.com/mcp"}, true},
			"an address before a bridge": {bridge, Entry{URL: "http://127.0.0.1:7420/mcp"}, true},
			"another berth":              {bridge, Entry{Command: []string{"/old/berth", "stdio", "--profile", "full"}}, false},
			"this program, once renamed": {Options{BerthPath: "/bin/b2"}, Entry{Command: []string{"/bin/b2", "stdio"}}, false},
			"another profile over HTTP":  {overHTTP, Entry{URL: "http://127.0.0.1:7420/mcp/full"}, false},
			"a bridge before an address": {overHTTP, Entry{Command: []string{"berth", "stdio"}}, false},
		} {
			t.Run(client+", "+name, func(t *testing.T) {
				o := tt.options
				o.Home = t.TempDir()
				r := plan(t, client, o)
				old := fileWith(client, tt.entry)
				write(t, r.File, old, 0o600)
				_, err := r.Apply()
				var refused *ForeignError
				if errors.As(err, &refused) != tt.foreign || !tt.foreign && err != nil {
					t.Fatalf("%v", err)
				}
				if !tt.foreign {
					return
				}
				if read(t, r.File) != old || refused.Has == refused.Wanted || strings.Contains(refused.Has+err.Error(), secret) {
					t.Fatalf("%+v, and the file says\n%s", refused, read(t, r.File))
				}
				r.Force = true
				apply(t, r, true)
				apply(t, r, false)
			})
		}
	}
}

// fileWith is a client's file with an entry named berth.
func fileWith(client string, e Entry) string {
	words := make([]string, len(e.Command))
	for i, w := range e.Command {
		words[i] = string(jsonText(w))
	}
	list := strings.Join(words, ", ")
	command, args := "", ""
	if len(words) > 0 {
		command, args = words[0], strings.Join(words[1:], ", ")
	}
	switch {
	case client == "codex" && e.URL != "":
		return "[mcp_servers.berth]\nurl = \"" + e.URL + "\"\n"
	case client == "codex":
		return "[mcp_servers.berth]\ncommand = " + command + "\nargs = [" + args + "]\n"
	case client == "opencode" && e.URL != "":
		return `{"mcp": {"berth": {"type": "remote", "url": "` + e.URL + `"}}}`
	case client == "opencode":
		return `{"mcp": {"berth": {"type": "local", "command": [` + list + `]}}}`
	case e.URL != "":
		key := map[bool]string{true: "httpUrl", false: "url"}[client == "gemini"]
		return `{"mcpServers": {"berth": {"` + key + `": "` + e.URL + `"}}}`
	}
	return `{"mcpServers": {"berth": {"command": ` + command + `, "args": [` + args + `]}}}`
}
