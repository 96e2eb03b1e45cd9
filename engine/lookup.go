package engine

import "math/bits"

// lookup guesses what follows a sequence's tokens: what followed the newest ones where they came before, in the text
// that the request gave to look in, the prompt or the output. It learns how often that is right.
//
// It is prompt lookup (github.com/apoorvumang/prompt-lookup-decoding), with an index by pairs of tokens, as in
// LZ77 compressors.
type lookup struct {
	text  []int32 // what the request gave, and then the sequence's tokens
	given int     // of these, the first ones
	heads []int32 // by hash of a pair: 1 + where the newest one ends; 0: there is none. A power of two of them
	prev  []int32 // by place of text: 1 + where the pair before it ends that has the hash of the one that ends here

	at    int // the place of text of the next token's guess; -1: there is none
	match int // tokens before it that are like the newest ones
	wrong int // guesses since it was found that were wrong
	rates [lookupKinds]rate
	usual *[lookupKinds]rate // of all sequences
}

const (
	lookupKinds = 6
	lookupTries = 16 // places that are compared
	lookupLong  = 16 // tokens in common after which no other place is looked for
	lookupWrong = 3  // wrong guesses after which a place is given up
)

// kindOf is the kind of a guess after so many tokens in common: rates are learned by kind.
func kindOf(match int) int {
	switch {
	case match < 1: // the one before was wrong
		return 0
	case match < 3:
		return match
	}
	return min(bits.Len(uint(match))+1, lookupKinds-1)
}

// rate is how often guesses of a kind are right: of the last ones, and some that it is given to begin with.
type rate struct{ right, all float32 }

const (
	rateFirst = 4  // guesses that it is given
	rateMost  = 64 // guesses after which the older half counts half
)

func newRate(chance float64) rate { return rate{float32(chance) * rateFirst, rateFirst} }

func (r *rate) learn(right bool) {
	if r.all++; right {
		r.right++
	}
	if r.all > rateMost {
		r.right, r.all = r.right/2, r.all/2
	}
}

// chance returns how likely a guess is to be right. None is certain.
func (r *rate) chance() float64 { return min(float64(r.right/r.all), 0.99) }

// usualRates are those of lookups as long as nothing was learned.
func usualRates() *[lookupKinds]rate {
	var all [lookupKinds]rate
	for kind, chance := range [lookupKinds]float64{.3, .3, .3, .5, .7, .9} {
		all[kind] = newRate(chance)
	}
	return &all
}

// newLookup makes a lookup for a sequence with a prompt, which may find what follows in a text that was given, too. If
// there is such a text, the output is guessed to begin as it does. How often guesses are right is at first as usual.
func newLookup(given, prompt []int32, usual *[lookupKinds]rate) *lookup {
	l := &lookup{given: len(given), at: -1, usual: usual}
	for kind := range l.rates {
		l.rates[kind] = newRate(usual[kind].chance())
	}
	l.text = append(make([]int32, 0, len(given)+2*len(prompt)), given...)
	for i := 1; i < len(given); i++ {
		l.index(i)
	}
	for _, id := range prompt {
		l.add(id)
	}
	if len(given) > 0 {
		l.at, l.match = 0, lookupLong/2
	} else {
		l.find()
	}
	return l
}

// learn takes the sequence's tokens, of which it knows the first ones.
func (l *lookup) learn(tokens []int32) {
	for _, id := range tokens[len(l.text)-l.given:] {
		if l.at >= 0 {
			right := l.text[l.at] == id
			kind := kindOf(l.match)
			l.rates[kind].learn(right)
			l.usual[kind].learn(right)
			if l.at++; right {
				l.match++
			} else if l.match, l.wrong = 0, l.wrong+1; l.wrong == lookupWrong {
				l.at = -1
			}
		}
		l.add(id)
	}
	l.find()
}

// add appends a token.
func (l *lookup) add(id int32) {
	if l.text = append(l.text, id); len(l.text) > 1 {
		l.index(len(l.text) - 1)
	}
}

// index notes the pair of tokens that ends at a place, which comes after those noted before.
func (l *lookup) index(i int) {
	if i >= len(l.heads) { // make it longer, and all anew
		l.heads = make([]int32, max(256, 1<<bits.Len(uint(2*len(l.text)))))
		l.prev = append(make([]int32, 0, len(l.heads)), 0)
		for j := 1; j < i; j++ {
			l.chain(j)
		}
	}
	l.chain(i)
}

func (l *lookup) chain(i int) {
	h := &l.heads[l.hash(i)]
	l.prev = append(l.prev, *h)
	*h = int32(i) + 1
}

// hash returns that of the pair that ends at a place.
func (l *lookup) hash(i int) uint32 {
	h := (uint32(l.text[i-1])*0x9E3779B1 ^ uint32(l.text[i])) * 0x85EBCA6B
	return h >> (32 - bits.Len(uint(len(l.heads)-1)))
}

// find looks for a place that has more tokens in common with the newest ones than the present one.
func (l *lookup) find() {
	last := len(l.text) - 1
	if last < 1 || l.at >= 0 && l.match >= lookupLong {
		return
	}
	most := 1 // a pair is the least
	if l.at >= 0 {
		most = max(most, l.match)
	}
	for i, tries := int(l.prev[last])-1, 0; i >= 0 && tries < lookupTries; i, tries = int(l.prev[i])-1, tries+1 {
		n := 0
		for n <= i && n < 2*lookupLong && l.text[i-n] == l.text[last-n] {
			n++
		}
		if n > most {
			most, l.at, l.match, l.wrong = n, i+1, n, 0
		}
	}
}

// guess returns the token guessed to come i tokens after the next one, and with which chance it is right if those
// before it are. ok is false if there is none.
func (l *lookup) guess(i int) (id int32, chance float64, ok bool) {
	if l.at < 0 {
		return 0, 0, false
	}
	at := l.at + i
	if period := len(l.text) - l.at; at >= len(l.text) { // what was guessed goes on like that
		at = l.at + i%period
	}
	return l.text[at], l.rates[kindOf(l.match+i)].chance(), true
}
