package engine

import (
	"errors"
	"sync"
	"unsafe"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/guard"
)

// ErrUnread ends a request whose reader leaves most of the tokens that wait for readers, when these take all the memory
// there is for them.
var ErrUnread = errors.New("engine: its tokens were not read, and take all the memory there is for such")

const (
	usualBacklog = 64 << 20 // Config.Backlog
	fewUnread    = 16 << 10 // bytes that may wait in a stream uncounted
)

// backlog bounds what waits in streams for their readers. Streams where little waits are not counted: a reader that
// keeps up costs nothing here.
type backlog struct {
	most int64 // bytes

	mu     sync.Mutex
	bytes  int64 // in all streams
	unread map[*Stream]int64
}

// bytes returns what a token takes while it waits.
func (b *brief) bytes() int64 {
	n := int64(unsafe.Sizeof(*b))
	if b.all != nil {
		n += int64(unsafe.Sizeof(*b.all)) + int64(cap(b.all.Top))*int64(unsafe.Sizeof(compute.Candidate{}))
	}
	return n
}

// note sets what waits in a stream; 0 is little. It returns the streams that are to end for it.
func (b *backlog) note(s *Stream, bytes int64) (end []*Stream) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bytes += bytes - b.unread[s]
	if b.unread[s] = bytes; bytes == 0 {
		delete(b.unread, s)
	}
	for b.bytes > b.most {
		var worst *Stream
		for o, n := range b.unread {
			if n > b.unread[worst] {
				worst = o
			}
		}
		b.bytes -= b.unread[worst]
		delete(b.unread, worst)
		end = append(end, worst)
	}
	return end
}

// count notes that so many more bytes wait in the stream, whose mu the caller holds, and returns the streams that are
// to end for it. When ctx is done nobody reads, and nothing is counted any more.
func (s *Stream) count(bytes int64) (end []*Stream) {
	s.waits += bytes
	many := s.waits > fewUnread
	if !many && !s.counted {
		return nil
	}
	if many && !s.counted {
		s.uncount = guard.OnDone(s.ctx, func() error { s.engine.backlog.note(s, 0); return nil }, func(error) {})
	} else if !many {
		s.uncount()
	}
	s.counted = many
	if many {
		end = s.engine.backlog.note(s, s.waits)
	}
	if !many || s.ctx.Err() != nil {
		s.engine.backlog.note(s, 0)
	}
	return end
}

// drop ends a stream whose reader has left too much in it.
func (s *Stream) drop() {
	s.mu.Lock()
	if !s.counted { // it was read meanwhile
		s.mu.Unlock()
		return
	}
	s.uncount()
	s.engine.backlog.note(s, 0)
	t := briefOf(Token{ID: -1, Finish: FinishError, Err: ErrUnread})
	s.tokens, s.taken, s.waits, s.counted, s.ended, s.dropped = []brief{t}, 0, t.bytes(), false, true, true
	s.mu.Unlock()
	s.engine.inbox.post(message{seq: s.seq, reason: FinishError, err: ErrUnread}) // fails where the engine ends
}
