package tokenizer

import (
	"context"
	"errors"
	"fmt"
)

// pairPiece is a part of a template for two texts: fixed ids, or the first or the second text.
type pairPiece struct {
	ids  []int32
	text int   // 1 or 2; 0 is ids
	kind int32 // type of the tokens
}

// Around returns the ids that AddSpecial puts before and after a text.
func (t *Tokenizer) Around() (prefix, suffix []int32) { return t.prefix, t.suffix }

// ErrNoPairs is returned if a tokenizer's configuration does not define how to join two texts.
var ErrNoPairs = errors.New("tokenizer: there is no template for pairs of texts")

// EncodePair returns the ids of two texts as one sequence, with the tokens that the tokenizer's own configuration puts
// around and between them, and the type of each token. If the sequence would be longer than most, the second text is
// cut at its end; 0 is no limit. It ends with ctx. Special tokens spelled out in the texts are ordinary text.
func (t *Tokenizer) EncodePair(ctx context.Context, first, second string, most int) (ids, types []int32, err error) {
	if t.pair == nil {
		return nil, nil, ErrNoPairs
	}
	var texts [3][]int32
	for i, text := range []string{first, second} {
		if texts[i+1], err = t.EncodeContext(ctx, text, EncodeOptions{}); err != nil {
			return nil, nil, err
		}
	}
	around := len(texts[1])
	for _, p := range t.pair {
		around += len(p.ids)
	}
	if n := len(texts[2]); most > 0 && around+n > most {
		texts[2] = texts[2][:max(0, most-around)]
	}
	for _, p := range t.pair {
		part := p.ids
		if p.text > 0 {
			part = texts[p.text]
		}
		ids = append(ids, part...)
		for range part {
			types = append(types, p.kind)
		}
	}
	return ids, types, nil
}

// bertPair is [CLS] first [SEP] second [SEP]; the tokens from second on have type 1.
func bertPair(cls, sep int32) []pairPiece {
	return []pairPiece{{ids: []int32{cls}}, {text: 1}, {ids: []int32{sep}}, {text: 2, kind: 1}, {ids: []int32{sep}, kind: 1}}
}

// hfPair returns the template for pairs of a post-processor, nil if it has none.
func hfPair(c *component) ([]pairPiece, error) {
	switch c.Type {
	case "BertProcessing":
		return bertPair(c.Cls.id, c.Sep.id), nil
	case "RobertaProcessing": // which separates by two
		return []pairPiece{{ids: []int32{c.Cls.id}}, {text: 1}, {ids: []int32{c.Sep.id, c.Sep.id}}, {text: 2}, {ids: []int32{c.Sep.id}}}, nil
	case "Sequence":
		for i := range c.Processors {
			if pair, err := hfPair(&c.Processors[i]); pair != nil || err != nil {
				return pair, err
			}
		}
		return nil, nil
	}
	var pair []pairPiece
	seen := [3]int{}
	for _, p := range c.Pair {
		switch {
		case p.Sequence != nil && (p.Sequence.ID == "A" || p.Sequence.ID == "B"):
			text := int(p.Sequence.ID[0]-'A') + 1
			seen[text]++
			pair = append(pair, pairPiece{text: text, kind: p.Sequence.TypeID})
		case p.SpecialToken != nil:
			tok, ok := c.SpecialTokens[p.SpecialToken.ID]
			if !ok {
				return nil, fmt.Errorf("TemplateProcessing: special token %q is not defined", p.SpecialToken.ID)
			}
			pair = append(pair, pairPiece{ids: tok.IDs, kind: p.SpecialToken.TypeID})
		default:
			return nil, errors.New("TemplateProcessing: a piece of pair is neither sequence A, nor B, nor a special token")
		}
	}
	if seen != [3]int{1: 1, 2: 1} {
		return nil, nil // one that does not name both texts once is of no use
	}
	return pair, nil
}
