package bench

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"
)

// Conversation is a client's session: consecutive turns, where each prompt contains all messages before it. Most
// workloads have one turn.
type Conversation struct {
	At    time.Duration // when the first turn is due, after the start; unused in closed loops
	Turns []Turn
}

// Turn is one request.
type Turn struct {
	Messages []Message // what the client says since the last answer
	Output   int       // tokens of the answer
}

// Message is one entry of a chat.
type Message struct {
	Role  string
	Parts []Part
}

// Part is a stretch of a message: text, tokens, or else Tokens synthetic tokens, which depend on Seed alone.
type Part struct {
	Text   string
	IDs    []int32
	Seed   uint64
	Tokens int
}

// words are short and common: most tokenizers encode each, with the space before it, as one token.
var words = strings.Fields(`the of and to in is was for that it on as with by at from this be are an or had not but his they
	she all one which were we there has been her if more when will who so no out up what time some about would into two
	them can only other new over very first any could after most then great may such even because here well should where`)

// appendText appends a part as text: a word for each synthetic token. The part must not have tokens.
func (p Part) appendText(dst []byte) []byte {
	if p.Tokens == 0 {
		return append(dst, p.Text...)
	}
	r := rand.New(rand.NewPCG(p.Seed, 1))
	for range p.Tokens {
		dst = append(append(dst, ' '), words[r.IntN(len(words))]...)
	}
	return dst
}

// appendIDs appends a part as tokens of a vocabulary.
func (p Part) appendIDs(dst []int32, vocab int, encode func(string) []int32) []int32 {
	switch {
	case p.IDs != nil:
		return append(dst, p.IDs...)
	case p.Tokens == 0:
		return append(dst, encode(p.Text)...)
	}
	r := rand.New(rand.NewPCG(p.Seed, 1))
	for range p.Tokens {
		dst = append(dst, r.Int32N(int32(vocab)))
	}
	return dst
}

// size returns the tokens of a part; for text it estimates one token for four bytes.
func (p Part) size() int { return p.Tokens + len(p.IDs) + (len(p.Text)+3)/4 }

// Fixed is a workload of equal conversations.
type Fixed struct {
	Conversations int
	Turns         int     // of each
	Input, Output int     // tokens of a turn
	Shared        float64 // share of the first turn's input that is a common prefix of its group
	Groups        int     // number of such prefixes
	Spread        float64 // lengths vary uniformly by this share, up and down
}

// fixedKinds are the sizes of common workloads.
var fixedKinds = map[string]Fixed{
	"fixed":         {Turns: 1, Input: 256, Output: 128, Groups: 1},
	"shared-prefix": {Turns: 1, Input: 1024, Output: 64, Shared: 0.875, Groups: 8}, // many questions about a few documents
	"multi-turn":    {Turns: 6, Input: 96, Output: 96, Groups: 1},                  // chats: each turn repeats those before it
	"long-context":  {Turns: 1, Input: 6000, Output: 128, Groups: 1},
}

// FixedNamed returns the sizes of a named workload: fixed, shared-prefix, multi-turn or long-context.
func FixedNamed(name string) (f Fixed, ok bool) {
	f, ok = fixedKinds[name]
	return f, ok
}

const (
	maxConversations = 1 << 20
	maxTokens        = 1 << 22 // of a turn
)

// Make returns the conversations. Equal seeds give equal conversations.
func (f Fixed) Make(seed uint64) ([]Conversation, error) {
	switch {
	case f.Conversations < 1 || f.Conversations > maxConversations || f.Turns < 1 || f.Turns > 1000:
		return nil, fmt.Errorf("bench: %d conversations of %d turns; want 1 to %d of 1 to 1000", f.Conversations, f.Turns, maxConversations)
	case f.Input < 1 || f.Input > maxTokens || f.Output < 1 || f.Output > maxTokens:
		return nil, fmt.Errorf("bench: turns of %d tokens in and %d out; want 1 to %d of each", f.Input, f.Output, maxTokens)
	case !(f.Shared >= 0 && f.Shared <= 1) || !(f.Spread >= 0 && f.Spread <= 1) || f.Groups < 1:
		return nil, fmt.Errorf("bench: shared %v, spread %v, %d groups; want 0 to 1, 0 to 1, at least 1", f.Shared, f.Spread, f.Groups)
	}
	r := rand.New(rand.NewPCG(seed, 0x66697865))
	vary := func(n int) int {
		return max(1, n+int(math.Round(float64(n)*f.Spread*(2*r.Float64()-1))))
	}
	groups := make([]uint64, f.Groups)
	for i := range groups {
		groups[i] = r.Uint64()
	}
	out := make([]Conversation, f.Conversations)
	for i := range out {
		group := groups[i%len(groups)]
		for t := range f.Turns {
			in := vary(f.Input)
			shared := int(math.Round(f.Shared * float64(in)))
			own := Part{Seed: r.Uint64(), Tokens: max(in-shared, 0)}
			var parts []Part
			if t == 0 && shared > 0 {
				parts = append(parts, Part{Seed: group, Tokens: shared})
			}
			if own.Tokens > 0 {
				parts = append(parts, own)
			}
			if parts == nil { // all of the first turn is shared: later turns are not empty
				parts = []Part{{Seed: r.Uint64(), Tokens: 1}}
			}
			turn := Turn{Messages: []Message{{Role: "user", Parts: parts}}, Output: vary(f.Output)}
			out[i].Turns = append(out[i].Turns, turn)
		}
	}
	return out, nil
}
