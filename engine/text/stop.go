package text

// stopper finds stop strings in text that comes in pieces. It holds back what may be the beginning of one. Its work is
// linear in the text, for each stop string.
type stopper struct {
	stops   []stopString
	include bool // the stop string is part of the text
	buf     []byte
	start   int    // of buf: where what is held back begins
	found   string // the stop string that ended the text
}

// stopString is matched by the algorithm of Knuth, Morris and Pratt (SIAM Journal on Computing 6, 1977).
type stopString struct {
	text    string
	borders []int // of text[:i+1]: the length of its longest proper prefix that is its suffix too
	matched int   // bytes of text that the text so far ends with
}

func newStopper(stops []string, include bool) stopper {
	s := stopper{include: include}
	for _, text := range stops {
		one := stopString{text: text, borders: make([]int, len(text))}
		for i := 1; i < len(text); i++ {
			one.borders[i] = one.next(one.borders[i-1], text[i])
		}
		s.stops = append(s.stops, one)
	}
	return s
}

// next returns how many bytes are matched after one more byte. matched is less than the length of the text.
func (s *stopString) next(matched int, b byte) int {
	for matched > 0 && s.text[matched] != b {
		matched = s.borders[matched-1]
	}
	if s.text[matched] == b {
		matched++
	}
	return matched
}

// push takes the next piece and returns what can be shown, and whether a stop string was found. After that nothing more
// may be pushed. Of several in a piece the one that begins first counts.
func (s *stopper) push(piece string) (show string, found bool) {
	if len(s.stops) == 0 {
		return piece, false
	}
	if s.start > len(s.buf)/2 { // so that each byte is moved a bounded number of times
		s.buf, s.start = append(s.buf[:0], s.buf[s.start:]...), 0
	}
	before := len(s.buf)
	s.buf = append(s.buf, piece...)
	first, end, keep := -1, 0, 0
	for i := range s.stops {
		stop := &s.stops[i]
		for at := range len(piece) {
			if stop.matched = stop.next(stop.matched, piece[at]); stop.matched < len(stop.text) {
				continue
			}
			last := before + at + 1
			if begin := last - len(stop.text); first < 0 || begin < first {
				first, end, s.found = begin, last, stop.text
			}
			break
		}
		keep = max(keep, stop.matched)
	}
	if first >= 0 && s.include {
		first = end
	}
	if first >= 0 {
		return s.show(first), true
	}
	return s.show(len(s.buf) - keep), false
}

// show returns what is held back up to a place in buf.
func (s *stopper) show(end int) string {
	text := string(s.buf[s.start:end])
	s.start = end
	return text
}

// flush returns what is held back: no stop string came after all.
func (s *stopper) flush() string { return s.show(len(s.buf)) }
