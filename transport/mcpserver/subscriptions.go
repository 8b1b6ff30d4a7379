package mcpserver

import (
	"context"
	"encoding/json"
	"slices"
	"sync/atomic"
	"time"

	"berth/actors"
	"berth/broker"
	"berth/transport/httpguard"
	"berth/transport/jsonrpc"
)

// subscriptions/listen is how a client of the stateless era hears what is not
// part of an answer: a request that stays open, whose stream begins with what
// was agreed, carries the client's choice of notifications, each with the id of
// the request, and ends with a result when the broker stops.

const acknowledged = "notifications/subscriptions/acknowledged"

// maxListenURIs bounds the resources of one stream.
const maxListenURIs = 512

// subscribeLimit is how long backends may take to answer subscriptions before
// the stream begins without what is not answered.
const subscribeLimit = 10 * time.Second

// wish is what a client wants to hear.
type wish struct {
	tools, prompts, resources bool
	uris                      []string
	tasks                     []string
}

func (w *wish) empty() bool {
	return !w.tools && !w.prompts && !w.resources && len(w.uris) == 0 && len(w.tasks) == 0
}

// readWish reads params.notifications. What it does not know it passes over: the
// acknowledgement says what was understood.
func readWish(params *jsonrpc.Object) (w wish, problem string) {
	raw, ok := params.Get("notifications")
	if !ok {
		return w, `"notifications" is missing`
	}
	o, err := jsonrpc.ParseObject(raw)
	if err != nil {
		return w, `"notifications" must be an object`
	}
	for name, flag := range map[string]*bool{"toolsListChanged": &w.tools, "promptsListChanged": &w.prompts, "resourcesListChanged": &w.resources} {
		if raw, ok := o.Get(name); ok && json.Unmarshal(raw, flag) != nil {
			return w, "notifications." + name + " must be true or false"
		}
	}
	for name, list := range map[string]*[]string{"resourceSubscriptions": &w.uris, "taskIds": &w.tasks} {
		if raw, ok := o.Get(name); ok && json.Unmarshal(raw, list) != nil {
			return w, "notifications." + name + " must be an array of strings"
		}
		slices.Sort(*list)
		if *list = slices.Compact(*list); len(*list) > maxListenURIs {
			return w, "notifications." + name + " has more entries than one stream takes"
		}
	}
	return w, ""
}

// agreed is a wish as the acknowledgement says it.
func (w *wish) agreed() json.RawMessage {
	raw, _ := json.Marshal(struct { // these cannot fail to encode
		Tools     bool     `json:"toolsListChanged,omitempty"`
		Prompts   bool     `json:"promptsListChanged,omitempty"`
		Resources bool     `json:"resourcesListChanged,omitempty"`
		URIs      []string `json:"resourceSubscriptions,omitempty"`
		Tasks     []string `json:"taskIds,omitempty"`
	}{w.tools, w.prompts, w.resources, w.uris, w.tasks})
	return raw
}

// subscribe answers subscriptions/listen.
func (s *Server) subscribe(rq *request) {
	w, problem := readWish(rq.asker.params)
	if problem != "" {
		rq.fail(jsonrpc.CodeInvalidParams, problem, nil)
		return
	}
	if len(w.tasks) > 0 && rq.taskForm() != extensionTasks {
		rq.fail(codeMissingCapability, sayTasks, needTasks)
		return
	}
	if !rq.accept.stream {
		rq.fail(jsonrpc.CodeInvalidRequest, "The answer to subscriptions/listen is a stream; accept text/event-stream.", nil)
		return
	}
	holder := "listen_" + s.callID()
	e, refusal := s.listeners.begin(holder)
	if refusal != nil {
		rq.refuse(refusal)
		return
	}
	defer s.listeners.leave(e)
	defer s.opts.Broker.Forget(holder)
	sub := &subscription{s: s, rq: rq, ear: e, holder: holder, wish: w, x: exchange{rq: rq}, due: map[string]bool{}, told: map[string]string{}, mark: mark(rq.msg.ID)}
	// Heard before anything is agreed, so that nothing falls in between.
	notices := s.opts.Broker.Listen(sub.wants)
	defer notices.Close()
	if sub.x.begin() != nil {
		return
	}
	sub.serve(notices)
}

// subscription is one stream that is being served. It belongs to its handler's
// goroutine, save wants.
type subscription struct {
	s      *Server
	rq     *request
	ear    *ear
	holder string
	wish   wish
	x      exchange
	due    map[string]bool // changes of lists that settle
	last   time.Time       // when a change of the list of tools was last told of
	digest string          // of the list of tools that the client can know
	mark   json.RawMessage // `_meta` of everything on this stream

	tasks atomic.Pointer[map[string]bool] // agreed ones; read by wants
	told  map[string]string               // state of each task that was told last
}

// mark is the `_meta` that names the request of a stream.
func mark(id json.RawMessage) json.RawMessage {
	return append(append(append([]byte("{"), jsonrpc.Quote(metaSubscription)...), ':'), append(id[:len(id):len(id)], '}')...)
}

// wants keeps out what is of other sessions' instances or of backends outside
// the profile.
func (sub *subscription) wants(n actors.Notice) bool {
	switch n.Method {
	case actors.CatalogChanged:
		return true
	case actors.TaskChanged:
		return sub.tells(n)
	}
	return n.Session == "" && (sub.rq.backend == "" || n.Backend == sub.rq.backend)
}

func (sub *subscription) serve(notices *actors.Listener) {
	ctx, done := httpguard.Until(sub.rq.r.Context(), sub.rq.caller)
	defer done()
	refusal := sub.agree(ctx)
	if refusal != nil {
		if sub.x.event(refusalError(sub.rq.msg.ID, refusal)) == nil {
			sub.rq.endDeadline()
		}
		return
	}
	params := append(append(append(append([]byte(`{"_meta":`), sub.mark...), `,"notifications":`...), sub.wish.agreed()...), '}')
	if sub.x.event(jsonrpc.AppendNotification(nil, acknowledged, params)) != nil {
		return
	}
	if sub.sendTasks(sub.wish.tasks) != nil {
		return
	}
	if !sub.wish.empty() && !sub.run(notices) {
		return
	}
	result := append(append([]byte(`{"resultType":"complete","_meta":`), sub.mark...), '}')
	if sub.x.event(jsonrpc.AppendResult(nil, sub.rq.msg.ID, result)) == nil {
		sub.rq.endDeadline()
	}
}

// agree takes out of the wish what this profile does not tell, and asks the
// backends for the resources.
func (sub *subscription) agree(ctx context.Context) *broker.Refusal {
	s, rq, w := sub.s, sub.rq, &sub.wish
	capabilities, refusal := s.capabilitiesOf(ctx, rq)
	if refusal != nil {
		return refusal
	}
	w.tools = w.tools && declares(capabilities, "tools", "listChanged")
	w.prompts = w.prompts && declares(capabilities, "prompts", "listChanged")
	w.resources = w.resources && declares(capabilities, "resources", "listChanged")
	if !declares(capabilities, "resources", "subscribe") {
		w.uris = nil
	}
	ctx, cancel := context.WithTimeout(ctx, subscribeLimit)
	defer cancel()
	w.uris = slices.DeleteFunc(w.uris, func(uri string) bool { return !sub.resource(ctx, uri) })
	sub.agreeTasks()
	if profile, ok := s.profile(rq); ok {
		sub.digest = profile.Digest()
	}
	return nil
}

// resource reports whether the owner of a resource will tell of it.
func (sub *subscription) resource(ctx context.Context, uri string) bool {
	backend, ok := sub.s.ownerOf(ctx, &sub.x, uri)
	if !ok {
		return false
	}
	call := &broker.Call{
		ID: sub.s.callID(), Principal: sub.rq.principal, Backend: backend, Verb: backend + " resources/subscribe", Seats: 1,
		Method: "resources/subscribe", Params: append(append([]byte(`{"uri":`), jsonrpc.Quote(uri)...), '}'),
		Effects: broker.Session, Lane: broker.LaneControl, Client: sub.rq.client,
	}
	reply := sub.s.opts.Broker.Subscribe(ctx, sub.holder, uri, actors.Request{Call: call, DropCancels: true})
	return reply.Answer != nil && reply.Answer.Error == nil
}

// run carries notifications until the client leaves; it is true when the stream
// has to end with its result.
func (sub *subscription) run(notices *actors.Listener) bool {
	beat := time.NewTicker(sub.s.opts.Limits.KeepAlive)
	defer beat.Stop()
	settled := time.NewTimer(settle)
	settled.Stop()
	defer settled.Stop()
	for {
		var err error
		select {
		case <-sub.rq.r.Context().Done():
			return false
		case <-sub.rq.gone():
			return true
		case <-sub.ear.over:
			return true
		case <-beat.C:
			err = sub.x.write(comment)
		case <-notices.Signal():
			waiting := len(sub.due)
			err = sub.take(notices)
			if waiting == 0 && len(sub.due) > 0 {
				settled.Reset(pause(sub.s.opts.Now(), sub.last))
			}
		case <-settled.C:
			err = sub.sendDue()
		}
		if err != nil {
			return false
		}
	}
}

func (sub *subscription) take(notices *actors.Listener) error {
	all, missed := notices.Take()
	if missed { // what it was is not known, so everything may have changed
		sub.due[toolsChanged], sub.due[promptsChanged], sub.due[resourcesChanged] = true, true, true
		if err := sub.sendTasks(sub.wish.tasks); err != nil {
			return err
		}
		for _, uri := range sub.wish.uris {
			params := append(append([]byte(`{"uri":`), jsonrpc.Quote(uri)...), '}')
			if err := sub.send(resourceUpdated, params); err != nil {
				return err
			}
		}
	}
	for _, n := range all {
		switch n.Method {
		case actors.CatalogChanged:
			sub.due[toolsChanged] = true
		case promptsChanged, resourcesChanged:
			sub.due[n.Method] = true
		case actors.TaskChanged:
			id, _ := textOf(n.Params, "taskId")
			if err := sub.sendTasks([]string{id}); err != nil {
				return err
			}
		default:
			if !sub.passes(n) {
				continue
			}
			if err := sub.send(n.Method, n.Params); err != nil {
				return err
			}
		}
	}
	return nil
}

// passes judges a notice. Log messages belong to requests in this era.
func (sub *subscription) passes(n actors.Notice) bool {
	uri, ok := textOf(n.Params, "uri")
	return ok && n.Method == resourceUpdated && sub.s.opts.Broker.Subscribed(n.Backend, uri, sub.holder)
}

func (sub *subscription) sendDue() error {
	for _, change := range []struct {
		method string
		wanted bool
	}{{toolsChanged, sub.wish.tools}, {promptsChanged, sub.wish.prompts}, {resourcesChanged, sub.wish.resources}} {
		due := sub.due[change.method]
		delete(sub.due, change.method)
		if !due || !change.wanted || change.method == toolsChanged && !sub.toolsDiffer() {
			continue
		}
		if change.method == toolsChanged {
			sub.last = sub.s.opts.Now()
		}
		if err := sub.send(change.method, nil); err != nil {
			return err
		}
	}
	return nil
}

// toolsDiffer reports, once, that another list is served than the client knows.
func (sub *subscription) toolsDiffer() bool {
	profile, ok := sub.s.profile(sub.rq)
	if !ok || profile.Digest() == sub.digest {
		return false
	}
	sub.digest = profile.Digest()
	return true
}

// send writes one notification with the id of this stream.
func (sub *subscription) send(method string, params json.RawMessage) error {
	return sub.x.event(jsonrpc.AppendNotification(nil, method, marked(params, sub.mark)))
}

// marked puts the id of a stream into the `_meta` of params.
func marked(params, mark json.RawMessage) json.RawMessage {
	own, _ := jsonrpc.ParseObject(mark)
	o, err := jsonrpc.ParseObject(params)
	if err != nil {
		o, _ = jsonrpc.ParseObject([]byte("{}"))
	}
	raw, _ := o.Get("_meta")
	meta, err := jsonrpc.ParseObject(raw)
	if err != nil {
		meta = own
	}
	for _, m := range own.Members() {
		meta.Set(m.Name, m.Value)
	}
	o.Set("_meta", meta.Bytes())
	return o.Bytes()
}

// capabilitiesOf is what a profile can do, as discover says it.
func (s *Server) capabilitiesOf(ctx context.Context, rq *request) (json.RawMessage, *broker.Refusal) {
	ses := &session{profile: rq.profile, version: rq.client.Version}
	if rq.backend == "" {
		return s.ownServer(rq, ses).Capabilities, nil
	}
	server, refusal := s.exactServer(ctx, rq, ses)
	return server.Capabilities, refusal
}

// ownerOf finds the backend of a resource.
func (s *Server) ownerOf(ctx context.Context, x *exchange, uri string) (backend string, ok bool) {
	if x.rq.backend != "" {
		return x.rq.backend, true
	}
	return s.findResource(ctx, x, uri)
}
