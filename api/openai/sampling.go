package openai

// Sampling holds the fields that chat and text completions share. A pointer is nil where the request says nothing.
type Sampling struct {
	Model         string         `json:"model,omitempty"`
	Stream        bool           `json:"stream,omitempty"`
	StreamOptions *StreamOptions `json:"stream_options,omitempty"`
	N             *int           `json:"n,omitempty"`          // answers per prompt, 1 to MaxChoices
	BestOf        *int           `json:"best_of,omitempty"`    // answers made, of which the n likeliest by token are given
	MaxTokens     *int           `json:"max_tokens,omitempty"` // new tokens at most
	MinTokens     *int           `json:"min_tokens,omitempty"`

	UseBeamSearch bool          `json:"use_beam_search,omitempty"` // for the n best answers of as many beams as best_of or n
	LengthPenalty *float64      `json:"length_penalty,omitempty"`  // default 1
	EarlyStopping EarlyStopping `json:"early_stopping,omitempty"`

	Temperature       *float64          `json:"temperature,omitempty"` // 0 is greedy
	TopP              *float64          `json:"top_p,omitempty"`       // 0 to 1
	TopK              *int              `json:"top_k,omitempty"`       // 0 or -1: all
	MinP              *float64          `json:"min_p,omitempty"`       // 0 to 1
	RepetitionPenalty *float64          `json:"repetition_penalty,omitempty"`
	PresencePenalty   *float64          `json:"presence_penalty,omitempty"`
	FrequencyPenalty  *float64          `json:"frequency_penalty,omitempty"`
	LogitBias         map[int32]float64 `json:"logit_bias,omitempty"`
	Seed              *int64            `json:"seed,omitempty"`

	Stop              []string `json:"stop,omitempty"`
	StopTokenIDs      []int32  `json:"stop_token_ids,omitempty"`
	IncludeStop       bool     `json:"include_stop_str_in_output,omitempty"`
	IgnoreEOS         bool     `json:"ignore_eos,omitempty"`
	SkipSpecialTokens *bool    `json:"skip_special_tokens,omitempty"` // default true

	PromptLogprobs *int   `json:"prompt_logprobs,omitempty"` // alternatives per prompt token
	ReturnTokenIDs bool   `json:"return_token_ids,omitempty"`
	User           string `json:"user,omitempty"`        // at most MaxLabel characters
	Priority       *int   `json:"priority,omitempty"`    // the lowest comes first
	TTFTMillis     *int   `json:"ttft_ms,omitempty"`     // when the first token is wanted
	TPOTMillis     *int   `json:"tpot_ms,omitempty"`     // and each token after it
	TimeoutMillis  *int   `json:"timeout_ms,omitempty"`  // when nobody waits for the answer any more
	CacheSalt      string `json:"cache_salt,omitempty"`  // prefixes are shared only among requests with the same salt
	KVPriority     *int   `json:"kv_priority,omitempty"` // cached blocks of a lower one are forgotten first
	KVTTLMillis    *int   `json:"kv_ttl_ms,omitempty"`   // how long they keep it
}

// StreamOptions says what a stream reports beside the answer.
type StreamOptions struct {
	IncludeUsage         bool `json:"include_usage,omitempty"`          // a last event with the usage
	ContinuousUsageStats bool `json:"continuous_usage_stats,omitempty"` // the usage so far in each event
}

// Limits of a request.
const (
	MaxChoices   = 128  // n
	MaxStops     = 64   // strings in stop, and ids in stop_token_ids
	MaxLogprobs  = 20   // alternatives per token
	MaxLogitBias = 1024 // entries of logit_bias
	MaxLabel     = 512  // characters of user
	MaxMillis    = 24 * 60 * 60 * 1000

	MaxKVPriority = 1000
)

// field reads one member; known is false if it is none of Sampling's.
func (s *Sampling) field(c *cursor, key string) (known bool, err error) {
	switch key {
	case "model":
		s.Model, err = c.text()
	case "stream":
		s.Stream, err = c.boolean()
	case "stream_options":
		s.StreamOptions = &StreamOptions{}
		err = c.object(func(key string) error { return s.StreamOptions.field(c, key) })
	case "n":
		err = c.intIn(&s.N, 1, MaxChoices)
	case "best_of":
		err = c.intIn(&s.BestOf, 1, MaxChoices)
	case "max_tokens":
		err = c.intIn(&s.MaxTokens, 0, maxInt32)
	case "min_tokens":
		err = c.intIn(&s.MinTokens, 0, maxInt32)
	case "stop":
		s.Stop, err = c.stops()
	case "stop_token_ids":
		s.StopTokenIDs, err = c.tokens(MaxStops)
	case "include_stop_str_in_output":
		s.IncludeStop, err = c.boolean()
	case "ignore_eos":
		s.IgnoreEOS, err = c.boolean()
	case "skip_special_tokens":
		err = c.optionalBool(&s.SkipSpecialTokens)
	case "prompt_logprobs":
		err = c.intIn(&s.PromptLogprobs, 0, MaxLogprobs)
	case "return_token_ids":
		s.ReturnTokenIDs, err = c.boolean()
	case "cache_salt":
		s.CacheSalt, err = c.text()
	case "kv_priority":
		err = c.intIn(&s.KVPriority, -MaxKVPriority, MaxKVPriority)
	case "kv_ttl_ms":
		err = c.intIn(&s.KVTTLMillis, 1, MaxMillis)
	default:
		if known, err := s.turn(c, key); known || err != nil {
			return known, err
		}
		if known, err := s.beam(c, key); known || err != nil {
			return known, err
		}
		return s.distribution(c, key)
	}
	return true, err
}

// turn reads the members that say when a request has its turn.
func (s *Sampling) turn(c *cursor, key string) (known bool, err error) {
	switch key {
	case "user":
		s.User, err = c.label()
	case "priority":
		err = c.intIn(&s.Priority, -maxInt32, maxInt32)
	case "ttft_ms":
		err = c.intIn(&s.TTFTMillis, 1, MaxMillis)
	case "tpot_ms":
		err = c.intIn(&s.TPOTMillis, 1, MaxMillis)
	case "timeout_ms":
		err = c.intIn(&s.TimeoutMillis, 1, MaxMillis)
	default:
		return false, nil
	}
	return true, err
}

// distribution reads the members that change the distribution a token is drawn from.
func (s *Sampling) distribution(c *cursor, key string) (known bool, err error) {
	const huge = 1e6
	switch key {
	case "temperature":
		err = c.numberIn(&s.Temperature, 0, 2)
	case "top_p":
		err = c.numberIn(&s.TopP, 0, 1)
	case "top_k":
		err = c.intIn(&s.TopK, -1, maxInt32)
	case "min_p":
		err = c.numberIn(&s.MinP, 0, 1)
	case "repetition_penalty":
		if err = c.numberIn(&s.RepetitionPenalty, 0, huge); err == nil && *s.RepetitionPenalty == 0 {
			err = c.wrong("expected a number above 0, found 0")
		}
	case "presence_penalty":
		err = c.numberIn(&s.PresencePenalty, -2, 2)
	case "frequency_penalty":
		err = c.numberIn(&s.FrequencyPenalty, -2, 2)
	case "logit_bias":
		s.LogitBias, err = c.biases()
	case "seed":
		var n int64
		n, err = c.integer()
		s.Seed = &n
	default:
		return false, nil
	}
	return true, err
}

func (o *StreamOptions) field(c *cursor, key string) (err error) {
	switch key {
	case "include_usage":
		o.IncludeUsage, err = c.boolean()
	case "continuous_usage_stats":
		o.ContinuousUsageStats, err = c.boolean()
	case "include_obfuscation": // only false is served
		return c.inert("false")
	default:
		return c.unsupported()
	}
	return err
}

// check finds what is wrong with members together.
func (s *Sampling) check() error {
	if s.StreamOptions != nil && !s.Stream {
		return invalid("stream_options", CodeInvalidValue, "only allowed when stream is true")
	}
	switch _, n := s.Choices(); {
	case s.BestOf != nil && *s.BestOf < n:
		return invalid("best_of", CodeInvalidValue, "best_of must be at least n, which is %d; found %d", n, *s.BestOf)
	case s.BestOf != nil && *s.BestOf > n && s.Stream && !s.UseBeamSearch:
		return invalid("best_of", CodeInvalidValue, "more than n is not available when stream is true: which answers are best is known when all have ended")
	}
	if err := s.checkBeams(); err != nil {
		return err
	}
	if s.PromptLogprobs != nil && s.Stream {
		return invalid("prompt_logprobs", CodeInvalidValue, "not available when stream is true")
	}
	return nil
}

// Choices returns how many answers are made for each prompt, and how many of them are given.
func (s *Sampling) Choices() (made, given int) {
	if given = max(1, deref(s.N)); s.UseBeamSearch {
		return given, given
	}
	return max(given, deref(s.BestOf)), given
}

func deref(p *int) int {
	if p == nil {
		return 0
	}
	return *p
}
