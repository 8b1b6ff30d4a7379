package rest

import (
	"context"
	"fmt"
	"net/http"

	"berth/broker"
	"berth/transport/httpguard"
)

// Reloader puts the configuration file in force as it is now. Its refusals are
// configuration_refused, with every problem, and reload_in_progress; then
// nothing was changed.
type Reloader interface {
	Reload(ctx context.Context, by string) (Reloaded, error)
}

// Reloaded is what a reload did. It names settings and holds none of their
// values.
type Reloaded struct {
	Success      bool
	File         *string // null: the broker was started without a configuration
	Applied      []AppliedChange
	Unchanged    []string // backends that were not touched
	NeedsRestart []string // settings that changed and are not in force
	Problems     []string // of what was done all the same, such as an event that could not be written
}

// AppliedChange is a part of the configuration that is in force now.
type AppliedChange struct {
	Setting string   // such as berth.log_level or mcpServers.files
	How     string   // applied, added, removed, renewed (it drains and starts anew) or adapted
	Keys    []string // of a backend that stays: what changed
}

func (a *api) reload(r *http.Request) (any, error) {
	if a.Reload == nil {
		return nil, broker.Refuse(broker.CodeNotFound, "This broker has no configuration to read again.", nil)
	}
	p, _ := httpguard.Principal(r.Context())
	done, err := a.Reload.Reload(r.Context(), p.Key())
	if err != nil {
		return nil, fmt.Errorf("reload: %w", err)
	}
	return done, nil
}
