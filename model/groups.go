package model

import (
	"slices"

	"github.com/kvasir-llm/kvasir/compute"
)

// maxGroups is how many groups of layers there may be.
const maxGroups = 64

// window returns how many tokens layer i attends to, or 0 if that is all that there can be.
func (s *Spec) window(i int) int {
	if w := s.Layers[i].Mixer.reach(); w < s.Context {
		return w
	}
	return 0
}

// group puts the layers that keep keys and values into groups, so that those of a group keep the same tokens and have
// a block table together. A block serves one group at a time and has room for a layer of each place in a group, so
// groups are of equal size: that of the smallest class of layers with the same window. The last group of a class may
// lack some. It returns the windows of the groups, those with the longest first and 0, which is all, before them.
func (s *Spec) group(layers []compute.CacheLayer) (windows []int) {
	classes := map[int][]int{} // layers by window
	all := 0
	for i, l := range layers {
		if l.State == 0 {
			classes[s.window(i)] = append(classes[s.window(i)], i)
			all++
		}
	}
	size := all
	var order []int
	for w, class := range classes {
		size = min(size, len(class))
		order = append(order, w)
	}
	size = max(size, (all+maxGroups-1)/maxGroups)
	slices.SortFunc(order, func(a, b int) int {
		if a == 0 || b == 0 {
			return a - b
		}
		return b - a
	})
	for _, w := range order {
		for n, i := range classes[w] {
			if n%size == 0 {
				windows = append(windows, w)
			}
			layers[i].Group = len(windows) - 1
		}
	}
	return windows
}

// KVWindows returns how many tokens the layers of each group of KVLayers attend to; 0 is all.
func (s *Spec) KVWindows() []int { return s.group(s.KVLayers()) }
