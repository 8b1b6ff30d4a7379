package dashboard

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"berth/transport/rest"
)

const verbsAPage = 100

type profileRow struct {
	Name  string
	Shown string
	rest.ProfileView
}

// shownProfiles bounds how many profiles are weighed for one page.
const shownProfiles = 50

func (d *Dashboard) catalog(r *http.Request) (*page, error) {
	q := r.URL.Query()
	at, text, backend := pageNumber(q), filterText(q, "text"), filterText(q, "backend")
	var all rest.CatalogPage
	if err := d.get(r, "/api/v1/catalog", url.Values{"tokens": {"true"}}, &all); err != nil {
		return nil, err
	}
	var backends []string
	total, counted := 0, true
	var records []rest.Record
	for _, v := range all.Objects {
		from := visible(v.Backend)
		if !slices.Contains(backends, from) {
			backends = append(backends, from)
		}
		if (backend != "" && from != backend) || !mentions(v, text) {
			continue
		}
		records = append(records, v)
		if v.Tokens == nil {
			counted = false
		} else {
			total += *v.Tokens
		}
	}
	slices.Sort(backends)
	if q.Get("sort") == "tokens" {
		slices.SortStableFunc(records, func(a, b rest.Record) int { return pointed(b.Tokens) - pointed(a.Tokens) })
	}
	from := min((at-1)*verbsAPage, len(records))
	to := min(from+verbsAPage, len(records))
	profiles, err := d.profiles(r, all.Profiles)
	if err != nil {
		return nil, err
	}
	sum := &total
	if !counted {
		sum = nil
	}
	return &page{Title: "Catalog", At: "/catalog", Parts: []part{
		{ID: "profiles", Name: "profiles", Data: map[string]any{"Rows": profiles, "Tier": all.Tier, "More": len(all.Profiles) - len(profiles)}},
		{ID: "filter", Name: "catalogfilter", Data: map[string]any{"Text": text, "Backend": backend, "Backends": backends, "Sort": q.Get("sort")}},
		{ID: "verbs", Name: "verbs", Data: map[string]any{"Rows": records[from:to], "Total": len(records), "Tokens": sum,
			"Pager": pages(r, at, verbsAPage, to-from, to < len(records)), "Pending": all.Pending}},
		{ID: "quarantined", Name: "quarantined", Data: map[string]any{"Rows": all.Quarantined[:min(len(all.Quarantined), 100)], "More": max(0, len(all.Quarantined)-100)}},
	}}, nil
}

func (d *Dashboard) profiles(r *http.Request, names []string) ([]profileRow, error) {
	var out []profileRow
	for _, name := range names {
		if name == "" || len(out) == shownProfiles {
			continue
		}
		row := profileRow{Name: name}
		if err := d.get(r, "/api/v1/profiles/"+url.PathEscape(name), nil, &row.ProfileView); err != nil {
			return nil, err
		}
		out = append(out, row)
	}
	return out, nil
}

func mentions(v rest.Record, text string) bool {
	if text == "" {
		return true
	}
	text = strings.ToLower(text)
	return strings.Contains(strings.ToLower(v.Name), text) || strings.Contains(strings.ToLower(v.Summary), text) ||
		slices.ContainsFunc(v.Aliases, func(a string) bool { return strings.Contains(strings.ToLower(a), text) })
}
