package meter

import (
	"strings"
	"testing"
	"time"
)

func TestWindows(t *testing.T) {
	now := time.Date(2026, 2, 27, 23, 59, 30, 0, time.FixedZone("", -3600)) // 28 February 00:59:30 UTC
	for per, want := range map[string][2]string{
		"1m":    {"2026-02-28T00:59:00Z", "2026-02-28T01:00:00Z"},
		"24h":   {"2026-02-28T00:00:00Z", "2026-03-01T00:00:00Z"},
		"month": {"2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z"},
		"ever":  {"1970-01-01T00:00:00Z", "9000-01-01T00:00:00Z"},
	} {
		begin, end := Limit{Per: per}.window(now)
		if got := [2]string{begin.Format(time.RFC3339), end.Format(time.RFC3339)}; got != want {
			t.Errorf("%s: %v; want %v", per, got, want)
		}
	}
}

func TestPrices(t *testing.T) {
	for _, c := range []struct {
		price Price
		use   Use
		want  int64
	}{
		{Price{Input: 0.15, Cached: 0.075, Output: 0.60}, Use{Input: 1000, Cached: 400, Output: 100}, 90_000 + 30_000 + 60_000},
		{Price{Input: 0.15, Output: 0.60}, Use{Input: 1000, Cached: 400}, 150_000},
		{Price{Input: 2}, Use{Input: 10, Cached: 99}, 20_000},
		{Price{}, Use{Input: 10, Output: 10}, 0},
	} {
		if got := c.use.Priced(c.price).Nanos; got != c.want {
			t.Errorf("%+v of %+v costs %d; want %d", c.use, c.price, got, c.want)
		}
	}
}

func TestChecks(t *testing.T) {
	for _, c := range []struct {
		limit Limit
		want  string // in the error; "" is none
	}{
		{Limit{What: "requests", Per: "1m", Most: 1}, ""},
		{Limit{What: "cost", Per: "month", Most: 0.01}, ""},
		{Limit{What: "tokens", Per: "1m", Most: 1}, "total_tokens"},
		{Limit{Per: "1m", Most: 1}, "what is"},
		{Limit{What: "requests", Per: "1ms", Most: 1}, "at least 1s"},
		{Limit{What: "requests", Per: "day", Most: 1}, "at least 1s"},
		{Limit{What: "requests", Per: "1m"}, "more than 0"},
		{Limit{What: "requests", Per: "1m", Most: 0.5}, "more than 0"},
		{Limit{What: "cost", Per: "1m", Most: 1e10}, "more than 0"},
	} {
		err := c.limit.Check()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v; want %q", c.limit, err, c.want)
		}
	}
	for url, ok := range map[string]bool{
		"memory:": true, "sqlite:": true, "sqlite:/x/y.db": true, "postgres://u@h/db": true, "redis://h:6379/1": true, "rediss://h": true,
		"": false, "memory": false, "memory:x": false, "redis:": false, "mysql://h": false,
	} {
		if err := CheckURL(url); (err == nil) != ok {
			t.Errorf("%q: %v", url, err)
		}
	}
}

func TestExport(t *testing.T) {
	hour := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	rows := []Row{
		{Hour: hour, Key: "b,\"c\"", Model: "m", Use: Use{1, 2, 1, 3, 1_500_000_000}},
		{Hour: hour, Key: "a", Team: "t", Model: "m", Use: Use{Requests: 1}},
	}
	for format, want := range map[string]string{
		"csv": "hour,key,team,model,requests,input_tokens,cached_tokens,output_tokens,cost\n" +
			"2026-01-02T03:00:00Z,a,t,m,1,0,0,0,0\n2026-01-02T03:00:00Z,\"b,\"\"c\"\"\",,m,1,2,1,3,1.5\n",
		"json": `{"usage":[{"hour":"2026-01-02T03:00:00Z","key":"a","team":"t","model":"m","requests":1,"input_tokens":0,"cached_tokens":0,"output_tokens":0,"cost":0},` +
			`{"hour":"2026-01-02T03:00:00Z","key":"b,\"c\"","team":"","model":"m","requests":1,"input_tokens":2,"cached_tokens":1,"output_tokens":3,"cost":1.5}]}` + "\n",
	} {
		var b strings.Builder
		if err := Export(&b, format, rows); err != nil || b.String() != want {
			t.Errorf("%s: %v\n%s", format, err, b.String())
		}
	}
}
