package text

import "strings"

// stopper finds stop strings in text that comes in pieces. It holds back what may be the beginning of one.
type stopper struct {
	stops   []string
	include bool // the stop string is part of the text
	held    string
}

// push takes the next piece and returns what can be shown, and whether a stop string was found. After that nothing more
// may be pushed.
func (s *stopper) push(piece string) (show string, found bool) {
	s.held += piece
	first, end := -1, 0
	for _, stop := range s.stops {
		if i := strings.Index(s.held, stop); i >= 0 && (first < 0 || i < first) {
			first, end = i, i+len(stop)
		}
	}
	if first >= 0 {
		if s.include {
			first = end
		}
		show, s.held = s.held[:first], ""
		return show, true
	}
	keep := 0
	for _, stop := range s.stops {
		for n := min(len(stop)-1, len(s.held)); n > keep; n-- {
			if strings.HasSuffix(s.held, stop[:n]) {
				keep = n
				break
			}
		}
	}
	cut := len(s.held) - keep
	show, s.held = s.held[:cut], s.held[cut:]
	return show, false
}

// flush returns what is held back: no stop string came after all.
func (s *stopper) flush() string {
	show := s.held
	s.held = ""
	return show
}
