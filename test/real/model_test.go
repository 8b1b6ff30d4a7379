package real

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"testing"
)

// theJob stands in a script for the id of the job whose handle the CLI was
// given last: a script is fixed before there is a job.
const theJob = "THE-JOB"

// jobID finds ids in records, at whatever depth of quoting; the description of
// job_status shows an id as well.
var jobID = regexp.MustCompile(`JobId\W{1,9}(job_[0-9a-z]{8}_[0-9A-Za-z]{11})`)

// model is one of the scripted model endpoints of the shared examples, and the
// proxy before it that fills in theJob and theMission.
type model struct {
	url string // what the CLI is told
	log string

	mu      sync.Mutex
	offered []string // the tools of the last request that had any
}

// take reads the tools of a request: those of a namespace as namespace::tool. The
// model's own log cuts a long list.
func (m *model) take(body []byte) {
	type tool struct {
		Name, Type string
		Tools      []tool
	}
	var request struct{ Tools []tool }
	if json.Unmarshal(body, &request) != nil || len(request.Tools) == 0 {
		return
	}
	var names []string
	for _, t := range request.Tools {
		if t.Type != "namespace" {
			names = append(names, cmp.Or(t.Name, t.Type))
		}
		for _, in := range t.Tools {
			names = append(names, t.Name+"::"+in.Name)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.offered = names
}

// startModel runs a scripted model. seen is called with each request while the
// CLI waits for its next step.
func startModel(t *testing.T, program string, script any, seen func(body []byte)) *model {
	t.Helper()
	path := filepath.Join(root(t), "..", "shared", "examples", "scripted-model", program)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("the scripted model is not here, so no CLI is driven: %v", err)
	}
	if _, err := exec.LookPath("python3"); err != nil {
		t.Fatalf("the scripted model needs python3: %v", err)
	}
	m := &model{log: filepath.Join(t.TempDir(), "model.log")}
	port := freePort(t)
	startProcess(t, program, environment(t.TempDir(), "SCRIPT="+mustJSON(t, script), "FAKELOG="+m.log), []string{"python3", path, strconv.Itoa(port)})
	target := fmt.Sprintf("127.0.0.1:%d", port)
	eventually(t, program+" listens", func() bool {
		conn, err := net.Dial("tcp", target)
		if err != nil {
			return false
		}
		return conn.Close() == nil
	})
	proxy := httptest.NewServer(fillIn(&url.URL{Scheme: "http", Host: target}, func(body []byte) {
		m.take(body)
		seen(body)
	}))
	t.Cleanup(proxy.Close)
	m.url = proxy.URL
	return m
}

// fillIn hands requests on and puts the last job id of a request into its
// answer.
func fillIn(target *url.URL, seen func(body []byte)) http.Handler {
	// The model closes each connection, and nothing may outlive the test.
	base := &http.Transport{DisableKeepAlives: true}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		seen(body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		id := theJob
		if ids := jobID.FindAllStringSubmatch(string(body), -1); len(ids) > 0 {
			id = ids[len(ids)-1][1]
		}
		proxy := httputil.ReverseProxy{
			Transport: base,
			Rewrite:   func(p *httputil.ProxyRequest) { p.SetURL(target) },
			ModifyResponse: func(resp *http.Response) error {
				text, err := io.ReadAll(resp.Body)
				if err != nil {
					return err
				}
				text = bytes.ReplaceAll(text, []byte(theJob), []byte(id))
				if mission := missionID.Find(body); mission != nil {
					text = bytes.ReplaceAll(text, []byte(theMission), mission)
				}
				resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
				resp.Header.Del("Content-Length")
				return nil
			},
		}
		proxy.ServeHTTP(w, r)
	})
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// heard is what the CLI told its model: the tools that it may use, as of the
// last request, and the results of its calls, each once.
func (m *model) heard(t *testing.T) (tools []string, results []json.RawMessage) {
	t.Helper()
	last := ""
	for _, line := range readLines(t, m.log) {
		var entry struct {
			Result json.RawMessage
		}
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Logf("the model's log has a line that was cut or is no JSON: %.100s", line)
			continue
		}
		if entry.Result != nil && string(entry.Result) != last { // a CLI may ask more than once in one state
			last = string(entry.Result)
			results = append(results, entry.Result)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.offered, results
}
