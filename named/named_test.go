package named

import (
	"slices"
	"strings"
	"testing"
)

func TestList(t *testing.T) {
	l := List[int]{{Name: "one", Help: "the default", Is: 1}, {Name: "two", Is: 2}, {Name: "three", Help: "more", Is: 3}}
	if got := l.Names(); !slices.Equal(got, []string{"one", "two", "three"}) {
		t.Error(got)
	}
	if got := l.Help(); got != "one (the default), two or three (more)" {
		t.Error(got)
	}
	for name, want := range map[string]int{"": 1, "one": 1, "three": 3} {
		if got, err := l.Find("number", name); got != want || err != nil {
			t.Errorf("%q: %d, %v", name, got, err)
		}
	}
	if _, err := l.Find("number", "four"); err == nil || !strings.Contains(err.Error(), `number is "four"; want one of one, two, three`) {
		t.Error(err)
	}
	type word string
	if got := Plain(Value[word]{Is: "a"}, Value[word]{Is: "b"}).Help(); got != "a or b" {
		t.Error(got)
	}
}
