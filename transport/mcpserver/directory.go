package mcpserver

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"berth/broker/catalog"
)

// The bounds of what is remembered of one backend's lists, and of links.
const (
	maxOffered = 10000
	maxLinks   = 10000
)

// directory remembers which backend offers what, so that in the merged profile a
// prompt or a resource reaches the one that listed it. A URI is its backend's
// and stays as it is; of two backends that list the same, the first in byte
// order has it. What tools link to need be in no list, so links are remembered
// with the backend that gave them.
type directory struct {
	mu    sync.Mutex
	at    map[string]*offered // by backend
	links map[string]string   // URI -> backend
	asked map[*offerKind]*asking
}

// asking is one time that the lists of a kind are asked for because something
// was not in them.
type asking struct {
	done chan struct{} // closed when they are there
	at   time.Time     // when that was
}

// offered is what one backend listed.
type offered struct {
	prompts   map[string]string // outward name -> its own
	resources map[string]bool   // URIs
	templates []string
}

// of gives a backend's part. The caller holds the lock.
func (d *directory) of(backend string) *offered {
	if d.at == nil {
		d.at, d.links = map[string]*offered{}, map[string]string{}
	}
	o := d.at[backend]
	if o == nil {
		o = &offered{}
		d.at[backend] = o
	}
	return o
}

// note replaces one of a backend's lists; names are prompts' own names, URIs or
// templates.
func (d *directory) note(backend string, kind *offerKind, names []string) {
	names = names[:min(len(names), maxOffered)]
	d.mu.Lock()
	defer d.mu.Unlock()
	o := d.of(backend)
	switch kind {
	case &promptsOffered:
		o.prompts = make(map[string]string, len(names))
		for _, name := range names {
			if outward := catalog.PromptName(backend, name); o.prompts[outward] == "" {
				o.prompts[outward] = name
			}
		}
	case &resourcesOffered:
		o.resources = make(map[string]bool, len(names))
		for _, uri := range names {
			o.resources[uri] = true
		}
	case &templatesOffered:
		o.templates = slices.Clone(names)
	}
}

// link notes that a tool of backend linked to uri. What was linked before is
// forgotten when there is too much of it.
func (d *directory) link(backend, uri string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.of(backend)
	if _, known := d.links[uri]; !known && len(d.links) >= maxLinks {
		clear(d.links)
	}
	d.links[uri] = backend
}

// prompt finds a prompt by its merged name among the backends of names, which
// are in byte order.
func (d *directory) prompt(names []string, outward string) (backend, own string, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, name := range names {
		if o := d.at[name]; o != nil {
			if own, ok = o.prompts[outward]; ok {
				return name, own, true
			}
		}
	}
	return "", "", false
}

// owner finds the backend of a URI, or of a template: who listed it, who linked
// to it, who lists a template that makes it.
func (d *directory) owner(names []string, uri string) (backend string, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, name := range names {
		if o := d.at[name]; o != nil && (o.resources[uri] || slices.Contains(o.templates, uri)) {
			return name, true
		}
	}
	if name, linked := d.links[uri]; linked && slices.Contains(names, name) {
		return name, true
	}
	for _, name := range names {
		o := d.at[name]
		if o != nil && slices.ContainsFunc(o.templates, func(t string) bool { return catalog.MatchesTemplate(t, uri) }) {
			return name, true
		}
	}
	return "", false
}

// fresh is how long lists are not asked for again because something is not in
// them, which a client could otherwise make us do without end.
const fresh = time.Second

// renew has ask read the lists of a kind, unless they were read just now; where
// somebody else is about to, it waits for that. A reading whose ctx ended is
// none, and the next in line reads for itself.
func (d *directory) renew(ctx context.Context, kind *offerKind, now func() time.Time, ask func()) {
	for ctx.Err() == nil {
		a, mine := d.turn(kind, now())
		switch {
		case a == nil:
			return
		case mine:
			defer d.turned(ctx, kind, a, now)
			ask()
			return
		}
		select {
		case <-a.done:
		case <-ctx.Done():
		}
	}
}

// turn gives the reading that is under way, or a new one that is the caller's;
// nil when the lists are fresh.
func (d *directory) turn(kind *offerKind, now time.Time) (a *asking, mine bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.asked == nil {
		d.asked = map[*offerKind]*asking{}
	}
	if a = d.asked[kind]; a != nil {
		if a.at.IsZero() {
			return a, false
		}
		if now.Sub(a.at) < fresh {
			return nil, false
		}
	}
	a = &asking{done: make(chan struct{})}
	d.asked[kind] = a
	return a, true
}

func (d *directory) turned(ctx context.Context, kind *offerKind, a *asking, now func() time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if a.at = now(); ctx.Err() != nil {
		delete(d.asked, kind)
	}
	close(a.done)
}

// prefixed gives the backend and the own name that a merged name spells out.
func prefixed(names []string, outward string) (backend, own string, ok bool) {
	for _, name := range names {
		if own, ok := strings.CutPrefix(outward, name+"__"); ok && own != "" {
			return name, own, true
		}
	}
	return "", "", false
}
