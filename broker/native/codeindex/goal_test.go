package codeindex

import "testing"

func TestAGoalIsSearchedByWhatItIsAbout(t *testing.T) {
	for goal, want := range map[string]string{
		"Make the RateLimiter say no, after 3 tries":      "RateLimiter say 3 tries",
		"Then use `limit` in routes; see net/http.":       "limit net/http routes",
		"Public routes must not be flooded: call Allow()": "Allow Public routes flooded call",
		"Second. And then": "",
		"":                 "",
		"HTTP API":         "HTTP API",
		"rename rate_limiter to rateLimiter everywhere\n\n* x": "rate_limiter rateLimiter rename everywhere x",
	} {
		if got := goalQuery(goal); got != want {
			t.Errorf("%q: got %q, want %q", goal, got, want)
		}
	}
}
