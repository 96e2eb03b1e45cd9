package forge

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/kvasir-llm/kvasir/model"
)

// Comparison is how a model's predictions of a text differ from those of another, its base, token by token.
type Comparison struct {
	Model, Base Perplexity
	// Ratio is the model's perplexity over the base's. Its standard error is that of the tokens' pairs of losses, which
	// is far less than the errors of the two alone: a hard token is hard for both.
	Ratio, RatioError float64
	KL                Divergence
	SameTop           float64 // share of predictions whose likeliest token is the same
	// Logits is the norm of the differences of all logits over the norm of the base's. Each prediction's mean, which
	// changes no probability, is taken off first.
	Logits float64
}

// Divergence is the Kullback-Leibler divergence of a model's predictions from its base's, sum of
// p_base·log(p_base/p), in nats.
type Divergence struct {
	Mean, Error, Median, P99, Max float64
}

// Compare runs a model and its base over the same windows of a text, which count as for MeasurePerplexity. The models
// must have one tokenizer, of which ids are; Progress hears of the first model. It returns what ctx ends with.
func Compare(ctx context.Context, m, base *model.Model, ids []int32, o PerplexityOptions) (Comparison, error) {
	var out Comparison
	if m.Spec.Vocab != base.Spec.Vocab {
		return out, fmt.Errorf("forge: a vocabulary of %d tokens, and of %d in the base; want the same tokens", m.Spec.Vocab, base.Spec.Vocab)
	}
	windows, err := o.windows(ids)
	if err != nil {
		return out, err
	}
	total := 0
	for _, w := range windows {
		total += len(w.ids)
	}
	rows := stepRows(m, total)
	a, err := newSequence(m, rows, o.Context)
	if err != nil {
		return out, err
	}
	b, err := newSequence(base, rows, o.Context)
	if err != nil {
		return out, err
	}
	var sums differences
	for _, w := range windows {
		for at := 0; at < len(w.ids); at += rows {
			if err := ctx.Err(); err != nil {
				return out, err
			}
			first := max(w.from-1, 0)
			from, logits, err := a.step(w.ids, at, first)
			if err != nil {
				return out, err
			}
			_, others, err := b.step(w.ids, at, first)
			if err != nil {
				return out, fmt.Errorf("base: %w", err)
			}
			sums.add(logits, others, w.ids[from+1:])
			out.Model.Computed += min(rows, len(w.ids)-at)
			out.Model.finish(sums.losses)
			if o.Progress != nil {
				o.Progress(out.Model.Computed, total, out.Model)
			}
		}
		out.Model.Windows++
	}
	out.Base = out.Model
	out.Base.finish(sums.baseLosses)
	sums.finish(&out)
	return out, nil
}

// differences adds up what a Comparison is made of. It grows by a number for each prediction.
type differences struct {
	losses, baseLosses, between tally
	kl                          tally
	klOf                        []float64
	same                        int
	off, norm                   float64 // squares
}

// add counts the predictions of the first of the tokens, from the logits of both models.
func (d *differences) add(logits, base [][]float32, tokens []int32) {
	pairs := make([]pair, min(len(logits), len(tokens)))
	parallel(len(pairs), func(i int) { pairs[i] = pairOf(logits[i], base[i], tokens[i]) })
	for _, p := range pairs {
		d.losses.add(p.loss)
		d.baseLosses.add(p.baseLoss)
		d.between.add(p.loss - p.baseLoss)
		d.kl.add(p.kl)
		d.klOf = append(d.klOf, p.kl)
		d.off, d.norm = d.off+p.off, d.norm+p.norm
		if p.same {
			d.same++
		}
	}
}

func (d *differences) finish(out *Comparison) {
	out.Ratio = math.Exp(d.between.mean())
	out.RatioError = out.Ratio * d.between.error()
	slices.Sort(d.klOf)
	n := len(d.klOf)
	out.KL = Divergence{Mean: d.kl.mean(), Error: d.kl.error(), Median: d.klOf[n/2], P99: d.klOf[n*99/100], Max: d.klOf[n-1]}
	out.SameTop = float64(d.same) / float64(n)
	out.Logits = math.Sqrt(d.off / d.norm)
}

// pair is one prediction of two models.
type pair struct {
	loss, baseLoss, kl float64
	same               bool
	off, norm          float64 // squared norms of the logits' differences and of the base's logits, without their means
}

func pairOf(logits, base []float32, token int32) (p pair) {
	a, b := rowOf(logits), rowOf(base)
	p.loss, p.baseLoss = a.logSum-float64(logits[token]), b.logSum-float64(base[token])
	p.same = a.top == b.top
	for i, v := range base {
		by := float64(v) - float64(logits[i])
		p.kl += math.Exp(float64(v)-b.logSum) * by
		by -= b.mean - a.mean
		p.off += by * by
		p.norm += (float64(v) - b.mean) * (float64(v) - b.mean)
	}
	p.kl = max(p.kl+a.logSum-b.logSum, 0)
	return p
}

// logitRow is what is known of the logits of one prediction.
type logitRow struct {
	top          int     // the first of the greatest
	mean, logSum float64 // logSum is the logarithm of the sum of their exponentials
}

func rowOf(logits []float32) (r logitRow) {
	for i, v := range logits {
		r.mean += float64(v)
		if v > logits[r.top] {
			r.top = i
		}
	}
	r.mean /= float64(len(logits))
	top := float64(logits[r.top])
	for _, v := range logits {
		r.logSum += math.Exp(float64(v) - top)
	}
	r.logSum = math.Log(r.logSum) + top
	return r
}
