package model

// mistral is Llama with a sliding window in every layer.
var mistral = family{types: []string{"mistral"}, spec: func(c *Config) *Spec {
	s := llamaShape(c)
	s.Family = "mistral"
	return s
}}
