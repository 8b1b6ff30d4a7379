package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"berth/transport/rest"
)

// maxLogPage is how many lines of a log one request may ask for.
const maxLogPage = 5000

type logsOptions struct {
	follow bool
	tail   int // negative: all
}

func newMissionsLogsCommand(a *app) *cobra.Command {
	var o logsOptions
	cmd := &cobra.Command{
		Use:   "logs MISSION",
		Short: "Print a mission's log, and follow it",
		Long: `Print a mission's log. With --follow each line is printed as it is written,
until the mission has ended or you interrupt it; how the mission stands is told
on standard error. A broker that was restarted is followed on from the last line.
With --json it is one part of the log, of 5000 lines at most, as the operator API
gave it; with --follow each part is on a line of its own.`,
		Example: `  berth missions logs msn_mpkd6d2a_k4S8tZ1xV7b --follow --tail 20`,
		Args:    exactly("MISSION"),
		RunE: a.runE(func(cmd *cobra.Command, args []string) error {
			return a.runMissionsLogs(cmd.Context(), args[0], o)
		}),
	}
	cmd.Flags().BoolVarP(&o.follow, "follow", "f", false, "go on with each line as it is written")
	cmd.Flags().IntVar(&o.tail, "tail", -1, "begin with this many of the last lines; all when it is negative")
	return cmd
}

func (a *app) runMissionsLogs(ctx context.Context, id string, o logsOptions) error {
	offset := 0
	if o.tail >= 0 {
		_, first, err := a.logPart(ctx, id, 0, 1)
		if err != nil {
			return err
		}
		offset = max(0, first.TotalLines-o.tail)
	}
	if o.follow {
		return a.followLog(ctx, id, offset)
	}
	for {
		answer, part, err := a.logPart(ctx, id, offset, maxLogPage)
		if err != nil {
			return err
		}
		if a.json {
			return a.printJSON(answer)
		}
		if err := a.printLines(part); err != nil {
			return err
		}
		offset += part.Lines
		if part.Lines == 0 || offset >= part.TotalLines {
			return nil
		}
	}
}

func (a *app) logPart(ctx context.Context, id string, offset, lines int) (answer json.RawMessage, part rest.MissionLog, err error) {
	answer, err = a.get(ctx, missionPath(id, "/log"), url.Values{"offset": {strconv.Itoa(offset)}, "lines": {strconv.Itoa(lines)}})
	if err != nil {
		return nil, part, err
	}
	if err := json.Unmarshal(answer, &part); err != nil {
		return nil, part, fmt.Errorf("read the broker's answer: %w", err)
	}
	return answer, part, nil
}

// followLog prints what comes until the mission has ended. A stream that the
// broker ended, because it goes down or this reader was too slow, is asked for
// again, as long as the broker may be coming back.
func (a *app) followLog(ctx context.Context, id string, offset int) error {
	status, gone := "", absence{patience: a.comeback}
	for {
		_, err := a.ask(func(c *rest.Client) (json.RawMessage, error) {
			return nil, c.FollowLog(ctx, id, offset, func(part rest.FollowedLog) error {
				offset = part.Offset + part.Lines
				if now := string(part.Status); now != status && !a.json {
					fmt.Fprintf(a.err, "The mission is %s.\n", plain(now))
				}
				status = string(part.Status)
				return a.printLogPart(part)
			})
		})
		switch {
		case err == nil:
			return nil
		case errors.Is(ctx.Err(), context.Canceled):
			return &failure{exit: exitInterrupted, code: codeStopped, message: "Interrupted; the mission goes on.", shown: true} // the lines are the answer
		case gone.ends(err, time.Now()):
			return err
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
}

// printLines prints the lines of a part, each ended: the end of the last one is
// not part of the text.
func (a *app) printLines(part rest.MissionLog) error {
	if strings.Count(part.Log, "\n") < part.Lines {
		part.Log += "\n"
	}
	return a.printText(part.Log)
}

func (a *app) printLogPart(part rest.FollowedLog) error {
	if !a.json {
		return a.printLines(part.MissionLog)
	}
	line, err := json.Marshal(part)
	if err != nil {
		return fmt.Errorf("print a part of a log: %w", err)
	}
	if _, err = fmt.Fprintf(a.out, "%s\n", line); err != nil {
		return fmt.Errorf("print a part of a log: %w", err)
	}
	return nil
}
