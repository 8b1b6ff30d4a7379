package rest

import (
	"fmt"
	"net/http"

	"berth/broker"
)

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
	report, err := a.Journal.Check(r.Context())
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
