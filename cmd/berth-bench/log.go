package main

import (
	"encoding/json"
	"os"
	"sync"
	"time"
)

// appendLog is the baseline of the journal: a file that is appended to and
// synced, with the journal's grouping (take what waits, write once, sync once,
// answer all).
type appendLog struct {
	file *os.File
	wake chan struct{} // capacity 1
	stop chan struct{}
	done chan struct{}

	mu   sync.Mutex
	wait []*logWrite
}

type logWrite struct {
	raw  []byte
	err  error // valid once done is closed
	done chan struct{}
}

func openLog(name string) (*appendLog, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	l := &appendLog{file: f, wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
	go l.run()
	return l, nil
}

// write appends a record like the journal's and waits until it is durable.
func (l *appendLog) write(n int64) error {
	raw, err := json.Marshal(sample(n, time.Now()))
	if err != nil {
		return err
	}
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
		_, err := l.file.Write(buf)
		if err == nil {
			err = datasync(l.file)
		}
		for _, w := range group {
			w.err = err
			close(w.done)
		}
	}
}

// close ends the log; nobody may be writing.
func (l *appendLog) close() error {
	close(l.stop)
	<-l.done
	return l.file.Close()
}
