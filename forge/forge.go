// Package forge measures and remakes checkpoints: it computes a model's perplexity on a text. It runs a model by itself; it
// knows nothing of engines, requests or servers. Read MeasurePerplexity first.
package forge
