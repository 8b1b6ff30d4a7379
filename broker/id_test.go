package broker_test

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"pgregory.net/rapid"

	"berth/broker"
)

// prefixes are those of contracts/native.md section 0.
var prefixes = strings.Fields(`job_ vyg_ msn_ vsl_ cpt_ dck_ flt_ obj_ sig_ evt_ chk_ inc_ ppl_ pps_ prs_ pbk_ ptpl_ wfp_ mem_ mpr_ ccl_ ors_ psn_ bnt_`)

var idForm = regexp.MustCompile(`^[a-z]+_[0-9a-z]{8}_[0-9A-Za-z]+$`)

// drawBytes is a source that never ends and repeats what was drawn. One of
// its bytes is always usable.
func drawBytes(t *rapid.T, name string) io.Reader {
	return &repeated{append(rapid.SliceOfN(rapid.Byte(), 1, 64).Draw(t, name), 0), 0}
}

type repeated struct {
	data []byte
	next int
}

func (r *repeated) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = r.data[r.next%len(r.data)]
		r.next++
	}
	return len(p), nil
}

func TestIDsHaveOneFormAndSortByAge(t *testing.T) {
	// The stamp has 8 characters until 2059.
	last := time.Date(2059, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	rapid.Check(t, func(t *rapid.T) {
		prefix := rapid.SampledFrom(prefixes).Draw(t, "prefix")
		older := rapid.Int64Range(0, last).Draw(t, "older")
		younger := rapid.Int64Range(older+1, last+1).Draw(t, "younger")
		a, errA := broker.NewID(prefix, time.UnixMilli(older), drawBytes(t, "a"))
		b, errB := broker.NewID(prefix, time.UnixMilli(younger), drawBytes(t, "b"))
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		for _, id := range []string{a, b} {
			if len(id) != 24 || !strings.HasPrefix(id, prefix) || !idForm.MatchString(id) {
				t.Fatalf("%q", id)
			}
		}
		if a >= b {
			t.Fatalf("%s of %d does not sort before %s of %d", a, older, b, younger)
		}
	})
}

func TestIDIsMillisecondsAndUnbiasedCharacters(t *testing.T) {
	at := time.Date(2026, 5, 4, 9, 10, 2, 123_000_000, time.FixedZone("", 2*3600))
	got, err := broker.NewID(broker.JobPrefix, at, bytes.NewReader(bytes.Repeat([]byte{255, 0, 61, 62, 247, 248}, 8)))
	// 255 and 248 would favour the first characters of the alphabet.
	if want := "job_moqv0l1n_0z0z0z0z0z0"; err != nil || got != want {
		t.Errorf("got %q %v, want %q", got, err, want)
	}
}

func TestIDWithoutRandomnessIsAnError(t *testing.T) {
	broken := errors.New("no entropy")
	for name, random := range map[string]io.Reader{
		"failing":            iotest.ErrReader(broken),
		"failing on its way": io.MultiReader(bytes.NewReader([]byte{1, 2, 3}), iotest.ErrReader(broken)),
	} {
		if id, err := broker.NewID(broker.JobPrefix, began, random); !errors.Is(err, broken) || id != "" {
			t.Errorf("%s: %q %v", name, id, err)
		}
	}
	if id, err := broker.NewID(broker.JobPrefix, began, strings.NewReader("short")); err == nil || id != "" {
		t.Errorf("ended: %q %v", id, err)
	}
	// Bytes that are all passed over must not be waited for without end.
	endless := io.LimitReader(&repeated{[]byte{255}, 0}, 1<<16)
	if id, err := broker.NewID(broker.JobPrefix, began, endless); !errors.Is(err, io.EOF) || id != "" {
		t.Errorf("useless: %q %v", id, err)
	}
}
