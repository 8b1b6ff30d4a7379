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
	"strconv"
	"strings"
	"time"

	"berth/broker"
)

// maxStreamLine limits one line of a stream that the client reads, in bytes: an
// event of the journal has 1 MiB at most, and JSON may write each byte in six.
const maxStreamLine = 8 << 20

// Events follows the stream of events from a cursor, or from now, and gives
// each to each. It returns nil when the broker ended the stream; whoever wants
// to go on begins again with the last cursor.
func (c *Client) Events(ctx context.Context, cursor string, each func(StreamEvent) error) error {
	query := url.Values{}
	if cursor != "" {
		query.Set("cursor", cursor)
	}
	return c.stream(ctx, "/api/v1/events/stream", query, func(_ string, data []byte) error {
		var e StreamEvent
		if err := json.Unmarshal(data, &e); err != nil {
			return fmt.Errorf("%w: an event of its stream cannot be read", ErrForeign)
		}
		return each(e)
	})
}

// ErrNotEnded is a followed log that the broker left off before the mission had
// ended.
var ErrNotEnded = errors.New("the broker ended the stream before the mission had ended")

// FollowLog gives the parts of a mission's log from a line on, counted from 0,
// and then each as it comes. It returns nil when the mission has ended, and
// [ErrNotEnded] when the stream was over before; whoever wants to go on begins
// again behind the last line.
func (c *Client) FollowLog(ctx context.Context, mission string, offset int, each func(FollowedLog) error) error {
	query := url.Values{"follow": {"true"}, "offset": {strconv.Itoa(offset)}}
	ended := false
	err := c.stream(ctx, "/api/v1/missions/"+url.PathEscape(mission)+"/log", query, func(kind string, data []byte) error {
		if kind == "refused" {
			refusal := &APIError{Status: http.StatusOK} // the stream had begun
			if err := json.Unmarshal(data, &struct {
				Error *string
				Code  *broker.Code
			}{&refusal.Message, &refusal.Code}); err != nil || refusal.Code == "" {
				return fmt.Errorf("%w: a refusal of its stream cannot be read", ErrForeign)
			}
			refusal.Data = bytes.Clone(data)
			return refusal
		}
		var part FollowedLog
		if err := json.Unmarshal(data, &part); err != nil {
			return fmt.Errorf("%w: a message of its stream cannot be read", ErrForeign)
		}
		ended = kind == "end"
		return each(part)
	})
	if err == nil && !ended {
		err = ErrNotEnded
	}
	return err
}

// stream reads server-sent events and gives the kind and the data of each. It
// returns nil when the broker ended the stream.
func (c *Client) stream(ctx context.Context, path string, query url.Values, each func(kind string, data []byte) error) error {
	if len(query) > 0 {
		path += "?" + query.Encode()
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
	kind := ""
	for lines.Scan() {
		if name, found := bytes.CutPrefix(lines.Bytes(), []byte("event: ")); found {
			kind = string(name)
			continue
		}
		data, found := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !found {
			continue // a comment, or the cursor, which stands in the data too
		}
		err := each(kind, data)
		kind = ""
		if err != nil {
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
