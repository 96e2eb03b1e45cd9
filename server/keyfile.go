package server

import (
	"bytes"
	"fmt"
	"math"
	"regexp"
	"unicode/utf8"

	"github.com/kvasir-llm/kvasir/api/openai"
	"github.com/kvasir-llm/kvasir/api/wire"
)

// ReadKeys reads a file of API keys: one JSON object to a line, as docs/server.md describes. Empty lines and lines that
// begin with # say nothing. Errors name the line and the key, never its secret.
func ReadKeys(data []byte) ([]Key, error) {
	var keys []Key
	lines := map[string]int{} // of names and, after a space, of secrets
	number := 0
	for line := range bytes.Lines(data) {
		number++
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		key, err := readKey(line)
		if err != nil {
			return nil, fmt.Errorf("line %d, key %q: %w", number, key.Name, err)
		}
		for what, id := range map[string]string{"name": key.Name, "key": " " + key.Secret} {
			if before := lines[id]; before > 0 {
				return nil, fmt.Errorf("line %d, key %q: its %s is that of line %d", number, key.Name, what, before)
			}
			lines[id] = number
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// Bounds of a line.
const (
	maxKeyModels = 1024
	minSecret    = 16 // characters
)

func readKey(line []byte) (key Key, err error) {
	if line[0] != '{' || !utf8.Valid(line) {
		return key, fmt.Errorf("expected a JSON object in UTF-8")
	}
	err = wire.Decode(line, func(c *wire.Cursor, member string) (err error) {
		switch member {
		case "name":
			key.Name, err = c.Label(openai.MaxLabel)
		case "key":
			key.Secret, err = c.Text()
			if err == nil && utf8.RuneCountInString(key.Secret) < minSecret {
				err = c.Wrong("expected at least %d characters", minSecret)
			}
		case "group":
			key.Group, err = c.Label(openai.MaxLabel)
		case "max_requests":
			key.MaxRequests, err = c.IntIn(1, math.MaxInt32)
		case "priorities":
			key.Priorities, err = priorities(c)
		case "models":
			key.Models = []string{}
			err = c.Array("an array of models' names", func(i int) error {
				if i == maxKeyModels {
					return c.Wrong("at most %d models are allowed", maxKeyModels)
				}
				name, err := c.Label(openai.MaxLabel)
				key.Models = append(key.Models, name)
				return err
			})
		default:
			err = c.Unsupported()
		}
		return err
	})
	switch {
	case err != nil:
	case key.Name == "":
		err = wire.Missing("name", "a name for the log")
	case key.Secret == "":
		err = wire.Missing("key", "the key that requests bring")
	default:
		err = key.check()
	}
	return key, err
}

// priorities reads the lowest and the highest priority.
func priorities(c *wire.Cursor) (out []int, err error) {
	err = c.Array("an array of the lowest and the highest priority", func(int) error {
		n, err := c.IntIn(-math.MaxInt32, math.MaxInt32)
		out = append(out, n)
		return err
	})
	if err == nil && (len(out) != 2 || out[0] > out[1]) {
		err = wire.Invalid("priorities", wire.CodeInvalidValue, "expected the lowest and the highest, found %v", out)
	}
	return out, err
}

// keyName is what names of keys look like. They have no slash, so that no account of one is an account of another.
var keyName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// check finds what is wrong with a key apart from the others.
func (k *Key) check() error {
	if !keyName.MatchString(k.Name) {
		return fmt.Errorf("its name has to match %v", keyName)
	}
	if p := k.Priorities; p != nil && (len(p) != 2 || p[0] > p[1]) {
		return fmt.Errorf("its priorities are %v; want the lowest and the highest", p)
	}
	if k.MaxRequests < 0 {
		return fmt.Errorf("it may have %d requests at once; want at least 1, or 0 for any number", k.MaxRequests)
	}
	_, err := digestOf(k.Secret)
	return err
}
