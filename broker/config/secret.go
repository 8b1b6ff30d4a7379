package config

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
)

const hidden = "[hidden]"

// Secret is text that may hold a credential. Every way to print, log or encode
// it shows a placeholder; only Reveal gives the text. The text stands behind a
// pointer so that fmt does not show it inside unexported fields either.
type Secret struct{ text *string }

// NewSecret wraps text.
func NewSecret(text string) Secret { return Secret{&text} }

// Reveal gives the text, for the one place that hands it to a backend.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// Empty reports whether there is no text.
func (s Secret) Empty() bool { return s.Reveal() == "" }

func (s Secret) show() string {
	if s.Empty() {
		return ""
	}
	return hidden
}

// String shows a placeholder.
func (s Secret) String() string { return s.show() }

// GoString shows a placeholder.
func (s Secret) GoString() string { return s.show() }

// Format shows a placeholder, whatever the verb.
func (s Secret) Format(f fmt.State, _ rune) { writeText(f, s.show()) }

// LogValue shows a placeholder.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.show()) }

// MarshalJSON shows a placeholder.
func (s Secret) MarshalJSON() ([]byte, error) { return json.Marshal(s.show()) }

// MarshalText shows a placeholder.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.show()), nil }

// MarshalYAML shows a placeholder.
func (s Secret) MarshalYAML() (any, error) { return s.show(), nil }

// SecretList is a list of texts of which each may hold a credential. It is
// shown as its length.
type SecretList []Secret

// Reveal gives the texts.
func (l SecretList) Reveal() []string {
	out := make([]string, len(l))
	for i, s := range l {
		out[i] = s.Reveal()
	}
	return out
}

func (l SecretList) show() string { return fmt.Sprintf("[%d hidden]", len(l)) }

// String shows the length.
func (l SecretList) String() string { return l.show() }

// GoString shows the length.
func (l SecretList) GoString() string { return l.show() }

// Format shows the length, whatever the verb.
func (l SecretList) Format(f fmt.State, _ rune) { writeText(f, l.show()) }

// LogValue shows the length.
func (l SecretList) LogValue() slog.Value { return slog.StringValue(l.show()) }

// MarshalJSON shows the length.
func (l SecretList) MarshalJSON() ([]byte, error) { return json.Marshal(l.show()) }

// MarshalText shows the length.
func (l SecretList) MarshalText() ([]byte, error) { return []byte(l.show()), nil }

// MarshalYAML shows the length.
func (l SecretList) MarshalYAML() (any, error) { return l.show(), nil }

// SecretMap is a set of named texts (environment variables, headers). It is
// shown as its names.
type SecretMap map[string]Secret

// Names gives the names in byte order; never nil.
func (m SecretMap) Names() []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Reveal gives names and texts.
func (m SecretMap) Reveal() map[string]string {
	out := make(map[string]string, len(m))
	for name, s := range m {
		out[name] = s.Reveal()
	}
	return out
}

func (m SecretMap) show() string { return "[" + strings.Join(m.Names(), " ") + "]" }

// String shows the names.
func (m SecretMap) String() string { return m.show() }

// GoString shows the names.
func (m SecretMap) GoString() string { return m.show() }

// Format shows the names, whatever the verb.
func (m SecretMap) Format(f fmt.State, _ rune) { writeText(f, m.show()) }

// LogValue shows the names.
func (m SecretMap) LogValue() slog.Value { return slog.AnyValue(m.Names()) }

// MarshalJSON shows the names.
func (m SecretMap) MarshalJSON() ([]byte, error) { return json.Marshal(m.Names()) }

// MarshalText shows the names.
func (m SecretMap) MarshalText() ([]byte, error) { return []byte(m.show()), nil }

// MarshalYAML shows the names.
func (m SecretMap) MarshalYAML() (any, error) { return m.Names(), nil }

// writeText writes to a printer that takes everything.
func writeText(f fmt.State, text string) { _, _ = io.WriteString(f, text) }
