package dashboard

import (
	"net/http"
	"strings"

	"berth/transport/rest"
)

type credentialRow struct {
	rest.Credential
	Created, LastUsed, RevokedAt *moment
	Narrowed                     string
}

const shownCredentials = 500

func (d *Dashboard) credentials(r *http.Request) (*page, error) {
	var all rest.Page[rest.Credential]
	if err := d.get(r, "/api/v1/credentials", nil, &all); err != nil {
		return nil, err
	}
	var rows []credentialRow
	for _, c := range all.Objects[:min(len(all.Objects), shownCredentials)] {
		row := credentialRow{Credential: c, Created: d.at(&c.CreatedUTC), RevokedAt: d.at(c.RevokedUTC)}
		if c.LastUsedUTC != nil {
			day, _, _ := strings.Cut(*c.LastUsedUTC, "T") // more than the day is not known
			row.LastUsed = &moment{Exact: day, Ago: day}
		}
		var narrowed []string
		if c.ReadOnly {
			narrowed = append(narrowed, "reads only")
		}
		if len(c.Profiles) > 0 {
			narrowed = append(narrowed, "profiles "+strings.Join(c.Profiles, ", "))
		}
		if len(c.Shares) > 0 {
			narrowed = append(narrowed, "shares of backends")
		}
		row.Narrowed = strings.Join(narrowed, "; ")
		rows = append(rows, row)
	}
	return &page{Title: "Credentials", At: "/credentials", Parts: []part{
		{ID: "credentials", Name: "credentials", Data: map[string]any{"Rows": rows, "More": len(all.Objects) - len(rows), "CSRF": d.Guard.CSRF(r)}},
	}}, nil
}
