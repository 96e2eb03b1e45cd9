package sched_test

import (
	"fmt"

	"github.com/kvasir-llm/kvasir/sched"
)

// Two requests share steps. Two plans are under way at a time: the second takes from the first the tokens that are not
// known yet.
func Example() {
	s, err := sched.New(sched.Config{Blocks: 8, BlockTokens: 4, MaxSeqs: 4, TokenBudget: 16})
	if err != nil {
		panic(err)
	}
	s.Add(sched.Request{ID: 1, Prompt: []int32{11, 12, 13, 14, 15}, MaxTokens: 2})
	s.Add(sched.Request{ID: 2, Prompt: []int32{21, 22}, MaxTokens: 3})
	next := func() *sched.Plan {
		p := s.Next()
		if p != nil {
			s.Begin(p) // and start its step
		}
		return p
	}
	for p := next(); p != nil; {
		following := next()
		fmt.Println(p)
		ids, results := make([]sched.SeqID, len(p.Seqs)), make([]sched.Result, len(p.Seqs))
		for i, w := range p.Seqs {
			ids[i] = w.ID
			results[i].Tokens = []int32{int32(w.Start + w.N)} // what a model would choose
		}
		s.Commit(p, results)
		for i, r := range results {
			if r.Finished {
				fmt.Printf("seq %d has ended\n", ids[i])
			}
		}
		if p = following; p == nil {
			p = next()
		}
	}
	// Output:
	// 7 rows
	// seq 1: tokens [0,5) in slot 0, samples
	// seq 2: tokens [0,2) in slot 1, samples
	// slot 0, group 0: [0]=0 [1]=1
	// slot 1, group 0: [0]=2
	// 2 rows
	// seq 1: tokens [5,6) in slot 0, the last from 0, samples
	// seq 2: tokens [2,3) in slot 1, the last from 1, samples
	// seq 1 has ended
	// 1 rows
	// seq 2: tokens [3,4) in slot 1, the last from 1, samples
	// seq 2 has ended
}
