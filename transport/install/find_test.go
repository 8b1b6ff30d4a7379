package install

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// What Apply writes is what Find reads, for every client and way.
func TestWhatIsRegisteredIsFound(t *testing.T) {
	for _, client := range Clients() {
		for _, via := range []string{ViaStdio, ViaHTTP} {
			t.Run(client+" "+via, func(t *testing.T) {
				home := t.TempDir()
				o := Options{Home: home, BerthPath: "/opt/berth", StateDir: "/s", Via: via, URL: "http://127.0.0.1:9/mcp"}
				if e, err := Find(client, o); err != nil || e != nil {
					t.Fatalf("before: %+v %v", e, err)
				}
				r := plan(t, client, o)
				if _, err := r.Apply(); err != nil {
					t.Fatal(err)
				}
				want := &Entry{File: r.File, Command: []string{"/opt/berth", "stdio", "--state-dir", "/s"}}
				if via == ViaHTTP {
					want = &Entry{File: r.File, URL: o.URL}
				}
				if e, err := Find(client, o); err != nil || !reflect.DeepEqual(e, want) {
					t.Fatalf("got %+v %v, want %+v", e, err, want)
				}
				if err := os.WriteFile(r.File, []byte("{ no"), 0o600); err != nil {
					t.Fatal(err)
				}
				if e, err := Find(client, o); err == nil {
					t.Fatalf("a file that does not parse has %+v", e)
				}
			})
		}
	}
	r := plan(t, "opencode", Options{Home: t.TempDir()})
	if err := os.MkdirAll(filepath.Dir(r.File), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(r.File, []byte(`{"mcp": {"servers": {"berth": {"type": "remote", "url": "http://h/mcp"},},}} // end`), 0o600); err != nil {
		t.Fatal(err)
	}
	home := filepath.Dir(filepath.Dir(filepath.Dir(r.File)))
	if e, err := Find("opencode", Options{Home: home}); err != nil || e == nil || e.URL != "http://h/mcp" {
		t.Fatalf("the second form: %+v %v", e, err)
	}
}
