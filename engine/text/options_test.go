package text

import "testing"

// TestFirstFault holds that of several options that are wrong the same is always named.
func TestFirstFault(t *testing.T) {
	for range 20 {
		o := Options{Context: -1, MaxChunk: -2, MaxWaiting: -3}
		if err := o.defaults(); err != nil {
			t.Fatal(err)
		}
		if err := o.check(); err == nil || err.Error() != "text: context is -1; want 0 to 16777216" {
			t.Fatalf("error %v", err)
		}
	}
}
