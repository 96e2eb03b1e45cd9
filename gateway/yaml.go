package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Parse reads a configuration from YAML, fills in the defaults and checks it. It is strict: an unknown key is an error
// that names the line and the nearest key there is. name is what errors call the file.
func Parse(name string, data []byte) (*Config, error) {
	var root yaml.Node
	in := yaml.NewDecoder(bytes.NewReader(data))
	switch err := in.Decode(&root); {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%s: it is empty", name)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := in.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: there is more than one document", name)
	}
	c := defaults()
	r := reader{lines: map[string]int{}}
	err := r.read(root.Content[0], reflect.ValueOf(&c).Elem(), "")
	if err == nil {
		err = c.check()
	}
	var p problem
	if errors.As(err, &p) {
		return nil, fmt.Errorf("%s:%d: %s", name, r.line(p.path), strings.TrimPrefix(p.Error(), ": "))
	}
	return &c, err
}

// Print writes a configuration as YAML, with all that is set by default.
func (c *Config) Print() (string, error) {
	var b strings.Builder
	out := yaml.NewEncoder(&b)
	out.SetIndent(2)
	err := errors.Join(out.Encode(c), out.Close())
	return b.String(), err
}

// MarshalYAML writes a policy as it is read.
func (p Policy) MarshalYAML() (any, error) {
	if len(p.Weights) > 0 {
		return map[string]float64(p.Weights), nil
	}
	return p.Preset, nil
}

// reader fills in values from YAML, and notes the line of each.
type reader struct{ lines map[string]int }

// line returns the line of a place, or of the nearest one around it.
func (r *reader) line(path string) int {
	for {
		if n, ok := r.lines[path]; ok {
			return n
		}
		cut := strings.LastIndexAny(path, ".[")
		if cut < 0 {
			return max(r.lines[""], 1)
		}
		path = path[:cut]
	}
}

// read fills in v, which is at a path, from a node.
func (r *reader) read(n *yaml.Node, v reflect.Value, path string) error {
	if n.Kind == yaml.AliasNode {
		return wrong(path, "anchors and aliases are not supported")
	}
	r.lines[path] = n.Line
	if n.Tag == "!!null" {
		return nil
	}
	switch into := v.Addr().Interface().(type) {
	case *Endpoint:
		if n.Kind == yaml.ScalarNode {
			return r.read(n, reflect.ValueOf(&into.URL).Elem(), path)
		}
	case *Policy:
		if n.Kind == yaml.ScalarNode {
			return r.read(n, reflect.ValueOf(&into.Preset).Elem(), path)
		}
		return r.read(n, reflect.ValueOf(&into.Weights).Elem(), path)
	}
	switch v.Kind() {
	case reflect.Struct:
		return r.object(n, v, path)
	case reflect.Slice:
		if n.Kind != yaml.SequenceNode {
			return wrong(path, "expected a list, found %s", found(n))
		}
		if v.SetZero(); len(n.Content) > 0 {
			v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
		}
		for i, item := range n.Content {
			if err := r.read(item, v.Index(i), fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
		return nil
	case reflect.Map:
		return r.numbers(n, v, path)
	}
	return scalar(n, v, path)
}

// object fills in a struct.
func (r *reader) object(n *yaml.Node, v reflect.Value, path string) error {
	if n.Kind != yaml.MappingNode {
		return wrong(path, "expected keys with values, found %s", found(n))
	}
	fields, names := map[string]int{}, []string(nil)
	for i := range v.NumField() {
		name := v.Type().Field(i).Tag.Get("yaml")
		fields[name] = i
		names = append(names, name)
	}
	seen := map[string]bool{}
	for i := 0; i < len(n.Content); i += 2 {
		key := n.Content[i].Value
		at := strings.TrimPrefix(path+"."+key, ".")
		r.lines[at] = n.Content[i].Line
		field, ok := fields[key]
		if !ok {
			return wrong(at, "unknown key; %s", suggest(key, names))
		}
		if seen[key] {
			return wrong(at, "it is there twice")
		}
		seen[key] = true
		if err := r.read(n.Content[i+1], v.Field(field), at); err != nil {
			return err
		}
	}
	return nil
}

// numbers fills in a map of numbers.
func (r *reader) numbers(n *yaml.Node, v reflect.Value, path string) error {
	if n.Kind != yaml.MappingNode {
		return wrong(path, "expected names with numbers, found %s", found(n))
	}
	if v.SetZero(); len(n.Content) > 0 {
		v.Set(reflect.MakeMap(v.Type()))
	}
	for i := 0; i < len(n.Content); i += 2 {
		key := n.Content[i].Value
		at := path + "." + key
		if v.MapIndex(reflect.ValueOf(key)).IsValid() {
			return wrong(path, "%q is there twice", key)
		}
		x := reflect.New(v.Type().Elem()).Elem()
		if err := r.read(n.Content[i+1], x, at); err != nil {
			return err
		}
		v.SetMapIndex(reflect.ValueOf(key), x)
	}
	return nil
}

// scalar fills in a single value.
func scalar(n *yaml.Node, v reflect.Value, path string) error {
	if n.Kind != yaml.ScalarNode {
		return wrong(path, "expected a single value, found %s", found(n))
	}
	if v.Type() == reflect.TypeFor[time.Duration]() {
		d, err := time.ParseDuration(n.Value)
		if err != nil {
			return wrong(path, "%q; want a time such as 500ms, 30s or 5m", n.Value)
		}
		v.SetInt(int64(d))
		return nil
	}
	if v.Kind() == reflect.String && n.Tag != "!!str" {
		return wrong(path, "expected a text, found %s; put it in quotes", n.Value)
	}
	if err := n.Decode(v.Addr().Interface()); err != nil {
		return wrong(path, "%q; want %s", n.Value, map[reflect.Kind]string{
			reflect.Int: "a whole number", reflect.Float64: "a number", reflect.Bool: "true or false",
		}[v.Kind()])
	}
	return nil
}

func found(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "keys with values"
	case yaml.SequenceNode:
		return "a list"
	}
	return fmt.Sprintf("%q", n.Value)
}

// suggest names the key that was meant, or all there are.
func suggest(key string, names []string) string {
	best := slices.MinFunc(names, func(a, b string) int { return distance(key, a) - distance(key, b) })
	if distance(key, best) <= max(1, len(best)/2) {
		return fmt.Sprintf("did you mean %s?", best)
	}
	return "the keys here are " + strings.Join(names, ", ")
}

// distance is how many letters must be changed, added or left out to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := before
			if a[i] != b[j] {
				change++
			}
			before = row[j+1]
			row[j+1] = min(change, row[j]+1, before+1)
		}
	}
	return row[len(b)]
}
