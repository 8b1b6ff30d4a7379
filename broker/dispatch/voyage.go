package dispatch

import (
	"cmp"
	"slices"
	"time"
)

// Change is a mission as it becomes, because of others.
type Change struct {
	Mission Mission
	From    MissionStatus
}

// Follow gives what follows from the states of a voyage's missions: those whose
// dependency ended badly are cancelled, and the earlier stages of a chain are
// settled when its last stage is. It gives nothing when nothing follows; applied
// again to its own outcome it gives nothing either.
func Follow(missions []Mission, at time.Time) []Change {
	state := map[string]Mission{}
	for _, m := range missions {
		state[m.ID] = m
	}
	order := byAge(missions)
	changed := map[string]MissionStatus{}
	put := func(m Mission, to MissionStatus, reason FailureReason, message string) bool {
		next, err := m.Step(to, reason, message, at)
		if err != nil {
			return false
		}
		if _, already := changed[m.ID]; !already {
			changed[m.ID] = m.Status
		}
		state[m.ID] = next
		return true
	}
	for again := true; again; {
		again = false
		for _, id := range order {
			m := state[id]
			if dep, ok := dependency(state, m); ok && m.Status == MissionPending && (dep.Status == MissionFailed || dep.Status == MissionCancelled) {
				again = put(m, MissionCancelled, DependencyFailed, "The mission that it depends on ended "+string(dep.Status)+".") || again
			}
			if m.Status != MissionWorkProduced {
				continue
			}
			switch last, settled := lastOf(state, order, id); {
			case !settled || last == id:
			case state[last].Status == MissionComplete:
				again = put(m, MissionComplete, "", "") || again
			default:
				again = put(m, MissionCancelled, ChainNotLanded, "The last stage of its chain was not landed.") || again
			}
		}
	}
	var out []Change
	for _, id := range order {
		if from, ok := changed[id]; ok {
			out = append(out, Change{state[id], from})
		}
	}
	return out
}

// dependency is the mission that m waits for, when it is one of these.
func dependency(state map[string]Mission, m Mission) (Mission, bool) {
	if m.DependsOn == nil {
		return Mission{}, false
	}
	dep, ok := state[*m.DependsOn]
	return dep, ok
}

// lastOf follows the missions that build on id to those that nothing builds on.
// settled is true when each of them is final; the one that is given is Complete
// only when all are.
func lastOf(state map[string]Mission, order []string, id string) (last string, settled bool) {
	seen, queue, settled := map[string]bool{id: true}, []string{id}, true
	last = id
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		end := true
		for _, other := range order {
			if m := state[other]; m.DependsOn != nil && *m.DependsOn == at && !seen[other] {
				seen[other], end = true, false
				queue = append(queue, other)
			}
		}
		if !end || at == id {
			continue
		}
		settled = settled && state[at].Status.Final()
		if last == id || state[at].Status != MissionComplete {
			last = at
		}
	}
	return last, settled
}

// Outcome is the status of a voyage with these missions, once it has ended.
func Outcome(missions []Mission) (status VoyageStatus, ended bool) {
	failed, complete := false, false
	for _, m := range missions {
		if m.Status.Open() {
			return "", false
		}
		failed = failed || m.Status == MissionFailed || m.Status == MissionLandingFailed
		complete = complete || m.Status == MissionComplete
	}
	switch {
	case failed:
		return VoyageFailed, true
	case !complete && len(missions) > 0:
		return VoyageCancelled, true // every mission was called off
	}
	return VoyageComplete, true
}

// Ready lists the missions that may be assigned, in the order in which they are
// to be: those whose dependency has delivered, lower priority first, then older.
// The others get the reason for which they wait.
func Ready(missions []Mission) (ready []Mission, waiting map[string]Assignment) {
	state := map[string]Mission{}
	for _, m := range missions {
		state[m.ID] = m
	}
	waiting = map[string]Assignment{}
	for _, m := range missions {
		if m.Status != MissionPending {
			continue
		}
		if dep, ok := dependency(state, m); m.DependsOn != nil && (!ok || !delivered(dep.Status)) {
			waiting[m.ID] = WaitingForMission
			continue
		}
		ready = append(ready, m)
	}
	slices.SortStableFunc(ready, func(a, b Mission) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), a.CreatedUTC.Compare(b.CreatedUTC), cmp.Compare(a.ID, b.ID))
	})
	return ready, waiting
}

// delivered reports whether a mission's branch can be built on.
func delivered(s MissionStatus) bool { return s == MissionWorkProduced || s == MissionComplete }

func byAge(missions []Mission) []string {
	sorted := slices.Clone(missions)
	slices.SortStableFunc(sorted, func(a, b Mission) int { return cmp.Or(a.CreatedUTC.Compare(b.CreatedUTC), cmp.Compare(a.ID, b.ID)) })
	ids := make([]string, 0, len(sorted))
	for _, m := range sorted {
		ids = append(ids, m.ID)
	}
	return ids
}

// Pick chooses the captain for a mission among those that are there: idle, of
// the mission's tenant, of a runtime that is built, allowed to take its persona.
// The preferred model or tier goes first, then the tier that its hint is for,
// then who prefers its persona, then the higher rank, then the name. The captains
// that it did not take are not changed: who takes one compares and sets.
func Pick(m Mission, captains []Captain) (Captain, bool) {
	idle := slices.DeleteFunc(slices.Clone(captains), func(c Captain) bool {
		return c.State != CaptainIdle || c.TenantID != m.TenantID || !slices.Contains(Runtimes, c.Runtime) ||
			len(c.AllowedPersonas) > 0 && !slices.Contains(c.AllowedPersonas, m.Persona)
	})
	if len(idle) == 0 {
		return Captain{}, false
	}
	slices.SortStableFunc(idle, func(a, b Captain) int {
		return cmp.Or(cmp.Compare(fit(m, a), fit(m, b)), cmp.Compare(suits(m, a), suits(m, b)), cmp.Compare(prefers(m, a), prefers(m, b)), cmp.Compare(b.PreferenceRank, a.PreferenceRank), cmp.Compare(a.Name, b.Name))
	})
	return idle[0], true
}

// tiers are the words for a tier in preferredModel.
var tiers = map[string]Tier{"low": Economy, "mid": Standard, "high": Premium}

// fit is 0 for a captain that is what the mission prefers, else 1.
func fit(m Mission, c Captain) int {
	if m.PreferredModel == nil {
		return 0
	}
	if tier, word := tiers[*m.PreferredModel]; word && c.Tier == tier || c.Model != nil && *c.Model == *m.PreferredModel {
		return 0
	}
	return 1
}

// hints are the words for what a mission asks of a captain, with the tier that is
// for such work.
var hints = map[string]Tier{"audit": Premium, "reasoning-heavy": Premium, "mechanical": Economy, "doc-only": Economy}

// suits is 0 for a captain of the tier that a mission's hint is for, else 1.
func suits(m Mission, c Captain) int {
	if m.CapabilityHint != nil {
		if tier, word := hints[*m.CapabilityHint]; word && c.Tier == tier {
			return 0
		}
	}
	return 1
}

// prefers is 0 for a captain whose preferred persona is the mission's, 2 for one
// that prefers another, else 1.
func prefers(m Mission, c Captain) int {
	switch {
	case c.PreferredPersona == nil:
		return 1
	case *c.PreferredPersona == m.Persona:
		return 0
	}
	return 2
}
