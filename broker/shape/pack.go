package shape

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"
)

// MaxMedia is the largest image, sound or blob of an answer, in bytes of its
// base64 text; a larger one becomes a note and a handle.
const MaxMedia = 1 << 20

// Shaped is an answer as it is sent, and what is known of it.
type Shaped struct {
	Result json.RawMessage
	// Keep is what Result names handles of. Whoever sends Result puts it into a
	// [Store] first.
	Keep     []Kept
	Facts    *ShapedFacts // nil: nothing was changed
	Tokens   Tokens
	Warnings []string
}

// ShapedFacts is `shaped` of `_meta["berth/call"]`. What does not apply is null.
type ShapedFacts struct {
	Steps        []string   `json:"steps"`
	Unit         *string    `json:"unit"`
	Kept         *int       `json:"kept"` // units that Result holds
	Total        *int       `json:"total"`
	ResultTokens int        `json:"result_tokens"`
	Handle       *string    `json:"handle"`
	ExpiresAt    *time.Time `json:"expires_at"`
	Structured   *string    `json:"structured"` // whole, prefix or absent; null when the answer had none
}

// Shape cuts a tool result to its result budget (contracts/catalog.md section
// 10). What fits stays byte for byte. handle makes the name under which
// something is kept; an error of it is the only one. A result that is no tool
// result is left alone.
func Shape(result json.RawMessage, l Limits, counter Counter, handle func() (string, error)) (Shaped, error) {
	if l.Budget == 0 {
		l.Budget = DefaultBudget
	}
	s := Shaped{Result: result, Tokens: Tokens{Bytes: len(result), Encoding: Encoding, Factor: l.factor()}}
	readable := utf8.Valid(result)
	if !l.CountAlways && (l.Budget == Whole || (readable && l.fitsByBytes(len(result)))) {
		return s, nil // what a model reads of it is no longer than itself
	}
	plain := counter
	counter = &remembering{plain, map[string]Count{}}
	valid := result
	if !readable { // what is kept is given out in JSON again, which is UTF-8
		valid = bytes.ToValidUTF8(result, []byte("\uFFFD"))
	}
	a, err := take(valid)
	if err != nil {
		s.count(counter, l, string(result))
		return s, nil
	}
	p := &packer{answer: a, limits: l, budget: l.Budget, counter: counter, plain: plain, handle: handle, whole: a.structured}
	if l.Budget != Whole && l.CanMore {
		if err := p.media(); err != nil {
			return Shaped{}, err
		}
	}
	if over := s.count(counter, l, p.answer.counted()...); over && l.CanMore {
		if p, err = p.within(); err != nil {
			return Shaped{}, err
		}
	}
	if len(p.steps) == 0 {
		return s, nil
	}
	s.Result, s.Keep, s.Facts, s.Warnings = p.answer.build(), p.keep, p.facts(), nil
	s.Tokens.Bytes = len(s.Result)
	l.CountAlways = true
	s.count(counter, l, p.answer.counted()...)
	return s, nil
}

// maxAttempts bounds how often an answer is packed anew.
const maxAttempts = 8

// within packs a copy of p until it is within the budget when counted as a
// whole. The first attempt nearly always is: only what is so long that its
// count is an estimate can need less room than it was given.
func (p *packer) within() (*packer, error) {
	room := p.budget
	for attempt := 1; ; attempt++ {
		q := *p
		q.limits.Budget = room
		q.steps, q.keep, q.answer.blocks = slices.Clone(p.steps), slices.Clone(p.keep), slices.Clone(p.answer.blocks)
		if err := q.pack(); err != nil {
			return nil, err
		}
		if attempt == maxAttempts || measure(q.counter, q.limits, q.answer.counted()...).Tokens <= int(p.budget) {
			return &q, nil
		}
		room = room * 4 / 5
	}
}

// count fills in what an answer with these texts costs, if that is to be known,
// and reports whether it is over the budget. What fits by its bytes is not
// counted, and neither is an answer that is never cut.
func (s *Shaped) count(counter Counter, l Limits, texts ...string) (over bool) {
	bytes := 0
	for _, t := range texts {
		bytes += len(t)
	}
	if !l.CountAlways && (l.Budget == Whole || l.fitsByBytes(bytes)) {
		s.Tokens.Out, s.Tokens.Exact = nil, false
		return false
	}
	n := measure(counter, l, texts...)
	s.Tokens.Out, s.Tokens.Exact = &n.Tokens, n.Exact
	if l.Budget == Whole || n.Tokens <= int(l.Budget) {
		return false
	}
	s.Warnings = []string{WarnOverBudget}
	return true
}

// The steps of packing, as `shaped.steps` names them.
const (
	stepMedia      = "media"
	stepCompact    = "compact"
	stepItems      = "items"
	stepRecords    = "records"
	stepPreview    = "preview"
	stepText       = "text"
	stepBlocks     = "blocks"
	stepStructured = "structured"
)

// packer cuts one answer.
type packer struct {
	answer  answer
	limits  Limits  // Budget is what this attempt may use
	budget  Budget  // the answer's
	counter Counter // remembers what it counted
	plain   Counter // for texts that are tried and thrown away
	handle  func() (string, error)
	whole   json.RawMessage // the structured content as it came

	steps  []string
	keep   []Kept
	footer footer
	cut    *ShapedFacts // of the piece that was cut, else of the first left out
}

func (p *packer) step(name string) {
	if !slices.Contains(p.steps, name) {
		p.steps = append(p.steps, name)
	}
}

// media replaces each image, sound and blob that is too large by a note.
func (p *packer) media() error {
	for i, b := range p.answer.blocks {
		if b.media <= MaxMedia {
			continue
		}
		h, err := p.handle()
		if err != nil {
			return err
		}
		k := keepText(h, string(b.raw), 0, p.budget)
		what := b.kind
		if b.mime != "" && len(b.mime) <= 100 {
			what += " (" + b.mime + ")"
		}
		note := fmt.Sprintf(`[berth] This is a block of type %s with %d bytes of base64. The block: more {"handle":%q,"offset":0} until %s.`, what, b.media, h, p.limits.until())
		if k.Dropped > 0 {
			note += fmt.Sprintf(" Its last %d bytes are not kept.", k.Dropped)
		}
		p.answer.blocks[i] = textBlock(note)
		p.keep = append(p.keep, k)
		p.step(stepMedia)
	}
	return nil
}

// pack cuts the answer, which is over its budget.
func (p *packer) pack() error {
	if p.compact() {
		return nil
	}
	reserve := p.reserve()
	n := p.wholeBlocks(reserve)
	if n == len(p.answer.blocks) {
		return p.cutStructured()
	}
	return p.cutBlock(n, reserve)
}

// compact takes the white space out of every text that is JSON and reports
// whether the answer fits then.
func (p *packer) compact() bool {
	changed := false
	for i, b := range p.answer.blocks {
		if b.from == 0 {
			continue
		}
		text, ok := compactText(b.text)
		if !ok {
			continue
		}
		if text != b.text {
			changed = true
			b = b.with(text)
		}
		b.json = true
		p.answer.blocks[i] = b
	}
	if changed {
		p.step(stepCompact)
	}
	return changed && p.fits(p.answer.counted()...)
}

func (p *packer) fits(texts ...string) bool {
	return measure(p.counter, p.limits, texts...).Tokens <= int(p.limits.Budget)
}

// reserve is what structured content of its own costs, if that is so little
// that it goes beside the blocks whatever becomes of them; else 0.
func (p *packer) reserve() int {
	if p.answer.structured == nil || p.answer.same >= 0 {
		return 0
	}
	n := measure(p.counter, p.limits, string(p.answer.structured)).Tokens
	if n > int(p.limits.Budget)/2 {
		return 0
	}
	return n
}

// footerReserve is room for the longest footer, in tokens: three lines with a
// handle each. What is chosen with it is measured exactly afterwards.
const footerReserve = 250

// wholeBlocks is how many blocks fit from the beginning, with room for a footer.
func (p *packer) wholeBlocks(reserve int) int {
	room := int(p.limits.Budget) - reserve - scaled(footerReserve, p.limits.factor())
	for i, b := range p.answer.blocks {
		if b.text == "" {
			continue
		}
		// A text with more bytes than this cannot fit; most need no count to tell.
		if room -= measure(p.counter, p.limits, b.text).Tokens; room < 0 {
			return i
		}
	}
	return len(p.answer.blocks)
}

// cutBlock packs block n; those after it belong to the rest.
func (p *packer) cutBlock(n int, reserve int) error {
	blocks := p.answer.blocks
	own := p.answer.structured != nil && p.answer.same < 0
	if own && reserve == 0 {
		if err := p.leaveStructured(); err != nil {
			return err
		}
	}
	if n+1 < len(blocks) {
		if err := p.leaveBlocks(n + 1); err != nil {
			return err
		}
	}
	done, err := p.packBlock(n)
	if err != nil {
		return err
	}
	if !done {
		return p.leaveFrom(n)
	}
	if p.answer.same > n || (p.answer.same == n && !slices.Contains(p.steps, stepItems)) {
		p.answer.structured = nil // the block's handle has it
	}
	p.answer.blocks = append(slices.Clone(p.answer.blocks[:n+1]), textBlock(p.footer.text(p.limits)))
	return nil
}

// leaveFrom leaves block n and all after it to the rest: beside what stands
// before it there is no room for a piece of it.
func (p *packer) leaveFrom(n int) error {
	p.footer.lines = slices.DeleteFunc(p.footer.lines, func(l line) bool { return l.unit == UnitBlocks })
	p.keep = slices.DeleteFunc(p.keep, func(k Kept) bool { return k.Unit == UnitBlocks })
	p.cut = nil
	for {
		if err := p.leaveBlocks(n); err != nil {
			return err
		}
		if p.answer.same >= n {
			p.answer.structured = nil
		}
		cut := p.answer
		cut.blocks = append(slices.Clone(p.answer.blocks[:n]), textBlock(p.footer.text(p.limits)))
		if n == 0 || p.fits(cut.counted()...) {
			if p.answer.structured != nil && !p.fits(cut.counted()...) {
				if err := p.leaveStructured(); err != nil {
					return err
				}
				cut.structured, cut.blocks = nil, []block{textBlock(p.footer.text(p.limits))}
			}
			p.answer = cut
			return nil
		}
		p.footer.lines = p.footer.lines[:len(p.footer.lines)-1]
		p.keep = p.keep[:len(p.keep)-1]
		p.cut = nil
		n--
	}
}

// leaveBlocks keeps the blocks from n on and says so.
func (p *packer) leaveBlocks(n int) error {
	h, err := p.handle()
	if err != nil {
		return err
	}
	k := keepBlocks(h, p.answer.blocks[n:], p.budget)
	p.step(stepBlocks)
	p.keep = append(p.keep, k)
	p.footer.add(line{unit: UnitBlocks, kept: n, total: len(p.answer.blocks), handle: h, next: 0, dropped: k.Dropped})
	p.note(UnitBlocks, n, len(p.answer.blocks), h)
	return nil
}

// leaveStructured takes out structured content that no block repeats.
func (p *packer) leaveStructured() error {
	h, err := p.handle()
	if err != nil {
		return err
	}
	text := string(p.answer.structured)
	if compact, err := Compact(p.answer.structured); err == nil {
		text = string(compact)
	}
	k := keepText(h, text, 0, p.budget)
	k.Repeats = p.answer.repeats()
	p.step(stepStructured)
	p.keep = append(p.keep, k)
	p.footer.add(line{unit: UnitBytes, what: "structuredContent: ", total: len(text), handle: h, dropped: k.Dropped})
	p.note(UnitBytes, 0, len(text), h)
	p.answer.structured = nil
	return nil
}

// note remembers the facts of a piece; the piece that a part was cut from
// counts before those that were left out.
func (p *packer) note(unit string, kept, total int, handle string) {
	if p.cut != nil && (unit == UnitBlocks || kept == 0) {
		return
	}
	p.cut = &ShapedFacts{Unit: &unit, Kept: &kept, Total: &total, Handle: &handle, ExpiresAt: &p.limits.Until}
}

func (p *packer) facts() *ShapedFacts {
	f := p.cut
	if f == nil {
		f = &ShapedFacts{}
	}
	f.Steps, f.ResultTokens = p.steps, int(p.budget)
	if p.whole != nil {
		state := "prefix"
		switch {
		case p.answer.structured == nil:
			state = "absent"
		case string(p.answer.structured) == string(p.whole):
			state = "whole"
		}
		f.Structured = &state
	}
	return f
}
