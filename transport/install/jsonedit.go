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

// editJSON gives old with our entry under mcpServers. Empty text becomes a new
// file. When nothing has to change the result is old itself.
func editJSON(old []byte, ours jsonObject) ([]byte, error) {
	body := bytes.TrimPrefix(old, []byte("\xef\xbb\xbf"))
	bom := old[:len(old)-len(body)]
	if len(bytes.TrimSpace(body)) == 0 {
		text := layout{unit: "  ", newline: "\n"}.render(jsontext.Value(`{"mcpServers":{"`+entryName+`":`+string(ours.raw())+`}}`), "")
		return append(text, '\n'), nil
	}
	root, err := parseObject(body)
	if err != nil {
		return nil, fmt.Errorf("the file is not usable JSON, nothing was written: %w", err)
	}
	style := layoutOf(body, root)
	var out []byte
	servers, ok := root.get("mcpServers")
	if !ok {
		holder := jsonObject{members: []jsonMember{{key: entryName, value: ours.raw()}}}
		out, err = style.insert(body, 0, len(body), root, "mcpServers", holder.raw())
	} else {
		at := root.members[root.index("mcpServers")]
		inner, perr := parseObject(servers)
		if perr != nil {
			return nil, fmt.Errorf("mcpServers in the file %w, nothing was written", perr)
		}
		out, err = editEntry(body, at.start, at.end, inner, ours, style)
	}
	if err != nil {
		return nil, err
	}
	if bytes.Equal(out, body) {
		return old, nil
	}
	if err := onlyOursChanged(body, out); err != nil {
		return nil, err
	}
	return slices.Concat(bom, out), nil
}

// editEntry sets our entry in mcpServers, which stands from start to end.
func editEntry(body []byte, start, end int, servers, ours jsonObject, style layout) ([]byte, error) {
	i := servers.index(entryName)
	if i < 0 {
		return style.insert(body, start, end, servers, entryName, ours.raw())
	}
	m := servers.members[i]
	merged := ours
	if existing, err := parseObject(m.value); err == nil {
		if merged, err = mergeEntry(existing, ours); err != nil {
			return nil, fmt.Errorf("the headers of the entry %s: %w, nothing was written", entryName, err)
		}
	}
	if sameJSON(m.value, merged.raw()) {
		return body, nil
	}
	from, to := start+m.start, start+m.end
	text := style.render(merged.raw(), indentAt(body, start+m.keyStart))
	return slices.Concat(body[:from], text, body[to:]), nil
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
// start to end; o's places count from start.
func (l layout) insert(body []byte, start, end int, o jsonObject, key string, value jsontext.Value) ([]byte, error) {
	open := start + bytes.IndexByte(body[start:end], '{')
	shut := start + bytes.LastIndexByte(body[start:end], '}')
	if len(o.members) == 0 {
		outer := indentAt(body, open)
		inner := outer + l.unit
		member := slices.Concat(jsonText(key), []byte(": "), l.render(value, inner))
		if l.oneLine {
			return slices.Concat(body[:open+1], member, body[shut:]), nil
		}
		return slices.Concat(body[:open+1], []byte(l.newline+inner), member, []byte(l.newline+outer), body[shut:]), nil
	}
	first, last := o.members[0], o.members[len(o.members)-1]
	gap := body[open+1 : start+first.keyStart]
	if !bytes.ContainsRune(gap, '\n') {
		l.oneLine, gap = true, []byte(" ")
	}
	member := slices.Concat(jsonText(key), []byte(": "), l.render(value, indentAt(body, start+first.keyStart)))
	at := start + last.end
	return slices.Concat(body[:at], []byte(","), gap, member, body[at:]), nil
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
func onlyOursChanged(before, after []byte) error {
	var without [2]any
	for i, text := range [][]byte{before, after} {
		v, err := decodeAny(text)
		if err != nil {
			return fmt.Errorf("the changed file would not parse, nothing was written: %w", err)
		}
		root, _ := v.(map[string]any)
		servers, _ := root["mcpServers"].(map[string]any)
		delete(servers, entryName)
		if len(servers) == 0 {
			delete(root, "mcpServers")
		}
		without[i] = v
	}
	if !reflect.DeepEqual(without[0], without[1]) {
		return errors.New("the change would touch more than Berth's own entry, nothing was written")
	}
	return nil
}
