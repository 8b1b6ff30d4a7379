package rest

import (
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"berth/transport/httpguard"
)

// alive writes white space before a JSON answer while its handler waits, so
// that no proxy or client takes the silence for a dead connection.
type alive struct {
	begun bool // owned by the goroutine until stop has returned

	once sync.Once
	quit chan struct{}
	done chan struct{}
}

// keepAlive begins the answer after the first interval: 200 and white space.
// stop must be called before anything else is written to w.
func keepAlive(w http.ResponseWriter, every time.Duration) *alive {
	k := &alive{quit: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(k.done)
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			select {
			case <-k.quit:
				return
			case <-ticker.C:
			}
			httpguard.Deadline(w)
			if !k.begun {
				k.begun = true
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusOK)
			}
			// A client that is gone ends the request's context; the handler
			// learns of it there.
			if _, err := w.Write([]byte("\n")); err != nil {
				return
			}
			_ = http.NewResponseController(w).Flush()
		}
	}()
	return k
}

// stop ends the white space and waits until none can follow.
func (k *alive) stop() {
	k.once.Do(func() { close(k.quit) })
	<-k.done
}

// writeRest writes v after white space has begun the answer.
func writeRest(w http.ResponseWriter, v any) {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	httpguard.Deadline(w)
	if err := enc.Encode(v); err != nil {
		// Half an answer must not look like a whole one.
		panic(http.ErrAbortHandler)
	}
}
