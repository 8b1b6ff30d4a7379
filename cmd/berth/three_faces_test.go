package main

import (
	"encoding/json"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// tab is a browser without scripts that is logged in to the dashboard.
type tab struct {
	house *house
	http  *http.Client
	base  string
	csrf  string
}

var csrfField = regexp.MustCompile(`name="csrf" value="([^"]+)"`)

func (h *house) logIn() *tab {
	h.t.Helper()
	jar, err := cookiejar.New(nil)
	must(h.t, err)
	c := &tab{house: h, base: "http://" + h.broker.Addr(),
		http: &http.Client{Jar: jar, Transport: &http.Transport{}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	h.t.Cleanup(c.http.CloseIdleConnections)
	token, err := os.ReadFile(filepath.Join(h.state, "api-token"))
	must(h.t, err)
	if status, _, _ := c.submit("/login", url.Values{"token": {strings.TrimSpace(string(token))}}); status != http.StatusSeeOther {
		h.t.Fatalf("the login answers %d", status)
	}
	_, _, page := c.ask(http.MethodGet, "/hold", nil)
	found := csrfField.FindStringSubmatch(page)
	if found == nil {
		h.t.Fatalf("the page has no form: %s", page)
	}
	c.csrf = found[1]
	return c
}

func (c *tab) submit(path string, form url.Values) (status int, location, page string) {
	form.Set("csrf", c.csrf)
	return c.ask(http.MethodPost, path, form)
}

func (c *tab) ask(method, path string, form url.Values) (status int, location, page string) {
	c.house.t.Helper()
	r, err := http.NewRequestWithContext(c.house.t.Context(), method, c.base+path, strings.NewReader(form.Encode()))
	must(c.house.t, err)
	r.Header.Set("Accept", "text/html")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", c.base)
	}
	resp, err := c.http.Do(r)
	must(c.house.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must(c.house.t, err)
	return resp.StatusCode, resp.Header.Get("Location"), html.UnescapeString(string(text))
}

// One service decides a change; tool, REST and dashboard only map its answer:
// one payload is refused by all three with one code and one sentence, or has
// one effect.
func TestOnePayloadHasOneAnswerOnAllThreeFaces(t *testing.T) {
	h := newHouse(t)
	must(t, h.start())
	w, browser := newWire(h, "three"), h.logIn()
	effect := func() string { // what the two services hold, without what differs by face and time
		var s struct {
			Active bool
			Hold   *struct{ Reason string }
		}
		must(t, json.Unmarshal([]byte(h.get("/api/v1/hold")), &s))
		var r room
		w.tool("coordination_read", map[string]any{"includeFullContent": true}, &r)
		out, _ := json.Marshal(s)
		last := ""
		for _, m := range r.Messages {
			if !strings.HasPrefix(m.Content, "[hold]") && last == "" {
				last = m.Content
			}
		}
		return string(out) + last
	}
	for _, tt := range []struct {
		name, tool, path string
		arguments        map[string]any
		form             url.Values
		code             string
	}{
		{"a hold without a reason", "dispatch_hold", "/hold", map[string]any{"action": "engage", "setBy": "operator"}, url.Values{"action": {"engage"}}, "missing_reason"},
		{"an action that does not exist", "dispatch_hold", "/hold", map[string]any{"action": "loosen", "setBy": "operator"}, url.Values{"action": {"loosen"}}, "invalid_action"},
		{"a hold", "dispatch_hold", "/hold", map[string]any{"action": "engage", "reason": "upgrade", "setBy": "operator"}, url.Values{"action": {"engage"}, "reason": {"upgrade"}}, ""},
		{"its end", "dispatch_hold", "/hold", map[string]any{"action": "clear", "setBy": "operator"}, url.Values{"action": {"clear"}}, ""},
		{"a note without content", "coordination_post", "/board", map[string]any{"authorName": "operator"}, url.Values{}, "missing_content"},
		{"a note to nobody's key", "coordination_post", "/board", map[string]any{"authorName": "operator", "content": "x", "toParticipantKey": "a b"}, url.Values{"content": {"x"}, "to": {"a b"}}, "invalid_participant_key"},
		{"a note", "coordination_post", "/board", map[string]any{"authorName": "operator", "content": "the branch is free"}, url.Values{"content": {"the branch is free"}}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tool, err := w.call(t.Context(), tt.tool, tt.arguments, "")
			must(t, err)
			byTool := effect()
			pascal := map[string]any{}
			for name, value := range tt.arguments {
				pascal[strings.ToUpper(name[:1])+name[1:]] = value
			}
			body, err := json.Marshal(pascal)
			must(t, err)
			status, _, answer := h.operator("POST", "/api/v1"+tt.path, string(body))
			byREST := effect()
			shown, location, page := browser.submit(tt.path, tt.form)
			byPage := effect()
			if byTool != byREST || byREST != byPage {
				t.Errorf("the tool leaves %s, REST %s, the page %s", byTool, byREST, byPage)
			}
			if tt.code == "" {
				if tool.IsError || status/100 != 2 || shown != http.StatusSeeOther || location == "" {
					t.Fatalf("the tool answers %s, REST %d %s, the page %d", tool.Text, status, answer, shown)
				}
				return
			}
			var refused struct{ Code, Message string }
			must(t, json.Unmarshal(answer, &refused))
			var sentence struct{ Error string }
			must(t, json.Unmarshal([]byte(tool.Text), &sentence))
			if tool.Code != tt.code || refused.Code != tt.code || status != shown || sentence.Error != refused.Message ||
				!strings.Contains(page, tt.code) || !strings.Contains(page, sentence.Error) {
				t.Errorf("the tool answers %s, REST %d %s, the page %d %s", tool.Text, status, answer, shown, page)
			}
		})
	}
}
