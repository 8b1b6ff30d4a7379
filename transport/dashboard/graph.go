package dashboard

import (
	"fmt"

	"berth/broker/dispatch"
	"berth/transport/rest"
)

// The measures of a graph, in its own units, which are pixels.
const (
	boxWidth  = 236
	boxHeight = 76
	boxAcross = 52 // between two columns
	boxDown   = 16 // between two rows
	graphEdge = 8  // around all
)

// graph is missions as boxes, and what goes on from what as lines.
type graph struct {
	Width, Height int
	Boxes         []box
	Lines         []joint
	Said          string // for who does not see it
}

type box struct {
	rest.Mission
	X, Y, Width, Height int
	Waits               string
	Elsewhere           string // the mission that it depends on, when that is not shown
}

// joint is a line from a mission to one that goes on from it.
type joint struct {
	Path string
	Done bool // what it goes on from is there
}

// graphOf lays missions out: each depends on one other at most, so they are
// trees. What depends on a mission stands to its right, the first beside it.
func graphOf(missions []rest.Mission) graph {
	at := map[string]int{}
	for i, m := range missions {
		at[m.ID] = i
	}
	var roots []int
	after := map[int][]int{}
	for i, m := range missions {
		if before, here := at[pointed(m.DependsOn)]; m.DependsOn != nil && here && before != i {
			after[before] = append(after[before], i)
		} else {
			roots = append(roots, i)
		}
	}
	g := graph{Said: fmt.Sprintf("%d missions, each beside what goes on from it; the table below says the same", len(missions))}
	placed, row, columns := map[int]box{}, 0, 0
	var place func(i, column int)
	place = func(i, column int) {
		b := box{Mission: missions[i], X: graphEdge + column*(boxWidth+boxAcross), Y: graphEdge + row*(boxHeight+boxDown), Width: boxWidth, Height: boxHeight, Waits: waits(missions[i])}
		if _, here := at[pointed(b.DependsOn)]; b.DependsOn != nil && !here {
			b.Elsewhere = *b.DependsOn
		}
		placed[i], columns = b, max(columns, column+1)
		for n, next := range after[i] {
			if n > 0 {
				row++
			}
			place(next, column+1)
		}
	}
	for _, i := range roots {
		place(i, 0)
		row++
	}
	for i := range missions {
		if b, ok := placed[i]; ok { // what is part of a circle, which the broker refuses, is in the table alone
			g.Boxes = append(g.Boxes, b)
			for _, next := range after[i] {
				g.Lines = append(g.Lines, join(b, placed[next]))
			}
		}
	}
	g.Width, g.Height = 2*graphEdge+columns*(boxWidth+boxAcross)-boxAcross, 2*graphEdge+row*(boxHeight+boxDown)-boxDown
	return g
}

func join(from, to box) joint {
	x1, y1, x2, y2 := from.X+from.Width, from.Y+from.Height/2, to.X-7, to.Y+to.Height/2
	middle := (x1 + x2) / 2
	return joint{fmt.Sprintf("M%d %dC%d %d %d %d %d %d", x1, y1, middle, y1, middle, y2, x2, y2),
		from.Status == dispatch.MissionWorkProduced || from.Status == dispatch.MissionComplete}
}
