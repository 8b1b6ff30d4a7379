package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// echoTool is the one tool of both backends. Its schema is checked by Berth in
// the merged profile.
const echoTool = `{"name":"echo","description":"Gives the text back.","inputSchema":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]},"annotations":{"readOnlyHint":true}}`

// message is what the echo needs of a request.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name      string `json:"name"`
		Arguments struct {
			Text json.RawMessage `json:"text"`
		} `json:"arguments"`
	} `json:"params"`
}

// answer gives the response to one message, or nil for a notification.
func answer(dst []byte, raw []byte) (response []byte, m message, err error) {
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, m, err
	}
	if m.ID == nil {
		return nil, m, nil
	}
	dst = append(append(append(dst, `{"jsonrpc":"2.0","id":`...), m.ID...), ',')
	switch {
	case m.Method == "initialize":
		dst = append(dst, `"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"echo","version":"1"}}}`...)
	case m.Method == "tools/list":
		dst = append(append(append(dst, `"result":{"tools":[`...), echoTool...), `]}}`...)
	case m.Method == "ping":
		dst = append(dst, `"result":{}}`...)
	case m.Method == "tools/call" && m.Params.Name == "echo" && m.Params.Arguments.Text != nil:
		dst = append(append(append(dst, `"result":{"content":[{"type":"text","text":`...), m.Params.Arguments.Text...), `}]}}`...)
	default:
		dst = append(dst, `"error":{"code":-32601,"message":"unknown"}}`...)
	}
	return dst, m, nil
}

// sleptKey is where an echo with a service time says how long it took.
const sleptKey = `"bench/slept"`

// echoServer is the HTTP backend: a session for each initialize, JSON answers.
type echoServer struct {
	sessions sync.Map
	last     atomic.Int64
	buffers  sync.Pool
	service  time.Duration // of a call
}

// ServeHTTP implements http.Handler.
func (s *echoServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get("Mcp-Session-Id")
	if _, ok := s.sessions.Load(id); id != "" && !ok {
		http.Error(w, "no such session", http.StatusNotFound)
		return
	}
	if r.Method == http.MethodDelete {
		s.sessions.Delete(id)
		return
	}
	if r.Method != http.MethodPost {
		http.Error(w, "POST", http.StatusMethodNotAllowed)
		return
	}
	b := s.buffers.Get().(*[2][]byte)
	defer s.buffers.Put(b)
	body, err := readAll(b[0][:0], io.LimitReader(r.Body, 1<<20))
	b[0] = body
	if err != nil {
		http.Error(w, "body", http.StatusBadRequest)
		return
	}
	response, m, err := answer(b[1][:0], body)
	if err != nil {
		http.Error(w, "no JSON", http.StatusBadRequest)
		return
	}
	if response == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	b[1] = response
	if m.Method == "initialize" {
		id = strconv.FormatInt(s.last.Add(1), 10)
		s.sessions.Store(id, true)
		w.Header().Set("Mcp-Session-Id", id)
	} else if id == "" {
		http.Error(w, "session", http.StatusBadRequest)
		return
	}
	if m.Method == "tools/call" && s.service > 0 {
		slept := s.service/2 + rand.N(s.service)
		time.Sleep(slept)
		response = fmt.Appendf(bytes.TrimSuffix(response, []byte("}}")), `,"_meta":{%s:%d}}}`, sleptKey, slept.Nanoseconds())
		b[1] = response
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(response)))
	_, _ = w.Write(response) // a client that is gone needs no answer
}

// readAll is io.ReadAll into a buffer that is used again.
func readAll(dst []byte, r io.Reader) ([]byte, error) {
	for {
		if len(dst) == cap(dst) {
			dst = append(dst, 0)[:len(dst)]
		}
		n, err := r.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		if err == io.EOF {
			return dst, nil
		}
		if err != nil {
			return dst, err
		}
	}
}

func serveEcho(parent io.Reader, out io.Writer, service time.Duration) error {
	s := &echoServer{service: service, buffers: sync.Pool{New: func() any { return &[2][]byte{make([]byte, 0, 4096), make([]byte, 0, 4096)} }}}
	return serveUntil(parent, out, s)
}

// serveUntil serves on a port of its own, prints the address in one line and
// ends with its parent, whose end of the pipe it reads.
func serveUntil(parent io.Reader, out io.Writer, h http.Handler) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	if _, err := fmt.Fprintln(out, listener.Addr()); err != nil {
		return err
	}
	gone := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, parent) // its end is all that counts
		close(gone)
	}()
	select {
	case err := <-served:
		return err
	case <-gone:
		return server.Close()
	}
}

// echoLines is the stdio backend.
func echoLines(in io.Reader, out io.Writer) error {
	reader := bufio.NewReaderSize(in, 64<<10)
	writer := bufio.NewWriterSize(out, 64<<10)
	var response []byte
	for {
		line, err := reader.ReadSlice('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if response, _, err = answer(response[:0], line); err != nil {
			return err
		}
		if response == nil {
			continue
		}
		if _, err := writer.Write(append(response, '\n')); err != nil {
			return err
		}
		// What came together is answered together.
		if reader.Buffered() == 0 {
			if err := writer.Flush(); err != nil {
				return err
			}
		}
	}
}
