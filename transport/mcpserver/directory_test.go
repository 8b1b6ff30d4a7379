package mcpserver

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/broker/catalog"
)

func TestListsAreReadOnceForAllWhoWaitAndAgainWhenTheReaderLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d directory
		reads := 0
		slow := func(ctx context.Context) {
			d.renew(ctx, &promptsOffered, time.Now, func() {
				reads++
				select {
				case <-time.After(3 * time.Second):
				case <-ctx.Done():
				}
			})
		}
		leaving, leave := context.WithCancel(context.Background())
		go slow(leaving)
		synctest.Wait()
		for range 5 {
			go slow(context.Background())
		}
		synctest.Wait()
		if reads != 1 {
			t.Fatalf("%d reads while one is under way", reads)
		}
		leave()
		synctest.Wait()
		if reads != 2 {
			t.Fatalf("%d reads after the reader left", reads)
		}
		elapse(3 * time.Second)
		synctest.Wait()
		slow(context.Background()) // fresh
		if reads != 2 {
			t.Fatalf("%d reads of fresh lists", reads)
		}
		elapse(time.Second)
		slow(context.Background())
		if reads != 3 {
			t.Fatalf("%d reads of lists that are not fresh", reads)
		}
	})
}

func TestDirectoryIsBounded(t *testing.T) {
	var d directory
	names := make([]string, maxOffered+5)
	for i := range names {
		names[i] = fmt.Sprint("u", i)
	}
	d.note("b", &resourcesOffered, names)
	if _, ok := d.owner([]string{"b"}, names[maxOffered]); ok {
		t.Error("more is remembered than the bound")
	}
	for i := range maxLinks + 5 {
		d.link("b", fmt.Sprint("l", i))
	}
	if len(d.links) > maxLinks {
		t.Errorf("%d links", len(d.links))
	}
}

func TestACancelEndsAListThatIsPutTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBroker(t)
		b.set(t, nativeSource(), offering("stuck"))
		f := serve(t, b, nil)
		defer f.stop()
		session := f.token("", "c")
		began := time.Now()
		go func() {
			elapse(time.Second)
			resp, err := f.post(t.Context(), "/mcp", session, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
			if err == nil {
				_ = resp.Body.Close()
			}
		}()
		resp, err := f.post(t.Context(), "/mcp", session, `{"jsonrpc":"2.0","id":1,"method":"prompts/list"}`)
		if err != nil {
			t.Fatal(err)
		}
		if text := readAll(t, resp); strings.Contains(text, `"id"`) || time.Since(began) != time.Second {
			t.Errorf("after %v: %s", time.Since(began), text)
		}
	})
}

func TestACancelEndsACallThatWaitsForItsBackendToList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBroker(t, catalog.Source{Backend: "late"})
		f := serve(t, b, nil)
		defer f.stop()
		session := f.token("", "c")
		began := time.Now()
		go func() {
			elapse(time.Second)
			resp, err := f.post(t.Context(), "/mcp", session, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
			if err == nil {
				_ = resp.Body.Close()
			}
		}()
		resp, err := f.post(t.Context(), "/mcp", session, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"late__x"}}`)
		if err != nil {
			t.Fatal(err)
		}
		if text := readAll(t, resp); strings.Contains(text, `"id"`) || time.Since(began) != time.Second {
			t.Errorf("after %v: %s", time.Since(began), text)
		}
		if b.mu.Lock(); len(b.requests) > 0 {
			t.Errorf("the call went on: %+v", b.requests)
		}
		b.mu.Unlock()
	})
}

func TestAListThatNoBackendGivesIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBroker(t)
		b.set(t, nativeSource(), offering("stuck"))
		f := serve(t, b, nil)
		defer f.stop()
		resp, err := f.post(t.Context(), "/mcp", f.token("", "c"), `{"jsonrpc":"2.0","id":1,"method":"prompts/list"}`)
		if err != nil {
			t.Fatal(err)
		}
		if text := readAll(t, resp); !strings.Contains(text, `"backend_unavailable"`) || !strings.Contains(text, `"stuck"`) {
			t.Error(text)
		}
		b.set(t, nativeSource(), offering("stuck"), offering("one"))
		resp, err = f.post(t.Context(), "/mcp", f.token("", "c"), `{"jsonrpc":"2.0","id":2,"method":"prompts/list"}`)
		if err != nil {
			t.Fatal(err)
		}
		if text := readAll(t, resp); !strings.Contains(text, `"one__p"`) || !strings.Contains(text, `"berth/pending":["stuck"]`) {
			t.Error(text)
		}
	})
}

func readAll(t *testing.T, resp *http.Response) string {
	t.Helper()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return string(text)
}
