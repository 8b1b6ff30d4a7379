package rest

import "net/http"

// holdVerb is whose twin /api/v1/hold is.
const holdVerb = "dispatch_hold"

func (a *api) holdStatus(r *http.Request) (any, error) { return a.twin(r, holdVerb, map[string]any{}) }

func (a *api) changeHold(r *http.Request) (any, error) {
	var body struct{ Action, Reason, SetBy *string }
	if err := decode(r.Body, &body); err != nil {
		return nil, err
	}
	return a.twin(r, holdVerb, given(map[string]*string{"action": body.Action, "reason": body.Reason, "setBy": body.SetBy}))
}
