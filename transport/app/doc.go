// Package app reaches a local app over REST and gives it as a backend.
//
// An app is data: a [Surface] names its environment variables, its files, its
// routes, its tools and its sentences. Small functions compose requests where a
// tool needs more than one; [app/resmon] is one such table. What is common to
// all of them is here: finding the one instance that was named, its token, the
// attachment and its end, the HTTP, the identity of the process that answers,
// the reading of arguments by the same table that the schemas are made from,
// and the shape of refusals.
//
// # What wiring uses
//
//   - [New] gives a [Backend], which is an actors.Upstream for one instance: one
//     map of environment names, one port, one token, one attachment. Two
//     backends share nothing. Open reaches nothing and never fails: the list of
//     tools is the table. The incarnation has broker.Incarnation.PerCall set,
//     because which process answers is found out with each call: its runtime id
//     is that of the attachment at that moment, or empty, and the life ends (and
//     the next is opened at once) whenever it turns out to be another. An
//     expectation, broker.Call.ExpectedRuntimeID, is checked here, in the words
//     of the surface, and Answer.RuntimeID is the process that answered, or
//     empty.
//   - [Surface.Source] gives what the catalog needs: tools, effects of each, the
//     verbs of the control lane. [Surface.Tool] finds the rest of one entry:
//     Held (stopped by a hold), Confirm, Seats, Tracks.
//   - [Surface.ReadOnly] reads the read-only variable of a map of names;
//     [Surface.List] gives tools/list entries, of the reads only when asked.
//     Options.ReadOnly makes a backend that has the reads only, whoever calls;
//     read-only principals and sessions are policy's.
//   - [Surface.Refuse] writes a refusal of the broker as this surface does, the
//     JSON of a tool result with isError. [Backend.Refuse] is the same with the
//     address that was tried, when it is known. A refusal whose detail has
//     read_only true is the surface's read-only refusal.
//   - The arguments of an app's tools are checked here; the schemas are
//     advertised and not enforced, because the table accepts more than they say
//     ("10" for 10). The catalog's schema step must not run for them.
//   - [Tracks] says how the work that a tool starts is followed: pure functions
//     over the JSON documents of answers. The tools that it polls with may be
//     Internal: not listed, callable by the broker on the control lane.
//   - [Surface.Names] lists the environment names that make up an instance;
//     Options.TokenFile judges the token file of one that a session names.
//
// # Refuses
//
// It talks to 127.0.0.1 only, follows no redirect, uses no proxy, repeats no
// request and cannot send one that is not in the surface's closed table of
// routes; there is no method that deletes. An instance that was not named is
// not looked for.
//
// # Concurrency
//
// A Backend and its connections are safe for concurrent use. A call runs in its
// caller's goroutine. A probe runs in a goroutine of its own, one at a time,
// for as long as the connect and probe limits allow; calls that come meanwhile
// share its outcome. Connections are pooled, bounded, and each is confirmed to
// be the app before a request goes over it.
package app
