package rest

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"berth/broker"
)

// maxLook is the longest withinSeconds of a look at the journal.
const maxLook = 60

func (a *api) journalStats(r *http.Request) (any, error) {
	if a.Journal == nil {
		return nil, broker.Refuse(broker.CodeNotFound, "This broker has no journal to look at.", nil)
	}
	stats, err := a.Journal.Stats(r.Context())
	if err != nil {
		return nil, fmt.Errorf("journal stats: %w", err)
	}
	return stats, nil
}

func (a *api) journalCheck(r *http.Request) (any, error) {
	if a.Journal == nil {
		return nil, broker.Refuse(broker.CodeNotFound, "This broker has no journal to look at.", nil)
	}
	seconds, err := number(r, "withinSeconds", 0, 0, maxLook)
	if err != nil {
		return nil, err
	}
	look, ctx := a.Journal.Check, r.Context()
	if seconds > 0 {
		limited, cancel := context.WithTimeout(ctx, time.Duration(seconds)*time.Second)
		defer cancel()
		look, ctx = a.Journal.LookAt, limited
	}
	report, err := look(ctx)
	if err != nil {
		return nil, fmt.Errorf("journal check: %w", err)
	}
	return report, nil
}

func (a *api) rotateToken(*http.Request) (any, error) {
	if a.Token == nil {
		return nil, broker.Refuse(broker.CodeNotFound, "This broker's token is not kept in a state directory.", nil)
	}
	if err := a.Token.RotateToken(); err != nil {
		return nil, fmt.Errorf("rotate the token: %w", err)
	}
	return Rotated{Success: true, RotatedUTC: broker.FormatTime(a.Now())}, nil
}
