package text

import (
	"github.com/kvasir-llm/kvasir/fault"
)

// infilling are the marks of models that fill in the middle: before what precedes the answer, before what follows it,
// and before the answer. Each is one special token.
var infilling = []struct {
	prefix, suffix, middle string
	suffixFirst            bool
}{
	{prefix: "<|fim_prefix|>", suffix: "<|fim_suffix|>", middle: "<|fim_middle|>"},    // Qwen Coder, kvasir-mini
	{prefix: "<fim_prefix>", suffix: "<fim_suffix>", middle: "<fim_middle>"},          // StarCoder, Granite
	{prefix: "<fim-prefix>", suffix: "<fim-suffix>", middle: "<fim-middle>"},          // SantaCoder
	{prefix: "<｜fim▁begin｜>", suffix: "<｜fim▁hole｜>", middle: "<｜fim▁end｜>"},          // DeepSeek Coder
	{prefix: "<|code_prefix|>", suffix: "<|code_suffix|>", middle: "<|code_middle|>"}, // GLM
	{prefix: "[PREFIX]", suffix: "[SUFFIX]", suffixFirst: true},                       // Codestral
}

// infill returns the prompt of an answer between two texts.
func (m *Model) infill(r *Request) (string, error) {
	if r.IDs != nil {
		return "", fault.New(FieldSuffix, "needs a prompt that is text, not tokens")
	}
	for _, f := range infilling {
		found := true
		for _, mark := range []string{f.prefix, f.suffix, f.middle} {
			if id, ok := m.Tokenizer.ID(mark); mark != "" && (!ok || !m.Tokenizer.IsSpecial(id)) {
				found = false
			}
		}
		switch {
		case !found:
		case f.suffixFirst:
			return f.suffix + *r.Suffix + f.prefix + r.Prompt, nil
		default:
			return f.prefix + r.Prompt + f.suffix + *r.Suffix + f.middle, nil
		}
	}
	return "", fault.New(FieldSuffix, "needs a model that fills in the middle, whose vocabulary has marks for it; %s has none",
		m.Name)
}
