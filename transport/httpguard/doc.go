// Package httpguard is what stands between a socket and every HTTP handler of
// Berth: authentication first, then the Host and Origin checks, a limit on the
// body, security headers, and a recover that turns a panic into a neutral 500.
//
// It owns what both fronts must do alike: the order of the checks, the rule for
// Host and Origin, how a body is limited and read ([ReadBody]), and the form of
// an HTTP error body ([ErrorBody]), so that a 401 reads the same on every route.
//
// It refuses a request without a valid credential before a byte of its body is
// read (the first of Authorization, X-Token and X-Api-Key that is present
// decides; a browser's session cookie counts where there is none of them, on the
// places that were named and with a CSRF token for each change); a Host that is neither a loopback name nor configured (a
// name that was rebound to this address); and an Origin that is neither
// configured nor the loopback name that the request itself is for, on any port
// (another site's page). No Origin is no browser, and passes.
//
// A [Guard] does not change after [New], but for how much of bodies is being
// read, which it bounds over all requests; it is safe for concurrent use and
// starts no goroutine.
package httpguard
