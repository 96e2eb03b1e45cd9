package choose

import (
	"math"
	"slices"

	"github.com/kvasir-llm/kvasir/compute"
)

// chained picks token n of an output by the stages of p.Chain. s.ids and s.kept are the tokens left, ascending, and
// their logits, of which most is the greatest.
func (s *Sampler) chained(logits []float32, most float32, p *compute.Choosing, n uint64) int32 {
	s.above(logits, -math.MaxFloat32)
	u, v := uniforms(p.Seed, n)
	c := p.Chain
	for _, stage := range c.Stages {
		switch stage {
		case compute.StageTemperature:
			s.heat(most, p.Temperature, c)
		case compute.StageTopNSigma:
			s.withinSigmas(most, c.TopNSigma)
		case compute.StageMinP:
			if p.MinP > 0 {
				s.keep(most + float32(math.Log(float64(p.MinP))))
			}
		case compute.StageTopK:
			if p.TopK > 0 && p.TopK < len(s.kept) {
				s.keep(s.cut(s.kept, nil, most, slices.Min(s.kept), p.TopK, 0))
			}
		case compute.StageTypical:
			s.typical(most, c.TypicalP)
		case compute.StageTopP:
			if p.TopP < 1 {
				limit := float64(p.TopP) * s.weigh(s.kept, most, 1)
				s.keep(s.cut(s.kept, s.weights, most, max(slices.Min(s.kept), most+weightless), len(s.kept), limit))
			}
		case compute.StageXTC:
			if v < float64(c.XTCProbability) {
				s.excludeTop(most, c.XTCThreshold)
			}
		case compute.StageMirostat:
			return s.mirostat(most, c.Mirostat, n, u)
		}
		most = slices.Max(s.kept)
	}
	return s.ids[s.draw(s.kept, most, 1, u)]
}

// keepIf drops tokens left, by their index.
func (s *Sampler) keepIf(stays func(i int) bool) {
	n := 0
	for i := range s.kept {
		if stays(i) {
			s.ids[n], s.kept[n] = s.ids[i], s.kept[i]
			n++
		}
	}
	s.ids, s.kept = s.ids[:n], s.kept[:n]
}

// heat divides the logits by the temperature.
func (s *Sampler) heat(most, temperature float32, c *compute.Chain) {
	t := float64(temperature)
	if c.DynamicRange > 0 && len(s.kept) > 1 {
		low, high := max(0, t-float64(c.DynamicRange)), t+float64(c.DynamicRange)
		entropy, _ := s.entropy(most)
		share := entropy / math.Log(float64(len(s.kept)))
		t = low + (high-low)*math.Pow(share, float64(c.DynamicExponent))
	}
	if t == 1 {
		return
	}
	for i, l := range s.kept {
		s.kept[i] = float32(max(float64(l)/max(t, 1e-6), -math.MaxFloat32))
	}
}

// entropy returns that of the tokens left, in nats, with the sum of their weights, which are in s.weights.
func (s *Sampler) entropy(most float32) (nats, total float64) {
	total, sum := s.weigh(s.kept, most, 1), 0.0
	for i, w := range s.weights {
		if w > 0 {
			sum += float64(w) * float64(most-s.kept[i])
		}
	}
	return sum/total + math.Log(total), total
}

func (s *Sampler) withinSigmas(most, sigmas float32) {
	if sigmas <= 0 {
		return
	}
	mean, square := 0.0, 0.0
	for _, l := range s.kept {
		mean += float64(l)
	}
	mean /= float64(len(s.kept))
	for _, l := range s.kept {
		square += (float64(l) - mean) * (float64(l) - mean)
	}
	s.keep(float32(float64(most) - float64(sigmas)*math.Sqrt(square/float64(len(s.kept)))))
}

func (s *Sampler) typical(most, share float32) {
	if share >= 1 {
		return
	}
	entropy, total := s.entropy(most)
	norm := float64(most) + math.Log(total)
	s.scores = resized(s.scores, len(s.kept))
	for i, w := range s.weights {
		s.scores[i] = negInf
		if w > 0 {
			s.scores[i] = float32(-math.Abs(norm - float64(s.kept[i]) - entropy))
		}
	}
	low, high := float32(0), negInf
	for _, x := range s.scores {
		if x > negInf {
			low, high = min(low, x), max(high, x)
		}
	}
	least := s.cut(s.scores, s.weights, high, low, len(s.scores), float64(share)*total)
	s.keepIf(func(i int) bool { return s.scores[i] >= least })
}

// excludeTop drops the likely tokens but the least likely of them.
func (s *Sampler) excludeTop(most, threshold float32) {
	total := s.weigh(s.kept, most, 1)
	last, likely := -1, 0
	for i, w := range s.weights {
		if float64(w)/total >= float64(threshold) {
			likely++
			if last < 0 || s.kept[i] <= s.kept[last] {
				last = i
			}
		}
	}
	if likely > 1 {
		s.keepIf(func(i int) bool { return i == last || float64(s.weights[i])/total < float64(threshold) })
	}
}

// mirostat draws token n of an output from those that surprise by at most a limit, and sets the next one's.
func (s *Sampler) mirostat(most float32, m *compute.Mirostat, n uint64, u float64) int32 {
	if len(m.Limits) == 0 {
		m.Limits = append(m.Limits, 2*m.Target)
	}
	for uint64(len(m.Limits)) <= n { // tokens that nobody chose
		m.Limits = append(m.Limits, m.Limits[len(m.Limits)-1])
	}
	m.Limits = m.Limits[:n+1] // the tokens from n on are chosen again
	if len(s.kept) == 1 {     // nothing is chosen: the limit stays as it does for tokens that nobody chose
		return s.ids[0]
	}
	limit := float64(m.Limits[n])
	total := s.weigh(s.kept, most, 1)
	s.keep(float32(float64(most) + min(0, math.Log(total)-limit*math.Ln2))) // -log2(w/total) <= limit, or the greatest
	i := s.draw(s.kept, most, 1, u)
	total = s.weigh(s.kept, most, 1)
	surprise := -math.Log2(float64(s.weights[i]) / total)
	m.Limits = append(m.Limits, float32(limit-float64(m.Rate)*(surprise-float64(m.Target))))
	return s.ids[i]
}
