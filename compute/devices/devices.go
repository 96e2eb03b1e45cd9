// Package devices links every kind of device into a program: a room that opens devices by name imports it for that
// alone.
package devices

import (
	_ "github.com/kvasir-llm/kvasir/compute/cpu"  // registers the kind cpu
	_ "github.com/kvasir-llm/kvasir/compute/cuda" // registers the kind cuda
)
