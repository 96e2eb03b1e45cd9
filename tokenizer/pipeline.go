package tokenizer

import (
	"strings"
	"sync"
)

// piece is a stretch of text on its way to the model.
type piece struct {
	text  string
	first bool // it begins where the whole input begins
}

// stage is one pre-tokenizer: it cuts a piece, perhaps changed, into non-empty pieces.
type stage interface {
	split(p piece, emit func(piece))
}

// model turns one piece into ids. It is safe for concurrent use; what it needs to work lies in s.
type model interface {
	encode(s *scratch, text string)
}

// scratch is the state of one running Encode. Its emit functions are chained once: emits[i] takes a piece out of stage
// i-1 and into stage i; the last takes it into the model.
type scratch struct {
	dst   []int32
	emits []func(piece)

	heap mergeHeap
	syms []symbol
	best []pathNode
}

func (t *Tokenizer) newScratch() *scratch {
	s := &scratch{}
	emit := func(p piece) { t.model.encode(s, p.text) }
	s.emits = []func(piece){emit}
	for i := len(t.stages) - 1; i >= 0; i-- {
		st, next := t.stages[i], s.emits[0]
		s.emits = append([]func(piece){func(p piece) { st.split(p, next) }}, s.emits...)
	}
	return s
}

// scratchPool is a sync.Pool of *scratch that outlives no tokenizer.
type scratchPool struct{ pool sync.Pool }

func (p *scratchPool) get(t *Tokenizer) *scratch {
	if s, ok := p.pool.Get().(*scratch); ok {
		return s
	}
	return t.newScratch()
}

// put keeps s unless one huge text has made it large.
func (p *scratchPool) put(s *scratch) {
	const maxKept = 1 << 16 // elements
	s.dst = nil
	if cap(s.syms) > maxKept || cap(s.best) > maxKept || cap(s.heap) > maxKept {
		return
	}
	p.pool.Put(s)
}

// AppendEncode appends the ids of text to dst.
func (t *Tokenizer) AppendEncode(dst []int32, text string, opts EncodeOptions) []int32 {
	s := t.pool.get(t)
	s.dst = dst
	if opts.AddSpecial {
		s.dst = append(s.dst, t.prefix...)
	}
	t.added.split(text, opts.ParseSpecial, func(seg string, id int32, at int) {
		if id >= 0 {
			s.dst = append(s.dst, id)
			return
		}
		t.encodeText(s, seg, at == 0, opts.ParseSpecial)
	})
	if opts.AddSpecial {
		s.dst = append(s.dst, t.suffix...)
	}
	dst = s.dst
	t.pool.put(s)
	return dst
}

// encodeText normalizes a segment that holds no verbatim added token, takes out the added tokens that are matched after
// normalization, and runs the rest through the pre-tokenizers and the model.
func (t *Tokenizer) encodeText(s *scratch, text string, first, special bool) {
	for _, n := range t.normalizers {
		text = n(text)
	}
	t.addedNormalized.split(text, special, func(seg string, id int32, at int) {
		if id >= 0 {
			s.dst = append(s.dst, id)
			return
		}
		if seg != "" {
			s.emits[0](piece{seg, first && at == 0})
		}
	})
}

// byteLevelStage spells each byte as the rune that stands for it. It is used only where a later stage or the model
// looks at those runes; otherwise the model's vocabulary is kept as raw bytes.
type byteLevelStage struct{}

func (byteLevelStage) split(p piece, emit func(piece)) {
	emit(piece{spellBytes(p.text), p.first})
}

// prefixSpaceStage puts a space before each piece that does not begin with one.
type prefixSpaceStage struct{}

func (prefixSpaceStage) split(p piece, emit func(piece)) {
	if !strings.HasPrefix(p.text, " ") {
		p.text = " " + p.text
	}
	emit(p)
}

// metaspaceStage replaces spaces by a visible rune, puts it before the text, and cuts before each.
type metaspaceStage struct {
	mark    string
	prepend prependScheme
	cut     bool
}

type prependScheme uint8

const (
	prependAlways prependScheme = iota
	prependFirst
	prependNever
)

func (m *metaspaceStage) split(p piece, emit func(piece)) {
	p.text = strings.ReplaceAll(p.text, " ", m.mark)
	if m.prepend == prependAlways || m.prepend == prependFirst && p.first {
		if !strings.HasPrefix(p.text, m.mark) {
			p.text = m.mark + p.text
		}
	}
	if !m.cut {
		emit(p)
		return
	}
	for start := 0; start < len(p.text); {
		end := len(p.text)
		if i := strings.Index(p.text[start+1:], m.mark); i >= 0 {
			end = start + 1 + i
		}
		emit(piece{p.text[start:end], p.first && start == 0})
		start = end
	}
}

// fixedLengthStage cuts every n runes.
type fixedLengthStage int

func (n fixedLengthStage) split(p piece, emit func(piece)) {
	left, start := int(n), 0
	for i := range p.text {
		if left == 0 {
			emit(piece{p.text[start:i], p.first && start == 0})
			left, start = int(n), i
		}
		left--
	}
	if start < len(p.text) {
		emit(piece{p.text[start:], p.first && start == 0})
	}
}
