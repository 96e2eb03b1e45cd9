package kv

import (
	"fmt"
	"strings"
)

// tell prints events.
func tell(events []Event) string {
	var out strings.Builder
	for _, e := range events {
		switch e.Kind {
		case Removed:
			fmt.Fprintf(&out, "removed %v of group %d\n", e.Name, e.Group)
		case Cleared:
			out.WriteString("cleared\n")
		case Stored:
			fmt.Fprintf(&out, "stored %v of group %d", e.Name, e.Group)
			if e.Parent != (Hash{}) {
				fmt.Fprintf(&out, " after %v", e.Parent)
			}
			if e.Keys != (Keys{}) {
				fmt.Fprintf(&out, " under %q", e.Keys.List(nil))
			}
			text := ""
			for _, t := range e.Tokens {
				text += string(rune(t))
			}
			fmt.Fprintf(&out, ": %q\n", text)
		}
	}
	return out.String()
}

// listener knows what can be found from events alone.
type listener map[spot]string

// spot is a block that can be found: its name and its group.
type spot struct {
	name  Hash
	group int
}

// hear takes note of events. What is stored must not have been there, and must tell all that its name is made of; what
// is removed must have been there.
func (l listener) hear(events []Event) error {
	for _, e := range events {
		at := spot{e.Name, e.Group}
		switch _, known := l[at]; {
		case e.Kind == Cleared:
			clear(l)
		case (e.Kind == Removed) != known:
			return fmt.Errorf("%sbut known: %v", tell([]Event{e}), known)
		case e.Kind == Removed:
			delete(l, at)
		default:
			parent, keys := e.Parent, Keys{}
			if parent == (Hash{}) {
				parent, keys = Root("0"), e.Keys
			}
			if HashBlock(parent, e.Tokens, keys) != e.Name {
				return fmt.Errorf("%sbut that has another name", tell([]Event{e}))
			}
			l[at] = tell([]Event{e})
		}
	}
	return nil
}
