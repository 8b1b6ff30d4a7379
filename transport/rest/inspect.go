package rest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"

	"berth/broker"
	"berth/transport/httpguard"
)

// Inspect copies the journal and tells what is in it.
type Inspect interface {
	// Backup makes a verified archive. The caller closes it, which also
	// permits the next backup.
	Backup(ctx context.Context) (*Archive, error)
	// Dump writes every record and event as a line of JSON.
	Dump(ctx context.Context, w io.Writer, results bool) error
	// Explain gives a value that encodes to JSON.
	Explain(ctx context.Context, id string) (any, error)
}

// Archive is a backup on its way to who asked for it.
type Archive struct {
	io.ReadCloser
	Name string
	Size int64
}

func (a *api) backup(w http.ResponseWriter, r *http.Request) {
	if a.Inspect == nil {
		notFound(w, r)
		return
	}
	archive, err := a.Inspect.Backup(r.Context())
	if err != nil {
		a.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/zip")
	w.Header().Set("Content-Disposition", "attachment; filename="+archive.Name)
	w.Header().Set("Content-Length", strconv.FormatInt(archive.Size, 10))
	_, err = io.Copy(prompt{w}, archive)
	if err := errors.Join(err, archive.Close()); err != nil {
		a.Log.Warn("a backup was not delivered whole", slog.Any("error", err))
	}
}

func (a *api) dump(w http.ResponseWriter, r *http.Request) {
	if a.Inspect == nil {
		notFound(w, r)
		return
	}
	results, err := truth(r, "results")
	if err != nil {
		a.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	if err := a.Inspect.Dump(r.Context(), prompt{w}, results); err != nil {
		a.Log.Warn("a dump of the journal was not delivered whole", slog.Any("error", err))
		panic(http.ErrAbortHandler) // a status was sent: only a cut tells the reader
	}
}

func (a *api) explain(r *http.Request) (any, error) {
	if a.Inspect == nil {
		return nil, broker.Refuse(broker.CodeNotFound, "This broker has no journal to look at.", nil)
	}
	v, err := a.Inspect.Explain(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, fmt.Errorf("explain a job: %w", err)
	}
	return v, nil
}

// prompt gives each write a deadline of its own: a long answer goes on as long
// as its reader reads.
type prompt struct{ w http.ResponseWriter }

func (p prompt) Write(b []byte) (int, error) {
	httpguard.Deadline(p.w)
	return p.w.Write(b)
}
