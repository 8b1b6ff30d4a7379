package journal_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"berth/broker"
	"berth/journal"
)

var callers = []int{1, 16, 128}

// sample is a record of about a kilobyte, as a call to a backend leaves one.
func sample(n int64, now time.Time) broker.Job {
	return broker.Job{
		ID:        fmt.Sprintf("job_%08x_%011d", now.UnixMilli()&0xffffffff, n),
		Operation: "backend__long_running_verb", Status: broker.JobAccepted, SubmittedAt: now,
		Tenant: "default", User: "operator", Session: "0123456789abcdef0123456789abcdef", CallID: "call_0123456789",
		Backend: "backend", Refusal: json.RawMessage(`{"pad":"` + pad + `"}`),
	}
}

var pad = func() string {
	b := make([]byte, 640)
	for i := range b {
		b[i] = 'a' + byte(i%26)
	}
	return string(b)
}()

// BenchmarkAccepts measures accepted jobs a second at several callers.
func BenchmarkAccepts(b *testing.B) {
	for _, n := range callers {
		b.Run(fmt.Sprintf("journal/callers=%d", n), func(b *testing.B) {
			j, err := journal.Open(filepath.Join(b.TempDir(), "journal.db"), journal.Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = j.Close() }()
			each(b, n, func(i int64) error {
				_, _, err := j.CreateJob(context.Background(), sample(i, time.Now()))
				return err
			})
			if s, err := j.Stats(); err == nil {
				b.ReportMetric(s.MeanGroup, "group")
			}
		})
		b.Run(fmt.Sprintf("log/callers=%d", n), func(b *testing.B) {
			l := openLog(b)
			defer l.close()
			each(b, n, func(i int64) error {
				raw, err := json.Marshal(sample(i, time.Now()))
				if err != nil {
					return err
				}
				return l.append(raw)
			})
			b.ReportMetric(float64(l.records)/float64(max(l.groups, 1)), "group")
		})
	}
}

// BenchmarkAcceptRatio runs journal and log in turns, so that a machine that
// drifts slows both, and reports how much of the log's rate the journal has.
// Run it with a fixed number of turns: -benchtime 20x.
func BenchmarkAcceptRatio(b *testing.B) {
	for _, n := range callers {
		b.Run(fmt.Sprintf("callers=%d", n), func(b *testing.B) {
			j, err := journal.Open(filepath.Join(b.TempDir(), "journal.db"), journal.Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = j.Close() }()
			l := openLog(b)
			defer l.close()
			var ratios, rates []float64
			turn := int64(250)
			if n > 1 {
				turn = 5000
			}
			var at int64
			for b.Loop() {
				base := at
				at += turn
				inJournal := timed(b, n, turn, func(i int64) error {
					_, _, err := j.CreateJob(context.Background(), sample(base+i, time.Now()))
					return err
				})
				inLog := timed(b, n, turn, func(i int64) error {
					raw, err := json.Marshal(sample(base+i, time.Now()))
					if err != nil {
						return err
					}
					return l.append(raw)
				})
				ratios = append(ratios, inLog.Seconds()/inJournal.Seconds())
				rates = append(rates, float64(turn)/inJournal.Seconds())
			}
			slices.Sort(ratios)
			slices.Sort(rates)
			b.ReportMetric(ratios[len(ratios)/2], "of-log")
			b.ReportMetric(rates[len(rates)/2], "accepts/s")
			b.ReportMetric(0, "ns/op") // of a turn of both: says nothing
		})
	}
}

func timed(b *testing.B, callers int, total int64, fn func(i int64) error) time.Duration {
	start := time.Now()
	spread(b, callers, total, fn)
	return time.Since(start)
}

func each(b *testing.B, callers int, fn func(i int64) error) {
	b.Helper()
	b.ResetTimer()
	spread(b, callers, int64(b.N), fn)
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "accepts/s")
}

// spread calls fn total times from so many callers.
func spread(b *testing.B, callers int, total int64, fn func(i int64) error) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for {
				i := next.Add(1)
				if i > total {
					return
				}
				if err := fn(i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// appendLog is the baseline: a file that is appended to and synced, with the
// grouping of the journal (take what waits, write once, sync once, answer all).
type appendLog struct {
	f    *os.File
	mu   sync.Mutex
	wait []*logWrite
	wake chan struct{}
	stop chan struct{}
	done chan struct{}

	groups, records int
}

type logWrite struct {
	raw  []byte
	done chan struct{}
	err  error
}

func openLog(b *testing.B) *appendLog {
	f, err := os.OpenFile(filepath.Join(b.TempDir(), "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		b.Fatal(err)
	}
	l := &appendLog{f: f, wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
	go l.run()
	return l
}

func (l *appendLog) append(raw []byte) error {
	w := &logWrite{raw: raw, done: make(chan struct{})}
	l.mu.Lock()
	l.wait = append(l.wait, w)
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
	<-w.done
	return w.err
}

func (l *appendLog) run() {
	defer close(l.done)
	var buf []byte
	for {
		l.mu.Lock()
		group := l.wait
		l.wait = nil
		l.mu.Unlock()
		if len(group) == 0 {
			select {
			case <-l.wake:
				continue
			case <-l.stop:
				return
			}
		}
		buf = buf[:0]
		for _, w := range group {
			buf = append(append(buf, w.raw...), '\n')
		}
		_, err := l.f.Write(buf)
		if err == nil {
			err = datasync(l.f)
		}
		l.groups++
		l.records += len(group)
		for _, w := range group {
			w.err = err
			close(w.done)
		}
	}
}

func (l *appendLog) close() {
	close(l.stop)
	<-l.done
	_ = l.f.Close()
}
