package main

import (
	"strconv"
	"strings"

	"github.com/kvasir-llm/kvasir/bench/chart"
)

// plot is a chart and its file.
type plot struct {
	file string
	chart.Chart
}

// plots draws, for each model: the shares of the floor, kvasir's speed-up over each other engine, and speed by the
// number of sequences of a batch.
func (r *results) plots() []plot {
	var out []plot
	for _, model := range r.models() {
		tests, quants := r.tests(model), r.quants(model)
		share := plot{"share-" + model + ".svg", chart.Chart{Title: model + ": share of the floor, %", Groups: tests, Series: quants, Line: 100}}
		for _, quant := range quants {
			for _, test := range tests {
				v := 0.0
				if w := r.find(ours, model, quant, test); w != nil {
					v = 100 * w.Share()
				}
				share.Values = append(share.Values, v)
			}
		}
		out = append(out, share)
		for _, peer := range r.peers() {
			times := plot{"times-" + chart.FileName(peer) + "-" + model + ".svg", chart.Chart{Title: model + ": times as fast as " + peer, Groups: tests, Series: quants, Line: 1}}
			any := false
			for _, quant := range quants {
				for _, test := range tests {
					v := 0.0
					own, other := r.find(ours, model, quant, test), r.find(peer, model, quant, test)
					if own != nil && other != nil {
						v, any = own.Speed()/other.Speed(), true
					}
					times.Values = append(times.Values, v)
				}
			}
			if any {
				out = append(out, times)
			}
		}
		if p := r.batched(model, tests, quants); len(p.Curves) > 0 {
			out = append(out, p)
		}
	}
	return out
}

// batched returns curves of tokens/s over the number of sequences; those of other engines are dashed.
func (r *results) batched(model string, tests, quants []string) plot {
	p := plot{"batched-" + model + ".svg", chart.Chart{Title: model + ": tokens/s by sequences decoded together", Series: quants}}
	for i, engine := range append([]string{ours}, r.peers()...) {
		for color, quant := range quants {
			c := chart.Curve{Color: color, Dashes: i, Name: engine}
			for _, test := range tests {
				n, err := strconv.Atoi(strings.TrimPrefix(test, "b"))
				if w := r.find(engine, model, quant, test); w != nil && err == nil {
					c.X, c.Y = append(c.X, float64(n)), append(c.Y, w.Speed())
				}
			}
			if len(c.X) > 1 {
				p.Curves = append(p.Curves, c)
			}
		}
	}
	return p
}
