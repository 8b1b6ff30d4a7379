package resmontest

import (
	"math"
	"net/http"
	"regexp"
	"slices"
)

type profile struct {
	ID           int64    `json:"id"`
	Kind         string   `json:"kind"`
	DisplayName  string   `json:"display_name"`
	Names        []object `json:"names"`
	Identifiers  object   `json:"identifiers"`
	Affiliations []string `json:"affiliations"`
	FieldHints   []string `json:"field_hints"`
	CreatedAt    string   `json:"created_at"`
	UpdatedAt    string   `json:"updated_at"`
	BasisWarning *string  `json:"basis_warning"`
	Stamp        string   `json:"stamp,omitempty"`
}

// hit is a document that matched a profile.
type hit struct {
	profile  int64
	document *document
	basis    string
}

// Profiles of the data set, by number; ProfileID gives their ids.
const (
	ProfileWithORCID   = 1 // matches of all three bases
	ProfileNameOnly    = 2 // no identifier, so with a basis_warning; matches by name
	ProfileInstitution = 3
	ProfileUnmatched   = 4 // a person without a single match
)

// ProfileID is the id of the n-th profile of the data set.
func (f *Fake) ProfileID(n int) int64 { return f.world.id(n) }

const basisWarning = "This profile has no identifier, so its matches rest on names alone and may be other people of the same name."

func (w *world) makeProfiles() {
	for n := 1; n <= w.amounts.profiles; n++ {
		name := w.stamped(authors[(n-1)%len(authors)])
		p := &profile{ID: w.id(n), Kind: "person", DisplayName: name, Names: []object{{"value": name}, {"value": "A. " + name}}, Identifiers: object{},
			Affiliations: []string{"University of Somewhere"}, FieldHints: []string{"machine learning"}, CreatedAt: moment(80), UpdatedAt: moment(8)}
		switch n {
		case ProfileWithORCID:
			p.Identifiers = object{"orcid": object{"value": "0000-0002-1825-0097", "cited": "The person's own page."}, "openalex": object{"value": "A5000000001", "cited": "OpenAlex."}}
		case ProfileInstitution:
			p.Kind, p.DisplayName, p.Names = "institution", w.stamped("Institute of Measurement"), []object{{"value": w.stamped("Institute of Measurement")}}
			p.Identifiers = object{"ror": object{"value": "https://ror.org/05gq02987", "cited": "ROR."}}
		}
		p.warn()
		w.profiles = append(w.profiles, p)
	}
	bases := []string{"identifier", "name+affiliation", "name_only"}
	for i := range w.amounts.matches {
		w.matches = append(w.matches, hit{w.id(ProfileWithORCID), w.documents[i%len(w.documents)], bases[i%len(bases)]})
		if i%4 == 0 {
			w.matches = append(w.matches, hit{w.id(ProfileNameOnly), w.documents[i%len(w.documents)], "name_only"})
		}
	}
}

func (p *profile) warn() {
	p.BasisWarning = nil
	if p.Kind == "person" && len(p.Identifiers) == 0 {
		p.BasisWarning = ptr(basisWarning)
	}
}

func (w *world) profile(id int64) *profile {
	i := slices.IndexFunc(w.profiles, func(p *profile) bool { return p.ID == id })
	if i < 0 {
		return nil
	}
	return w.profiles[i]
}

func noProfile() answer { return plain(http.StatusNotFound, "Profile not found") }

func listProfiles(w *world, r *request) answer {
	rows := []*profile{}
	for _, p := range w.profiles {
		if kind := r.query.Get("kind"); kind == "" || kind == p.Kind {
			rows = append(rows, p)
		}
	}
	return r.whole(object{"profiles": rows})
}

func getProfile(w *world, r *request) answer {
	p := w.profile(r.id)
	if p == nil {
		return noProfile()
	}
	shown := *p
	shown.Stamp = r.stamp
	return ok(shown)
}

func profileMatches(w *world, r *request) answer {
	limit, bad := bound(r, "limit", 50, 1, 500)
	if bad != nil {
		return *bad
	}
	offset, bad := bound(r, "offset", 0, 0, math.MaxInt64)
	if bad != nil {
		return *bad
	}
	p := w.profile(r.id)
	if p == nil {
		return noProfile()
	}
	rows, counts := []object{}, object{"identifier": 0, "name+affiliation": 0, "name_only": 0}
	for _, m := range w.matches {
		if m.profile != p.ID {
			continue
		}
		counts[m.basis] = counts[m.basis].(int) + 1
		d := m.document
		rows = append(rows, object{"document_id": d.ID, "profile_id": p.ID, "title": d.Title, "basis": m.basis, "matched_author": p.DisplayName,
			"evidence":          map[string]string{"identifier": "The source gave the identifier of the profile.", "name+affiliation": "The name and “University of Somewhere” agree.", "name_only": "The name agrees, and nothing else was compared."}[m.basis],
			"source_repository": d.SourceRepository, "doi": d.DOI, "url": d.URL, "publication_date": d.PublicationDate, "first_seen_at": d.FirstSeenAt})
	}
	from := int(min(offset, int64(len(rows))))
	return r.whole(object{"profile_id": p.ID, "matches": rows[from:min(len(rows), from+int(limit))], "total": len(rows), "by_basis": counts, "limit": limit, "offset": offset})
}

var profileModel = []field{{name: "kind", kind: text, required: true}, {name: "display_name", kind: text, required: true}, {name: "names", kind: dicts}, {name: "identifiers", kind: dict},
	{name: "affiliations", kind: texts}, {name: "field_hints", kind: texts}}

var orcidForm = regexp.MustCompile(`^\d{4}-\d{4}-\d{4}-\d{3}[\dX]$`)

func createProfile(w *world, r *request) answer {
	body, bad := read(r.body, profileModel)
	if bad != nil {
		return *bad
	}
	kind := str(body, "kind")
	if !slices.Contains([]string{"person", "institution", "group"}, kind) {
		return plain(http.StatusBadRequest, "Unknown profile kind %s.", quoted(kind))
	}
	identifiers, _ := body["identifiers"].(object)
	if orcid, is := identifiers["orcid"].(object); is && !orcidForm.MatchString(str(orcid, "value")) {
		return plain(http.StatusBadRequest, "%s is not an ORCID.", quoted(str(orcid, "value")))
	}
	made := &profile{ID: w.profiles[len(w.profiles)-1].ID + 1, Kind: kind, DisplayName: str(body, "display_name"), Names: []object{}, Identifiers: object{},
		Affiliations: append([]string{}, list(body, "affiliations")...), FieldHints: append([]string{}, list(body, "field_hints")...), CreatedAt: moment(0), UpdatedAt: moment(0)}
	given, _ := body["names"].([]any)
	for _, n := range given {
		made.Names = append(made.Names, n.(object))
	}
	for k, v := range identifiers {
		made.Identifiers[k] = v
	}
	made.warn()
	w.profiles = append(w.profiles, made)
	r.applied = true
	shown := *made
	shown.Stamp = r.stamp
	return encoded(http.StatusCreated, shown)
}

// Profiles is how many there are: a write that took effect adds one.
func (f *Fake) Profiles() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.world.profiles)
}
