package help

import (
	"slices"
	"strings"
	"unicode/utf8"

	"berth/broker"
	"berth/broker/catalog/search"
)

// maxNames bounds how many names of an error text are looked up.
const maxNames = 64

// kind is one kind of error.
type kind struct {
	// signs are what its texts hold, in lower case: the codes of refusals, and
	// how servers commonly put it.
	signs  []string
	advice []string
	// unknown: a name in the text reaches no verb, and may have meant another.
	unknown bool
}

// kinds are what can be recognised, the most telling first.
var kinds = []kind{
	{signs: []string{string(broker.CodeVerbUnknown), "tool not found", "unknown tool", "no such tool", "tool does not exist", "no tool named"}, unknown: true,
		advice: []string{"No verb has this name for you; use the exact name that `find` gives.", "`describe` gives the schema of a name before you call it."}},
	{signs: []string{"effects_exceed_read"}, advice: []string{"The call changes something, so `call_read` does not make it.", "Make the same call with `call_write`."}},
	{signs: []string{"read_only_session", "read-only session"}, advice: []string{"This session may only read; the refusal holds for every way to call the verb.", "`find` lists what it may call."}},
	{signs: []string{"targets_not_ready"}, advice: []string{"Read each target first: the refusal's detail holds the calls in repair.", "Then repeat the call unchanged."}},
	{signs: []string{"handle_unknown"}, advice: []string{"The rest of that answer is not kept any longer, or is not yours.", "Make the call again, and read its rest with `more` at once."}},
	{signs: []string{"meta_recursion"}, advice: []string{"Name the verb itself as the target of `call_read`.", "Name the verb itself as the target of `call_write`."}},
	{signs: []string{"verb_changed"}, advice: []string{"The verb is not what it was; an operator has to accept the change."}},
	{signs: []string{string(broker.CodeOutcomeUnknown)}, advice: []string{"The call may have taken effect; look at the state that it was to change before you repeat it."}},
	{signs: []string{string(broker.CodeIdempotencyConflict)}, advice: []string{"This idempotency key was used with another verb or other arguments; take a new key for a new call."}},
	{signs: []string{string(broker.CodeInstanceMismatch), string(broker.CodeIdentityUnavailable)}, advice: []string{"The backend is not the one that the call expected; read its identity again before you go on."}},
	{signs: []string{string(broker.CodeJobLostOnRestart), string(broker.CodeReapedAsStale), string(broker.CodeTrackedWorkLost)},
		advice: []string{"The job ended without an outcome and is never run again by itself; find out what it did before you start it anew.", "`job_status` says why it ended."}},
	{signs: []string{string(broker.CodeJobNotFound), string(broker.CodeMissingJobID)}, advice: []string{"`job_status` wants the id exactly as the accepting answer gave it."}},
	{signs: []string{string(broker.CodeCatalogPending), string(broker.CodeStartTimeout)}, advice: []string{"The backend is still starting; repeat the call."}},
	{signs: []string{string(broker.CodeOverloaded), string(broker.CodeQueueTimeout), "rate limit", "too many requests"}, advice: []string{"The verb was not run; repeat the call after the time that the answer names."}},
	{signs: []string{string(broker.CodeBackendUnavailable), "connection refused"}, advice: []string{"The backend does not answer; nothing was done.", "`health` shows its state."}},
	{signs: []string{string(broker.CodeCallTimeout), string(broker.CodeIdleTimeout), "timed out", "deadline exceeded"},
		advice: []string{"The call took longer than it may; a call that changes something may still have taken effect."}},
	{signs: []string{string(broker.CodeUnauthorized), "permission denied", "forbidden", "access denied", "eacces", "not allowed"}, advice: []string{"The credential, or the backend's own, does not permit this; another spelling of the call does not help."}},
	{signs: []string{string(broker.CodeInvalidArgument), "invalid params", "-32602", "required property", "input validation error", "validation error", "missing required", "does not match schema", "zoderror"},
		advice: []string{"Take the minimal call and fill in your own values; send objects as objects, not as strings.", "`describe` gives the whole schema."}},
	{signs: []string{"enoent", "no such file", "not found", "does not exist", "404"}, advice: []string{"What the call named does not exist where the backend looks; list what there is before you repeat it."}},
}

// recover answers an error text. The name, if given, is the verb that failed.
func (r *reply) recover(name, text string) {
	text = clip(text)
	known, unknown := r.names(name, text)
	lower := strings.ToLower(text)
	for _, k := range kinds {
		if !slices.ContainsFunc(k.signs, func(sign string) bool { return strings.Contains(lower, sign) }) {
			continue
		}
		r.Found = true
		r.say(k.advice...)
		if k.unknown {
			for _, n := range unknown {
				r.suggest(n)
			}
		}
		break
	}
	for _, doc := range known {
		r.recommend(doc, "The error is about it.")
	}
	if len(known) == 1 {
		r.Card = r.desk.View.Verb(known[0]).Card
	}
	if name != "" && len(known) == 0 {
		r.suggest(name)
	}
	if len(known) == 0 && len(r.Suggestions) == 0 {
		hits, _ := r.desk.Index.Find(search.Query{Text: text, Limit: r.max})
		for _, h := range hits {
			if h.Class <= search.Overlap {
				r.recommend(h.Doc, Reason(h.Class))
			}
		}
	}
	r.Found = r.Found || len(known) > 0 || len(r.Suggestions) > 0 || len(r.Guidance.Recommended) > 0
	if !r.Found {
		r.say(nothing...)
	}
}

// names finds the verbs that are named, and words in the form of a name that
// reach none. The broker's own codes are no names.
func (r *reply) names(name, text string) (known []int, unknown []string) {
	words := strings.FieldsFunc(text, func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.')
	})
	if name != "" {
		words = append([]string{name}, words...)
	}
	looked := map[string]bool{}
	for i, w := range words {
		if w = strings.Trim(w, ".-"); w == "" || looked[w] || len(looked) >= maxNames {
			continue
		}
		// A plain word may be the name of a verb by chance; in an error text it
		// counts only when nothing else is meant by it.
		if named := i == 0 && name != ""; !named && !strings.ContainsAny(w, "_-.") && strings.ToLower(w[1:]) == w[1:] && !quoted(text, w) {
			continue
		}
		looked[w] = true
		if doc, ok := r.desk.View.Resolve(w); ok {
			if !slices.Contains(known, doc) && len(known) < r.max {
				known = append(known, doc)
			}
		} else if !isSign(w) {
			unknown = append(unknown, w)
		}
	}
	return known, unknown
}

// quoted reports whether a word stands in quotes, or as a whole after a colon.
func quoted(text, word string) bool {
	for _, q := range []string{"`", `"`, "'"} {
		if strings.Contains(text, q+word+q) {
			return true
		}
	}
	_, after, found := strings.Cut(text, ": "+word)
	return found && (after == "" || strings.ContainsAny(after[:1], " .,;\n"))
}

func isSign(word string) bool {
	return slices.ContainsFunc(kinds, func(k kind) bool { return slices.Contains(k.signs, strings.ToLower(word)) })
}

func clip(text string) string {
	if len(text) <= MaxErrorText {
		return text
	}
	n := MaxErrorText
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}
