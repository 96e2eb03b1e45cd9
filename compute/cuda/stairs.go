package cuda

import (
	"fmt"
	"slices"

	"github.com/kvasir-llm/kvasir/compute"
)

// launchCost is about how many nanoseconds a launch of products takes, 0 if that is not known, and how many launches
// are like it.
type launchCost struct {
	like  string
	of    func(rows int) int
	times int
}

// addCost notes what a launch takes, which takes what others like it take. Of several launches of the same products a
// step has one: the first counts.
func (p *program) addCost(products []compute.Product, of func(rows int) int) {
	first := products[0].W.(*matrix)
	if slices.Contains(p.costed, first) {
		return
	}
	p.costed = append(p.costed, first)
	like := fmt.Sprint(first.format, first.float8, first.in, first.ranges())
	for _, q := range products {
		like += fmt.Sprint(" ", q.W.(*matrix).out)
	}
	i := slices.IndexFunc(p.costs, func(c launchCost) bool { return c.like == like })
	if i < 0 {
		i = len(p.costs)
		p.costs = append(p.costs, launchCost{like: like, of: of})
	}
	p.costs[i].times++
}

// stairRows is what the rows of all stairs are a multiple of: kernels of many rows have blocks of as many, or more.
const stairRows = 32

// Stairs implements compute.Stepped: what the products of a step take by the kernels that are chosen, as measured on an
// H100. There are none where other work, such as that of experts, takes most of the time.
func (p *program) Stairs() []compute.Stair {
	if len(p.routings) > 0 || p.recurrent {
		return nil
	}
	var all []compute.Stair
	for rows := stairRows; rows <= p.limits.Rows; rows += stairRows {
		work := 0.0
		for _, c := range p.costs {
			n := c.of(rows)
			if n == 0 {
				return nil
			}
			work += float64(n * c.times)
		}
		for len(all) > 0 && all[len(all)-1].Work >= work { // as good as this one, or worse
			all = all[:len(all)-1]
		}
		all = append(all, compute.Stair{Rows: rows, Work: work})
	}
	return all
}

// cost is how many nanoseconds, about, a product takes; 0: that is not known.
func (p *program) cost(f format, a *gemmArgs) int {
	_, cost := p.warpgroups(f, a, a.tiles())
	return cost
}

// costFloat8 is cost of a product of F8_E4M3.
func (p *program) costFloat8(a *gemmArgs, by scaling) int {
	to, err := p.float8Args(a, int(a.rows), by)
	if err != nil {
		return 0
	}
	_, _, cost := float8KernelFor(&to, p.d.g.info.sms)
	return cost
}
