package server

import (
	"strconv"
	"time"

	"github.com/kvasir-llm/kvasir/api/wire"
	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/engine/text"
)

// parameters are an API's parameters that go straight into a text.Request: how each is read, by its name on the wire.
type parameters map[string]func(*wire.Cursor) (setter, error)

// setter puts a parameter that was read into a request.
type setter func(*text.Request)

// param makes an entry of parameters.
func param[T any](read func(*wire.Cursor) (T, error), put func(*text.Request, T)) func(*wire.Cursor) (setter, error) {
	return func(c *wire.Cursor) (setter, error) {
		v, err := read(c)
		return func(r *text.Request) { put(r, v) }, err
	}
}

// given are the parameters that a request has set. They are applied once its model, and so what is recommended, is
// known.
type given struct {
	known parameters
	set   []setter
}

// read reads one member of a request, if it is one of the parameters.
func (g *given) read(c *wire.Cursor, key string) (known bool, err error) {
	reader := g.known[key]
	if reader == nil {
		return false, nil
	}
	set, err := reader(c)
	g.set = append(g.set, set)
	return true, err
}

// request returns a request that is as the model's makers recommend but for what was given.
func (g *given) request(info text.Info) text.Request {
	r := text.Request{Stop: info.Stop, Params: engine.Params{Sampling: info.Defaults, MaxTokens: info.MaxTokens, Logprobs: -1,
		PromptLogprobs: -1}}
	for _, set := range g.set {
		set(&r)
	}
	return r
}

// What follows reads values, for param.

func number(low, high float64) func(*wire.Cursor) (float32, error) {
	return func(c *wire.Cursor) (float32, error) {
		x, err := c.NumberIn(low, high)
		return float32(x), err
	}
}

// positive reads a number above 0.
func positive(high float64) func(*wire.Cursor) (float32, error) {
	return func(c *wire.Cursor) (float32, error) {
		x, err := c.NumberIn(0, high)
		if err == nil && x == 0 {
			err = c.Wrong("expected a number above 0, found 0")
		}
		return float32(x), err
	}
}

func integer(low, high int) func(*wire.Cursor) (int, error) {
	return func(c *wire.Cursor) (int, error) { return c.IntIn(low, high) }
}

func label(most int) func(*wire.Cursor) (string, error) {
	return func(c *wire.Cursor) (string, error) { return c.Label(most) }
}

func tokens(most int) func(*wire.Cursor) ([]int32, error) {
	return func(c *wire.Cursor) ([]int32, error) { return c.Tokens(most) }
}

// millis reads a time from 1 ms to a day.
func millis(c *wire.Cursor) (time.Duration, error) {
	n, err := c.IntIn(1, int((24 * time.Hour).Milliseconds()))
	return time.Duration(n) * time.Millisecond, err
}

// stops reads a string or an array of at most most strings, none empty.
func stops(most int) func(*wire.Cursor) ([]string, error) {
	return func(c *wire.Cursor) ([]string, error) {
		one := func() (string, error) {
			s, err := c.Text()
			if err == nil && s == "" {
				err = c.Wrong("expected a string that is not empty")
			}
			return s, err
		}
		if c.Peek() == '"' {
			s, err := one()
			return []string{s}, err
		}
		var list []string
		err := c.Array("a string or an array of strings", func(i int) error {
			if i == most {
				return c.Wrong("at most %d stop strings are allowed", most)
			}
			s, err := one()
			list = append(list, s)
			return err
		})
		return list, err
	}
}

// biases reads an object of at most most members, from token ids, written as strings, to numbers from -100 to 100.
func biases(most int) func(*wire.Cursor) (map[int32]float32, error) {
	return func(c *wire.Cursor) (m map[int32]float32, err error) {
		err = c.Object(func(key string) error {
			id, err := strconv.ParseInt(key, 10, 32)
			if err != nil || id < 0 || strconv.FormatInt(id, 10) != key {
				return c.Wrong("expected the id of a token as the member's name")
			}
			if len(m) == most {
				return c.Wrong("at most %d entries are allowed", most)
			}
			if m == nil {
				m = map[int32]float32{}
			}
			x, err := c.NumberIn(-100, 100)
			m[int32(id)] = float32(x)
			return err
		})
		return m, err
	}
}
