package config

// Tracing says where the spans of calls are sent. Trace contexts are taken and
// passed on with or without it.
type Tracing struct {
	// The endpoint of a collector that takes OTLP over HTTP, such as
	// `http://127.0.0.1:4318`; a URL without a path gets `/v1/traces`. Without it
	// nothing is recorded and nothing is sent.
	Endpoint Secret `key:"endpoint"`
	// Headers sent with every request to it.
	Headers SecretMap `key:"headers"`
	// The share of traces that begin here and are recorded. A caller's own trace
	// is recorded when the caller records it.
	Sample float64 `key:"sample" default:"1" min:"0" max:"1"`
}

// tracing reads the parts that may refer to the environment; n is the `berth`
// object at the top.
func (c *Config) tracing(n *node, r *report, env func(string) (string, bool)) {
	at := find(n, "tracing")
	if at == n || at.kind != object {
		return // absent, or refused
	}
	e := &entry{report: r, expander: expander{env: env, report: r}}
	to := &c.Broker.Tracing
	if endpoint := find(at, "endpoint"); endpoint != at {
		if s, ok := e.text(endpoint); ok {
			if _, err := parseURL(s); err != nil {
				e.refuse(endpoint, "the endpoint %v", err)
			}
			to.Endpoint = NewSecret(s)
		}
	}
	if headers := find(at, "headers"); headers != at {
		seen := map[string]bool{}
		to.Headers = e.secrets(headers, func(m member) bool {
			why, habit := headerFault(m.key, seen)
			if habit {
				why = "Berth sets this header itself"
			}
			if why != "" {
				e.refuseKey(m, "%s", why)
			}
			return why == ""
		}, plainHeaderValue)
	}
	if to.Endpoint.Empty() && len(r.problems) == 0 {
		r.notes = append(r.notes, problemAt(at, "passed over: without an endpoint nothing is recorded"))
	}
}
