package dispatch

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"berth/broker"
)

// The limits of a request to dispatch.
const (
	maxTitle     = 200 // characters
	maxMissions  = 50
	maxPrestaged = 50
	maxMission   = broker.MaxRecord / 2 // bytes, as it is kept; more is added to it later
)

// MaxText is the longest text that missions are told, in characters.
const MaxText = 100_000

// Asked is a request to dispatch, as its caller made it.
type Asked struct {
	Title       string         `json:"title"`
	Description string         `json:"description"`
	VesselID    string         `json:"vesselId"`
	Missions    []AskedMission `json:"missions"`
	ContextMode string         `json:"codeContextMode"`
	// Of each pack of code; nil: the default.
	ContextTokens  *int `json:"codeContextTokenBudget"`
	ContextResults *int `json:"codeContextMaxResults"`

	// What is not built yet, and is refused rather than ignored.
	ObjectiveID string `json:"objectiveId"`
	PipelineID  string `json:"pipelineId"`
	Pipeline    string `json:"pipeline"`
	Playbooks   []any  `json:"selectedPlaybooks"`
	Captains    []any  `json:"captainAssignments"`
	SkipStages  []any  `json:"skipStages"`
}

// AskedMission is one mission of a request.
type AskedMission struct {
	Title          string          `json:"title"`
	Description    string          `json:"description"`
	Mode           Mode            `json:"mode"`
	StartFromRef   string          `json:"startFromRef"`
	Alias          string          `json:"alias"`
	DependsOnAlias string          `json:"dependsOnMissionAlias"`
	DependsOnID    string          `json:"dependsOnMissionId"`
	PreferredModel string          `json:"preferredModel"`
	CapabilityHint string          `json:"capabilityHint"`
	Prestaged      []PrestagedFile `json:"prestagedFiles"`
	Playbooks      []any           `json:"selectedPlaybooks"`
	ContextMode    string          `json:"codeContextMode"`
	ContextQuery   string          `json:"codeContextQuery"`
}

// Check judges what a request says by itself, in the order of contracts/native.md
// section 4; what depends on other records is looked at afterwards.
func (a Asked) Check() *broker.Refusal {
	switch {
	case strings.TrimSpace(a.Title) == "":
		return broker.Refuse(broker.CodeMissingTitle, "The argument title is required.", map[string]any{"Argument": "title"})
	case utf8.RuneCountInString(a.Title) > maxTitle:
		return tooLong("/title", maxTitle)
	case utf8.RuneCountInString(a.Description) > MaxText:
		return tooLong("/description", MaxText)
	case len(a.Missions) == 0:
		return broker.Refuse(broker.CodeMissingMissions, "At least one mission is required.", map[string]any{"Argument": "missions"})
	case len(a.Missions) > maxMissions:
		return violated("/missions", fmt.Sprintf("maxItems: wanted at most %d missions", maxMissions))
	}
	for i, m := range a.Missions {
		if refusal := m.check(i); refusal != nil {
			return refusal
		}
	}
	if refusal := a.aliases(); refusal != nil {
		return refusal
	}
	return a.built()
}

func violated(path, problem string) *broker.Refusal {
	return broker.Refuse(broker.CodeInvalidArguments, "The arguments do not fit this verb.",
		map[string]any{"Violations": []map[string]string{{"Path": path, "Problem": problem}}})
}

func tooLong(path string, most int) *broker.Refusal {
	return violated(path, fmt.Sprintf("maxLength: wanted at most %d characters", most))
}

// check judges one mission by itself.
func (m AskedMission) check(i int) *broker.Refusal {
	at := map[string]any{"Mission": i}
	switch {
	case strings.TrimSpace(m.Title) == "":
		return broker.Refuse(broker.CodeMissingMissionTitle, fmt.Sprintf("Mission %d has no title.", i), at)
	case utf8.RuneCountInString(m.Title) > maxTitle:
		return tooLong(fmt.Sprintf("/missions/%d/title", i), maxTitle)
	case strings.TrimSpace(m.Description) == "":
		return broker.Refuse(broker.CodeMissingMissionDescription, fmt.Sprintf("Mission %d has no description.", i), at)
	case utf8.RuneCountInString(m.Description) > MaxText:
		return tooLong(fmt.Sprintf("/missions/%d/description", i), MaxText)
	case m.Mode != "" && !m.Mode.Valid():
		at["Modes"] = []Mode{Implementation, Audit, Research}
		return broker.Refuse(broker.CodeInvalidMissionMode, fmt.Sprintf("Mission %d has a mode that does not exist.", i), at)
	case m.StartFromRef != "" && (m.DependsOnAlias != "" || m.DependsOnID != ""):
		return violated(fmt.Sprintf("/missions/%d/startFromRef", i), "a mission that depends on another goes on from its branch")
	case len(m.Prestaged) > maxPrestaged:
		return violated(fmt.Sprintf("/missions/%d/prestagedFiles", i), fmt.Sprintf("maxItems: wanted at most %d files", maxPrestaged))
	}
	for n, f := range m.Prestaged {
		if why := f.wrong(); why != "" {
			at["File"], at["Problem"] = n, why
			return broker.Refuse(broker.CodePrestagedFileInvalid, fmt.Sprintf("File %d of mission %d cannot be placed: %s.", n, i, why), at)
		}
	}
	if kept, err := json.Marshal(m); err != nil || len(kept) > maxMission {
		return violated(fmt.Sprintf("/missions/%d", i), fmt.Sprintf("wanted at most %d bytes, as JSON", maxMission))
	}
	return nil
}

// wrong says why a file cannot be placed; empty: it can.
func (f PrestagedFile) wrong() string {
	switch {
	case !path.IsAbs(f.Source):
		return "sourcePath is not absolute"
	case f.Dest == "" || path.IsAbs(f.Dest):
		return "destPath is not relative"
	case slices.Contains(strings.FieldsFunc(f.Dest, func(r rune) bool { return r == '/' || r == '\\' }), ".."):
		return "destPath leads out of the worktree"
	case strings.ContainsFunc(f.Source+f.Dest, unicode.IsControl):
		return "a path holds a control character"
	}
	first, _, _ := strings.Cut(path.Clean(f.Dest), "/")
	if strings.EqualFold(first, ".git") {
		return "destPath leads into the repository's own files"
	}
	return ""
}

// aliases judges the names by which missions refer to each other.
func (a Asked) aliases() *broker.Refusal {
	byAlias := map[string]int{}
	for i, m := range a.Missions {
		if m.Alias == "" {
			continue
		}
		if first, double := byAlias[m.Alias]; double {
			return broker.Refuse(broker.CodeMissionAliasDuplicate, fmt.Sprintf("Missions %d and %d have the same alias.", first, i), map[string]any{"Missions": []int{first, i}})
		}
		byAlias[m.Alias] = i
	}
	for i, m := range a.Missions {
		if _, known := byAlias[m.DependsOnAlias]; m.DependsOnAlias != "" && !known {
			return broker.Refuse(broker.CodeMissionAliasUnknown, fmt.Sprintf("Mission %d depends on an alias that no mission has.", i),
				map[string]any{"Mission": i, "Aliases": append([]string{}, slices.Sorted(keys(byAlias))...)})
		}
	}
	if ring := a.ring(byAlias); ring != nil {
		return broker.Refuse(broker.CodeMissionAliasCycle, "Missions depend on each other in a ring.", map[string]any{"Missions": ring})
	}
	return nil
}

func keys(m map[string]int) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// ring gives the missions of a circle of dependencies, or nil. Each mission
// depends on one other at most, so a walk that is longer than there are missions
// goes round.
func (a Asked) ring(byAlias map[string]int) []int {
	for start := range a.Missions {
		at, path := start, []int{}
		for a.Missions[at].DependsOnAlias != "" {
			path = append(path, at)
			at = byAlias[a.Missions[at].DependsOnAlias]
			if i := slices.Index(path, at); i >= 0 {
				return path[i:]
			}
		}
	}
	return nil
}

// built refuses what is part of the contract and not of this build.
func (a Asked) built() *broker.Refusal {
	given := []string{}
	for _, f := range []struct {
		name string
		set  bool
	}{{"objectiveId", a.ObjectiveID != ""}, {"pipelineId", a.PipelineID != ""}, {"pipeline", a.Pipeline != ""},
		{"selectedPlaybooks", len(a.Playbooks) > 0}, {"captainAssignments", len(a.Captains) > 0}, {"skipStages", len(a.SkipStages) > 0},
		{"missions.selectedPlaybooks", slices.ContainsFunc(a.Missions, func(m AskedMission) bool { return len(m.Playbooks) > 0 })}} {
		if f.set {
			given = append(given, f.name)
		}
	}
	if len(given) == 0 {
		return nil
	}
	return broker.Refuse(broker.CodeNotBuilt, "This build has no "+strings.Join(given, ", ")+"; nothing was accepted.", map[string]any{"Arguments": given})
}

// CheckVesselName refuses a name that is not one plain segment of a path.
func CheckVesselName(name string) *broker.Refusal {
	if name == "" || len(name) > 100 || !utf8.ValidString(name) || strings.ContainsAny(name, `/\:`) || strings.Contains(name, "..") ||
		strings.HasPrefix(name, ".") || strings.HasPrefix(name, "-") || strings.TrimSpace(name) != name || strings.ContainsFunc(name, unicode.IsControl) {
		return broker.Refuse(broker.CodeInvalidVesselName, "A vessel's name is one segment of a path: no separator, colon, \"..\", leading dot or dash, or control character.",
			map[string]any{"Argument": "name"})
	}
	return nil
}

// ErrBranch is a name that is none of a branch's.
var ErrBranch = errors.New("this is no name of a branch")

// CheckBranch refuses a name that git could read as anything but a branch's.
func CheckBranch(name string) error {
	bad := name == "" || len(name) > 250 || !utf8.ValidString(name) || strings.HasPrefix(name, "-") || strings.HasPrefix(name, "/") ||
		strings.HasSuffix(name, "/") || strings.HasSuffix(name, ".") || strings.Contains(name, "..") || strings.Contains(name, "//") ||
		strings.Contains(name, "@{") || name == "@" || strings.ContainsAny(name, " ~^:?*[\\") || strings.ContainsFunc(name, unicode.IsControl)
	for part := range strings.SplitSeq(name, "/") {
		bad = bad || strings.HasPrefix(part, ".") || strings.HasSuffix(part, ".lock")
	}
	if bad {
		return ErrBranch
	}
	return nil
}

// Helper reports whether git would start a program of its own for a repository's
// address: <transport>::<address>. A host like [::1] is none.
func Helper(repoURL string) bool {
	rest := strings.TrimLeftFunc(strings.TrimSpace(repoURL), func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("+.-", r)
	})
	return strings.HasPrefix(rest, "::")
}

// ServerPath reports whether a repository's address reaches the file system of
// the broker, or a program on it: only a global administrator may name one.
func ServerPath(repoURL string) bool {
	url := strings.TrimSpace(repoURL)
	lower := strings.ToLower(url)
	if strings.HasPrefix(lower, "file:") || Helper(url) || strings.HasPrefix(url, "-") {
		return true
	}
	for _, scheme := range []string{"https://", "http://", "ssh://", "git://"} {
		if strings.HasPrefix(lower, scheme) {
			return false
		}
	}
	if strings.Contains(url, "://") {
		return true // a helper program of that name would be started
	}
	// host:path, as git reads it: a colon before the first slash.
	host, _, scp := strings.Cut(url, ":")
	return !scp || host == "" || strings.ContainsAny(host, `/\`) || len(host) == 1
}
