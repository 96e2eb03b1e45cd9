package cuda

import (
	"fmt"
	"slices"
	"time"

	"github.com/kvasir-llm/kvasir/compute"
)

const (
	graphBytes = 1 << 30 // the most memory that graphs captured before the first step may take
	bothRows   = 16      // up to these there are graphs for steps with several rows of a slot, too
)

// ahead says what was captured before the first step.
type ahead struct {
	graphs int
	rows   int // of the largest
	bytes  int64
	took   time.Duration
}

// shapeOf returns the shape of a captured graph.
func (p *program) shapeOf(key graphKey) *shape {
	sh := p.shapes[key]
	if sh == nil {
		sh = p.lay(p.index, [3]int{key.rows, min(key.rows, p.logitCapacity()), 0}, key.rows, key.rows, key.rows)
		sh.few, sh.adapted, sh.alone, sh.ringed, sh.whole = key.rows, key.adapted, key.alone, key.ringed, key.whole
		p.shapes[key] = sh
	}
	return sh
}

// captured returns a graph, captured when it is first wanted.
func (p *program) captured(key graphKey) (*graph, error) {
	if gr := p.graphs[key]; gr != nil {
		return gr, nil
	}
	gr, err := p.s.capture(func() error { return p.queueGraph(p.shapeOf(key)) })
	if err == nil {
		p.graphs[key] = gr
	}
	return gr, err
}

// captureAhead captures the graphs of steps in which each slot has one row, the largest first, as long as they take no
// more than graphBytes; of up to bothRows rows also those in which slots have more, and of more rows those with either
// kernel of attention; of latents those in which rows are whole, and those in which some are cut. What is not among
// them is captured when it comes: steps with adapters, and those with proposed tokens in many slots.
func (p *program) captureAhead() error {
	if !p.chooses { // it has no such steps
		return nil
	}
	begin := time.Now()
	before, _, err := p.g.memory()
	if err != nil {
		return err
	}
	most := min(mostGraphRows, roundUp(p.limits.Rows, rowMultiple))
	for _, rows := range slices.Backward(buckets) {
		if rows > bucketOf(min(p.limits.Slots, most), most) {
			continue
		}
		alone := p.alone(&compute.Batch{}, rows)
		many := rows > ringRows && alone && p.mayRing(rows) // they are for attend_ring.cu if contexts are short
		keys := []graphKey{{rows: rows, alone: alone, ringed: rows <= ringRows || many}}
		if alone && rows <= bothRows {
			keys = append(keys, graphKey{rows: rows, ringed: true})
		}
		if many {
			keys = append(keys, graphKey{rows: rows, alone: true})
		}
		if p.latents {
			for _, key := range keys {
				key.whole = true
				keys = append(keys, key)
			}
		}
		for _, key := range keys {
			if _, err := p.captured(key); err != nil {
				return fmt.Errorf("%w, for %d rows", err, rows)
			}
		}
		free, _, err := p.g.memory()
		if err != nil {
			return err
		}
		p.ahead.graphs += len(keys)
		p.ahead.rows, p.ahead.bytes = max(p.ahead.rows, rows), max(0, before-free)
		if p.ahead.bytes > graphBytes {
			break
		}
	}
	p.ahead.took = time.Since(begin)
	return nil
}

// Prepared implements compute.Prepared.
func (p *program) Prepared() string {
	a := p.ahead
	if a.graphs == 0 {
		return ""
	}
	return fmt.Sprintf("%d graphs of up to %d rows, %s, captured in %v", a.graphs, a.rows, gigabytes(a.bytes), a.took.Round(time.Millisecond))
}
