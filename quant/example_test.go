package quant_test

import (
	"fmt"

	"github.com/kvasir-llm/kvasir/quant"
)

// A row of 32 weights as Q8_0: a scale of 16 bits and 32 bytes.
func Example() {
	row := make([]float32, 32)
	for i := range row {
		row[i] = float32(i-16) / 10
	}
	n, err := quant.Q8_0.RowBytes(len(row))
	if err != nil {
		panic(err)
	}
	packed, back := make([]byte, n), make([]float32, len(row))
	if err := quant.Encode(packed, row, quant.Q8_0); err != nil {
		panic(err)
	}
	if err := quant.Decode(back, packed, quant.Q8_0); err != nil {
		panic(err)
	}
	fmt.Printf("%d bytes; %.3f became %.3f\n", n, row[3], back[3])
	fmt.Println(quant.Encode(packed[1:], row, quant.Q8_0))
	// Output:
	// 34 bytes; -1.300 became -1.297
	// quant: 32 values of Q8_0 take 34 bytes, not 33
}
