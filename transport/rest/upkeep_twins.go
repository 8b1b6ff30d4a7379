package rest

import (
	"log/slog"
	"mime"
	"net/http"

	"berth/broker"
)

// maxArchive leaves the limit of an archive's size to the guard (max_body): a
// larger one is restored by its path.
const maxArchive = 0

// restore has the verb restore an archive: one that is sent, or one that is
// named.
func (a *api) restore(r *http.Request) (answer any, err error) {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case err == nil && kind == "application/json":
		var body struct{ FilePath *string }
		if err := decode(r.Body, &body); err != nil {
			return nil, err
		}
		return a.twin(r, "restore", given(map[string]*string{"filePath": body.FilePath}))
	case err != nil || kind != "application/zip":
		return nil, &refused{status: http.StatusUnsupportedMediaType, refusal: broker.Refuse(broker.CodeInvalidArguments,
			"The body must be an archive (Content-Type application/zip), or {FilePath} of one on the broker's host (application/json).", nil)}
	case a.Uploads == nil:
		return nil, broker.Refuse(broker.CodeNotFound, "This broker takes no archives over the network.", nil)
	}
	path, remove, err := a.Uploads.Keep(r.Body, r.Header.Get("X-Original-Filename"))
	if err != nil {
		return nil, err
	}
	defer func() {
		if wrong := remove(); wrong != nil {
			a.Log.Warn("an archive that was sent could not be removed", slog.String("cause", wrong.Error()))
		}
	}()
	return a.twin(r, "restore", map[string]any{"filePath": path})
}

func (a *api) stopServer(r *http.Request) (any, error) {
	var body struct{}
	if err := decode(r.Body, &body); err != nil {
		return nil, err
	}
	return a.twin(r, "stop_server", map[string]any{})
}
