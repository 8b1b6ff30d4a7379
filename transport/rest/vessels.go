package rest

import (
	"encoding/json"
	"net/http"
)

// vesselBody are the fields of a vessel that a client may set; keys in any letter
// case.
type vesselBody struct {
	Name                    *string   `json:",omitempty"`
	RepoURL                 *string   `json:"RepoUrl,omitempty"`
	DefaultBranch           *string   `json:",omitempty"`
	WorkingDirectory        *string   `json:",omitempty"`
	LocalPath               *string   `json:",omitempty"`
	ProjectContext          *string   `json:",omitempty"`
	StyleGuide              *string   `json:",omitempty"`
	LandingMode             *string   `json:",omitempty"`
	BranchCleanupPolicy     *string   `json:",omitempty"`
	GitHubTokenOverride     *string   `json:",omitempty"`
	AllowConcurrentMissions *bool     `json:",omitempty"`
	ProtectedPaths          *[]string `json:",omitempty"`

	// What is not built: passed on, so that the verb refuses it by name.
	FleetID                    *string            `json:"FleetId,omitempty"`
	DefaultPipelineID          *string            `json:"DefaultPipelineId,omitempty"`
	RequirePassingChecksToLand *bool              `json:",omitempty"`
	DefaultPlaybooks           []selectedPlaybook `json:",omitempty"`
	SiblingRepos               []siblingRepo      `json:",omitempty"`
}

type siblingRepo struct {
	VesselRef      string `json:",omitempty"`
	RepoURL        string `json:"RepoUrl,omitempty"`
	RelativePath   string `json:",omitempty"`
	BranchStrategy string `json:",omitempty"`
	DefaultBranch  string `json:",omitempty"`
}

// codeSearchBody are the arguments of a search in a vessel's code.
type codeSearchBody struct {
	Query                string
	Limit                *int    `json:",omitempty"`
	PathPrefix           *string `json:",omitempty"`
	Language             *string `json:",omitempty"`
	IncludeContent       bool    `json:",omitempty"`
	IncludeReferenceOnly bool    `json:",omitempty"`
}

type updateBody struct {
	IdempotencyKey *string `json:",omitempty"`
}

// ofVessel asks a verb that is about the vessel of the path.
func (a *api) ofVessel(r *http.Request, verb string, arguments map[string]any) (json.RawMessage, error) {
	arguments["vesselId"] = r.PathValue("id")
	return a.twin(r, verb, arguments)
}

func (a *api) addVessel(r *http.Request) (any, error) {
	var body vesselBody
	if err := decode(r.Body, &body); err != nil {
		return nil, err
	}
	return a.twin(r, "add_vessel", asArguments(body))
}

func (a *api) updateVessel(r *http.Request) (any, error) {
	var body vesselBody
	if err := decode(r.Body, &body); err != nil {
		return nil, err
	}
	return a.ofVessel(r, "update_vessel", asArguments(body))
}

func (a *api) updateCodeIndex(r *http.Request) (any, error) {
	var body updateBody
	if err := decode(r.Body, &body); err != nil {
		return nil, err
	}
	job, err := a.ofVessel(r, "index_update", given(map[string]*string{"idempotencyKey": body.IdempotencyKey}))
	if err != nil {
		return nil, err
	}
	return answered{http.StatusAccepted, job}, nil
}

func (a *api) searchCode(r *http.Request) (any, error) {
	var body codeSearchBody
	if err := decode(r.Body, &body); err != nil {
		return nil, err
	}
	arguments := given(map[string]*string{"pathPrefix": body.PathPrefix, "language": body.Language})
	arguments["query"], arguments["includeContent"], arguments["includeReferenceOnly"] = body.Query, body.IncludeContent, body.IncludeReferenceOnly
	if body.Limit != nil {
		arguments["limit"] = *body.Limit
	}
	return a.ofVessel(r, "code_search", arguments)
}
