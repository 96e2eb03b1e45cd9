package openai

import (
	"encoding/json"

	"github.com/kvasir-llm/kvasir/api/wire"
)

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

func earlyStopping(c *wire.Cursor) (EarlyStopping, error) {
	if c.Peek() == '"' {
		s, err := c.Text()
		if err == nil && s != "never" {
			err = c.Wrong(`expected true, false or "never", found %q`, s)
		}
		return EarlyStopping(s), err
	}
	b, err := c.Bool()
	if b {
		return "true", err
	}
	return "false", err
}
