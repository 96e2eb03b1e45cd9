package route

import "math"

// latency learns how long an endpoint takes for requests, from those it has answered: the time to the first token from
// the tokens to compute and those in flight, the time of each later one from the requests in flight. Both are linear
// models that are fitted online, so that endpoints on different hardware need no settings.
type latency struct{ first, next linear }

// known is how many answers a prediction needs.
const known = 5

// unit scales tokens to numbers of about 1.
const unit = 1024

// learn takes note of an answer: tokens to compute and tokens in flight when the request was sent, seconds to its first
// token.
func (l *latency) learn(uncached, inFlight, seconds float64) {
	l.first.learn([3]float64{1, uncached / unit, inFlight / unit}, seconds)
}

// learnNext takes note of the mean time between later tokens with so many requests in flight.
func (l *latency) learnNext(requests int, seconds float64) {
	l.next.learn([3]float64{1, float64(requests), 0}, seconds)
}

// predict returns how many seconds an answer takes, and of these how many until the first token and for each later one;
// 0 if nothing is known.
func (l *latency) predict(uncached, inFlight float64, requests, output int) (seconds, first, next float64) {
	if l.first.seen < known {
		return 0, 0, 0
	}
	first = l.first.predict([3]float64{1, uncached / unit, inFlight / unit})
	if l.next.seen >= known {
		next = l.next.predict([3]float64{1, float64(requests + 1), 0})
	}
	return max(first+float64(output)*next, 1e-6), first, next
}

// linear is a linear model of three features, fitted by recursive least squares with a forgetting factor.
type linear struct {
	seen  int
	coefs [3]float64
	cov   [3][3]float64 // of the coefficients, but for the noise's variance
}

const (
	forget   = 0.99 // the weight of all earlier samples after one more
	firstCov = 100
	mostCov  = 1e4 // of a coefficient; forgetting would raise that of a feature that stays 0 without bound
)

func (m *linear) predict(x [3]float64) (y float64) {
	for i := range x {
		y += m.coefs[i] * x[i]
	}
	return max(y, 0)
}

func (m *linear) learn(x [3]float64, y float64) {
	if m.seen == 0 {
		for i := range m.cov {
			m.cov[i][i] = firstCov
		}
	}
	m.seen++
	var px [3]float64
	norm, missed := forget, y
	for i := range x {
		for j := range x {
			px[i] += m.cov[i][j] * x[j]
		}
		norm += x[i] * px[i]
		missed -= m.coefs[i] * x[i]
	}
	for i := range x {
		m.coefs[i] += px[i] / norm * missed
	}
	for i := range x {
		for j := range x {
			m.cov[i][j] = (m.cov[i][j] - px[i]*px[j]/norm) / forget
		}
	}
	for i := range x {
		if shrink := math.Sqrt(mostCov / m.cov[i][i]); shrink < 1 {
			for j := range x {
				m.cov[i][j] *= shrink
				m.cov[j][i] *= shrink
			}
		}
	}
}
