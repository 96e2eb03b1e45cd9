// Package builtin contains the model inside the binary: kvasir-mini, a chat model of 25 million parameters in Q8_0, so
// that every feature can be tried without a network. It knows nothing of how a model is run. Start with Open.
package builtin

import (
	_ "embed"
	"unsafe"

	"github.com/kvasir-llm/kvasir/weights"
)

//go:generate go run generate.go -model $MODEL -out kvasir-mini-q8_0.gguf

// Name is the name of the built-in model.
const Name = "kvasir-mini"

//go:embed kvasir-mini-q8_0.gguf
var file string

// Open opens the built-in model. Nothing is copied: its tensors are views of the binary itself.
func Open() (*weights.Checkpoint, error) {
	return weights.OpenBytes(Name+".gguf", unsafe.Slice(unsafe.StringData(file), len(file)))
}

// Size is the bytes of the model's file.
func Size() int64 { return int64(len(file)) }
