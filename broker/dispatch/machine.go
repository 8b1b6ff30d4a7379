package dispatch

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// ErrStep is a step that a transition table does not have.
var ErrStep = errors.New("the step is not in the transition table")

// table is the transitions of one machine: from each status, those that may
// follow it. A status without any is final.
type table[S ~string] map[S][]S

// step gives ErrStep when the table does not lead from one status to the other.
func (t table[S]) step(from, to S) error {
	if slices.Contains(t[from], to) {
		return nil
	}
	return fmt.Errorf("%w: from %s to %s", ErrStep, from, to)
}

// MissionStatus is where a mission stands. Complete, Failed and Cancelled are
// final; Restart alone leads out of the last two.
type MissionStatus string

// The statuses of a mission.
const (
	MissionPending         MissionStatus = "Pending"
	MissionAssigned        MissionStatus = "Assigned"
	MissionInProgress      MissionStatus = "InProgress"
	MissionWorkProduced    MissionStatus = "WorkProduced"
	MissionPullRequestOpen MissionStatus = "PullRequestOpen"
	MissionTesting         MissionStatus = "Testing"
	MissionReview          MissionStatus = "Review"
	MissionLandingFailed   MissionStatus = "LandingFailed"
	MissionComplete        MissionStatus = "Complete"
	MissionFailed          MissionStatus = "Failed"
	MissionCancelled       MissionStatus = "Cancelled"
)

// missions is the one table of missions. Assigned to Failed is for the broker
// only (a launch, provisioning or a restart failed): see Mission.StepAsked.
var missions = table[MissionStatus]{
	MissionPending:         {MissionAssigned, MissionCancelled},
	MissionAssigned:        {MissionInProgress, MissionCancelled, MissionFailed},
	MissionInProgress:      {MissionWorkProduced, MissionTesting, MissionReview, MissionComplete, MissionFailed, MissionCancelled},
	MissionWorkProduced:    {MissionPullRequestOpen, MissionComplete, MissionLandingFailed, MissionFailed, MissionCancelled},
	MissionPullRequestOpen: {MissionComplete, MissionLandingFailed, MissionCancelled},
	MissionTesting:         {MissionReview, MissionInProgress, MissionComplete, MissionFailed},
	MissionReview:          {MissionComplete, MissionInProgress, MissionFailed},
	MissionLandingFailed:   {MissionWorkProduced, MissionFailed, MissionCancelled},
	MissionComplete:        nil, MissionFailed: nil, MissionCancelled: nil,
}

// MissionStatuses lists every status, in byte order.
func MissionStatuses() []MissionStatus { return slices.Sorted(maps.Keys(missions)) }

// VoyageStatuses lists every status, in byte order.
func VoyageStatuses() []VoyageStatus { return slices.Sorted(maps.Keys(voyages)) }

// CaptainStates lists every state, in byte order.
func CaptainStates() []CaptainState { return slices.Sorted(maps.Keys(captains)) }

// DockStates lists every state, in byte order.
func DockStates() []DockState { return slices.Sorted(maps.Keys(docks)) }

// Known reports whether s is a status of missions.
func (s MissionStatus) Known() bool { _, ok := missions[s]; return ok }

// Final reports whether s has no exits.
func (s MissionStatus) Final() bool { return s.Known() && len(missions[s]) == 0 }

// Live reports whether an agent works on the mission, or is about to.
func (s MissionStatus) Live() bool { return s == MissionAssigned || s == MissionInProgress }

// Open reports whether a voyage with such a mission goes on.
func (s MissionStatus) Open() bool {
	return !s.Final() && s != MissionLandingFailed
}

// VoyageStatus is where a voyage stands.
type VoyageStatus string

// The statuses of a voyage.
const (
	VoyageOpen       VoyageStatus = "Open"
	VoyageInProgress VoyageStatus = "InProgress"
	VoyageComplete   VoyageStatus = "Complete"
	VoyageFailed     VoyageStatus = "Failed"
	VoyageCancelled  VoyageStatus = "Cancelled"
)

// voyages is the one table of voyages. Failed to InProgress is for a mission
// that is restarted or landed again.
var voyages = table[VoyageStatus]{
	VoyageOpen:       {VoyageInProgress, VoyageComplete, VoyageFailed, VoyageCancelled},
	VoyageInProgress: {VoyageComplete, VoyageFailed, VoyageCancelled},
	VoyageFailed:     {VoyageInProgress},
	VoyageComplete:   nil, VoyageCancelled: nil,
}

// Known reports whether s is a status of voyages.
func (s VoyageStatus) Known() bool { _, ok := voyages[s]; return ok }

// Over reports whether the voyage has ended.
func (s VoyageStatus) Over() bool {
	return s == VoyageComplete || s == VoyageFailed || s == VoyageCancelled
}

// CaptainState is what a captain does.
type CaptainState string

// The states of a captain.
const (
	CaptainIdle        CaptainState = "Idle"
	CaptainWorking     CaptainState = "Working"
	CaptainPlanning    CaptainState = "Planning"
	CaptainRefining    CaptainState = "Refining"
	CaptainStalled     CaptainState = "Stalled"
	CaptainStopping    CaptainState = "Stopping"
	CaptainBenched     CaptainState = "Benched"
	CaptainQuarantined CaptainState = "Quarantined"
)

// captains is the one table of captains. A start leads Working, Stalled and
// Stopping to Idle once the process is gone: see Captain.Recovered.
var captains = table[CaptainState]{
	CaptainIdle:        {CaptainWorking, CaptainPlanning, CaptainRefining, CaptainBenched, CaptainQuarantined},
	CaptainWorking:     {CaptainIdle, CaptainStalled, CaptainStopping},
	CaptainStalled:     {CaptainWorking, CaptainStopping, CaptainIdle},
	CaptainStopping:    {CaptainIdle},
	CaptainPlanning:    {CaptainIdle, CaptainStopping},
	CaptainRefining:    {CaptainIdle, CaptainStopping},
	CaptainBenched:     {CaptainIdle},
	CaptainQuarantined: {CaptainIdle},
}

// Busy reports whether a captain in s has a process or may have one.
func (s CaptainState) Busy() bool {
	switch s {
	case CaptainWorking, CaptainPlanning, CaptainRefining, CaptainStalled, CaptainStopping:
		return true
	}
	return false
}

// DockState is where a worktree stands.
type DockState string

// The states of a dock.
const (
	DockAvailable    DockState = "Available"
	DockProvisioning DockState = "Provisioning"
	DockLeased       DockState = "Leased"
	DockReclaiming   DockState = "Reclaiming"
	DockFailed       DockState = "Failed"
)

// docks is the one table of docks.
var docks = table[DockState]{
	DockAvailable:    {DockProvisioning},
	DockProvisioning: {DockLeased, DockFailed},
	DockLeased:       {DockReclaiming},
	DockReclaiming:   {DockAvailable, DockFailed},
	DockFailed:       {DockReclaiming},
}
