package resmontest

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"
)

// Options say what kind of resmon a fake is.
type Options struct {
	Dir  string // where state/ and data/ are made; required, and nobody else's
	Data Size   // which data set; the zero value is the contract's
	// Stamp marks what this instance answers: titles and names carry it, and every
	// JSON object but the settings has it as "stamp". Empty adds nothing.
	Stamp string
	// FirstID is added to every id, so that instances have no id in common.
	FirstID int64
	// Origin is the one that the guard lets through; empty lets none.
	Origin string
	// Version is reported by health; empty is DefaultVersion.
	Version string
	// MaxRuns and MaxQueue bound the runs; zero is resmon's 3 and 16.
	MaxRuns, MaxQueue int
	// RequestIDs gives queued runs a request_id.
	RequestIDs bool
	// FinishAfter is how often a run that this fake started is looked at until it
	// is completed; zero leaves it running until Finish.
	FinishAfter int
	Now         func() time.Time // nil is time.Now
}

// DefaultVersion is what a fake says it is.
const DefaultVersion = "1.9.0"

// A Fake is one instance of resmon, over all its lives.
type Fake struct {
	options Options // fixed at construction

	mu        sync.Mutex // guards everything below and what a handler reads and writes
	world     *world
	token     string
	tokens    []string // of every life, the current one included
	runtimeID string
	port      int
	record    []*Request
	seq       int
	faults    []*Injected
	listener  *lasting // nil while stopped
	life      *life
	accepted  int
	open      int
	peak      int
}

// life is one serving process: from a start to the next stop or restart.
type life struct {
	server  *http.Server
	over    chan struct{}  // closed when it ends, so that nothing waits on
	serving sync.WaitGroup // the accept loop and the requests that run
}

// New makes an instance that does not run yet, and its directories.
func New(o Options) (*Fake, error) {
	if o.Dir == "" {
		return nil, errors.New("resmontest: Options.Dir is required")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Version == "" {
		o.Version = DefaultVersion
	}
	if o.MaxRuns == 0 {
		o.MaxRuns = 3
	}
	if o.MaxQueue == 0 {
		o.MaxQueue = 16
	}
	f := &Fake{options: o}
	for _, dir := range []string{f.StateDir(), f.dataDir()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("resmontest: %w", err)
		}
	}
	f.world = newWorld(o)
	return f, nil
}

// Start makes an instance and starts it.
func Start(o Options) (*Fake, error) {
	f, err := New(o)
	if err != nil {
		return nil, err
	}
	return f, f.Start()
}

// A T is what Run needs of a test.
type T interface {
	Helper()
	TempDir() string
	Cleanup(func())
	Fatalf(format string, args ...any)
}

// Run starts an instance that stops when the test ends, in a directory of the
// test unless o names one.
func Run(t T, o Options) *Fake {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	f, err := Start(o)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() {
		if err := f.Stop(); err != nil {
			t.Fatalf("%v", err)
		}
	})
	return f
}

// Start begins a life: with a new token and a new runtime id, on the port of the
// last life or a free one, and both files written.
func (f *Fake) Start() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.listener != nil {
		return errors.New("resmontest: runs already")
	}
	l, err := listen(f.port)
	if err != nil {
		return fmt.Errorf("resmontest: %w", err)
	}
	f.listener = &lasting{TCPListener: l}
	f.port = l.Addr().(*net.TCPAddr).Port
	if err := f.begin(); err != nil {
		f.listener = nil
		return errors.Join(err, l.Close())
	}
	return nil
}

// reborn gives the instance the token and the runtime id of another life, and its
// data what a start does to them; f.mu is held.
func (f *Fake) reborn() error {
	token, err := mintToken()
	if err != nil {
		return err
	}
	f.token, f.tokens = token, append(f.tokens, token)
	f.runtimeID = uuid.NewString()
	f.world.newLife(f.runtimeID)
	if err := errors.Join(replaceFile(f.tokenFile(f.port), token), replaceFile(f.PortFile(), strconv.Itoa(f.port))); err != nil {
		return fmt.Errorf("resmontest: %w", err)
	}
	return nil
}

// begin starts a life on the listener; f.mu is held.
func (f *Fake) begin() error {
	if err := f.reborn(); err != nil {
		return err
	}
	lf := &life{over: make(chan struct{})}
	lf.server = &http.Server{
		ReadHeaderTimeout: 10 * time.Second,
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { f.serve(lf, w, r) }),
		ErrorLog:          slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
		ConnState:         func(c net.Conn, s http.ConnState) { f.counted(lf, c, s) },
		BaseContext:       func(net.Listener) context.Context { return context.Background() },
	}
	f.life = lf
	l := f.listener
	l.resume()
	lf.serving.Add(1)
	go func() {
		defer lf.serving.Done()
		_ = lf.server.Serve(l) // ends with the life; there is no other reason
	}()
	return nil
}

// end closes every connection and waits for what runs; f.mu is not held.
func (f *Fake) end(lf *life) {
	close(lf.over)
	_ = lf.server.Close()
	lf.serving.Wait()
}

// Stop ends the life as a clean shutdown does: the port is free and both files
// are gone. A stopped instance stays stopped.
func (f *Fake) Stop() error { return f.stop(true) }

// Crash ends the life and leaves both files where they are.
func (f *Fake) Crash() error { return f.stop(false) }

func (f *Fake) stop(clean bool) error {
	f.mu.Lock()
	l, lf := f.listener, f.life
	f.listener, f.life = nil, nil
	f.mu.Unlock()
	if lf != nil {
		f.end(lf)
		if err := l.TCPListener.Close(); err != nil {
			return fmt.Errorf("resmontest: %w", err)
		}
	}
	if !clean {
		return nil
	}
	for _, path := range []string{f.TokenFile(), f.PortFile()} {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("resmontest: %w", err)
		}
	}
	return nil
}

// Restart ends the life and begins the next on the same port: another token,
// another runtime id, the data kept; runs become interrupted. The listener
// stays open, so that nobody else can take the port in between: a caller that
// connects meanwhile is answered by the new life.
func (f *Fake) Restart() error {
	f.mu.Lock()
	lf := f.life
	if lf == nil {
		f.mu.Unlock()
		return errors.New("resmontest: does not run")
	}
	f.life = nil
	f.mu.Unlock()
	f.end(lf)
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.begin()
}

// Env is the environment that names this instance: by its port file, with the
// state directory elsewhere.
func (f *Fake) Env() map[string]string {
	return map[string]string{
		"RESMON_PORT_FILE": f.PortFile(),
		"RESMON_DB_PATH":   filepath.Join(f.dataDir(), "resmon.db"),
		"RESMON_STATE_DIR": f.StateDir(),
	}
}

// PortEnv names this instance by its port alone.
func (f *Fake) PortEnv() map[string]string {
	return map[string]string{"RESMON_PORT": strconv.Itoa(f.Port()), "RESMON_STATE_DIR": f.StateDir()}
}

func (f *Fake) StateDir() string { return filepath.Join(f.options.Dir, "state") }
func (f *Fake) dataDir() string  { return filepath.Join(f.options.Dir, "data") }
func (f *Fake) PortFile() string { return filepath.Join(f.dataDir(), "resmon.port") }

// TokenFile is the file of the current port; of no use before the first start.
func (f *Fake) TokenFile() string { return f.tokenFile(f.Port()) }

func (f *Fake) tokenFile(port int) string { return filepath.Join(f.StateDir(), tokenFileName(port)) }

func tokenFileName(port int) string { return "api-token-" + strconv.Itoa(port) }

// Port is the port of this and the next life, 0 before the first.
func (f *Fake) Port() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.port
}

// Base is the URL that stands in every "tried".
func (f *Fake) Base() string { return "http://127.0.0.1:" + strconv.Itoa(f.Port()) }

// RuntimeID names the current life, or the last one.
func (f *Fake) RuntimeID() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.runtimeID
}

// Token is the current life's, for tests that look for it where it must not be.
func (f *Fake) Token() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.token
}

// Secrets lists what may leave the adapter in no way: the tokens of all lives,
// and Planted.
func (f *Fake) Secrets() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string{Planted}, f.tokens...)
}

// Connections says how many were accepted over all lives, how many are open and
// how many were at most at once.
func (f *Fake) Connections() (accepted, open, peak int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.accepted, f.open, f.peak
}

// counted also closes what was accepted after the life had ended, which the
// server no longer knows.
func (f *Fake) counted(lf *life, c net.Conn, s http.ConnState) {
	if s == http.StateNew {
		select {
		case <-lf.over:
			_ = c.Close()
		default:
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch s {
	case http.StateNew:
		f.accepted++
		f.open++
		f.peak = max(f.peak, f.open)
	case http.StateClosed, http.StateHijacked:
		f.open--
	}
}

// lasting is a listener that survives the server that accepts from it.
type lasting struct{ *net.TCPListener }

// Close makes Accept return and leaves the socket open.
func (l *lasting) Close() error { return l.SetDeadline(time.Unix(1, 0)) }

func (l *lasting) resume() { _ = l.SetDeadline(time.Time{}) }

// listen takes the port, or a free one for 0. Free ones come from below the
// ephemeral ranges of the usual systems: there no outgoing connection takes the
// port of an instance that is down for a moment.
func listen(port int) (*net.TCPListener, error) {
	at := func(port int) (*net.TCPListener, error) {
		return net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	}
	if port != 0 {
		return at(port)
	}
	for range 64 {
		n, err := rand.Int(rand.Reader, big.NewInt(10_000))
		if err != nil {
			return nil, err
		}
		if l, err := at(20_000 + int(n.Int64())); err == nil {
			return l, nil
		}
	}
	return at(0)
}

// mintToken makes 43 characters.
func mintToken() (string, error) {
	b := make([]byte, 32)
	if _, err := rand.Read(b); err != nil {
		return "", fmt.Errorf("resmontest: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(b), nil
}

// replaceFile gives a reader all of the text or what was there before.
func replaceFile(path, text string) error {
	partial := path + ".partial"
	if err := os.WriteFile(partial, []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(partial, path)
}
