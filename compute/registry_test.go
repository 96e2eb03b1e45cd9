package compute

import (
	"errors"
	"strings"
	"testing"
)

// TestKindOf finds devices by name among two kinds, of which the better one cannot be used.
func TestKindOf(t *testing.T) {
	before := kinds
	defer func() { kinds = before }()
	kinds = nil
	opened := ""
	open := func(kind string) func(string, Options) (Device, error) {
		return func(which string, _ Options) (Device, error) {
			opened = kind + " " + which
			return nil, errors.New("opened")
		}
	}
	Register(Kind{Name: "slow", Rank: 2, Open: open("slow"), Find: func() []Found { return []Found{{Name: "slow:3"}} }})
	Register(Kind{Name: "fast", Rank: 1, Open: open("fast"), Find: func() []Found { return []Found{{Name: "fast", Unused: "no driver"}} }})
	for name, want := range map[string]string{"": "slow 3", "auto": "slow 3", "slow": "slow ", "fast:1": "fast 1"} {
		k, which, err := KindOf(name)
		if got := k.Name + " " + which; got != want || err != nil {
			t.Errorf("KindOf(%q) = %s, %v; want %s", name, got, err, want)
		}
		if _, err := Open(name, Options{}); opened != want || err == nil {
			t.Errorf("Open(%q) opens %s, %v; want %s", name, opened, err, want)
		}
	}
	if _, _, err := KindOf("quick"); err == nil || !strings.Contains(err.Error(), "want auto or one of [fast slow]") {
		t.Errorf("an unknown kind: %v", err)
	}
	kinds[1].Probe = func(f *Found) { f.Free, f.Unused = 7, "out of memory" }
	if all := Devices(); len(all) != 2 || all[0].Free != 0 || all[1].Free != 7 || all[1].Unused != "out of memory" {
		t.Errorf("of devices one of which can be probed: %+v", all)
	}
	kinds = kinds[:1]
	if _, err := Open("", Options{}); err == nil || !strings.Contains(err.Error(), "no driver") {
		t.Errorf("no device that can be used: %v", err)
	}
}
