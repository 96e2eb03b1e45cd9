// Package fleet has modelled engines: OpenAI-compatible servers without a model, whose answers are meaningless words
// that come when those of an engine would. They have prefix caches, tell of them as vLLM does, and can lie, so that
// gateways and loads can be measured and tested. Read Engine first, then cache.
package fleet
