package actors

import (
	"fmt"
	"log/slog"

	"github.com/asynkron/protoactor-go/actor"
)

// This file is what becomes of actors that panic.

// strategy is how the supervisor treats a failed child: a backend starts anew,
// a session or job ends; what they held was answered by then.
type strategy struct{ log *slog.Logger }

// HandleFailure implements actor.SupervisorStrategy.
func (st *strategy) HandleFailure(_ *actor.ActorSystem, sup actor.Supervisor, child *actor.PID, _ *actor.RestartStatistics, reason, _ any) {
	st.log.Error("an actor failed", slog.String("actor", child.Id), slog.String("panic", fmt.Sprint(reason)))
	if isBackend(child) {
		sup.RestartChildren(child)
		return
	}
	sup.StopChildren(child)
}

// guardian ends the process when the supervisor fails.
type guardian struct{ fatal func(string) }

// HandleFailure implements actor.SupervisorStrategy.
func (g *guardian) HandleFailure(_ *actor.ActorSystem, sup actor.Supervisor, child *actor.PID, _ *actor.RestartStatistics, reason, _ any) {
	sup.StopChildren(child)
	g.fatal(fmt.Sprintf("the supervisor failed: %v", reason))
}
