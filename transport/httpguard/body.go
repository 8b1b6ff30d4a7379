package httpguard

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"berth/broker"
)

// BodyWithin is how long a client may take to send a whole body.
const BodyWithin = 60 * time.Second

// firstBuffer is how much is set aside on the word of a Content-Length, in
// bytes; more is only when more has come.
const firstBuffer = 1 << 20

// ReadBody reads the body of a request that a guard admitted. limit, in bytes,
// is for a handler that takes less than its guard; zero leaves the guard's
// limit. When the body did not arrive, refusal says why and status is the one
// to answer with; the connection is closed after that answer.
func ReadBody(w http.ResponseWriter, r *http.Request, limit int64) (body []byte, status int, refusal *broker.Refusal) {
	if r.Body == nil || r.ContentLength == 0 {
		return nil, 0, nil
	}
	var in io.Reader = r.Body
	if limit > 0 {
		in = http.MaxBytesReader(w, r.Body, limit)
	}
	if b, ok := r.Body.(*admittedBody); ok {
		m := &metered{in: in, sum: b.sum}
		defer m.release()
		in = m
	}
	body, err := readAll(in, r.ContentLength)
	if err == nil {
		// Left standing, the deadline would end the connection under a long call.
		// net/http takes it off when it begins to watch for a disconnect, but
		// does not promise to.
		readDeadline(w, time.Time{})
		return body, 0, nil
	}
	abandonBody(w)
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, http.StatusRequestEntityTooLarge, TooLarge(large.Limit)
	case errors.Is(err, errCrowded):
		return nil, http.StatusTooManyRequests, broker.Refuse(broker.CodeOverloaded, "Too much of request bodies is being read; nothing was started.", nil).Retry(crowdedFor)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, http.StatusRequestTimeout, incomplete("The body did not arrive in time.")
	default: // the client is gone, or its framing is broken; an answer reaches it only then
		return nil, http.StatusBadRequest, incomplete("The body did not arrive whole.")
	}
}

// sum is how much of bodies is held while they are read, over all requests of a
// guard. The first [firstBuffer] of each does not count, so that what is usual is
// never refused because of others.
type sum struct {
	max int64
	now atomic.Int64
}

// crowdedFor is when to come back after a body found no room, a guess.
const crowdedFor = time.Second

var errCrowded = errors.New("too much of bodies is being read")

// admittedBody is the body of a request that a guard let through, cut at its
// limit.
type admittedBody struct {
	io.ReadCloser
	sum *sum
}

// metered counts what is read into a sum, until it is released.
type metered struct {
	in         io.Reader
	sum        *sum
	read, held int64
}

func (m *metered) Read(b []byte) (int, error) {
	n, err := m.in.Read(b)
	m.read += int64(n)
	if more := m.read - firstBuffer - m.held; more > 0 {
		m.held += more
		if m.sum.now.Add(more) > m.sum.max {
			return n, errCrowded
		}
	}
	return n, err
}

func (m *metered) release() { m.sum.now.Add(-m.held) }

// TooLarge is the refusal of a body over limit bytes.
func TooLarge(limit int64) *broker.Refusal {
	return broker.Refuse(broker.CodeRequestTooLarge, fmt.Sprintf("The request body is over the limit of %d bytes.", limit),
		map[string]any{"LimitBytes": limit})
}

func incomplete(message string) *broker.Refusal {
	return broker.Refuse(broker.CodeRequestIncomplete, message+" Nothing was done.", nil)
}

// Unread is for an answer before which nobody reads the body of r: the
// connection ends with the answer, if there is a body. Who waits with it would
// else hold the connection, on an open route without a credential.
func Unread(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 {
		abandonBody(w)
	}
}

// abandonBody lets the connection go after the answer. Else net/http would wait
// for the rest of the body, before it sends the answer and again after it.
func abandonBody(w http.ResponseWriter) {
	w.Header().Set("Connection", "close")
	readDeadline(w, time.Now())
}

// readDeadline is best effort: a writer of a test, or of another server, may
// know none, and the connection is then bounded by whoever gave it.
func readDeadline(w http.ResponseWriter, t time.Time) {
	_ = http.NewResponseController(w).SetReadDeadline(t)
}

// readAll reads a body whose length is said to be length; -1: it is not said.
// What is set aside because of a length alone, which is a claim until the bytes
// come, is firstBuffer at most.
func readAll(r io.Reader, length int64) ([]byte, error) {
	if length >= 0 && length <= firstBuffer {
		body := make([]byte, length)
		_, err := io.ReadFull(r, body)
		return body, err
	}
	var buf bytes.Buffer
	if length > 0 {
		buf.Grow(firstBuffer)
	}
	_, err := buf.ReadFrom(r)
	return buf.Bytes(), err
}
