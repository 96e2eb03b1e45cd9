package tokenizer

import (
	"context"
	"fmt"
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
	split(p piece, emit func(piece)) error
}

// model turns one piece into ids. It is safe for concurrent use; s holds its working memory.
type model interface {
	encode(s *scratch, text string)
}

// scratch is the state of one running Encode. Its emit functions are chained once: emits[i] passes a piece from stage
// i-1 to stage i; the last passes it to the model.
type scratch struct {
	dst   []int32
	emits []func(piece)
	ctx   context.Context
	bytes int   // of text that models may still see before ctx is looked at
	err   error // why the rest of the text is not encoded

	heap mergeHeap
	syms []symbol
	best []pathNode
}

func (t *Tokenizer) newScratch() *scratch {
	s := &scratch{}
	emit := func(p piece) {
		if s.proceed(len(p.text)) {
			t.model.encode(s, p.text)
		}
	}
	s.emits = []func(piece){emit}
	for i := len(t.stages) - 1; i >= 0; i-- {
		st, next := t.stages[i], s.emits[0]
		s.emits = append([]func(piece){func(p piece) {
			if s.err == nil {
				s.fail(st.split(p, next))
			}
		}}, s.emits...)
	}
	return s
}

// pollBytes is how much text is encoded between two looks at the context.
const pollBytes = 64 << 10

// proceed accounts for n bytes, and reports whether the text is still to be encoded.
func (s *scratch) proceed(n int) bool {
	if s.bytes -= n + 1; s.bytes < 0 {
		s.bytes = pollBytes
		if s.ctx.Err() != nil {
			s.fail(context.Cause(s.ctx))
		}
	}
	return s.err == nil
}

func (s *scratch) fail(err error) {
	if s.err == nil {
		s.err = err
	}
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
	s.dst, s.ctx, s.err = nil, nil, nil
	if cap(s.syms) > maxKept || cap(s.best) > maxKept || cap(s.heap) > maxKept {
		return
	}
	p.pool.Put(s)
}

// appendEncode appends the ids of text to dst.
func (t *Tokenizer) appendEncode(ctx context.Context, dst []int32, text string, opts EncodeOptions) ([]int32, error) {
	s := t.pool.get(t)
	s.dst, s.ctx, s.bytes = dst, ctx, 0
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
	dst, err := s.dst, s.err
	t.pool.put(s)
	return dst, err
}

// encodeText normalizes a segment that holds no verbatim added token, takes out the added tokens that are matched after
// normalization, and runs the rest through the pre-tokenizers and the model.
func (t *Tokenizer) encodeText(s *scratch, text string, first, special bool) {
	most := maxGrowth*len(text) + 1024
	for _, n := range t.normalizers {
		if !s.proceed(len(text)) {
			return
		}
		if text = n(text); len(text) > most {
			s.fail(fmt.Errorf("tokenizer: its normalizers make %d bytes of %d", len(text), (most-1024)/maxGrowth))
			return
		}
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

func (byteLevelStage) split(p piece, emit func(piece)) error {
	emit(piece{spellBytes(p.text), p.first})
	return nil
}

// prefixSpaceStage puts a space before each piece that does not begin with one.
type prefixSpaceStage struct{}

func (prefixSpaceStage) split(p piece, emit func(piece)) error {
	if !strings.HasPrefix(p.text, " ") {
		p.text = " " + p.text
	}
	emit(p)
	return nil
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

func (m *metaspaceStage) split(p piece, emit func(piece)) error {
	p.text = strings.ReplaceAll(p.text, " ", m.mark)
	if m.prepend == prependAlways || m.prepend == prependFirst && p.first {
		if !strings.HasPrefix(p.text, m.mark) {
			p.text = m.mark + p.text
		}
	}
	if !m.cut {
		emit(p)
		return nil
	}
	for start := 0; start < len(p.text); {
		end := len(p.text)
		if i := strings.Index(p.text[start+1:], m.mark); i >= 0 {
			end = start + 1 + i
		}
		emit(piece{p.text[start:end], p.first && start == 0})
		start = end
	}
	return nil
}

// fixedLengthStage cuts every n runes.
type fixedLengthStage int

func (n fixedLengthStage) split(p piece, emit func(piece)) error {
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
	return nil
}
