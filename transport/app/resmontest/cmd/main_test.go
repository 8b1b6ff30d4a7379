package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestItNamesItselfAnswersAndCleansUp(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	r, w := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		code := run(ctx, []string{"-dir", dir, "-data", "small", "-stamp", "demo", "-first-id", "500", "-fault", "missing_identity,status_500"}, w, io.Discard)
		w.Close()
		ended <- code
	}()
	env, base := map[string]string{}, ""
	lines := bufio.NewScanner(r)
	for base == "" && lines.Scan() {
		if name, value, is := strings.Cut(lines.Text(), "="); is {
			env[name] = value
		} else {
			base = lines.Text()[strings.LastIndex(lines.Text(), "http"):]
		}
	}
	port, err := os.ReadFile(env["RESMON_PORT_FILE"])
	if err != nil || base != "http://127.0.0.1:"+string(port) {
		t.Fatalf("it says %s and %v; the file has %s, %v", base, env, port, err)
	}
	token, err := os.ReadFile(filepath.Join(env["RESMON_STATE_DIR"], "api-token-"+string(port)))
	if err != nil {
		t.Fatal(err)
	}
	get := func(path string) (int, string) {
		req, err := http.NewRequest("GET", base+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+string(token))
		resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	// The health check spares what would keep everybody from asking for more.
	if status, body := get("/api/health"); status != 200 || !strings.Contains(body, `"stamp":"demo"`) || strings.Contains(body, "identity") {
		t.Errorf("%d %s", status, body)
	}
	if status, body := get("/api/routines"); status != 500 {
		t.Errorf("%d %s", status, body)
	}
	stop()
	if code := <-ended; code != 0 {
		t.Errorf("it ended with %d", code)
	}
	for _, path := range []string{env["RESMON_PORT_FILE"], filepath.Join(env["RESMON_STATE_DIR"], "api-token-"+string(port))} {
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("%s is still there: %v", path, err)
		}
	}
}

func TestWhatItDoesNotKnowIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		args []string
		code int
		said string
	}{
		{"no directory", nil, 2, "usage:"},
		{"a data set", []string{"-dir", "x", "-data", "vast"}, 2, "usage:"},
		{"an argument", []string{"-dir", "x", "y"}, 2, "usage:"},
		{"a flag", []string{"-port", "1"}, 2, "-port"},
		{"a fault", []string{"-dir", "x", "-fault", "slow,flood"}, 2, `no fault "flood"`},
		{"a file for a directory", []string{"-dir", file}, 1, "not a directory"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out, errOut bytes.Buffer
			if code := run(t.Context(), tt.args, &out, &errOut); code != tt.code || !strings.Contains(errOut.String(), tt.said) || out.Len() > 0 {
				t.Errorf("ended with %d: %s%s", code, out.String(), errOut.String())
			}
		})
	}
}
