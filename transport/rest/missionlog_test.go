package rest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/actors"
	"berth/broker"
	"berth/broker/dispatch"
	"berth/transport/httpguard"
	"berth/transport/rest"
)

// logbook is a mission and its log, as the verbs tell of them.
type logbook struct {
	mu      sync.Mutex
	status  dispatch.MissionStatus
	lines   []string
	refusal *broker.Refusal // instead of the log
	looks   chan struct{}   // gets one at each look at the log; may be nil
}

func (l *logbook) set(status dispatch.MissionStatus, lines ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.status, l.lines = status, append(l.lines, lines...)
}

func (l *logbook) do(_ context.Context, r actors.Request) actors.Reply {
	l.mu.Lock()
	defer l.mu.Unlock()
	var params struct {
		Arguments struct {
			MissionID     string
			Offset, Lines int
		}
	}
	if err := json.Unmarshal(r.Call.Params, &params); err != nil {
		panic(err)
	}
	answer := func(v any) actors.Reply {
		raw, err := json.Marshal(map[string]any{"content": []any{}, "structuredContent": v})
		if err != nil {
			panic(err)
		}
		return actors.Reply{Answer: &broker.Answer{Result: raw}}
	}
	if params.Arguments.MissionID != "msn_1" {
		return actors.Reply{Refusal: broker.Refuse(broker.CodeNotFound, "Mission not found", nil)}
	}
	if r.Call.Verb == "mission_status" {
		return answer(map[string]any{"Id": "msn_1", "Status": l.status})
	}
	if l.looks != nil {
		select {
		case l.looks <- struct{}{}:
		default:
		}
	}
	if l.refusal != nil {
		return actors.Reply{Refusal: l.refusal}
	}
	from := min(params.Arguments.Offset, len(l.lines))
	some := l.lines[from:min(from+params.Arguments.Lines, len(l.lines))]
	text := ""
	for _, line := range some {
		text += line + "\n"
	}
	return answer(rest.MissionLog{MissionID: "msn_1", Log: text, Lines: len(some), TotalLines: len(l.lines)})
}

// following is an API over the log, looked at all the time.
func following(t *testing.T, l *logbook, over ...func(*rest.Options)) string {
	t.Helper()
	f := newFake(t)
	f.withTwins(t)
	f.do = l.do
	s := httptest.NewServer(f.handler(nil, append([]func(*rest.Options){func(o *rest.Options) { o.LogEvery, o.Done = time.Millisecond, nil }}, over...)...))
	t.Cleanup(s.Close)
	return s.URL
}

func follow(t *testing.T, url string, offset int, each func(rest.FollowedLog) error) error {
	t.Helper()
	c := rest.NewClient(url, "t0")
	defer c.Close()
	return c.FollowLog(t.Context(), "msn_1", offset, each)
}

func TestALogIsFollowedUntilItsMissionHasEnded(t *testing.T) {
	l := &logbook{status: dispatch.MissionPending}
	url := following(t, l)
	var got []string
	err := follow(t, url, 0, func(p rest.FollowedLog) error {
		got = append(got, fmt.Sprintf("%s %d+%d/%d %q", p.Status, p.Offset, p.Lines, p.TotalLines, p.Log))
		switch p.Status { // each step begins when the one before was told
		case dispatch.MissionPending:
			l.set(dispatch.MissionInProgress, "one", "two")
		case dispatch.MissionInProgress:
			if p.Offset == 0 {
				l.set(dispatch.MissionInProgress, "three")
			} else {
				l.set(dispatch.MissionWorkProduced)
			}
		case dispatch.MissionWorkProduced: // it may still be landed
			l.set(dispatch.MissionComplete, "landed")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{`Pending 0+0/0 ""`, `InProgress 0+2/2 "one\ntwo\n"`, `InProgress 2+1/3 "three\n"`, `WorkProduced 3+0/3 ""`, `Complete 3+1/4 "landed\n"`, `Complete 4+0/4 ""`}
	if strings.Join(got, "; ") != strings.Join(want, "; ") {
		t.Errorf("told %s\nwant %s", strings.Join(got, "; "), strings.Join(want, "; "))
	}
}

// A log of more lines than a message holds comes whole, once, from any line on.
func TestALongLogIsFollowedInParts(t *testing.T) {
	l := &logbook{status: dispatch.MissionFailed}
	for n := range 2500 {
		l.lines = append(l.lines, fmt.Sprint("line ", n))
	}
	url := following(t, l)
	for _, from := range []int{0, 1, 2499, 2500, 9000} {
		text, next := "", from
		err := follow(t, url, from, func(p rest.FollowedLog) error {
			if from <= 2500 && p.Offset != next {
				t.Errorf("from %d: offset %d after %d", from, p.Offset, next)
			}
			next = p.Offset + p.Lines
			text += p.Log
			return nil
		})
		if from > 2500 { // the log of a mission that was restarted is another one
			from = 0
		}
		if want := strings.Join(append(l.lines[from:2500:2500], ""), "\n"); err != nil || text != want {
			t.Errorf("from %d: %d bytes of %d, %v", from, len(text), len(want), err)
		}
	}
}

func TestAFollowedLogSaysWhyItCannotGoOn(t *testing.T) {
	l := &logbook{status: dispatch.MissionInProgress, lines: []string{"one"}}
	url := following(t, l)
	err := follow(t, url, 0, func(rest.FollowedLog) error {
		l.mu.Lock()
		l.refusal = broker.Refuse(broker.CodeNotFound, "Mission not found", map[string]any{"MissionId": "msn_1"})
		l.mu.Unlock()
		return nil
	})
	var refused *rest.APIError
	if !errors.As(err, &refused) || refused.Code != broker.CodeNotFound || refused.Message != "Mission not found" || !strings.Contains(string(refused.Data), "msn_1") {
		t.Errorf("%v", err)
	}
}

func TestAFollowedLogIsRefusedBeforeItBegins(t *testing.T) {
	f := newFake(t)
	f.withTwins(t)
	l := &logbook{status: dispatch.MissionInProgress}
	f.do = l.do
	for _, tt := range []struct {
		path, last string
		status     int
		code       string
	}{
		{"msn_9/log?follow=true", "", 404, "not_found"},
		{"msn_1/log?follow=maybe", "", 400, "invalid_arguments"},
		{"msn_1/log?follow=true&offset=x", "", 400, "invalid_arguments"},
		{"msn_1/log?follow=true", "x", 400, "invalid_arguments"},
		{"msn_1/log?follow=true", "-1", 400, "invalid_arguments"},
		{"msn_1/log?follow=true", "", 200, ""}, // of a broker that goes down: over at once
	} {
		r := httptest.NewRequest("GET", "http://localhost/api/v1/missions/"+tt.path, http.NoBody)
		r.Header.Set("Authorization", "Bearer t0")
		if tt.last != "" {
			r.Header.Set("Last-Event-ID", tt.last)
		}
		w := httptest.NewRecorder()
		f.handler(nil).ServeHTTP(w, r)
		if w.Code != tt.status || tt.code != "" && object(t, w.Body.String())["Code"] != tt.code {
			t.Errorf("%s: status %d, %s", tt.path, w.Code, w.Body)
		}
		if tt.status == 200 && strings.Contains(w.Body.String(), "event: end") {
			t.Error("a mission that goes on was told to have ended")
		}
	}
}

// The streams of events and of logs have their places together, and each look
// at a log holds nothing of a backend before the next.
func TestFollowedLogsAreBounded(t *testing.T) {
	l := &logbook{status: dispatch.MissionInProgress, lines: []string{"one"}}
	url := following(t, l, func(o *rest.Options) { o.MaxStreams = 1 })
	ctx, cancel := context.WithCancel(t.Context())
	c := rest.NewClient(url, "t0")
	defer c.Close()
	first := make(chan error, 1)
	told := make(chan struct{}, 1)
	go func() {
		first <- c.FollowLog(ctx, "msn_1", 0, func(rest.FollowedLog) error { told <- struct{}{}; return nil })
	}()
	<-told
	var refused *rest.APIError
	if err := c.FollowLog(t.Context(), "msn_1", 0, func(rest.FollowedLog) error { return nil }); !errors.As(err, &refused) || refused.Code != broker.CodeOverloaded {
		t.Errorf("a second one: %v", err)
	}
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("the first one: %v", err)
	}
}

func TestAFollowedLogEndsWithItsCredentialAndWithTheBroker(t *testing.T) {
	for name, end := range map[string]func(revoke, stop func()){
		"credential": func(revoke, _ func()) { revoke() },
		"broker":     func(_, stop func()) { stop() },
	} {
		t.Run(name, func(t *testing.T) {
			l := &logbook{status: dispatch.MissionInProgress, lines: []string{"one"}}
			life, revoke := context.WithCancel(context.Background())
			defer revoke()
			done := make(chan struct{})
			url := following(t, l, func(o *rest.Options) {
				o.Done = done
				o.Guard = httpguard.New(httpguard.Options{Authenticate: func(httpguard.Kind, string) (broker.Caller, bool) {
					return broker.Caller{Principal: broker.LocalOperator, Life: life}, true
				}})
			})
			err := follow(t, url, 0, func(rest.FollowedLog) error { end(revoke, func() { close(done) }); return nil })
			if !errors.Is(err, rest.ErrNotEnded) {
				t.Errorf("%v", err)
			}
		})
	}
}
