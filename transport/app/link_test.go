package app

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"runtime"
	"strings"
	"testing"
)

// joined are the two ends of a connection.
func joined(t *testing.T) (near *link, far net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := net.Dial("tcp4", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if far, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(); far.Close() })
	return &link{Conn: conn}, far
}

func TestAConnectionThatHasEndedIsNotWrittenOn(t *testing.T) {
	near, far := joined(t)
	if _, err := near.Write([]byte("a")); err != nil {
		t.Fatal(err)
	}
	if err := far.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(near); err != nil { // until the end has arrived
		t.Fatal(err)
	}
	mark := near.mark()
	if _, err := near.Write([]byte("b")); !errors.Is(err, errStale) {
		t.Errorf("%v", err)
	}
	if !near.seal(mark) {
		t.Error("it counts as written")
	}
	near.Close()
	if got, err := io.ReadAll(far); err != nil || string(got) != "a" {
		t.Errorf("%q %v", got, err)
	}
}

// An app that has seen enough of a long request may answer before its end. The
// rest is written all the same, and the answer is read.
func TestAnAnswerInTheMiddleOfARequestIsNoEnd(t *testing.T) {
	near, far := joined(t)
	near.mark()
	if _, err := near.Write([]byte("a")); err != nil {
		t.Fatal(err)
	}
	if _, err := far.Write([]byte("no")); err != nil {
		t.Fatal(err)
	}
	for !hasEnded(near.Conn) { // until it has arrived
		runtime.Gosched()
	}
	if _, err := near.Write([]byte("b")); err != nil {
		t.Errorf("%v", err)
	}
	near.mark()
	if _, err := near.Write([]byte("c")); !errors.Is(err, errStale) {
		t.Errorf("the next request: %v", err)
	}
}

func TestASealedConnectionTakesNoMore(t *testing.T) {
	near, far := joined(t)
	mark := near.mark()
	if _, err := near.Write([]byte("a")); err != nil {
		t.Fatal(err)
	}
	if near.seal(mark) {
		t.Error("what was written counts as not written")
	}
	if !near.seal(near.mark()) {
		t.Error("nothing was written since")
	}
	if _, err := near.Write([]byte("b")); !errors.Is(err, errSealed) {
		t.Errorf("%v", err)
	}
	near.Close()
	if got, _ := io.ReadAll(far); string(got) != "a" {
		t.Errorf("%q", got)
	}
}

// FuzzPortFile holds the reading of the two files: whatever stands in them, a
// port is 1 to 65535 and a token has its form.
func FuzzPortFile(f *testing.F) {
	for _, seed := range []string{"51734", " 80\n", "", "0", "65536", "-1", "٣", "80 81", strings.Repeat("1", 100)} {
		f.Add(seed, "abcdefgh\n")
	}
	f.Fuzz(func(t *testing.T, port, token string) {
		read := func(path string, limit int) ([]byte, error) {
			text := port
			if strings.Contains(path, "token.") {
				text = token
			}
			if text == "missing" {
				return nil, fs.ErrNotExist
			}
			return []byte(text[:min(len(text), limit)]), nil
		}
		n, problem := notes.find(map[string]string{"NOTES_PORT_FILE": "/x/notes.port"}, "/state", read)
		if problem != nil {
			if problem.Code != BackendUnavailable || problem.Detail["no_port_named"] != true {
				t.Errorf("%q: %s", port, problem.JSON())
			}
			return
		}
		if n.port < 1 || n.port > 65535 {
			t.Errorf("%q: %d", port, n.port)
		}
		got, problem := notes.token(n, read)
		if (problem == nil) != notes.Discovery.Token.MatchString(got) || problem != nil && strings.Contains(string(problem.JSON()), token) && len(token) > 8 {
			t.Errorf("%q: %q %v", token, got, problem)
		}
	})
}
