package admission

import (
	"sync"
	"testing"

	"berth/broker"
)

func TestBudgetTakesAllOrNothing(t *testing.T) {
	b := NewBudget(10)
	for _, step := range []struct {
		name string
		take int64
		ok   bool
		used int64
	}{
		{"fits", 6, true, 6},
		{"does not fit now", 5, false, 6},
		{"fits exactly", 4, true, 10},
		{"nothing always fits", 0, true, 10},
		{"a negative size is nothing", -3, true, 10},
		{"can never fit", 11, false, 10},
		{"does not overflow", 1<<63 - 1, false, 10},
	} {
		if got := b.Take(step.take); got != step.ok || b.Used() != step.used {
			t.Fatalf("%s: %v, used %d", step.name, got, b.Used())
		}
	}
	b.Give(-5)
	if b.Give(4); b.Used() != 6 || b.Limit() != 10 {
		t.Fatalf("used %d of %d", b.Used(), b.Limit())
	}
	if b.Give(100); b.Used() != 0 {
		t.Fatalf("given too much, used %d", b.Used())
	}
}

func TestBudgetRefusals(t *testing.T) {
	b := NewBudget(10)
	b.Take(6)
	for _, tt := range []struct {
		name  string
		bytes int64
		want  broker.Code
		retry bool
	}{
		{"later it may fit", 10, broker.CodeOverloaded, true},
		{"never", 11, broker.CodeRequestTooLarge, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := b.Refuse(tt.bytes)
			if r.Code != tt.want || r.Retryable != tt.retry || (r.RetryAfter > 0) != tt.retry ||
				r.Detail["bytes"] != tt.bytes || r.Detail["bytes_in_flight"] != int64(6) || r.Detail["limit"] != int64(10) {
				t.Fatalf("got %+v", r)
			}
		})
	}
}

func TestBudgetWithoutLimit(t *testing.T) {
	b := NewBudget(-1)
	if !b.Take(1<<40) || b.Used() != 1<<40 || b.Limit() != 0 {
		t.Fatalf("used %d of %d", b.Used(), b.Limit())
	}
}

func TestBudgetIsNeverOverdrawnConcurrently(t *testing.T) {
	b := NewBudget(5)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 2000 {
				if !b.Take(2) {
					continue
				}
				if used := b.Used(); used > 5 || used < 2 {
					t.Errorf("used %d of 5 while holding 2", used)
				}
				b.Give(2)
			}
		})
	}
	wg.Wait()
	if b.Used() != 0 {
		t.Fatalf("used %d after all gave back", b.Used())
	}
}
