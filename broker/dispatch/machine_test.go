package dispatch

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

var at = time.Date(2026, 5, 4, 9, 0, 0, 0, time.UTC)

// edges are the tables of contracts/native.md section 22, written out once more.
const edges = `
mission Pending: Assigned Cancelled
mission Assigned: InProgress Cancelled Failed
mission InProgress: WorkProduced Testing Review Complete Failed Cancelled
mission WorkProduced: PullRequestOpen Complete LandingFailed Failed Cancelled
mission PullRequestOpen: Complete LandingFailed Cancelled
mission Testing: Review InProgress Complete Failed
mission Review: Complete InProgress Failed
mission LandingFailed: WorkProduced Failed Cancelled
mission Complete:
mission Failed:
mission Cancelled:
voyage Open: InProgress Complete Failed Cancelled
voyage InProgress: Complete Failed Cancelled
voyage Failed: InProgress
voyage Complete:
voyage Cancelled:
captain Idle: Working Planning Refining Benched Quarantined
captain Working: Idle Stalled Stopping
captain Stalled: Working Stopping Idle
captain Stopping: Idle
captain Planning: Idle Stopping
captain Refining: Idle Stopping
captain Benched: Idle
captain Quarantined: Idle
dock Available: Provisioning
dock Provisioning: Leased Failed
dock Leased: Reclaiming
dock Reclaiming: Available Failed
dock Failed: Reclaiming
`

func TestEveryStepIsInTheTableAndNoOther(t *testing.T) {
	want := map[string]map[string][]string{}
	for line := range strings.Lines(strings.TrimSpace(edges)) {
		head, tail, _ := strings.Cut(line, ":")
		machine, from, _ := strings.Cut(head, " ")
		if want[machine] == nil {
			want[machine] = map[string][]string{}
		}
		want[machine][from] = strings.Fields(tail)
	}
	step := map[string]func(from, to string) error{
		"mission": func(from, to string) error {
			m, err := Mission{ID: "m", Status: MissionStatus(from)}.Step(MissionStatus(to), "", "", at)
			if err == nil && (string(m.Status) != to || (m.CompletedUTC != nil) != m.Status.Final()) {
				t.Errorf("%s to %s gave %+v", from, to, m)
			}
			return err
		},
		"voyage": func(from, to string) error {
			v, err := Voyage{Status: VoyageStatus(from)}.Step(VoyageStatus(to), at)
			if err == nil && (v.CompletedUTC != nil) != v.Status.Over() {
				t.Errorf("%s to %s gave %+v", from, to, v)
			}
			return err
		},
		"captain": func(from, to string) error {
			_, err := Captain{State: CaptainState(from)}.Step(CaptainState(to))
			return err
		},
		"dock": func(from, to string) error {
			_, err := Dock{State: DockState(from)}.Step(DockState(to))
			return err
		},
	}
	for machine, table := range want {
		for from, allowed := range table {
			for to := range table {
				err := step[machine](from, to)
				if slices.Contains(allowed, to) != (err == nil) || err != nil && !errors.Is(err, ErrStep) {
					t.Errorf("%s %s to %s: %v", machine, from, to, err)
				}
			}
			if step[machine](from, "Elsewhere") == nil || step[machine]("Elsewhere", from) == nil {
				t.Errorf("%s %s leads to what does not exist", machine, from)
			}
		}
	}
}

func TestOnlyTheBrokerFailsAnAssignedMission(t *testing.T) {
	m := Mission{Status: MissionAssigned}
	if _, err := m.StepAsked(MissionFailed, at); !errors.Is(err, ErrStep) {
		t.Errorf("got %v", err)
	}
	if got, err := m.StepAsked(MissionCancelled, at); err != nil || got.Status != MissionCancelled {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := m.Step(MissionFailed, LaunchFailed, "no such program", at); err != nil || *got.FailureReason != LaunchFailed || *got.FailureMessage != "no such program" {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestARestartedMissionIsAsNew(t *testing.T) {
	text, n, reason := "x", 7, ExitNonzero
	for _, from := range []MissionStatus{MissionFailed, MissionCancelled} {
		got, err := Mission{ID: "m", Title: "t", Status: from, CaptainID: &text, DockID: &text, ProcessID: &n, Branch: &text, Commit: &text, PRURL: &text,
			FailureReason: &reason, FailureMessage: &text, Landing: true, AssignedUTC: &at, StartedUTC: &at, CompletedUTC: &at}.Restarted(at)
		want := Mission{ID: "m", Title: "t", Status: MissionPending, Assignment: AssignmentPending, LastUpdateUTC: at}
		if err != nil || got.CaptainID != nil || got.FailureReason != nil || got.CompletedUTC != nil || got.Branch != nil || got.Status != want.Status || got.Landing {
			t.Errorf("got %+v, %v", got, err)
		}
	}
	for _, ref := range []*string{nil, &text} { // of a ref, what it was resolved to stays
		got, err := Mission{Status: MissionFailed, StartFromRef: ref, StartCommit: &text}.Restarted(at)
		if err != nil || (got.StartCommit == nil) != (ref == nil) {
			t.Errorf("got %+v, %v", got, err)
		}
	}
	for status := range missions {
		if status != MissionFailed && status != MissionCancelled {
			if _, err := (Mission{Status: status}).Restarted(at); !errors.Is(err, ErrStep) {
				t.Errorf("%s: %v", status, err)
			}
		}
	}
}

func TestAStartLeavesNothingRunning(t *testing.T) {
	for status, want := range map[MissionStatus]MissionStatus{
		MissionPending: MissionPending, MissionAssigned: MissionFailed, MissionInProgress: MissionFailed,
		MissionWorkProduced: MissionWorkProduced, MissionLandingFailed: MissionLandingFailed, MissionComplete: MissionComplete,
	} {
		got := Mission{Status: status}.Recovered(at)
		if got.Status != want || (status != want) != (got.FailureReason != nil) {
			t.Errorf("%s became %+v", status, got)
		}
	}
	if got := (Mission{Status: MissionWorkProduced, Landing: true}).Recovered(at); got.Status != MissionLandingFailed || *got.FailureReason != LostOnRestart {
		t.Errorf("a landing that had begun became %+v", got)
	}
	text, n := "x", 7
	for _, state := range []CaptainState{CaptainWorking, CaptainStalled, CaptainStopping} {
		got := Captain{State: state, MissionID: &text, ProcessID: &n}.Recovered()
		if got.State != CaptainIdle || got.MissionID != nil || got.ProcessID != nil {
			t.Errorf("%s became %+v", state, got)
		}
	}
	for _, state := range []CaptainState{CaptainIdle, CaptainBenched, CaptainQuarantined} {
		if got := (Captain{State: state}).Recovered(); got.State != state {
			t.Errorf("%s became %s", state, got.State)
		}
	}
	for _, tt := range []struct {
		from DockState
		live bool
		want DockState
	}{{DockProvisioning, false, DockFailed}, {DockLeased, false, DockReclaiming}, {DockLeased, true, DockLeased}, {DockAvailable, false, DockAvailable}, {DockFailed, false, DockFailed}} {
		if got := (Dock{State: tt.from}).Recovered(tt.live); got.State != tt.want {
			t.Errorf("%+v became %s", tt, got.State)
		}
	}
}

func TestStatusesAnswerForThemselves(t *testing.T) {
	for status := range missions {
		ends := status == MissionComplete || status == MissionFailed || status == MissionCancelled
		if status.Final() != ends || !status.Known() || status.Open() != (!ends && status != MissionLandingFailed) {
			t.Errorf("%s: final %v, open %v", status, status.Final(), status.Open())
		}
	}
	if MissionStatus("Done").Known() || MissionStatus("Done").Final() || VoyageStatus("Done").Known() || !VoyageOpen.Known() {
		t.Error("a word that is no status is one")
	}
	for state, busy := range map[CaptainState]bool{CaptainIdle: false, CaptainBenched: false, CaptainWorking: true, CaptainStopping: true} {
		if state.Busy() != busy {
			t.Errorf("%s is busy: %v", state, state.Busy())
		}
	}
}
