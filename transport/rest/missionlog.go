package rest

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"berth/broker"
	"berth/broker/dispatch"
)

// followLines is how many lines a message of a followed log holds at most.
const followLines = 1000

// MissionLog is a part of a mission's log.
type MissionLog struct {
	MissionID  string `json:"MissionId"`
	Log        string
	Lines      int // in Log
	TotalLines int // of the log, so far
}

// FollowedLog is a message of a log that is followed. One without lines tells
// that the status is another one.
type FollowedLog struct {
	MissionLog
	Offset int // how many lines come before Log
	Status dispatch.MissionStatus
}

// missionLog answers GET /api/v1/missions/{id}/log.
func (a *api) missionLog(w http.ResponseWriter, r *http.Request) {
	switch follow, err := truth(r, "follow"); {
	case err != nil:
		a.fail(w, r, err)
	case follow:
		a.followLog(w, r)
	default:
		asked("get_mission_log", "missionId", "lines", "offset")(a).ServeHTTP(w, r)
	}
}

// followed is a log that is given as it grows. Nothing is kept open for it but
// its request: every look is a call of the verbs as any other, whose seat is
// free again before the next wait.
type followed struct {
	sse
	api    *api
	r      *http.Request
	offset int
	status dispatch.MissionStatus // as it was told
}

// followLog sends the lines of a log, and what is appended, until the mission
// has ended, the reader leaves, his credential ends, or the broker stops.
func (a *api) followLog(w http.ResponseWriter, r *http.Request) {
	f := &followed{sse: sse{w, a.StreamWrite}, api: a, r: r}
	err := f.begin()
	if err != nil {
		a.fail(w, r, err)
		return
	}
	free, refusal := a.stay()
	if refusal != nil {
		a.fail(w, r, refusal)
		return
	}
	defer free()
	if err := f.serve(); err != nil {
		a.Log.Info("a followed log ended early", slog.String("cause", err.Error()))
	}
}

// begin reads where to begin, and sees that there is such a mission.
func (f *followed) begin() (err error) {
	if f.offset, err = number(f.r, "offset", 0, 0, 1<<30); err != nil {
		return err
	}
	if last := f.r.Header.Get("Last-Event-ID"); last != "" { // newer than the address, which a browser repeats
		if f.offset, err = strconv.Atoi(last); err != nil || f.offset < 0 {
			return badRequest(broker.CodeInvalidArguments, "Last-Event-ID must be the id of a message of this log.", map[string]any{"Name": "Last-Event-ID"})
		}
	}
	_, err = f.standing()
	return err
}

// standing is the present status of the mission.
func (f *followed) standing() (dispatch.MissionStatus, error) {
	answer, err := f.api.twin(f.r, "mission_status", map[string]any{"missionId": f.r.PathValue("id")})
	if err != nil {
		return "", err
	}
	var m struct{ Status dispatch.MissionStatus }
	if err := json.Unmarshal(answer, &m); err != nil {
		return "", fmt.Errorf("read a mission: %w", err)
	}
	return m.Status, nil
}

func (f *followed) serve() error {
	if err := f.open(); err != nil {
		return err
	}
	alive := time.NewTicker(f.api.KeepAlive)
	defer alive.Stop()
	for {
		ended, err := f.look()
		if err != nil {
			return f.refuse(err)
		}
		if ended {
			return f.write("event: end\ndata: " + string(raw(FollowedLog{MissionLog{MissionID: f.r.PathValue("id"), TotalLines: f.offset}, f.offset, f.status})) + "\n\n")
		}
		again := time.NewTimer(f.api.LogEvery) // after the work: a slow log is looked at less often
		for waits := true; waits && err == nil; {
			select {
			case <-again.C:
				waits = false
			case <-alive.C:
				err = f.write(": \n\n")
			case <-f.r.Context().Done():
				err = f.r.Context().Err()
			case <-f.api.Done:
				err = errors.New("the broker stops")
			}
		}
		again.Stop()
		if err != nil {
			return err
		}
	}
}

// look sends what is new. The status is read before the lines: those of a
// mission that has ended are all there.
func (f *followed) look() (ended bool, err error) {
	status, err := f.standing()
	if err != nil {
		return false, err
	}
	for {
		answer, err := f.api.twin(f.r, "get_mission_log", map[string]any{"missionId": f.r.PathValue("id"), "offset": f.offset, "lines": followLines})
		if err != nil {
			return false, err
		}
		var part MissionLog
		if err := json.Unmarshal(answer, &part); err != nil {
			return false, fmt.Errorf("read a log: %w", err)
		}
		if part.TotalLines < f.offset { // a mission that was restarted has a new log
			f.offset = 0
			continue
		}
		if part.Lines > 0 || status != f.status {
			if err := f.tell(part, status); err != nil {
				return false, err
			}
		}
		if part.Lines == 0 || f.offset >= part.TotalLines {
			return !status.Open(), nil
		}
	}
}

func (f *followed) tell(part MissionLog, status dispatch.MissionStatus) error {
	message := FollowedLog{part, f.offset, status}
	f.offset, f.status = f.offset+part.Lines, status
	return f.write("id: " + strconv.Itoa(f.offset) + "\ndata: " + string(raw(message)) + "\n\n")
}

// refuse ends the stream with the refusal that stopped it, unless nobody reads
// on.
func (f *followed) refuse(err error) error {
	var refusal *broker.Refusal
	if f.r.Context().Err() != nil || !errors.As(err, &refusal) {
		return err
	}
	return f.write("event: refused\ndata: " + string(refusal.NativeJSON()) + "\n\n")
}
