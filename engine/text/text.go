// Package text is a served model that speaks text: it opens a checkpoint with its tokenizer and chat template, renders and
// encodes prompts, and turns an engine's tokens back into text as they come. It knows nothing of HTTP. Read Model first.
package text

import (
	"time"

	"github.com/kvasir-llm/kvasir/chat"
	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/kv"
	"github.com/kvasir-llm/kvasir/model"
	"github.com/kvasir-llm/kvasir/sampling"
	"github.com/kvasir-llm/kvasir/tokenizer"
)

// Model is a model ready to answer. Its methods may be called from several goroutines.
type Model struct {
	Name      string
	Spec      *model.Spec
	Tokenizer *tokenizer.Tokenizer
	Template  *chat.Template // nil if the checkpoint has none
	Engine    *engine.Engine
	Defaults  sampling.Params // what the checkpoint's generation_config.json recommends
	Context   int             // most tokens of prompt and answer together
	Opened    time.Time
	Bytes     int64 // of the weights on the device
	KVBytes   int64 // of the KV cache
	Device    string

	BlockTokens int        // tokens of a KV block
	KVGroups    []kv.Group // the groups of layers that have KV blocks of their own
	MaxLoRAs    int        // adapters on the device at once

	Pooling   engine.Pooling // how embeddings are made of hidden states
	Normalise bool           // whether they get length 1, for who does not say
	pooling   error          // why there are none
	scores    string         // what becomes of a class's logit: "sigmoid" or "identity"

	stops   []int32 // tokens that end an answer
	longest int     // bytes of the longest token
	loaded  *model.Model
	maxRank int // of adapters; 0 is any
	closer  func() error
}

// Request is one prompt to continue: exactly one of Prompt, IDs and Chat is set.
type Request struct {
	Prompt string      // plain text
	IDs    []int32     // tokens
	Chat   *chat.Input // a conversation, rendered by the model's template; BOS and EOS are filled in

	Params         sampling.Params
	MaxTokens      int // new tokens at most; 0 is the rest of the context
	MinTokens      int // the answer does not end before that many tokens
	Stop           []string
	StopTokens     []int32       // end the answer too, beside the model's own
	IncludeStop    bool          // a stop string is part of the answer
	IgnoreEOS      bool          // the model's own end tokens do not end the answer
	KeepSpecial    bool          // special tokens appear in the text
	NoSpecial      bool          // no BOS is put before Prompt
	Logprobs       int           // alternatives to report for each token; -1 is no log probabilities at all
	PromptLogprobs int           // the same for the prompt's tokens
	Priority       int           // the lowest comes first, where the policy asks for it or the queue is full
	Tenant         string        // whom the policy vtc counts the request for
	FirstToken     time.Duration // when the first token is wanted, and each after it; see engine.Request
	PerToken       time.Duration
	Timeout        time.Duration        // ends the request with engine.ErrTimeout; 0 is never
	Adapter        string               // who answers; "" is the model itself
	Salt           string               // separates this request's cached prefixes from those of others
	Keep           kv.Retention         // what it asks for its KV blocks; see engine.Request
	Parent         *Generation          // another answer to the same prompt, whose part of the KV cache this one shares; nil: none
	Search         *sampling.BeamParams // the answers are those of a beam search: see Model.Search
}

// Delta is a piece of an answer. Text never holds half a character, nor the beginning of what may be a stop string.
type Delta struct {
	Text   string
	Tokens []TokenInfo // the tokens that Text came from, if log probabilities were asked for
	IDs    []int32     // the tokens' ids, always
	Finish string      // on the last one: "stop" or "length"
	Usage  Usage       // so far
}

// TokenInfo is a token with its log probability and the likeliest alternatives.
type TokenInfo struct {
	ID      int32
	Bytes   []byte
	Logprob float32
	Top     []TokenInfo
}

// Usage counts a request's tokens.
type Usage struct {
	Prompt    int // tokens of the prompt
	Cached    int // of those, found in the prefix cache
	Generated int // tokens of the answer
}

// RequestError is a request that cannot be served as it stands: the caller's fault.
type RequestError struct {
	Field   string // of Request, as the wire names it: "prompt", "max_tokens", …
	Problem string
}

func (e *RequestError) Error() string { return e.Field + ": " + e.Problem }
