package briefing_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"berth/actors/missions"
	"berth/actors/missions/briefing"
	"berth/broker/dispatch"
	"berth/broker/native/board"
	"berth/broker/native/codeindex"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sources are where the parts of a brief come from.
type sources struct {
	said    []board.Said
	saidErr error
	output  string
	outErr  error
	pack    codeindex.Pack
	why     string
	packErr error
	hangs   bool
	token   string // why there is none

	asked   []string // what for
	goal    string
	tokens  int
	results int
	captain string
}

func (s *sources) Join(_ context.Context, m dispatch.Mission, captain string) ([]board.Said, error) {
	s.captain = captain
	return s.said, s.saidErr
}

func (s *sources) Output(mission string) (string, bool, error) {
	s.asked = append(s.asked, mission)
	return s.output, true, s.outErr
}

func (s *sources) Pack(ctx context.Context, _ dispatch.Vessel, goal string, tokens, results int) (codeindex.Pack, string, error) {
	s.goal, s.tokens, s.results = goal, tokens, results
	if tokens <= 0 || results <= 0 {
		return codeindex.Pack{}, "", errors.New("nothing may be in it")
	}
	if s.hangs {
		<-ctx.Done()
		return codeindex.Pack{}, "", ctx.Err()
	}
	return s.pack, s.why, s.packErr
}

func (s *sources) Would(dispatch.Mission) string { return s.token }

func (s *sources) writer(log *strings.Builder) *briefing.Writer {
	return briefing.New(briefing.Options{Signals: s, Papers: s, Packs: s, Tokens: s, Broker: func() string { return "http://127.0.0.1:1/mcp" }, Log: slog.New(slog.NewTextHandler(log, nil))})
}

func work() missions.Work {
	return missions.Work{Mission: dispatch.Mission{ID: "msn_2", Title: "T", Description: "D"}, Vessel: dispatch.Vessel{ID: "vsl_1", Name: "shop"},
		Captain: dispatch.Captain{ID: "cpt_1"}, Dock: dispatch.Dock{Branch: "berth/msn_1"}, Before: &dispatch.Mission{ID: "msn_1", Title: "Before", Status: dispatch.MissionWorkProduced}}
}

func TestABriefHasWhatItsSourcesHave(t *testing.T) {
	const noToken, hasToken = "cannot be reached from this mission", "ARMADA_MCP_TOKEN"
	packed := codeindex.Pack{Markdown: "func Packed() {}", Metrics: codeindex.PackMetrics{Included: 1}}
	broken := errors.New("it is broken")
	for name, tt := range map[string]struct {
		s    sources
		set  func(w *missions.Work)
		want []string
		not  []string
		log  string
	}{
		"all of it": {s: sources{said: []board.Said{{Type: "Nudge", By: "ops", Message: "slower"}}, output: "I did it", pack: packed},
			want: []string{"# Mission: T", "berth/msn_1", "> I did it", "Nudge of ops:\n> slower", "func Packed", hasToken, "http://127.0.0.1:1/mcp"}},
		"no token":                     {s: sources{token: "nobody"}, want: []string{noToken}, not: []string{hasToken}},
		"what was said cannot be read": {s: sources{saidErr: broken}, want: []string{"# Mission: T"}, log: "what was said"},
		"the message cannot be read":   {s: sources{outErr: broken}, want: []string{"No message of its agent is known"}, log: "last message"},
		"auto, without an index":       {s: sources{why: "index_missing"}, not: []string{"Code that may be of use"}},
		"forced, without an index":     {s: sources{why: "index_missing"}, set: func(w *missions.Work) { w.Mission.ContextMode = dispatch.ContextForce }, want: []string{"No code was packed for you: index_missing"}},
		"forced, and nothing fits":     {s: sources{pack: codeindex.Pack{Markdown: "# head"}}, set: func(w *missions.Work) { w.Mission.ContextMode = dispatch.ContextForce }, want: []string{"nothing in the index fits"}, not: []string{"# head"}},
		"forced, and the search fails": {s: sources{packErr: broken}, set: func(w *missions.Work) { w.Mission.ContextMode = dispatch.ContextForce }, want: []string{"the search failed"}, not: []string{"it is broken"}, log: "no code could be packed"},
		"forced, and the search hangs": {s: sources{hangs: true}, set: func(w *missions.Work) { w.Mission.ContextMode = dispatch.ContextForce }, want: []string{"it took too long"}},
		"auto, and the search hangs":   {s: sources{hangs: true}, not: []string{"Code that may be of use"}},
		"off":                          {s: sources{pack: packed}, set: func(w *missions.Work) { w.Mission.ContextMode = dispatch.ContextOff }, not: []string{"Packed"}},
		"alone":                        {s: sources{output: "I did it"}, set: func(w *missions.Work) { w.Before = nil }, not: []string{"I did it", "What was done before"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // the limit of a pack passes at once
				var log strings.Builder
				w := work()
				if tt.set != nil {
					tt.set(&w)
				}
				got, err := tt.s.writer(&log).Brief(t.Context(), w)
				if err != nil {
					t.Fatal(err)
				}
				for _, want := range tt.want {
					if !strings.Contains(got, want) {
						t.Errorf("no %q in\n%s", want, got)
					}
				}
				for _, not := range tt.not {
					if strings.Contains(got, not) {
						t.Errorf("%q in\n%s", not, got)
					}
				}
				if (tt.log == "") != (log.Len() == 0) || !strings.Contains(log.String(), tt.log) {
					t.Errorf("the log: %s", log.String())
				}
			})
		})
	}
}

func TestABriefAsksForTheMissionItIsOf(t *testing.T) {
	s := &sources{}
	w := work()
	if _, err := s.writer(&strings.Builder{}).Brief(t.Context(), w); err != nil || s.goal != "T\nD" || s.captain != "cpt_1" || strings.Join(s.asked, " ") != "msn_1" {
		t.Errorf("%v %+v", err, s)
	}
	if s.tokens != 5000 || s.results != 20 {
		t.Errorf("a pack of %d tokens, %d results", s.tokens, s.results)
	}
	query, tokens, results := "rate limiter", 900, 1_000_000
	w.Mission.ContextQuery, w.Mission.ContextTokens, w.Mission.ContextResults = &query, &tokens, &results
	if _, err := s.writer(&strings.Builder{}).Brief(t.Context(), w); err != nil || s.goal != query || s.tokens != 900 || s.results != 100 {
		t.Errorf("%v %q, a pack of %d tokens, %d results", err, s.goal, s.tokens, s.results)
	}
}

func TestABriefOfAMissionThatIsCalledOffIsNone(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := (&sources{}).writer(&strings.Builder{}).Brief(ctx, work()); err == nil {
		t.Errorf("%s", got)
	}
}

func TestABrokerWithNothingElseWritesBriefs(t *testing.T) {
	got, err := briefing.New(briefing.Options{Log: slog.New(slog.DiscardHandler)}).Brief(t.Context(), work())
	if err != nil || !strings.Contains(got, "# Mission: T") || !strings.Contains(got, "cannot be reached") {
		t.Errorf("%v\n%s", err, got)
	}
}
