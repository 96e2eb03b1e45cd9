package tokenizer

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// config is the content of tokenizer_config.json, special_tokens_map.json and generation_config.json.
type config struct {
	AddBOS *bool        `json:"add_bos_token"`
	AddEOS *bool        `json:"add_eos_token"`
	BOS    configToken  `json:"bos_token"`
	EOS    configTokens `json:"eos_token"`
	UNK    configToken  `json:"unk_token"`
	PAD    configToken  `json:"pad_token"`
	// CleanUp is followed for WordPiece only: over other vocabularies it would corrupt text.
	CleanUp *bool                       `json:"clean_up_tokenization_spaces"`
	Added   map[string]configAddedToken `json:"added_tokens_decoder"`

	eosIDs []int32
	bosID  *int32
}

type configAddedToken struct {
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
	Special    bool   `json:"special"`
}

// configToken is a token's text, plain or as an object, or null.
type configToken string

func (c *configToken) UnmarshalJSON(data []byte) error {
	var object struct {
		Content string `json:"content"`
	}
	if len(data) > 0 && data[0] == '{' {
		err := json.Unmarshal(data, &object)
		*c = configToken(object.Content)
		return err
	}
	var text *string
	err := json.Unmarshal(data, &text)
	*c = configToken(deref(text))
	return err
}

// configTokens is one token or a list of them.
type configTokens []configToken

func (c *configTokens) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '[' {
		return json.Unmarshal(data, (*[]configToken)(c))
	}
	*c = configTokens{""}
	return json.Unmarshal(data, &(*c)[0])
}

// idList is one id or a list of them, or null.
type idList []int32

func (l *idList) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '[' {
		return json.Unmarshal(data, (*[]int32)(l))
	}
	var id *int32
	err := json.Unmarshal(data, &id)
	if id != nil {
		*l = idList{*id}
	}
	return err
}

// readConfig reads the files in dir; none is required.
func readConfig(dir string) (config, error) {
	var c, special config
	if err := readJSON(filepath.Join(dir, "tokenizer_config.json"), &c); err != nil {
		return c, err
	}
	if err := readJSON(filepath.Join(dir, "special_tokens_map.json"), &special); err != nil {
		return c, err
	}
	if c.BOS == "" {
		c.BOS = special.BOS
	}
	c.EOS = append(c.EOS, special.EOS...)
	var generation, model struct {
		BOS idList `json:"bos_token_id"`
		EOS idList `json:"eos_token_id"`
	}
	if err := readJSON(filepath.Join(dir, "generation_config.json"), &generation); err != nil {
		return c, err
	}
	if err := readJSON(filepath.Join(dir, "config.json"), &model); err != nil {
		return c, err
	}
	if c.eosIDs = generation.EOS; len(c.eosIDs) == 0 {
		c.eosIDs = model.EOS
	}
	if len(model.BOS) == 1 {
		c.bosID = &model.BOS[0]
	}
	return c, nil
}

func readJSON(path string, into any) error {
	data, err := readFile(path, maxConfigSize)
	if os.IsNotExist(err) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	return nil
}

// endOfGeneration are the texts of tokens that end a turn, a message or a document in the vocabularies of the field.
var endOfGeneration = []string{
	"<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>", "<end_of_turn>",
	"<|endoftext|>", "<|eom_id|>", "<|eot|>", "<|eom|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]", "<|end_of_text|>",
	"<end_of_utterance>", "<eos>", "<turn|>", "<｜end▁of▁sentence｜>", "[e~[", "<|END_OF_TURN_TOKEN|>", "<|endofturn|>",
	"<|eos|>", "<|role_end|>", "<|hy_eos|>", "<|eod_id|>",
}

// configure sets BOS, EOS and what AddSpecial adds from the files beside the vocabulary.
func (t *Tokenizer) configure(c config) error {
	if c.BOS != "" {
		if id, ok := t.ID(string(c.BOS)); ok {
			t.bos = id
		}
	}
	if t.bos < 0 && len(t.prefix) == 1 && t.kind != "wordpiece" {
		t.bos = t.prefix[0]
	}
	for _, id := range c.eosIDs {
		if id < 0 {
			return fmt.Errorf("eos_token_id %d is negative", id)
		}
		if int(id) < len(t.vocab.text) {
			t.eos = append(t.eos, id)
		}
	}
	for _, tok := range c.EOS {
		if id, ok := t.ID(string(tok)); ok && tok != "" {
			t.eos = append(t.eos, id)
		}
	}
	eos := int32(-1)
	if len(c.EOS) > 0 {
		if id, ok := t.ID(string(c.EOS[0])); ok {
			eos = id
		}
	}
	if t.kind != "wordpiece" {
		t.prefix = overrideSpecial(t.prefix, t.bos, c.AddBOS, true)
		t.suffix = overrideSpecial(t.suffix, eos, c.AddEOS, false)
	}
	t.finishSpecial()
	return nil
}

// overrideSpecial follows an explicit add_bos_token or add_eos_token where the post-processor says otherwise. A
// post-processor that adds other tokens too keeps them.
func overrideSpecial(ids []int32, id int32, add *bool, front bool) []int32 {
	switch {
	case add == nil || id < 0:
	case !*add && len(ids) == 1 && ids[0] == id:
		return nil
	case *add && !slices.Contains(ids, id) && front:
		return append([]int32{id}, ids...)
	case *add && !slices.Contains(ids, id):
		return append(ids, id)
	}
	return ids
}

// finishSpecial completes the list of ids that end a generation.
func (t *Tokenizer) finishSpecial() {
	for _, text := range endOfGeneration {
		if id, ok := t.ID(text); ok && t.isAdded(id) {
			t.eos = append(t.eos, id)
		}
	}
	slices.Sort(t.eos)
	t.eos = slices.Compact(t.eos)
	t.dropChannelEnd()
	t.addBOS = t.bos >= 0 && slices.Contains(t.prefix, t.bos)
}

// isAdded reports whether id is an added or special token, which ordinary text never yields by chance.
func (t *Tokenizer) isAdded(id int32) bool {
	if t.vocab.special[id] {
		return true
	}
	for _, m := range []*addedMatcher{t.added, t.addedNormalized} {
		if m != nil && slices.ContainsFunc(m.tokens, func(a addedToken) bool { return a.id == id }) {
			return true
		}
	}
	return false
}

// dropChannelEnd removes <|end|> where it only ends a channel, as in harmony's format: there <|return|> (or <|flush|>)
// and <|call|> end the generation.
func (t *Tokenizer) dropChannelEnd() {
	has := func(text string) bool {
		id, ok := t.ID(text)
		return ok && slices.Contains(t.eos, id)
	}
	if (has("<|return|>") || has("<|flush|>")) && (has("<|call|>") || has("<|calls|>")) && has("<|end|>") {
		end, _ := t.ID("<|end|>")
		t.eos = slices.DeleteFunc(t.eos, func(id int32) bool { return id == end })
	}
}
