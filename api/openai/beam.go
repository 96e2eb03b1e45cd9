package openai

import "encoding/json"

// EarlyStopping is when a beam search ends: "true", "false" or "never"; "" is not said. On the wire the first two are
// booleans.
type EarlyStopping string

// MarshalJSON writes a boolean or a string.
func (e EarlyStopping) MarshalJSON() ([]byte, error) {
	if e == "true" || e == "false" {
		return []byte(e), nil
	}
	return json.Marshal(string(e))
}

// beam reads the members that are about beam search.
func (s *Sampling) beam(c *cursor, key string) (known bool, err error) {
	switch key {
	case "use_beam_search":
		s.UseBeamSearch, err = c.boolean()
	case "length_penalty":
		err = c.numberIn(&s.LengthPenalty, -100, 100)
	case "early_stopping":
		s.EarlyStopping, err = c.earlyStopping()
	default:
		return false, nil
	}
	return true, err
}

func (c *cursor) earlyStopping() (EarlyStopping, error) {
	if c.peek() == '"' {
		s, err := c.text()
		if err == nil && s != "never" {
			err = c.wrong(`expected true, false or "never", found %q`, s)
		}
		return EarlyStopping(s), err
	}
	b, err := c.boolean()
	if b {
		return "true", err
	}
	return "false", err
}

// Beams returns how many beams a search has.
func (s *Sampling) Beams() int { return max(1, deref(s.N), deref(s.BestOf)) }

// checkBeams finds members that do not go with beam search, or only with it.
func (s *Sampling) checkBeams() error {
	if !s.UseBeamSearch {
		switch {
		case s.LengthPenalty != nil && *s.LengthPenalty != 1:
			return invalid("length_penalty", CodeInvalidValue, "only allowed when use_beam_search is true")
		case s.EarlyStopping != "" && s.EarlyStopping != "false":
			return invalid("early_stopping", CodeInvalidValue, "only allowed when use_beam_search is true")
		}
		return nil
	}
	is := func(p *float64, v float64) bool { return p == nil || *p == v }
	for _, m := range []struct {
		name string
		ok   bool
		want string
	}{
		{"stream", !s.Stream, "false"},
		{"temperature", is(s.Temperature, 0), "0"},
		{"top_p", is(s.TopP, 1), "1"},
		{"top_k", deref(s.TopK) <= 0, "0 or -1"},
		{"min_p", is(s.MinP, 0), "0"},
		{"repetition_penalty", is(s.RepetitionPenalty, 1), "1"},
		{"presence_penalty", is(s.PresencePenalty, 0), "0"},
		{"frequency_penalty", is(s.FrequencyPenalty, 0), "0"},
		{"logit_bias", len(s.LogitBias) == 0, "{}"},
		{"min_tokens", deref(s.MinTokens) == 0, "0"},
		{"stop", len(s.Stop) == 0, "[]"},
		{"prompt_logprobs", s.PromptLogprobs == nil, "null"},
	} {
		if !m.ok {
			return invalid(m.name, CodeInvalidValue, "must be %s when use_beam_search is true", m.want)
		}
	}
	return nil
}
