package resmontest

import (
	"fmt"
	"slices"
)

// catalogLine is a source, in what differs between them.
type catalogLine struct {
	slug, name, subjects, requirement, alias, combination string
}

var catalogLines = []catalogLine{
	{"arxiv", "arXiv", "Physics, mathematics, computer science", "none", "", "Implicit AND"},
	{"biorxiv", "bioRxiv / medRxiv", "Life and health science preprints", "none", "", "Explicit OR"},
	{"core", "CORE", "Open access, all fields", "required", "core_api_key", "Relevance-ranked"},
	{"crossref", "CrossRef", "All fields", "none", "", "Relevance-ranked"},
	{"dblp", "DBLP", "Computer science", "none", "", "Implicit AND"},
	{"doaj", "DOAJ", "Open access journals", "none", "", "Relevance-ranked"},
	{"europepmc", "Europe PMC", "Biomedicine", "none", "", "Implicit AND"},
	{"hal", "HAL", "All fields, France", "none", "", "Relevance-ranked"},
	{"ieee", "IEEE Xplore", "Engineering", "required", "ieee_api_key", "Implicit AND"},
	{"nasa_ads", "NASA ADS", "Astronomy", "required", "nasa_ads_api_key", "Implicit AND"},
	{"openalex", "OpenAlex", "All fields", "none", "", "Relevance-ranked"},
	{"plos", "PLOS", "Open access journals of PLOS", "none", "", "Relevance-ranked"},
	{"pubmed", "PubMed", "Biomedicine", "optional", "pubmed_api_key", "Implicit AND"},
	{"semantic_scholar", "Semantic Scholar", "All fields", "recommended", "semantic_scholar_api_key", "Relevance-ranked"},
	{"springer", "Springer Nature", "All fields", "required", "springer_api_key", "Relevance-ranked"},
}

// credentialStates are the aliases and how each is found: the three states are there.
var credentialStates = []struct{ alias, status string }{
	{"alibaba_api_key", "absent"}, {"anthropic_api_key", "present"}, {"core_api_key", "present"}, {"custom_llm_api_key", "absent"}, {"deepseek_api_key", "absent"},
	{"google_api_key", "absent"}, {"ieee_api_key", "unreadable"}, {"meta_api_key", "absent"}, {"nasa_ads_api_key", "absent"}, {"openai_api_key", "absent"},
	{"pubmed_api_key", "absent"}, {"semantic_scholar_api_key", "present"}, {"smtp_password", "unreadable"}, {"springer_api_key", "absent"}, {"xai_api_key", "absent"},
}

func (w *world) makeSources() {
	lines := slices.Clone(catalogLines)
	for n := len(lines); n < w.amounts.sources; n++ {
		lines = append(lines, catalogLine{fmt.Sprintf("regional_%d", n), fmt.Sprintf("Regional repository %d", n), "All fields", "none", "", "Relevance-ranked"})
	}
	for _, l := range lines {
		row := object{
			"slug": l.slug, "name": w.stamped(l.name), "description": l.name + " as resmon asks it", "subject_coverage": l.subjects, "endpoint": "https://api.example.org/" + l.slug,
			"query_method": "GET", "rate_limit": "1.0 req/s", "client_module": "api_" + l.slug + ".py", "api_key_requirement": l.requirement, "credential_name": nil,
			"website": "https://" + l.slug + ".example.org", "registration_url": nil, "placeholder": "", "upstream_policy": "One request a second.", "parallel_safe": "Yes",
			"notes": "None.", "keyword_combination": l.combination, "keyword_combination_notes": l.name + " joins words by its own rule.",
			"attribution": nil, "attribution_requirement": "none", "constraints": object{"default_start_days": nil}, "notices": []object{}, "result_order": "relevance",
		}
		if l.alias != "" {
			row["credential_name"], row["registration_url"] = l.alias, "https://"+l.slug+".example.org/register"
		}
		switch l.slug {
		case "biorxiv":
			row["constraints"], row["result_order"] = object{"default_start_days": 3}, "newest_first"
			row["notices"] = []object{{"scope": "beyond_default_start", "applies_when": "The window is longer than 3 days.", "sentence": "The search may not read back to its start."}}
		case "semantic_scholar":
			row["attribution"], row["attribution_requirement"] = "Data from Semantic Scholar.", "required"
		}
		w.catalog = append(w.catalog, row)
	}
}

// source is the row of a slug; one that nobody knows has its slug for a name.
func (w *world) source(slug string) object {
	for _, row := range w.catalog {
		if row["slug"] == slug {
			return row
		}
	}
	return object{"slug": slug, "name": slug, "keyword_combination": "unknown", "keyword_combination_notes": "unknown"}
}

func sourceCatalog(w *world, _ *request) answer { return ok(w.catalog) }

func credentials(_ *world, r *request) answer {
	aliases := object{}
	for _, c := range credentialStates {
		aliases[c.alias] = object{"present": c.status == "present", "status": c.status}
	}
	return r.whole(object{"keyring_responsive": true, "credentials": aliases})
}
