package dispatch

import (
	"cmp"

	"berth/broker"
)

// The modes of code context (contracts/native.md section 4): whether a mission's
// brief gets a pack of code from the vessel's index.
const (
	ContextAuto  = "auto"  // where there is an index that can be searched
	ContextOff   = "off"   // never
	ContextForce = "force" // or nothing is dispatched
)

// The words for what there is of a vessel's code index (contracts/native.md
// section 6).
const (
	IndexMissing  = "Missing"
	IndexFresh    = "Fresh"
	IndexStale    = "Stale"
	IndexError    = "Error"
	IndexUpdating = "Updating"
)

// IndexState is what there is of a vessel's code index.
type IndexState struct {
	Freshness string
	JobID     string // the update that runs; empty: none, or it is not known
}

// Context is the mode of a request as a whole: the most that one of its missions
// asks for. A mission without one has the request's, and a request without one
// is ContextAuto.
func (a Asked) Context() string {
	of := func(m AskedMission) string { return cmp.Or(m.ContextMode, a.ContextMode, ContextAuto) }
	most := ContextOff
	for _, m := range a.Missions {
		switch of(m) {
		case ContextForce:
			return ContextForce
		case ContextAuto:
			most = ContextAuto
		}
	}
	return most
}

// CheckIndex judges the code index of a vessel for work in a mode: an index of
// another commit and one that is being updated are refused unless the mode is
// off, and one that cannot be searched where the mode is force.
func CheckIndex(vesselID, mode string, s IndexState) *broker.Refusal {
	if mode == ContextOff {
		return nil
	}
	detail := map[string]any{"VesselId": vesselID, "Freshness": s.Freshness}
	refuse := func(code broker.Code, message, action string) *broker.Refusal {
		detail["Action"] = action
		return broker.Refuse(code, message, detail)
	}
	switch {
	case s.Freshness == IndexUpdating:
		if s.JobID != "" {
			detail["JobId"] = s.JobID
		}
		return refuse(broker.CodeIndexUpdating, "An update of this vessel's code index runs; nothing was accepted.",
			"Wait until it has ended (index_status), or dispatch with codeContextMode off.")
	case s.Freshness == IndexStale:
		return refuse(broker.CodeIndexStale, "The vessel's code index is of another commit than its default branch; nothing was accepted.",
			"Run index_update for this vessel and dispatch again, or dispatch with codeContextMode off.")
	case mode == ContextForce && s.Freshness != IndexFresh:
		return refuse(broker.CodeContextUnavailable, "The vessel has no code index that could be searched, and codeContextMode is force; nothing was accepted.",
			"Run index_update for this vessel and dispatch again, or dispatch with codeContextMode auto or off.")
	}
	return nil
}
