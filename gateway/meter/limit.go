package meter

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Limit bounds what a subject uses in each window of time.
type Limit struct {
	What  string  `yaml:"what"`  // one of whats
	Per   string  `yaml:"per"`   // a time such as 1m or 24h, month, or ever
	Most  float64 `yaml:"most"`  // requests or tokens; for cost, in the currency of the prices
	Model string  `yaml:"model"` // counts this model alone; "" counts all
}

// whats are what can be limited.
var whats = []string{"requests", "input_tokens", "output_tokens", "total_tokens", "cost"}

// Check refuses a limit that cannot be meant.
func (l Limit) Check() error {
	if !strings.Contains(" "+strings.Join(whats, " ")+" ", " "+l.What+" ") || l.What == "" {
		return fmt.Errorf("what is %q; want one of %s", l.What, strings.Join(whats, ", "))
	}
	if d, err := time.ParseDuration(l.Per); l.Per != "month" && l.Per != "ever" && (err != nil || d < time.Second) {
		return fmt.Errorf("per is %q; want a time of at least 1s such as 1m or 24h, month, or ever", l.Per)
	}
	if l.Most <= 0 || !(l.most() >= 1 && l.most() < 1<<53) {
		return fmt.Errorf("most is %v; want more than 0 and less than 9e15, of cost less than 9e6", l.Most)
	}
	return nil
}

// nanos are the units that costs are counted in: billionths of the prices' currency.
const nanos = 1e9

func (l Limit) most() int64 {
	if l.What == "cost" {
		return int64(math.Min(l.Most*nanos, 1<<53))
	}
	return int64(math.Min(l.Most, 1<<53))
}

// window returns the window that a time is in. Windows begin at multiples of their length since the year 1, so that
// those of days begin at midnight, and months at their first day, in UTC.
func (l Limit) window(now time.Time) (begin, end time.Time) {
	now = now.UTC()
	switch l.Per {
	case "month":
		begin = time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
		return begin, begin.AddDate(0, 1, 0)
	case "ever":
		return time.Unix(0, 0).UTC(), time.Date(9000, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	d, _ := time.ParseDuration(l.Per) // Check has seen it
	begin = now.Truncate(d)
	return begin, begin.Add(d)
}

// Price is what a million tokens cost.
type Price struct {
	Input  float64 `yaml:"input"`
	Cached float64 `yaml:"cached"` // of a prompt's tokens that were in the endpoint's cache; 0 is Input's price
	Output float64 `yaml:"output"`
}

// Check refuses a price that cannot be meant.
func (p Price) Check() error {
	for _, x := range []float64{p.Input, p.Cached, p.Output} {
		if !(x >= 0 && x <= 1e6) {
			return fmt.Errorf("a price is %v; want 0 to 1000000 for a million tokens", x)
		}
	}
	return nil
}

// Use is what requests used.
type Use struct {
	Requests int64
	Input    int64 // tokens of prompts, with those cached
	Cached   int64
	Output   int64
	Nanos    int64 // cost, in billionths of the prices' currency
}

// Priced returns the use with its cost.
func (u Use) Priced(p Price) Use {
	cached := p.Cached
	if cached == 0 {
		cached = p.Input
	}
	read := min(u.Cached, u.Input)
	perMillion := p.Input*float64(u.Input-read) + cached*float64(read) + p.Output*float64(u.Output)
	u.Nanos = int64(math.Round(perMillion * (nanos / 1e6)))
	return u
}

// Cost is in the currency of the prices.
func (u Use) Cost() float64 { return float64(u.Nanos) / nanos }

func (u Use) of(what string) int64 {
	switch what {
	case "requests":
		return u.Requests
	case "input_tokens":
		return u.Input
	case "output_tokens":
		return u.Output
	case "total_tokens":
		return u.Input + u.Output
	}
	return u.Nanos
}
