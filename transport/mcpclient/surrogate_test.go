package mcpclient

import "testing"

// An escaped lone surrogate is JSON, so a name that holds one must not make a
// message unreadable: its call would wait for ever.
func TestANameWithALoneSurrogateIsANameLikeAnyOther(t *testing.T) {
	m, err := decodeMessage([]byte(`{"jsonrpc":"2.0","\ud800":1,"id":7,"result":{"x":"\udc00"}}`))
	if err != nil || string(m.id) != "7" || string(m.result) != `{"x":"\udc00"}` {
		t.Errorf("a response: %+v, %v", m, err)
	}
	params, err := withProgressToken([]byte(`{"\ud800":1,"_meta":{"\udfff":2}}`), []byte("5"))
	if want := `{"\ud800":1,"_meta":{"\udfff":2,"progressToken":5}}`; err != nil || string(params) != want {
		t.Errorf("params: %s, %v, want %s", params, err, want)
	}
}
