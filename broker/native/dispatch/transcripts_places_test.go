package dispatch

import (
	"errors"

	"berth/broker"
	"berth/broker/dispatch"
)

// idle takes what works on vessels and captains away.
func idle(r *rig) {
	missions, err := dispatch.ReadAll[dispatch.Mission](r.store.Journal, dispatch.Open)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, m := range dispatch.Values(missions) {
		amend(r, m.ID, func(m *dispatch.Mission) { m.Status = dispatch.MissionFailed })
	}
}

func asUser(r *rig) {
	r.who = broker.Principal{Tenant: "default", User: "ana", Role: broker.TenantAdministrator}
}

func init() {
	for verb, steps := range map[string][]step{
		"add_vessel": {
			{"a repository", `{"name":"berth","repoUrl":"https://example.com/berth.git","gitHubTokenOverride":" ghp_abcdefgh12345678 ","projectContext":"A broker.","allowConcurrentMissions":"true","landingMode":"LocalMerge","protectedPaths":[".github"]}`, nil},
			{"a clone of this host", `{"name":"berth","repoUrl":"/srv/clone"}`, nil},
			{"no name", `{"repoUrl":"https://example.com/a.git"}`, nil},
			{"no segment of a path", `{"name":"../a","repoUrl":"https://example.com/a.git"}`, nil},
			{"no address", `{"name":"a","repoUrl":"--upload-pack=id"}`, nil},
			{"a landing that is not built", `{"name":"a","repoUrl":"https://example.com/a.git","landingMode":"MergeQueue"}`, nil},
			{"what is not built", `{"name":"a","repoUrl":"https://example.com/a.git","fleetId":"flt_1","requirePassingChecksToLand":true}`, nil},
			{"server paths of somebody", `{"name":"a","repoUrl":"file:///srv/clone","workingDirectory":"/srv/a"}`, asUser},
			{"a journal that fails", `{"name":"a","repoUrl":"https://example.com/a.git"}`, func(r *rig) {
				r.store.before = func([]broker.RecordChange) error { return errors.New("no space left on device") }
			}},
			{"a journal that is full", `{"name":"a","repoUrl":"https://example.com/a.git"}`, func(r *rig) { r.store.before = func([]broker.RecordChange) error { return broker.ErrJournalBusy } }},
		},
		"get_vessel":            {{"one", `{"vesselId":"vsl_one"}`, nil}, {"no id", `{}`, nil}, {"not there", `{"vesselId":"vsl_none"}`, nil}},
		"update_vessel":         {{"some fields", `{"vesselId":"vsl_one","name":"","styleGuide":"Tabs.","localPath":"/srv/one.git","gitHubTokenOverride":""}`, nil}, {"not there", `{"vesselId":"vsl_none","name":"../x"}`, nil}, {"a server path of somebody", `{"vesselId":"vsl_one","localPath":"/srv/a"}`, asUser}, {"no branch", `{"vesselId":"vsl_one","defaultBranch":"-x"}`, nil}},
		"update_vessel_context": {{"both texts", `{"vesselId":"vsl_one","projectContext":"A broker.","styleGuide":""}`, nil}, {"not there", `{"vesselId":"vsl_none"}`, nil}},
		"delete_vessel":         {{"one that nobody works on", `{"vesselId":"vsl_two"}`, nil}, {"one with missions", `{"vesselId":"vsl_one"}`, nil}, {"not there", `{"vesselId":"vsl_none"}`, nil}},
		"delete_vessels":        {{"some of them", `{"ids":["vsl_one","vsl_two","vsl_none"]}`, nil}, {"no ids", `{}`, nil}},
		"create_captain": {
			{"a program", `{"name":" Ada Lovelace ","model":"claude-opus-4","apiKey":"sk-abcdefgh12345678","preferenceRank":5000,"allowedPersonas":"[\"Worker\"]","reasoningEffort":"high"}`, nil},
			{"a command", `{"name":"Own","runtime":"Custom","customCommand":["/bin/agent","{promptFile}"],"customPromptDelivery":"file"}`, nil},
			{"no name", `{}`, nil}, {"a name that is taken", `{"name":"ada"}`, nil}, {"a runtime that is not built", `{"name":"x","runtime":"Mux"}`, nil}, {"a tier that does not exist", `{"name":"x","tier":"Best"}`, nil},
			{"fields of the broker's", `{"name":"x","state":"Working","processId":7}`, nil}, {"a command without a program", `{"name":"x","runtime":"Custom"}`, nil}, {"playbooks", `{"name":"x","defaultPlaybooks":[{}]}`, nil},
		},
		"update_captain": {
			{"some fields", `{"captainId":"cpt_idle","model":"gpt-5-mini","tier":"","systemInstructions":"Be brief."}`, nil}, {"its name", `{"captainId":"cpt_idle","name":"Eva"}`, nil},
			{"a name that is taken", `{"captainId":"cpt_idle","name":"ada"}`, nil}, {"fields of the broker's", `{"captainId":"cpt_idle","currentMissionId":"msn_failed"}`, nil}, {"not there", `{"captainId":"cpt_none"}`, nil},
		},
		"get_captain":     {{"one that works", `{"captainId":"cpt_working"}`, nil}, {"not there", `{"captainId":"cpt_none"}`, nil}},
		"bench_captain":   {{"for a while", `{"captainId":"cpt_idle","reason":"tired","durationMinutes":"30"}`, nil}, {"until it is lifted", `{"captainId":"cpt_idle","reason":"tired"}`, nil}, {"one that works", `{"captainId":"cpt_working","reason":"tired"}`, nil}, {"no reason", `{"captainId":"cpt_idle"}`, nil}, {"not there", `{"captainId":"cpt_none","reason":"x"}`, nil}},
		"unbench_captain": {{"one that is not benched", `{"captainId":"cpt_working"}`, nil}, {"one that is", `{"captainId":"cpt_idle"}`, func(r *rig) { r.call("bench_captain", `{"captainId":"cpt_idle","reason":"tired"}`) }}, {"not there", `{"captainId":"cpt_none"}`, nil}},
		"delete_captain":  {{"one that does nothing", `{"captainId":"cpt_idle"}`, nil}, {"one that works", `{"captainId":"cpt_working"}`, nil}, {"one that was given a mission", `{"captainId":"cpt_idle"}`, func(r *rig) { amend(r, "msn_running", func(m *dispatch.Mission) { m.CaptainID = ptr("cpt_idle") }) }}, {"not there", `{"captainId":"cpt_none"}`, nil}},
		"delete_captains": {{"some of them", `{"ids":["cpt_idle","cpt_working"]}`, nil}, {"all of them", `{"ids":["cpt_idle"]}`, idle}},
	} {
		transcripts[verb] = steps
	}
}
