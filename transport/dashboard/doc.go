// Package dashboard is the broker in a browser: pages that the server renders,
// forms that change something, and one small script that swaps parts of a page
// while it is open.
//
// It owns the pages, the login form, the plots and the [Sampler] behind them. It
// decides nothing: a page asks the operator API in the name of who looks at it,
// with that browser's own cookie, and shows what is answered, a refusal
// included. So a role sees exactly what its API allows, and a change does what
// the API does. What no route has (owners of jobs, plots, a report of the start)
// is read from the broker after the route of the same subject has let the
// caller through.
//
// It refuses a change without the token of its session, a login too many, and a
// page to who has not logged in (401, with the form). Every text that comes from
// a backend or a caller is shown as text: escaped, isolated from the direction
// of its neighbours, its invisible characters made visible, and cut.
//
// No page needs the script. Nothing is loaded from another host, and the
// Content-Security-Policy says so.
//
// A Dashboard does not change after [New] and is safe for concurrent use. An
// open page with live parts holds one goroutine, its request's; [Dashboard.Close]
// ends those. [Sampler.Run] is a loop that its owner starts and ends.
package dashboard
