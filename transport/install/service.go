package install

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Managers of services that a broker can be registered with.
const (
	Systemd = "systemd" // a user unit
	Launchd = "launchd" // a user agent
)

// ErrEdited is a service's file that is not as it was written.
var ErrEdited = errors.New("the file was edited by hand, or is not Berth's")

// stopMargin is what a stop may take after the drain: last answers, and children
// that do not end at once.
const stopMargin = 30 * time.Second

// ServiceOptions say how the broker is started. Home and BerthPath are required
// and absolute; no credential is among them.
type ServiceOptions struct {
	Home       string
	ConfigHome string // XDG_CONFIG_HOME; empty: .config in Home
	BerthPath  string
	Config     string // the broker's configuration; empty: none
	StateDir   string // empty: the default
	// Drain is the broker's drain_timeout: it is not killed before that is over.
	Drain time.Duration
}

// Service is the file that makes a service manager start the broker.
type Service struct {
	Manager string
	File    string
	Text    string
	// Enable, Disable and Reload are the commands that make the manager take the
	// file, give it up, and have the broker reload its configuration.
	Enable, Disable [][]string
	Reload          []string
}

// serviceKinds are the managers: where the file is, how it is written, and what
// makes the manager take it.
var serviceKinds = map[string]struct {
	file            func(ServiceOptions) string
	render          func(ServiceOptions) string
	comment         [2]string // what stands around a comment
	enable, disable func(file string) [][]string
	reload          []string
}{
	Systemd: {
		file: func(o ServiceOptions) string {
			config := o.ConfigHome
			if !filepath.IsAbs(config) {
				config = filepath.Join(o.Home, ".config")
			}
			return filepath.Join(config, "systemd", "user", "berth.service")
		},
		render: systemdUnit, comment: [2]string{"# ", ""},
		enable: func(string) [][]string {
			return [][]string{{"systemctl", "--user", "daemon-reload"}, {"systemctl", "--user", "enable", "--now", "berth.service"}}
		},
		disable: func(string) [][]string {
			return [][]string{{"systemctl", "--user", "disable", "--now", "berth.service"}}
		},
		reload: []string{"systemctl", "--user", "reload", "berth.service"},
	},
	Launchd: {
		file: func(o ServiceOptions) string {
			return filepath.Join(o.Home, "Library", "LaunchAgents", "berth.plist")
		},
		render: launchdPlist, comment: [2]string{"<!-- ", " -->"},
		enable:  func(file string) [][]string { return [][]string{{"launchctl", "load", "-w", file}} },
		disable: func(file string) [][]string { return [][]string{{"launchctl", "unload", "-w", file}} },
		reload:  []string{"launchctl", "kill", "SIGHUP", "gui/" + strconv.Itoa(os.Getuid()) + "/berth"},
	},
}

// PlanService works out the file for a manager. Nothing is written.
func PlanService(manager string, o ServiceOptions) (Service, error) {
	kind, ok := serviceKinds[manager]
	if !ok {
		return Service{}, fmt.Errorf("%q is no service manager that Berth knows; they are %s and %s", manager, Systemd, Launchd)
	}
	for _, path := range []string{o.Home, o.BerthPath} {
		if !filepath.IsAbs(path) {
			return Service{}, fmt.Errorf("%q is not an absolute path", path)
		}
	}
	for _, path := range []string{o.BerthPath, o.Config, o.StateDir} {
		if strings.ContainsFunc(path, func(c rune) bool { return c < ' ' || c == 0x7f }) {
			return Service{}, errors.New("a path holds a control character")
		}
	}
	file := kind.file(o)
	return Service{Manager: manager, File: file, Text: seal(kind.render(o), kind.comment),
		Enable: kind.enable(file), Disable: kind.disable(file), Reload: kind.reload}, nil
}

// sealWord begins the line that says what a file was when it was written, so that
// a later change by hand is found.
const sealWord = "Written by `berth service install`; sha256:"

func seal(text string, comment [2]string) string {
	sum := sha256.Sum256([]byte(text))
	return text + comment[0] + sealWord + hex.EncodeToString(sum[:]) + comment[1] + "\n"
}

// sealed reports whether a file is as it was written.
func sealed(text []byte, comment [2]string) bool {
	at := bytes.LastIndex(text, []byte(comment[0]+sealWord))
	return at >= 0 && seal(string(text[:at]), comment) == string(text)
}

func (o ServiceOptions) command() []string {
	line := []string{o.BerthPath, "serve"}
	if o.Config != "" {
		line = append(line, "--config", o.Config)
	}
	if o.StateDir != "" {
		line = append(line, "--state-dir", o.StateDir)
	}
	return line
}

func (o ServiceOptions) stopSeconds() int {
	return int((o.Drain + stopMargin + time.Second - 1) / time.Second)
}

// systemdUnit is a user unit (systemd.service(5)). Exit code 2 is a
// configuration that is refused: the same start would be refused again.
func systemdUnit(o ServiceOptions) string {
	words := make([]string, 0, 6)
	for _, word := range o.command() {
		words = append(words, systemdWord(word))
	}
	return `[Unit]
Description=Berth, a broker between agent sessions and the tools they share
StartLimitIntervalSec=60
StartLimitBurst=5

[Service]
Type=exec
ExecStart=` + strings.Join(words, " ") + `
ExecReload=/bin/kill -HUP $MAINPID
Restart=on-failure
RestartSec=2
RestartPreventExitStatus=2
KillMode=mixed
TimeoutStopSec=` + strconv.Itoa(o.stopSeconds()) + `
UMask=0077

[Install]
WantedBy=default.target

`
}

// systemdWord quotes a word of ExecStart: specifiers and variables of systemd
// would be expanded in it.
func systemdWord(s string) string {
	s = strings.NewReplacer(`%`, `%%`, `$`, `$$`).Replace(s)
	if plainWord.MatchString(s) {
		return s
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// launchdPlist is a user agent (launchd.plist(5)).
func launchdPlist(o ServiceOptions) string {
	var arguments strings.Builder
	for _, word := range o.command() {
		arguments.WriteString("\t\t<string>" + xmlText(word) + "</string>\n")
	}
	return `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
	<key>Label</key>
	<string>berth</string>
	<key>ProgramArguments</key>
	<array>
` + arguments.String() + `	</array>
	<key>RunAtLoad</key>
	<true/>
	<key>KeepAlive</key>
	<dict>
		<key>SuccessfulExit</key>
		<false/>
	</dict>
	<key>ExitTimeOut</key>
	<integer>` + strconv.Itoa(o.stopSeconds()) + `</integer>
	<key>Umask</key>
	<integer>63</integer>
</dict>
</plist>
`
}

func xmlText(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a strings.Builder takes everything
	return b.String()
}

// ServiceState is what stands in a service's file.
type ServiceState struct {
	Exists  bool
	Current bool // it says what the plan says
	Edited  bool // by hand, or it is not Berth's
}

// Look reads the service's file.
func (s Service) Look() (ServiceState, error) {
	text, exists, err := s.read()
	if err != nil || !exists {
		return ServiceState{}, err
	}
	return ServiceState{Exists: true, Current: string(text) == s.Text, Edited: !sealed(text, serviceKinds[s.Manager].comment)}, nil
}

func (s Service) read() (text []byte, exists bool, err error) {
	info, err := os.Lstat(s.File)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, false, nil
	case err != nil:
		return nil, false, fmt.Errorf("look at the service's file: %w", err)
	case !info.Mode().IsRegular() || info.Size() > maxFile:
		return nil, true, fmt.Errorf("%s is no regular file of a usable size", s.File)
	}
	text, err = readIfThere(s.File)
	return text, true, err
}

// Write puts the file in its place, whole or not at all. One that was edited is
// ErrEdited unless force is given. A second time nothing is changed.
func (s Service) Write(force bool) (Change, error) {
	old, exists, err := s.read()
	change := Change{File: s.File, Created: !exists}
	switch {
	case err != nil:
		return change, err
	case exists && string(old) == s.Text:
		return change, nil
	case exists && !force && !sealed(old, serviceKinds[s.Manager].comment):
		return change, fmt.Errorf("%s: %w, nothing was written", s.File, ErrEdited)
	}
	if err := replace(s.File, old, []byte(s.Text), 0o644); err != nil {
		return change, err
	}
	change.Changed = true
	return change, nil
}

// Remove takes the file away; one that was edited only with force.
func (s Service) Remove(force bool) (removed bool, err error) {
	text, exists, err := s.read()
	if err != nil || !exists {
		return false, err
	}
	if !force && !sealed(text, serviceKinds[s.Manager].comment) {
		return false, fmt.Errorf("%s: %w, nothing was removed", s.File, ErrEdited)
	}
	if err := os.Remove(s.File); err != nil {
		return false, fmt.Errorf("remove the service's file: %w", err)
	}
	return true, nil
}
