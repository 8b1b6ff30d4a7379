package config

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const theSecret = "s3cr3t-value"

// Every way that a program prints, logs or encodes a value by accident.
func TestSecretsAreNeverShown(t *testing.T) {
	c := parse(t, "a.json", `{"mcpServers": {
		"a": {"command": "x", "args": ["--key", "${TOKEN}"], "env": {"API_KEY": "${TOKEN}"}},
		"b": {"url": "https://h/${TOKEN}", "headers": {"Authorization": "Bearer ${TOKEN}"}, "berth": {"headers_command": ["x", "${TOKEN}"]}}}}`)
	a, b := c.Backends[0], c.Backends[1]
	if a.Env.Reveal()["API_KEY"] != theSecret || a.Args.Reveal()[1] != theSecret || b.URL.Reveal() != "https://h/"+theSecret {
		t.Fatal("the secrets are not there at all")
	}
	hiding := struct{ inner Backend }{a} // unexported: fmt calls no methods
	values := map[string]any{
		"config": c, "config by value": *c, "backend": a, "backend b": b, "env": a.Env, "headers": b.Headers, "args": a.Args, "url": b.URL,
		"one": a.Env["API_KEY"], "pointer": &b.URL, "unexported": hiding, "unexported pointer": &hiding, "slice": []any{a.Args, b.URL}, "reveal": map[string]any{"x": b.Headers},
	}
	for name, v := range values {
		var out bytes.Buffer
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%20v", "%T", "%t", "%p"} {
			fmt.Fprintf(&out, verb+"\n", v)
		}
		fmt.Fprintln(&out, errors.Join(fmt.Errorf("bad: %v", v)))
		if text, err := json.Marshal(v); err == nil {
			out.Write(text)
		}
		if text, err := yaml.Marshal(v); err == nil {
			out.Write(text)
		}
		if text, err := xml.Marshal(v); err == nil {
			out.Write(text)
		}
		slog.New(slog.NewJSONHandler(&out, nil)).Info("m", "v", v)
		slog.New(slog.NewTextHandler(&out, nil)).Info("m", "v", v)
		for _, form := range []string{theSecret, fmt.Sprintf("%x", theSecret), fmt.Sprintf("%X", theSecret), fmt.Sprintf("%d", []byte(theSecret))} {
			if strings.Contains(out.String(), form) {
				t.Errorf("%s shows %q:\n%s", name, form, out.String())
			}
		}
	}
}

func TestNamesOfSecretsAreShown(t *testing.T) {
	m := SecretMap{"B": NewSecret("1"), "A": NewSecret("2")}
	text, err := json.Marshal(m)
	if err != nil || string(text) != `["A","B"]` {
		t.Errorf("JSON %s (%v)", text, err)
	}
	for want, v := range map[string]any{"[A B]": m, "[hidden]": NewSecret("1"), "": NewSecret(""), "[2 hidden]": SecretList{NewSecret("1"), NewSecret("2")}} {
		if got := fmt.Sprintf("%v", v); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// A value can stand in a wrong place of the file, too.
func TestErrorsNeverShowASecret(t *testing.T) {
	for _, tt := range []struct{ name, text string }{
		{"a.json", `{"mcpServers": {"a": {"command": "x", "env": {"K": ["s3cr3t-value"]}, "args": [{"s3cr3t": 1}, "${s3cr3t-value}"], "cwd": "${NUL}"}}}`},
		{"a.json", `{"mcpServers": {"a": {"url": "s3cr3t-value://${TOKEN}", "headers": {"A": "s3cr3t-value\u0000"}}, "b": {"url": "http://u:s3cr3t-value@h"}, "c": {"url": "http://h:s3cr3t-value/%zz"}}}`},
		{"a.json", `{"mcpServers": {"a": {"command": "x", "env": {"K": "s3cr3t-value" "X"}}}}`},
		{"a.json", `{"mcpServers": {"a": {"command": "x", "env": {"K": s3cr3t-value}}}}`},
		{"a.json", `{"mcpServers": {"a": {"command": "x", "env": {"K": "${TOKEN} ${NOPE:-s3cr3t-value${"}}}}`},
		{"a.yaml", "mcpServers:\n  a: {command: x, env: {K: *s3cr3t-value}}\n"},
		{"a.yaml", "mcpServers:\n  a: {command: x, env: {K: !s3cr3t-value x}}\n"},
		{"a.yaml", "mcpServers:\n  a: {command: x, env: {K: !s3cr3t-value}}\n"},
		{"a.yaml", "mcpServers:\n  a: {command: x, env: {K: &s3cr3t-value }}\n"},
		{"a.yaml", "mcpServers:\n  a: {command: x, env: {K: \"s3cr3t-value\\q\"}}\n"},
		{"a.yaml", "mcpServers:\n  a:\n    command: x\n    env:\n      K: @s3cr3t-value\n"},
		{"a.yaml", "mcpServers:\n  a:\n    command: x\n    env:\n      K: a: s3cr3t-value\n"},
		{"a.yaml", "mcpServers:\n  a: {command: x, env: {K: !!int s3cr3t-value, L: !!bool s3cr3t-value}}\n"},
		{"a.yaml", "%s3cr3t-value\n---\na: b\n"},
	} {
		_, err := Parse(tt.name, []byte(tt.text), environ)
		if err == nil {
			t.Errorf("%s was accepted", tt.text)
			continue
		}
		if strings.Contains(err.Error(), "s3cr3t-value") {
			t.Errorf("%s\nshows it: %v", tt.text, err)
		}
	}
}
