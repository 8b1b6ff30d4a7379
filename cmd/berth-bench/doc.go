// Command berth-bench measures Berth against what it stands between, in one
// run: the same calls through Berth, through a bare httputil.ReverseProxy and
// straight to the backend, in turns, so that a machine that drifts slows all of
// them alike. What it reports are medians over the turns and ratios within a
// turn.
//
// It owns its backends (an echo over HTTP and over stdio), the proxy, the load
// and the baseline of the journal (append and fdatasync with the same
// grouping). Every process under load is one of its own: it builds the berth
// binary, starts itself again in another role for the others, and keeps all
// state in a temporary directory that it removes.
//
// It refuses to count a call whose answer it has not checked: a wrong answer,
// an error or a closed connection ends the run. It never waits without limit.
//
// Concurrency: one goroutine for each client of a turn; they end with the turn.
//
// A turn in which no call ended because the machine stood still, of which a
// timer of the bench itself tells, is driven again, three times at most.
package main
