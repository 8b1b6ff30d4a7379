package actors

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/broker"
)

// toolLister is an upstream that counts how often it is asked for its tools while it
// is up. A list that it is told to hold waits for a word.
type toolLister struct {
	mu      sync.Mutex
	lists   int
	running int
	most    int
	hold    chan struct{} // nil: it answers at once
}

func (l *toolLister) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lists
}

func (l *toolLister) list() []broker.Tool {
	l.mu.Lock()
	l.lists++
	l.running++
	l.most = max(l.most, l.running)
	hold := l.hold
	l.mu.Unlock()
	if hold != nil {
		<-hold
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running--
	return []broker.Tool{tool("echo")}
}

func TestABackendThatChangesItsToolsAllTheTimeIsAskedForThemLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &toolLister{}
		w := start(t, &upstream{list: l.list}, func(o *Options) { o.Backends[0].Eager = true })
		synctest.Wait()
		spam := func(long time.Duration) int {
			before := l.count()
			for end := time.Now().Add(long); time.Now().Before(end); elapse(50 * time.Millisecond) {
				w.up.say(toolsChanged, "{}")
			}
			synctest.Wait()
			return l.count() - before
		}
		if n := spam(4 * time.Second); n < 10 || n > 16 {
			t.Errorf("a burst of 4 s is %d lists; a change settles for a quarter of a second", n)
		}
		spam(time.Minute) // until nothing is left of the burst
		if n := spam(10 * time.Minute); n < 58 || n > 62 {
			t.Errorf("%d lists in ten minutes, want one in ten seconds", n)
		}
		if n := strings.Count(w.log.String(), "changes its tools all the time"); n != 1 {
			t.Errorf("it is said %d times", n)
		}
		// The last change is never lost, and a quiet time makes up for everything.
		before := l.count()
		w.up.say(toolsChanged, "{}")
		elapse(relistEvery + time.Second)
		synctest.Wait()
		if l.count() == before {
			t.Error("the last change was not looked at")
		}
		elapse(relistBurst * relistEvery)
		before = l.count()
		w.up.say(toolsChanged, "{}")
		elapse(relistAfter + time.Millisecond)
		synctest.Wait()
		if l.count() != before+1 {
			t.Error("after a quiet time a change waits for more than its burst to settle")
		}
	})
}

func TestToolsAreAskedForOneListAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &toolLister{}
		w := start(t, &upstream{list: l.list}, func(o *Options) { o.Backends[0].Eager = true })
		synctest.Wait()
		hold := make(chan struct{})
		l.mu.Lock()
		l.hold, l.most = hold, 0
		l.mu.Unlock()
		before := l.count()
		for range 20 { // while the first list has not come
			w.up.say(toolsChanged, "{}")
			elapse(relistAfter)
			synctest.Wait()
		}
		if l.count() != before+1 {
			t.Errorf("%d lists at once", l.count()-before)
		}
		l.mu.Lock()
		l.hold = nil
		l.mu.Unlock()
		close(hold)
		elapse(2 * relistAfter)
		synctest.Wait()
		if l.count() != before+2 || l.most != 1 {
			t.Errorf("%d lists, %d at once; what changed meanwhile is asked for once", l.count()-before, l.most)
		}
	})
}
