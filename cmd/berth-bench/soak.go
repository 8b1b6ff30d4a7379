package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The load of a soak: the numbers, and what makes them a load that one
// machine can carry, a fifth of the backends' capacity without the hostile one.
const (
	soakBackends   = 10
	soakPrincipals = 50
	soakSessions   = 500
	soakSeats      = 16                      // of a backend: the default
	soakService    = 100 * time.Millisecond  // on average; a call takes half to one and a half of it
	soakThink      = 1250 * time.Millisecond // between two calls of a session, on average
	hostileCalls   = 40                      // at once, of each session of the hostile principal
	soakAnswer     = 50 * time.Millisecond   // that a look may take
	soakLook       = 100 * time.Millisecond  // between two looks
	soakSettle     = 100 * time.Second       // for what a load used to be given back: idle connections last 90 s
)

// soakResult is one run of the load.
type soakResult struct {
	calls   int
	hostile int
	waits   []time.Duration // of the others' calls for a seat, by the broker's clock, in whole milliseconds
	over    []time.Duration // of the same calls: all that their callers saw beyond the backend's own time
	looks   map[string][]time.Duration
	late    []time.Duration // how late the bench's own timers were: what the machine did to everybody
}

// newPrincipal makes a credential and gives its token.
func (b *broker) newPrincipal(ctx context.Context, user string) (string, error) {
	body, err := json.Marshal(map[string]string{"Tenant": "soak", "User": user, "Role": "user"})
	if err != nil {
		return "", err
	}
	answer, err := b.api(ctx, http.MethodPost, "/api/v1/credentials", body)
	if err != nil {
		return "", err
	}
	var made struct{ Token string }
	if err := json.Unmarshal(answer, &made); err != nil || made.Token == "" {
		return "", fmt.Errorf("a credential without a token (%w)", err)
	}
	return made.Token, nil
}

// api asks the operator API.
func (b *broker) api(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+b.addr+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+b.token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := soakHTTP.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode/100 != 2 {
		err = fmt.Errorf("%s %s: HTTP %d: %.200s", method, path, resp.StatusCode, answer)
	}
	return answer, err
}

// soakHTTP keeps one connection for looks, as an operator's browser does.
var soakHTTP = &http.Client{Transport: &http.Transport{MaxIdleConns: 1, MaxIdleConnsPerHost: 1}}

// soakLoad is everything that runs against a broker.
type soakLoad struct {
	b       *broker
	others  []*httpClient   // one for each session
	hostile [][]*httpClient // connections of each session of the hostile principal
	job     string          // a job that has ended, to be asked for
	asker   *httpClient     // an operator's session
}

// openSoak makes the principals and opens their sessions.
func openSoak(ctx context.Context, b *broker) (*soakLoad, error) {
	s := &soakLoad{b: b}
	each := soakSessions / soakPrincipals
	for p := range soakPrincipals {
		token, err := b.newPrincipal(ctx, fmt.Sprintf("user-%d", p))
		if err != nil {
			return nil, err
		}
		for i := range each {
			n := p*each + i
			to := b.target("soak", "/mcp/full", fmt.Sprintf("b%d__echo", n%soakBackends))
			to.token = token
			c, err := dialClient(ctx, to, 0)
			if err != nil {
				return nil, err
			}
			if p < soakPrincipals-1 {
				s.others = append(s.others, c)
				continue
			}
			more := []*httpClient{c}
			for k := 1; k < hostileCalls; k++ {
				w, err := c.again(ctx, k)
				if err != nil {
					return nil, err
				}
				more = append(more, w)
			}
			s.hostile = append(s.hostile, more)
		}
	}
	var err error
	if s.asker, err = dialClient(ctx, b.target("soak", "/mcp/full", "b0__echo"), 0); err != nil {
		return nil, err
	}
	s.job, err = s.asker.soakJob()
	return s, err
}

// again is another connection of the same session.
func (c *httpClient) again(ctx context.Context, client int) (*httpClient, error) {
	w, err := dialClient(ctx, c.t, client)
	if err != nil {
		return nil, err
	}
	if _, err := w.send(http.MethodDelete, ""); err != nil { // the session that it opened
		return nil, err
	}
	w.head = c.head
	w.script = newScript(client, c.t.tool, func(body []byte) []byte { return w.wrap(string(body)) })
	w.check = w.script.check
	return w, nil
}

// send makes one request with another method.
func (c *httpClient) send(method, body string) (string, error) {
	c.limit(callLimit)
	raw := strings.Replace(string(c.wrap(body)), http.MethodPost, method, 1)
	if _, err := c.conn.Write([]byte(raw)); err != nil {
		return "", err
	}
	return c.read("204")
}

// soakJob makes a job and waits for its end.
func (c *httpClient) soakJob() (string, error) {
	body := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"b0__echo","arguments":{"text":"x"},"_meta":{"berth/idempotencyKey":"soak-` + fmt.Sprint(rand.Int64()) + `"}}}`
	if _, err := c.ask(body, "200"); err != nil {
		return "", err
	}
	_, rest, ok := bytes.Cut(c.body, []byte(`"JobId":"`))
	id, _, closed := bytes.Cut(rest, []byte(`"`))
	if !ok || !closed {
		return "", fmt.Errorf("no job: %.300s", c.body)
	}
	job := string(id)
	for until := time.Now().Add(callLimit); time.Now().Before(until); {
		if _, err := c.ask(`{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"job_status","arguments":{"jobId":"`+job+`","waitSeconds":20}}}`, "200"); err != nil {
			return "", err
		}
		if bytes.Contains(c.body, []byte("Succeeded")) {
			return job, nil
		}
	}
	return "", fmt.Errorf("the job did not end: %.300s", c.body)
}

// run drives the load. Without hostility the hostile principal is one like the
// others.
func (s *soakLoad) run(ctx context.Context, length time.Duration, hostility bool) (soakResult, error) {
	r := soakResult{looks: map[string][]time.Duration{}}
	begin := time.Now()
	end := begin.Add(length)
	var mu sync.Mutex
	var all sync.WaitGroup
	var errs []error
	fail := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		if err != nil && len(errs) < 10 {
			errs = append(errs, err)
		}
	}
	others := s.others
	for _, session := range s.hostile {
		if !hostility {
			others = append(slices.Clip(others), session[0])
			continue
		}
		for _, c := range session {
			all.Go(func() {
				n, err := c.flood(end)
				fail(err)
				mu.Lock()
				defer mu.Unlock()
				r.hostile += n
			})
		}
	}
	for i, c := range others {
		all.Go(func() {
			waits, over, err := c.think(begin.Add(time.Duration(i)*soakThink/time.Duration(len(others))), end, begin.Add(length/10))
			fail(err)
			mu.Lock()
			defer mu.Unlock()
			if i < len(s.others) { // the same sessions are compared in both runs
				r.waits, r.over = append(r.waits, waits...), append(r.over, over...)
			}
		})
	}
	all.Go(func() {
		for ctx.Err() == nil && time.Now().Before(end) {
			due := time.Now().Add(10 * time.Millisecond)
			time.Sleep(time.Until(due))
			r.late = append(r.late, time.Since(due))
		}
	})
	all.Go(func() {
		for ctx.Err() == nil && time.Now().Before(end) {
			fail(s.lookOnce(ctx, r.looks))
			time.Sleep(soakLook)
		}
	})
	all.Wait()
	r.calls = len(r.waits)
	return r, errors.Join(errs...)
}

// think is a session that calls, waits for its answer, and thinks.
func (c *httpClient) think(begin, end, warm time.Time) (waits, over []time.Duration, err error) {
	c.limit(time.Until(end) + callLimit)
	time.Sleep(time.Until(begin))
	for time.Now().Before(end) {
		sent := time.Now()
		if err := c.call(); err != nil {
			return waits, over, err
		}
		took := time.Since(sent)
		slept, err := c.number(sleptKey)
		if err != nil {
			return waits, over, err
		}
		queued, err := c.number(`"queue_ms"`)
		if err != nil {
			return waits, over, err
		}
		if sent.After(warm) {
			waits = append(waits, time.Duration(queued)*time.Millisecond)
			over = append(over, max(0, took-time.Duration(slept)))
		}
		time.Sleep(time.Duration(rand.Int64N(int64(2 * soakThink))))
	}
	return waits, over, nil
}

// number is what the last answer says under a key.
func (c *httpClient) number(key string) (int64, error) {
	_, rest, ok := bytes.Cut(c.body, []byte(key))
	digits, _, closed := bytes.Cut(rest, []byte("}"))
	digits, _, _ = bytes.Cut(digits, []byte(","))
	n, err := strconv.ParseInt(string(bytes.Trim(digits, ": ")), 10, 64)
	if !ok || !closed || err != nil {
		return 0, fmt.Errorf("the answer does not say %s: %.600s", key, c.body)
	}
	return n, nil
}

// flood calls without a pause; what is refused is tried again.
func (c *httpClient) flood(end time.Time) (calls int, err error) {
	c.limit(time.Until(end) + callLimit)
	for time.Now().Before(end) {
		if _, err := c.conn.Write(c.script.next()); err != nil {
			return calls, err
		}
		if _, err := c.read("200"); err != nil {
			return calls, err
		}
		calls++
		if c.check(c.body) != nil {
			time.Sleep(10 * time.Millisecond) // refused
		}
	}
	return calls, nil
}

// dashboardPage is the one that an operator looks at; a header opens it as a
// browser's cookie does.
const dashboardPage = "/"

// lookOnce asks what operators and agents ask while others work.
func (s *soakLoad) lookOnce(ctx context.Context, looks map[string][]time.Duration) error {
	for _, path := range []string{"/api/v1/status", "/api/v1/backends", "/metrics", dashboardPage} {
		began := time.Now()
		if _, err := s.b.api(ctx, http.MethodGet, path, nil); err != nil {
			return err
		}
		looks[path] = append(looks[path], time.Since(began))
	}
	began := time.Now()
	if _, err := s.asker.ask(`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"job_status","arguments":{"jobId":"`+s.job+`"}}}`, "200"); err != nil {
		return err
	}
	looks["job_status"] = append(looks["job_status"], time.Since(began))
	return nil
}

// close ends every session and every connection.
func (s *soakLoad) close() error {
	var errs []error
	ends := append(slices.Clone(s.others), s.asker)
	for _, session := range s.hostile {
		ends = append(ends, session[0])
	}
	for _, c := range ends {
		_, err := c.send(http.MethodDelete, "")
		errs = append(errs, err)
	}
	for _, session := range s.hostile {
		ends = append(ends, session[1:]...)
	}
	soakHTTP.CloseIdleConnections()
	return errors.Join(append(errs, closeAll(ends))...)
}

// percentile of a list; zero of an empty one.
func percentile(list []time.Duration, of float64) time.Duration {
	if len(list) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(list))
	return sorted[min(len(sorted)-1, int(of*float64(len(sorted))))]
}
