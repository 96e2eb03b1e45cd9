package server

import (
	"os"
	"regexp"
	"testing"

	"github.com/kvasir-llm/kvasir/engine"
)

// TestDashboard makes sure that every metric that Grafana's dashboard asks for is served.
func TestDashboard(t *testing.T) {
	dashboard, err := os.ReadFile("../packaging/compose/grafana/kvasir.json")
	if err != nil {
		t.Fatal(err)
	}
	observer := &Observer{}
	fake := served(newFake("fake", "x"))
	fake.Observer = observer
	s := build(t, Config{Models: []Served{fake}})
	observer.StepDone(engine.StepDone{Rows: 3, Seqs: 3})
	observer.RequestDone(engine.RequestDone{Prompt: 10, Generated: 3, Reason: engine.FinishStop})
	asked := regexp.MustCompile(`(vllm:|kvasir:|process_)\w+`).FindAllString(string(dashboard), -1)
	if len(asked) < 12 {
		t.Fatalf("the dashboard asks for %q; want more", asked)
	}
	for _, name := range asked {
		if scrape(t, s, "^"+name+`[{ ]`) == "" {
			t.Errorf("the dashboard asks for %s, which is not served", name)
		}
	}
}
