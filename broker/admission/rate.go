package admission

import "time"

const (
	// rateFade is how much of the past survives each sample: the last ten or
	// so starts decide.
	rateFade = 0.9
	// rateSamples is how many starts must have been seen before a rate counts
	// as measured.
	rateSamples = 3
)

// rate is how fast a lane drains, measured only while something in it is held
// up: from one start to the next.
type rate struct {
	watching bool
	last     time.Time
	seats    float64
	span     float64 // nanoseconds
	samples  int
}

// watch begins an interval unless one is open.
func (r *rate) watch(now time.Time) {
	if !r.watching {
		r.watching, r.last = true, now
	}
}

// start ends the open interval at the start of a ticket and begins the next.
// until is when the ticket could have started.
func (r *rate) start(cost int, until, now time.Time) {
	if !r.watching {
		return
	}
	r.seats = r.seats*rateFade + float64(cost)
	r.span = r.span*rateFade + float64(max(0, until.Sub(r.last)))
	r.samples++
	r.last = now
}

func (r *rate) stop() { r.watching = false }

// drain is how long it takes from now until seats more were granted; false
// until measured. A standstill that is longer than usual counts at once.
func (r *rate) drain(seats int, now time.Time) (time.Duration, bool) {
	if r.samples < rateSamples || r.span <= 0 {
		return 0, false
	}
	each := r.span / r.seats
	open := 0.0
	if r.watching {
		open = float64(max(0, now.Sub(r.last)))
	}
	left := each*float64(seats) - open
	if open > each {
		left = (r.span + open) / r.seats * float64(seats)
	}
	return time.Duration(min(max(left, 0), float64(maxEstimate))), true
}

// maxEstimate keeps a product of large numbers inside a Duration.
const maxEstimate = 1000 * time.Hour
