package dashboard

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"berth/broker/dispatch"
	"berth/transport/rest"
)

// How much of a mission's texts is shown; the commands have the rest.
const (
	shownLines  = 200    // of a log, the last ones
	shownOutput = 20_000 // characters of an output
	shownDiff   = 1500   // lines of a diff
	shownLine   = 400    // characters of a line of a log or diff
)

func (d *Dashboard) mission(r *http.Request) (*page, error) {
	id := r.PathValue("id")
	path := "/api/v1/missions/" + url.PathEscape(id)
	var m rest.Mission
	if err := d.get(r, path, nil, &m); err != nil {
		return nil, err
	}
	about, err := d.aboutMission(r, m)
	if err != nil {
		return nil, err
	}
	log, err := d.logOf(r, path)
	if err != nil {
		return nil, err
	}
	history, err := d.told(r, url.Values{"missionId": {id}})
	if err != nil {
		return nil, err
	}
	parts := []part{
		{ID: "mission", Name: "mission", Live: true, Data: about},
		{ID: "actions", Name: "missionactions", Live: true, Data: map[string]any{"ID": id, "CSRF": d.Guard.CSRF(r), "Actions": actionsOf(m.Status)}},
		{ID: "log", Name: "missionlog", Live: true, Data: log},
	}
	if working := m.Status.Live(); !working || !watched(r) { // a diff of work under way is git's work: once, not all the time
		diff, err := d.diffOf(r, path)
		if err != nil {
			return nil, err
		}
		output, err := d.outputOf(r, path)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part{ID: "output", Name: "missionoutput", Live: true, Data: output}, part{ID: "diff", Name: "missiondiff", Live: true, Data: diff})
		diff["Working"], output["Working"] = working, working
	}
	parts = append(parts, part{ID: "history", Name: "history", Live: true, Data: history})
	return &page{Title: "Mission " + id, At: "/voyages", Parts: parts}, nil
}

// aboutMission is what its record says, with its captain and its dock.
func (d *Dashboard) aboutMission(r *http.Request, m rest.Mission) (map[string]any, error) {
	data := map[string]any{"Mission": d.missionRows([]rest.Mission{m})[0], "Created": d.at(m.CreatedUTC), "Assigned": d.at(m.AssignedUTC)}
	if m.CaptainID != nil {
		var c rest.Captain
		switch err := d.get(r, "/api/v1/captains/"+url.PathEscape(*m.CaptainID), nil, &c); {
		case err == nil:
			data["Captain"], data["Heard"] = c, d.at(c.LastHeartbeat)
		default:
			if _, gone := refusal(err); !gone {
				return nil, err
			}
		}
	}
	if m.DockID != nil {
		var dock rest.Dock
		switch err := d.get(r, "/api/v1/docks/"+url.PathEscape(*m.DockID), nil, &dock); {
		case err == nil:
			data["Dock"] = dock
		default:
			if _, gone := refusal(err); !gone {
				return nil, err
			}
		}
	}
	return data, nil
}

// logOf is the end of a mission's log.
func (d *Dashboard) logOf(r *http.Request, path string) (map[string]any, error) {
	var part rest.MissionLog
	err := d.get(r, path+"/log", url.Values{"lines": {"1"}}, &part)
	from := max(0, part.TotalLines-shownLines)
	if err == nil && part.TotalLines > part.Lines {
		err = d.get(r, path+"/log", url.Values{"offset": {strconv.Itoa(from)}, "lines": {strconv.Itoa(shownLines)}}, &part)
	}
	if why, refused := refusal(err); refused {
		return map[string]any{"Why": why}, nil
	}
	return map[string]any{"Text": cutLines(part.Log), "From": from, "Total": part.TotalLines}, err
}

// cutLines cuts each line of a text that is too long to read.
func cutLines(text string) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i, line := range lines {
		lines[i] = cutLine(line)
	}
	return strings.Join(lines, "\n")
}

func cutLine(line string) string {
	if len(line) <= shownLine || utf8.RuneCountInString(line) <= shownLine {
		return line
	}
	n := 0
	for i := range line {
		if n == shownLine {
			return line[:i] + "…"
		}
		n++
	}
	return line
}

// outputOf is the beginning of what the agent said at its end.
func (d *Dashboard) outputOf(r *http.Request, path string) (map[string]any, error) {
	var o rest.Output
	err := d.get(r, path+"/output", url.Values{"length": {strconv.Itoa(shownOutput)}}, &o)
	if why, refused := refusal(err); refused {
		return map[string]any{"Why": why}, nil
	}
	return map[string]any{"Output": o}, err
}

// diffFile is what a diff says of one file.
type diffFile struct {
	Name           string
	Added, Removed int
	Lines          []diffLine
}

// diffLine is a line of a diff; Kind is add, del, hunk, meta, or empty.
type diffLine struct{ Kind, Text string }

func (d *Dashboard) diffOf(r *http.Request, path string) (map[string]any, error) {
	var diff rest.Diff
	err := d.get(r, path+"/diff", nil, &diff)
	if why, refused := refusal(err); refused {
		return map[string]any{"Why": why}, nil
	}
	files, more := readDiff(diff.Diff)
	return map[string]any{"Files": files, "More": more, "Branch": diff.Branch}, err
}

// readDiff reads a unified diff, as far as it is shown; more is how many lines
// are not. A text that is no diff is one file without a name.
func readDiff(text string) (files []diffFile, more int) {
	if text == "" {
		return nil, 0
	}
	header := false
	for n, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		if n >= shownDiff {
			more++
			continue
		}
		if name, begins := strings.CutPrefix(line, "diff --git "); begins || len(files) == 0 {
			header = begins
			files = append(files, diffFile{Name: nameOf(name, begins)})
		}
		f := &files[len(files)-1]
		kind := ""
		switch {
		case strings.HasPrefix(line, "@@"):
			kind, header = "hunk", false
		case header:
			kind = "meta"
		case strings.HasPrefix(line, "+"):
			kind = "add"
			f.Added++
		case strings.HasPrefix(line, "-"):
			kind = "del"
			f.Removed++
		}
		f.Lines = append(f.Lines, diffLine{kind, cutLine(line)})
	}
	return files, more
}

// nameOf is the new name of a file, of the line that begins its diff.
func nameOf(line string, begins bool) string {
	if !begins {
		return ""
	}
	if _, to, ok := strings.Cut(line, " b/"); ok {
		return to
	}
	return line
}

// Changed is how much of a file was changed, for its heading.
func (f diffFile) Changed() string { return fmt.Sprintf("+%d −%d", f.Added, f.Removed) }

// action is a change of a mission that its status admits.
type action struct {
	Path, Name, Help string
	Danger           bool
}

func actionsOf(s dispatch.MissionStatus) []action {
	cancel := action{"cancel", "Cancel this mission", "Its agent is ended with everything that it started. What it has committed stays on its branch.", true}
	switch {
	case s == dispatch.MissionFailed, s == dispatch.MissionCancelled:
		return []action{{"restart", "Run this mission again", "It is pending again, without its captain, branch and times.", false}}
	case s == dispatch.MissionLandingFailed:
		return []action{{"retry-landing", "Try to land it again", "Its branch is merged once more; the page comes back with the end of that.", false}, cancel}
	case s.Final():
		return nil
	}
	return []action{cancel}
}

func (d *Dashboard) cancelMission(r *http.Request) (string, error) {
	id := url.PathEscape(r.PathValue("id"))
	return "/missions/" + id + "?done=mission-cancelled", d.send(r, http.MethodDelete, "/api/v1/missions/"+id, nil)
}

func (d *Dashboard) restartMission(r *http.Request) (string, error) {
	id := url.PathEscape(r.PathValue("id"))
	return "/missions/" + id + "?done=mission-restarted", d.send(r, http.MethodPost, "/api/v1/missions/"+id+"/restart", map[string]any{})
}

func (d *Dashboard) retryLanding(r *http.Request) (string, error) {
	id := url.PathEscape(r.PathValue("id"))
	return "/missions/" + id + "?done=landed", d.send(r, http.MethodPost, "/api/v1/missions/"+id+"/retry-landing", map[string]any{})
}
