package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"text/template"
	"time"

	"berth/broker"
	"berth/broker/config"
	"berth/broker/shape"
)

//go:embed configuration.md.tmpl
var page string

// render gives the page; source is the directory of package config.
func render(source string) ([]byte, error) {
	comments, err := readComments(source)
	if err != nil {
		return nil, err
	}
	tables := map[string]any{
		"Backend": config.Backend{}, "Settings": config.Settings{}, "VerbRule": config.VerbRule{}, "TrackRule": config.TrackRule{},
		"EffectRule": config.EffectRule{}, "ConditionRule": config.ConditionRule{}, "Broker": config.Broker{}, "ClientRule": config.ClientRule{}, "ProfileRule": config.ProfileRule{}, "SelectorRule": config.SelectorRule{},
		"AgentWake":  config.AgentWake{},
		"Dispatch":   config.Dispatch{},
		"ProofRules": config.ProofRules{}, "ProofKind": config.ProofKind{}, "ProofGrant": config.ProofGrant{}, "ProofNeed": config.ProofNeed{},
		"Tracing": config.Tracing{},
	}
	t, err := template.New("page").Funcs(template.FuncMap{"table": func(name string) (string, error) {
		return table(reflect.TypeOf(tables[name]), comments[name])
	}}).Parse(page)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := t.Execute(&b, nil); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// readComments gives the comment of each field of each struct.
func readComments(dir string) (map[string]map[string]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	out := map[string]map[string]string{}
	for _, entry := range entries {
		name := entry.Name()
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, name), nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if s, ok := spec.Type.(*ast.StructType); ok {
				out[spec.Name.Name] = fieldComments(s)
			}
			return false
		})
	}
	return out, nil
}

func fieldComments(s *ast.StructType) map[string]string {
	out := map[string]string{}
	for _, field := range s.Fields.List {
		for _, name := range field.Names {
			out[name.Name] = strings.Join(strings.Fields(field.Doc.Text()), " ")
		}
	}
	return out
}

func table(t reflect.Type, comments map[string]string) (string, error) {
	var b strings.Builder
	b.WriteString("| key | type | default | meaning |\n|---|---|---|---|\n")
	for i := range t.NumField() {
		field := t.Field(i)
		key, ok := field.Tag.Lookup("key")
		if !ok {
			continue
		}
		meaning := comments[field.Name]
		if meaning == "" {
			return "", fmt.Errorf("%s.%s has no comment", t.Name(), field.Name)
		}
		if field.Tag.Get("required") == "true" {
			meaning += " Required."
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", key, typeOf(field), defaultOf(field), strings.ReplaceAll(meaning, "|", `\|`))
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

func defaultOf(field reflect.StructField) string {
	if value, ok := field.Tag.Lookup("default"); ok {
		return "`" + value + "`"
	}
	return ""
}

// typeOf says what may be written for a field.
func typeOf(field reflect.StructField) string {
	tag := field.Tag
	span := ""
	if tag.Get("min") != "" {
		span = ", " + tag.Get("min") + " to " + tag.Get("max")
	}
	if enum := tag.Get("enum"); enum != "" {
		return "`" + strings.ReplaceAll(enum, "|", "`, `") + "`"
	}
	switch reflect.New(field.Type).Elem().Interface().(type) {
	case time.Duration:
		if tag.Get("never") == "true" {
			span += ", or `never`"
		}
		return "duration" + span
	case config.Size:
		return "size" + span
	case broker.Effects:
		return "list of words"
	case json.RawMessage:
		return "any value"
	case shape.Budget:
		return "number, 500 to 100000, or `whole`"
	case config.Secret:
		return "text"
	case config.SecretList:
		return "list of texts"
	case config.SecretMap:
		return "object of texts"
	}
	switch field.Type.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Float64:
		return "number" + span
	case reflect.Struct:
		return "object"
	case reflect.Slice:
		switch {
		case tag.Get("keyed") != "":
			return "object of objects"
		case field.Type.Elem().Kind() == reflect.Struct:
			return "list of objects"
		case tag.Get("check") == "glob":
			return "list of globs"
		}
		return "list of texts"
	}
	return "text"
}
