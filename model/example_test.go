package model_test

import (
	"fmt"
	"log"

	"github.com/kvasir-llm/kvasir/compute"
	_ "github.com/kvasir-llm/kvasir/compute/devices"
	"github.com/kvasir-llm/kvasir/model/loader"
	"github.com/kvasir-llm/kvasir/weights"
)

// Open a checkpoint, load it onto a device, and compute the logits of the token that follows three others.
func Example() {
	ckpt, err := weights.Open("testdata/goldens/llama")
	if err != nil {
		log.Fatal(err)
	}
	defer ckpt.Close()
	dev, err := compute.Open("cpu", compute.Options{Threads: 1})
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	m, err := loader.Model(ckpt, dev, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("a %s of %d layers over %d tokens\n", m.Spec.Family, len(m.Spec.Layers), m.Spec.Vocab)

	// Batches of up to 16 rows, over a cache of 4 blocks of 16 tokens, of one sequence.
	runner, err := m.NewRunner(16, 4, 16, 1)
	if err != nil {
		log.Fatal(err)
	}
	defer runner.Close()
	var batch compute.Batch
	batch.Append([]int32{1, 22, 33}, 0, true, []int32{0}) // from position 0 on, in block 0
	if err := runner.Forward(&batch); err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(runner.Logits(0)), "logits")
	// Output:
	// a llama of 2 layers over 256 tokens
	// 256 logits
}
