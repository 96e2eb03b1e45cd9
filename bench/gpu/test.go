package main

import (
	"fmt"
	"regexp"
	"strconv"
)

// test is a test of kvasir bench model.
type test struct{ seqs, rows, steps, depth int }

var testForm = regexp.MustCompile(`^(pp|tg|b)(\d+)(?:x(\d+))?(?:@(\d+))?$`)

func parseTest(name string) (t test, err error) {
	m := testForm.FindStringSubmatch(name)
	if m == nil {
		return t, fmt.Errorf("kvasir bench model says it did %q, which is no test", name)
	}
	n, _ := strconv.Atoi(m[2])
	t.depth, _ = strconv.Atoi(m[4])
	switch t.seqs = 1; m[1] {
	case "pp":
		t.rows = n
		if m[3] != "" {
			t.seqs, _ = strconv.Atoi(m[3])
		}
	case "tg":
		t.steps = n
	case "b":
		t.seqs, t.steps = n, 32
	}
	return t, nil
}

// parts is in how many parts a time is wanted: a decode's for each step, a prompt's as a whole.
func (t test) parts() float64 { return float64(max(t.steps, 1)) }

// shortContext is what a decoding sequence has on average where a row's name does not say it.
const shortContext = 256

// String is the name of the test's row.
func (t test) String() string {
	if t.rows > 0 {
		return count(t.seqs, "prompt") + " of " + comma(t.rows)
	}
	name := count(t.seqs, "sequence")
	if mean := t.depth + t.steps/2; mean != shortContext {
		name += " of " + comma(mean)
	}
	return name
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return comma(n) + " " + what + "s"
}

// comma writes a whole number.
func comma(n int) string {
	s := strconv.Itoa(n)
	for at := len(s) - 3; at > 0; at -= 3 {
		s = s[:at] + "," + s[at:]
	}
	return s
}
