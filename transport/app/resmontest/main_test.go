package resmontest

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// reply is an answer as a client sees it.
type reply struct {
	status int
	header http.Header
	body   []byte
	err    error // of the body
}

func (r reply) text() string { return string(r.body) }

// object decodes a body that must be an object.
func (r reply) object(t *testing.T) object {
	t.Helper()
	var o object
	dec := json.NewDecoder(bytes.NewReader(r.body))
	dec.UseNumber()
	if err := dec.Decode(&o); err != nil {
		t.Fatalf("%v in %.300s", err, r.body)
	}
	return o
}

// list decodes a body that must be an array of objects.
func (r reply) list(t *testing.T) []object {
	t.Helper()
	var o []object
	if err := json.Unmarshal(r.body, &o); err != nil {
		t.Fatalf("%v in %.300s", err, r.body)
	}
	return o
}

// client is one connection a request, so that nothing stays open behind a test.
var client = &http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true, Proxy: nil},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

func (f *Fake) request(t *testing.T, method, path, body string) *http.Request {
	t.Helper()
	var sent io.Reader
	if body != "" {
		sent = strings.NewReader(body)
	}
	req, err := http.NewRequest(method, f.Base()+path, sent)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+f.Token())
	return req
}

func do(req *http.Request) (reply, error) {
	resp, err := client.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return reply{status: resp.StatusCode, header: resp.Header, body: body, err: err}, nil
}

// ask sends a request that must be answered.
func ask(t *testing.T, f *Fake, method, path, body string) reply {
	t.Helper()
	r, err := do(f.request(t, method, path, body))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func get(t *testing.T, f *Fake, path string) reply { t.Helper(); return ask(t, f, "GET", path, "") }

// must asks for a 200.
func must(t *testing.T, f *Fake, method, path, body string) reply {
	t.Helper()
	r := ask(t, f, method, path, body)
	if r.status != http.StatusOK {
		t.Fatalf("%s %s: %d %s", method, path, r.status, r.body)
	}
	return r
}
