package native

import (
	"context"
	"errors"
	"slices"
	"testing"

	"berth/broker"
	"berth/broker/catalog"
)

// single is a family of one verb.
type single struct {
	name, family string
	failed       error
	closed       *[]string
}

func (s single) Source() catalog.Source {
	return catalog.Source{Backend: catalog.NativeName, Native: true, Family: s.family, Listed: true, Tools: []broker.Tool{{Name: s.name}},
		Effects: map[string]broker.Effects{s.name: broker.Write}, Facts: map[string]catalog.Facts{s.name: {Rank: 7}}, Aliases: map[string]string{"old_" + s.name: s.name},
		Control: []string{s.name}, Beside: []string{s.name}, Handlers: []string{s.name}, MergedOnly: []string{s.name}, Rules: catalog.Rules{Long: []string{s.name}}}
}

func (s single) Open(context.Context, broker.Hear) (broker.Conn, error) {
	if s.failed != nil {
		return nil, s.failed
	}
	return &oneConn{s, make(chan struct{})}, nil
}

type oneConn struct {
	single
	done chan struct{}
}

func (c *oneConn) Incarnation() broker.Incarnation {
	return broker.Incarnation{RuntimeID: "of-" + c.name, Tools: c.Source().Tools, Done: c.done}
}

func (c *oneConn) List(context.Context) ([]broker.Tool, []string, error) {
	return c.Source().Tools, nil, nil
}

func (c *oneConn) Call(context.Context, *broker.Call, broker.Peer) (broker.Answer, error) {
	return broker.Answer{RuntimeID: "of-" + c.name}, nil
}

func (c *oneConn) Close(context.Context) error {
	*c.closed = append(*c.closed, c.name)
	return nil
}

// TestJoinedFamiliesAreOneBackend: one source with everything of each, one life,
// and each call goes to the family of its verb.
func TestJoinedFamiliesAreOneBackend(t *testing.T) {
	var closed []string
	a, b := single{name: "a", family: "first", closed: &closed}, single{name: "b", family: "second", closed: &closed}
	joined := Join(a, b)
	s := joined.Source()
	both := []string{"a", "b"}
	for what, got := range map[string][]string{"control": s.Control, "beside": s.Beside, "handlers": s.Handlers, "merged only": s.MergedOnly, "long": s.Rules.Long} {
		if !slices.Equal(got, both) {
			t.Errorf("%s: %q", what, got)
		}
	}
	if len(s.Tools) != 2 || s.Effects["a"] != broker.Write || s.Effects["b"] != broker.Write || s.Aliases["old_b"] != "b" || s.Family != "first" ||
		s.Facts["b"].Family != "second" || s.Facts["b"].Rank != 7 || s.Facts["a"].Family != "" {
		t.Errorf("%+v", s)
	}
	if facts := b.Source().Facts["b"]; facts.Family != "" {
		t.Error("joining changed a family's own source")
	}
	conn, err := joined.Open(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if inc := conn.Incarnation(); inc.RuntimeID != "of-a" || len(inc.Tools) != 2 {
		t.Errorf("%+v", inc)
	}
	if tools, _, err := conn.List(t.Context()); err != nil || len(tools) != 2 {
		t.Errorf("%v %v", tools, err)
	}
	for _, name := range both {
		answer, err := conn.Call(t.Context(), &broker.Call{Params: []byte(`{"name":"` + name + `"}`)}, broker.Peer{})
		if err != nil || answer.RuntimeID != "of-"+name {
			t.Errorf("%s: %+v %v", name, answer, err)
		}
	}
	var failure *broker.Failure
	for _, params := range []string{`{"name":"c"}`, `{"name":"old_a"}`, `7`} {
		if _, err := conn.Call(t.Context(), &broker.Call{Params: []byte(params)}, broker.Peer{}); !errors.As(err, &failure) || failure.Dispatched || failure.Refusal.Code != broker.CodeVerbUnknown {
			t.Errorf("%s: %v", params, err)
		}
	}
	if err := errors.Join(conn.Close(t.Context()), conn.Close(t.Context())); err != nil || !slices.Equal(closed, both) {
		t.Errorf("closed %q, %v", closed, err)
	}
	select {
	case <-conn.Incarnation().Done:
	default:
		t.Error("the life goes on after its end")
	}
}

// TestAFamilyThatDoesNotOpenLeavesNoneOpen.
func TestAFamilyThatDoesNotOpenLeavesNoneOpen(t *testing.T) {
	var closed []string
	no := errors.New("no")
	if _, err := Join(single{name: "a", closed: &closed}, single{name: "b", failed: no, closed: &closed}).Open(t.Context(), nil); !errors.Is(err, no) || !slices.Equal(closed, []string{"a"}) {
		t.Errorf("%v, closed %q", err, closed)
	}
}
