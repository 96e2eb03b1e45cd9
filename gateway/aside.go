package gateway

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/kvasir-llm/kvasir/route"
)

// aside makes an exchange that is no client's: the gateway asks for purposes of its own. Its answer is kept in its
// note, up to the most bytes of a body.
func (x *exchange) aside(ctx context.Context, path string, b body) *exchange {
	r := (&http.Request{
		Method: http.MethodPost, URL: &url.URL{Path: path}, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}},
	}).WithContext(ctx)
	return &exchange{g: x.g, w: &note{header: http.Header{}, most: x.cfg.MaxBody}, r: r, body: b, account: x.account, cfg: x.cfg, id: unique(),
		began: time.Now(), tenant: x.tenant, priority: x.priority, demotion: x.demotion}
}

// note is a http.ResponseWriter that keeps an answer, if it is not too long.
type note struct {
	header http.Header
	body   []byte
	most   int
	long   bool
}

func (n *note) Header() http.Header { return n.header }
func (n *note) WriteHeader(int)     {}
func (n *note) Flush()              {}

func (n *note) Write(p []byte) (int, error) {
	if n.long = n.long || len(n.body)+len(p) > n.most; n.long {
		n.body = nil
		return len(p), nil
	}
	n.body = append(n.body, p...)
	return len(p), nil
}

// seat takes a place for a request at an endpoint of a model that has room, past the queue: nil if there is none, or if
// others wait. Gateway.mu is held.
func (g *Gateway) seat(m *model, q *route.Request) *placement {
	if m.queue.Waiting() > 0 {
		return nil
	}
	d := g.fleet.Choose(m.policy, q, m.ids)
	if d.Chosen < 0 {
		return nil
	}
	e := m.pool[d.Chosen]
	e.requests++
	return &placement{endpoint: e, flight: g.fleet.Send(e.id, q), api: e.cfg.API}
}
