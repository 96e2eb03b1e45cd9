package model

import (
	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/quant"
)

// keeper is a device that only keeps what it is given, for weights that are read to be written elsewhere.
type keeper struct{ compute.Device }

// kept is a weight as it came.
type kept struct{ compute.Source }

func (k *kept) Dims() (out, in int) { return k.Out, k.In }
func (k *kept) Type() quant.Type    { return k.Source.Type }
func (k *kept) Bytes() int64        { return int64(len(k.Data)) }

// keptVector is a vector as it came.
type keptVector []float32

func (v keptVector) Len() int { return len(v) }

func (*keeper) Matrix(src compute.Source) (compute.Matrix, error) { return &kept{src}, nil }
func (*keeper) Vector(v []float32) (compute.Vector, error)        { return keptVector(v), nil }
