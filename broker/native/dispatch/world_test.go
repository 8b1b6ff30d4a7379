package dispatch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"berth/broker"
	"berth/broker/dispatch"
)

// world is what stands around the family in a test: secrets, places, files, a
// repository, a code index, the board and the runner.
type world struct {
	store *store
	now   func() time.Time

	mu       sync.Mutex
	secrets  map[string]string
	removed  []string
	told     []string // what the runner and the board were told
	running  map[string]bool
	wakes    int
	logs     map[string][]string
	diffs    map[string]string
	outputs  map[string]string
	final    map[string]bool
	live     string // "": no worktree can be read
	git      string // "": no worktree can be read
	papers   error
	refs     map[string]string // name -> commit
	landed   map[string]bool
	unknown  error // of every ref
	index    dispatch.IndexState
	indexErr error
	hold     *broker.Refusal
	failStop map[string]error
	repair   error
	reclaim  error
	onCancel func(voyage string)
}

func (w *world) tell(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told = append(w.told, fmt.Sprintf(format, args...))
}

func (w *world) SetSecret(name, value string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.secrets[name] = value; value == "" {
		delete(w.secrets, name)
	}
	return nil
}

func (w *world) HasSecret(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.secrets[name] != ""
}

func (w *world) LocalClone(url string) (string, bool) {
	return strings.TrimPrefix(url, "file://"), strings.HasPrefix(strings.TrimPrefix(url, "file://"), "/") && strings.HasSuffix(url, "/clone")
}

func (w *world) FileSize(path string) int64 {
	if strings.HasSuffix(path, ".iso") {
		return 30 << 20
	}
	return 0
}

func (w *world) RemoveClone(_ context.Context, v dispatch.Vessel) []string {
	w.removed = append(w.removed, v.ID)
	return nil
}

// The runner does to the records what the real one does, and to no process.

func (w *world) Wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wakes++
}

func stepped[R dispatch.Stored](w *world, id string, step func(R) (R, error)) (R, error) {
	kept, err := dispatch.Read[R](w.store.Journal, id)
	if err != nil {
		return kept.Value, err
	}
	next, err := step(kept.Value)
	if err != nil {
		return kept.Value, err
	}
	c, err := dispatch.Write(next, kept.Revision)
	if err == nil {
		_, err = w.store.Journal.PutAll(context.Background(), c)
	}
	return next, err
}

func (w *world) CancelMission(_ context.Context, by broker.Principal, id string) (dispatch.Mission, error) {
	w.tell("cancel %s for %s", id, by.Key())
	return stepped(w, id, func(m dispatch.Mission) (dispatch.Mission, error) {
		if m.Status == dispatch.MissionCancelled {
			return m, nil
		}
		return m.Step(dispatch.MissionCancelled, dispatch.Cancelled, "", w.now())
	})
}

func (w *world) CancelVoyage(_ context.Context, _ broker.Principal, id string, reason dispatch.FailureReason) (dispatch.Voyage, []string, error) {
	w.tell("cancel voyage %s", reason)
	if w.onCancel != nil {
		w.onCancel(id)
	}
	missions, err := dispatch.ReadAll[dispatch.Mission](w.store.Journal, dispatch.OfVoyage(id))
	if err != nil {
		return dispatch.Voyage{}, nil, err
	}
	cancelled := []string{}
	for _, m := range dispatch.Values(missions) {
		if m.Status != dispatch.MissionPending && !m.Status.Live() {
			continue
		}
		if _, err := stepped(w, m.ID, func(m dispatch.Mission) (dispatch.Mission, error) {
			return m.Step(dispatch.MissionCancelled, reason, "", w.now())
		}); err != nil {
			return dispatch.Voyage{}, nil, err
		}
		cancelled = append(cancelled, m.ID)
	}
	v, err := stepped(w, id, func(v dispatch.Voyage) (dispatch.Voyage, error) {
		if v.Status.Over() {
			return v, nil
		}
		r := string(reason)
		v.Reason = &r
		return v.Step(dispatch.VoyageCancelled, w.now())
	})
	return v, cancelled, err
}

func (w *world) StopCaptain(_ context.Context, _ broker.Principal, id string) error {
	w.tell("stop %s", id)
	return nil
}

func (w *world) StopAll(context.Context, broker.Principal) (int, map[string]error) {
	return 2 - len(w.failStop), w.failStop
}

func (w *world) RetryLanding(_ context.Context, _ broker.Principal, id string) (dispatch.Mission, error) {
	return stepped(w, id, func(m dispatch.Mission) (dispatch.Mission, error) {
		m, err := m.Step(dispatch.MissionWorkProduced, "", "", w.now())
		if err != nil {
			return m, err
		}
		return m.Step(dispatch.MissionComplete, "", "", w.now())
	})
}

func (w *world) Running(id string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.running[id]
}

func (w *world) Reclaim(_ context.Context, _ broker.Principal, id string) error {
	w.tell("reclaim %s", id)
	if w.reclaim != nil {
		return w.reclaim
	}
	_, err := stepped(w, id, func(d dispatch.Dock) (dispatch.Dock, error) {
		d.State, d.MissionID, d.CaptainID = dispatch.DockAvailable, nil, nil
		return d, nil
	})
	return err
}

func (w *world) Repair(_ context.Context, _ broker.Principal, id string) (dispatch.Dock, error) {
	if w.repair != nil {
		return dispatch.Dock{}, w.repair
	}
	return stepped(w, id, func(d dispatch.Dock) (dispatch.Dock, error) {
		d.State, d.Error = dispatch.DockAvailable, nil
		return d, nil
	})
}

func (w *world) Log(id string, offset, lines int) (string, int, int, error) {
	all := w.logs[id]
	some := all[min(offset, len(all)):min(offset+lines, len(all))]
	return strings.Join(some, "\n"), len(some), len(all), w.papers
}

func (w *world) Diff(id string) (string, bool, error) {
	d, ok := w.diffs[id]
	return d, ok, w.papers
}

func (w *world) LiveDiff(_ context.Context, v dispatch.Vessel, d dispatch.Dock, since string) (string, error) {
	if w.live == "" {
		return "", errors.New("no worktree at " + d.Path)
	}
	return w.live + " " + v.ID + " " + since, nil
}

func (w *world) Output(id string) (string, bool, error) { return w.outputs[id], w.final[id], w.papers }

func (w *world) Remove(id string) error {
	w.tell("remove %s", id)
	return nil
}

func (w *world) DockStatus(context.Context, dispatch.Dock) (string, bool, error) {
	if w.git == "" {
		return "", false, errors.New("fatal: not a git repository")
	}
	return w.git, true, nil
}

func (w *world) Resolve(ctx context.Context, _ dispatch.Vessel, ref string) (string, error) {
	switch commit, ok := w.refs[ref]; {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case w.unknown != nil:
		return "", w.unknown
	case !ok:
		return "", &dispatch.Fault{Reason: dispatch.StartFromRefMissing}
	default:
		return commit, nil
	}
}

func (w *world) Landed(_ context.Context, _ dispatch.Vessel, commit string) (bool, error) {
	return w.landed[commit], w.unknown
}

func (w *world) Freshness(context.Context, dispatch.Vessel) (dispatch.IndexState, error) {
	return w.index, w.indexErr
}

func (w *world) Dispatched(_ context.Context, by broker.Principal, participant string, v dispatch.Vessel, title string) error {
	w.tell("note: %s %q on %s: %s", by.Key(), participant, v.ID, title)
	return nil
}

func (w *world) Restarted(_ context.Context, by broker.Principal, m dispatch.Mission) error {
	w.tell("signal: %s restarted %s", by.Key(), m.ID)
	return nil
}
