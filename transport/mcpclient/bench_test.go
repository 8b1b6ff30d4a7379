package mcpclient

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"berth/broker"
)

const benchParams = `{"name":"echo","arguments":{"text":"a call of an ordinary size, which is a few hundred bytes at most","n":12345,"list":[1,2,3]}}`

func benchCalls(b *testing.B, c broker.Conn, callers int) {
	b.ReportAllocs()
	b.SetParallelism(max(1, callers/2)) // times GOMAXPROCS
	cl := call(benchParams)
	var failed atomic.Int64
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := c.Call(context.Background(), cl, broker.Peer{}); err != nil {
				failed.Add(1)
			}
		}
	})
	if n := failed.Load(); n > 0 {
		b.Fatalf("%d calls failed", n)
	}
}

func BenchmarkStdioEcho(b *testing.B) {
	for name, callers := range map[string]int{"1": 1, "16": 16, "64": 64} {
		b.Run(name, func(b *testing.B) {
			c, err := NewStdio(StdioConfig{Start: startProcess}, Options{}).Open(b.Context(), nil)
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close(context.Background())
			if callers == 1 {
				b.ReportAllocs()
				cl := call(benchParams)
				for b.Loop() {
					if _, err := c.Call(context.Background(), cl, broker.Peer{}); err != nil {
						b.Fatal(err)
					}
				}
				return
			}
			benchCalls(b, c, callers)
		})
	}
}

func BenchmarkHTTPEcho(b *testing.B) {
	for name, sse := range map[string]bool{"json": false, "events": true} {
		b.Run(name, func(b *testing.B) {
			u := &upstream{session: "s", introduction: plainIntroduction, sse: sse, seen: make(chan message)}
			u.script = func(w http.ResponseWriter, _ *http.Request, m message) { u.answer(w, m, string(m.params)) }
			u.Server = httptest.NewServer(u)
			defer u.Server.Close()
			c, err := NewHTTP(HTTPConfig{URL: u.URL}, Options{}).Open(b.Context(), nil)
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close(context.Background())
			benchCalls(b, c, 16)
		})
	}
}
