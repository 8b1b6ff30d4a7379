package dispatch

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"berth/broker"
)

// shelf is a journal that has captains: every tenth of them it cannot decode
// itself, and leaves out as a journal does; every fifteenth holds no captain.
type shelf struct {
	n    int
	dead bool
}

var errShelf = errors.New("a record is unreadable")

func (s shelf) Record(string, string) (broker.Record, error) { return broker.Record{}, errShelf }

func (s shelf) Records(q broker.RecordQuery) ([]broker.Record, error) {
	if s.dead {
		return nil, errShelf
	}
	var out []broker.Record
	var err error
	listed := 0
	for i := range s.n {
		id := fmt.Sprintf("c%06d", i)
		if id <= q.After || listed == q.Limit {
			continue
		}
		if listed++; i%10 == 9 {
			err = errShelf
			continue
		}
		value := fmt.Sprintf(`{"Id":%q}`, id)
		if i%15 == 14 {
			value = `{"Id":7}`
		}
		out = append(out, broker.Record{Kind: KindCaptain, ID: id, Revision: 3, Value: []byte(value)})
	}
	return out, err
}

func TestAListIsReadAsFarAsItCanBe(t *testing.T) {
	for _, n := range []int{0, 5, 40, 1000, 2500} {
		all, err := ReadAll[Captain](shelf{n: n}, "")
		var want []string
		for i := range n {
			if i%10 != 9 && i%15 != 14 {
				want = append(want, fmt.Sprintf("c%06d", i))
			}
		}
		var got []string
		for _, k := range all {
			got = append(got, k.Value.ID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("of %d records %d were read, want %d", n, len(got), len(want))
		}
		if partly := n > 9; errors.Is(err, ErrPartly) != partly || !partly && err != nil {
			t.Errorf("of %d records: %v", n, err)
		}
	}
	if _, err := ReadAll[Captain](shelf{dead: true}, ""); !errors.Is(err, errShelf) || errors.Is(err, ErrPartly) {
		t.Errorf("a journal that is gone: %v", err)
	}
	if _, err := Read[Captain](shelf{}, "c"); err == nil || strings.Contains(err.Error(), "cannot be read") {
		t.Error(err)
	}
}
