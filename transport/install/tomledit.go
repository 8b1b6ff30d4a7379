package install

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

const tomlHeader = "[mcp_servers." + entryName + "]"

// tomlLine is one key of our table.
type tomlLine struct {
	key   string
	value any    // as the decoder gives it
	text  string // as it is written
}

// Keys that only go with one way to connect. Codex refuses a whole file whose
// entry mixes them.
var (
	stdioKeys = []string{"command", "args", "env", "env_vars", "cwd"}
	httpKeys  = []string{"url", "bearer_token_env_var", "http_headers", "env_http_headers", "oauth", "scopes"}
	ownKeys   = []string{"command", "args", "url", "bearer_token_env_var"}
)

// tomlText encodes a basic string.
func tomlText(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			b.WriteString(`\` + string(c))
		case c < ' ' || c == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, c)
		default:
			b.WriteRune(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func tableText(ours []tomlLine, newline string) string {
	return tomlHeader + newline + linesText(ours, newline)
}

func linesText(ours []tomlLine, newline string) string {
	var b strings.Builder
	for _, l := range ours {
		b.WriteString(l.key + " = " + l.text + newline)
	}
	return b.String()
}

// editTOML gives old with our table: appended when there is none, else with
// our keys replaced in it. Comments and other keys stay. When nothing has to
// change the result is old itself.
func editTOML(old []byte, ours []tomlLine) ([]byte, error) {
	before, err := decodeTOML(old)
	if err != nil {
		return nil, fmt.Errorf("the file is not valid TOML, nothing was written: %w", err)
	}
	newline := "\n"
	if bytes.Contains(old, []byte("\r\n")) {
		newline = "\r\n"
	}
	entry, exists, err := tomlEntry(before)
	if err != nil {
		return nil, err
	}
	var out []byte
	if exists {
		if upToDate(entry, ours) {
			return old, nil
		}
		if err := compatible(entry, ours); err != nil {
			return nil, err
		}
		if out, err = replaceTable(old, ours, newline); err != nil {
			return nil, err
		}
	} else {
		out = appendTable(old, ours, newline)
	}
	return out, checkTOML(before, out, ours)
}

func decodeTOML(text []byte) (map[string]any, error) {
	root := map[string]any{}
	if err := toml.Unmarshal(text, &root); err != nil {
		return nil, err
	}
	return root, nil
}

func tomlEntry(root map[string]any) (entry map[string]any, exists bool, err error) {
	servers, ok := root["mcp_servers"]
	if !ok {
		return nil, false, nil
	}
	table, ok := servers.(map[string]any)
	if !ok {
		return nil, false, errors.New("mcp_servers in the file is not a table, nothing was written")
	}
	value, ok := table[entryName]
	if !ok {
		return nil, false, nil
	}
	if entry, ok = value.(map[string]any); !ok {
		return nil, false, errors.New("mcp_servers." + entryName + " in the file is not a table, nothing was written")
	}
	return entry, true, nil
}

func upToDate(entry map[string]any, ours []tomlLine) bool {
	for _, key := range ownKeys {
		i := slices.IndexFunc(ours, func(l tomlLine) bool { return l.key == key })
		got, has := entry[key]
		if has != (i >= 0) || (has && !reflect.DeepEqual(got, ours[i].value)) {
			return false
		}
	}
	return true
}

// compatible refuses an entry whose other keys do not go with our way to connect.
func compatible(entry map[string]any, ours []tomlLine) error {
	foreign := httpKeys
	if ours[0].key == "url" {
		foreign = stdioKeys
	}
	for _, key := range foreign {
		if _, has := entry[key]; has && !slices.Contains(ownKeys, key) {
			return fmt.Errorf("mcp_servers.%s holds %s, which does not go with %s; take it out first, nothing was written", entryName, key, ours[0].key)
		}
	}
	return nil
}

func appendTable(old []byte, ours []tomlLine, newline string) []byte {
	out := slices.Clone(old)
	if len(out) > 0 && !bytes.HasSuffix(out, []byte("\n")) {
		out = append(out, newline...)
	}
	if len(bytes.TrimSpace(out)) > 0 {
		out = append(out, newline...)
	}
	return append(out, tableText(ours, newline)...)
}

// replaceTable takes our keys out of the table that is there and puts the new
// ones below its header.
func replaceTable(old []byte, ours []tomlLine, newline string) ([]byte, error) {
	elsewhere := fmt.Errorf("mcp_servers.%s is not written as a table %s of its own; change it by hand, nothing was written", entryName, tomlHeader)
	p := &unstable.Parser{}
	p.Reset(old)
	inside, headerEnd := false, -1
	var cut [][2]int
	for p.NextExpression() {
		e := p.Expression()
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			path, last := keyPath(e.Key())
			inside = e.Kind == unstable.Table && slices.Equal(path, []string{"mcp_servers", entryName})
			if inside {
				headerEnd = lineEnd(old, last)
			}
		case unstable.KeyValue:
			path, _ := keyPath(e.Key())
			if !inside || !slices.Contains(ownKeys, path[0]) {
				continue
			}
			if len(path) > 1 {
				return nil, elsewhere
			}
			start := bytes.LastIndexByte(old[:e.Raw.Offset], '\n') + 1
			cut = append(cut, [2]int{start, lineEnd(old, int(e.Raw.Offset+e.Raw.Length))})
		}
	}
	if err := p.Error(); err != nil {
		return nil, fmt.Errorf("the file is not valid TOML, nothing was written: %w", err)
	}
	if headerEnd < 0 {
		return nil, elsewhere
	}
	out := slices.Clone(old[:headerEnd])
	if !bytes.HasSuffix(out, []byte("\n")) {
		out = append(out, newline...)
	}
	out = append(out, linesText(ours, newline)...)
	at := headerEnd
	for _, c := range cut {
		out = append(out, old[at:c[0]]...)
		at = c[1]
	}
	return append(out, old[at:]...), nil
}

// keyPath gives the parts of a key and the offset after its last one.
func keyPath(it unstable.Iterator) (path []string, end int) {
	for it.Next() {
		n := it.Node()
		path = append(path, string(n.Data))
		end = int(n.Raw.Offset + n.Raw.Length)
	}
	return path, end
}

// lineEnd gives the offset after the line break that follows offset.
func lineEnd(text []byte, offset int) int {
	if i := bytes.IndexByte(text[offset:], '\n'); i >= 0 {
		return offset + i + 1
	}
	return len(text)
}

// checkTOML is the last check before a write: the text parses, our table is
// right, and besides our keys it says what it said.
func checkTOML(before map[string]any, out []byte, ours []tomlLine) error {
	after, err := decodeTOML(out)
	if err != nil {
		return fmt.Errorf("the changed file would not parse, nothing was written: %w", err)
	}
	entry, exists, err := tomlEntry(after)
	if err != nil || !exists || !upToDate(entry, ours) {
		return errors.New("the entry would not be what it has to be, nothing was written")
	}
	for _, root := range []map[string]any{before, after} {
		servers, _ := root["mcp_servers"].(map[string]any)
		entry, _ := servers[entryName].(map[string]any)
		for _, key := range ownKeys {
			delete(entry, key)
		}
		if len(entry) == 0 {
			delete(servers, entryName)
		}
		if len(servers) == 0 {
			delete(root, "mcp_servers")
		}
	}
	if !reflect.DeepEqual(before, after) {
		return errors.New("the change would touch more than Berth's own entry, nothing was written")
	}
	return nil
}
