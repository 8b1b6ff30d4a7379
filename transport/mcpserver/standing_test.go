package mcpserver

import (
	"context"

	"berth/actors"
)

// standing is the fake's part of what goes on after a request. Notices come
// from a real hub, by way of a System that was never started.
type standing struct {
	sys actors.System
}

func (s *standing) Listen(wants func(actors.Notice) bool) *actors.Listener {
	return s.sys.Listen(wants)
}

func (s *standing) publish(n actors.Notice) { s.sys.Publish(n) }

func (b *fakeBroker) Subscribe(ctx context.Context, holder, uri string, req actors.Request) actors.Reply {
	b.keep(holder, uri, true)
	return b.Do(ctx, req)
}

func (b *fakeBroker) Unsubscribe(ctx context.Context, holder, uri string, req actors.Request) actors.Reply {
	b.keep(holder, uri, false)
	return b.Do(ctx, req)
}

func (b *fakeBroker) SetLevel(ctx context.Context, holder, level string, req actors.Request) actors.Reply {
	b.mu.Lock()
	b.levels[holder] = level
	b.mu.Unlock()
	return b.Do(ctx, req)
}

func (b *fakeBroker) KeepLevel(_ context.Context, holder string, _ []string, level string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.levels[holder] = level
}

func (b *fakeBroker) keep(holder, uri string, on bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.subscribed[holder+" "+uri] = on
}

func (b *fakeBroker) Subscribed(_, uri, holder string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.subscribed[holder+" "+uri]
}

// Level of the fake knows two levels: debug lets everything through, any other
// only itself.
func (b *fakeBroker) Level(_, level, holder string) (wanted, said bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	set, said := b.levels[holder]
	return set == "debug" || set == level, said
}

func (b *fakeBroker) Forget(holder string) {}
