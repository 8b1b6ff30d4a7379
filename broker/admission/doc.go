// Package admission is the queue of one backend: who waits, who runs next and
// who is turned away. It also holds the budget of bytes in flight over all
// backends, and what each credential may take of a backend (Shares).
//
// # What it owns
//
// A Queue owns the tickets of one backend from Offer until Done, Abandon,
// Expire or Drain. It is plain data: it starts no goroutine, takes no lock and
// reads no clock. One owner (the backend actor) calls it; it is not safe for
// concurrent use. Budget and Shares are, because all backends share them.
//
// The owner calls Next after Offer and after Done until Next says no. Next
// looks at the seats before it takes a ticket out, so that never more than
// Limits.Seats are taken.
//
// # What it refuses
//
// A lane that is full refuses with `overloaded`. Past its limit it still takes
// the first waiting ticket of a session (up to half as many again) and of a
// principal (up to as many again), so that a flood does not shut out others. A
// ticket that could run at once is never refused for that reason: a limit of 0 means "run now or not at
// all". A ticket that is malformed (no id, an id that is waiting or running, a
// lane that does not wait) is a fault of the broker and is refused with
// `internal`. Nothing blocks, and nothing that waits is ever dropped to make
// room for something else.
//
// # Order
//
// The calls lane and the jobs lane share the seats 3 to 1 while both have
// something waiting; either gets everything the other leaves. A share of the
// starts does not protect calls from jobs that run for hours, so jobs together
// hold at most Limits.JobSeats seats (by default all but one, and all when
// there is only one); a job that costs more than that runs when no other job
// does. Calls need no such limit: their runs are short by their own timeouts,
// and every fourth start is the jobs'.
//
// Inside a lane principals share by weight, inside a principal its sessions
// share equally, and a session is first in, first out. Each of the two levels is
// a weighted stride scheduler that is kept in step with the ideal (worst-case
// fair queueing, WF2Q):
//
//   - the ideal serves everything that waits at once, each flow at its weight,
//     with the seats that were granted so far; its virtual time is the clock of
//     the level;
//   - a flow's pass is the virtual time up to which it was served; a ticket of c
//     seats moves it by c/weight;
//   - only flows whose pass the clock has reached compete, and the one whose
//     next ticket would end first wins. So no flow that stays backlogged is ever
//     ahead of or behind its max-min share by more than one ticket of the
//     largest cost at its own level: principals by one, sessions by two (their
//     own and their principal's); where flows empty and return, by one more.
//     Plain stride, which compares passes alone, holds a heavy flow back by one
//     ticket of every light one;
//   - a new flow starts at the clock: idling earns no credit, and a stream of
//     ever new sessions does not push back one that waits, because the clock
//     moves with every ticket;
//   - among equals the one that was served longest ago wins, so that a
//     session's first call goes before the next of one that has a hundred;
//   - a flow that has nothing waiting but is ahead of the clock is remembered
//     until the clock passes it, so that sending one call at a time escapes no
//     weight. At most as many as wait and 64 more are remembered; every other
//     empty flow is dropped, and when nothing waits, all are.
//
// The ticket whose turn it is stays next until it has its seats or leaves: if
// it costs more seats than are free, everything behind it waits too. So an
// expensive verb waits for what runs now and never for what came later.
//
// A step costs O(log n) for n waiting tickets and, when nothing waits, no
// allocation once warm. Explain plays the order through on a copy and costs
// O(n log n); it is for people and for progress lines.
//
// # Estimates
//
// An estimate is how long the seats ahead take at the rate at which the lane
// was seen to drain while it was held up, and nil until that was measured. Time
// in which seats stood empty (a backend that is down) is not counted.
package admission
