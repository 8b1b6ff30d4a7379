package main

import (
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/transport/rest"
)

// TestAJobsResultIsProofOnceItIsReleased: a read that became a job proves
// nothing while its result lies in the journal, whoever has it released and by
// which way; what is cut waits for its last part; and it grants once.
func TestAJobsResultIsProofOnceItIsReleased(t *testing.T) {
	address, _ := fileServer(t)
	h := newHouse(t)
	h.configure(map[string]any{
		"mcpServers": map[string]any{"fs": map[string]any{"url": address, "berth": map[string]any{"effects": []any{
			map[string]any{"verb": "read_text_file", "is": []string{"read"}}, map[string]any{"verb": "write_file", "is": []string{"write", "destroy"}}}}}},
		"berth": map[string]any{"proofs": readBeforeWrite("fs__read_text_file", "fs__write_file"), "drain_timeout": "0s"},
	})
	must(t, h.start())
	w := newWire(h, "proofs")
	short := filepath.Join(t.TempDir(), "short.txt")
	must(t, os.WriteFile(short, []byte("before"), 0o600))
	long := filepath.Join(t.TempDir(), "long.txt")
	must(t, os.WriteFile(long, []byte(strings.Repeat("a line of text that is not short\n", 400)), 0o600))

	// read makes a job and waits for its end through the operator's list, which
	// has no results.
	read := func(path, key string) (job string) {
		t.Helper()
		r, err := w.call(t.Context(), "fs__read_text_file", map[string]any{"path": path}, key)
		must(t, err)
		if r.JobID == "" {
			t.Fatalf("no job: %+v", r)
		}
		eventually(t, "the job has ended", func() bool {
			var jobs rest.Page[struct{ JobId, Status string }]
			must(t, h.api("/api/v1/jobs", nil, &jobs))
			for _, j := range jobs.Objects {
				if j.JobId == r.JobID {
					return j.Status == "Succeeded"
				}
			}
			return false
		})
		return r.JobID
	}
	write := func(path string) reply {
		t.Helper()
		r, err := w.call(t.Context(), "fs__write_file", map[string]any{"path": path, "content": "after"}, "")
		must(t, err)
		return r
	}
	held := func(when, path, reason string) {
		t.Helper()
		if no := refused(t, write(path)); no.Code != "targets_not_ready" || no.Detail.Unproven[0].Reason != reason {
			t.Errorf("%s: %+v", when, no)
		}
	}
	passes := func(when, path string) {
		t.Helper()
		if r := write(path); r.IsError {
			t.Errorf("%s: %+v", when, r)
		}
	}

	job := read(short, "one")
	held("before the result is released", short, "no_mark")
	status := map[string]any{"name": "job_status", "arguments": map[string]any{"jobId": job}}
	_, err := w.request(t.Context(), "tools/call", status)
	must(t, err)
	passes("after job_status", short)
	_, err = w.request(t.Context(), "tools/call", status)
	must(t, err)
	held("the same result again", short, "used")

	job = read(short, "two")
	_, err = w.request(t.Context(), "tasks/result", map[string]any{"taskId": job})
	must(t, err)
	passes("after tasks/result", short)

	job = read(short, "three")
	var record json.RawMessage
	must(t, h.api("/api/v1/jobs/"+url.PathEscape(job), nil, &record))
	passes("after the operator API", short)

	job = read(long, "four")
	raw, err := w.request(t.Context(), "tools/call", map[string]any{"name": "job_status", "arguments": map[string]any{"jobId": job}, "_meta": map[string]any{"berth/resultTokens": 1000}})
	must(t, err)
	at := strings.Index(string(raw), `"m_`) + 1 // a job's id may hold these letters, too
	if at == 0 {
		t.Fatalf("the result was not cut: %s", raw)
	}
	held("a part of the result", long, "no_mark")
	for range 50 {
		raw, err := w.request(t.Context(), "tools/call", map[string]any{"name": "more", "arguments": map[string]any{"handle": string(raw[at : at+28])}})
		must(t, err)
		var page struct {
			StructuredContent struct {
				Next *int `json:"next_offset"`
			}
		}
		must(t, json.Unmarshal(raw, &page))
		if page.StructuredContent.Next == nil {
			break
		}
	}
	passes("after the last part", long)
}
