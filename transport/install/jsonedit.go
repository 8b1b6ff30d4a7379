package install

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// jsonObject is a JSON object that keeps its order. Values are raw.
type jsonObject struct{ members []jsonMember }

type jsonMember struct {
	key        string
	value      jsontext.Value
	keyStart   int // offset of the key in the text that was parsed
	start, end int // of the value
}

func (o *jsonObject) index(key string) int {
	return slices.IndexFunc(o.members, func(m jsonMember) bool { return m.key == key })
}

func (o *jsonObject) get(key string) (jsontext.Value, bool) {
	if i := o.index(key); i >= 0 {
		return o.members[i].value, true
	}
	return nil, false
}

func (o *jsonObject) set(key string, value jsontext.Value) {
	if i := o.index(key); i >= 0 {
		o.members[i].value = value
		return
	}
	o.members = append(o.members, jsonMember{key: key, value: value})
}

func (o *jsonObject) remove(key string) {
	o.members = slices.DeleteFunc(o.members, func(m jsonMember) bool { return m.key == key })
}

func (o *jsonObject) removeOtherCase(key string) {
	o.members = slices.DeleteFunc(o.members, func(m jsonMember) bool { return strings.EqualFold(m.key, key) && m.key != key })
}

func (o jsonObject) raw() jsontext.Value {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range o.members {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(jsonText(m.key))
		b.WriteByte(':')
		b.Write(m.value)
	}
	b.WriteByte('}')
	return b.Bytes()
}

// jsonText encodes a string; text that is not UTF-8 is made so.
func jsonText(s string) jsontext.Value {
	b, err := jsontext.AppendQuote(nil, s)
	if err != nil {
		b, _ = jsontext.AppendQuote(nil, strings.ToValidUTF8(s, "\uFFFD"))
	}
	return b
}

func jsonTexts(list []string) jsontext.Value {
	parts := make([][]byte, len(list))
	for i, s := range list {
		parts[i] = jsonText(s)
	}
	return slices.Concat([]byte("["), bytes.Join(parts, []byte(",")), []byte("]"))
}

var errNotObject = errors.New("is not an object")

// parseObject reads one object with the places of its members. text may have
// white space around it and nothing else.
func parseObject(text []byte) (jsonObject, error) {
	dec := jsontext.NewDecoder(bytes.NewReader(text))
	if dec.PeekKind() != '{' {
		if _, err := dec.ReadValue(); err != nil {
			return jsonObject{}, err
		}
		return jsonObject{}, errNotObject
	}
	if _, err := dec.ReadToken(); err != nil {
		return jsonObject{}, err
	}
	var o jsonObject
	for dec.PeekKind() != '}' {
		key, err := dec.ReadToken()
		if err != nil {
			return jsonObject{}, err
		}
		m := jsonMember{key: key.String()}
		afterKey := int(dec.InputOffset())
		m.keyStart = keyStart(text, afterKey)
		value, err := dec.ReadValue()
		if err != nil {
			return jsonObject{}, err
		}
		m.value = value.Clone()
		m.end = int(dec.InputOffset())
		m.start = m.end - len(value)
		o.members = append(o.members, m)
	}
	if _, err := dec.ReadToken(); err != nil {
		return jsonObject{}, err
	}
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return jsonObject{}, errors.New("there is more text after the end of the object")
	}
	return o, nil
}

// keyStart finds the quote that opens the key which ends at end.
func keyStart(text []byte, end int) int {
	for i := end - 2; i >= 0; i-- {
		if text[i] != '"' {
			continue
		}
		slashes := 0
		for j := i - 1; j >= 0 && text[j] == '\\'; j-- {
			slashes++
		}
		if slashes%2 == 0 {
			return i
		}
	}
	return 0
}

// jsonForm is how a client writes its servers.
type jsonForm struct {
	holder   string   // the key that holds them
	nested   string   // a key below it that holds them where it is an object; empty: none
	ways     []string // the keys of an entry that decide how it is reached
	comments bool     // the client reads JSON with comments
	// local and remote are keys of an entry that a client refuses beside the other
	// way to connect.
	local, remote []string
}

// splice is one replacement in a text.
type splice struct {
	from, to int
	text     []byte
}

func spliced(body []byte, edits []splice) []byte {
	var out []byte
	at := 0
	for _, e := range edits { // in the order of the text
		out = append(append(out, body[at:e.from]...), e.text...)
		at = e.to
	}
	return append(out, body[at:]...)
}

// edit gives old with our entry in its place. Empty text becomes a new file. When
// nothing has to change the result is old itself.
func (f jsonForm) edit(old []byte, ours jsonObject) ([]byte, error) {
	text := bytes.TrimPrefix(old, []byte("\xef\xbb\xbf"))
	bom := old[:len(old)-len(text)]
	if len(bytes.TrimSpace(text)) == 0 {
		text := layout{unit: "  ", newline: "\n"}.render(jsontext.Value(`{"`+f.holder+`":{"`+entryName+`":`+string(ours.raw())+`}}`), "")
		return append(text, '\n'), nil
	}
	body := text // as JSON: what it is without comments, each byte in its place
	if f.comments {
		body = blanked(text)
	}
	root, err := parseObject(body)
	if err != nil {
		return nil, fmt.Errorf("the file is not usable JSON, nothing was written: %w", err)
	}
	style := layoutOf(body, root)
	var edits []splice
	if at := root.index(f.holder); at < 0 {
		holder := jsonObject{members: []jsonMember{{key: entryName, value: ours.raw()}}}
		edits = style.insert(body, text, 0, len(body), root, f.holder, holder.raw())
	} else if edits, err = f.editHolder(body, text, root.members[at], ours, style); err != nil {
		return nil, err
	}
	if len(edits) == 0 {
		return old, nil
	}
	out := spliced(text, edits)
	after := out
	if f.comments {
		after = blanked(out)
	}
	if err := f.onlyOursChanged(body, after); err != nil {
		return nil, err
	}
	return slices.Concat(bom, out), nil
}

// editHolder sets our entry among the servers.
func (f jsonForm) editHolder(body, text []byte, at jsonMember, ours jsonObject, style layout) ([]splice, error) {
	start, end := at.start, at.end
	servers, err := parseObject(at.value)
	if err != nil {
		return nil, fmt.Errorf("%s in the file %w, nothing was written", f.holder, err)
	}
	if i := servers.index(f.nested); f.nested != "" && i >= 0 {
		if inner, err := parseObject(servers.members[i].value); err == nil && f.holdsServers(inner) {
			start, end, servers = at.start+servers.members[i].start, at.start+servers.members[i].end, inner
		}
	}
	i := servers.index(entryName)
	if i < 0 {
		return style.insert(body, text, start, end, servers, entryName, ours.raw()), nil
	}
	m := servers.members[i]
	merged := ours
	if existing, err := parseObject(m.value); err == nil {
		if merged, err = f.merge(existing, ours); err != nil {
			return nil, fmt.Errorf("the entry %s: %w, nothing was written", entryName, err)
		}
	}
	if sameJSON(m.value, merged.raw()) {
		return nil, nil
	}
	from, to := start+m.start, start+m.end
	if !bytes.Equal(body[from:to], text[from:to]) {
		return nil, fmt.Errorf("the entry %s holds comments, which the change would lose; change it by hand, nothing was written", entryName)
	}
	return []splice{{from, to, style.render(merged.raw(), indentAt(body, start+m.keyStart))}}, nil
}

// holdsServers tells an object of servers from a server that has this name.
func (f jsonForm) holdsServers(o jsonObject) bool {
	return !slices.ContainsFunc(o.members, func(m jsonMember) bool { return slices.Contains(f.ways, m.key) })
}

// blanked gives text with its comments, and commas before a closing bracket, as
// white space. Every other byte keeps its place.
func blanked(text []byte) []byte {
	out := bytes.Clone(text)
	comma := -1
	for i := 0; i < len(out); {
		switch c := out[i]; {
		case c == '"':
			comma = -1
			for i++; i < len(out) && out[i] != '"'; i++ {
				if out[i] == '\\' {
					i++
				}
			}
			i++
		case c == '/' && i+1 < len(out) && (out[i+1] == '/' || out[i+1] == '*'):
			i = blankComment(out, i)
		default:
			switch {
			case c == ',':
				comma = i
			case (c == '}' || c == ']') && comma >= 0:
				out[comma] = ' '
				comma = -1
			case c != ' ' && c != '\t' && c != '\r' && c != '\n':
				comma = -1
			}
			i++
		}
	}
	return out
}

// blankComment blanks the comment at i and gives the place after it. One that
// does not end is left, so that the text does not parse.
func blankComment(out []byte, i int) int {
	end := len(out)
	if out[i+1] == '*' {
		close := bytes.Index(out[i+2:], []byte("*/"))
		if close < 0 {
			return len(out)
		}
		end = i + 2 + close + 2
	} else if line := bytes.IndexByte(out[i:], '\n'); line >= 0 {
		end = i + line
	}
	for ; i < end; i++ {
		if out[i] != '\n' && out[i] != '\r' {
			out[i] = ' '
		}
	}
	return end
}

// layout is how a file is written.
type layout struct {
	unit    string // one step of indentation
	newline string
	oneLine bool
}

func layoutOf(body []byte, root jsonObject) layout {
	style := layout{unit: "  ", newline: "\n"}
	if bytes.Contains(body, []byte("\r\n")) {
		style.newline = "\r\n"
	}
	if len(root.members) == 0 {
		return style
	}
	first := root.members[0].keyStart
	if indent := indentAt(body, first); indent != "" {
		style.unit = indent
	}
	style.oneLine = !bytes.ContainsRune(body[:first], '\n')
	return style
}

// indentAt gives the white space at the beginning of the line of offset.
func indentAt(body []byte, offset int) string {
	line := body[bytes.LastIndexByte(body[:offset], '\n')+1 : offset]
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
}

// render formats value; its first line is not indented.
func (l layout) render(value jsontext.Value, indent string) []byte {
	v := value.Clone()
	if l.oneLine {
		if err := v.Format(jsontext.SpaceAfterComma(true), jsontext.SpaceAfterColon(true), jsontext.PreserveRawStrings(true)); err != nil {
			return value
		}
		return v
	}
	if err := v.Indent(jsontext.WithIndentPrefix(indent), jsontext.WithIndent(l.unit)); err != nil {
		return value
	}
	return bytes.ReplaceAll(v, []byte("\n"), []byte(l.newline))
}

// insert adds a member at the end of the object o, which stands in body from
// start to end; o's places count from start. text is body with its comments: a
// comment behind the last member stays behind it.
func (l layout) insert(body, text []byte, start, end int, o jsonObject, key string, value jsontext.Value) []splice {
	open := start + bytes.IndexByte(body[start:end], '{')
	shut := start + bytes.LastIndexByte(body[start:end], '}')
	if len(o.members) == 0 {
		outer := indentAt(body, open)
		inner := outer + l.unit
		member := slices.Concat(jsonText(key), []byte(": "), l.render(value, inner))
		switch {
		case !bytes.Equal(body[open:shut], text[open:shut]): // what is said there stays before it
			return []splice{{shut, shut, slices.Concat([]byte(l.newline+inner), member, []byte(l.newline+outer))}}
		case l.oneLine:
			return []splice{{open + 1, shut, member}}
		}
		return []splice{{open + 1, shut, slices.Concat([]byte(l.newline+inner), member, []byte(l.newline+outer))}}
	}
	first, last := o.members[0], o.members[len(o.members)-1]
	gap := body[open+1 : start+first.keyStart]
	switch {
	case !bytes.ContainsRune(gap, '\n'):
		l.oneLine, gap = true, []byte(" ")
	case !bytes.Equal(gap, text[open+1:start+first.keyStart]):
		gap = []byte(l.newline + indentAt(body, start+first.keyStart))
	}
	member := slices.Concat(jsonText(key), []byte(": "), l.render(value, indentAt(body, start+first.keyStart)))
	at := start + last.end
	if bytes.Equal(body[at:shut], text[at:shut]) {
		return []splice{{at, at, slices.Concat([]byte(","), gap, member)}}
	}
	after := at + len(bytes.TrimRight(text[at:shut], " \t\r\n"))
	if l.oneLine {
		gap = []byte(l.newline) // a comment may go to the end of its line
	}
	if trailingComma(text[at:shut]) {
		return []splice{{after, after, slices.Concat(gap, member, []byte(","))}}
	}
	return []splice{{at, at, []byte(",")}, {after, after, slices.Concat(gap, member)}}
}

// trailingComma reports whether a comma stands among comments.
func trailingComma(text []byte) bool {
	for i := 0; i < len(text); {
		switch {
		case text[i] == ',':
			return true
		case text[i] == '/' && i+1 < len(text) && (text[i+1] == '/' || text[i+1] == '*'):
			i = blankComment(bytes.Clone(text), i)
		default:
			i++
		}
	}
	return false
}

func decodeAny(text []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var v any
	err := dec.Decode(&v)
	return v, err
}

func sameJSON(a, b []byte) bool {
	x, errX := decodeAny(a)
	y, errY := decodeAny(b)
	return errX == nil && errY == nil && reflect.DeepEqual(x, y)
}

// onlyOursChanged is the last check before a write: besides our entry the file
// says what it said.
func (f jsonForm) onlyOursChanged(before, after []byte) error {
	var without [2]any
	for i, text := range [][]byte{before, after} {
		v, err := decodeAny(text)
		if err != nil {
			return fmt.Errorf("the changed file would not parse, nothing was written: %w", err)
		}
		root, _ := v.(map[string]any)
		servers, _ := root[f.holder].(map[string]any)
		delete(servers, entryName)
		if inner, ok := servers[f.nested].(map[string]any); ok {
			delete(inner, entryName)
		}
		if len(servers) == 0 {
			delete(root, f.holder)
		}
		without[i] = v
	}
	if !bytes.Contains(after, jsonText(entryName)) || !reflect.DeepEqual(without[0], without[1]) {
		return errors.New("the change would touch more than Berth's own entry, nothing was written")
	}
	return nil
}
