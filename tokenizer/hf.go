package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// hfFile is tokenizer.json of the tokenizers library.
type hfFile struct {
	AddedTokens   []hfAddedToken  `json:"added_tokens"`
	Normalizer    *component      `json:"normalizer"`
	PreTokenizer  *component      `json:"pre_tokenizer"`
	PostProcessor *component      `json:"post_processor"`
	Decoder       *component      `json:"decoder"`
	Model         json.RawMessage `json:"model"`
}

type hfAddedToken struct {
	ID         int64  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
	Special    bool   `json:"special"`
}

// component is any normalizer, pre-tokenizer, post-processor or decoder: the union of their fields.
type component struct {
	Type          string      `json:"type"`
	Normalizers   []component `json:"normalizers"`
	PreTokenizers []component `json:"pretokenizers"`
	Processors    []component `json:"processors"`
	Decoders      []component `json:"decoders"`

	Pattern             *hfPattern `json:"pattern"`
	Content             string     `json:"content"`
	Behavior            string     `json:"behavior"`
	Invert              bool       `json:"invert"`
	Prepend             string     `json:"prepend"`
	StripLeft           bool       `json:"strip_left"`
	StripRight          bool       `json:"strip_right"`
	CleanText           *bool      `json:"clean_text"`
	HandleChineseChars  *bool      `json:"handle_chinese_chars"`
	StripAccents        *bool      `json:"strip_accents"`
	Lowercase           *bool      `json:"lowercase"`
	PrecompiledCharsmap []byte     `json:"precompiled_charsmap"`

	AddPrefixSpace   *bool  `json:"add_prefix_space"`
	UseRegex         *bool  `json:"use_regex"`
	Replacement      string `json:"replacement"`
	PrependScheme    string `json:"prepend_scheme"`
	Split            *bool  `json:"split"`
	IndividualDigits bool   `json:"individual_digits"`
	Delimiter        string `json:"delimiter"`
	Length           *int   `json:"length"`

	Single        []hfTemplatePiece          `json:"single"`
	Pair          []hfTemplatePiece          `json:"pair"`
	SpecialTokens map[string]hfTemplateToken `json:"special_tokens"`
	Sep           hfTokenID                  `json:"sep"`
	Cls           hfTokenID                  `json:"cls"`

	Prefix  string `json:"prefix"`
	Suffix  string `json:"suffix"`
	Cleanup *bool  `json:"cleanup"`
	Start   int    `json:"start"`
	Stop    int    `json:"stop"`
}

type hfPattern struct{ String, Regex *string }

type hfTemplatePiece struct {
	Sequence     *hfTemplatePart
	SpecialToken *hfTemplatePart
}

type hfTemplatePart struct {
	ID     string
	TypeID int32 `json:"type_id"`
}

type hfTemplateToken struct {
	IDs []int32 `json:"ids"`
}

// hfTokenID is ["[SEP]", 102].
type hfTokenID struct {
	set bool
	id  int32
}

func (t *hfTokenID) UnmarshalJSON(data []byte) error {
	var token string
	t.set = true
	return json.Unmarshal(data, &[]any{&token, &t.id})
}

func orDefault(p *bool, def bool) bool {
	if p == nil {
		return def
	}
	return *p
}

// loadHF reads tokenizer.json. cfg is the content of the files beside it.
func loadHF(data []byte, cfg config) (*Tokenizer, error) {
	var f hfFile
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("tokenizer.json: %w", err)
	}
	if len(f.Model) == 0 {
		return nil, errors.New(`tokenizer.json: no "model"`)
	}
	t := &Tokenizer{bos: -1}
	if err := t.hfComponents(&f, cfg); err != nil {
		return nil, fmt.Errorf("tokenizer.json: %w", err)
	}
	if err := t.hfModel(&f); err != nil {
		return nil, fmt.Errorf("tokenizer.json: model: %w", err)
	}
	added, err := t.hfAdded(f.AddedTokens)
	if err != nil {
		return nil, fmt.Errorf("tokenizer.json: %w", err)
	}
	t.finish(added)
	for _, id := range slices.Concat(t.prefix, t.suffix) {
		if id < 0 || int(id) >= len(t.vocab.text) {
			return nil, fmt.Errorf("tokenizer.json: post_processor names id %d of a vocabulary of %d", id, len(t.vocab.text))
		}
	}
	return t, t.configure(cfg)
}

// hfAdded gives the added tokens their ids: the library looks their text up in the vocabulary first, and numbers the
// others in order, which a well-formed file says itself.
func (t *Tokenizer) hfAdded(list []hfAddedToken) ([]addedToken, error) {
	inVocab := make(map[string]int32, len(list))
	for _, a := range list {
		inVocab[a.Content] = -1
	}
	for id, text := range t.vocab.text {
		if _, ok := inVocab[text]; ok {
			inVocab[text] = int32(id)
		}
	}
	var added []addedToken
	limit := int64(4*len(t.vocab.text) + len(list) + 1<<16)
	for _, a := range list {
		id := int64(inVocab[a.Content])
		if id < 0 {
			id = a.ID
		}
		if id < 0 || id >= limit {
			return nil, fmt.Errorf("added token %q has id %d, out of range for %d tokens", a.Content, id, len(t.vocab.text))
		}
		inVocab[a.Content] = int32(id)
		added = append(added, addedToken{content: a.Content, id: int32(id), special: a.Special, singleWord: a.SingleWord,
			lstrip: a.LStrip, rstrip: a.RStrip, normalized: a.Normalized})
	}
	return added, nil
}

func (t *Tokenizer) hfComponents(f *hfFile, cfg config) (err error) {
	if f.Normalizer != nil {
		if t.normalizers, err = hfNormalizers(nil, f.Normalizer); err != nil {
			return fmt.Errorf("normalizer: %w", err)
		}
	}
	var names hfSplitNames
	if f.PreTokenizer != nil {
		if t.stages, err = hfStages(nil, f.PreTokenizer, &names); err != nil {
			return fmt.Errorf("pre_tokenizer: %w", err)
		}
	}
	t.pre = names.name()
	if f.PostProcessor != nil {
		if t.prefix, t.suffix, err = hfPostProcessor(f.PostProcessor); err != nil {
			return fmt.Errorf("post_processor: %w", err)
		}
		if t.pair, err = hfPair(f.PostProcessor); err != nil {
			return fmt.Errorf("post_processor: %w", err)
		}
	}
	if f.Decoder == nil {
		t.decode.spaced = true
	} else if err = t.decode.hfDecoder(f.Decoder, false, new(bool)); err != nil {
		return fmt.Errorf("decoder: %w", err)
	}
	wordPieces := f.Decoder != nil && f.Decoder.Type == "WordPiece"
	t.decode.cleanup = wordPieces && orDefault(cfg.CleanUp, false)
	return nil
}

// hfSplitNames collects what the pre-tokenizers are, for PreTokenizer.
type hfSplitNames struct{ types, patterns []string }

func (n *hfSplitNames) name() string {
	if name, ok := patternNames[strings.Join(n.patterns, "\x00")]; ok && len(n.patterns) > 0 {
		return name
	}
	if len(n.types) == 0 {
		return "none"
	}
	return strings.Join(n.types, "+")
}
