package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"berth/transport/rest"
)

func newCaptainsCommand(a *app) *cobra.Command {
	return newGroup(a, "captains", "List, create, show, bench and stop agent programs",
		newCaptainsListCommand, newCaptainsCreateCommand, newCaptainsShowCommand, newCaptainsBenchCommand, newCaptainsUnbenchCommand, newCaptainsStopCommand)
}

func captainPath(id, rest string) string { return "/api/v1/captains/" + url.PathEscape(id) + rest }

func newCaptainsListCommand(a *app) *cobra.Command {
	var o listOptions
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List captains, newest first",
		Args:  exactly(),
		RunE: a.runE(func(cmd *cobra.Command, _ []string) error {
			answer, err := a.list(cmd, "/api/v1/captains", o)
			if err != nil {
				return err
			}
			return show(a, answer, func(list rest.Page[rest.Captain]) error {
				now, rows := time.Now(), make([][]string, 0, len(list.Objects))
				for _, c := range list.Objects {
					rows = append(rows, []string{c.ID, c.Name, string(c.State), string(c.Runtime), orDash(c.Model), string(c.Tier), orDash(c.MissionID), since(c.LastHeartbeat, now)})
				}
				err := a.table([]string{"CAPTAIN", "NAME", "STATE", "RUNTIME", "MODEL", "TIER", "MISSION", "HEARD"}, rows)
				a.more(list.TotalRecords, len(rows), "captains")
				return err
			})
		}),
	}
	listFlags(cmd, &o, [3]string{"status", "state", "only this state, such as Idle, Working, Stalled or Benched"})
	return cmd
}

func (a *app) showCaptain(c rest.Captain) error {
	runtime, tier := string(c.Runtime), string(c.Tier)
	key := ""
	if c.HasAPIKey != nil && *c.HasAPIKey {
		key = "kept, never shown"
	}
	return a.facts(given([][2]string{{"Captain", c.ID}, {"Name", c.Name}, {"State", string(c.State)}}, []fact{
		{"Runtime", &runtime}, {"Model", c.Model}, {"Tier", &tier}, {"API key", &key}, {"Mission", c.MissionID}, {"Dock", c.DockID}, {"Last heard", c.LastHeartbeat},
		{"Benched for", c.BenchReason}, {"Until", c.BenchUntil}, {"Created", c.CreatedUTC}}))
}

func newCaptainsShowCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "show CAPTAIN",
		Short: "Show one captain",
		Args:  exactly("CAPTAIN"),
		RunE: a.runE(func(cmd *cobra.Command, args []string) error {
			answer, err := a.get(cmd.Context(), captainPath(args[0], ""), nil)
			if err != nil {
				return err
			}
			return show(a, answer, a.showCaptain)
		}),
	}
}

// captainDraft is the body of POST /api/v1/captains.
type captainDraft struct {
	Name                 string
	Runtime              string   `json:",omitempty"`
	Model                string   `json:",omitempty"`
	APIKey               string   `json:"ApiKey,omitempty"`
	APIBaseURL           string   `json:"ApiBaseUrl,omitempty"`
	SystemInstructions   string   `json:",omitempty"`
	Tier                 string   `json:",omitempty"`
	PreferenceRank       int      `json:",omitempty"`
	ReasoningEffort      string   `json:",omitempty"`
	CustomCommand        []string `json:",omitempty"`
	CustomPromptDelivery string   `json:",omitempty"`
}

func newCaptainsCreateCommand(a *app) *cobra.Command {
	var d captainDraft
	keyFile := ""
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Register an agent program as a captain",
		Long: `Register an agent program as a captain. It takes one mission at a time. A Custom
captain runs a command of your own: one --command for each word, the first an
absolute path; {prompt}, {promptFile}, {worktree}, {missionId} and {model} are
replaced in the others.`,
		Example: `  berth captains create claude-1 --model claude-sonnet-4-5
  berth captains create mine --runtime Custom --command /usr/local/bin/agent --command --dir --command '{worktree}'`,
		Args: exactly("NAME"),
		RunE: a.runE(func(cmd *cobra.Command, args []string) (err error) {
			d.Name = args[0]
			if keyFile != "" {
				if d.APIKey, err = a.readKey(keyFile); err != nil {
					return err
				}
			}
			answer, err := a.post(cmd.Context(), "/api/v1/captains", d)
			if err != nil {
				return err
			}
			return show(a, answer, a.showCaptain)
		}),
	}
	f := cmd.Flags()
	f.StringVar(&d.Runtime, "runtime", "", "ClaudeCode (when it is not given), Codex, Gemini, Cursor, OpenCode or Custom")
	f.StringVar(&d.Model, "model", "", "the model, as the program calls it")
	f.StringVar(&d.Tier, "tier", "", "Economy, Standard or Premium; from the model's name when it is not given")
	f.IntVar(&d.PreferenceRank, "rank", 0, "-1000 to 1000; within a tier the higher one is tried first")
	f.StringVar(&d.ReasoningEffort, "effort", "", "low, medium or high")
	f.StringVar(&d.SystemInstructions, "instructions", "", "what the agent is told beside each brief")
	f.StringVar(&d.APIBaseURL, "api-base-url", "", "the address of the model's provider")
	f.StringVar(&keyFile, "api-key-file", "", "the `file` that holds the key for the model's provider; - is standard input")
	f.StringArrayVar(&d.CustomCommand, "command", nil, "one `word` of the command of a Custom captain; may be repeated")
	f.StringVar(&d.CustomPromptDelivery, "prompt-delivery", "", "how a Custom captain gets its prompt: stdin, argument or file")
	return cmd
}

// maxKey limits a key, in bytes.
const maxKey = 64 << 10

// readKey reads a key that must not stand on a command line.
func (a *app) readKey(file string) (string, error) {
	in := a.in
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return "", fmt.Errorf("read the key: %w", err)
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, maxKey+1))
	if err != nil {
		return "", fmt.Errorf("read the key: %w", err)
	}
	key := strings.TrimSpace(string(text))
	if key == "" || len(text) > maxKey {
		return "", usage("--api-key-file names a file without a key.")
	}
	return key, nil
}

func newCaptainsBenchCommand(a *app) *cobra.Command {
	var bench struct {
		Reason          string
		UntilUTC        string `json:"UntilUtc,omitempty"`
		DurationMinutes int    `json:",omitempty"`
	}
	var lasting time.Duration
	cmd := &cobra.Command{
		Use:   "bench CAPTAIN --reason TEXT",
		Short: "Keep an idle captain from work",
		Args:  exactly("CAPTAIN"),
		RunE: a.runE(func(cmd *cobra.Command, args []string) error {
			if strings.TrimSpace(bench.Reason) == "" {
				return usage("Say why with --reason; it is kept with the captain.")
			}
			if lasting != 0 {
				if lasting < time.Minute || lasting%time.Minute != 0 {
					return usage("--for must be whole minutes, such as 90m.")
				}
				bench.DurationMinutes = int(lasting / time.Minute)
			}
			answer, err := a.post(cmd.Context(), captainPath(args[0], "/quarantine"), bench)
			if err != nil {
				return err
			}
			return show(a, answer, func(b struct {
				CaptainID   string `json:"CaptainId"`
				Name, State string
				BenchReason *string
				Until       *string `json:"BenchUntilUtc"`
			}) error {
				return a.facts(given([][2]string{{"Captain", b.CaptainID}, {"Name", b.Name}, {"State", b.State}}, []fact{{"Benched for", b.BenchReason}, {"Until", b.Until}}))
			})
		}),
	}
	cmd.Flags().StringVar(&bench.Reason, "reason", "", "why; kept with the captain (required)")
	cmd.Flags().StringVar(&bench.UntilUTC, "until", "", "until this time, such as 2026-05-04T09:12:00Z; until it is lifted without it")
	cmd.Flags().DurationVar(&lasting, "for", 0, "for so long, in whole minutes")
	return cmd
}

func newCaptainsUnbenchCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "unbench CAPTAIN",
		Short: "Let a benched captain work again",
		Args:  exactly("CAPTAIN"),
		RunE: a.runE(func(cmd *cobra.Command, args []string) error {
			answer, err := a.post(cmd.Context(), captainPath(args[0], "/unquarantine"), nil)
			if err != nil {
				return err
			}
			return show(a, answer, func(u struct {
				CaptainID string `json:"CaptainId"`
				State     string
			}) error {
				return a.facts([][2]string{{"Captain", u.CaptainID}, {"State", u.State}})
			})
		}),
	}
}

// captainsStopped is the answer to stopping one captain, or all.
type captainsStopped struct {
	Status   string
	Failures []struct {
		CaptainID       string `json:"CaptainId"`
		Reason, Message string
	}
}

func newCaptainsStopCommand(a *app) *cobra.Command {
	all := false
	cmd := &cobra.Command{
		Use:   "stop CAPTAIN | stop --all",
		Short: "End what a captain does; its mission ends Cancelled",
		Args: func(_ *cobra.Command, args []string) error {
			if all {
				return exactly()(nil, args)
			}
			return exactly("CAPTAIN")(nil, args)
		},
		RunE: a.runE(func(cmd *cobra.Command, args []string) error {
			path, what := "/api/v1/captains/stop-all", "every captain"
			if !all {
				path, what = captainPath(args[0], "/stop"), "captain "+args[0]
			}
			wait := a.waitingFor("Stopping " + what)
			answer, err := a.post(cmd.Context(), path, nil)
			wait.end()
			if err != nil {
				return err
			}
			var done captainsStopped
			if err := json.Unmarshal(answer, &done); err != nil {
				return fmt.Errorf("read the broker's answer: %w", err)
			}
			if err := show(a, answer, func(captainsStopped) error {
				rows := [][2]string{{"Status", done.Status}}
				for _, f := range done.Failures {
					rows = append(rows, [2]string{"Not stopped", f.CaptainID + ": " + f.Message + " (" + f.Reason + ")"})
				}
				return a.facts(rows)
			}); err != nil {
				return err
			}
			if len(done.Failures) > 0 {
				return &failure{exit: exitOutcome, code: codeOutcome, message: "Some captains were not stopped.", shown: true}
			}
			return nil
		}),
	}
	cmd.Flags().BoolVar(&all, "all", false, "stop every captain")
	return cmd
}
