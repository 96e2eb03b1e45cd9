// Package forge remakes and measures checkpoints: it converts between safetensors and GGUF, quantises, and computes a
// model's perplexity on a text. It works on files, and runs models by itself; it knows nothing of engines, requests
// or servers. Read Convert, Quantize and MeasurePerplexity first.
package forge
