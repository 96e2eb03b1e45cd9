package route

// Request is what a decision depends on, of a request.
type Request struct {
	Blocks  []uint64     // the names of the prompt's blocks; see Blocks
	Exact   []BlockNames // of its tokens, for each size of blocks that endpoints tell of
	Tokens  int          // of the prompt, as estimated
	Output  int          // tokens that are expected to be generated
	Context int          // tokens that the prompt and the longest answer may have together
	Session string       // requests with the same text here belong together; "" belongs to none
	Adapter string       // the LoRA adapter that is needed; "" is none
	Zone    string       // where the request comes from
	SLO     SLO
	Tried   []int // endpoints that failed on it
	Only    []int // endpoints that may get it; nil is all
}

// BlockNames are the names of a prompt's blocks of so many tokens, as TokenBlocks gives them. They find the prompt at
// endpoints whose KV events are of such blocks.
type BlockNames struct {
	BlockTokens int
	Names       []uint64
}

// SLO is how long an answer should take at most, in seconds; 0 is any time.
type SLO struct{ TTFT, TPOT float64 }

// met rates how well the times predicted at an endpoint meet an SLO: 1 if both do or nothing is known, and else the
// lower of allowed time divided by predicted time.
func (s SLO) met(c *Candidate) float64 {
	met := 1.0
	if s.TTFT > 0 && c.TTFT > s.TTFT {
		met = s.TTFT / c.TTFT
	}
	if s.TPOT > 0 && c.TPOT > s.TPOT {
		met = min(met, s.TPOT/c.TPOT)
	}
	return met
}

// Load is what an endpoint says of itself.
type Load struct {
	Waiting, Running int      // requests, those of all its clients
	KVUse            float64  // the share of KV blocks in use, from 0 to 1
	Adapters         []string // in memory
	AdapterRoom      bool     // it can take another adapter without giving one up
}

// Endpoint is what a configuration says of an endpoint.
type Endpoint struct {
	Name    string
	Cost    float64 // of a token, in any unit that all endpoints share
	Zone    string
	Limit   int  // most requests in flight; 0 is any number
	Fixed   bool // the limit is not learned
	Context int  // most tokens of a prompt and its answer; 0 is any number
}

// Candidate is all that is known of an endpoint when a request is placed.
type Candidate struct {
	ID int
	*Endpoint
	Load
	Down           string  // why it takes no requests; "" if it does
	MaxRequests    int     // in flight: the limit, or what was learned to be less; 0 is any number
	Requests       int     // in flight, as counted here
	TokensInFlight int     // of these: prompts that are not answered yet, and answers as expected
	PromptBlocks   int     // of the request's prompt
	HeldBlocks     int     // leading ones of these that it has cached, as known or guessed
	Session        bool    // the last request of the session went there
	Latency        float64 // seconds that the request is predicted to take there; 0 if nothing is known
	TTFT           float64 // of these, until the first token
	TPOT           float64 // and for each later one; 0 if nothing is known

	hot bool // it has so much to do that a cached prefix counts for nothing; picker.pick sets it
}

// work is what is ahead of the request's end there, in tokens: those in flight, and those that the request adds.
func (c *Candidate) work(q *Request) float64 {
	return 1 + float64(c.TokensInFlight) + c.uncached(q) + float64(q.Output)
}

// uncached is how many of the prompt's tokens the endpoint has to compute.
func (c *Candidate) uncached(q *Request) float64 {
	return float64(q.Tokens) * (1 - c.held())
}

// held is the part of the prompt that the endpoint holds.
func (c *Candidate) held() float64 { return float64(c.HeldBlocks) / float64(max(1, c.PromptBlocks)) }

func (c *Candidate) has(adapter string) bool {
	for _, a := range c.Adapters {
		if a == adapter {
			return true
		}
	}
	return false
}
