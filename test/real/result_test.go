package real

import (
	"encoding/json"
	"net/url"
	"os"
	"strings"
	"testing"
)

func unmarshal(t *testing.T, text string, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
}

func readLines(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	whole, _, _ := strings.Cut(string(text[:strings.LastIndexByte(string(text), '\n')+1]), "\x00")
	return strings.Split(strings.TrimSuffix(whole, "\n"), "\n")
}

func portOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Port()
}

// textOf is the first text of a tool's result.
func textOf(t *testing.T, result json.RawMessage) string {
	t.Helper()
	var r struct{ Content []struct{ Text string } }
	if err := json.Unmarshal(result, &r); err != nil || len(r.Content) == 0 {
		t.Fatalf("no text in %s: %v", result, err)
	}
	return r.Content[0].Text
}

// jobRecord is what a handle and job_status say.
type jobRecord struct {
	JobID     string `json:"JobId"`
	Operation string
	Status    string
	Result    json.RawMessage
	Reason    string
}

// job reads a handle, or a record, from the text that a model reads.
func job(t *testing.T, a answer) jobRecord {
	t.Helper()
	if a.Error != nil {
		t.Fatalf("%+v", a.Error)
	}
	var r jobRecord
	unmarshal(t, textOf(t, a.Result), &r)
	return r
}

// follow waits for the end of a job.
func follow(t *testing.T, c *client, id string) jobRecord {
	t.Helper()
	var r jobRecord
	for range 10 {
		r = job(t, c.call("job_status", map[string]any{"jobId": id, "waitSeconds": 10}))
		if r.Status != "Accepted" && r.Status != "Running" {
			return r
		}
	}
	t.Fatalf("the job does not end: %+v", r)
	return r
}
