package tracing

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// sender posts spans. It is a client of otlptrace; the library's own for HTTP
// brings all of gRPC into the program, and reads the environment.
type sender struct {
	endpoint string
	headers  http.Header
	client   *http.Client
}

const (
	tracesPath = "/v1/traces"
	maxAnswer  = 64 << 10 // that is read of a collector's answer
)

func newSender(endpoint string, headers map[string]string) (*sender, error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" {
		return nil, errors.New("the endpoint for traces is no URL")
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = tracesPath
	}
	s := &sender{endpoint: u.String(), headers: http.Header{}}
	for name, value := range headers {
		s.headers.Set(name, value)
	}
	s.headers.Set("Content-Type", "application/x-protobuf")
	s.client = &http.Client{
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConns: 1, MaxConnsPerHost: 1, IdleConnTimeout: time.Minute,
			TLSHandshakeTimeout: sendLimit, ResponseHeaderTimeout: sendLimit, MaxResponseHeaderBytes: maxAnswer},
		// A redirect would carry the configured headers to somebody else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return s, nil
}

// Start implements otlptrace.Client.
func (s *sender) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client.
func (s *sender) Stop(context.Context) error {
	s.client.CloseIdleConnections()
	return nil
}

// UploadTraces makes one request and no other. A TracesData is the same bytes
// as the service's ExportTraceServiceRequest. Errors show neither the endpoint
// nor what was answered.
func (s *sender) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil {
		return fmt.Errorf("encode spans: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.endpoint, bytes.NewReader(body))
	if err != nil {
		return errors.New("the request cannot be made")
	}
	req.Header = s.headers.Clone()
	resp, err := s.client.Do(req)
	if err != nil {
		var of *url.Error
		if errors.As(err, &of) {
			err = of.Err
		}
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxAnswer)) // so that the connection can be used again
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("the collector answered with HTTP %d", resp.StatusCode)
	}
	return nil
}
