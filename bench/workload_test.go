package bench

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestArrivals holds many drawn times against the mean and the variance that the process has.
func TestArrivals(t *testing.T) {
	const n, rate = 40000, 8.0
	for _, tt := range []struct {
		name string
		a    Arrivals
	}{
		{"Poisson", Arrivals{rate, 1, 1}},
		{"bursty", Arrivals{rate, 0.25, 1}},
		{"even", Arrivals{rate, 6, 1}},
		{"bursts of 10", Arrivals{rate, 1, 10}},
	} {
		cs := make([]Conversation, n)
		if err := tt.a.Schedule(cs, 7); err != nil {
			t.Fatal(err)
		}
		var sum, squares float64
		gaps := 0
		for i := tt.a.Burst; i < n; i += tt.a.Burst {
			gap := (cs[i].At - cs[i-1].At).Seconds()
			sum, squares = sum+gap, squares+gap*gap
			gaps++
			if tt.a.Burst > 1 && cs[i].At != cs[i+tt.a.Burst-1].At {
				t.Fatalf("%s: a burst does not arrive together", tt.name)
			}
		}
		mean := sum / float64(gaps)
		variation := math.Sqrt(squares/float64(gaps)-mean*mean) / mean
		if want := float64(tt.a.Burst) / rate; math.Abs(mean/want-1) > 0.05 {
			t.Errorf("%s: a gap is %.4f s on average; want %.4f", tt.name, mean, want)
		}
		if want := 1 / math.Sqrt(tt.a.Burstiness); math.Abs(variation/want-1) > 0.05 {
			t.Errorf("%s: coefficient of variation %.3f; want %.3f", tt.name, variation, want)
		}
	}
	cs := make([]Conversation, 50)
	if err := (Arrivals{math.Inf(1), 1, 1}).Schedule(cs, 1); err != nil || cs[49].At != 0 {
		t.Errorf("all at once: %v, the last after %v", err, cs[49].At)
	}
	for _, bad := range []Arrivals{{0, 1, 1}, {-1, 1, 1}, {math.NaN(), 1, 1}, {1, 0, 1}, {1, math.Inf(1), 1}, {1, 1, 0}, {1e-9, 1, 1}} {
		if bad.Schedule(cs, 1) == nil {
			t.Errorf("%+v are taken", bad)
		}
	}
}

func TestFixed(t *testing.T) {
	f := Fixed{Conversations: 40, Turns: 3, Input: 100, Output: 20, Shared: 0.6, Groups: 4}
	a, err := f.Make(3)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := f.Make(3)
	if diff := cmp.Diff(a, b); diff != "" {
		t.Errorf("the same seed differs: %s", diff)
	}
	if c, _ := f.Make(4); cmp.Equal(a, c) {
		t.Error("another seed makes the same")
	}
	encode := func(string) []int32 { t.Fatal("there is no text"); return nil }
	prompt := func(c Conversation, turn int) (ids []int32) {
		for _, m := range c.Turns[turn].Messages {
			for _, p := range m.Parts {
				ids = p.appendIDs(ids, 1000, encode)
			}
		}
		return ids
	}
	for i, c := range a {
		if len(c.Turns) != 3 || len(prompt(c, 0)) != 100 || len(prompt(c, 1)) != 40 || c.Turns[2].Output != 20 {
			t.Fatalf("conversation %d: %+v", i, c)
		}
		alike := 0
		for x, y := prompt(c, 0), prompt(a[(i+4)%40], 0); alike < 100 && x[alike] == y[alike]; {
			alike++
		}
		if alike < 60 || alike > 65 {
			t.Errorf("conversations %d and %d share %d tokens; want 60", i, i+4, alike)
		}
		if x, y := prompt(c, 0), prompt(a[(i+1)%40], 0); cmp.Equal(x[:60], y[:60]) {
			t.Errorf("conversations %d and %d, of two groups, begin alike", i, i+1)
		}
	}
	f.Spread, f.Shared = 0.5, 1
	a, err = f.Make(1)
	low, high := 1000, 0
	for _, c := range a {
		low, high = min(low, c.Turns[0].Output), max(high, c.Turns[0].Output)
		if len(prompt(c, 1)) == 0 {
			t.Error("a turn says nothing")
		}
	}
	if err != nil || low < 10 || low > 12 || high < 28 || high > 30 {
		t.Errorf("outputs of %d to %d; want 10 to 30, spread evenly (%v)", low, high, err)
	}
	for _, bad := range []Fixed{
		{0, 1, 1, 1, 0, 1, 0}, {1, 0, 1, 1, 0, 1, 0}, {1, 1, 0, 1, 0, 1, 0}, {1, 1, 1, 0, 0, 1, 0}, {1, 1, 1, 1, 2, 1, 0},
		{1, 1, 1, 1, math.NaN(), 1, 0}, {1, 1, 1, 1, 0, 0, 0}, {1, 1, 1, 1, 0, 1, -1}, {1, 1, 1 << 30, 1, 0, 1, 0},
	} {
		if _, err := bad.Make(1); err == nil {
			t.Errorf("%+v is made", bad)
		}
	}
}

func TestPartText(t *testing.T) {
	long, short := Part{Seed: 9, Tokens: 50}.appendText(nil), Part{Seed: 9, Tokens: 20}.appendText(nil)
	if string(long[:len(short)]) != string(short) {
		t.Errorf("%q does not begin with %q", long, short)
	}
	if got := string((Part{Text: "as it is"}).appendText([]byte("x"))); got != "xas it is" {
		t.Errorf("%q", got)
	}
	if n := (Part{Text: "nine byte"}).size() + (Part{IDs: []int32{1, 2}}).size() + (Part{Tokens: 5}).size(); n != 3+2+5 {
		t.Errorf("size %d", n)
	}
}
