package rest_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"berth/broker"
	"berth/broker/live"
	"berth/journal"
	"berth/transport/rest"
)

// listener reads one stream.
type listener struct {
	t     interface{ Fatalf(string, ...any) }
	body  io.ReadCloser
	lines *bufio.Reader
}

// message is one event of a stream, or a comment.
type message struct {
	id      string
	comment bool
	rest.StreamEvent
}

// serving gives the address of an API over j.
func serving(t *testing.T, over ...func(*rest.Options)) string {
	t.Helper()
	s := httptest.NewServer(newFake(t).handler(nil, over...))
	t.Cleanup(s.Close)
	return s.URL
}

func listen(t interface{ Fatalf(string, ...any) }, url, query, lastEventID string) *listener {
	r, err := http.NewRequest("GET", url+"/api/v1/events/stream"+query, nil)
	if err != nil {
		t.Fatalf("%v", err)
	}
	r.Header.Set("Authorization", "Bearer t0")
	if lastEventID != "" {
		r.Header.Set("Last-Event-ID", lastEventID)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatalf("%v", err)
	}
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("status %d, %s", resp.StatusCode, resp.Header.Get("Content-Type"))
	}
	l := &listener{t: t, body: resp.Body, lines: bufio.NewReader(resp.Body)}
	if m, err := l.read(); err != nil || !m.comment {
		t.Fatalf("a stream begins with %+v, %v", m, err)
	}
	return l
}

func (l *listener) close() { _ = l.body.Close() }

// read gives the next event or comment.
func (l *listener) read() (m message, err error) {
	for {
		line, err := l.lines.ReadString('\n')
		if err != nil {
			return m, err
		}
		line = strings.TrimSuffix(line, "\n")
		switch {
		case line == "":
			return m, nil
		case strings.HasPrefix(line, ":"):
			m.comment = true
		case strings.HasPrefix(line, "id: "):
			m.id = line[4:]
		case strings.HasPrefix(line, "data: "):
			if err := json.Unmarshal([]byte(line[6:]), &m.StreamEvent); err != nil {
				return m, err
			}
		default:
			return m, fmt.Errorf("a line %q", line)
		}
	}
}

// next gives the next event.
func (l *listener) next() message {
	for {
		m, err := l.read()
		if err != nil {
			l.t.Fatalf("read the stream: %v", err)
		}
		if !m.comment {
			return m
		}
	}
}

func said(n int) broker.Event { return broker.Event{EventType: "note", Message: fmt.Sprint(n)} }

func TestTheStreamGivesEventsAsTheyAreWrittenAndResumesFromACursor(t *testing.T) {
	j, over := journalled(t)
	url := serving(t, over)
	happen(t, j, said(0))
	l := listen(t, url, "", "")
	happen(t, j, said(1), said(2))
	one, two := l.next(), l.next()
	l.close()
	if *one.Event.Message != "1" || *two.Event.Message != "2" || one.id != *one.Event.ID || one.Cursor != one.id || one.StreamID != "life-0" {
		t.Fatalf("%+v, %+v", one, two)
	}
	happen(t, j, said(3))
	for name, back := range map[string]*listener{
		"query":                           listen(t, url, "?cursor="+one.Cursor, ""),
		"header":                          listen(t, url, "", one.id),
		"the header is newer than a page": listen(t, url, "?cursor="+broker.FirstCursor, one.id),
	} {
		if m, n := back.next(), back.next(); *m.Event.Message != "2" || *n.Event.Message != "3" {
			t.Errorf("%s: %+v, %+v", name, m, n)
		}
		back.close()
	}
	all := listen(t, url, "?cursor="+broker.FirstCursor, "")
	defer all.close()
	for n := range 4 {
		if m := all.next(); *m.Event.Message != fmt.Sprint(n) {
			t.Errorf("event %d: %+v", n, m)
		}
	}
}

func TestAStreamThatCannotResumeSaysSo(t *testing.T) {
	j, over := journalled(t)
	url := serving(t, over)
	happen(t, j, said(0))
	first := *listOf(t, newFake(t).handler(nil, over), "").Objects[0].ID
	last := func() string { return *listOf(t, newFake(t).handler(nil, over), "?pageSize=1").Objects[0].ID }
	wantGap := func(cursor, why string) {
		t.Helper()
		l := listen(t, url, "?cursor="+cursor, "")
		defer l.close()
		m, end := l.next(), last()
		if m.Event.EventType != broker.EventGap || m.Event.ID != nil || m.Cursor != end || m.id != end || !strings.Contains(*m.Event.Message, why) ||
			*m.Event.Payload != fmt.Sprintf(`{"From":%q,"To":%q}`, cursor, end) {
			t.Errorf("after %s: %+v", cursor, m)
		}
		happen(t, j, said(-1))
		if m := l.next(); *m.Event.Message != "-1" {
			t.Errorf("the gap is followed by %+v", m)
		}
	}
	wantGap("evt_zzzzzzzz_00000000000", "no such event")
	wantGap("evt_00000001_00000000000", "older")
	for n := range 127 {
		happen(t, j, said(n))
	}
	l := listen(t, url, "?cursor="+first, "") // 2 of the gaps above and 127
	if m := l.next(); m.Event.EventType != broker.EventGap {
		t.Errorf("129 events were given again: %+v", m)
	}
	l.close()
	wantGap(first, "more than 128 events")
	second := listOf(t, newFake(t).handler(nil, over), "?order=CreatedAscending&pageSize=3").Objects
	l = listen(t, url, "?cursor="+*second[2].ID, "") // 128 follow
	if m := l.next(); *m.Event.Message != "0" {
		t.Errorf("128 events were not given again: %+v", m)
	}
	l.close()
	before := last()
	for range 3 {
		happen(t, j, broker.Event{EventType: "large", Message: strings.Repeat("x", 400<<10)})
	}
	wantGap(before, "1048576 bytes")
}

func TestACursorThatIsNoneIsRefused(t *testing.T) {
	_, over := journalled(t)
	for _, bad := range []string{"7", "evt_", "job_00000000_00000000000", "evt_00000000_0000000000%0a"} {
		if status, body := ask(t, newFake(t).handler(nil, over), "GET", "/api/v1/events/stream?cursor="+bad, ""); status != 400 || object(t, body)["Code"] != "invalid_arguments" {
			t.Errorf("%s: status %d, body %s", bad, status, body)
		}
	}
}

func TestLiveEventsStandInNoJournalAndMoveNoCursor(t *testing.T) {
	j, over := journalled(t)
	var feed live.Feed
	url := serving(t, over, func(o *rest.Options) { o.Live = &feed })
	happen(t, j, said(0))
	l, all := listen(t, url, "", ""), listen(t, url, "?live=true", "")
	defer l.close()
	defer all.close()
	happen(t, j, said(1)) // both are in their loop once they have this
	at := l.next().Cursor
	all.next()
	feed.Publish(broker.Event{EventType: broker.EventJobChanged, EntityID: "job_1"})
	feed.Publish(broker.Event{EventType: broker.EventJobDelayed, EntityID: "job_1"})
	if m := l.next(); m.Event.EventType != broker.EventJobDelayed || m.Event.ID != nil || m.Cursor != at || m.id != at {
		t.Errorf("%+v", m)
	}
	if m, n := all.next(), all.next(); m.Event.EventType != broker.EventJobChanged || n.Event.EventType != broker.EventJobDelayed {
		t.Errorf("%+v, %+v", m, n)
	}
}

func TestStreamsAreBoundedAndEndWithTheBroker(t *testing.T) {
	_, over := journalled(t)
	done := make(chan struct{})
	url := serving(t, over, func(o *rest.Options) { o.MaxStreams, o.Done = 2, done })
	a, b := listen(t, url, "", ""), listen(t, url, "", "")
	r, _ := http.NewRequest("GET", url+"/api/v1/events/stream", nil)
	r.Header.Set("Authorization", "Bearer t0")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if o := object(t, string(body)); resp.StatusCode != 429 || o["Code"] != "overloaded" || o["Error"] != "TooManyRequests" || resp.Header.Get("Retry-After") != "5" {
		t.Errorf("status %d, body %s", resp.StatusCode, body)
	}
	close(done)
	for _, l := range []*listener{a, b} {
		if _, err := l.read(); err != io.EOF {
			t.Errorf("a stream ended with %v", err)
		}
		l.close()
	}
}

func TestAnIdleStreamShowsThatItLives(t *testing.T) {
	_, over := journalled(t)
	l := listen(t, serving(t, over, func(o *rest.Options) { o.KeepAlive = time.Millisecond }), "", "")
	defer l.close()
	for range 2 {
		if m, err := l.read(); err != nil || !m.comment {
			t.Fatalf("%+v, %v", m, err)
		}
	}
}

// gauge is a log handler's stand-in: it is signalled when a stream ended early.
type gauge struct{ ended chan string }

func (g gauge) Write(p []byte) (int, error) {
	if strings.Contains(string(p), "ended early") {
		g.ended <- string(p)
	}
	return len(p), nil
}

// A reader that takes nothing is cut off, and whoever writes meanwhile does not
// wait for it: every write here is answered before the reader is given up.
func TestASlowReaderIsCutOffAndDelaysNoWriter(t *testing.T) {
	j, over := journalled(t)
	g := gauge{make(chan string, 1)}
	f := newFake(t)
	s := httptest.NewUnstartedServer(f.handler(g, over, func(o *rest.Options) { o.StreamWrite = time.Second }))
	s.Config.ConnState = func(c net.Conn, state http.ConnState) {
		if tcp, ok := c.(*net.TCPConn); ok && state == http.StateNew {
			_ = tcp.SetWriteBuffer(4 << 10)
		}
	}
	s.Start()
	defer s.Close()
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	if _, err := io.WriteString(conn, "GET /api/v1/events/stream HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer t0\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	head := make([]byte, 15)
	if _, err := io.ReadFull(conn, head); err != nil || string(head) != "HTTP/1.1 200 OK" {
		t.Fatalf("%q, %v", head, err)
	}
	big := strings.Repeat("x", 256<<10)
	for range 64 { // 16 MiB, far more than the sockets hold
		happen(t, j, broker.Event{EventType: "large", Message: big})
	}
	if why := <-g.ended; !strings.Contains(why, "timeout") {
		t.Errorf("cut off because %s", why)
	}
	if page := listOf(t, f.handler(nil, over), "?pageSize=1"); page.TotalRecords != 64 {
		t.Errorf("%d events", page.TotalRecords)
	}
}

// Whoever reads the list and then follows the stream from its cursor has every
// event once and in order, however many writers are at work meanwhile, also
// when the connection breaks and is taken up again.
func TestListThenStreamMissesNothingAndDoublesNothing(t *testing.T) {
	j, over := journalled(t)
	url, h := serving(t, over), newFake(t).handler(nil, over)
	rapid.Check(t, func(rt *rapid.T) {
		before := rapid.IntRange(0, 5).Draw(rt, "before")
		during := rapid.IntRange(1, 20).Draw(rt, "during")
		after := rapid.IntRange(0, 5).Draw(rt, "after")
		writers := rapid.IntRange(1, 4).Draw(rt, "writers")
		breaks := rapid.IntRange(0, 3).Draw(rt, "breaks")
		for n := range before {
			happen(t, j, said(n))
		}
		start := listOf(t, h, "?pageSize=1").Cursor // what was there belongs to earlier rounds too
		var group sync.WaitGroup
		for range writers {
			group.Go(func() {
				for n := range during {
					if err := j.AppendEvent(context.Background(), said(n)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		page := listOf(t, h, "?pageSize=1000&order=CreatedDescending")
		l := listen(rt, url, "?cursor="+page.Cursor, "")
		group.Wait()
		for n := range after {
			happen(t, j, said(n))
		}
		want := written(t, j, start)
		var got []string
		for _, e := range page.Objects {
			if *e.ID > start {
				got = append(got, *e.ID)
			}
		}
		slices.Reverse(got)
		for len(got) < len(want) {
			m := l.next()
			if m.Event.EventType == broker.EventGap {
				rt.Fatalf("a gap: %+v", m)
			}
			got = append(got, *m.Event.ID)
			if breaks > 0 && len(got)%3 == 0 {
				breaks--
				l.close()
				l = listen(rt, url, "", m.Cursor)
			}
		}
		l.close()
		if !slices.Equal(got, want) {
			rt.Fatalf("read %d events, %v\nwritten %d, %v", len(got), got, len(want), want)
		}
	})
}

// written gives the ids behind a cursor, as the journal has them.
func written(t *testing.T, j *journal.Journal, after string) []string {
	t.Helper()
	found, err := j.Events(after, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range found {
		out = append(out, e.ID)
	}
	return out
}

func TestAReaderThatMissesLiveEventsIsCutOff(t *testing.T) {
	var feed live.Feed
	r := feed.Read()
	defer r.Stop()
	for range live.Pending {
		feed.Publish(broker.Event{EventType: broker.EventJobChanged})
	}
	other := feed.Read()
	defer other.Stop()
	feed.Publish(broker.Event{EventType: broker.EventJobDelayed}) // one too many for the first
	n := 0
	for e := range r.Events() {
		if n++; e.EventType != broker.EventJobChanged {
			t.Errorf("event %d: %+v", n, e)
		}
	}
	if e := <-other.Events(); n != live.Pending || e.EventType != broker.EventJobDelayed {
		t.Errorf("%d events, and the other reader has %+v", n, e)
	}
}
