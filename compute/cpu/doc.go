// Package cpu is the Device that computes on the host's processor: packed weights, a paged KV cache in memory and a
// pool of workers, whose threads can be pinned. Its inner loops are those of package kernel. It knows nothing of
// models. Read Device first.
package cpu
