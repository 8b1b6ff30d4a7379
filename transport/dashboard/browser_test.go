package dashboard_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"berth/broker"
	"berth/broker/dispatch"
	"berth/transport/dashboard/browsertest"
	"berth/transport/rest"
)

// everyPage are the pages of the rig, by the names of their screenshots.
var everyPage = []struct{ name, path string }{
	{"overview", "/"}, {"jobs", "/jobs"}, {"job", "/jobs/job_bad"}, {"job-running", "/jobs/job_run"}, {"events", "/events"}, {"catalog", "/catalog"},
	{"board", "/board"}, {"hold", "/hold"}, {"restart", "/restart"}, {"credentials", "/credentials"},
	{"backend", "/backends/files"}, {"backend-drained", "/backends/remote"},
	{"voyages", "/voyages"}, {"voyage", "/voyages/vyg_1"}, {"mission", "/missions/msn_run"}, {"mission-done", "/missions/msn_core"}, {"mission-failed", "/missions/msn_bad"},
}

func logIn(p *browsertest.Page, base, token string) {
	p.Go(base + "/login")
	p.Type("#token", token)
	p.Click("button.primary")
}

// audit is what a page must be for those who use it otherwise than by looking
// at it on a wide screen. It gives what is wrong, as text.
const audit = `(() => {
  const wrong = [];
  const seen = (el) => el.getClientRects().length > 0 && getComputedStyle(el).visibility !== "hidden";
  const name = (el) => el.getAttribute("aria-label") || (el.labels && el.labels[0] ? el.labels[0].textContent : "") || el.textContent || el.title || "";
  if (document.documentElement.lang !== "en") wrong.push("the page has no language");
  if (!document.title) wrong.push("the page has no title");
  if (document.querySelectorAll("main").length !== 1 || document.querySelectorAll("h1").length !== 1) wrong.push("not one main and one h1");
  let level = 0;
  for (const h of document.querySelectorAll("h1, h2, h3")) {
    const n = Number(h.tagName[1]);
    if (n > level + 1) wrong.push("a heading was skipped before " + h.textContent);
    level = n;
  }
  for (const el of document.querySelectorAll("input:not([type=hidden]):not([hidden]), select, textarea, button, a, summary")) {
    if (!name(el).trim()) wrong.push("without a name: " + el.outerHTML.slice(0, 120));
  }
  for (const el of document.querySelectorAll("svg")) {
    if (el.getAttribute("aria-hidden") !== "true" && !el.getAttribute("aria-label")) wrong.push("a picture without words");
  }
  for (const el of document.querySelectorAll("th")) if (!el.scope) wrong.push("a header cell without scope");
  const ids = new Set();
  for (const el of document.querySelectorAll("[id]")) {
    if (ids.has(el.id)) wrong.push("an id twice: " + el.id);
    ids.add(el.id);
  }
  for (const el of document.querySelectorAll("[aria-describedby]"))
    for (const id of el.getAttribute("aria-describedby").split(" ")) if (!document.getElementById(id)) wrong.push("no such description: " + id);
  for (const el of document.querySelectorAll("[style]")) wrong.push("an inline style");
  for (const el of document.querySelectorAll("[tabindex]")) if (el.tabIndex > 0) wrong.push("a tab order of its own");
  if (document.documentElement.scrollWidth > innerWidth) {
    const wide = [...document.querySelectorAll("body *")].find((el) => el.getBoundingClientRect().right > innerWidth + 1 && !el.closest(".scroll, pre"));
    wrong.push("wider than the window: " + (wide ? wide.outerHTML.slice(0, 160) : "?"));
  }
  const parse = (c) => {
    const m = c.match(/^rgba?\(([^)]+)\)/);
    if (!m) return null;
    const [r, g, b, a] = m[1].split(/[ ,/]+/).map(Number);
    return [r, g, b, a === undefined ? 1 : a];
  };
  const light = ([r, g, b]) => {
    const f = (v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
    return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b);
  };
  const ground = (el) => {
    for (let at = el; at; at = at.parentElement) {
      const c = parse(getComputedStyle(at).backgroundColor);
      if (c && c[3] > 0.9) return c;
    }
    return [255, 255, 255, 1];
  };
  let texts = 0;
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let n = walk.nextNode(); n; n = walk.nextNode()) {
    const el = n.parentElement;
    if (!n.textContent.trim() || !seen(el) || ["SCRIPT", "STYLE", "TITLE", "title"].includes(el.tagName)) continue;
    const ink = parse(getComputedStyle(el).color);
    if (!ink) { wrong.push("a colour that cannot be read: " + getComputedStyle(el).color); continue; }
    texts++;
    const a = light(ink), b = light(ground(el));
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) wrong.push("contrast " + contrast.toFixed(2) + " of " + JSON.stringify(n.textContent.trim().slice(0, 40)) + " in " + el.className);
  }
  if (texts < 3) wrong.push("almost no text was looked at");
  return wrong;
})()`

func checkPage(t *testing.T, p *browsertest.Page) {
	t.Helper()
	for _, wrong := range browsertest.Eval[[]string](p, audit) {
		t.Error(wrong)
	}
}

// Each page, wide and narrow, by day and by night: nothing overflows, every
// control has a name, every text can be read, and the browser asks nobody else
// for anything.
func TestEveryPageInABrowser(t *testing.T) {
	b := browsertest.Open(t)
	r := newRig(t)
	r.hour()
	base := r.serve()
	looks := []struct {
		name    string
		options browsertest.Options
	}{
		{"", browsertest.Options{Width: 1360, Height: 900}},
		{"-dark", browsertest.Options{Width: 1360, Height: 900, Dark: true}},
		{"-phone", browsertest.Options{Width: 360, Height: 780}},
		{"-phone-dark", browsertest.Options{Width: 320, Height: 640, Dark: true}},
	}
	p := b.Page(t, base, browsertest.Options{})
	see := func(t *testing.T, name string) {
		t.Helper()
		for _, look := range looks {
			p.View(look.options)
			checkPage(t, p)
			p.Shot(name + look.name)
		}
	}
	if status := p.Go(base + "/jobs"); status != 401 {
		t.Errorf("a page without a session: status %d", status)
	}
	see(t, "login")
	logIn(p, base, "operator-token")
	for _, page := range everyPage {
		t.Run(page.name, func(t *testing.T) {
			if status := p.Go(base + page.path); status != 200 {
				t.Fatalf("status %d", status)
			}
			see(t, page.name)
		})
	}
	p.Clean()
}

func TestAPageIsKeptLiveInABrowser(t *testing.T) {
	b := browsertest.Open(t)
	r := newRig(t)
	base := r.serve()
	p := b.Page(t, base, browsertest.Options{})
	logIn(p, base, "operator-token")
	p.Go(base + "/jobs")
	p.Await(`document.getElementById("pulse").textContent === "Live"`)
	p.Do()
	browsertest.Eval[any](p, `document.querySelector("#operation").focus(), window.same = true`)
	r.mu.Lock()
	r.jobs = append([]broker.Job{job("job_new", broker.JobAccepted)}, r.jobs...)
	r.mu.Unlock()
	p.Await(`document.querySelector('a[href="/jobs/job_new"]') !== null`)
	if !browsertest.Eval[bool](p, `window.same === true && document.activeElement.id === "operation"`) {
		t.Error("the page was loaded again, or the focus was taken away")
	}
	p.Clean()
}

// What somebody types is not swept away by an update, and comes up to date when
// it is left.
func TestAnUpdateWaitsForWhoIsTypingInABrowser(t *testing.T) {
	b := browsertest.Open(t)
	r := newRig(t)
	base := r.serve()
	p := b.Page(t, base, browsertest.Options{})
	logIn(p, base, "operator-token")
	p.Go(base + "/hold")
	p.Await(`document.getElementById("pulse").textContent === "Live"`)
	p.Type("#reason", "node up")
	r.held("disk")
	p.Await(`document.querySelector("[data-part=hold]").textContent.includes("disk")`)
	if got := browsertest.Eval[string](p, `document.querySelector("#reason").value`); got != "node up" {
		t.Errorf("the field has %q", got)
	}
	p.Clean()
}

func (r *rig) held(reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers["/api/v1/hold"] = map[string]any{"Active": true, "Hold": map[string]any{"Reason": reason, "SetBy": "operator", "SetByUtc": broker.FormatTime(epoch)}, "UnfinishedJobs": []any{}}
}

// The changes, with and without the script.
func TestChangesInABrowser(t *testing.T) {
	b := browsertest.Open(t)
	for _, noScript := range []bool{false, true} {
		t.Run(fmt.Sprintf("without a script %v", noScript), func(t *testing.T) {
			r := newRig(t)
			r.on["/api/v1/jobs/job_run/cancel"] = func([]byte) {
				r.jobs[0] = job("job_run", broker.JobFailed, func(j *broker.Job) {
					j.Reason, j.FailureMessage = broker.CodeCancelled, "cancelled by default/operator"
				})
			}
			r.on["/api/v1/hold"] = func(body []byte) {
				r.answers["/api/v1/hold"] = map[string]any{"Active": strings.Contains(string(body), "engage"), "Hold": map[string]any{"Reason": "node upgrade", "SetBy": "operator", "SetByUtc": broker.FormatTime(epoch)}}
			}
			base := r.serve()
			p := b.Page(t, base, browsertest.Options{Width: 1360, Height: 900, NoScript: noScript})
			logIn(p, base, "operator-token")
			p.Go(base + "/jobs/job_run")
			p.Type("#reason", "a wrong branch")
			p.Click("button.danger")
			if got := p.Text("main"); !strings.Contains(got, "The job was cancelled.") || !strings.Contains(got, "cancelled by default/operator") {
				t.Errorf("after a cancel: %s", got)
			}
			p.Go(base + "/hold")
			p.Type("#reason", "node upgrade")
			p.Click("button.danger")
			if got := p.Text("main"); !strings.Contains(got, "Dispatch is on hold") || !strings.Contains(got, "node upgrade") {
				t.Errorf("after a hold: %s", got)
			}
			p.Click("button.primary")
			if got := p.Text("main"); !strings.Contains(got, "Dispatch is not on hold") {
				t.Errorf("after clearing: %s", got)
			}
			p.Go(base + "/board")
			p.Do()
			browsertest.Eval[any](p, `document.querySelector("details").open = true`)
			p.Type("#content", "the vessel is free")
			p.Click("details button")
			if got := p.Text("main"); !strings.Contains(got, "The note is on the board.") {
				t.Errorf("after a note: %s", got)
			}
			want := []change{{"/api/v1/jobs/job_run/cancel", "default/operator", `{"Reason":"a wrong branch"}`},
				{"/api/v1/hold", "default/operator", `{"Action":"engage","Reason":"node upgrade","SetBy":"operator"}`},
				{"/api/v1/hold", "default/operator", `{"Action":"clear","Reason":"","SetBy":"operator"}`},
				{"/api/v1/board", "default/operator", `{"AuthorName":"operator","Content":"the vessel is free","RoomKey":"fleet"}`}}
			r.mu.Lock()
			if !slices.Equal(r.changes, want) {
				t.Errorf("the API was told %q\nwant %q", r.changes, want)
			}
			r.mu.Unlock()
			p.Clean()
		})
	}
}

// A mission's log grows on the open page, and whoever reads further up is left
// there.
func TestALogGrowsInABrowser(t *testing.T) {
	b := browsertest.Open(t)
	r := newRig(t)
	base := r.serve()
	p := b.Page(t, base, browsertest.Options{})
	logIn(p, base, "operator-token")
	p.Go(base + "/missions/msn_run")
	p.Await(`document.getElementById("pulse").textContent === "Live"`)
	grow := func(line string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		log := r.answers["/api/v1/missions/msn_run/log"].(rest.MissionLog)
		log.Log, log.Lines, log.TotalLines = log.Log+line+"\n", log.Lines+1, log.TotalLines+1
		r.answers["/api/v1/missions/msn_run/log"] = log
	}
	const tail = `document.querySelector(".tail")`
	grow("the first new line")
	p.Await(tail + `.textContent.includes("the first new line")`)
	if !browsertest.Eval[bool](p, tail+`.scrollHeight > `+tail+`.clientHeight && `+tail+`.scrollTop === 0`) {
		t.Error("the end of the log is not in view")
	}
	browsertest.Eval[any](p, tail+`.scrollTop = -200`)
	grow("the second new line")
	p.Await(tail + `.textContent.includes("the second new line")`)
	if at := browsertest.Eval[float64](p, tail+`.scrollTop`); at > -150 {
		t.Errorf("who read further up was taken to %v", at)
	}
	r.mu.Lock()
	m := r.answers["/api/v1/missions/msn_run"].(rest.Mission)
	m.Status = dispatch.MissionComplete
	r.answers["/api/v1/missions/msn_run"] = m
	r.mu.Unlock()
	p.Await(`document.querySelector("[data-part=mission]").textContent.includes("Complete") && document.querySelector("[data-part=actions] form") === null`)
	p.Await(`!document.querySelector("[data-part=diff]").textContent.includes("when the page was loaded")`)
	p.Clean()
}

// What stops work, with and without the script.
func TestWorkIsStoppedInABrowser(t *testing.T) {
	b := browsertest.Open(t)
	for _, noScript := range []bool{false, true} {
		t.Run(fmt.Sprintf("without a script %v", noScript), func(t *testing.T) {
			r := newRig(t)
			base := r.serve()
			p := b.Page(t, base, browsertest.Options{Width: 1360, Height: 900, NoScript: noScript})
			logIn(p, base, "operator-token")
			press := func(path, section, said string) {
				t.Helper()
				p.Go(base + path)
				browsertest.Eval[any](p, `document.querySelector("`+section+` details").open = true`)
				p.Click(section + " button.danger")
				if got := p.Text("main"); !strings.Contains(got, said) {
					t.Errorf("%s: %s", path, got)
				}
			}
			press("/missions/msn_run", "#part-actions", "The mission was cancelled.")
			press("/voyages/vyg_1", "#part-cancel", "The voyage was cancelled.")
			p.Go(base + "/missions/msn_bad")
			p.Click("#part-actions button.primary")
			if got := p.Text("main"); !strings.Contains(got, "The mission is pending again.") {
				t.Errorf("after a restart: %s", got)
			}
			p.Go(base + "/backends/files")
			p.Type("#drain-reason", "node upgrade")
			p.Click("form[action$=drain] button")
			if got := p.Text("main"); !strings.Contains(got, "The backend takes no new calls.") {
				t.Errorf("after a drain: %s", got)
			}
			p.Go(base + "/credentials")
			browsertest.Eval[any](p, `document.querySelector("details").open = true`)
			p.Type("details input[name=reason]", "a lost laptop")
			if !noScript {
				p.Shot("credentials-revoke")
			}
			p.Click("details button")
			if got := p.Text("main"); !strings.Contains(got, "The credential was revoked.") {
				t.Errorf("after a revocation: %s", got)
			}
			want := []change{{"/api/v1/missions/msn_run", "default/operator", "null"}, {"/api/v1/voyages/vyg_1", "default/operator", "null"}, {"/api/v1/missions/msn_bad/restart", "default/operator", "{}"},
				{"/api/v1/backends/files/drain", "default/operator", `{"Reason":"node upgrade"}`}, {"/api/v1/credentials/crd_1/revoke", "default/operator", `{"Reason":"a lost laptop"}`}}
			r.mu.Lock()
			if !slices.Equal(r.changes, want) {
				t.Errorf("the API was told %q", r.changes)
			}
			r.mu.Unlock()
			p.Clean()
		})
	}
}

func TestARefusedRoleInABrowser(t *testing.T) {
	b := browsertest.Open(t)
	r := newRig(t)
	base := r.serve()
	p := b.Page(t, base, browsertest.Options{})
	logIn(p, base, "user-token")
	if got := p.Text("main"); !strings.Contains(got, "the vessel is free") {
		t.Errorf("after the login a user sees: %s", got)
	}
	if status := p.Go(base + "/jobs"); status != 403 || !strings.Contains(p.Text("main"), "global_administrator_required") {
		t.Errorf("the jobs of a user: status %d, %s", status, p.Text("main"))
	}
	checkPage(t, p)
	p.Shot("refused")
	if got := p.Text("nav"); strings.TrimSpace(got) != "Board" {
		t.Errorf("the navigation of a user: %q", got)
	}
	if status := p.Go(base + "/board"); status != 200 {
		t.Errorf("the board of a user: status %d", status)
	}
	p.Clean()
}

// Hostile strings in every text that a backend or caller controls: nothing runs,
// no dialog opens, nothing is loaded, and nothing overflows.
func TestHostileStringsInABrowser(t *testing.T) {
	b := browsertest.Open(t)
	r := newRig(t)
	r.hostile()
	base := r.serve()
	p := b.Page(t, base, browsertest.Options{Width: 360, Height: 780})
	logIn(p, base, "operator-token")
	for _, page := range everyPage {
		t.Run(page.name, func(t *testing.T) {
			path := hostilePath(page.path)
			if status := p.Go(base + path); status != 200 {
				t.Fatalf("status %d", status)
			}
			if browsertest.Eval[bool](p, `window.hacked !== undefined || document.querySelector("main img, main script, main b[onclick], main a[href^='javascript'], main iframe") !== null`) {
				t.Error("a hostile string became part of the page")
			}
			checkPage(t, p)
			if page.name == "overview" { // others are many screens high
				p.Shot("hostile-" + page.name)
			}
		})
	}
	p.Go(base + "/")
	p.Await(`document.getElementById("pulse").textContent === "Live"`) // what the script swaps in is text, too
	if browsertest.Eval[bool](p, `window.hacked !== undefined || document.querySelector("main img") !== null`) {
		t.Error("a hostile string became part of the page by an update")
	}
	p.Clean()
}

// hostilePath is where a page is once everything on it is hostile.
func hostilePath(path string) string {
	switch {
	case strings.HasPrefix(path, "/jobs/"):
		return "/jobs/job_hostile"
	case strings.HasPrefix(path, "/backends/"):
		return "/backends/" + url.PathEscape(nastyText)
	}
	return path
}

// nasty are the hostile strings.
var nasty = []string{
	`<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>`,
	"\u202egnp.exe\u2066 \u05d0\u05d1\u05d2 \u0000\u0007\u001b[2J",
	`"><svg onload=alert(1)>' javascript:alert(1) {{.}} </textarea></title><!--`,
	strings.Repeat("A", 10<<10),
}

// nastyText is all of them in one.
var nastyText = strings.Join(nasty, " ")

// hostile replaces every text in what the API answers and in what the broker
// gives, except words that the broker itself chooses.
func (r *rig) hostile() {
	r.mu.Lock()
	defer r.mu.Unlock()
	own := map[string]bool{"State": true, "Status": true, "Availability": true, "EntityType": true, "Profiles": true, "AssignmentState": true}
	isID := func(key, v string) bool { // of a record that another answer is about
		return strings.HasSuffix(key, "Id") && slices.ContainsFunc([]string{"vyg_", "msn_", "cpt_", "dck_"}, func(p string) bool { return strings.HasPrefix(v, p) })
	}
	var spoil func(key string, v any) any
	spoil = func(key string, v any) any {
		switch v := v.(type) {
		case map[string]any:
			for k := range v {
				v[k] = spoil(k, v[k])
			}
			return v
		case []any:
			for i := range v {
				v[i] = spoil(key, v[i])
			}
			return v
		case string:
			if own[key] || strings.HasSuffix(key, "Utc") || isID(key, v) {
				return v
			}
			return nastyText
		}
		return v
	}
	for path, answer := range r.answers {
		raw, err := json.Marshal(answer)
		if err != nil {
			r.t.Fatal(err)
		}
		var v any
		if err := json.Unmarshal(raw, &v); err != nil {
			r.t.Fatal(err)
		}
		r.answers[path] = spoil("", v)
	}
	r.answers["/api/v1/hold"].(map[string]any)["Active"] = true
	r.answers["/api/v1/hold"].(map[string]any)["Hold"] = map[string]any{"Reason": nastyText, "SetBy": nastyText, "SetByUtc": broker.FormatTime(epoch)}
	quoted, err := json.Marshal(map[string]string{"Error": nastyText})
	if err != nil {
		r.t.Fatal(err)
	}
	r.jobs = []broker.Job{job("job_hostile", broker.JobFailed, func(j *broker.Job) {
		j.Operation, j.Backend, j.Tenant, j.User, j.RuntimeID, j.Session = nastyText, nastyText, nastyText, nastyText, nastyText, nastyText
		j.FailureMessage, j.Reason, j.Refusal = nastyText, broker.Code(nastyText), quoted
		j.Tracking = &broker.Tracking{Handle: nastyText}
	}), job(nastyText, broker.JobRunning)}
}
