package sched

// usual is what steps compute beside proposed tokens: that of the last one, so that it follows at once when sequences
// come and go.
type usual struct{ rows, pairs float64 }

// firstRow is what a row more is taken to add to a step, of what each row of it takes, as long as all steps had about
// as many rows.
const firstRow = 0.25

// Prices say what it takes to compute proposed tokens, as far as steps have told (Took). They change no token.
type Prices struct {
	Rows int     // tokens of a step like the last one, proposed ones left out
	Step float64 // microseconds that it takes; 0: nothing is known
	Row  float64 // microseconds that a token more adds
	Pair float64 // microseconds for each token that it attends to
}

// Prices returns what the next step's proposed tokens cost.
func (s *Scheduler) Prices() (p Prices) {
	if !s.cost.known || s.usual.rows == 0 {
		return p
	}
	s.cost.fit()
	c := &s.cost.coefs
	p = Prices{Rows: int(s.usual.rows), Row: c[1], Pair: c[2], Step: c[0] + c[1]*s.cost.stairs.of(int(s.usual.rows)) + c[2]*s.usual.pairs}
	if c[0] == 0 && s.cost.alike() {
		p.Row, p.Pair = firstRow*p.Step/s.usual.rows, 0
	}
	return p
}

// Chance returns with which chance a proposed token must be accepted to be worth its row: one at that position of its
// sequence then yields as many tokens for the time that it takes as the step does without it. More than 1 is never.
func (p *Prices) Chance(position int) float64 {
	if p.Step == 0 {
		return 2
	}
	return (p.Row + p.Pair*float64(position)) * float64(p.Rows) / p.Step
}

// alike reports whether all steps had about as many rows, so that nothing tells what one more takes.
func (c *cost) alike() bool {
	n := 0
	for i := range c.kinds {
		for j := range c.kinds[i] {
			if c.kinds[i][j].n > 0 {
				n++
				break
			}
		}
	}
	return n < 2
}
