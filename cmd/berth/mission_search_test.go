package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth/broker"
	"berth/broker/credential"
	"berth/broker/dispatch"
	"berth/broker/native"
	codeverbs "berth/broker/native/codeindex"
	"berth/broker/native/nativetest"
	"berth/broker/shape/o200k"
)

// keepRecord writes a record of work into a broker's journal.
func keepRecord[R dispatch.Stored](t *testing.T, b *running, r R) {
	t.Helper()
	change, err := dispatch.Write(r, 0)
	must(t, err)
	_, err = b.journal.PutAll(t.Context(), change)
	must(t, err)
}

// TestAnAgentSearchesTheCodeOfItsMission is the way of a user's agent on real
// parts: a journal, a repository, its index, and the launch token of a credential
// that is no administrator's.
func TestAnAgentSearchesTheCodeOfItsMission(t *testing.T) {
	x := newLaunched(t)
	p := project{t, filepath.Join(t.TempDir(), "project")}
	must(t, os.Mkdir(p.dir, 0o755))
	p.git("init", "--quiet", "--initial-branch=main")
	commit := p.commit("limit.go", "package p\n\n// RateLimiter limits.\ntype RateLimiter struct{}\n\nfunc (RateLimiter) Allow() bool { return true }\n")

	_, _, err := x.access.desk.Create(t.Context(), broker.LocalOperator, credential.Spec{Tenant: "acme", User: "ana", Role: broker.User})
	must(t, err)
	own := dispatch.Owner{TenantID: "acme", UserID: "ana"}
	now := time.Now()
	id := func(prefix string) string {
		id, err := broker.NewID(prefix, now, rand.Reader)
		must(t, err)
		return id
	}
	vessel := dispatch.Vessel{ID: id(dispatch.VesselPrefix), Owner: own, Name: "shop", RepoURL: p.dir, DefaultBranch: "main"}
	mission := dispatch.Mission{ID: id(dispatch.MissionPrefix), Owner: own, VesselID: vessel.ID, Title: "Limit", Status: dispatch.MissionInProgress}
	other := dispatch.Mission{ID: id(dispatch.MissionPrefix), Owner: own, VesselID: vessel.ID, Title: "Other", Status: dispatch.MissionInProgress}
	keepRecord(t, x.running, vessel)
	keepRecord(t, x.running, mission)
	keepRecord(t, x.running, other)
	token, why := x.access.launches.Issue(mission)
	agent, ok := x.access.launches.Bearer(token)
	if !ok || agent.Role != broker.User || agent.Mission != mission.ID {
		t.Fatalf("%s %+v", why, agent)
	}

	family := codeverbs.New(x.journal, x.vessels.family, x.vessels.engine, codeverbs.Options{Options: native.Options{Now: time.Now, Log: x.running.log},
		Counter: o200k.Counter{}, Within: context.WithTimeout, Missions: x.journal})
	ask := func(verb string, who broker.Principal, arguments map[string]any) (out struct {
		Available         bool
		UnavailableReason string
		Results           []struct{ Path, Excerpt string }
		Index             struct{ IndexedCommitSha string }
		CallsUsed         int
		Markdown          string
		EstimatedTokens   int
		Code              string
	}) {
		t.Helper()
		raw, err := json.Marshal(arguments)
		must(t, err)
		must(t, json.Unmarshal([]byte(nativetest.Call(t, family.Verbs, who, verb, string(raw))), &out))
		return out
	}
	search := map[string]any{"missionId": mission.ID, "query": "rate limiter"}
	for range 2 { // and one event of both
		if got := ask("mission_code_search", agent.Principal, search); got.UnavailableReason != "index_missing" {
			t.Fatalf("%+v", got)
		}
	}
	page, err := x.journal.EventsPage(broker.EventQuery{Limit: 10, EventType: "code_index.search_unavailable"})
	must(t, err)
	if len(page.Events) != 1 || page.Events[0].VesselID != vessel.ID || page.Events[0].TenantID != "acme" {
		t.Errorf("%+v", page.Events)
	}
	if got := ask("index_update", broker.LocalOperator, map[string]any{"vesselId": vessel.ID}); got.Code != "" {
		t.Fatalf("%+v", got)
	}
	got := ask("mission_code_search", agent.Principal, search)
	if !got.Available || len(got.Results) == 0 || got.Results[0].Path != "limit.go" || got.Index.IndexedCommitSha != commit || got.CallsUsed != 1 {
		t.Errorf("%+v", got)
	}
	if got := ask("mission_code_search", agent.Principal, map[string]any{"missionId": other.ID, "query": "rate limiter"}); got.UnavailableReason != "mission_not_found" {
		t.Errorf("another mission of its owner: %+v", got)
	}
	pack := ask("context_pack", broker.LocalOperator, map[string]any{"vesselId": vessel.ID, "goal": "Make RateLimiter.Allow say no", "tokenBudget": 400})
	if !strings.Contains(pack.Markdown, "func (RateLimiter) Allow() bool") || pack.EstimatedTokens == 0 || pack.EstimatedTokens > 400 || pack.EstimatedTokens != (o200k.Counter{}).Count(pack.Markdown).Tokens {
		t.Errorf("%+v", pack)
	}
	x.silent(token)
}
