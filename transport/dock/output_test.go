//go:build unix

package dock

import (
	"errors"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"berth/broker/dispatch"
)

func TestOutputIsBoundedAndGoesOn(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, brief string }{
		{"a gigabyte in lines", "@print 1000000000"}, {"a line that does not end", "@noline 200000000"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			y := newYard(t)
			w := y.work("msn_a", y.vessel())
			y.prepare(&w)
			var h heard
			brief := tt.brief
			if raced {
				brief = brief[:len(brief)-1] // a hundred megabytes
			}
			a := y.start(w, lines(brief, "@say ", "@marker PROGRESS 99", "@stderr that was all"), "", &h)
			y.await(a.Done(), "the agent's end")
			if end := a.End(); end.Code == nil || *end.Code != 0 {
				t.Fatalf("ended %+v", end)
			}
			info, err := os.Stat(y.state("missions/msn_a/log"))
			if err != nil || info.Size() > 1<<20+notesRoom {
				t.Errorf("the log has %d bytes, %v", info.Size(), err)
			}
			log := y.log("msn_a")
			if strings.Count(log, "has reached its limit") != 1 || !strings.Contains(log, "[berth] The agent exited with code 0") || strings.Contains(log, "that was all") {
				t.Errorf("the log ends with %s", log[max(0, len(log)-500):])
			}
			if beats, progress, _ := h.said(); progress != 99 || beats < 200 {
				t.Errorf("heard %d beats, progress %d", beats, progress)
			}
			if text, _, err := y.papers.Output("msn_a"); err != nil || len(text) > maxMessage || !strings.HasSuffix(text, "[BERTH:PROGRESS] 99") {
				t.Errorf("the output has %d bytes, %v", len(text), err)
			}
		})
	}
}

func TestWhatAnAgentSaysOfItsCredentialsIsTakenOut(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	y.secrets["captain-cpt_1"] = aKey
	script := y.file("leak.sh")
	y.write(script, "#!/bin/sh\ncat >/dev/null\nhead -c 65530 /dev/zero | tr '\\0' x\nprintf '%s' \"$ARMADA_MCP_TOKEN\"\nhead -c 70000 /dev/zero | tr '\\0' x\necho\n"+
		"echo \"the key is $CAPTAIN_API_KEY\"\necho \"token $ARMADA_MCP_TOKEN\" >&2\necho \"[BERTH:STATUS] with $ARMADA_MCP_TOKEN\"\necho \"password=hunter2hunter2\"\n")
	if err := os.Chmod(script, 0o755); err != nil {
		t.Fatal(err)
	}
	w := y.work("msn_a", y.vessel())
	w.Captain.CustomCommand = []string{script}
	y.prepare(&w)
	var h heard
	a := y.start(w, "", aToken, &h)
	y.await(a.Done(), "the agent's end")
	_, _, status := h.said()
	output, _, err := y.papers.Output("msn_a")
	if err != nil {
		t.Fatal(err)
	}
	log := y.log("msn_a")
	for what, text := range map[string]string{"the log": log, "the output": output, "its status": status, "its end": a.End().Stderr, "Berth's log": y.logged.String()} {
		for _, secret := range []string{aToken[:16], aToken[40:], aKey, "hunter2"} {
			if strings.Contains(text, secret) {
				t.Errorf("%s has %.5s...", what, secret)
			}
		}
	}
	if !strings.Contains(log, "the key is ***") || status != "with ***" || a.End().Stderr == "" || !strings.Contains(log, "Z ... ***") {
		t.Errorf("status %q, the end of the log %s", status, log[max(0, len(log)-500):])
	}
}

func TestALastMessageInAFileCounts(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	w := y.work("msn_a", y.vessel())
	w.Captain.Runtime = dispatch.Codex
	y.prepare(&w)
	a := y.start(w, lines("@say one", "@say two"), "", &heard{})
	y.await(a.Done(), "the agent's end")
	if text, ok, err := y.papers.Output("msn_a"); err != nil || !ok || text != "two" {
		t.Errorf("got %q, %v, %v", text, ok, err)
	}
	a = y.start(w, "@exit 1", "", &heard{}) // it leaves no file
	y.await(a.Done(), "the agent's end")
	if text, ok, err := y.papers.Output("msn_a"); err != nil || !ok || text != "" {
		t.Errorf("got %q, %v, %v", text, ok, err)
	}
}

func TestWhatThereIsSoFarCanBeRead(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	w := y.work("msn_a", y.vessel())
	from := y.prepare(&w)
	said := y.file("said")
	a := y.start(w, lines("@say so far", "@write README changed", "@write "+said+" x", "@hold "+y.file("on"), "@say all"), "", &heard{})
	y.awaitFile(said)
	if diff, err := y.papers.LiveDiff(t.Context(), w.Vessel, w.Dock, from.StartCommit); err != nil || !strings.Contains(diff, "+changed") {
		t.Errorf("the diff: %q, %v", diff, err)
	}
	if status, dirty, err := y.papers.DockStatus(t.Context(), w.Dock); err != nil || !dirty || status != " M README\n" {
		t.Errorf("the status: %q, %v", status, err)
	}
	if _, ok, err := y.papers.Diff("msn_a"); ok || err != nil {
		t.Errorf("a diff was saved: %v", err)
	}
	for range 1000 { // what it said before it wrote the file may still be on its way
		if text, ok, err := y.papers.Output("msn_a"); err != nil || ok {
			t.Fatalf("%q, %v, %v", text, ok, err)
		} else if text == "so far" {
			break
		}
		y.agents.Note("msn_a", "looked")
	}
	if text, _, _ := y.papers.Output("msn_a"); text != "so far" {
		t.Errorf("the output so far is %q", text)
	}
	y.write(y.file("on"), "")
	y.await(a.Done(), "the agent's end")
	if text, ok, _ := y.papers.Output("msn_a"); !ok || text != "so far\nall" {
		t.Errorf("the output is %q", text)
	}
}

// fullDisk is a file on a disk that is full after a number of bytes.
type fullDisk struct {
	io.WriteCloser
	room *atomic.Int64
}

func (f fullDisk) Write(p []byte) (int, error) {
	left := f.room.Add(-int64(len(p)))
	if left >= 0 {
		return f.WriteCloser.Write(p)
	}
	n, err := f.WriteCloser.Write(p[:max(0, len(p)+int(left))])
	return n, errors.Join(err, syscall.ENOSPC)
}

func TestAFullDiskStopsNoAgent(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	var room atomic.Int64
	room.Store(300)
	open := y.papers.create
	y.papers.create = func(path string, flag int) (io.WriteCloser, error) {
		f, err := open(path, flag)
		return fullDisk{f, &room}, err
	}
	w := y.work("msn_a", y.vessel())
	y.prepare(&w)
	end, got := y.run(&w, lines("@print 5000", "@write a a", "@commit a", "@say done"))
	if end.Code == nil || *end.Code != 0 || got.Produced == nil || !*got.Produced {
		t.Errorf("ended %+v, found %+v", end, got)
	}
	if _, ok, err := y.papers.Diff("msn_a"); ok || err != nil {
		t.Errorf("half of a diff was kept: %v", err)
	}
	if _, ok, err := y.papers.Output("msn_a"); ok || err != nil {
		t.Errorf("half of an output was kept: %v", err)
	}
	for _, want := range []string{"log cannot be written", "output could not be saved", "diff could not be saved"} {
		if !strings.Contains(y.logged.String(), want) {
			t.Errorf("Berth's log lacks %q: %s", want, y.logged.String())
		}
	}
	room.Store(1 << 20)
	y.run(&w, "@say again")
	if log := y.log("msn_a"); !strings.Contains(log, "again") {
		t.Errorf("the log: %s", log)
	}
}

func TestADiffEndsAtItsLimit(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	y.write(y.file("big"), strings.Repeat(strings.Repeat("x", 99)+"\n", (maxDiff+1<<20)/100))
	w := y.work("msn_a", y.vessel())
	w.Mission.Prestaged = []dispatch.PrestagedFile{{Source: y.file("big"), Dest: "big"}}
	from := y.prepare(&w)
	y.run(&w, "@commit big")
	for what, get := range map[string]func() (string, error){
		"saved": func() (string, error) { text, _, err := y.papers.Diff("msn_a"); return text, err },
		"live":  func() (string, error) { return y.papers.LiveDiff(t.Context(), w.Vessel, w.Dock, from.StartCommit) },
	} {
		text, err := get()
		if err != nil || len(text) < maxDiff || len(text) > maxDiff+len(cutDiffLine)+1 || !strings.HasSuffix(text, "\n"+cutDiffLine) {
			t.Errorf("%s: %d bytes, %v, end with %q", what, len(text), err, text[max(0, len(text)-100):])
		}
	}
}
