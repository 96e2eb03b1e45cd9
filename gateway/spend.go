package gateway

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/kvasir-llm/kvasir/gateway/meter"
)

// reserve takes what a request to a model may use before it goes.
func (x *exchange) reserve(m *model) *refusal {
	a, s := x.account, x.g.setup.Load()
	x.g.mu.Lock()
	name, price := m.name, m.Price
	subjects := []meter.Subject{{Name: "the model " + name, Limits: m.Limits}}
	full := a != nil && a.key.MaxInFlight > 0 && x.g.flights[a.key.Name] >= a.key.MaxInFlight
	if a != nil && !full {
		x.g.flights[a.key.Name]++
	}
	x.g.mu.Unlock()
	if full {
		return &refusal{status: http.StatusTooManyRequests, kind: "rate_limit_error", code: "rate_limit_exceeded", retry: time.Second,
			message: "the API key " + a.key.Name + " has as many requests at once as it may"}
	}
	if a != nil {
		subjects = append(subjects, meter.Subject{Name: "the API key " + a.key.Name, Limits: a.key.Limits})
		if a.key.Team != "" {
			subjects = append(subjects, meter.Subject{Name: "the team " + a.key.Team, Limits: s.teams[a.key.Team]})
		}
	}
	estimate := meter.Use{Requests: 1, Input: int64(x.prompt()), Output: int64(x.answer())}.Priced(price)
	hold, err := x.g.meter.Reserve(x.r.Context(), unique(), name, subjects, estimate)
	if err == nil {
		x.hold = hold
		return nil
	}
	x.g.landed(a)
	var beyond *meter.Refused
	if errors.As(err, &beyond) {
		return &refusal{status: http.StatusTooManyRequests, kind: "rate_limit_error", code: "rate_limit_exceeded",
			message: err.Error(), retry: beyond.Retry}
	}
	return unavailable("requests cannot be counted now; the gateway's log says why")
}

// settle corrects what was reserved by what was used, once the request has ended.
func (x *exchange) settle() {
	used := x.spent()
	x.cost = used.Cost()
	key, team := "", ""
	if x.account != nil {
		key, team = x.account.key.Name, x.account.key.Team
	}
	x.hold.Settle(key, team, x.model, used)
	x.g.landed(x.account)
}

// spent is what a request used, with its price. What an endpoint did not count is estimated.
func (x *exchange) spent() meter.Use {
	used := meter.Use{Requests: 1, Input: int64(x.used.in()), Cached: int64(x.used.cached()), Output: int64(x.used.out() + x.earlier)}
	if used.Input == 0 && used.Output > 0 {
		used.Input = int64(x.prompt())
	}
	return used.Priced(x.price)
}

// landed says that a request of an account has ended.
func (g *Gateway) landed(a *account) {
	if a != nil {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.flights[a.key.Name]--; g.flights[a.key.Name] == 0 {
			delete(g.flights, a.key.Name)
		}
	}
}

// priceOf returns a model's price.
func (g *Gateway) priceOf(m *model) meter.Price {
	g.mu.Lock()
	defer g.mu.Unlock()
	return m.Price
}

// showUsage exports what was used: all of it for an admin's key, and what itself used for another.
func (g *Gateway) showUsage(w http.ResponseWriter, r *http.Request) {
	a, refused := g.admit(r)
	if refused != nil {
		refused.write(w)
		return
	}
	q := r.URL.Query()
	format := q.Get("format")
	now := time.Now().UTC()
	from, err := readTime(q.Get("from"), time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC))
	to, bad := readTime(q.Get("to"), now.Add(time.Second))
	for name := range q {
		if !slices.Contains([]string{"from", "to", "format"}, name) {
			invalid(name, "unknown parameter "+name+"; there are from, to and format").write(w)
			return
		}
	}
	if err != nil || bad != nil || format != "" && format != "csv" && format != "json" {
		invalid("", "want from and to as 2026-01-31 or 2026-01-31T12:00:00Z, and format as json or csv").write(w)
		return
	}
	rows, err := g.meter.Usage(r.Context(), from, to)
	if err != nil {
		unavailable("what was used cannot be read: " + err.Error()).write(w)
		return
	}
	if a != nil && !a.key.Admin {
		rows = slices.DeleteFunc(rows, func(u meter.Row) bool { return u.Key != a.key.Name })
	}
	h := w.Header()
	if h.Set("Content-Type", "application/json"); format == "csv" {
		h.Set("Content-Type", "text/csv; charset=utf-8")
	}
	meter.Export(w, format, rows) // if the client has gone, nobody is left to tell
}

// readTime reads a day or a time; "" is the usual one.
func readTime(text string, usual time.Time) (time.Time, error) {
	switch {
	case text == "":
		return usual, nil
	case strings.Contains(text, "T"):
		return time.Parse(time.RFC3339, text)
	}
	return time.Parse(time.DateOnly, text)
}
