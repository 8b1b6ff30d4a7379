package install

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/pelletier/go-toml/v2"
)

// Entry is how a client reaches Berth by what its file says.
type Entry struct {
	File    string
	Command []string // program and arguments; empty where it connects by itself
	URL     string
}

// Find reads the registration of Berth in the file that Plan would change; nil
// is none. Nothing is changed.
func Find(client string, o Options) (*Entry, error) {
	r, err := Plan(client, o)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(r.File)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxFile {
		return nil, nil // no file, no registration
	}
	text, err := readIfThere(r.File)
	if err != nil {
		return nil, err
	}
	e, err := r.find(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.File, err)
	}
	if e != nil {
		e.File = r.File
	}
	return e, nil
}

// entryWords are the keys of an entry that say how Berth is reached, of every
// client.
type entryWords struct {
	Command any      `json:"command" toml:"command"`
	Args    []string `json:"args" toml:"args"`
	URL     string   `json:"url" toml:"url"`
	HTTPURL string   `json:"httpUrl" toml:"-"`
}

func (w entryWords) entry() *Entry {
	e := &Entry{URL: w.URL}
	if w.HTTPURL != "" {
		e.URL = w.HTTPURL
	}
	switch command := w.Command.(type) {
	case string:
		e.Command = append([]string{command}, w.Args...)
	case []any: // OpenCode's
		for _, word := range command {
			if text, ok := word.(string); ok {
				e.Command = append(e.Command, text)
			}
		}
	}
	return e
}

func (f jsonForm) find(text []byte) (*Entry, error) {
	if f.comments {
		text = blanked(text)
	}
	var root map[string]json.RawMessage
	if len(text) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(text, &root); err != nil {
		return nil, fmt.Errorf("the file is not usable JSON: %w", err)
	}
	var servers map[string]json.RawMessage
	if json.Unmarshal(root[f.holder], &servers) != nil {
		return nil, nil
	}
	raw := servers[entryName]
	var nested map[string]json.RawMessage
	if f.nested != "" && raw == nil && json.Unmarshal(servers[f.nested], &nested) == nil {
		raw = nested[entryName]
	}
	var words entryWords
	if raw == nil || json.Unmarshal(raw, &words) != nil {
		return nil, nil
	}
	return words.entry(), nil
}

func findTOML(text []byte) (*Entry, error) {
	var root struct {
		Servers map[string]entryWords `toml:"mcp_servers"`
	}
	if err := toml.Unmarshal(text, &root); err != nil {
		return nil, fmt.Errorf("the file is not usable TOML: %w", err)
	}
	words, ok := root.Servers[entryName]
	if !ok {
		return nil, nil
	}
	return words.entry(), nil
}
