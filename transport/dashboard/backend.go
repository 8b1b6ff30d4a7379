package dashboard

import (
	"net/http"
	"net/url"

	"berth/broker"
	"berth/transport/rest"
)

// backend is the page of one backend, with what an operator can do to it.
func (d *Dashboard) backend(r *http.Request) (*page, error) {
	name := r.PathValue("name")
	var all rest.Page[rest.Backend]
	if err := d.get(r, "/api/v1/backends", nil, &all); err != nil {
		return nil, err
	}
	for _, b := range all.Objects {
		if b.Name != name {
			continue
		}
		data := d.backendRows([]rest.Backend{b})
		data["Backend"] = b
		if b.Draining != nil {
			data["Since"] = d.at(&b.Draining.SinceUTC)
		}
		return &page{Title: "Backend " + plain(name), At: "/", Parts: []part{
			{ID: "backend", Name: "backends", Live: true, Data: data},
			{ID: "drained", Name: "drained", Live: true, Status: true, Data: data},
			{ID: "change", Name: "backendchange", Live: true, Data: map[string]any{"Name": name, "Draining": b.Draining != nil, "CSRF": d.Guard.CSRF(r)}},
		}}, nil
	}
	return nil, &refusedError{http.StatusNotFound, broker.Refuse(broker.CodeNotFound, "There is no such backend.", nil)}
}

// changeBackend makes what drains, resumes or restarts a backend.
func changeBackend(what string) func(*Dashboard, *http.Request) (string, error) {
	return func(d *Dashboard, r *http.Request) (string, error) {
		name := url.PathEscape(r.PathValue("name"))
		return "/backends/" + name + "?done=backend-" + what,
			d.send(r, http.MethodPost, "/api/v1/backends/"+name+"/"+what, map[string]string{"Reason": r.PostForm.Get("reason")})
	}
}

func (d *Dashboard) revokeCredential(r *http.Request) (string, error) {
	return "/credentials?done=revoked", d.send(r, http.MethodPost, "/api/v1/credentials/"+url.PathEscape(r.PathValue("id"))+"/revoke", map[string]string{"Reason": r.PostForm.Get("reason")})
}
