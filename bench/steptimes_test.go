package bench

import (
	"testing"
	"time"

	"github.com/kvasir-llm/kvasir/engine"
)

func TestSteps(t *testing.T) {
	var s Steps
	if r := s.report(); r != (StepReport{}) {
		t.Errorf("no steps: %+v", r)
	}
	for i := range 101 { // 0 to 100 ms
		s.StepDone(engine.StepDone{Rows: 3, Seqs: 3, Duration: time.Duration(i) * time.Millisecond})
	}
	s.StepDone(engine.StepDone{Rows: 2, Seqs: 2, Duration: 7 * time.Millisecond})
	for range 200 { // with parts of prompts
		s.StepDone(engine.StepDone{Rows: 40, Seqs: 3, Duration: 500 * time.Millisecond})
	}
	want := StepReport{All: StepTimes{302, 500, 500, 500}, Equal: StepTimes{101, 50, 99, 100}, Seqs: 3}
	if r := s.report(); r != want {
		t.Errorf("%+v, want %+v", r, want)
	}
	if r := s.report(); r.All.Count != 0 {
		t.Errorf("%d steps are told again", r.All.Count)
	}
}
