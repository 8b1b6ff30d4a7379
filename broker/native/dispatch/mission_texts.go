package dispatch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"unicode/utf8"

	"berth/broker"
	"berth/broker/dispatch"
	"berth/broker/native"
)

// The pages of logs, in lines, and of outputs, in characters.
const (
	logLines   = 100
	maxLines   = 5000
	outputPage = 16_000
	maxPage    = 64_000
)

var linesProperties = []property{
	{"lines", `{"type":"integer","default":100,"description":"1 to 5000; a number outside is taken as the nearest one inside."}`},
	{"offset", `{"type":"integer","default":0,"description":"The line to begin at, from 0."}`},
}

func (f *Family) missionTextVerbs() []native.Verb {
	return []native.Verb{
		verb(broker.Read, f.missionStatus, "mission_status", "How a mission stands", "A mission and what its agent said last. Its diff is get_mission_diff's.", missionID),
		verb(broker.Read, f.missionOutput, "mission_output", "What a mission answered", "The agent's final message, in pages. While it works, what there is of it so far. Text that looks like a credential is replaced.", missionID,
			property{"offset", `{"type":"integer","default":0,"description":"The character to begin at, from 0."}`}, property{"length", `{"type":"integer","default":16000,"description":"Characters of a page, 1 to 64000."}`}),
		verb(broker.Read, f.missionLog, "get_mission_log", "A mission's log", "Lines of what the agent printed and of what the broker noted.", append([]property{missionID}, linesProperties...)...),
		verb(broker.Read, f.missionDiff, "get_mission_diff", "A mission's diff", "What a mission changed: as it was saved at its end, or of its worktree while it works.", missionID),
	}
}

// missionShown is a mission with what its agent said last.
type missionShown struct {
	dispatch.Mission
	Output *cutText `json:"AgentOutput"`
}

func (f *Family) missionStatus(_ context.Context, ask native.Ask) (any, error) {
	kept, err := named[dispatch.Mission](f, ask, "missionId")
	if err != nil {
		return nil, err
	}
	text, _, err := f.output(kept.Value)
	if err != nil {
		return nil, f.paperless(kept.Value.ID, err)
	}
	out := missionShown{Mission: kept.Value}
	if text != "" {
		out.Output = cut(text)
	}
	return out, nil
}

// outputShown is a page of a mission's output. Offsets and lengths are in
// characters.
type outputShown struct {
	MissionID  string `json:"MissionId"`
	Ref        string `json:"ArtifactRef"`
	Offset     int    `json:"Offset"`
	Length     int    `json:"Length"`
	Total      int    `json:"TotalLength"`
	TotalBytes int    `json:"TotalUtf8Bytes"`
	Content    string `json:"Content"`
	HasMore    bool   `json:"HasMore"`
	NextOffset *int   `json:"NextOffset"`
	Sha256     string `json:"Sha256"` // of the whole output as it is shown
	Finalized  bool   `json:"Finalized"`
	Complete   bool   `json:"Complete"` // Content is the whole, and it is final
}

func (f *Family) missionOutput(_ context.Context, ask native.Ask) (any, error) {
	args := struct {
		Offset number `json:"offset"`
		Length number `json:"length"`
	}{}
	if err := ask.Decode(&args); err != nil {
		return nil, err
	}
	kept, err := named[dispatch.Mission](f, ask, "missionId")
	if err != nil {
		return nil, err
	}
	text, finalized, err := f.output(kept.Value)
	if err != nil {
		return nil, f.paperless(kept.Value.ID, err)
	}
	sum := sha256.Sum256([]byte(text))
	out := outputShown{MissionID: kept.Value.ID, Ref: "mission-output:" + kept.Value.ID, Offset: args.Offset.within(0, 0, 1<<40), Total: utf8.RuneCountInString(text), TotalBytes: len(text),
		Sha256: hex.EncodeToString(sum[:]), Finalized: finalized}
	out.Content = characters(text, out.Offset, args.Length.within(outputPage, 1, maxPage))
	out.Length = utf8.RuneCountInString(out.Content)
	if next := out.Offset + out.Length; next < out.Total {
		out.HasMore, out.NextOffset = true, &next
	}
	out.Complete = finalized && out.Length == out.Total
	return out, nil
}

// lines are lines of a log.
type lines struct {
	Log   string `json:"Log"`
	Lines int    `json:"Lines"`
	Total int    `json:"TotalLines"`
}

// logOf reads the lines that a call asks for of a mission's log.
func (f *Family) logOf(ask native.Ask, missionID string) (lines, error) {
	var args struct {
		Lines  number `json:"lines"`
		Offset number `json:"offset"`
	}
	if err := ask.Decode(&args); err != nil {
		return lines{}, err
	}
	text, got, total, err := f.opts.Papers.Log(missionID, args.Offset.within(0, 0, 1<<40), args.Lines.within(logLines, 1, maxLines))
	return lines{text, got, total}, f.paperless(missionID, err)
}

func (f *Family) missionLog(_ context.Context, ask native.Ask) (any, error) {
	kept, err := named[dispatch.Mission](f, ask, "missionId")
	if err != nil {
		return nil, err
	}
	l, err := f.logOf(ask, kept.Value.ID)
	if err != nil {
		return nil, err
	}
	return struct {
		MissionID string `json:"MissionId"`
		lines
	}{kept.Value.ID, l}, nil
}

type missionDiff struct {
	MissionID string  `json:"MissionId"`
	Branch    *string `json:"Branch"`
	Diff      string  `json:"Diff"`
}

func (f *Family) missionDiff(ctx context.Context, ask native.Ask) (any, error) {
	kept, err := named[dispatch.Mission](f, ask, "missionId")
	if err != nil {
		return nil, err
	}
	m := kept.Value
	saved, ok, err := f.diff(m)
	if err != nil {
		return nil, f.paperless(m.ID, err)
	}
	if ok {
		return missionDiff{m.ID, m.Branch, saved}, nil
	}
	live, err := f.liveDiff(ctx, m)
	if err != nil {
		return nil, err
	}
	return missionDiff{m.ID, m.Branch, live}, nil
}

// liveDiff reads the diff of a mission's worktree.
func (f *Family) liveDiff(ctx context.Context, m dispatch.Mission) (string, error) {
	unavailable := broker.Refuse(broker.CodeMissionDiff, "The mission has no saved diff and no worktree that could be read.", map[string]any{"MissionId": m.ID, "Status": m.Status})
	if m.DockID == nil || m.StartCommit == nil {
		return "", unavailable
	}
	dock, err := dispatch.Read[dispatch.Dock](f.store, *m.DockID)
	if err == nil {
		var vessel dispatch.Kept[dispatch.Vessel]
		if vessel, err = dispatch.Read[dispatch.Vessel](f.store, m.VesselID); err == nil {
			var text string
			if text, err = f.opts.Papers.LiveDiff(ctx, vessel.Value, dock.Value, *m.StartCommit); err == nil {
				return text, nil
			}
		}
	}
	if !errors.Is(err, broker.ErrRecordNotFound) {
		f.opts.Log.Warn("the worktree of a mission could not be read", slog.String("mission", m.ID), slog.String("cause", err.Error()))
	}
	return "", unavailable
}
