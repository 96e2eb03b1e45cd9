package gateway

import (
	"fmt"
	"strconv"
)

// Headers by which a client says whose turn it is. They are for the gateway: no endpoint gets them.
const (
	tenantHeader   = "X-Kvasir-Tenant"
	priorityHeader = "X-Kvasir-Priority"
)

// mostPriority bounds the priorities of requests, and with them the queue's classes.
const mostPriority = 100

// claim finds out whose turn the request takes, and of which priority it is. What a client says of that counts as far
// as its key allows. Without keys it counts, since nobody is told apart otherwise.
func (x *exchange) claim() *refusal {
	who := x.r.Header.Get(tenantHeader)
	if who == "" {
		who = x.body.user
	}
	if err := checkName(tenantHeader, who); err != nil {
		return invalid(tenantHeader, err.Error())
	}
	low, high := -mostPriority, mostPriority
	x.tenant = who
	if a := x.account; a != nil {
		x.tenant, x.priority = a.key.Name, a.key.Priority
		if a.key.Users {
			x.tenant += "/" + who
		}
		if len(a.key.Priorities) == 0 {
			if x.body.priorityAt[1] > 0 { // engines have a queue, too
				x.demotion = []edit{{x.body.priorityAt, []byte("0")}}
			}
			return nil
		}
		low, high = a.key.Priorities[0], a.key.Priorities[1]
	}
	for _, said := range []struct{ where, text string }{
		{"priority", x.body.priority}, {priorityHeader, x.r.Header.Get(priorityHeader)},
	} {
		if said.text == "" {
			continue
		}
		n, err := strconv.Atoi(said.text)
		if err != nil || n < low || n > high {
			return invalid(said.where, fmt.Sprintf("%s: expected a whole number from %d to %d, found %.40s", said.where, low, high, said.text))
		}
		x.priority = n
	}
	return nil
}

// checkPriorities refuses a range that is none.
func (k *Key) checkPriorities(path string) error {
	p := k.Priorities
	if len(p) == 0 || len(p) == 2 && -mostPriority <= p[0] && p[0] <= p[1] && p[1] <= mostPriority {
		return nil
	}
	return wrong(path+".priorities", "%v; want the lowest and the highest, from -%d to %d", p, mostPriority, mostPriority)
}
