package rest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// maxStreamLine limits one line of a stream that the client reads, in bytes: an
// event of the journal has 1 MiB at most, and JSON may write each byte in six.
const maxStreamLine = 8 << 20

// Events follows the stream of events from a cursor, or from now, and gives
// each to each. It returns nil when the broker ended the stream; whoever wants
// to go on begins again with the last cursor.
func (c *Client) Events(ctx context.Context, cursor string, each func(StreamEvent) error) error {
	path := "/api/v1/events/stream"
	if cursor != "" {
		path += "?" + url.Values{"cursor": {cursor}}.Encode()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watchdog := time.AfterFunc(silence, func() { cancel(fmt.Errorf("the broker sent nothing for %s", silence)) })
	defer watchdog.Stop()
	resp, err := c.send(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body := &heard{resp.Body, watchdog}
	if resp.StatusCode != http.StatusOK {
		answer, err := io.ReadAll(io.LimitReader(body, maxAnswer))
		if err != nil {
			return fmt.Errorf("read the broker's answer: %w", causeOf(ctx, err))
		}
		return refusedBy(resp.StatusCode, answer)
	}
	if kind, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";"); kind != "text/event-stream" {
		return fmt.Errorf("%w: it answered with %q instead of a stream", ErrForeign, kind)
	}
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxStreamLine)
	for lines.Scan() {
		data, found := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !found {
			continue // a comment, or the cursor, which stands in the data too
		}
		var e StreamEvent
		if err := json.Unmarshal(data, &e); err != nil {
			return fmt.Errorf("%w: an event of its stream cannot be read", ErrForeign)
		}
		if err := each(e); err != nil {
			return err
		}
	}
	err = lines.Err()
	switch {
	case err == nil:
		return nil
	case errors.Is(err, bufio.ErrTooLong):
		return fmt.Errorf("%w: a line of its stream is over %d bytes", ErrForeign, maxStreamLine)
	case context.Cause(ctx) != nil:
		return causeOf(ctx, err)
	}
	return nil // cut in the middle, as by a broker that was killed
}
