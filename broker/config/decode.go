package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/broker"
	"berth/broker/shape"
)

// decoder fills the structs of a `berth` object from nodes by their tags. The
// same tags make the documentation, so that neither can say what the other
// does not do.
type decoder struct{ *report }

// setDefaults sets the fields of v, a struct, to their documented defaults.
func setDefaults(v reflect.Value) {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		value, ok := field.Tag.Lookup("default")
		if !ok {
			if v.Field(i).Kind() == reflect.Struct && field.IsExported() {
				setDefaults(v.Field(i))
			}
			continue
		}
		// A default that does not decode is a slip in a tag; TestDefaults finds it.
		d := decoder{&report{}}
		n := &node{kind: text, text: value}
		switch v.Field(i).Kind() {
		case reflect.Bool:
			n.kind = boolean
		case reflect.Int, reflect.Float64:
			n.kind = number
		}
		d.value(n, v.Field(i), field.Tag)
	}
}

// object fills the struct v from n and refuses keys that v does not have.
func (d decoder) object(n *node, v reflect.Value) {
	if !d.expect(n, object) {
		return
	}
	seen := map[string]bool{}
	for _, m := range n.members {
		i := fieldOf(v.Type(), m.key)
		switch {
		case i < 0:
			d.refuseKey(m, "%s is no key of Berth's here; the keys are %s", quote(m.key), strings.Join(keysOf(v.Type()), ", "))
			continue
		case seen[m.key]:
			d.refuseKey(m, "this key stands here twice")
			continue
		}
		seen[m.key] = true
		d.value(m.value, v.Field(i), v.Type().Field(i).Tag)
	}
	for i := range v.NumField() {
		if tag := v.Type().Field(i).Tag; tag.Get("required") == "true" && !seen[tag.Get("key")] {
			d.refuse(n, "the key %s is missing", tag.Get("key"))
		}
	}
}

func fieldOf(t reflect.Type, key string) int {
	for i := range t.NumField() {
		if k, ok := t.Field(i).Tag.Lookup("key"); ok && k == key {
			return i
		}
	}
	return -1
}

func keysOf(t reflect.Type) []string {
	var keys []string
	for i := range t.NumField() {
		if k, ok := t.Field(i).Tag.Lookup("key"); ok {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}

// value fills the field v from n by the rules of its type and tag.
func (d decoder) value(n *node, v reflect.Value, tag reflect.StructTag) {
	switch v.Interface().(type) {
	case time.Duration:
		d.duration(n, v, tag)
		return
	case Size:
		d.size(n, v, tag)
		return
	case broker.Effects:
		d.effects(n, v)
		return
	case json.RawMessage:
		d.json(n, v)
		return
	case shape.Budget:
		d.budget(n, v)
		return
	case SecretList:
		// What is in it may refer to the environment, so the entry reads it.
		d.expect(n, list)
		return
	case Secret, SecretMap:
		return // as above; whoever reads it says what is wrong with it
	}
	switch v.Kind() {
	case reflect.Bool:
		if d.expect(n, boolean) {
			v.SetBool(strings.EqualFold(n.text, "true"))
		}
	case reflect.Int:
		d.integer(n, v, tag)
	case reflect.Float64:
		d.float(n, v, tag)
	case reflect.String:
		d.text(n, v, tag)
	case reflect.Struct:
		d.object(n, v)
	case reflect.Slice:
		if tag.Get("keyed") != "" {
			d.keyed(n, v, tag)
			return
		}
		if !d.expect(n, list) {
			return
		}
		out := reflect.MakeSlice(v.Type(), len(n.items), len(n.items))
		for i, item := range n.items {
			d.value(item, out.Index(i), tag)
		}
		v.Set(out)
	}
}

// keyed fills a slice of structs from an object whose keys go into the field
// that the tag names.
func (d decoder) keyed(n *node, v reflect.Value, tag reflect.StructTag) {
	if !d.expect(n, object) {
		return
	}
	seen := map[string]bool{}
	out := reflect.MakeSlice(v.Type(), 0, len(n.members))
	for _, m := range n.members {
		if seen[m.key] {
			d.refuseKey(m, "this key stands here twice")
			continue
		}
		seen[m.key] = true
		if err := check(tag, m.key); err != nil {
			d.refuseKey(m, "the key %s", err)
		}
		element := reflect.New(v.Type().Elem()).Elem()
		setDefaults(element)
		element.FieldByName(tag.Get("keyed")).SetString(m.key)
		d.object(m.value, element)
		out = reflect.Append(out, element)
	}
	v.Set(out)
}

// expect refuses a node of another kind.
func (d decoder) expect(n *node, want kind) bool {
	if n.kind != want {
		d.refuse(n, "must be %s, not %s", want, n.kind)
		return false
	}
	return true
}

func (d decoder) duration(n *node, v reflect.Value, tag reflect.StructTag) {
	if n.kind == text && n.text == "never" && tag.Get("never") == "true" {
		v.SetInt(int64(Never))
		return
	}
	if n.kind != text {
		d.refuse(n, `must be a duration as text, such as "45s", not %s`, n.kind)
		return
	}
	got, err := parseDuration(n.text)
	if err != nil {
		also := ""
		if tag.Get("never") == "true" {
			also = `, or "never"`
		}
		d.refuse(n, "%s %v%s", quote(n.text), err, also)
		return
	}
	low, _ := parseDuration(tag.Get("min"))
	high, _ := parseDuration(tag.Get("max"))
	if got < low || got > high {
		d.refuse(n, "%s is out of range: %s to %s", quote(n.text), tag.Get("min"), tag.Get("max"))
		return
	}
	v.SetInt(int64(got))
}

func (d decoder) size(n *node, v reflect.Value, tag reflect.StructTag) {
	if n.kind != text {
		d.refuse(n, `must be a size as text, such as "64MiB", not %s`, n.kind)
		return
	}
	got, err := parseSize(n.text)
	if err != nil {
		d.refuse(n, "%s %v", quote(n.text), err)
		return
	}
	low, _ := parseSize(tag.Get("min"))
	high, _ := parseSize(tag.Get("max"))
	if got < low || got > high {
		d.refuse(n, "%s is out of range: %s to %s", quote(n.text), tag.Get("min"), tag.Get("max"))
		return
	}
	v.SetInt(int64(got))
}

func (d decoder) integer(n *node, v reflect.Value, tag reflect.StructTag) {
	if !d.expect(n, number) {
		return
	}
	got, err := strconv.ParseInt(n.text, 10, 64)
	if err != nil {
		d.refuse(n, "%s must be a whole number", quote(n.text))
		return
	}
	low, _ := strconv.ParseInt(tag.Get("min"), 10, 64)
	high, _ := strconv.ParseInt(tag.Get("max"), 10, 64)
	if got < low || got > high {
		d.refuse(n, "%d is out of range: %d to %d", got, low, high)
		return
	}
	v.SetInt(got)
}

func (d decoder) float(n *node, v reflect.Value, tag reflect.StructTag) {
	if !d.expect(n, number) {
		return
	}
	got, err := strconv.ParseFloat(n.text, 64)
	low, _ := strconv.ParseFloat(tag.Get("min"), 64)
	high, _ := strconv.ParseFloat(tag.Get("max"), 64)
	if err != nil || got < low || got > high {
		d.refuse(n, "%s is out of range: %s to %s", quote(n.text), tag.Get("min"), tag.Get("max"))
		return
	}
	v.SetFloat(got)
}

// budget reads what an answer may cost: a number of tokens, or "whole".
func (d decoder) budget(n *node, v reflect.Value) {
	if n.kind == text && n.text == "whole" {
		v.SetInt(int64(shape.Whole))
		return
	}
	got, err := strconv.ParseInt(n.text, 10, 64)
	if n.kind != number || err != nil || got < int64(shape.MinBudget) || got > int64(shape.MaxBudget) {
		d.refuse(n, `must be a number of tokens from %d to %d, or "whole"`, shape.MinBudget, shape.MaxBudget)
		return
	}
	v.SetInt(got)
}

func (d decoder) text(n *node, v reflect.Value, tag reflect.StructTag) {
	if !d.expect(n, text) {
		return
	}
	if enum, ok := tag.Lookup("enum"); ok && !slices.Contains(strings.Split(enum, "|"), n.text) {
		d.refuse(n, "%s must be one of %s", quote(n.text), strings.ReplaceAll(enum, "|", ", "))
		return
	}
	if err := check(tag, n.text); err != nil {
		d.refuse(n, "%s %v", quote(n.text), err)
		return
	}
	v.SetString(n.text)
}

func (d decoder) effects(n *node, v reflect.Value) {
	if !d.expect(n, list) {
		return
	}
	var names []string
	for _, item := range n.items {
		if !d.expect(item, text) {
			return
		}
		if _, _, ok := broker.ParseEffects([]string{item.text}); !ok {
			d.refuse(item, "%s must be one of read, session, write, destroy, exec, interrupt", quote(item.text))
			return
		}
		names = append(names, item.text)
	}
	got, _, _ := broker.ParseEffects(names)
	switch {
	case len(names) == 0:
		d.refuse(n, "must name at least one effect; a verb that changes nothing is [read]")
	case slices.Contains(names, "read") && got != broker.Read:
		d.refuse(n, "read stands alone: a verb that does anything else is more than a read")
	default:
		v.SetUint(uint64(got))
	}
}

// json keeps a value of any kind as JSON.
func (d decoder) json(n *node, v reflect.Value) {
	raw, bad := n.json(nil)
	if bad != nil {
		d.refuse(bad, "%s must be a number as JSON writes it", quote(bad.text))
		return
	}
	v.SetBytes(raw)
}

// quote shows a key or a value of a `berth` object, cut to a readable length.
func quote(s string) string {
	const most = 40
	if r := []rune(s); len(r) > most {
		s = string(r[:most]) + "..."
	}
	return fmt.Sprintf("%q", s)
}
