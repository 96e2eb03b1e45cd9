package tokenizer

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

func unsupported(c *component) error {
	if c.Type == "" {
		return errors.New("a component has no type")
	}
	return fmt.Errorf("%s is not supported", c.Type)
}

// finder compiles a component's pattern.
func (c *component) finder() (finder, error) {
	switch {
	case c.Pattern == nil || c.Pattern.String == nil && c.Pattern.Regex == nil:
		return nil, fmt.Errorf("%s has no pattern", c.Type)
	case c.Pattern.Regex != nil:
		return compilePattern(*c.Pattern.Regex)
	case *c.Pattern.String == "":
		return nil, fmt.Errorf("%s has an empty pattern", c.Type)
	}
	return literal(*c.Pattern.String), nil
}

func hfNormalizers(list []normalizer, c *component) ([]normalizer, error) {
	switch c.Type {
	case "Sequence":
		for i := range c.Normalizers {
			var err error
			if list, err = hfNormalizers(list, &c.Normalizers[i]); err != nil {
				return nil, err
			}
		}
		return list, nil
	case "NFC":
		return append(list, unicodeForm(norm.NFC)), nil
	case "NFD":
		return append(list, unicodeForm(norm.NFD)), nil
	case "NFKC":
		return append(list, unicodeForm(norm.NFKC)), nil
	case "NFKD":
		return append(list, unicodeForm(norm.NFKD)), nil
	case "Lowercase":
		return append(list, lowercase), nil
	case "StripAccents":
		return append(list, dropSet(setMark)), nil
	case "Strip":
		return append(list, stripSpace(c.StripLeft, c.StripRight)), nil
	case "Prepend":
		if len(c.Prepend) > 512 {
			return nil, fmt.Errorf("the normalizer Prepend has %d bytes; at most 512 are allowed", len(c.Prepend))
		}
		return append(list, prependText(c.Prepend)), nil
	case "Nmt":
		return append(list, nmt), nil
	case "ByteLevel":
		return append(list, spellBytes), nil
	case "BertNormalizer":
		lower := orDefault(c.Lowercase, true)
		return append(list, bertRules{clean: orDefault(c.CleanText, true), chinese: orDefault(c.HandleChineseChars, true),
			accents: orDefault(c.StripAccents, lower), lower: lower}.normalize), nil
	case "Replace":
		f, err := c.finder()
		if err != nil {
			return nil, err
		}
		if _, slow := f.(backtracking); slow {
			return nil, fmt.Errorf("Replace has a pattern that is not regular")
		}
		if l, _ := f.(literal); len(c.Content) > maxReplace*max(1, len(l)) {
			return nil, fmt.Errorf("Replace puts %d bytes in the place of a pattern; at most %d are allowed for each of its bytes", len(c.Content), maxReplace)
		}
		if l, ok := f.(literal); ok {
			return append(list, replaceText(string(l), c.Content)), nil
		}
		return append(list, replaceMatches(f, c.Content)), nil
	case "Precompiled":
		m, err := parseCharsmap(c.PrecompiledCharsmap)
		if err != nil || m == nil {
			return list, err
		}
		return append(list, m.byGrapheme), nil
	}
	return nil, unsupported(c)
}

// hfStages appends a pre-tokenizer's stages. A final byteLevelStage is left to hfModel to drop.
func hfStages(list []stage, c *component, names *hfSplitNames) ([]stage, error) {
	if c.Type != "Sequence" {
		names.types = append(names.types, c.Type)
	}
	cut := func(f finder, b splitBehavior) ([]stage, error) {
		return append(list, &splitter{find: f, behavior: b}), nil
	}
	switch c.Type {
	case "Sequence":
		for i := range c.PreTokenizers {
			var err error
			if list, err = hfStages(list, &c.PreTokenizers[i], names); err != nil {
				return nil, err
			}
		}
		return list, nil
	case "ByteLevel":
		if orDefault(c.AddPrefixSpace, true) {
			list = append(list, prefixSpaceStage{})
		}
		if orDefault(c.UseRegex, true) {
			f, err := compilePattern(patternGPT2)
			if err != nil {
				return nil, err
			}
			names.patterns = append(names.patterns, patternGPT2)
			list = append(list, &splitter{find: f})
		}
		return append(list, byteLevelStage{}), nil
	case "Split":
		f, err := c.finder()
		if err != nil {
			return nil, err
		}
		b, ok := splitBehaviors[c.Behavior]
		if !ok {
			return nil, fmt.Errorf("component Split: behavior %q is not supported", c.Behavior)
		}
		if c.Pattern.Regex != nil {
			names.patterns = append(names.patterns, *c.Pattern.Regex)
		}
		return append(list, &splitter{find: f, behavior: b, invert: c.Invert}), nil
	case "Whitespace":
		f, err := compileNode(&node{op: opAlt, sub: []*node{
			{op: opRepeat, min: 1, max: -1, sub: []*node{{op: opSet, set: setRustWord}}},
			{op: opRepeat, min: 1, max: -1, sub: []*node{{op: opSet, set: setRustWord.union(setSpace).negate()}}}}})
		return append(list, &splitter{find: f, behavior: splitRemoved, invert: true}), err
	case "WhitespaceSplit":
		return cut(setFinder(setSpace, false), splitRemoved)
	case "BertPreTokenizer":
		return append(list, &splitter{find: setFinder(setSpace, false), behavior: splitRemoved},
			&splitter{find: setFinder(setPunct, false)}), nil
	case "Punctuation":
		b, ok := splitBehaviors[c.Behavior]
		if !ok && c.Behavior != "" {
			return nil, fmt.Errorf("component Punctuation: behavior %q is not supported", c.Behavior)
		}
		return cut(setFinder(setPunct, false), b)
	case "Digits":
		if c.IndividualDigits {
			return cut(setFinder(setNumber, false), splitIsolated)
		}
		return cut(setFinder(setNumber, false), splitContiguous)
	case "CharDelimiterSplit":
		if utf8.RuneCountInString(c.Delimiter) != 1 {
			return nil, fmt.Errorf("CharDelimiterSplit: delimiter %q is not one character", c.Delimiter)
		}
		return cut(literal(c.Delimiter), splitRemoved)
	case "FixedLength":
		n := 5
		if c.Length != nil {
			n = *c.Length
		}
		if n < 1 {
			return nil, fmt.Errorf("FixedLength: length %d is not positive", n)
		}
		return append(list, fixedLengthStage(n)), nil
	case "Metaspace":
		m, err := hfMetaspace(c)
		return append(list, m), err
	}
	return nil, unsupported(c)
}

func hfMetaspace(c *component) (*metaspaceStage, error) {
	m := &metaspaceStage{mark: c.Replacement, cut: orDefault(c.Split, true)}
	if utf8.RuneCountInString(m.mark) != 1 {
		return nil, fmt.Errorf("component Metaspace: replacement %q is not one character", m.mark)
	}
	switch c.PrependScheme {
	case "always":
	case "":
		if !orDefault(c.AddPrefixSpace, true) {
			m.prepend = prependNever
		}
	case "first":
		m.prepend = prependFirst
	case "never":
		m.prepend = prependNever
	default:
		return nil, fmt.Errorf("component Metaspace: prepend_scheme %q is not supported", c.PrependScheme)
	}
	return m, nil
}

// hfPostProcessor returns the ids that are put before and after a single sequence.
func hfPostProcessor(c *component) (prefix, suffix []int32, err error) {
	switch c.Type {
	case "ByteLevel":
		return nil, nil, nil
	case "BertProcessing", "RobertaProcessing":
		if !c.Cls.set || !c.Sep.set {
			return nil, nil, fmt.Errorf("%s lacks cls or sep", c.Type)
		}
		return []int32{c.Cls.id}, []int32{c.Sep.id}, nil
	case "Sequence":
		for i := range c.Processors {
			p, s, err := hfPostProcessor(&c.Processors[i])
			if err != nil {
				return nil, nil, err
			}
			prefix, suffix = append(p, prefix...), append(suffix, s...)
		}
		return prefix, suffix, nil
	case "TemplateProcessing":
		return hfTemplate(c)
	}
	return nil, nil, unsupported(c)
}

func hfTemplate(c *component) (prefix, suffix []int32, err error) {
	sequences := 0
	for _, p := range c.Single {
		switch {
		case p.Sequence != nil && p.Sequence.ID == "A":
			sequences++
		case p.SpecialToken != nil:
			tok, ok := c.SpecialTokens[p.SpecialToken.ID]
			if !ok {
				return nil, nil, fmt.Errorf("TemplateProcessing: special token %q is not defined", p.SpecialToken.ID)
			}
			if sequences == 0 {
				prefix = append(prefix, tok.IDs...)
			} else {
				suffix = append(suffix, tok.IDs...)
			}
		default:
			return nil, nil, errors.New("TemplateProcessing: a piece of single is neither sequence A nor a special token")
		}
	}
	if sequences != 1 {
		return nil, nil, fmt.Errorf("TemplateProcessing: single has sequence A %d times, not once", sequences)
	}
	return prefix, suffix, nil
}

// hfDecoder adds a decoder's rules. fused means that tokens have been joined; after that, only rules that do not depend
// on the beginnings of tokens can be followed.
func (r *decodeRules) hfDecoder(c *component, inSequence bool, fused *bool) error {
	step := func(f decodeStep) error {
		if *fused {
			return fmt.Errorf("%s after the tokens are joined is not supported", c.Type)
		}
		r.steps = append(r.steps, f)
		return nil
	}
	switch c.Type {
	case "Sequence":
		for i := range c.Decoders {
			if err := r.hfDecoder(&c.Decoders[i], true, fused); err != nil {
				return err
			}
		}
		return nil
	case "ByteLevel":
		if len(r.steps) > 0 || r.fallback {
			return errors.New("ByteLevel after another decoder is not supported")
		}
		r.byteLevel, *fused = true, true
		return nil
	case "ByteFallback":
		r.fallback = true
		return nil
	case "Fuse":
		*fused = true
		return nil
	case "Replace":
		return r.hfReplace(c, fused)
	case "Strip":
		return r.hfStrip(c, fused)
	case "Metaspace":
		m, err := hfMetaspace(c)
		if err != nil {
			return err
		}
		return step(func(token string, first bool) string {
			if first && m.prepend != prependNever {
				return strings.ReplaceAll(token, m.mark, "")
			}
			return strings.ReplaceAll(token, m.mark, " ")
		})
	case "WordPiece":
		cleanup := orDefault(c.Cleanup, true)
		return step(func(token string, first bool) string {
			if rest, ok := strings.CutPrefix(token, c.Prefix); ok && !first {
				token = rest
			} else if !first {
				token = " " + token
			}
			if cleanup {
				token = cleanUpToken.Replace(token)
			}
			return token
		})
	case "BPEDecoder":
		if inSequence {
			return errors.New("BPEDecoder in a Sequence is not supported")
		}
		r.suffix = c.Suffix
		return nil
	}
	return unsupported(c)
}

// hfReplace adds a replacement within tokens. Of one character it may come after joining too: it means the same.
func (r *decodeRules) hfReplace(c *component, fused *bool) error {
	f, err := c.finder()
	if err != nil {
		return err
	}
	if l, ok := f.(literal); ok && (!*fused || utf8.RuneCountInString(string(l)) == 1 && !r.byteLevel && r.strip == 0) {
		r.steps = append(r.steps, func(token string, _ bool) string {
			return strings.ReplaceAll(token, string(l), c.Content)
		})
		return nil
	}
	if *fused {
		return errors.New("Replace after the tokens are joined is not supported")
	}
	replace := replaceMatches(f, c.Content)
	r.steps = append(r.steps, func(token string, _ bool) string { return replace(token) })
	return nil
}

// hfStrip cuts characters off each token, or after joining off the text.
func (r *decodeRules) hfStrip(c *component, fused *bool) error {
	if utf8.RuneCountInString(c.Content) != 1 || c.Start < 0 || c.Stop < 0 {
		return fmt.Errorf("component Strip: content %q, start %d, stop %d", c.Content, c.Start, c.Stop)
	}
	content, _ := utf8.DecodeRuneInString(c.Content)
	if *fused {
		if c.Stop > 0 || r.strip > 0 {
			return errors.New("component Strip at the end of the joined text is not supported")
		}
		r.strip, r.stripRune = c.Start, content
		return nil
	}
	r.steps = append(r.steps, func(token string, _ bool) string {
		runes := []rune(token)
		for i := 0; i < c.Start && len(runes) > 0 && runes[0] == content; i++ {
			runes = runes[1:]
		}
		for i := 0; i < c.Stop && len(runes) > 0 && runes[len(runes)-1] == content; i++ {
			runes = runes[:len(runes)-1]
		}
		return string(slices.Clip(runes))
	})
	return nil
}
