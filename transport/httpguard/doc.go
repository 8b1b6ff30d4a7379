// Package httpguard is what stands between a socket and every HTTP handler of
// Berth: authentication first, then the Host and Origin checks, a limit on the
// body, security headers, and a recover that turns a panic into a neutral 500.
//
// It owns the form of an HTTP error body ([ErrorBody]) so that a 401 reads the
// same on every route. It refuses a request without exactly one valid bearer
// token before a byte of its body is read, a Host that is neither a loopback
// name nor configured (a name that was rebound to this address), and an Origin
// that is neither loopback nor configured (another site's page).
//
// A [Guard] does not change after [New]; it is safe for concurrent use and
// starts no goroutine.
package httpguard
