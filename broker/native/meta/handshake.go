package meta

import (
	"slices"
	"strings"

	"berth/broker"
	"berth/broker/catalog"
)

// The verdicts of a handshake, in the order in which they are tried.
const (
	degraded   = "degraded"
	stale      = "stale"
	truncated  = "truncated"
	proved     = "proved"
	claimedAll = "claimed"
	unverified = "unverified"
)

// statuses are what each verdict comes to. Without evidence nothing is ok.
var statuses = map[string]string{degraded: "degraded", stale: "stale", truncated: "degraded", proved: "ok", claimedAll: "ok", unverified: "unverified"}

// actions say what a caller does next.
var actions = map[string]string{
	degraded:   "Do not rely on the tools that are missing. Reach others with call_read and call_write, or connect to a smaller profile.",
	stale:      "The list has changed since. Ask your host to list the tools again.",
	truncated:  "Your host does not show the whole list. Reach the others with find and call_read or call_write, or connect to a smaller profile.",
	proved:     "Use the listed tools; reach the others with find and call_read or call_write.",
	claimedAll: "Use the listed tools; reach the others with find and call_read or call_write. The codes in the first and the last description would prove it.",
	unverified: "Nothing is proved. Give the codes that end the first and the last description of the list as canary, or the names that you see as available_tools.",
}

// What takes one way to the other verbs out of an action, or both.
var (
	withoutWrite = strings.NewReplacer(" or "+CallWrite, "", " and "+CallWrite, "")
	withoutRead  = strings.NewReplacer(CallRead+" or ", "", CallRead+" and ", "")
	withoutBoth  = strings.NewReplacer("Reach others with "+CallRead+" and "+CallWrite+", or connect", "Connect")
)

// action is what a caller of this profile does next: it names no verb that is
// not there for him, or that he says his host does not show.
func action(p *catalog.Profile, verdict string, missing []string) string {
	lacks := func(name string) bool {
		_, seen := p.Named(name)
		return !seen || slices.Contains(missing, name)
	}
	text := actions[verdict]
	switch read, write := lacks(CallRead), lacks(CallWrite); {
	case read && write:
		return withoutBoth.Replace(text)
	case read:
		return withoutRead.Replace(text)
	case write:
		return withoutWrite.Replace(text)
	}
	return text
}

var nonClaims = []string{"Berth cannot see what the harness shows to its model; only echoed codes and direct calls are proof."}

type canary struct{ Head, Tail string }

type shook struct {
	Schema      string            `json:"schema"`
	Verdict     string            `json:"verdict"`
	TrustMode   string            `json:"trust_mode"`
	Profile     string            `json:"profile"`
	Catalog     string            `json:"catalog"`
	Generation  uint64            `json:"generation"`
	Warnings    []string          `json:"warnings"`
	Repair      []string          `json:"repair"`
	NextAction  string            `json:"next_action"`
	Evidence    shownEvidence     `json:"evidence"`
	ToolSurface ToolSurface       `json:"tool_surface"`
	Labels      map[string]string `json:"labels,omitempty"`
	NonClaims   []string          `json:"non_claims"`
}

type shownEvidence struct {
	Served *servedEvidence `json:"served"` // null: nothing is remembered
	// Claimed is the caller's word.
	Claimed struct {
		Canary       string   `json:"canary,omitempty"` // match, head_only or mismatch
		ForeignNames int      `json:"foreign_names"`
		UnknownNames []string `json:"unknown_names,omitempty"`
	} `json:"claimed"`
	Exercised []string `json:"exercised"`
}

type servedEvidence struct {
	Catalog string `json:"catalog"`
	Count   int    `json:"count"`
	Pages   int    `json:"pages"`
}

// handshake judges what a caller says that its harness shows it.
func (f *Family) handshake(a ask) (any, *broker.Refusal) {
	var args struct {
		Canary    *canary
		Catalog   string
		Available *[]string `json:"available_tools"`
		Missing   []string  `json:"missing_tools"`
		Count     *int      `json:"observed_tool_count"`
		AgentID   string    `json:"agent_id"`
		Scope     string    `json:"scope"`
	}
	if refusal := decode(a.arguments, &args); refusal != nil {
		return nil, refusal
	}
	if args.Count != nil && *args.Count < 0 {
		return nil, misfit("/observed_tool_count", "minimum: wanted 0 or more")
	}
	c := claim{available: args.Available, missing: args.Missing, count: args.Count}
	j := judge(a.profile, c)
	e := f.opts.Ledger.evidence(a.holder, a.profile.Name())
	surface := f.surface(a.profile, c, j, e.called)

	out := shook{Schema: "berth-session-handshake-v1", Profile: a.profile.Name(), Catalog: a.profile.Fingerprint(), Generation: a.profile.Generation(),
		Warnings: []string{}, Repair: []string{}, NonClaims: nonClaims}
	codes := f.codes(a, args.Canary)
	out.Verdict = verdict(a, surface, e, codes, args.Catalog, c)
	surface.Status = statuses[out.Verdict]
	out.TrustMode = out.Verdict
	if surface.Degraded {
		out.TrustMode = "degraded_host_tool_surface"
	}
	out.NextAction, out.ToolSurface = action(a.profile, out.Verdict, surface.Missing), surface

	if len(j.unknown) > 0 {
		out.Warnings = append(out.Warnings, "unknown_names")
	}
	if slices.ContainsFunc(e.called, func(name string) bool { return j.missing[name] }) {
		out.Warnings = append(out.Warnings, "claim_contradicted") // the claim stands
	}
	if out.Verdict == degraded || out.Verdict == truncated {
		for _, name := range []string{CallRead, CallWrite} {
			_, seen := a.profile.Named(name)
			if seen && !slices.Contains(surface.Missing, name) && (j.available[name] || slices.Contains(e.called, name)) {
				out.Repair = append(out.Repair, name)
			}
		}
		if len(out.Repair) == 0 {
			out.Repair = append(out.Repair, "connect to a smaller profile")
		}
	}
	out.Evidence.Exercised = append([]string{}, e.called...)
	out.Evidence.Claimed.Canary, out.Evidence.Claimed.ForeignNames, out.Evidence.Claimed.UnknownNames = codes, j.foreign, j.unknown
	if e.served != nil {
		out.Evidence.Served = &servedEvidence{e.served.fingerprint, e.served.count, e.pages}
	}
	for name, text := range map[string]string{"agent_id": args.AgentID, "scope": args.Scope} {
		if text != "" {
			if out.Labels == nil {
				out.Labels = map[string]string{}
			}
			out.Labels[name] = clip(text)
		}
	}
	return out, nil
}

// What a pair of codes is worth.
const (
	codesMatch    = "match"
	codesHead     = "head_only"
	codesEarlier  = "earlier"
	codesMismatch = "mismatch"
)

// codes compares the codes that a caller gives with those of the list as it is
// now, and of the lists before it. Empty: none were given.
func (f *Family) codes(a ask, given *canary) string {
	if given == nil || (given.Head == "" && given.Tail == "") {
		return ""
	}
	head, tail := a.profile.Canary()
	switch {
	case head == "":
		return codesMismatch
	case given.Head == head && given.Tail == tail:
		return codesMatch
	case given.Head == head:
		return codesHead
	}
	for _, l := range f.opts.Ledger.evidence(a.holder, a.profile.Name()).earlier {
		if l.head != "" && l.head != head && (given.Head == l.head || (given.Head == "" && given.Tail == l.tail)) {
			return codesEarlier
		}
	}
	return codesMismatch
}

// verdict is the first that holds.
func verdict(a ask, s ToolSurface, e evidence, codes, fingerprint string, c claim) string {
	now := a.profile.Fingerprint()
	earlier := fingerprint != "" && fingerprint != now && slices.ContainsFunc(e.earlier, func(l listed) bool { return l.fingerprint == fingerprint })
	claims := codes != "" || fingerprint != "" || c.available != nil || len(c.missing) > 0
	switch {
	case s.Degraded:
		return degraded
	case codes == codesEarlier, earlier, !claims && e.served != nil && e.served.fingerprint != now:
		return stale
	case codes == codesHead, c.count != nil && e.served != nil && *c.count < e.served.count:
		return truncated
	case codes == codesMatch:
		return proved
	case c.available != nil:
		return claimedAll
	}
	return unverified
}
