package mcpserver

import (
	"encoding/json"

	"berth/transport/jsonrpc"
)

// cacheable are the requests whose results say how long they may be kept.
var cacheable = map[string]bool{
	"server/discover": true, "tools/list": true, "prompts/list": true, "resources/list": true,
	"resources/templates/list": true, "resources/read": true,
}

// What is said of a result whose backend does not say it: it is for this caller
// only, and stale at once, because nobody told how long it holds.
const (
	ownTTL   = "0"
	ownScope = `"private"`
	// listTTL is that of a list of tools of which nothing is missing: 5 minutes.
	listTTL = "300000"
)

// completed gives a result of the older era what every result of this one has.
// What a backend said is never changed.
func completed(rq *request, result json.RawMessage) json.RawMessage {
	o, err := jsonrpc.ParseObject(result)
	if err != nil {
		return result // nothing that members could be added to
	}
	if _, ok := o.Get("resultType"); !ok {
		o.Set("resultType", resultType(o))
	}
	if cacheable[rq.msg.Method] {
		if _, ok := o.Get("ttlMs"); !ok {
			ttl := ownTTL
			if rq.msg.Method == "tools/list" && !rq.partial {
				ttl = listTTL
			}
			o.Set("ttlMs", []byte(ttl))
		}
		if _, ok := o.Get("cacheScope"); !ok {
			o.Set("cacheScope", []byte(ownScope))
		}
	}
	return o.Bytes()
}

// resultType is that of a result which does not say it. A library of this era
// that serves an older client leaves it out of its questions too.
func resultType(o *jsonrpc.Object) json.RawMessage {
	if asks, ok := o.Get("inputRequests"); ok && asks[0] == '{' {
		return []byte(`"input_required"`)
	}
	return []byte(`"complete"`)
}
