// Package resmontest is a resmon to test against: a real listener on 127.0.0.1
// with real port and token files, which answers the routes that the resmon
// surface uses as resmon does, keeps a record of what it was asked, and
// misbehaves on request.
//
// It owns the directory that it is given and nothing else: the token file in
// state/, the port file in data/. It has exactly the 44 routes of the contract
// (Pairs); any other path is 404 and any other method 405, so that a request
// that must not be built is seen. Nothing but tests and its own command imports
// it (the package architecture holds that).
//
// What it answers is checked against recorded answers of resmon 1.6.1 by
// captures_test.go, with a table of the places where the contract is newer. It
// bounds what it keeps (10,000 requests, 64 KiB of each body; the oldest go), and holds no token in
// its record.
//
// A Fake is safe for concurrent use. Data is guarded by one mutex that is not
// held while bytes travel. Start, Stop, Crash and Restart return when the change
// has happened: after Stop no goroutine of the fake is left. A fault that waits
// ends when it is released, when the caller goes, or when the fake stops.
package resmontest
