package app

import (
	"bytes"
	"errors"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// Discovery is how the one instance of an app that was named is found: which
// environment names and which files say where it is.
type Discovery struct {
	Port     string // environment name of the port
	PortFile string // of the port file's path
	Database string // of a path beside which the port file stands
	StateDir string // of the directory of the token file
	ReadOnly string

	PortFileName string // beside the database
	TokenFile    string // in the state directory; {port} stands for the port
	Token        *regexp.Regexp
	// DefaultState gives the state directory when it is not named, of an
	// operating system and a way to look up its environment.
	DefaultState func(os string, lookup func(string) string) string
	Health       Route // answers with an object whose status is "ok"
}

// maxPortFile and maxTokenFile bound what is read of the two files.
const (
	maxPortFile  = 64
	maxTokenFile = 4096
)

// readFile reads at most limit bytes of a regular file. An error says that it
// is not there (fs.ErrNotExist) or cannot be read.
type readFile func(path string, limit int) ([]byte, error)

// named is where an instance was said to be.
type named struct {
	port  int
	state string // directory
}

func (n named) base() string { return "http://127.0.0.1:" + strconv.Itoa(n.port) }

func (n named) tokenFile(d *Discovery) string {
	return filepath.Join(n.state, fill(d.TokenFile, "{port}", strconv.Itoa(n.port)))
}

// portPath is the port file's path; empty when nothing says where it is.
func (d *Discovery) portPath(env map[string]string) string {
	if path := env[d.PortFile]; path != "" {
		return path
	}
	if path := env[d.Database]; path != "" {
		return filepath.Join(filepath.Dir(path), d.PortFileName)
	}
	return ""
}

// port reads a decimal port, 1 to 65535.
func port(s string) (int, bool) {
	if s == "" || len(s) > 8 || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(s)
	return n, err == nil && n >= 1 && n <= 65535
}

// find says which port was named, or why none was. The first source that is
// given is the only one.
func (s *Surface) find(env map[string]string, state string, read readFile) (named, *Problem) {
	d := &s.Discovery
	if given := env[d.Port]; given != "" {
		n, ok := port(given)
		if !ok {
			return named{}, NewProblem(BackendUnavailable, s.Sentences.BadPort, map[string]any{"tried": []string{}, "malformed": d.Port})
		}
		return named{n, state}, nil
	}
	path := d.portPath(env)
	n, why := 0, "no_path"
	if path != "" {
		n, why = readPort(path, read)
	}
	if why == "" {
		return named{n, state}, nil
	}
	shown := path
	if path == "" {
		shown = s.Sentences.NoPath
	}
	return named{}, NewProblem(BackendUnavailable, fill(s.Sentences.NotNamed, "{path}", shown),
		map[string]any{"tried": []string{}, "no_port_named": true, "port_file": why})
}

// readPort reads a port file, or says why it names no port.
func readPort(path string, read readFile) (n int, why string) {
	raw, err := read(path, maxPortFile+1)
	switch {
	case isMissing(err):
		return 0, "missing"
	case err != nil:
		return 0, "unreadable"
	}
	long := len(raw) > maxPortFile
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return 0, "empty"
	}
	n, ok := port(string(raw))
	if !ok || long {
		return 0, "malformed"
	}
	return n, ""
}

// token reads the token of a named instance, or refuses without having sent
// anything.
func (s *Surface) token(n named, read readFile) (string, *Problem) {
	d := &s.Discovery
	raw, err := read(n.tokenFile(d), maxTokenFile)
	token := string(bytes.TrimSpace(raw))
	if errors.Is(err, errForeign) {
		return "", s.unavailable(s.Sentences.NoToken, n, "no_token").With("reason", "other_user")
	}
	if err != nil || !d.Token.MatchString(token) {
		return "", s.unavailable(s.Sentences.NoToken, n, "no_token")
	}
	return token, nil
}

// unavailable is a refusal about a named instance; key names it once more.
func (s *Surface) unavailable(sentence string, n named, key string) *Problem {
	base := n.base()
	detail := map[string]any{"tried": []string{base}}
	if key != "" {
		detail[key] = []string{base}
	}
	return NewProblem(BackendUnavailable, fill(sentence, "{base}", base, "{state}", n.state), detail)
}
