package journal

import "sync"

// watchers are those who wait for a change of a job.
type watchers struct {
	mu   sync.Mutex
	byID map[string]map[chan struct{}]struct{}
}

// Watch gives a channel that gets a signal after each committed change of the
// job id, its pruning included. Signals that are not taken melt into one. The
// function ends the watch; it may be called more than once. The channel is
// never closed.
func (j *Journal) Watch(id string) (<-chan struct{}, func()) {
	w := &j.watchers
	ch := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byID == nil {
		w.byID = map[string]map[chan struct{}]struct{}{}
	}
	if w.byID[id] == nil {
		w.byID[id] = map[chan struct{}]struct{}{}
	}
	w.byID[id][ch] = struct{}{}
	return ch, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.byID[id], ch)
		if len(w.byID[id]) == 0 {
			delete(w.byID, id)
		}
	}
}

// notifyAll signals everybody: everything may have changed.
func (w *watchers) notifyAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, of := range w.byID {
		for ch := range of {
			select {
			case ch <- struct{}{}:
			default:
			}
		}
	}
}

func (w *watchers) notify(ids []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.byID) == 0 {
		return
	}
	for _, id := range ids {
		for ch := range w.byID[id] {
			select {
			case ch <- struct{}{}:
			default:
			}
		}
	}
}
