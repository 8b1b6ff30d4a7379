package install

import (
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != got {
		t.Errorf("%s differs (-update rewrites it):\n%s", path, got)
	}
}

func serviceOf(t *testing.T, manager string, o ServiceOptions) Service {
	t.Helper()
	s, err := PlanService(manager, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var fullService = ServiceOptions{Home: "/home/ada", BerthPath: "/opt/my tools/berth", Config: `/home/ada/100% "mine"/$HOME & <b>.json`,
	StateDir: "/home/ada/state", Drain: 90 * time.Second}

func TestServiceFilesAreAsTheirManagersReadThem(t *testing.T) {
	plain := ServiceOptions{Home: "/home/ada", BerthPath: "/usr/local/bin/berth", Drain: 10 * time.Second}
	golden(t, "berth.service", serviceOf(t, Systemd, plain).Text)
	golden(t, "berth-full.service", serviceOf(t, Systemd, fullService).Text)
	golden(t, "berth.plist", serviceOf(t, Launchd, plain).Text)
	golden(t, "berth-full.plist", serviceOf(t, Launchd, fullService).Text)
}

func TestServiceFileHoldsWhatAStopNeeds(t *testing.T) {
	text := serviceOf(t, Systemd, fullService).Text
	for _, line := range []string{"ExecReload=/bin/kill -HUP $MAINPID\n", "Restart=on-failure\n", "KillMode=mixed\n", "TimeoutStopSec=120\n"} {
		if !strings.Contains(text, line) {
			t.Errorf("the unit lacks %q", line)
		}
	}
	d := xml.NewDecoder(strings.NewReader(serviceOf(t, Launchd, fullService).Text))
	var words []string
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if text, ok := token.(xml.CharData); ok {
			words = append(words, string(text))
		}
	}
	if all := strings.Join(words, "|"); !strings.Contains(all, fullService.Config) {
		t.Errorf("the agent's arguments are %q", all)
	}
}

func TestServiceFileIsWrittenOnceAndNotOverAnEdit(t *testing.T) {
	for _, manager := range []string{Systemd, Launchd} {
		t.Run(manager, func(t *testing.T) {
			home := t.TempDir()
			o := ServiceOptions{Home: home, BerthPath: "/usr/bin/berth"}
			s := serviceOf(t, manager, o)
			if c, err := s.Write(false); err != nil || !c.Changed || !c.Created {
				t.Fatalf("first: %+v %v", c, err)
			}
			if c, err := s.Write(false); err != nil || c.Changed {
				t.Fatalf("second: %+v %v", c, err)
			}
			o.Config = "/etc/berth.json"
			next := serviceOf(t, manager, o)
			if state, err := next.Look(); err != nil || !state.Exists || state.Current || state.Edited {
				t.Fatalf("before it is renewed: %+v %v", state, err)
			}
			if c, err := next.Write(false); err != nil || !c.Changed || c.Created {
				t.Fatalf("another plan: %+v %v", c, err)
			}
			edited := strings.Replace(next.Text, "/usr/bin/berth", "/usr/bin/other", 1)
			if err := os.WriteFile(s.File, []byte(edited), 0o600); err != nil {
				t.Fatal(err)
			}
			if state, err := next.Look(); err != nil || !state.Edited {
				t.Fatalf("edited: %+v %v", state, err)
			}
			if _, err := s.Write(false); !errors.Is(err, ErrEdited) {
				t.Fatalf("over an edit: %v", err)
			}
			if _, err := s.Remove(false); !errors.Is(err, ErrEdited) {
				t.Fatalf("removed an edit: %v", err)
			}
			if text, err := os.ReadFile(s.File); err != nil || string(text) != edited {
				t.Fatalf("the edit is lost: %q %v", text, err)
			}
			if c, err := s.Write(true); err != nil || !c.Changed {
				t.Fatalf("by force: %+v %v", c, err)
			}
			if removed, err := s.Remove(false); err != nil || !removed {
				t.Fatalf("removed: %v %v", removed, err)
			}
			if removed, err := s.Remove(false); err != nil || removed {
				t.Fatalf("removed twice: %v %v", removed, err)
			}
			left, err := os.ReadDir(filepath.Dir(s.File))
			if err != nil || len(left) != 0 {
				t.Fatalf("left: %v %v", left, err)
			}
		})
	}
}

func TestServiceIsRefusedWhereItCouldNotBeStarted(t *testing.T) {
	for name, o := range map[string]ServiceOptions{
		"a relative program":  {Home: "/home/ada", BerthPath: "berth"},
		"no home":             {BerthPath: "/usr/bin/berth"},
		"a line break":        {Home: "/home/ada", BerthPath: "/usr/bin/berth", Config: "/a\nExecStart=/bin/sh"},
		"a control character": {Home: "/home/ada", BerthPath: "/usr/bin/berth", StateDir: "/a\x00"},
	} {
		if s, err := PlanService(Systemd, o); err == nil {
			t.Errorf("%s: %s", name, s.Text)
		}
	}
	if _, err := PlanService("upstart", fullService); err == nil {
		t.Error("an unknown manager was taken")
	}
}
