package family

import (
	"slices"
	"strings"

	"github.com/kvasir-llm/kvasir/model"
)

// bert is an encoder: learned positions and token types, a norm after each sum, biases, a feed-forward without a
// gate. One that was made to classify (…ForSequenceClassification) has a head over its classes.
var bert = family{
	types: []string{"bert"}, archs: []string{"bert"},
	defaults:  bertDefaults,
	assumed:   map[string]any{"hidden_act": "gelu", "max_position_embeddings": 512},
	keys:      map[string]string{"layer_norm_eps": "rms_norm_eps"},
	slots:     bertSlots("bert.", "bert.pooler.dense", "classifier"),
	ggufSlots: Slots{"embed.norm": "token_embd_norm", "attn.post": "blk.%d.attn_output_norm", "ffn.post": "blk.%d.layer_output_norm"},
	spec:      bertSpec,
}

// roberta counts positions from the one after its padding token's id on, so that the first rows of the table are
// unused.
var roberta = family{
	types: []string{"roberta", "xlm-roberta", "camembert"}, within: &bert,
	defaults: bertDefaults,
	keys:     bert.keys,
	slots:    bertSlots("roberta.", "classifier.dense", "classifier.out_proj"),
	spec: func(c *Config) *draft {
		s := bertSpec(c)
		s.PositionsFrom = c.IntOr("pad_token_id", 1) + 1
		s.Positions -= s.PositionsFrom
		s.Context = s.Positions
		return s
	},
}

var bertDefaults = map[string]any{
	"rms_norm_eps": 1e-12, "max_position_embeddings": 512, "type_vocab_size": 2, "hidden_act": "gelu", "num_labels": 2,
}

func bertSpec(c *Config) *draft {
	c.Refuse("position_embedding_type", "absolute")
	c.Refuse("is_decoder", false)
	c.Refuse("causal", false)
	s := decoderShape(c)
	s.Encoder, s.EmbedNorm, s.TiedHead = true, true, false
	s.Positions, s.TokenTypes = s.Context, c.IntOr("type_vocab_size", 0)
	if s.Classes = c.IntOr("num_labels", 0); !c.gguf() {
		if labels, ok := c.Sub("id2label"); ok {
			s.Classes = len(labels.keys())
		}
		if !slices.ContainsFunc(c.Texts("architectures"), func(a string) bool { return strings.HasSuffix(a, "ForSequenceClassification") }) {
			s.Classes = 0
		}
	}
	s.biased(true)
	s.Norm.Center, s.Norm.Bias = true, true
	s.each(func(_ int, l *model.Layer) { l.PreNorm, l.SumNorm, l.FFN.Gated = false, true, false })
	return s
}

// bertSlots returns the names of tensors under a prefix, with those of the two products that classify.
func bertSlots(prefix, pooler, classes string) Slots {
	layer := prefix + "encoder.layer.%d."
	return Slots{
		"embed":      prefix + "embeddings.word_embeddings",
		"positions":  prefix + "embeddings.position_embeddings",
		"types":      prefix + "embeddings.token_type_embeddings",
		"embed.norm": prefix + "embeddings.LayerNorm",
		"q":          layer + "attention.self.query",
		"k":          layer + "attention.self.key",
		"v":          layer + "attention.self.value",
		"o":          layer + "attention.output.dense",
		"attn.post":  layer + "attention.output.LayerNorm",
		"up":         layer + "intermediate.dense",
		"down":       layer + "output.dense",
		"ffn.post":   layer + "output.LayerNorm",
		"pooler":     pooler,
		"classes":    classes,
	}
}
