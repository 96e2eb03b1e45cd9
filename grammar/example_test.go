package grammar_test

import (
	"fmt"

	"github.com/kvasir-llm/kvasir/grammar"
)

// A vocabulary of six tokens, and an output that matches a regular expression: which tokens may follow each other.
func Example() {
	words := []string{"<end>", "a", "b", "ab", "c", "ba"}
	var tokens []grammar.Token
	for i, w := range words {
		tokens = append(tokens, grammar.Token{Bytes: []byte(w), Special: i == 0})
	}
	v := grammar.NewVocab(tokens, []int32{0}, nil)
	g, err := grammar.Compile(grammar.Spec{Regex: "(ab)+c?"}, v, grammar.DefaultLimits)
	if err != nil {
		panic(err)
	}
	m := g.Start()
	mask := make([]uint32, 1) // a bit for each token
	for _, next := range []int32{1, 5, 2, 4, 0} {
		clear(mask)
		m.Mask(mask)
		var may []string
		for i, w := range words {
			if mask[0]>>i&1 > 0 {
				may = append(may, w)
			}
		}
		fmt.Printf("%q may come, %q comes\n", may, words[next])
		if err := m.Accept(next); err != nil {
			panic(err)
		}
	}
	_, err = grammar.Compile(grammar.Spec{Regex: "(ab"}, v, grammar.DefaultLimits)
	fmt.Println(err)
	// Output:
	// ["a" "ab"] may come, "a" comes
	// ["b" "ba"] may come, "ba" comes
	// ["b" "ba"] may come, "b" comes
	// ["<end>" "a" "ab" "c"] may come, "c" comes
	// ["<end>"] may come, "<end>" comes
	// grammar: the regular expression "(ab" has a ( without a ) at byte 3 of "(ab"
}
