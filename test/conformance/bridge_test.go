package conformance

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"berth/transport/mcpserver"
)

// bridge runs `berth stdio` in front of the rig's broker. say writes to it, and
// hear gets each line that it writes.
func bridge(r *rig, profile string, hear func([]byte)) (say func(text string), end func()) {
	in, stdin := io.Pipe()
	stdout, out := io.Pipe()
	ended, read := make(chan struct{}), make(chan struct{})
	b := mcpserver.Bridge{Profile: profile, Transport: r.client.Transport,
		Discover: func() (string, string, error) { return "http://127.0.0.1:7420", token, nil }}
	go func() {
		defer close(ended)
		_ = b.Run(context.Background(), in, out, io.Discard)
		_ = out.Close()
	}()
	go func() {
		defer close(read)
		lines := bufio.NewReader(stdout)
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return
			}
			hear(line)
		}
	}()
	return func(text string) { _, _ = io.WriteString(stdin, text) }, func() {
		_ = stdin.Close()
		<-ended
		<-read
	}
}

// TestAMalformedLineIsAnsweredAndHarmsNobody writes what is no message to
// `berth stdio`, as clients of both eras do.
func TestAMalformedLineIsAnsweredAndHarmsNobody(t *testing.T) {
	for _, e := range []era{handshake, stateless} {
		t.Run(e.String(), func(t *testing.T) {
			h := newHeld()
			r, s := pair(t, pairing{overPipes, e, handshake}, &h.backend)
			defer r.close()
			heard := make(chan []byte, 16)
			say, end := bridge(r, "b", func(line []byte) { heard <- bytes.Clone(line) })
			defer end()
			if e == handshake {
				say(initializeLine + "\n")
				await(t, "the answer to initialize", heard)
			}
			call := func(id int, tool string) string {
				return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%s}`, id, s.params(fmt.Sprintf(`"name":%q`, tool)))
			}
			say(call(1000, "held") + "\n")
			await(t, "the held call to reach the backend", h.started)
			for i, tt := range malformed {
				if strings.Contains(tt.body, "\n") || strings.TrimSpace(tt.body) == "" {
					continue // several lines, or none
				}
				t.Run(tt.name, func(t *testing.T) {
					say(tt.body + "\n")
					say(call(2000+i, "t") + "\n")
					want := []string{fmt.Sprintf(`"id":%d,"result"`, 2000+i)}
					if tt.code != 0 {
						id := tt.id
						if id == "" {
							id = "null"
						}
						want = append(want, fmt.Sprintf(`"id":%s,"error":{"code":%d`, id, tt.code))
					}
					for range len(want) {
						line := await(t, "a line", heard)
						if !json.Valid(line) {
							t.Errorf("no JSON: %q", line)
						}
						for j, w := range want {
							if bytes.Contains(line, []byte(w)) {
								want = append(want[:j:j], want[j+1:]...)
								break
							}
						}
					}
					if len(want) > 0 {
						t.Errorf("nothing says %q", want)
					}
				})
			}
			h.release <- struct{}{}
			if line := await(t, "the held call's answer", heard); !bytes.Contains(line, []byte(`"id":1000,"result"`)) {
				t.Errorf("the call that was running: %s", line)
			}
		})
	}
}

// TestCharactersSplitOverWritesPassTheBridge writes a message byte by byte.
func TestCharactersSplitOverWritesPassTheBridge(t *testing.T) {
	for _, e := range []era{handshake, stateless} {
		t.Run(e.String(), func(t *testing.T) {
			m := newMirror()
			r, s := pair(t, pairing{overPipes, e, e}, &m.backend)
			defer r.close()
			m.set(`{"content":[{"type":"text","text":"é日本😀 \ud800"}]}`, "")
			heard := make(chan []byte, 16)
			stdin, end := bridge(r, "b", func(line []byte) { heard <- bytes.Clone(line) })
			defer end()
			params := s.params(`"name":"t","arguments":{"a":"é日本😀\udfff"}`)
			line := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":%s}`, params) + "\n"
			for i := range len(line) {
				stdin(line[i : i+1])
			}
			answer := await(t, "the answer", heard)
			var got message
			must(t, json.Unmarshal(answer, &got))
			p := pairing{overPipes, e, e}
			if err := same(p.completed("tools/call", []byte(m.result)), got.Result); err != nil {
				t.Errorf("result: %v: %s", err, answer)
			}
			if err := p.sameParams(params, m.got()); err != nil {
				t.Errorf("params: %v: %s", err, m.got())
			}
		})
	}
}

// TestTheBridgeCarriesTheSameJSON is the property of arguments and results for
// clients that speak over stdio.
func TestTheBridgeCarriesTheSameJSON(t *testing.T) {
	for _, e := range []era{handshake, stateless} {
		t.Run(e.String(), func(t *testing.T) {
			p := pairing{overHTTP, e, handshake}
			m := newMirror()
			r, s := pair(t, p, &m.backend)
			defer r.close()
			heard := make(chan []byte, 16)
			say, end := bridge(r, "b", func(line []byte) { heard <- bytes.Clone(line) })
			defer end()
			rapid.Check(t, func(t *rapid.T) {
				params := framed(overPipes, object(t, 3, `"name":"t"`, `"arguments":`+object(t, 4), `"_meta":`+object(t, 2, s.meta()...)))
				result := object(t, 4, `"content":[]`, `"structuredContent":`+value(t, 4))
				m.set(result, "")
				say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + params + "}\n")
				answer := await(s.rig.t, "the answer", heard)
				var got message
				if err := json.Unmarshal(answer, &got); err != nil {
					t.Fatalf("%v in %q", err, answer)
				}
				if err := p.sameParams([]byte(params), m.got()); err != nil {
					t.Errorf("params: %v\nsent     %s\nreceived %s", err, params, m.got())
				}
				if err := same(p.completed("tools/call", []byte(result)), got.Result); err != nil {
					t.Errorf("result: %v\nsent     %s\nreceived %s", err, result, answer)
				}
			})
		})
	}
}
