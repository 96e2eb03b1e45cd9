package compute

// Routes says which experts of a mixture each row of the batch goes to, and with which weight, on a device. A route is one
// of a row's choices. Tensors of routes have a row for each of them, in an order that is the device's own.
type Routes interface {
	// Shape returns the capacity in rows, the experts and how many of them each row goes to.
	Shape() (rows, experts, chosen int)
}

// Router says how rows choose experts from their logits. A logit becomes a score; the experts with the highest scores are
// chosen, the lower index first among equals, and count with their scores.
type Router struct {
	Sigmoid   bool    // a score is the sigmoid of a logit; else the softmax over all of them
	Bias      Vector  // [experts] added to the scores for the choice alone, or nil
	Groups    int     // equal runs of experts, of which only those of the best Kept can be chosen; 0 is off
	Kept      int     // groups
	GroupBest int     // a group is as good as the sum of its GroupBest best scores
	Normalise bool    // the chosen weights are divided by their sum
	Scale     float32 // then times the weights
}

// ExpertProduct is one weight of each expert of a mixture, all of one shape. Biases are as in Product.
type ExpertProduct struct {
	Dst  Tensor   // [routes, Out]
	W    []Matrix // [experts]
	Bias []Vector // [experts] of [Out], or nil
}
