package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"time"
)

// Redacted stands for a secret in a copy of the settings.
const Redacted = "[REDACTED]"

// Redacted gives the settings in use as JSON with every text that may hold a
// credential replaced (contracts/native.md section 10), and how many there
// were. What is off or empty is left out. It is for reading, not for Parse.
func (c *Config) Redacted() (settings json.RawMessage, replaced int, err error) {
	r := redacter{}
	tree := map[string]any{"berth": r.value(reflect.ValueOf(c.Broker)), "mcpServers": r.value(reflect.ValueOf(c.Backends))}
	text, err := json.MarshalIndent(tree, "", "  ")
	if err != nil {
		return nil, 0, fmt.Errorf("copy the settings: %w", err)
	}
	return text, r.replaced, nil
}

type redacter struct{ replaced int }

// value walks by type, so that a field of a secret's type is replaced wherever
// somebody adds it.
func (r *redacter) value(v reflect.Value) any {
	switch secret := v.Interface().(type) {
	case Secret:
		r.replaced++
		return Redacted
	case time.Duration:
		if secret == Never {
			return "never"
		}
		return secret.String()
	}
	switch v.Kind() {
	case reflect.Struct:
		out := map[string]any{}
		for i := range v.NumField() {
			field := v.Type().Field(i)
			if !field.IsExported() || v.Field(i).IsZero() {
				continue
			}
			name := field.Tag.Get("key")
			if name == "" {
				name = field.Name
			}
			out[name] = r.value(v.Field(i))
		}
		return out
	case reflect.Slice:
		out := make([]any, 0, v.Len())
		for i := range v.Len() {
			out = append(out, r.value(v.Index(i)))
		}
		return out
	case reflect.Map:
		out := map[string]any{}
		for _, k := range v.MapKeys() {
			out[k.String()] = r.value(v.MapIndex(k))
		}
		return out
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return r.value(v.Elem())
	}
	return v.Interface()
}
