package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"berth/transport/httpguard"
)

// maxAnswer limits what the client reads of one answer, in bytes.
const maxAnswer = 256 << 20

// silence is how long the client waits for a byte. It is longer than the
// longest waitSeconds and than the white space before a call's answer.
const silence = 90 * time.Second

// ErrNotRunning is an address at which nothing listens.
var ErrNotRunning = errors.New("no broker answers at this address")

// ErrForeign is an answer that no broker of this API gives.
var ErrForeign = errors.New("what answers at this address is not a broker")

// APIError is an error body of the operator API.
type APIError struct {
	Status int
	httpguard.ErrorBody
}

func (e *APIError) Error() string { return string(e.Code) + ": " + e.Message }

// Client speaks the operator API to one broker. It is safe for concurrent use.
type Client struct {
	base  string
	token string
	http  *http.Client
}

// NewClient makes a client for the broker at base, such as
// http://127.0.0.1:7420. The token goes to that address only: no proxy is
// used and no redirect is followed.
func NewClient(base, token string) *Client {
	return &Client{base: strings.TrimSuffix(base, "/"), token: token, http: &http.Client{
		Transport: &http.Transport{
			DialContext:         (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
			TLSHandshakeTimeout: 5 * time.Second,
			IdleConnTimeout:     30 * time.Second,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close drops idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Get reads path, which may carry a query, and gives the answer as it came.
// ctx bounds the wait.
func (c *Client) Get(ctx context.Context, path string, query url.Values) (json.RawMessage, error) {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return c.do(ctx, http.MethodGet, path, nil)
}

// Post sends body as JSON to path; a nil body sends none.
func (c *Client) Post(ctx context.Context, path string, body any) (json.RawMessage, error) {
	if body == nil {
		return c.do(ctx, http.MethodPost, path, nil)
	}
	return c.do(ctx, http.MethodPost, path, bytes.NewReader(raw(body)))
}

// Delete deletes what path names, or ends it.
func (c *Client) Delete(ctx context.Context, path string) (json.RawMessage, error) {
	return c.do(ctx, http.MethodDelete, path, nil)
}

// Job reads one job; it waits up to wait (whole seconds, at most 50) for a
// change of its status.
func (c *Client) Job(ctx context.Context, id string, wait time.Duration) (json.RawMessage, error) {
	query := url.Values{}
	if wait >= time.Second {
		query.Set("waitSeconds", strconv.Itoa(int(wait.Seconds())))
	}
	return c.Get(ctx, "/api/v1/jobs/"+url.PathEscape(id), query)
}

// patience is how long the client waits for the first byte of a download,
// which the broker prepares and verifies before it sends anything.
const patience = 30 * time.Minute

// Download reads path and writes the answer to w as it comes. An answer that
// was cut is an error.
func (c *Client) Download(ctx context.Context, path string, query url.Values, w io.Writer) error {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watchdog := time.AfterFunc(patience, func() { cancel(fmt.Errorf("the broker sent nothing for too long")) })
	defer watchdog.Stop()
	resp, err := c.send(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body := &heard{resp.Body, watchdog}
	if resp.StatusCode == http.StatusOK {
		if _, err := io.Copy(w, body); err != nil {
			return fmt.Errorf("read the broker's answer: %w", causeOf(ctx, err))
		}
		return nil
	}
	answer, err := io.ReadAll(io.LimitReader(body, maxAnswer))
	if err != nil {
		return fmt.Errorf("read the broker's answer: %w", causeOf(ctx, err))
	}
	return refusedBy(resp.StatusCode, answer)
}

// PostPatiently is Post for what takes the broker long before it can answer.
func (c *Client) PostPatiently(ctx context.Context, path string, body any) (json.RawMessage, error) {
	return c.await(ctx, patience, http.MethodPost, path, bytes.NewReader(raw(body)))
}

func (c *Client) do(ctx context.Context, method, path string, body io.Reader) (json.RawMessage, error) {
	return c.await(ctx, silence, method, path, body)
}

// await waits for the first byte of an answer as long as it is told to.
func (c *Client) await(ctx context.Context, limit time.Duration, method, path string, body io.Reader) (json.RawMessage, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watchdog := time.AfterFunc(limit, func() { cancel(fmt.Errorf("the broker sent nothing for %s", limit)) })
	defer watchdog.Stop()
	resp, err := c.send(ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(&heard{resp.Body, watchdog}, maxAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("read the broker's answer: %w", causeOf(ctx, err))
	}
	if len(answer) > maxAnswer {
		return nil, fmt.Errorf("the broker's answer is over %d bytes", maxAnswer)
	}
	switch resp.StatusCode {
	case http.StatusOK, http.StatusCreated, http.StatusAccepted:
		if !json.Valid(answer) {
			return nil, fmt.Errorf("%w: its answer is not JSON", ErrForeign)
		}
		return bytes.TrimSpace(answer), nil
	}
	return nil, refusedBy(resp.StatusCode, answer)
}

func (c *Client) send(ctx context.Context, method, path string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, fmt.Errorf("a request to the broker: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if refusedConnection(err) {
			return nil, fmt.Errorf("%w (%s)", ErrNotRunning, c.base)
		}
		return nil, fmt.Errorf("ask the broker: %w", causeOf(ctx, err))
	}
	return resp, nil
}

// refusedBy is the error that an answer with another status than 200 holds.
func refusedBy(status int, answer []byte) error {
	failure := &APIError{Status: status}
	if json.Unmarshal(answer, &failure.ErrorBody) != nil || failure.Code == "" {
		return fmt.Errorf("%w: it answered with status %d", ErrForeign, status)
	}
	return failure
}

// refusedConnection reports that nothing listens: not one byte was sent.
func refusedConnection(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial" && errors.Is(err, syscall.ECONNREFUSED)
}

// heard is a body that puts the watchdog off with every byte.
type heard struct {
	io.Reader
	watchdog *time.Timer
}

func (h *heard) Read(p []byte) (int, error) {
	n, err := h.Reader.Read(p)
	h.watchdog.Reset(silence)
	return n, err
}

// causeOf is why a request ended, when that was not the network.
func causeOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}
