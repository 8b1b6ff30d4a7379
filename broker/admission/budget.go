package admission

import (
	"sync/atomic"

	"berth/broker"
)

// Budget bounds the bytes of the calls that wait or run over all backends. It
// is safe for concurrent use. Nobody waits for it: what does not fit now is
// refused.
type Budget struct {
	limit int64
	used  atomic.Int64
}

// NewBudget makes a budget of limit bytes; 0 or less is no limit.
func NewBudget(limit int64) *Budget { return &Budget{limit: max(0, limit)} }

// Take takes n bytes if they fit, all or nothing. What was taken is given back
// with Give, once.
func (b *Budget) Take(n int64) bool {
	n = max(0, n)
	for {
		used := b.used.Load()
		if b.limit > 0 && n > b.limit-used {
			return false
		}
		if b.used.CompareAndSwap(used, used+n) {
			return true
		}
	}
}

// Give gives back n bytes. More than was taken leaves the budget empty, never
// negative.
func (b *Budget) Give(n int64) {
	n = max(0, n)
	for {
		used := b.used.Load()
		if b.used.CompareAndSwap(used, max(0, used-n)) {
			return
		}
	}
}

// Used is how many bytes are taken.
func (b *Budget) Used() int64 { return b.used.Load() }

// Limit is how many bytes there are; 0: no limit.
func (b *Budget) Limit() int64 { return b.limit }

// Refuse is the answer to a call of n bytes that Take turned away:
// `request_too_large` when it can never fit, else `overloaded`.
func (b *Budget) Refuse(n int64) *broker.Refusal {
	detail := map[string]any{"bytes": n, "bytes_in_flight": b.Used(), "limit": b.limit}
	if b.limit > 0 && n > b.limit {
		return broker.Refuse(broker.CodeRequestTooLarge, "The call is larger than everything that may be in flight at once; nothing was started.", detail)
	}
	return broker.Refuse(broker.CodeOverloaded, "The calls in flight are as large together as they may be; nothing was started.", detail).Retry(unknownRetry)
}
