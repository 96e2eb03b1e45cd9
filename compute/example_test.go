package compute_test

import (
	"fmt"

	"github.com/kvasir-llm/kvasir/compute"
)

// Two sequences in one batch: a prompt of three tokens, and one token of a sequence that has computed nine.
func Example() {
	var b compute.Batch
	b.Append([]int32{5, 6, 7}, 0, true, []int32{0})
	b.Append([]int32{8}, 9, true, []int32{2, 1, 3})
	fmt.Println("ids", b.IDs, "positions", b.Pos, "logits of rows", b.Logits)
	cache, limits := compute.CacheSpec{Blocks: 4, BlockTokens: 4, Layers: make([]compute.CacheLayer, 1)}, compute.Limits{Rows: 8, Slots: 2}
	fmt.Println(b.Check(100, cache, limits))
	b.IDs[3] = 100
	fmt.Println(b.Check(100, cache, limits))
	// Output:
	// ids [5 6 7 8] positions [0 1 2 9] logits of rows [2 3]
	// <nil>
	// compute: row 3: token 100 is outside the vocabulary of 100
}
