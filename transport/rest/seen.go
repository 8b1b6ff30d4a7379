package rest

import (
	"cmp"
	"net/http"

	"berth/broker"
	"berth/broker/catalog"
	"berth/transport/httpguard"
)

// overREST is the class of calls that come here: a verb that is not served over
// REST does not exist for them. Policy adds the role.
var overREST = catalog.Class{Transport: catalog.OverREST}

// nobody is no role: without a principal nothing is shown.
const nobody broker.Role = "nobody"

// seen is a profile as who makes the request may see it, on whatever transport
// it is served: what a role is not shown does not exist.
func (a *api) seen(r *http.Request, s *catalog.Snapshot, name string) (*catalog.Profile, bool) {
	p, ok := a.allowed(s, name)
	if !ok {
		return nil, false
	}
	caller, _ := httpguard.Principal(r.Context())
	return p.As(catalog.Class{Role: cmp.Or(caller.Role, nobody)}), true
}

// seesAll reports whether who makes the request may know of everything.
func seesAll(r *http.Request) bool {
	caller, _ := httpguard.Principal(r.Context())
	return caller.Role == broker.GlobalAdministrator
}
