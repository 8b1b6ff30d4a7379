package main

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// scrape reads the broker's metrics.
func (b *broker) scrape(ctx context.Context) (map[string]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+b.addr+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+b.token)
	req.Close = true // no connection is to stay: it would be memory of the broker
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("metrics: HTTP %d", resp.StatusCode)
	}
	values := map[string]float64{}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		at := strings.LastIndexByte(lines.Text(), ' ')
		if at < 0 || lines.Text()[0] == '#' {
			continue
		}
		if v, err := strconv.ParseFloat(lines.Text()[at+1:], 64); err == nil {
			values[lines.Text()[:at]] = v
		}
	}
	return values, lines.Err()
}

// await waits until all the named metrics together have a value.
func (b *broker) await(ctx context.Context, name string, value float64, more ...string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*startLimit)
	defer cancel()
	for {
		values, err := b.scrape(ctx)
		if err != nil {
			return fmt.Errorf("wait for %s: %w", name, err)
		}
		sum := values[name]
		for _, m := range more {
			sum += values[m]
		}
		if sum == value {
			return nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("wait for %s to be %g, it is %g: %w", name, value, sum, ctx.Err())
		}
	}
}
