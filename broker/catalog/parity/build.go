package parity

import (
	"slices"

	"berth/broker/catalog"
)

// maxRounds bounds how often a snapshot is built again without the verbs that
// were at fault.
const maxRounds = 8

// Build makes a snapshot that passes the check: an upstream verb at fault is
// left out and the check runs again. What is left in faults is the broker's own
// and no snapshot of these sources repairs it.
func Build(generation uint64, sources []catalog.Source, settings catalog.Settings) (snapshot *catalog.Snapshot, quarantined []catalog.Quarantined, faults []Fault) {
	for range maxRounds {
		snapshot, quarantined = settings.Build(generation, sources)
		faults = Check(Input{Snapshot: snapshot, Sources: sources, Settings: settings})
		without := slices.Clone(settings.Without)
		for _, f := range faults {
			if !f.Native {
				without = append(without, catalog.Without{Backend: f.Backend, Verb: f.Verb, Reason: "It does not pass the self-check: " + f.String() + "."})
			}
		}
		if len(without) == len(settings.Without) {
			break
		}
		settings.Without = without
	}
	return snapshot, quarantined, slices.DeleteFunc(faults, func(f Fault) bool { return !f.Native })
}
