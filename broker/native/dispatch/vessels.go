package dispatch

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"berth/broker"
	"berth/broker/dispatch"
	"berth/broker/native"
)

// vesselFields are the arguments that add_vessel and update_vessel share, by the
// member that they set; nil: it was not given.
type vesselFields struct {
	Name             *string   `json:"name"`
	RepoURL          *string   `json:"repoUrl"`
	FleetID          *string   `json:"fleetId"`
	DefaultBranch    *string   `json:"defaultBranch"`
	WorkingDirectory *string   `json:"workingDirectory"`
	LocalPath        *string   `json:"localPath"`
	ProjectContext   *string   `json:"projectContext"`
	StyleGuide       *string   `json:"styleGuide"`
	LandingMode      *string   `json:"landingMode"`
	BranchCleanup    *string   `json:"branchCleanupPolicy"`
	Concurrent       *bool     `json:"allowConcurrentMissions"`
	ChecksToLand     *bool     `json:"requirePassingChecksToLand"`
	PipelineID       *string   `json:"defaultPipelineId"`
	Playbooks        []any     `json:"defaultPlaybooks"`
	ProtectedPaths   *[]string `json:"protectedPaths"`
	Siblings         []any     `json:"siblingRepos"`
	GitHubToken      *string   `json:"gitHubTokenOverride"`
}

const paths = `{"type":"array","items":{"type":"string"},"maxItems":200,"description":"Paths that a mission must not change."}`

// vesselProperties describe them.
func vesselProperties(required string) []property {
	return []property{
		text(required+"name", "A name of one path segment."),
		text(required+"repoUrl", "Where the repository is: an address that git knows."),
		text("fleetId", "Not built."),
		text("defaultBranch", "The branch that missions begin at and land on; main when it is not given."),
		text("workingDirectory", "A clone on the broker's host that a person works in."),
		text("projectContext", "What every mission should know of the project."),
		text("styleGuide", "How code of the project is written."),
		{"landingMode", `{"type":"string","enum":["None","LocalMerge","PullRequest","MergeQueue"],"description":"What becomes of a finished branch: kept (None) or merged into the default branch. The last two are not built."}`},
		{"branchCleanupPolicy", `{"type":"string","enum":["LocalOnly","LocalAndRemote","None"]}`},
		{"allowConcurrentMissions", `{"type":"boolean","description":"Whether several missions may work on it at once; no when it is not given."}`},
		{"requirePassingChecksToLand", `{"type":"boolean","description":"Not built."}`},
		text("defaultPipelineId", "Not built."),
		{"defaultPlaybooks", `{"type":"array","description":"Not built."}`},
		{"protectedPaths", paths},
		{"siblingRepos", `{"type":"array","description":"Not built."}`},
		clearable("gitHubTokenOverride", "A token for this repository; it is never shown again."),
	}
}

var vesselID = text("*vesselId", "The Id of the vessel, such as vsl_mp1a2b3c_9fQ2kLmN0pQ.")

func (f *Family) vesselVerbs() []native.Verb {
	return []native.Verb{
		verb(broker.Write, f.addVessel, "add_vessel", "Add a vessel", "Register a repository that missions can work on. Nothing is cloned yet.", vesselProperties("*")...),
		verb(broker.Read, f.getVessel, "get_vessel", "A vessel", "One vessel: its repository, branches and rules.", vesselID),
		verb(broker.Write, f.updateVessel, "update_vessel", "Change a vessel", "Change the given fields of a vessel; the others stay.",
			append([]property{vesselID, text("localPath", "Where the broker keeps its bare clone.")}, vesselProperties("")...)...),
		verb(broker.Write, f.updateContext, "update_vessel_context", "Change what missions are told", "Change the project context and the style guide of a vessel.", vesselID,
			clearable("projectContext", "What every mission should know of the project."), clearable("styleGuide", "How code of the project is written.")),
		verb(broker.Destroy, f.deleteVessel, "delete_vessel", "Delete a vessel", "Delete a vessel and the bare clone that the broker made of it. Refused while a mission works on it.", vesselID),
		verb(broker.Destroy, f.deleteMany(func(ctx context.Context, who broker.Principal, id string) error {
			_, err := f.dropVessel(ctx, who, id)
			return err
		}), "delete_vessels", "Delete vessels", "Delete several vessels, each by itself.", idsProperty),
	}
}

// Vessel gives a vessel that a principal may know of, or refuses it.
func (f *Family) Vessel(who broker.Principal, id string) (dispatch.Vessel, error) {
	kept, err := read[dispatch.Vessel](f, who, id)
	return kept.Value, err
}

// secretOf names the token of a vessel, or the key of a captain.
func secretOf(kind, id string) string { return kind + "-" + id }

func (f *Family) addVessel(ctx context.Context, ask native.Ask) (any, error) {
	var args vesselFields
	if err := ask.Decode(&args); err != nil {
		return nil, err
	}
	who := ask.Call.Principal
	if refusal := args.check(who); refusal != nil {
		return nil, refusal
	}
	id, err := f.newID(dispatch.VesselPrefix, ask.Now)
	if err != nil {
		return nil, err
	}
	v := args.apply(dispatch.Vessel{ID: id, Owner: dispatch.OwnedBy(who), DefaultBranch: "main", LandingMode: dispatch.LandNone,
		BranchCleanup: "LocalOnly", ProtectedPaths: []string{}, CreatedUTC: ask.Now}, ask.Now)
	if dir, ok := f.opts.Places.LocalClone(v.RepoURL); ok && v.WorkingDirectory == nil {
		v.WorkingDirectory = &dir // LocalPath stays unset: removal deletes what stands there
	}
	if err := f.keepSecret(dispatch.KindVessel, id, args.GitHubToken); err != nil {
		return nil, err
	}
	v.HasGitHubToken = f.opts.Secrets.HasSecret(secretOf(dispatch.KindVessel, id))
	err = f.write(ctx, func() ([]broker.RecordChange, error) {
		return changes(put(v, 0, happened(v, "added", who, "The vessel "+v.Name+" was added.")))
	})
	if err != nil {
		return nil, f.unkept(dispatch.KindVessel, id, err)
	}
	return v, nil
}

// keepSecret stores a credential that was given, or deletes it when it is empty.
func (f *Family) keepSecret(kind, id string, value *string) error {
	if value == nil {
		return nil
	}
	return f.opts.Secrets.SetSecret(secretOf(kind, id), strings.TrimSpace(*value))
}

// unkept removes the credential of a record that was not written, and gives why
// it was not. Of one that may have been written it stays.
func (f *Family) unkept(kind, id string, err error) error {
	if broker.AsRefusal(err).Code == broker.CodeOutcomeUnknown {
		return err
	}
	return errors.Join(err, f.opts.Secrets.SetSecret(secretOf(kind, id), ""))
}

// check judges what was given; what was not is not looked at.
func (a vesselFields) check(who broker.Principal) *broker.Refusal {
	if a.Name != nil {
		if refusal := dispatch.CheckVesselName(*a.Name); refusal != nil {
			return refusal
		}
	}
	unbuilt := []string{}
	for name, given := range map[string]bool{
		"fleetId": set(a.FleetID), "defaultPipelineId": set(a.PipelineID), "defaultPlaybooks": len(a.Playbooks) > 0, "siblingRepos": len(a.Siblings) > 0,
		"requirePassingChecksToLand": a.ChecksToLand != nil && *a.ChecksToLand,
	} {
		if given {
			unbuilt = append(unbuilt, name)
		}
	}
	if len(unbuilt) > 0 {
		slices.Sort(unbuilt)
		return notBuilt(unbuilt...)
	}
	if a.LandingMode != nil {
		if m := dispatch.LandingMode(*a.LandingMode); m != dispatch.LandNone && m != dispatch.LandLocalMerge {
			return broker.Refuse(broker.CodeLandingUnsupported, "This build does not land branches in this way; nothing was written.",
				map[string]any{"LandingMode": m, "LandingModes": []dispatch.LandingMode{dispatch.LandNone, dispatch.LandLocalMerge}})
		}
	}
	for name, text := range map[string]*string{"projectContext": a.ProjectContext, "styleGuide": a.StyleGuide} {
		if set(text) && utf8.RuneCountInString(*text) > dispatch.MaxText {
			return invalid(name, fmt.Sprintf("is longer than %d characters", dispatch.MaxText))
		}
	}
	return a.checkPlaces(who)
}

// maxToken is the longest token of a repository, in bytes.
const maxToken = 4096

func set(s *string) bool { return s != nil && *s != "" }

// checkPlaces judges what leads to the broker's host.
func (a vesselFields) checkPlaces(who broker.Principal) *broker.Refusal {
	server := []string{}
	for name, given := range map[string]bool{"workingDirectory": set(a.WorkingDirectory), "localPath": set(a.LocalPath), "repoUrl": a.RepoURL != nil && dispatch.ServerPath(*a.RepoURL)} {
		if given {
			server = append(server, name)
		}
	}
	if slices.Sort(server); len(server) > 0 && who.Role != broker.GlobalAdministrator {
		return broker.Refuse(broker.CodeServerPath, "Only a global administrator may name a path of the broker's host; nothing was written.", map[string]any{"Arguments": server})
	}
	for name, p := range map[string]*string{"workingDirectory": a.WorkingDirectory, "localPath": a.LocalPath} {
		if set(p) && !path.IsAbs(*p) {
			return invalid(name, "is not an absolute path")
		}
	}
	if a.RepoURL != nil {
		address := strings.TrimSpace(*a.RepoURL)
		switch {
		case strings.HasPrefix(address, "-") || dispatch.Helper(address) || strings.ContainsFunc(address, func(r rune) bool { return r < ' ' || r == 0x7f }):
			return invalid("repoUrl", "is no address of a repository")
		case dispatch.ServerPath(address) && !path.IsAbs(address) && !strings.HasPrefix(strings.ToLower(address), "file:"):
			return invalid("repoUrl", "is neither an address nor an absolute path")
		}
		if why := credentialIn(address); why != "" {
			return invalid("repoUrl", why)
		}
	}
	if set(a.GitHubToken) && len(*a.GitHubToken) > maxToken {
		return invalid("gitHubTokenOverride", "is too long")
	}
	if set(a.DefaultBranch) && dispatch.CheckBranch(*a.DefaultBranch) != nil {
		return invalid("defaultBranch", "is no name of a branch")
	}
	return nil
}

// credentialIn says why an address is refused that holds a credential, which
// everybody would see who sees the vessel: a password, or whatever stands before
// the host of a web address, where a token may stand. Empty: it holds none.
func credentialIn(address string) string {
	scheme, _, found := strings.Cut(address, "://")
	if !found {
		return ""
	}
	u, err := url.Parse(address)
	if err != nil {
		return "is no address of a repository"
	}
	_, password := u.User.Password()
	if web := strings.EqualFold(scheme, "https") || strings.EqualFold(scheme, "http"); password || web && u.User != nil {
		return "holds a credential, which belongs in gitHubTokenOverride"
	}
	return ""
}

// apply gives the vessel with what was given.
func (a vesselFields) apply(v dispatch.Vessel, now time.Time) dispatch.Vessel {
	for _, field := range []struct {
		to   *string
		from *string
	}{{&v.Name, a.Name}, {&v.DefaultBranch, a.DefaultBranch}, {(*string)(&v.LandingMode), a.LandingMode}, {&v.BranchCleanup, a.BranchCleanup}} {
		if set(field.from) {
			*field.to = *field.from
		}
	}
	if set(a.RepoURL) {
		v.RepoURL = strings.TrimSpace(*a.RepoURL)
	}
	for _, field := range []struct {
		to   **string
		from *string
	}{{&v.WorkingDirectory, a.WorkingDirectory}, {&v.LocalPath, a.LocalPath}, {&v.ProjectContext, a.ProjectContext}, {&v.StyleGuide, a.StyleGuide}} {
		switch {
		case field.from == nil:
		case *field.from == "":
			*field.to = nil
		default:
			*field.to = field.from
		}
	}
	if a.Concurrent != nil {
		v.Concurrent = *a.Concurrent
	}
	if a.ProtectedPaths != nil {
		v.ProtectedPaths = *a.ProtectedPaths
	}
	v.LastUpdateUTC = now
	return v
}

func (f *Family) getVessel(_ context.Context, ask native.Ask) (any, error) {
	kept, err := named[dispatch.Vessel](f, ask, "vesselId")
	if err != nil {
		return nil, err
	}
	return kept.Value, nil
}

func (f *Family) updateVessel(ctx context.Context, ask native.Ask) (any, error) {
	var args vesselFields
	if err := ask.Decode(&args); err != nil {
		return nil, err
	}
	return f.changeVessel(ctx, ask, args)
}

// updateContext changes the two texts alone: whatever else was sent is no
// argument of the verb.
func (f *Family) updateContext(ctx context.Context, ask native.Ask) (any, error) {
	var args vesselFields
	if err := ask.Decode(&args); err != nil {
		return nil, err
	}
	return f.changeVessel(ctx, ask, vesselFields{ProjectContext: args.ProjectContext, StyleGuide: args.StyleGuide})
}

func (f *Family) changeVessel(ctx context.Context, ask native.Ask, args vesselFields) (any, error) {
	who := ask.Call.Principal
	kept, err := named[dispatch.Vessel](f, ask, "vesselId")
	if err != nil { // nothing of the arguments is judged for whom it does not exist
		return nil, err
	}
	if refusal := args.check(who); refusal != nil {
		return nil, refusal
	}
	id := kept.Value.ID
	if err := f.keepSecret(dispatch.KindVessel, id, args.GitHubToken); err != nil {
		return nil, err
	}
	v, err := change(ctx, f, who, id, "updated", "The vessel "+kept.Value.Name+" was changed.", func(v dispatch.Vessel) (dispatch.Vessel, error) {
		v = args.apply(v, ask.Now)
		v.HasGitHubToken = f.opts.Secrets.HasSecret(secretOf(dispatch.KindVessel, id))
		return v, nil
	})
	if err != nil {
		return nil, err
	}
	f.wake()
	return v, nil
}

// deletedVessel is the answer to its deletion.
type deletedVessel struct {
	Status   string   `json:"Status"`
	VesselID string   `json:"VesselId"`
	Warnings []string `json:"Warnings"`
}

func (f *Family) deleteVessel(ctx context.Context, ask native.Ask) (any, error) {
	id, err := idOf(ask, "vesselId")
	if err != nil {
		return nil, err
	}
	warnings, err := f.dropVessel(ctx, ask.Call.Principal, id)
	if err != nil {
		return nil, err
	}
	return deletedVessel{"deleted", id, warnings}, nil
}

// dropVessel deletes a vessel on which nobody works, then what was cloned of it.
func (f *Family) dropVessel(ctx context.Context, who broker.Principal, id string) (warnings []string, err error) {
	var gone dispatch.Vessel
	err = f.write(ctx, func() ([]broker.RecordChange, error) {
		kept, err := read[dispatch.Vessel](f, who, id)
		if err != nil {
			return nil, err
		}
		missions, err := list[dispatch.Mission](f, dispatch.OfVessel(id))
		if err != nil {
			return nil, err
		}
		missions = slices.DeleteFunc(missions, func(m dispatch.Kept[dispatch.Mission]) bool { return !m.Value.Status.Open() })
		if len(missions) > 0 { // also those that wait: nothing could become of them
			return nil, broker.Refuse(broker.CodeVesselBusy, "Missions of this vessel go on; nothing was deleted.", map[string]any{"VesselId": id, "Missions": len(missions)})
		}
		gone = kept.Value
		return changes(remove(kept, happened(gone, "deleted", who, "The vessel "+gone.Name+" was deleted.")))
	})
	if err != nil {
		return nil, err
	}
	warnings = []string{}
	if err := f.opts.Secrets.SetSecret(secretOf(dispatch.KindVessel, id), ""); err != nil {
		warnings = append(warnings, "Its token could not be removed from the state directory.")
	}
	return append(warnings, f.opts.Places.RemoveClone(ctx, gone)...), nil
}
