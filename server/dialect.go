package server

import (
	"net/http"
	"strings"

	"github.com/kvasir-llm/kvasir/api/openai"
	"github.com/kvasir-llm/kvasir/engine/text"
	"github.com/kvasir-llm/kvasir/fault"
)

// dialect is an HTTP API that models can be asked in. It reads requests, and writes answers and errors in the API's
// words; all else (models, queueing, streaming, metrics, cancellation) is the server's, and the same for every API.
// docs/add-an-endpoint.md adds one.
type dialect struct {
	// names are what the API calls fields whose own names it does not use.
	names map[fault.Field]string
	// fail returns the body of an answer that is an error, a value for JSON.
	fail func(*failure) any
	// failEvent appends what ends a stream that breaks after it has begun.
	failEvent func(dst []byte, f *failure) []byte
	// keyHeader is the header that may carry an API key in place of "Authorization: Bearer"; "" is none.
	keyHeader string
	// idHeader is a header of answers that has the request's id beside X-Request-Id; "" is none.
	idHeader string
	// streamType is the Content-Type of streams, and ping what keeps a silent one alive; "" is nothing.
	streamType, ping string
	// title is what people call the API, and replies describe what its paths answer, by their keys in routes.
	title   string
	replies map[string]reply
	// routes are the API's paths. Those that ask a model are made by Server.asks.
	routes func(*Server) map[string]route
	// twins are its paths that another API has too: requests with the header mark mean this one. nil is none.
	twins func(*Server) map[string]route
	mark  string
}

// dialects are the APIs that are served. Errors on paths of no API are in the words of the first.
func dialects() []*dialect {
	return []*dialect{openaiAPI(), responsesAPI(), anthropicAPI(), ollamaAPI(), llamaAPI(), cohereAPI(), tokensAPI()}
}

// name returns what the API calls a field.
func (d *dialect) name(f fault.Field) string {
	if name, ok := d.names[f]; ok {
		return name
	}
	return string(f)
}

// ask is a decoded request for answers: what the server has to know of it.
type ask struct {
	model       string             // "" is the only one served
	stream      bool               // not with a beam search
	made, given int                // answers made for each prompt, and given of them, the likeliest
	keeps       bool               // answer keeps all of a stream until it ends
	silent      bool               // nothing is to be generated: the one token that is made anyway is not shown
	ignored     []string           // paths of members that are of no use
	transfer    *openai.KVTransfer // nil: KV blocks stay where they are
	// prompts returns a request for each prompt, of a model.
	prompts func(text.Info) ([]text.Request, error)
	answer  answer
}

// answer writes the answer to one request. Its calls do not overlap.
type answer interface {
	// begin comes first, when the request was found good.
	begin(*job)
	// piece appends what a stream says of the next piece of a choice. The first of each choice has choice.first set.
	piece(dst []byte, c *choice, d *text.Delta) []byte
	// end appends what ends a stream in which all choices are complete.
	end(dst []byte) []byte
	// whole returns the body of an answer that is not streamed, a value for JSON. All choices are complete.
	whole() any
}

// breaker is an answer whose streams end in its own way when they break: broken is called in place of
// dialect.failEvent.
type breaker interface {
	broken(dst []byte, f *failure) []byte
}

// pinger is an answer whose silent streams are kept alive by what it appends, in place of dialect.ping. It is called
// before begin, too.
type pinger interface {
	ping(dst []byte) []byte
}

// alive returns what appends to a silent stream, nil if nothing does.
func (d *dialect) alive(a answer) func(dst []byte) []byte {
	if own, ok := a.(pinger); ok {
		return own.ping
	}
	if d.ping == "" {
		return nil
	}
	return func(dst []byte) []byte { return append(dst, d.ping...) }
}

// asks returns the handler of an endpoint whose requests are read by decode.
func (s *Server) asks(decode func(body []byte) (*ask, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var j *job
		a, err := read(w, r, decode)
		if err == nil {
			warn(w, a.ignored)
			j, err = s.await(w, r, a)
		}
		if err != nil {
			s.fail(w, r, err)
			return
		}
		s.answer(w, r, j)
	}
}

// ignoredHeader is the header of an answer that names what of the request was of no use.
const ignoredHeader = "Kvasir-Ignored"

// warn tells a client the paths of members of its request that were ignored.
func warn(w http.ResponseWriter, paths []string) {
	if len(paths) == 0 {
		return
	}
	plain := func(c rune) rune {
		if c <= ' ' || c > '~' || c == ',' {
			return '?'
		}
		return c
	}
	for _, path := range paths {
		w.Header().Add(ignoredHeader, strings.Map(plain, path))
	}
}
