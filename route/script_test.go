package route

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// story is a fleet that a script tells about.
type story struct {
	fleet   *Fleet
	policy  *Policy
	ids     map[string]int
	flights map[string]*Flight
}

// TestScripts runs the stories in testdata. Their commands are the methods of Fleet: "join", "leave", "tell", "down",
// "choose" (and send it there, if it has a name), "first", "end", and "policy".
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := &story{fleet: NewFleet(Options{Seed: 1, Blocks: 1000}), ids: map[string]int{}, flights: map[string]*Flight{}}
		s.policy, _ = NewPolicy("", nil)
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
	var name, preset, why, adapters string
	var e Endpoint
	var l Load
	var q Request
	var conversation, blocks, tokens int
	var cost, kv, seconds float64
	weights := Weights{}
	for _, a := range d.CmdArgs {
		var err error
		number := func(into *float64) { _, err = fmt.Sscan(a.Vals[0], into) }
		whole := func(into *int) { _, err = fmt.Sscan(a.Vals[0], into) }
		if d.Cmd == "policy" && a.Key != "preset" {
			var w float64
			number(&w)
			weights[a.Key] = w
			continue
		}
		switch a.Key {
		case "cost":
			number(&cost)
		case "zone":
			e.Zone, q.Zone = a.Vals[0], a.Vals[0]
		case "limit":
			whole(&e.Limit)
		case "context":
			whole(&e.Context)
		case "waiting":
			whole(&l.Waiting)
		case "running":
			whole(&l.Running)
		case "kv":
			number(&kv)
		case "adapters":
			adapters = a.Vals[0]
		case "room":
			l.AdapterRoom = true
		case "why":
			why = a.Vals[0]
		case "preset":
			preset = a.Vals[0]
		case "prompt": // conversation:blocks, of 64 tokens
			_, err = fmt.Sscanf(a.Vals[0], "%d:%d", &conversation, &blocks)
			q.Blocks, q.Tokens, q.Context = prompt(uint64(conversation), blocks), 64*blocks, 64*blocks
		case "output":
			whole(&q.Output)
		case "session":
			q.Session = a.Vals[0]
		case "adapter":
			q.Adapter = a.Vals[0]
		case "tried":
			q.Tried = append(q.Tried, s.ids[a.Vals[0]])
		case "seconds":
			number(&seconds)
		case "tokens":
			whole(&tokens)
		default:
			if name = a.Key; len(a.Vals) > 0 {
				return "", fmt.Errorf("unknown argument %s", a.Key)
			}
		}
		if err != nil {
			return "", fmt.Errorf("%s: %v", a.Key, err)
		}
	}
	e.Name, e.Cost, l.KVUse = name, cost, kv
	if adapters != "" {
		l.Adapters = strings.Split(adapters, "+")
	}
	switch d.Cmd {
	case "policy":
		p, err := NewPolicy(preset, weights)
		if err != nil {
			return err.Error() + "\n", nil
		}
		s.policy = p
	case "join":
		id, err := s.fleet.Join(e)
		s.ids[name] = id
		return "", err
	case "leave":
		s.fleet.Leave(s.ids[name])
		delete(s.ids, name)
	case "tell":
		s.fleet.SetLoad(s.ids[name], l)
	case "down":
		s.fleet.SetDown(s.ids[name], why)
	case "choose":
		return s.choose(name, &q), nil
	case "first":
		s.flights[name].First(seconds)
	case "end":
		s.flights[name].End(tokens, seconds)
	default:
		return "", fmt.Errorf("unknown command %s", d.Cmd)
	}
	return "", nil
}

// choose explains a decision, one candidate to a line, and sends the request if it has a name.
func (s *story) choose(name string, q *Request) string {
	var among []int
	for _, id := range s.ids {
		among = append(among, id)
	}
	slices.Sort(among)
	d := s.fleet.Choose(s.policy, q, among)
	out := strings.ReplaceAll(d.String(), "; ", "\n") + "\n"
	if d.Chosen < 0 {
		return out + "nobody can\n"
	}
	if name != "" {
		s.flights[name] = s.fleet.Send(d.Rated[d.Chosen].ID, q)
	}
	return out
}
