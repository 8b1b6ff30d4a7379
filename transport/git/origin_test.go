//go:build unix

package git

import (
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// hosted serves a repository's files over https to who has the token, as a host
// without a program of git's own does.
func (y *yard) hosted(token string) (address string, asked *atomic.Int64) {
	y.t.Helper()
	asked = new(atomic.Int64)
	y.do(y.origin, "update-server-info")
	files := http.StripPrefix("/x.git/", http.FileServer(http.Dir(filepath.Join(y.origin.dir, ".git"))))
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if _, password, ok := r.BasicAuth(); !ok || password != token {
			w.Header().Set("WWW-Authenticate", "Basic")
			http.Error(w, "who?", http.StatusUnauthorized)
			return
		}
		files.ServeHTTP(w, r)
	}))
	y.t.Cleanup(s.Close)
	ca := filepath.Join(y.dir, "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		y.t.Fatal(err)
	}
	y.git.env = append([]string{"GIT_SSL_CAINFO=" + ca}, y.git.env...)
	return s.URL + "/x.git", asked
}

func TestATokenOpensItsHostAndIsNowhereElse(t *testing.T) {
	const token = "plaintokenwithoutshape"
	y := newYard(t)
	address, _ := y.hosted(token)
	r := y.git.Repo(filepath.Join(y.dir, "repos", "a.git"))
	if _, err := r.Follow(t.Context(), address, 0); err == nil {
		t.Fatal("it was cloned without a token")
	}
	with := r.WithToken(address, token)
	if stale, err := with.Follow(t.Context(), address, 0); err != nil || stale != nil {
		t.Fatalf("with the token: %v, %v", stale, err)
	}
	if stale, err := with.Follow(t.Context(), address, 0); err != nil || stale != nil {
		t.Errorf("again: %v, %v", stale, err)
	}
	if stale, err := r.Follow(t.Context(), address, 0); err != nil || stale == nil {
		t.Errorf("the clone remembers the token: %v, %v", stale, err)
	}
	wrong := r.WithToken(address, "another")
	if stale, err := wrong.Follow(t.Context(), address, 0); err != nil || stale == nil || strings.Contains(stale.Error(), "another") {
		t.Errorf("with a wrong one: %v, %v", stale, err)
	}
	err := filepath.WalkDir(y.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(path)
		if strings.Contains(string(raw), token) || strings.Contains(string(raw), with.hidden[1]) {
			t.Errorf("%s holds the token", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if said := with.said("a " + token + " b " + with.hidden[1]); strings.Contains(said, token) || strings.Contains(said, with.hidden[1]) {
		t.Errorf("an error would say %q", said)
	}
}

func TestATokenGoesToNoOtherHost(t *testing.T) {
	y := newYard(t)
	var seen atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			seen.Add(1)
		}
		http.NotFound(w, r)
	}))
	defer elsewhere.Close()
	s := httptest.NewTLSServer(http.RedirectHandler(elsewhere.URL, http.StatusFound))
	defer s.Close()
	y.git.env = append([]string{"GIT_SSL_NO_VERIFY=1"}, y.git.env...)
	r := y.git.Repo(filepath.Join(y.dir, "repos", "a.git"))
	for _, address := range []string{s.URL + "/x.git", elsewhere.URL + "/x.git"} {
		if _, err := r.WithToken(address, "hunter2hunter2").Follow(t.Context(), address, 0); err == nil {
			t.Errorf("%s was cloned", address)
		}
	}
	if seen.Load() > 0 {
		t.Error("the token was sent on")
	}
	for _, address := range []string{"http://h/x", "ssh://git@h/x", "git@h:x", "/srv/x", "https:///x", "https://", "::"} {
		if with := r.WithToken(address, "t"); len(with.env)+len(with.hidden) > 0 {
			t.Errorf("%s is given the token", address)
		}
	}
	if with := r.WithToken("https://h/x", ""); len(with.env)+len(with.hidden) > 0 {
		t.Error("no token is given")
	}
}

// TestAFetchIsSharedByWhoCameBeforeIt puts a fetch there that began after its
// callers came.
func TestAFetchIsSharedByWhoCameBeforeIt(t *testing.T) {
	y := newYard(t)
	r := y.clone()
	failed := errors.New("it failed")
	for _, tt := range []struct {
		name string
		last fetched
		age  time.Duration
		want error
	}{
		{"one that began later", fetched{y.origin.dir, time.Now().Add(time.Hour), failed}, 0, failed},
		{"one that began before", fetched{y.origin.dir, time.Now(), failed}, 0, nil},
		{"one that is recent enough", fetched{y.origin.dir, time.Now().Add(-time.Minute), failed}, time.Hour, failed},
		{"one from elsewhere", fetched{"/elsewhere", time.Now().Add(time.Hour), failed}, time.Hour, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r.git.mu.Lock()
			r.git.fetches[r.dir] = tt.last
			r.git.mu.Unlock()
			before := time.Now()
			stale, err := r.Follow(t.Context(), y.origin.dir, tt.age)
			if err != nil || !errors.Is(stale, tt.want) {
				t.Errorf("%v, %v", stale, err)
			}
			if last := r.git.fetches[r.dir]; tt.want == nil && (last.failed != nil || last.began.Before(before) || last.address != y.origin.dir) {
				t.Errorf("the last fetch is %+v", last)
			}
		})
	}
}

func TestACloneThatIsSetUpOtherwiseIsFollowed(t *testing.T) {
	y := newYard(t)
	dir := filepath.Join(y.dir, "mirror.git")
	y.do(y.git.Repo(y.dir), "clone", "--quiet", "--bare", y.origin.dir, dir)
	next := y.commit(y.origin, "README", "two\n")
	r := y.git.Repo(dir)
	if stale, err := r.Follow(t.Context(), "file://"+y.origin.dir, 0); err != nil || stale != nil {
		t.Fatal(stale, err)
	}
	if at, err := r.Resolve(t.Context(), "main"); err != nil || at != next {
		t.Errorf("at %s, %v; want %s", at, err, next)
	}
}

func TestWhatIsConcealedIsInNoCommit(t *testing.T) {
	y := newYard(t)
	r := y.clone()
	if err := os.MkdirAll(filepath.Join(r.dir, "info"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(r.dir, "info", "exclude"), []byte("*.log"), 0o644); err != nil {
		t.Fatal(err)
	}
	w := y.worktree(r, "berth/a")
	for range 2 {
		for _, path := range []string{"README", "new[1]"} {
			if err := r.Conceal(t.Context(), w.dir, path); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, name := range []string{"README", "new[1]", "new1", "x.log"} {
		if err := os.WriteFile(filepath.Join(w.dir, name), []byte("mine"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	y.do(w, "add", "--all")
	if staged := y.do(w, "diff", "--cached", "--name-only"); staged != "new1" {
		t.Errorf("staged are %q", staged)
	}
	if raw, err := os.ReadFile(filepath.Join(r.dir, "info", "exclude")); err != nil || string(raw) != "*.log\n/new\\[1]\n" {
		t.Errorf("%q, %v", raw, err)
	}
}

func TestAddressesOfThisHost(t *testing.T) {
	for address, want := range map[string]string{"/srv/a/": "/srv/a", "file:///srv/a": "/srv/a", "file://localhost/srv/a": "/srv/a", "https://h/x": "", "git@h:x": "", "x": "", "": ""} {
		if got := LocalPath(address); got != want {
			t.Errorf("%q: %q", address, got)
		}
	}
}
