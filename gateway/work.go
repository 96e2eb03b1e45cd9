package gateway

import (
	"context"
	"fmt"

	"github.com/kvasir-llm/kvasir/guard"
)

// Bounds on the bodies that the gateway takes apart, for what it cannot do with bodies as they are: it finds kept
// answers, joins requests, turns prompts into tokens and translates for providers. TestWorkCosts measures the costs.
const (
	mostValues   = 1 << 17 // of the JSON of a body
	mostTaken    = 4 << 20 // bytes of one that need not be taken apart
	mostText     = 2 << 20 // bytes of one that is turned into tokens
	costPerValue = 1024    // bytes of memory
	costPerByte  = 16
	costPerText  = 96 // of what is rendered and turned into tokens
)

// light reports whether a body has so few bytes and values that it is worth taking apart.
func (b *body) light(bytes int) bool { return len(b.raw) <= bytes && b.values <= mostValues }

// work waits for the memory that taking the body apart needs, in turns of accounts, until done is called.
func (x *exchange) work(ctx context.Context, costPerByte int64) (done func(), err error) {
	if n := x.body.values; n > mostValues {
		return nil, fmt.Errorf("the body has more than %d values", mostValues)
	}
	return x.g.work.Acquire(guard.As(ctx, x.who()), costPerByte*int64(len(x.body.raw))+costPerValue*int64(x.body.values))
}
