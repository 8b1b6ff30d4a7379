package catalog

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"sync"

	"berth/broker"
	"berth/broker/shape"
)

// Page gives one page of the list, {"tools":[...],"nextCursor":"500"}, the same
// bytes at every call. A cursor is a decimal offset; empty is the beginning.
func (p *Profile) Page(cursor string) (json.RawMessage, *broker.Refusal) {
	return p.page(cursor, false)
}

// TaskPage is Page for a client of the tasks of protocol 2025-11-25: the verbs
// whose calls the broker runs as tasks say so in `execution.taskSupport`.
func (p *Profile) TaskPage(cursor string) (json.RawMessage, *broker.Refusal) {
	return p.page(cursor, p.Tasks())
}

// Tasks reports whether a verb that may be called here, listed or not, can be
// called as a task of protocol 2025-11-25.
func (p *Profile) Tasks() bool {
	return slices.ContainsFunc(p.reach, func(it item) bool { return it.verb.TakesTask() })
}

func (p *Profile) page(cursor string, tasks bool) (json.RawMessage, *broker.Refusal) {
	pages := p.pages
	if tasks {
		pages = p.taskPages
	}
	offset := 0
	if cursor != "" {
		n, ok := decimal(cursor)
		if !ok || n > len(p.items) {
			return nil, broker.Refuse(broker.CodeInvalidArguments, "The cursor is not one that this list gave.",
				map[string]any{"errors": []map[string]string{{"pointer": "/cursor", "rule": "cursor", "wanted": "the nextCursor of an earlier page, or none"}}})
		}
		offset = n
	}
	if offset%PageSize == 0 && offset/PageSize < len(pages()) {
		return pages()[offset/PageSize], nil
	}
	return p.render(offset, tasks), nil
}

// Digest names the bytes of the list: equal lists have equal digests.
func (p *Profile) Digest() string { return p.digest() }

// decimal reads a short unsigned decimal number.
func decimal(s string) (int, bool) {
	if len(s) > 9 || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(s)
	return n, err == nil
}

func (p *Profile) render(offset int, tasks bool) json.RawMessage {
	end := min(offset+PageSize, len(p.items))
	var out bytes.Buffer
	out.WriteString(`{"tools":[`)
	for i := offset; i < end; i++ {
		if i > offset {
			out.WriteByte(',')
		}
		out.Write(p.rendered(i, tasks))
	}
	out.WriteByte(']')
	if end < len(p.items) {
		out.WriteString(`,"nextCursor":"` + strconv.Itoa(end) + `"`)
	}
	out.WriteByte('}')
	return out.Bytes()
}

// rendered is an entry as it stands in the list, canary codes included.
func (p *Profile) rendered(i int, tasks bool) json.RawMessage {
	raw := p.items[i].raw
	if tasks && p.items[i].task != nil {
		raw = p.items[i].task
	}
	if p.exact {
		return raw
	}
	end := ""
	if i == 0 {
		end = " [list head " + p.codes().head + "]"
	}
	if i == len(p.items)-1 {
		end += " [list tail " + p.codes().tail + "]"
	}
	if end == "" {
		return raw
	}
	return withDescriptionEnd(raw, end)
}

// withDescriptionEnd adds a text without characters that need an escape to the
// end of an entry's description.
func withDescriptionEnd(entry json.RawMessage, end string) json.RawMessage {
	members, err := shape.Members(entry)
	if err != nil {
		return entry // cannot happen: it was rendered here
	}
	for _, m := range members {
		if m.Name != "description" {
			continue
		}
		if len(m.Value) < 2 || m.Value[0] != '"' {
			break
		}
		at := m.Start + len(m.Value) - 1
		return slices.Concat(entry[:at], []byte(end), entry[at:])
	}
	return setMember(entry, "description", json.RawMessage(`"`+strings.TrimSpace(end)+`"`))
}

// codes are what proves that a list arrived whole.
type codes struct{ fingerprint, head, tail string }

// alphabet is base32 in lower case without letters that look like digits.
const alphabet = "0123456789abcdefghjkmnpqrstvwxyz"

// codeLength is the length of a code, in characters.
const codeLength = 6

// Fingerprint names the list: 6 characters of a digest of the profile's name
// and of each listed name with its digest, in order.
func (p *Profile) Fingerprint() string { return p.codes().fingerprint }

// Canary gives the codes that stand in the first and in the last description of
// the list and nowhere else; none in an exact profile.
func (p *Profile) Canary() (head, tail string) {
	if p.exact || len(p.items) == 0 {
		return "", ""
	}
	return p.codes().head, p.codes().tail
}

func (p *Profile) sum() codes {
	h := sha256.New()
	var line []byte
	put := func(name, digest string) {
		line = append(append(append(append(line[:0], name...), 0), digest...), 0)
		h.Write(line)
	}
	put(p.name, "")
	for _, it := range p.items {
		digest := it.verb.Digest()
		if p.exact || it.name != it.verb.Name {
			digest = digestOf(it.raw)
		}
		put(it.name, digest)
	}
	sum := h.Sum(nil)
	var text []byte
	for bit := 0; len(text) < 3*codeLength; bit += 5 {
		word := uint(sum[bit/8])<<8 | uint(sum[bit/8+1])
		text = append(text, alphabet[word>>(11-bit%8)&31])
	}
	return codes{string(text[:codeLength]), string(text[codeLength : 2*codeLength]), string(text[2*codeLength:])}
}

// SameList reports whether both list the same bytes, for whatever client.
func (p *Profile) SameList(q *Profile) bool {
	return p.name == q.name && slices.EqualFunc(p.items, q.items, func(a, b item) bool {
		return a.name == b.name && bytes.Equal(a.raw, b.raw) && bytes.Equal(a.task, b.task)
	})
}

// finish sets up what is made at first use, of a profile whose reach and items
// are known.
func (p *Profile) finish() *Profile {
	all := func(tasks bool) func() []json.RawMessage {
		return sync.OnceValue(func() []json.RawMessage {
			pages := []json.RawMessage{p.render(0, tasks)}
			for offset := PageSize; offset < len(p.items); offset += PageSize {
				pages = append(pages, p.render(offset, tasks))
			}
			return pages
		})
	}
	p.pages, p.taskPages = all(false), all(true)
	p.digest = sync.OnceValue(func() string {
		h := sha256.New()
		for _, page := range p.pages() {
			h.Write(page)
		}
		return hex.EncodeToString(h.Sum(nil))
	})
	p.codes = sync.OnceValue(p.sum)
	p.words = sync.OnceValue(p.candidates)
	p.index = sync.OnceValue(p.makeIndex)
	p.instructions = sync.OnceValue(p.renderInstructions)
	if p.views == nil {
		p.views = &sync.Map{}
	}
	return p
}

// table sorts what may be called and makes the lookup of it.
func (p *Profile) table(items []item) {
	slices.SortFunc(items, func(x, y item) int { return strings.Compare(x.name, y.name) })
	p.byName = make(map[string]*Verb, len(items))
	for i, it := range items {
		p.byName[it.name] = it.verb
		if it.verb.TakesTask() {
			items[i].task = withTaskSupport(it.raw, it.verb)
		}
	}
	p.reach = slices.DeleteFunc(items, func(it item) bool { return p.Denied(it.verb) })
	p.items = p.reach
}
