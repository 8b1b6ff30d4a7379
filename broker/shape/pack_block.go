package shape

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// pieces is how a text is cut: to so many units, into which text.
type pieces struct {
	step  string
	unit  string
	most  int              // units
	cut   func(int) string // the text with the first k units
	count func(int) int    // how many units that really are
	keep  func(handle string, first int) Kept
	guess int
}

// bytesPerToken is the usual size of a token, for first guesses only.
const bytesPerToken = 4

// ways lists how a text can be cut, best first. handle is where the rest will
// be; a preview names it.
func (p *packer) ways(text string, isJSON bool, handle string) []pieces {
	var ways []pieces
	budget := p.budget
	guess := int(p.limits.Budget) * bytesPerToken
	if isJSON {
		if w, ok := p.records(text); ok {
			ways = append(ways, w)
		}
		if l, ok := largestArray(text); ok {
			ways = append(ways, pieces{step: stepItems, unit: UnitItems, most: l.total,
				cut: l.prefix, count: func(k int) int { return k },
				keep:  func(h string, first int) Kept { return keepList(h, UnitItems, l, first, budget) },
				guess: guess / max(1, (l.close-l.open)/l.total)})
		}
		return append(ways, pieces{step: stepPreview, unit: UnitBytes, most: len(text),
			cut:   func(k int) string { return preview(text[:cutAtRune(text, k)], handle, cutAtRune(text, k)) },
			count: func(k int) int { return cutAtRune(text, k) },
			keep:  func(h string, first int) Kept { return keepText(h, text, first, budget) },
			guess: guess})
	}
	return append(ways, pieces{step: stepText, unit: UnitBytes, most: len(text),
		cut:   func(k int) string { return text[:cutAtLine(text, k)] },
		count: func(k int) int { return cutAtLine(text, k) },
		keep:  func(h string, first int) Kept { return keepText(h, text, first, budget) },
		guess: guess})
}

// records cuts a text that is one JSON string to whole records. What is left is
// kept as a list of them.
func (p *packer) records(text string) (pieces, bool) {
	if p.limits.Records == nil {
		return pieces{}, false
	}
	plain, ok := Text(json.RawMessage(text))
	if !ok {
		return pieces{}, false
	}
	all := p.limits.Records(plain)
	if len(all) < 2 || strings.Join(all, "") != plain {
		return pieces{}, false
	}
	quoted := make([]string, len(all))
	for i, r := range all {
		quoted[i] = quoteText(r)
	}
	rest := "[" + strings.Join(quoted, ",") + "]"
	return pieces{step: stepRecords, unit: UnitItems, most: len(all),
		cut:   func(k int) string { return quoteText(strings.Join(all[:k], "")) },
		count: func(k int) int { return k },
		keep: func(h string, first int) Kept {
			return keepList(h, UnitItems, newList(rest, 0, len(rest)), first, p.budget)
		},
		guess: int(p.limits.Budget) * bytesPerToken / max(1, len(text)/len(all))}, true
}

// preview stands for JSON that cannot be cut and stay what it was.
func preview(text, handle string, next int) string {
	return fmt.Sprintf(`{"preview":%s,"more":{"handle":"%s","offset":%d}}`, quoteText(text), handle, next)
}

// packBlock cuts block n by the first way that fits. It reports false, and has
// changed nothing, when there is no room for a piece of it.
func (p *packer) packBlock(n int) (bool, error) {
	b := p.answer.blocks[n]
	if b.from == 0 {
		return false, nil // nothing of it can be cut
	}
	before := answer{blocks: p.answer.blocks[:n], same: -1}
	if p.answer.structured != nil && p.answer.same < 0 {
		before.structured = p.answer.structured
	}
	return p.cutText(before.counted(), b.text, b.json, "", func(text string, step string) {
		p.answer.blocks = slices.Clone(p.answer.blocks)
		p.answer.blocks[n] = b.with(text)
		if p.answer.same == n && step == stepItems {
			p.answer.structured = json.RawMessage(text)
		}
	})
}

// cutStructured packs structured content of its own, all blocks being whole.
func (p *packer) cutStructured() error {
	texts := answer{blocks: p.answer.blocks, same: -1}
	compact, err := Compact(p.answer.structured)
	if err != nil {
		compact = p.answer.structured
	}
	repeats, before := p.answer.repeats(), len(p.keep)
	done, err := p.cutText(texts.counted(), string(compact), true, "structuredContent: ", func(text, step string) {
		p.answer.structured = json.RawMessage(text)
		if step != stepItems {
			p.answer.structured = nil // never a cut string
		}
	})
	if err != nil {
		return err
	}
	if !done {
		if err := p.leaveStructured(); err != nil {
			return err
		}
	}
	for i := range p.keep[before:] {
		p.keep[before+i].Repeats = repeats
	}
	p.answer.blocks = append(slices.Clone(p.answer.blocks), textBlock(p.footer.text(p.limits)))
	return nil
}

// cutText finds the first way to cut a text so that it fits beside the others
// and the footer, keeps the whole text, and hands the cut one to put. Structured
// content is cut at an item or not at all.
func (p *packer) cutText(beside []string, text string, isJSON bool, what string, put func(text, step string)) (bool, error) {
	h, err := p.handle()
	if err != nil {
		return false, err
	}
	cost := p.costBeside(beside)
	for _, way := range p.ways(text, isJSON, h) {
		if what != "" && way.step != stepItems {
			continue
		}
		mark := func(k int) line {
			return line{what: what, unit: way.unit, kept: way.count(k), total: way.most, handle: h, next: way.count(k), dropped: droppedAtMost(way, text)}
		}
		k := longest(way.most-1, way.guess, int(p.limits.Budget), func(k int) int {
			return cost(way.cut(k), p.footer.before(mark(k)).text(p.limits))
		})
		if k == 0 || way.count(k) == 0 {
			continue
		}
		kept := way.keep(h, way.count(k))
		m := mark(k)
		m.dropped = kept.Dropped
		p.footer = p.footer.before(m)
		p.keep = append([]Kept{kept}, p.keep...)
		p.step(way.step)
		p.note(way.unit, m.kept, way.most, h)
		put(way.cut(k), way.step)
		return true, nil
	}
	return false, nil
}

// costBeside gives what texts cost beside others, which are counted once.
func (p *packer) costBeside(beside []string) func(cut, footer string) int {
	bytes, tokens := 0, 0
	for _, t := range beside {
		bytes += len(t)
	}
	if bytes <= maxApart {
		for _, t := range beside {
			tokens += p.counter.Count(t).Tokens
		}
	}
	beside = slices.Clip(beside)
	return func(cut, footer string) int {
		if bytes+len(cut)+len(footer) > maxApart {
			return measure(p.plain, p.limits, append(beside, cut, footer)...).Tokens
		}
		return scaled(tokens+p.plain.Count(cut).Tokens+p.plain.Count(footer).Tokens, p.limits.factor())
	}
}

// droppedAtMost is at least as long a number as the footer will have for what
// is not kept of a text.
func droppedAtMost(way pieces, text string) int {
	if len(text) <= MaxKept {
		return 0
	}
	return way.most
}
