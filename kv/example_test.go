package kv_test

import (
	"fmt"

	"github.com/kvasir-llm/kvasir/kv"
)

// A second sequence begins like the first, whose full blocks it finds by their names.
func Example() {
	pool, err := kv.New(kv.Config{Blocks: 8, BlockTokens: 4})
	if err != nil {
		panic(err)
	}
	for _, tokens := range [][]int32{{1, 2, 3, 4, 5, 6, 7, 8, 9}, {1, 2, 3, 4, 5, 6, 7, 0, 0, 0}} {
		var names []kv.Hash
		parent := kv.Root("0")
		for i := 0; i+4 <= len(tokens); i += 4 {
			parent = kv.HashBlock(parent, tokens[i:i+4], kv.Keys{})
			names = append(names, parent)
		}
		n := len(tokens)
		var offer kv.Offer
		pool.Offer(&offer, kv.Want{Length: n, Rows: n, Room: n, Lookup: true, Names: names, Tokens: tokens[:n-1]})
		fmt.Printf("finds %d tokens and takes %d blocks of %d\n", offer.Found, offer.Need, pool.Available())
		var copies []kv.Copy
		table := pool.Accept(&offer, &copies)
		fmt.Printf("is in blocks %v; copies %v\n", table.Blocks, copies)
		for i := int(table.Named); i < n/4; i++ { // once they are computed
			pool.Register(&table, names[:i+1], tokens[4*i:4*i+4])
		}
		pool.Release(&table)
	}
	fmt.Println(pool.Stats())
	// Output:
	// finds 0 tokens and takes 3 blocks of 8
	// is in blocks [[0 1 2]]; copies []
	// finds 7 tokens and takes 2 blocks of 8
	// is in blocks [[0 3 2]]; copies [{1 3}]
	// blocks: 0 used, 3 cached, 5 free; prefix: 7 of 19 tokens; evictions: 0
}
