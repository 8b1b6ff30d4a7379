package admission

// pile is a binary heap whose elements know their place in it, so that any of
// them can be taken out in O(log n).
type pile[T any] struct {
	items []T
	less  func(a, b T) bool
	moved func(item T, index int)
}

func (p *pile[T]) len() int { return len(p.items) }

func (p *pile[T]) push(item T) {
	p.items = append(p.items, item)
	p.moved(item, len(p.items)-1)
	p.up(len(p.items) - 1)
}

func (p *pile[T]) remove(i int) {
	last := len(p.items) - 1
	if i != last {
		p.swap(i, last)
	}
	var none T
	p.items[last] = none
	p.items = p.items[:last]
	if i != last {
		p.down(i)
		p.up(i)
	}
}

// drop empties the pile and keeps its memory.
func (p *pile[T]) drop() {
	clear(p.items)
	p.items = p.items[:0]
}

func (p *pile[T]) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !p.less(p.items[i], p.items[parent]) {
			return
		}
		p.swap(i, parent)
		i = parent
	}
}

func (p *pile[T]) down(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(p.items); child++ {
			if p.less(p.items[child], p.items[least]) {
				least = child
			}
		}
		if least == i {
			return
		}
		p.swap(i, least)
		i = least
	}
}

func (p *pile[T]) swap(i, j int) {
	p.items[i], p.items[j] = p.items[j], p.items[i]
	p.moved(p.items[i], i)
	p.moved(p.items[j], j)
}
