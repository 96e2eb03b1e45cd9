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
				fmt.Fprintf(&out, " under %+v", e.Keys)
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

// spot is a block that can be found: its name, in the sequences of an adapter or of none, and its group.
type spot struct {
	key
	group int
}

// hear takes note of events. What is stored must not have been there, and must tell all that its name is made of; what is
// removed must have been there.
func (l listener) hear(events []Event) error {
	for _, e := range events {
		at := spot{key{e.Name, e.Keys.Adapter != ""}, e.Group}
		switch _, known := l[at]; {
		case e.Kind == Cleared:
			clear(l)
		case (e.Kind == Removed) != known:
			return fmt.Errorf("%sbut known: %v", tell([]Event{e}), known)
		case e.Kind == Removed:
			delete(l, at)
		default:
			parent := e.Parent
			if parent == (Hash{}) {
				parent = Root("0")
			}
			if HashBlock(parent, e.Tokens, e.Keys) != e.Name {
				return fmt.Errorf("%sbut that has another name", tell([]Event{e}))
			}
			l[at] = tell([]Event{e})
		}
	}
	return nil
}
