package dispatch

import (
	"encoding/json"
	"testing"
)

// FuzzARequestIsReadOrRefused: whatever the arguments are, they are a request
// that was judged, or they are refused with a code and a detail.
func FuzzARequestIsReadOrRefused(f *testing.F) {
	for _, s := range transcripts["dispatch"] {
		f.Add([]byte(s.arguments))
	}
	v, _ := everyVerb().Resolve(Verb)
	f.Fuzz(func(t *testing.T, raw []byte) {
		refusal := v.CheckArguments(v.NormaliseArguments(raw))
		if refusal != nil {
			if refusal.Code == "" || refusal.Detail == nil || !json.Valid(refusal.NativeJSON()) {
				t.Errorf("%+v", refusal)
			}
			return
		}
		a, own := asked(v.NormaliseArguments(raw))
		if own != nil || len(a.Missions) == 0 || a.Title == "" || a.VesselID == "" {
			t.Errorf("%s was let through as %+v (%v)", raw, a, own)
		}
	})
}
