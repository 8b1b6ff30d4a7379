package httpguard

import (
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"

	"berth/broker"
)

// Recover turns a panic of next into one log line and a neutral 500. When the
// answer has begun, the connection is cut instead: half an answer must not
// look like a whole one.
func Recover(log *slog.Logger, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := &recorder{ResponseWriter: w}
		defer func() {
			v := recover()
			if v == nil {
				return
			}
			if v == http.ErrAbortHandler { // how a handler asks for the cut; net/http knows it
				panic(v)
			}
			log.Error("a request handler panicked", slog.String("method", r.Method), slog.String("path", r.URL.Path),
				slog.String("panic", fmt.Sprint(v)), slog.String("stack", string(debug.Stack())))
			if rec.begun {
				panic(http.ErrAbortHandler)
			}
			WriteError(w, http.StatusInternalServerError, "", broker.AsRefusal(fmt.Errorf("panic")))
		}()
		next.ServeHTTP(rec, r)
	})
}

// recorder notes whether an answer has begun.
type recorder struct {
	http.ResponseWriter
	begun bool
}

func (r *recorder) WriteHeader(status int) {
	r.begun = true
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(p []byte) (int, error) {
	r.begun = true
	return r.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController reach Flush and the deadlines.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// FlushError is what http.ResponseController asks for first; its error is how
// a handler learns that a client takes nothing.
func (r *recorder) FlushError() error {
	r.begun = true
	return http.NewResponseController(r.ResponseWriter).Flush()
}

// Flush serves handlers that assert http.Flusher.
func (r *recorder) Flush() { _ = r.FlushError() }
