package resmon

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/transport/app"
	"berth/transport/app/resmontest"
)

// reads are calls of some tools of each kind, for what must hold whatever the
// tool is.
var reads = [][2]string{{"health", `{}`}, {"list_routines", `{}`}, {"get_execution", `{"exec_id":1}`}, {"explain_match", `{"doc_id":1}`},
	{"run_sweep", `{"query":"x","sources":["arxiv"]}`}, {"update_settings", `{"group":"ai","settings":{"ai_model":"x"}}`}}

func notNamed(path string) string {
	return "No resmon was named, so this server did not look for one and did not guess. Two things name one: the RESMON_PORT environment variable, and the port file a running resmon writes at " + path +
		". Neither named a port. Guessing one would attach this harness to whichever resmon happens to be listening there -- possibly another installation, over another database -- and answering about the wrong corpus is worse than not answering. " +
		"Start resmon and try again; if it is already running, set RESMON_PORT to its port, or point RESMON_PORT_FILE at the port file that instance writes."
}

const notRunning = "resmon is not running. Start the resmon app and try again."

func TestAPortThatNothingNamesIsNotGuessed(t *testing.T) {
	fake := resmontest.Run(t, resmontest.Options{Data: resmontest.Small}) // it must see nobody
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	missing := filepath.Join(dir, "none", "resmon.port")
	noPath := "resmon.port beside its database (RESMON_PORT_FILE or RESMON_DB_PATH says where)"
	tests := []struct {
		name string
		env  map[string]string
		path string
		why  string
	}{
		{"no variable at all", map[string]string{}, noPath, "no_path"},
		{"empty variables", map[string]string{"RESMON_PORT": "", "RESMON_PORT_FILE": "", "RESMON_DB_PATH": ""}, noPath, "no_path"},
		{"a missing port file", map[string]string{"RESMON_PORT_FILE": missing}, missing, "missing"},
		{"none beside the database", map[string]string{"RESMON_DB_PATH": filepath.Join(dir, "resmon.db")}, filepath.Join(dir, "resmon.port"), "missing"},
		{"an empty port file", map[string]string{"RESMON_PORT_FILE": write("empty", " \n")}, filepath.Join(dir, "empty"), "empty"},
		{"words", map[string]string{"RESMON_PORT_FILE": write("words", "port 80")}, filepath.Join(dir, "words"), "malformed"},
		{"port 0", map[string]string{"RESMON_PORT_FILE": write("zero", "0")}, filepath.Join(dir, "zero"), "malformed"},
		{"port 65536", map[string]string{"RESMON_PORT_FILE": write("high", "65536")}, filepath.Join(dir, "high"), "malformed"},
		{"a long file", map[string]string{"RESMON_PORT_FILE": write("long", "80"+strings.Repeat(" ", 70)+"x")}, filepath.Join(dir, "long"), "malformed"},
		{"a directory", map[string]string{"RESMON_PORT_FILE": dir}, dir, "unreadable"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var d dials
			tt.env["RESMON_STATE_DIR"] = fake.StateDir()
			r := reach(t, fake, app.Options{Env: tt.env, Dial: d.dial})
			for _, c := range reads {
				got := r.refused(c[0], c[1])
				if got.Error != "backend_unavailable" || got.Message != notNamed(tt.path) || got.Tried == nil || len(got.Tried) > 0 || got.NoPortNamed == nil || !*got.NoPortNamed {
					t.Errorf("%s: %+v", c[0], got)
				}
				got.detail(t, `{"no_port_named":true,"port_file":"`+tt.why+`","tried":[]}`)
			}
			if d.count() > 0 {
				t.Errorf("%d connections were made", d.count())
			}
		})
	}
	if n, _, _ := fake.Connections(); n > 0 {
		t.Errorf("an instance that nothing named saw %d connections", n)
	}
}

func TestANamedPortIsTheOnlyCandidate(t *testing.T) {
	fake := resmontest.Run(t, resmontest.Options{Data: resmontest.Small}) // the port file names this good one
	tests := []struct {
		name, port, message string
		detail              string
	}{
		{"dead", "1", "", `{"no_token":["http://127.0.0.1:1"],"tried":["http://127.0.0.1:1"]}`},
		{"no number", "51734x", "RESMON_PORT", `{"malformed":"RESMON_PORT","tried":[]}`},
		{"blank", " ", "RESMON_PORT", `{"malformed":"RESMON_PORT","tried":[]}`},
		{"signed", "+80", "RESMON_PORT", `{"malformed":"RESMON_PORT","tried":[]}`},
		{"too high", "70000", "RESMON_PORT", `{"malformed":"RESMON_PORT","tried":[]}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			env := fake.Env()
			env["RESMON_PORT"] = tt.port
			got := reach(t, fake, app.Options{Env: env}).refused("health", `{}`)
			if got.Error != "backend_unavailable" || !strings.Contains(got.Message, tt.message) || tt.message != "" && strings.Contains(got.Message, strings.TrimSpace(tt.port)) && strings.TrimSpace(tt.port) != "" {
				t.Errorf("%+v", got)
			}
			got.detail(t, tt.detail)
		})
	}
	t.Run("it wins over the port file", func(t *testing.T) {
		env := fake.PortEnv()
		env["RESMON_PORT_FILE"] = filepath.Join(t.TempDir(), "none")
		reach(t, fake, app.Options{Env: env}).good("health", `{}`)
	})
	if n := len(fake.Requests()); n != 2 { // the check of the connection, and health
		t.Errorf("the instance that was not named saw %d requests", n-2)
	}
}

func TestWhatStandsInTheFilesDecides(t *testing.T) {
	tests := []struct {
		name    string
		port    resmontest.FileState
		token   resmontest.FileState
		sends   bool
		detail  string // {base} is the address
		message string // part of it
	}{
		{"a stale port file", resmontest.FileStale, resmontest.FileGood, false, `{"tried":["http://127.0.0.1:1"]}`, notRunning},
		{"an empty port file", resmontest.FileEmpty, resmontest.FileGood, false, `{"no_port_named":true,"port_file":"empty","tried":[]}`, "No resmon was named"},
		{"a malformed port file", resmontest.FileMalformed, resmontest.FileGood, false, `{"no_port_named":true,"port_file":"malformed","tried":[]}`, "No resmon was named"},
		{"a missing port file", resmontest.FileMissing, resmontest.FileGood, false, `{"no_port_named":true,"port_file":"missing","tried":[]}`, "No resmon was named"},
		{"a missing token file", resmontest.FileGood, resmontest.FileMissing, false, `{"no_token":["{base}"],"tried":["{base}"]}`, "RESMON_STATE_DIR"},
		{"a short token", resmontest.FileGood, resmontest.FileShort, false, `{"no_token":["{base}"],"tried":["{base}"]}`, "RESMON_STATE_DIR"},
		{"an empty token file", resmontest.FileGood, resmontest.FileEmpty, false, `{"no_token":["{base}"],"tried":["{base}"]}`, "RESMON_STATE_DIR"},
		{"a malformed token", resmontest.FileGood, resmontest.FileMalformed, false, `{"no_token":["{base}"],"tried":["{base}"]}`, "RESMON_STATE_DIR"},
		{"a stale token", resmontest.FileGood, resmontest.FileStale, true, `{"token_refused":["{base}"],"tried":["{base}"]}`, "another run of that port"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := small(t)
			if err := r.fake.SetPortFile(tt.port); err != nil {
				t.Fatal(err)
			}
			if tt.port == resmontest.FileGood {
				if err := r.fake.SetTokenFile(tt.token); err != nil {
					t.Fatal(err)
				}
			}
			base := r.fake.Base()
			got := r.refused("list_routines", `{}`)
			if got.Error != "backend_unavailable" || !strings.Contains(got.Message, tt.message) {
				t.Errorf("%+v", got)
			}
			if tt.message == "RESMON_STATE_DIR" && (strings.Contains(got.Message, "not running") || !strings.Contains(got.Message, r.fake.StateDir()) || !strings.Contains(got.Message, base)) {
				t.Errorf("nobody asked whether it runs, or where was looked is not said: %s", got.Message)
			}
			got.detail(t, strings.ReplaceAll(tt.detail, "{base}", base))
			wantTried := strings.Contains(tt.detail, `"tried":[]`)
			if (len(got.Tried) == 0) != wantTried {
				t.Errorf("tried at top level: %q", got.Tried)
			}
			if (len(r.fake.Requests()) > 0) != tt.sends {
				t.Errorf("%d requests", len(r.fake.Requests()))
			}
			// A failed attempt is not remembered.
			if err := r.fake.SetPortFile(resmontest.FileGood); err != nil {
				t.Fatal(err)
			}
			if err := r.fake.SetTokenFile(resmontest.FileGood); err != nil {
				t.Fatal(err)
			}
			r.good("list_routines", `{}`)
		})
	}
}

func TestAnotherProgramOnThePortIsNeverTakenForResmon(t *testing.T) {
	tests := []struct {
		kind   resmontest.SquatterKind
		detail string
	}{
		{resmontest.SquatHTML, `{"not_resmon":["{base}"],"status":200,"tried":["{base}"]}`},
		{resmontest.SquatJSON, `{"not_resmon":["{base}"],"status":200,"tried":["{base}"]}`},
		{resmontest.Squat401, `{"token_refused":["{base}"],"tried":["{base}"]}`},
		{resmontest.SquatSilent, `{"tried":["{base}"]}`},
	}
	for _, attached := range []bool{false, true} {
		for _, tt := range tests {
			name := string(tt.kind) + ", never attached"
			if attached {
				name = string(tt.kind) + ", attached before"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				fake := resmontest.Run(t, resmontest.Options{Data: resmontest.Small})
				calls, limits := reads, app.Limits{}
				if tt.kind == resmontest.SquatSilent {
					calls, limits = reads[:2], brief // each takes its time
				}
				r := reach(t, fake, app.Options{Env: fake.Env(), Limits: limits})
				if attached {
					r.good("list_routines", `{}`)
				}
				if err := fake.Crash(); err != nil {
					t.Fatal(err)
				}
				squatter, err := fake.Squat(tt.kind)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { squatter.Close() })
				for i, c := range calls {
					got := r.refused(c[0], c[1])
					if got.Error != "backend_unavailable" {
						t.Errorf("%s: %+v", c[0], got)
					}
					if i > 0 || !attached {
						got.detail(t, strings.ReplaceAll(tt.detail, "{base}", fake.Base()))
					}
				}
				for _, q := range squatter.Requests() {
					if q.Path != "/api/health" {
						t.Errorf("it was asked for %s %s", q.Method, q.Path)
					}
				}
			})
		}
	}
}

func TestCallsWithResmonDownShareTheirProbes(t *testing.T) {
	fake := resmontest.Run(t, resmontest.Options{Data: resmontest.Small})
	if err := fake.Crash(); err != nil {
		t.Fatal(err)
	}
	squatter, err := fake.Squat(resmontest.SquatSilent)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { squatter.Close() })
	var d dials
	r := reach(t, fake, app.Options{Env: fake.Env(), Dial: d.dial, Limits: app.Limits{Probe: 500 * time.Millisecond}})
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			got, err := r.try(context.Background(), "", "list_routines", `{}`)
			if err != nil || !strings.Contains(got.text, notRunning) {
				t.Errorf("%v %s", err, got.text)
			}
		})
	}
	wg.Wait()
	if n := d.count(); n > 10 {
		t.Errorf("100 calls made %d probes", n)
	}
}

func TestTheStateDirectoryHasADefault(t *testing.T) {
	tests := []struct {
		os   string
		env  map[string]string
		want string
	}{
		{"linux", map[string]string{"HOME": "/home/u"}, "/home/u/.local/state/resmon"},
		{"linux", map[string]string{"HOME": "/home/u", "XDG_STATE_HOME": "/s"}, "/s/resmon"},
		{"darwin", map[string]string{"HOME": "/Users/u", "XDG_STATE_HOME": "/s"}, "/Users/u/Library/Application Support/resmon"},
		{"windows", map[string]string{"LOCALAPPDATA": `C:\Users\u\AppData\Local`}, `C:\Users\u\AppData\Local\resmon`},
	}
	for _, tt := range tests {
		if got := defaultState(tt.os, func(name string) string { return tt.env[name] }); got != tt.want {
			t.Errorf("%s %v: %s, want %s", tt.os, tt.env, got, tt.want)
		}
	}
}

func TestHTTPGoesToLoopbackAndNowhereElse(t *testing.T) {
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"} {
		t.Setenv(name, "http://127.0.0.1:9")
	}
	fake := resmontest.Run(t, resmontest.Options{Data: resmontest.Small})
	var d dials
	r := reach(t, fake, app.Options{Env: fake.Env(), Dial: d.dial})
	elsewhere := resmontest.Run(t, resmontest.Options{Data: resmontest.Small})
	everyTool(r)
	fake.Inject(resmontest.Redirect(elsewhere.Base()), resmontest.Scope{Template: "/api/routines"})
	got := r.refused("list_routines", `{}`)
	if got.Error != "upstream_error" {
		t.Errorf("%+v", got)
	}
	got.detail(t, `{"status":302}`)
	if n, _, _ := elsewhere.Connections(); n > 0 {
		t.Error("a redirect was followed")
	}
	host := strings.TrimPrefix(fake.Base(), "http://")
	for _, to := range d.to {
		if to != host {
			t.Errorf("a connection to %s", to)
		}
	}
	for _, q := range fake.Requests() {
		if q.Host != host || slices.Contains(q.Headers, "Origin") || slices.Contains(q.Headers, "Cookie") || q.Exposed || q.Refused != "" || q.Token != resmontest.TokenCurrent {
			t.Errorf("%+v", q)
		}
	}
}
