package route

// Request is what a decision depends on, of a request.
type Request struct {
	Blocks  []uint64 // the names of the prompt's blocks; see Blocks
	Exact   []Exactly
	Tokens  int    // of the prompt, as estimated
	Output  int    // tokens that are expected to be generated
	Context int    // tokens that the prompt and the longest answer may have together
	Session string // requests with the same text here belong together; "" belongs to none
	Adapter string // the LoRA adapter that is needed; "" is none
	Zone    string // where the request comes from
	SLO     SLO
	Tried   []int // endpoints that failed on it
	Only    []int // endpoints that may get it; nil is all
}

// Exactly are the names of a prompt's blocks of tokens, as TokenBlocks gives them, for endpoints that tell what they
// hold in blocks of this size.
type Exactly struct {
	BlockTokens int
	Names       []uint64
}

// SLO is how long an answer should take at most, in seconds; 0 is any time.
type SLO struct{ TTFT, TPOT float64 }

// met is by how much the times to be expected at an endpoint keep an SLO: 1 if both do, or nothing is known, and else
// the part that the time allowed is of the time expected.
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
	Down     string  // why it takes no requests; "" if it does
	Most     int     // requests that it can have in flight: the limit, or what was learned to be less; 0 is any number
	Requests int     // in flight, as counted here
	InFlight int     // their tokens: prompts that are not answered yet, and what is expected to be generated
	Held     int     // leading blocks of the prompt that it holds,
	Of       int     // of so many that the prompt has
	Session  bool    // the last request of the session went there
	Latency  float64 // seconds that the request is predicted to take there; 0 if nothing is known
	TTFT     float64 // of these, until the first token
	TPOT     float64 // and for each later one; 0 if nothing is known

	hot bool // it has so much to do that a cached prefix counts for nothing; picker.pick sets it
}

// work is what is ahead of the request's end there, in tokens: those in flight, and those that the request adds.
func (c *Candidate) work(q *Request) float64 {
	return 1 + float64(c.InFlight) + c.uncached(q) + float64(q.Output)
}

// uncached is how many of the prompt's tokens the endpoint has to compute.
func (c *Candidate) uncached(q *Request) float64 {
	return float64(q.Tokens) * (1 - c.held())
}

// held is the part of the prompt that the endpoint holds.
func (c *Candidate) held() float64 { return float64(c.Held) / float64(max(1, c.Of)) }

func (c *Candidate) has(adapter string) bool {
	for _, a := range c.Adapters {
		if a == adapter {
			return true
		}
	}
	return false
}
