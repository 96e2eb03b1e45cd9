// Package text is a served model that speaks text: it opens a checkpoint with its tokenizer and chat template, renders
// and encodes prompts, and turns an engine's tokens back into text as they come. It knows nothing of HTTP. Read Model
// first.
package text

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvasir-llm/kvasir/chat"
	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/guard"
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
	working   int64 // bytes of a step and its logits
	Device    string

	BlockTokens int        // tokens of a KV block
	KVGroups    []kv.Group // the groups of layers that have KV blocks of their own
	MaxLoRAs    int        // adapters on the device at once

	Pooling   engine.Pooling // how embeddings are made of hidden states
	Normalise bool           // whether they get length 1 by default
	embedder  bool           // the model was made for embeddings
	pooling   error          // why there are none
	scores    string         // what becomes of a class's logit: "sigmoid" or "identity"
	labels    []string       // of classes

	tools     *chat.ToolFormat      // how calls are written; nil: there are none
	reasoning *chat.ReasoningFormat // how reasoning is marked; nil: there is none
	shown     map[int32]bool        // special tokens that a parser of answers is to see
	end       []int32               // tokens that end reasoning before free text
	guidedEnd []int32               // likewise before what a grammar says
	guides    guides

	system string   // what begins conversations without a system message
	stop   []string // of requests that have none
	usual  int      // likewise, their MaxTokens

	allLogprobs bool   // Info.AllLogprobs
	ownAdapter  string // of requests that name none; "" is none

	stops    []int32       // tokens that end an answer
	longest  int           // bytes of the longest token
	work     *guard.Budget // bytes that prompts take while they are made
	broken   sync.Once
	breakers [][]int32                   // runs of tokens of DRY's usual breakers
	loaded   atomic.Pointer[model.Model] // nil while the weights sleep on disk
	maxRank  int                         // of adapters; 0 is any
	base     *base
	draft    *draftModel // nil is none
	closer   func() error
}

// Info describes a model to a face. It never changes.
type Info struct {
	Name         string
	Context      int      // most tokens of prompt and answer together
	Vocab        int      // tokens
	BlockTokens  int      // tokens of a KV block
	MaxLoRAs     int      // adapters on the device at once
	Encoder      bool     // it generates nothing
	CrossEncoder bool     // it scores pairs of texts, and makes no embeddings
	Labels       []string // of the classes of a CrossEncoder, as far as they have names
	Reasons      bool     // it may think before it answers
	Chats        bool     // it has a chat template
	Retains      bool     // requests may say how long their KV blocks are kept
	AllLogprobs  bool     // requests may ask for the log probabilities of all tokens
	Opened       time.Time
	Defaults     sampling.Params // what the model's makers recommend, or the server's
	Stop         []string        // of a request that says nothing of it
	MaxTokens    int             // likewise
}

// Info describes m.
func (m *Model) Info() Info {
	return Info{Name: m.Name, Context: m.Context, Vocab: m.Spec.Vocab, BlockTokens: m.BlockTokens, MaxLoRAs: m.MaxLoRAs,
		Encoder: !m.Spec.Generates(), CrossEncoder: m.Spec.Classes > 0, Labels: m.labels, Reasons: m.reasoning != nil, Chats: m.Template != nil,
		Retains: m.Engine.Retains(), AllLogprobs: m.allLogprobs, Opened: m.Opened, Defaults: m.Defaults, Stop: m.stop, MaxTokens: m.usual}
}

// Delta is a piece of an answer. Text never holds half a character, nor the beginning of what may be a stop string.
type Delta struct {
	Text      string       // for the user
	Reasoning string       // before it
	Calls     []chat.Event // calls of tools, and pieces of their arguments
	Tokens    []TokenInfo  // the tokens that it came from, if log probabilities were asked for
	IDs       []int32      // the tokens' ids, always
	Finish    string       // on the last one: "stop", "length" or "tool_calls"
	Stop      string       // with Finish: the stop string that ended the answer; "" is none
	Usage     Usage        // so far
}

// TokenInfo is a token with its log probability and the likeliest alternatives.
type TokenInfo struct {
	ID      int32
	Bytes   []byte
	Logprob float32
	Rank    int // of a prompt's token among all: 1 is the likeliest; 0 is not known
	Top     []TokenInfo
	Origin  engine.Origin // of an answer's token
}

// Usage counts a request's tokens.
type Usage struct {
	Prompt    int // tokens of the prompt
	Cached    int // of those, found in the prefix cache
	Generated int // tokens of the answer
	Reasoning int // of those, of reasoning and its marks
	Accepted  int // of those, guessed ahead
	Rejected  int // tokens that were guessed ahead and were wrong
}
