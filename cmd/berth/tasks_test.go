package main

import (
	"os/exec"
	"strings"
	"testing"

	"berth/cmd/internal/brokerproc"
	"berth/transport/rest"
)

// A backend whose verb runs as a task of the backend's own: mcp-go's server, in
// a process that outlives the broker.
type tasked struct {
	t       *testing.T
	house   *house
	backend *brokerproc.Process
	wire    *wire
}

func newTasked(t *testing.T) *tasked {
	k := &tasked{t: t, house: newHouse(t)}
	k.serve("127.0.0.1:0")
	t.Cleanup(func() { k.backend.Kill() })
	k.house.configure(map[string]any{
		"mcpServers": map[string]any{"be": map[string]any{"url": "http://" + k.backend.Addr() + "/mcp"}},
		"berth":      map[string]any{"drain_timeout": "0s"},
	})
	must(t, k.house.start())
	k.wire = newWire(k.house, "task-client")
	return k
}

func (k *tasked) serve(listen string) {
	k.t.Helper()
	var err error
	k.backend, err = brokerproc.Start(k.t.Context(), exec.Command(k.house.bin.fixture, "tasks", "--listen", listen))
	must(k.t, err)
}

// submit begins work and waits until the broker has asked for it once, before
// which the handle is durable.
func (k *tasked) submit(seconds float64) string {
	k.t.Helper()
	job, err := k.wire.call(k.t.Context(), "be__count", map[string]any{"seconds": seconds}, "")
	must(k.t, err)
	if job.JobID == "" {
		k.t.Fatalf("no job: %+v", job)
	}
	eventually(k.t, "the broker has asked for the task", func() bool {
		var list rest.Page[rest.Backend]
		must(k.t, k.house.api("/api/v1/backends", nil, &list))
		for _, b := range list.Objects {
			if b.Name == "be" {
				return b.Answered >= 2 // the call and a poll
			}
		}
		return false
	})
	return job.JobID
}

func TestABackendsOwnTaskOutlivesTheBroker(t *testing.T) {
	t.Parallel()
	k := newTasked(t)
	job := k.submit(3)
	k.house.broker.Kill()
	k.house.awaitNobody()
	must(t, k.house.start())
	if got := k.wire.want(job, "Succeeded", ""); !strings.Contains(string(got.Result), "counted 3 s") {
		t.Errorf("the result is %s", got.Result)
	}
	if code, out, errOut := k.house.berth("journal", "check"); code != exitOK {
		t.Errorf("exit %d, %s%s", code, out, errOut)
	}
}

func TestABackendThatForgotItsTaskLosesTheJob(t *testing.T) {
	t.Parallel()
	k := newTasked(t)
	job := k.submit(600)
	addr := k.backend.Addr()
	k.backend.Kill()
	k.serve(addr)
	k.wire.want(job, "Lost", "tracked_work_lost")
}
