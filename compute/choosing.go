package compute

import "fmt"

// MaxTop is the most alternatives that are reported beside a token.
const MaxTop = 128

// Choosing says how the tokens of one sequence are chosen. It is plain data, which a device keeps by slot. The order
// is: bias, penalties, DRY, bad words, bans and mask; then the best token if Temperature is 0, else temperature, min-p,
// top-k and top-p, or Chain's stages, and the draw. The lower token wins a tie.
type Choosing struct {
	Temperature float32 // divides the logits; 0 takes the most likely token
	TopP        float32 // keeps the most likely tokens, as few as have this share of the probability; 1 keeps all
	TopK        int     // keeps that many of the most likely tokens; 0 and below keep all
	MinP        float32 // drops tokens less likely than this share of the most likely one's probability; 0 keeps all
	Repetition  float32 // divides positive and multiplies negative logits of tokens so far (arXiv:1909.05858); 1 is off
	Presence    float32 // taken from the logits of tokens that the output holds; 0 is off
	Frequency   float32 // taken once for each time that the output holds the token; 0 is off
	Bias        []TokenBias
	DRY         *DRY      // nil is off
	BadWords    [][]int32 // runs of tokens that the output must not hold
	Banned      []int32   // tokens that a Choice with Ban set must not choose
	Chain       *Chain    // nil: no other stages, and their order is the one above
	// Seed and Choice.N decide a draw, and nothing else does: u = the first 53 bits of Philox-4x32-10 with the seed
	// as key and N as counter, over 2⁵³. Of the tokens left, ascending, it takes the one in whose part of the weight
	// u lies.
	Seed uint64
	// Prompt and Output are the tokens so far, which penalties, DRY and BadWords ask. The device adds what it chooses to
	// an Output of its own.
	Prompt, Output []int32
}

// Plain reports whether logits, temperature, min-p, top-k, top-p and the seed are all that decide, beside a Choice's
// Mask and Ban.
func (c *Choosing) Plain() bool {
	return len(c.Bias) == 0 && !c.Penalties() && c.DRY == nil && len(c.BadWords) == 0 && c.Chain == nil
}

// TokenBias is added to the logit of a token, before all else. A list of them is in ascending order of tokens.
type TokenBias struct {
	Token int32
	Add   float32
}

// Penalties reports whether tokens so far change what is chosen.
func (c *Choosing) Penalties() bool { return c.Repetition != 1 || c.Presence != 0 || c.Frequency != 0 }

// Chooser sets what a slot chooses by. The Choosing must not change while the slot is in use.
type Chooser struct {
	Slot     int32
	Choosing *Choosing
}

// Choice asks for a token from a row's logits, or for what the model thinks of a given one.
type Choice struct {
	Row  int32  // index in Batch.Logits
	Slot int32  // whose Choosing counts; -1 if Given is a token
	N    uint64 // index of the token in its sequence's output, for the draw
	// Given, if not -1, is a token that is known: it is described, not chosen.
	Given int32
	Rank  bool // the rank of Given is reported
	// Top is how many alternatives are reported, at most MaxTop; -1 reports no log probability either.
	Top int32
	// After, if not -1, is an earlier entry, of the row that this row goes on from: this one counts only if that one
	// chose the token that this row computes, Batch.IDs of the row. So a list or a tree of proposed tokens is verified
	// in one step.
	After int32
	Mask  int32 // number of the mask in Batch.Masks; -1 is none
	Ban   bool  // Choosing.Banned must not be chosen
}

// Chosen is a token that was chosen. Logprob and Top are of the model's own distribution, before biases, penalties,
// temperature and filters.
type Chosen struct {
	Token   int32 // -1 if Err is set, or if Choice.After did not hold
	Logprob float32
	Rank    int32       // of Choice.Given, if it is wanted: 1 is the most likely token
	Top     []Candidate // the most likely tokens, best first
	Err     error       // why nothing could be chosen; the fault of this sequence alone
}

// Candidate is a token and the natural logarithm of its probability.
type Candidate struct {
	Token   int32
	Logprob float32
}

// checkChoose reports the first entry of Choose or Read that cannot be.
func (b *Batch) checkChoose(vocab int, l Limits) error {
	for i, c := range b.Choose {
		switch {
		case c.Row < 0 || int(c.Row) >= len(b.Logits):
			return fmt.Errorf("compute: choice %d is of row %d of the logits; there are %d", i, c.Row, len(b.Logits))
		case c.Given < -1 || int(c.Given) >= vocab || c.Given == -1 && (c.Slot < 0 || int(c.Slot) >= l.Slots):
			return fmt.Errorf("compute: choice %d is of token %d, by slot %d; there are %d tokens and %d slots", i, c.Given, c.Slot, vocab, l.Slots)
		case c.Top < -1 || c.Top > MaxTop:
			return fmt.Errorf("compute: choice %d reports %d alternatives; want at most %d", i, c.Top, MaxTop)
		case c.After < -1 || int(c.After) >= i:
			return fmt.Errorf("compute: choice %d comes after choice %d", i, c.After)
		case c.Mask < -1 || (int(c.Mask)+1)*MaskWords(vocab) > len(b.Masks):
			return fmt.Errorf("compute: choice %d wants mask %d; there are %d", i, c.Mask, len(b.Masks)/MaskWords(vocab))
		}
	}
	for _, i := range b.Read {
		if i < 0 || int(i) >= len(b.Logits) {
			return fmt.Errorf("compute: row %d of the logits is wanted; there are %d", i, len(b.Logits))
		}
	}
	return nil
}
