package config

import (
	"errors"
	"fmt"
)

// Bounds of what a headers_command may print.
const (
	MaxHeadersOutput = 64 << 10 // bytes
	maxHeaders       = 64
)

// ParseHeaders reads what a headers_command printed: one JSON object whose
// members are headers, with the rules of `headers`. Its errors are a sentence's
// end and show names, never a value and never the text.
func ParseHeaders(output []byte) (SecretMap, error) {
	if len(output) > MaxHeadersOutput {
		return nil, fmt.Errorf("printed more than %s", Size(MaxHeadersOutput))
	}
	root, problem := readJSON(output)
	switch {
	case problem != nil:
		return nil, errors.New("printed something else than one JSON object of headers")
	case root.kind != object:
		return nil, fmt.Errorf("printed %s instead of an object of headers", root.kind)
	case len(root.members) > maxHeaders:
		return nil, fmt.Errorf("printed more than %d headers", maxHeaders)
	}
	out, seen := SecretMap{}, map[string]bool{}
	for _, m := range root.members {
		why, habit := headerFault(m.key, seen)
		switch {
		case habit:
			continue
		case why != "":
			return nil, fmt.Errorf("printed the header %s, which cannot be used: %s", quote(m.key), why)
		case m.value.kind != text:
			return nil, fmt.Errorf("printed the header %s as %s instead of text", m.key, m.value.kind)
		case !plainHeaderValue(m.value.text):
			return nil, fmt.Errorf("printed a control character in the header %s", m.key)
		}
		out[m.key] = NewSecret(m.value.text)
	}
	return out, nil
}
