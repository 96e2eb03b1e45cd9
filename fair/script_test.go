package fair

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// story is a queue that a script tells about.
type story struct {
	queue    *Queue
	requests map[string]*Request
}

// TestScripts runs the stories in testdata. Their commands are the methods of Queue: "add" (requests with their
// tenants), "next", "settle", "charge", "first", "remove", "most" and "unused"; "kept" says how many places greedy
// tenants leave free. Times are in seconds.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := &story{queue: NewQueue(8), requests: map[string]*Request{}}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			out, err := s.run(d)
			if err != nil {
				d.Fatalf(t, "%v", err)
			}
			return out
		})
	})
}

func (s *story) run(d *datadriven.TestData) (string, error) {
	var seconds, cost, weight, deadline float64
	var n, priority int
	var names, not []string
	again, places := false, Places{}
	for _, a := range d.CmdArgs {
		var err error
		read := func(into any) { _, err = fmt.Sscan(a.Vals[0], into) }
		switch a.Key {
		case "at":
			read(&seconds)
		case "cost":
			read(&cost)
		case "weight":
			read(&weight)
		case "deadline":
			read(&deadline)
		case "priority":
			read(&priority)
		case "n":
			read(&n)
		case "not":
			not = a.Vals
		case "places": // free/all
			_, err = fmt.Sscanf(a.Vals[0], "%d/%d", &places.Free, &places.All)
		case "again":
			again = true
		default:
			names = append(names, a.Key)
		}
		if err != nil {
			return "", fmt.Errorf("%s: %v", a.Key, err)
		}
	}
	now := int64(seconds * 1e9)
	var out strings.Builder
	switch d.Cmd {
	case "unused":
		s.queue.SetUnused(cost)
	case "kept":
		fmt.Fprintf(&out, "%d\n", s.queue.kept)
	case "first":
		for _, name := range names {
			s.queue.First(now, s.requests[name])
		}
	case "most":
		s.queue.SetMost(n)
	case "add": // names such as alice1, of the tenant alice
		for _, name := range names {
			r := &Request{
				Tenant: strings.TrimRight(name, "0123456789"), Weight: weight, Priority: priority,
				Deadline: int64(deadline * 1e9), Cost: cost, Again: again, Value: name,
			}
			s.requests[name] = r
			if refusal := s.queue.Add(now, r); refusal != nil {
				fmt.Fprintf(&out, "%v: %v\n", refusal.Request.Value, refusal)
			}
		}
		fmt.Fprintf(&out, "%d wait\n", s.queue.Waiting())
	case "next":
		for range max(n, 1) {
			r := s.queue.Next(now, places, func(r *Request) bool {
				for _, name := range not {
					if r.Value == name {
						return false
					}
				}
				return true
			})
			if r == nil {
				out.WriteString("nobody\n")
				break
			}
			places.Free--
			fmt.Fprintf(&out, "%v at %.0f\n", r.Value, s.queue.tenants[r.Tenant].counter)
		}
	case "settle":
		for _, name := range names {
			s.queue.Settle(now, s.requests[name], cost)
		}
	case "charge": // tenants
		for _, name := range names {
			s.queue.Charge(name, weight, priority, cost)
			if t := s.queue.tenants[name]; t != nil {
				fmt.Fprintf(&out, "%s: %.0f\n", name, t.counter)
			} else {
				fmt.Fprintf(&out, "%s: forgotten\n", name)
			}
		}
	case "remove":
		for _, name := range names {
			fmt.Fprintf(&out, "%s: %v\n", name, s.queue.Remove(s.requests[name]))
		}
	default:
		return "", fmt.Errorf("unknown command %s", d.Cmd)
	}
	return out.String(), nil
}
