// Package named lists the values that a setting can have, each with its name and what help says of it, so that a new one
// is one entry of one list. It knows nothing of what the settings are for.
package named

import (
	"fmt"
	"strings"
)

// List is the values of a setting, the default first.
type List[T any] []Value[T]

// Value is one of them.
type Value[T any] struct {
	Name string
	Help string // a few words in parentheses after the name; "" if the name says it
	Is   T
}

// Names returns the names, in order.
func (l List[T]) Names() []string {
	var names []string
	for _, v := range l {
		names = append(names, v.Name)
	}
	return names
}

// Help returns the names with what they mean, as part of a sentence.
func (l List[T]) Help() string {
	var b strings.Builder
	for i, v := range l {
		switch {
		case i == 0:
		case i == len(l)-1:
			b.WriteString(" or ")
		default:
			b.WriteString(", ")
		}
		if b.WriteString(v.Name); v.Help != "" {
			fmt.Fprintf(&b, " (%s)", v.Help)
		}
	}
	return b.String()
}

// Find returns the value with a name; the first for "". what is the setting in the error.
func (l List[T]) Find(what, name string) (value T, err error) {
	for _, v := range l {
		if v.Name == name || name == "" {
			return v.Is, nil
		}
	}
	return value, fmt.Errorf("%s is %q; want one of %s", what, name, strings.Join(l.Names(), ", "))
}

// Plain makes a list of values that are their own names.
func Plain[T ~string](all ...Value[T]) List[T] {
	for i := range all {
		all[i].Name = string(all[i].Is)
	}
	return all
}
