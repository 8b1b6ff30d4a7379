package dispatch

import (
	"encoding/json"
	"strings"
	"testing"

	"berth/broker"
)

const one = `{"title":"a","description":"b"}`

func TestARequestIsRefusedByItsFirstFault(t *testing.T) {
	many := func(n int) string { return strings.Repeat(one+",", n-1) + one }
	for _, tt := range []struct {
		name, request string
		want          broker.Code
	}{
		{"good", `{"title":"t","missions":[` + one + `]}`, ""},
		{"a chain by alias", `{"title":"t","missions":[{"title":"a","description":"b","alias":"x"},{"title":"a","description":"b","dependsOnMissionAlias":"x","mode":"Audit"}]}`, ""},
		{"the most missions", `{"title":"t","missions":[` + many(50) + `]}`, ""},
		{"no title", `{"title":" ","missions":[]}`, broker.CodeMissingTitle},
		{"a long title", `{"title":"` + strings.Repeat("é", 201) + `","missions":[` + one + `]}`, broker.CodeInvalidArguments},
		{"the longest title", `{"title":"` + strings.Repeat("é", 200) + `","missions":[` + one + `]}`, ""},
		{"no missions", `{"title":"t"}`, broker.CodeMissingMissions},
		{"too many", `{"title":"t","missions":[` + many(51) + `]}`, broker.CodeInvalidArguments},
		{"a mission without a title", `{"title":"t","missions":[` + one + `,{"description":"b"}]}`, broker.CodeMissingMissionTitle},
		{"one without a description", `{"title":"t","missions":[{"title":"a","description":"\n"}]}`, broker.CodeMissingMissionDescription},
		{"an unknown mode", `{"title":"t","missions":[{"title":"a","description":"b","mode":"implementation"}]}`, broker.CodeInvalidMissionMode},
		{"one alias twice", `{"title":"t","missions":[{"title":"a","description":"b","alias":"x"},{"title":"a","description":"b","alias":"x"}]}`, broker.CodeMissionAliasDuplicate},
		{"an unknown alias", `{"title":"t","missions":[{"title":"a","description":"b","dependsOnMissionAlias":"x"}]}`, broker.CodeMissionAliasUnknown},
		{"itself", `{"title":"t","missions":[{"title":"a","description":"b","alias":"x","dependsOnMissionAlias":"x"}]}`, broker.CodeMissionAliasCycle},
		{"a ring", `{"title":"t","missions":[{"title":"a","description":"b","alias":"x","dependsOnMissionAlias":"z"},{"title":"a","description":"b","alias":"y","dependsOnMissionAlias":"x"},{"title":"a","description":"b","alias":"z","dependsOnMissionAlias":"y"}]}`, broker.CodeMissionAliasCycle},
		{"an objective", `{"title":"t","objectiveId":"obj_1","missions":[` + one + `]}`, broker.CodeNotBuilt},
		{"a pipeline", `{"title":"t","pipeline":"Reviewed","missions":[` + one + `]}`, broker.CodeNotBuilt},
		{"playbooks of a mission", `{"title":"t","missions":[{"title":"a","description":"b","selectedPlaybooks":[{}]}]}`, broker.CodeNotBuilt},
		{"empty lists of what is not built", `{"title":"t","skipStages":[],"captainAssignments":[],"missions":[` + one + `]}`, ""},
		{"the longest text", `{"title":"t","description":"` + strings.Repeat("é", 100_000) + `","missions":[{"title":"a","description":"` + strings.Repeat("é", 100_000) + `"}]}`, ""},
		{"a text over it", `{"title":"t","missions":[{"title":"a","description":"` + strings.Repeat("é", 100_001) + `"}]}`, broker.CodeInvalidArguments},
		{"one over it of the voyage", `{"title":"t","description":"` + strings.Repeat("é", 100_001) + `","missions":[` + one + `]}`, broker.CodeInvalidArguments},
		{"a mission whose record would be too large", `{"title":"t","missions":[{"title":"a","description":"b","alias":"` + strings.Repeat("x", 600_000) + `"}]}`, broker.CodeInvalidArguments},
		{"a file from nowhere", `{"title":"t","missions":[{"title":"a","description":"b","prestagedFiles":[{"sourcePath":"x","destPath":"y"}]}]}`, broker.CodePrestagedFileInvalid},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var asked Asked
			if err := json.Unmarshal([]byte(tt.request), &asked); err != nil {
				t.Fatal(err)
			}
			got := broker.Code("")
			if refusal := asked.Check(); refusal != nil {
				got = refusal.Code
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestARingIsNamedWhole(t *testing.T) {
	asked := Asked{Title: "t", Missions: []AskedMission{{Title: "a", Description: "b", DependsOnAlias: "y"},
		{Title: "a", Description: "b", Alias: "x", DependsOnAlias: "y"}, {Title: "a", Description: "b", Alias: "y", DependsOnAlias: "x"}}}
	got, _ := json.Marshal(asked.Check().Detail["Missions"])
	if string(got) != "[2,1]" {
		t.Errorf("got %s", got)
	}
}

func TestFilesArePlacedInsideTheWorktreeOnly(t *testing.T) {
	for _, tt := range []struct {
		source, dest string
		ok           bool
	}{
		{"/srv/a", "a", true}, {"/srv/a", "dir/a..b", true}, {"/srv/a", "./x", true}, {"srv/a", "a", false}, {"/srv/a", "", false}, {"/srv/a", "/a", false},
		{"/srv/a", "../a", false}, {"/srv/a", "x/../../a", false}, {"/srv/a", `x\..\a`, false}, {"/srv/a", "a\nb", false},
		{"/srv/a", ".git/hooks/post-checkout", false}, {"/srv/a", "x/../.GIT/config", false}, {"/srv/a", "./.git", false}, {"/srv/a", ".gitignore", true},
	} {
		if why := (PrestagedFile{tt.source, tt.dest}).wrong(); (why == "") != tt.ok {
			t.Errorf("%+v: %q", tt, why)
		}
	}
}

func TestVesselNamesAreOneSegment(t *testing.T) {
	for name, ok := range map[string]bool{
		"berth": true, "my repo": true, "a.b": true, "é": true, "": false, "a/b": false, `a\b`: false, "a:b": false, "..": false, "a..b": false, ".git": false,
		"-rf": false, "a\n": false, " a": false, "a\x00": false, "\xff": false, strings.Repeat("x", 101): false,
	} {
		if refusal := CheckVesselName(name); (refusal == nil) != ok || refusal != nil && refusal.Code != broker.CodeInvalidVesselName {
			t.Errorf("%q: %v", name, refusal)
		}
	}
}

func TestAddressesThatReachTheServerAreToldApart(t *testing.T) {
	for url, server := range map[string]bool{
		"https://example.com/a.git": false, "HTTP://example.com/a": false, "ssh://git@example.com/a": false, "git@example.com:a/b.git": false, "git://example.com/a": false,
		"/srv/a": true, "./a": true, "a": true, "../a": true, "file:///srv/a": true, "FILE:/srv/a": true, "ext::sh -c id": true, "--upload-pack=id": true,
		`C:\repos\a`: true, "c:/repos/a": true, "./x:y": true, "": true, " /srv/a": true, "unknown://x/y": true, "fd::17": true, "http::x": true,
		"https://[2001:db8::1]/a.git": false, "ssh://git@[::1]:22/a": false, "git@[::1]:a/b.git": false, "git@example.com:a::b": false,
	} {
		if got := ServerPath(url); got != server {
			t.Errorf("%q: %v", url, got)
		}
	}
}

func TestAnUnknownAliasIsToldTheOnesThatThereAre(t *testing.T) {
	for aliases, want := range map[string]string{"": "[]", "core": `["core"]`} {
		refusal := Asked{Title: "t", Missions: []AskedMission{{Title: "a", Description: "b", Alias: aliases}, {Title: "c", Description: "d", DependsOnAlias: "x"}}}.Check()
		if raw, err := json.Marshal(refusal.Detail["Aliases"]); err != nil || string(raw) != want {
			t.Errorf("got %s, want %s, %v", raw, want, err)
		}
	}
}
