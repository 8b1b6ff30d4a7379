// Package install makes the registration of Berth in an MCP client: the text
// that a person can use and the change of the client's configuration file. It
// also makes the file by which a service manager starts the broker
// ([PlanService]); one that was edited by hand is not replaced.
//
// It owns what it knows of the clients' files (Claude Code's `.mcp.json` and
// `.claude.json`, Codex's `config.toml`, Cursor's `mcp.json`, Gemini CLI's
// `settings.json`, OpenCode's `opencode.json`) and changes in them only the entry
// named berth: every other byte that means something stays as it is, comments
// and unknown keys included. It refuses a file that does not parse, or that
// holds our entry in a form it cannot change without loss, and without Force an
// entry of our name that Berth did not make; then nothing is written.
// No token is ever written, only the name of the variable that holds it.
//
// Plan is pure. Apply replaces the file by a rename, so that a reader sees the
// old or the new text; a file that changed in between is refused. Nothing here
// starts a goroutine; two Applies of one file at once are the caller's to
// avoid.
package install

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// entryName is the name that Berth has in a client.
const entryName = "berth"

// Ways for a client to reach the broker.
const (
	ViaStdio = "stdio" // the client starts `berth stdio`, which finds address and token itself
	ViaHTTP  = "http"  // the client connects; the token comes from an environment variable
)

// Where a registration applies.
const (
	ScopeUser    = "user"    // every project of the user
	ScopeProject = "project" // one directory, in a file that others may share
)

// DefaultTokenEnv is the variable that holds the token for ViaHTTP.
const DefaultTokenEnv = "BERTH_TOKEN"

// clients are the clients that Plan knows, and how each is told of a server.
var clients = []struct {
	name string
	plan func(*Registration, Options)
}{
	{"claude", (*Registration).claude},
	{"codex", (*Registration).codex},
	{"cursor", (*Registration).cursor},
	{"gemini", (*Registration).gemini},
	{"opencode", (*Registration).opencode},
}

// Clients lists the clients that Plan knows.
func Clients() []string {
	names := make([]string, 0, len(clients))
	for _, c := range clients {
		names = append(names, c.name)
	}
	return names
}

// Options say what to register. Home is required for ScopeUser, ProjectDir
// for ScopeProject, URL for ViaHTTP.
type Options struct {
	Via   string // default ViaStdio
	Scope string // default ScopeUser

	// Profile is what the client is to be served; empty: what an endpoint without
	// one serves.
	Profile string

	URL      string // of the broker's MCP endpoint, without a profile
	TokenEnv string // default DefaultTokenEnv

	BerthPath string // of the program; default "berth", found on PATH
	// StateDir is passed on when it is not empty. Clients start `berth stdio`
	// with an environment of their own, so a directory that was chosen by a
	// variable has to be named here.
	StateDir string

	Home       string // the user's home directory
	ProjectDir string
	// ClaudeConfigDir and CodexHome are the clients' own overrides
	// (CLAUDE_CONFIG_DIR and CODEX_HOME); empty when not set.
	ClaudeConfigDir string
	CodexHome       string
	// ConfigHome is XDG_CONFIG_HOME and OpenCodeConfig OPENCODE_CONFIG, where
	// OpenCode looks; empty when not set.
	ConfigHome     string
	OpenCodeConfig string
	// Exists says which of several possible files of a client is there; nil:
	// none is.
	Exists func(file string) bool
}

// Registration is a registration that was planned and not yet applied.
type Registration struct {
	Client  string
	Via     string
	Scope   string
	Command string // one shell line that does the same with the client's own program; empty when it cannot
	File    string // what Apply changes
	Snippet string // what Apply puts there, in the file's own format
	Notes   []string
	// Force has Apply replace an entry named berth that Berth did not make.
	Force bool

	edit    func(old []byte) ([]byte, error)
	find    func(text []byte) (*Entry, error)
	newMode uint32 // of a file that does not exist yet
}

// profileName is what can stand in the path of an endpoint as it is.
var profileName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Plan works out the registration of Berth in a client.
func Plan(client string, o Options) (Registration, error) {
	if o.Via == "" {
		o.Via = ViaStdio
	}
	if o.Scope == "" {
		o.Scope = ScopeUser
	}
	if o.TokenEnv == "" {
		o.TokenEnv = DefaultTokenEnv
	}
	if o.BerthPath == "" {
		o.BerthPath = "berth"
	}
	if err := o.validate(); err != nil {
		return Registration{}, err
	}
	if o.Profile != "" && o.Via == ViaHTTP {
		o.URL = strings.TrimSuffix(o.URL, "/") + "/" + o.Profile
	}
	r := Registration{Client: client, Via: o.Via, Scope: o.Scope, newMode: 0o600}
	if o.Scope == ScopeProject {
		r.newMode = 0o644
	}
	i := slices.Index(Clients(), client)
	if i < 0 {
		return Registration{}, fmt.Errorf("the client %q is not known; the clients are %s", client, strings.Join(Clients(), ", "))
	}
	clients[i].plan(&r, o)
	if o.Via == ViaHTTP {
		r.Notes = append(r.Notes, "The client reads the token from the environment variable "+o.TokenEnv+": set it from the file api-token in the state directory where the client is started.")
	}
	return r, nil
}

func (o Options) validate() error {
	switch o.Scope {
	case ScopeUser:
		if !filepath.IsAbs(o.Home) {
			return errors.New("the home directory is not known")
		}
	case ScopeProject:
		if o.ProjectDir == "" {
			return errors.New("the project directory is not known")
		}
	default:
		return fmt.Errorf("the scope %q is not known; the scopes are user and project", o.Scope)
	}
	for _, s := range []string{o.BerthPath, o.StateDir} {
		if strings.ContainsAny(s, "\x00\r\n") {
			return errors.New("a path holds a control character")
		}
	}
	if o.Profile != "" && (!profileName.MatchString(o.Profile) || strings.Trim(o.Profile, ".") == "") {
		return fmt.Errorf("%q cannot name a profile", o.Profile)
	}
	switch o.Via {
	case ViaStdio:
	case ViaHTTP:
		u, err := url.Parse(o.URL)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil {
			return errors.New("the address of the broker must be an http or https URL without a user name")
		}
		if o.Profile != "" && (u.RawQuery != "" || u.Fragment != "") {
			return errors.New("a profile stands at the end of the address: give one without a query")
		}
		if !variableName.MatchString(o.TokenEnv) {
			return fmt.Errorf("%q cannot name an environment variable", o.TokenEnv)
		}
	default:
		return fmt.Errorf("%q is no way to connect; the ways are stdio and http", o.Via)
	}
	return nil
}

// bridge is the command line of `berth stdio`.
func (o Options) bridge() []string {
	line := []string{o.BerthPath, "stdio"}
	if o.Profile != "" {
		line = append(line, "--profile", o.Profile)
	}
	if o.StateDir != "" {
		line = append(line, "--state-dir", o.StateDir)
	}
	return line
}

// Text is what `berth install` prints: the command, or what to put where.
func (r Registration) Text() string {
	var b strings.Builder
	if r.Command != "" {
		fmt.Fprintf(&b, "Run:\n\n  %s\n\nor put", r.Command)
	} else {
		b.WriteString("Put")
	}
	fmt.Fprintf(&b, " this into %s (the same command with --write does it):\n\n", r.File)
	for line := range strings.Lines(r.Snippet) {
		b.WriteString("  " + line)
	}
	for _, note := range r.Notes {
		b.WriteString("\n" + note + "\n")
	}
	return b.String()
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// shellLine quotes words for a POSIX shell.
func shellLine(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		if !plainWord.MatchString(w) {
			w = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
		quoted[i] = w
	}
	return strings.Join(quoted, " ")
}
