package jsonrpc

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestObjectKeepsWhatIsNotTouched(t *testing.T) {
	const source = "{ \"a\" : 1.0 ,\n\"\\u0062\":{ \"x\":[ ] },\"c\":\"\\u00e9\", \"a\":2}"
	for _, tt := range []struct {
		name   string
		change func(*Object)
		want   string
	}{
		{"nothing", func(*Object) {}, source},
		{"delete of what is not there", func(o *Object) { o.Delete("zz") }, source},
		{"delete by decoded name", func(o *Object) { o.Delete("b") }, `{"a":1.0,"c":"\u00e9","a":2}`},
		{"delete takes repetitions", func(o *Object) { o.Delete("a") }, `{"\u0062":{ "x":[ ] },"c":"\u00e9"}`},
		{"set keeps the place and one of the repetitions", func(o *Object) { o.Set("a", []byte("7")) }, `{"a":7,"\u0062":{ "x":[ ] },"c":"\u00e9"}`},
		{"set appends", func(o *Object) { o.Delete("a"); o.Delete("b"); o.Set("new\n", []byte("null")) }, `{"c":"\u00e9","new\n":null}`},
		{"all deleted", func(o *Object) { o.DeleteFunc(func(string) bool { return true }) }, `{}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o, err := ParseObject([]byte(source))
			if err != nil {
				t.Fatal(err)
			}
			tt.change(o)
			if got := string(o.Append([]byte("x"))); got != "x"+tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			if got := string(o.Bytes()); got != tt.want {
				t.Errorf("Bytes gives %s", got)
			}
		})
	}
}

// The edits are checked against the list of members that the object was
// written from: every other member keeps its bytes and its place.
func TestObjectEditsKeepEveryOtherMember(t *testing.T) {
	names := []string{`"k"`, `"a"`, `"b"`, `"\u006b"`, `"_meta"`, `"é"`}
	values := []string{`1`, `12345678901234567890`, `"}"`, `"\""`, `{"k":{}}`, `[ 1 , {"k":2}]`, `null`, `1.50e+3`, `""`}
	blank := rapid.SampledFrom([]string{"", " ", "\n\t"})
	rapid.Check(t, func(t *rapid.T) {
		var written, kept, set []string
		found := false
		for range rapid.IntRange(0, 6).Draw(t, "members") {
			name, value := rapid.SampledFrom(names).Draw(t, "name"), rapid.SampledFrom(values).Draw(t, "value")
			written = append(written, blank.Draw(t, "b")+name+blank.Draw(t, "b")+":"+blank.Draw(t, "b")+value+blank.Draw(t, "b"))
			switch isK := name == `"k"` || name == `"\u006b"`; {
			case !isK:
				kept, set = append(kept, name+":"+value), append(set, name+":"+value)
			case !found:
				found, set = true, append(set, name+`:"new"`)
			}
		}
		source := "{" + strings.Join(written, ",") + blank.Draw(t, "b") + "}"
		o, err := ParseObject([]byte(source))
		if err != nil {
			t.Fatal(err)
		}
		want := source
		if had := o.Delete("k"); had {
			want = "{" + strings.Join(kept, ",") + "}"
		}
		if got := string(o.Bytes()); got != want {
			t.Fatalf("without: %s; want %s", got, want)
		}
		if o, err = ParseObject([]byte(source)); err != nil {
			t.Fatal(err)
		}
		if o.Set("k", []byte(`"new"`)); !found {
			set = append(set, `"k":"new"`)
		}
		if got, want := string(o.Bytes()), "{"+strings.Join(set, ",")+"}"; got != want {
			t.Fatalf("with: %s; want %s", got, want)
		}
		if text, ok := o.Text("k"); !ok || text != "new" {
			t.Fatalf("with, then read: %q", text)
		}
	})
}

func TestObjectReadsTheLastRepetition(t *testing.T) {
	o, err := ParseObject([]byte(`{"a":1,"\u0061":"2"}`))
	if err != nil {
		t.Fatal(err)
	}
	if v, ok := o.Get("a"); !ok || string(v) != `"2"` {
		t.Errorf("got %s", v)
	}
	if text, ok := o.Text("a"); !ok || text != "2" {
		t.Errorf("got %q", text)
	}
	if n, again := o.Repeated(); !again || n != "a" {
		t.Errorf("the repetition was not seen: %q", n)
	}
	if _, ok := o.Get("b"); ok {
		t.Error("found what is not there")
	}
}

func TestObjectFindsRepetitionsInLargeObjects(t *testing.T) {
	var b strings.Builder
	for i := range 500 {
		fmt.Fprintf(&b, `"k%d":0,`, i)
	}
	for _, tt := range []struct {
		last string
		want bool
	}{{"k3", true}, {"k499", true}, {"other", false}} {
		o, err := ParseObject([]byte(`{` + b.String() + `"` + tt.last + `":1}`))
		if err != nil {
			t.Fatal(err)
		}
		if name, again := o.Repeated(); again != tt.want || again && name != tt.last {
			t.Errorf("%s: %q %v", tt.last, name, again)
		}
	}
}

func TestParseObjectRefusesOtherJSON(t *testing.T) {
	for _, in := range []string{``, `[]`, `"{}"`, `null`, `{`, `{} {}`, `{"a"}`, "{\"a\":\"\xff\"}", `{"a":1,}`} {
		if o, err := ParseObject([]byte(in)); err == nil {
			t.Errorf("%q was read as %v", in, o.Members())
		}
	}
}

func TestNamesWithDifferentLoneSurrogatesAreDifferent(t *testing.T) {
	o, err := ParseObject([]byte(`{"\ud800":1,"\udfff":2,"\ufffd":3,"a":4}`))
	if err != nil {
		t.Fatal(err)
	}
	if name, again := o.Repeated(); again {
		t.Errorf("%q counts as repeated", name)
	}
	if raw, ok := o.Get("\ufffd"); !ok || string(raw) != "3" {
		t.Errorf("U+FFFD is %s", raw)
	}
}
