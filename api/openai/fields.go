package openai

import (
	"math"
	"strconv"
	"unicode/utf8"
)

const maxInt32 = math.MaxInt32

// intIn reads an integer between low and high.
func (c *cursor) intIn(dst **int, low, high int) error {
	n, err := c.integer()
	if err != nil {
		return err
	}
	if n < int64(low) || n > int64(high) {
		return c.wrong("expected an integer from %d to %d, found %d", low, high, n)
	}
	v := int(n)
	*dst = &v
	return nil
}

// numberIn reads a number between low and high.
func (c *cursor) numberIn(dst **float64, low, high float64) error {
	x, err := c.number()
	if err != nil {
		return err
	}
	if x < low || x > high {
		return c.wrong("expected a number from %g to %g, found %g", low, high, x)
	}
	*dst = &x
	return nil
}

func (c *cursor) optionalBool(dst **bool) error {
	b, err := c.boolean()
	*dst = &b
	return err
}

// token reads the id of a token.
func (c *cursor) token() (int32, error) {
	n, err := c.integer()
	if err == nil && (n < 0 || n > maxInt32) {
		err = c.wrong("expected the id of a token, found %d", n)
	}
	return int32(n), err
}

// tokens reads an array of at most most ids.
func (c *cursor) tokens(most int) ([]int32, error) {
	var ids []int32
	err := c.array("an array of token ids", func(i int) error {
		if i == most {
			return c.wrong("at most %d token ids are allowed", most)
		}
		id, err := c.token()
		ids = append(ids, id)
		return err
	})
	return ids, err
}

// stops reads a string or an array of strings, none empty.
func (c *cursor) stops() ([]string, error) {
	one := func() (string, error) {
		s, err := c.text()
		if err == nil && s == "" {
			err = c.wrong("expected a string that is not empty")
		}
		return s, err
	}
	if c.peek() == '"' {
		s, err := one()
		return []string{s}, err
	}
	var stops []string
	err := c.array("a string or an array of strings", func(i int) error {
		if i == MaxStops {
			return c.wrong("at most %d stop strings are allowed", MaxStops)
		}
		s, err := one()
		stops = append(stops, s)
		return err
	})
	return stops, err
}

// biases reads an object from token ids, written as strings, to numbers from -100 to 100.
func (c *cursor) biases() (map[int32]float64, error) {
	var m map[int32]float64
	err := c.object(func(key string) error {
		id, err := strconv.ParseInt(key, 10, 32)
		if err != nil || id < 0 || strconv.FormatInt(id, 10) != key {
			return c.wrong("expected the id of a token as the member's name")
		}
		if len(m) == MaxLogitBias {
			return c.wrong("at most %d entries are allowed", MaxLogitBias)
		}
		var x *float64
		if err := c.numberIn(&x, -100, 100); err != nil {
			return err
		}
		if m == nil {
			m = map[int32]float64{}
		}
		m[int32(id)] = *x
		return nil
	})
	return m, err
}

// unsupported is the error of a member that is not known, or known and not served.
func (c *cursor) unsupported() error {
	if err := c.skip(); err != nil {
		return err
	}
	return invalid(string(c.path), CodeUnsupported, "this parameter is not supported")
}

// inert reads a member that clients send by default and that is served only while it asks for nothing: its value must
// be one of the given JSON texts.
func (c *cursor) inert(allowed ...string) error {
	found, err := c.raw()
	if err != nil {
		return err
	}
	tight := compact(found)
	for _, a := range allowed {
		if tight == a {
			return nil
		}
	}
	list := ""
	for i, a := range allowed {
		if i > 0 {
			list += " or "
		}
		list += a
	}
	return invalid(string(c.path), CodeUnsupported, "not supported, except as %s; found %s", list, clip(found))
}

// compact returns valid JSON without its white space.
func compact(raw []byte) string {
	out, quoted := make([]byte, 0, 64), false
	for i := 0; i < len(raw) && len(out) < cap(out); i++ { // longer ones equal nothing that is allowed
		switch b := raw[i]; {
		case b == '\\' && quoted && i+1 < len(raw):
			out = append(out, b, raw[i+1])
			i++
		case b == '"':
			quoted = !quoted
			out = append(out, b)
		case quoted || b > ' ':
			out = append(out, b)
		}
	}
	return string(out)
}

// label reads a string that tells the sender's users or requests apart.
func (c *cursor) label() (string, error) {
	s, err := c.text()
	if err == nil && utf8.RuneCountInString(s) > MaxLabel {
		err = c.wrong("at most %d characters are allowed", MaxLabel)
	}
	return s, err
}

// asksNothing holds, for members that clients send by default, the JSON texts with which they ask for nothing.
var asksNothing = map[string][]string{
	"continue_final_message":        {"false"},
	"documents":                     {"[]"},
	"function_call":                 {`"none"`, `"auto"`},
	"functions":                     {"[]"},
	"modalities":                    {`["text"]`},
	"parallel_tool_calls":           {"true", "false"},
	"response_format":               {`{"type":"text"}`},
	"return_tokens_as_token_ids":    {"false"},
	"service_tier":                  {`"auto"`, `"default"`},
	"spaces_between_special_tokens": {"true"},
	"store":                         {"false"},
	"suffix":                        {`""`},
	"tool_choice":                   {`"none"`, `"auto"`},
	"tools":                         {"[]"},
	"verbosity":                     {`"medium"`},
}

// other reads a member that no request has a field for.
func (c *cursor) other(key string) error {
	switch key {
	case "safety_identifier", "prompt_cache_key":
		_, err := c.label()
		return err
	case "metadata": // kept by servers that store; this one never does
		return c.object(func(string) error { _, err := c.label(); return err })
	}
	if allowed := asksNothing[key]; allowed != nil {
		return c.inert(allowed...)
	}
	return c.unsupported()
}
