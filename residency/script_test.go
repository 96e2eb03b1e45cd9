package residency

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestScripts runs the stories in testdata. Time passes only where a command says so.
//
//	new memory=N [most=N]                                a new Residency
//	ask id=N model=NAME [size=N] [keep=N] [pinned]       a request; keep is Forever if it is not given
//	done N…                                              requests end, or their clients leave
//	loaded NAME [size=N], failed NAME, closed NAME       what was to be done is done
//	stop NAME                                            a model is to leave
//	after N                                              N milliseconds pass
//	models                                               what is in memory, and who waits
//
// Each prints what is to be done then, and when something happens by itself.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var r *Residency
		now := int64(0)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			number := func(name string, usual int64) int64 {
				d.MaybeScanArgs(t, name, &usual)
				return usual
			}
			var out []Action
			switch d.Cmd {
			case "new":
				r, now = New(Config{Memory: number("memory", 0), Most: int(number("most", 0))}), 0
			case "ask":
				w := Want{Size: number("size", 10), Keep: number("keep", Forever), Pinned: d.HasArg("pinned")}
				d.ScanArgs(t, "model", &w.Model)
				out = r.Ask(uint64(number("id", 0)), w, now)
			case "done":
				for _, a := range d.CmdArgs {
					var id uint64
					fmt.Sscan(a.Key, &id)
					out = append(out, r.Done(id, now)...)
				}
			case "loaded":
				name := d.CmdArgs[0].Key
				size, _ := r.Known(name)
				out = r.Loaded(name, number("size", size), now)
			case "failed":
				out = r.Failed(d.CmdArgs[0].Key, now)
			case "closed":
				out = r.Closed(d.CmdArgs[0].Key, now)
			case "stop":
				out = r.Stop(d.CmdArgs[0].Key, now)
			case "after":
				var ms int64
				fmt.Sscan(d.CmdArgs[0].Key, &ms)
				now += ms
				out = r.Tick(now)
			case "models":
				return models(r)
			default:
				t.Fatalf("%s: unknown command %s", d.Pos, d.Cmd)
			}
			check(t, d.Pos, r)
			return actions(out) + wakes(r, now)
		})
	})
}

func actions(all []Action) string {
	var b strings.Builder
	for _, a := range all {
		switch a.Verb {
		case Admit:
			fmt.Fprintf(&b, "request %d uses %s\n", a.Request, a.Model)
		case Refuse:
			fmt.Fprintf(&b, "request %d is refused: %s %s\n", a.Request, a.Model, map[Reason]string{TooLarge: "is too large",
				broken: "cannot be loaded"}[a.Reason])
		case Load:
			fmt.Fprintf(&b, "load %s within %d\n", a.Model, a.Room)
		case Close:
			fmt.Fprintf(&b, "close %s\n", a.Model)
		}
	}
	return b.String()
}

func wakes(r *Residency, now int64) string {
	if at, ok := r.Wake(); ok {
		return fmt.Sprintf("wakes in %d\n", at-now)
	}
	return "ok\n"
}

func models(r *Residency) string {
	var b strings.Builder
	for _, s := range r.Models() {
		state := [...]string{"absent", "loading", "resident", "closing"}[s.State]
		fmt.Fprintf(&b, "%s: %s, %d bytes, %d running, %d waiting\n", s.Model, state, s.Size, s.Running, s.Waiting)
	}
	return b.String()
}

// check holds what is always so: one model at most is being loaded, and what is in memory fits as far as it was known.
func check(t *testing.T, pos string, r *Residency) {
	t.Helper()
	loading, sum, n := 0, int64(0), 0
	for _, s := range r.Models() {
		if s.State != Absent {
			sum += s.Size
			n++
		}
		if s.State == Loading {
			loading++
		}
		if s.Running > 0 && s.State != Resident {
			t.Fatalf("%s: %s has requests and is not resident", pos, s.Model)
		}
	}
	if loading > 1 || sum > r.cfg.Memory || r.cfg.Most > 0 && n > r.cfg.Most {
		t.Fatalf("%s: %d models are being loaded, %d of %d bytes are taken, %d models are there", pos, loading, sum, r.cfg.Memory, n)
	}
}
