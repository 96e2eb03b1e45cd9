package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/kvasir-llm/kvasir/gateway/provider"
)

// longestEvent is the most bytes of an event of a stream.
const longestEvent = 8 << 20

// stream copies a stream event by event: what comes is sent as soon as an event is whole. Nothing is sent before the
// first event is, so that another endpoint can try if there is none.
func (a *attempt) stream(ctx context.Context, res *http.Response) *failure {
	a.exchange.stream = true
	pooled := buffers.Get().(*[]byte)
	defer buffers.Put(pooled)
	e := events{unasked: a.unasked}
	if a.said != nil {
		t := a.said
		t.told, t.resumed, t.before, e.each = a.tells, a.spoke, t.tokens, t.add
		if a.exactly {
			t.before = 0
		}
	}
	control := http.NewResponseController(a.w)
	pauses := a.g.metrics.itl.WithLabelValues(a.job.model.name)
	var last time.Time // when a piece with events came
	for seen := 0; ; {
		n, err := res.Body.Read(*pooled)
		whole, bad := e.add((*pooled)[:n])
		if a.spoke = a.spoke || e.count > 0; e.count > 0 { // until then there were comments at most
			a.timer.Reset(a.cfg.Timeouts.Idle)
		}
		if e.count > seen {
			now := time.Now()
			if seen > 0 {
				pauses.Observe(now.Sub(last).Seconds())
			}
			last, seen = now, e.count
		}
		if len(whole) > 0 {
			switch {
			case a.status == 0:
				a.begin(res, -1)
				a.ttft = a.began.Sub(a.exchange.began)
			case a.began.IsZero():
				a.first()
			}
			if a.write(whole) != nil || control.Flush() != nil {
				a.count(&e)
				return &failure{err: errGone}
			}
		}
		if e.done && err == nil { // the answer is whole, whatever comes behind it
			a.timer.Reset(afterDone)
			io.Copy(io.Discard, io.LimitReader(res.Body, int64(len(*pooled))))
			err = io.EOF
		}
		switch {
		case bad != nil:
			return a.broken(&e, &failure{err: bad, broken: errors.Is(bad, errLeaves)})
		case err == nil:
		case !errors.Is(err, io.EOF):
			return a.broken(&e, a.failed(ctx, err, false))
		case e.count == 0:
			return &failure{err: errors.New("the stream ended before its first event")}
		case !e.done && needsDone[a.r.URL.Path]:
			return a.broken(&e, &failure{err: errors.New("the stream ended too early")})
		default:
			if told := res.Trailer.Get(provider.UsageTrailer); e.usage == nil && told != "" {
				e.usage = []byte(told)
			}
			a.count(&e)
			return nil
		}
	}
}

// afterDone is how long a stream may take to end after its [DONE].
const afterDone = time.Second

// errGone is the end of a request whose client has hung up.
var errGone = errors.New("the client has gone")

// needsDone are the paths whose streams end with [DONE].
var needsDone = map[string]bool{"/v1/chat/completions": true, "/v1/completions": true}

// broken notes what came of a stream that broke off.
func (a *attempt) broken(e *events, f *failure) *failure {
	a.count(e)
	return f
}

// breakOff tells the client of a stream that it broke off.
func (x *exchange) breakOff(f *failure) {
	if x.stream && x.r.Context().Err() == nil && !errors.Is(f.err, errGone) {
		x.write(f.refusal().to(x.r.URL.Path).event())
		http.NewResponseController(x.w).Flush()
	}
}

// count notes the tokens of a stream: as the endpoint counted them, or else one for each event.
func (a *attempt) count(e *events) {
	if e.usage != nil {
		a.used.read(e.usage)
		if a.exactly { // what went before is counted already
			a.used.Completion = max(0, a.used.Completion-a.earlier)
		}
	}
	if a.used.out() == 0 {
		a.used.Completion = e.count
	}
}

// events follows a stream of server-sent events.
type events struct {
	rest  []byte // the beginning of an event that is not whole
	line  int    // where the last line of rest begins
	count int    // events with data
	done  bool   // [DONE] was among them
	usage []byte // the data of the last event with usage

	unasked bool // the event with nothing but usage is not for the client
	hidden  bool // the last event was that

	each func(event []byte) []byte // returns what is sent in place of an event; nil sends events as they are
}

// add takes a piece of the stream. It returns the events that are whole now, valid until the next call, and an error if
// what follows them is no event.
func (e *events) add(piece []byte) (whole []byte, err error) {
	all, line, from := piece, e.line, len(e.rest)
	if len(e.rest) > 0 {
		all = append(e.rest, piece...)
	}
	end := 0
	var edited []byte
	for !e.done {
		var n int
		if n, line = eventEnd(all[end:], line, from); n == 0 {
			break
		}
		from = 0
		if err = e.see(all[end : end+n]); err != nil {
			break
		}
		if e.hidden {
			all = append(all[:end], all[end+n:]...)
			continue
		}
		if e.each != nil {
			edited = append(edited, e.each(all[end:end+n])...)
		}
		end += n
	}
	if whole = all[:end]; e.each != nil {
		whole = edited
	}
	if e.done { // which ends a stream, whatever follows
		e.rest = nil
		return whole, err
	}
	if err == nil && len(all)-end > longestEvent {
		err = fmt.Errorf("an event has more than %d bytes", longestEvent)
	}
	if err == nil && end < len(all) && !mayBegin(all[end:]) {
		err = fmt.Errorf("%.40q is no event", all[end:])
	}
	e.keep(all, end, line)
	return whole, err
}

// keep keeps what follows the whole events. The beginning of a long event stays where it is, so that what many small
// pieces take is not copied with each of them.
func (e *events) keep(all []byte, end, line int) {
	left := all[end:]
	if end > 0 || len(e.rest) == 0 {
		left = append([]byte(nil), left...)
	}
	e.rest, e.line = left, line
}

// eventEnd returns where the first event ends, behind its empty line, and 0. If it is not whole, it returns 0 and where
// its last line begins. It looks from that line of an earlier call on, in which no line ends before from.
func eventEnd(data []byte, line, from int) (end, last int) {
	for {
		n := bytes.IndexByte(data[from:], '\n')
		if n < 0 {
			return 0, line
		}
		if end = from + n; end == line || end == line+1 && data[line] == '\r' {
			return end + 1, 0
		}
		line, from = from+n+1, from+n+1
	}
}

// fields are what a line of an event begins with.
var fields = [][]byte{[]byte("data:"), []byte("event:"), []byte("id:"), []byte("retry:"), []byte(":")}

// mayBegin reports whether data may be the beginning of an event's line.
func mayBegin(data []byte) bool {
	for _, f := range fields {
		n := min(len(f), len(data))
		if bytes.Equal(data[:n], f[:n]) {
			return true
		}
	}
	return data[0] == '\r' || data[0] == '\n'
}

// see checks an event and takes note of what is in it.
func (e *events) see(event []byte) error {
	e.hidden = false
	for len(event) > 0 {
		n := bytes.IndexByte(event, '\n') + 1
		line := event[:n]
		event = event[n:]
		if !mayBegin(line) {
			return fmt.Errorf("%.40q is no line of an event", line)
		}
		data, ok := bytes.CutPrefix(line, fields[0])
		if !ok {
			continue
		}
		data = bytes.TrimSpace(data)
		if string(data) == "[DONE]" {
			e.done = true
			continue
		}
		if !isJSON(data) || data[0] != '{' {
			return fmt.Errorf("%.40q is no JSON object", data)
		}
		if bytes.HasPrefix(data, []byte(`{"error":`)) && leaves(data) {
			return errLeaves
		}
		e.count++
		if bytes.Contains(data, []byte(`"usage":{`)) || bytes.Contains(data, []byte(`"usage": {`)) {
			e.usage = append(e.usage[:0], data...)
			e.hidden = e.unasked && !hasChoices(data)
		}
	}
	return nil
}

// hasChoices reports whether an event has something of an answer.
func hasChoices(data []byte) (has bool) {
	members(data, func(key string, value []byte, _ int) error {
		has = has || key == "choices" && len(bytes.Trim(value, "[] \t")) > 0
		return nil
	})
	return has
}

// errLeaves is why an endpoint that leaves does not go on with a stream.
var errLeaves = errors.New("the endpoint ends, or begins anew")

// leaves reports whether an error is that of a kvasir that ends, or begins anew as its device is lost: what it leaves
// undone, another endpoint can do, or the same one later.
func leaves(answer []byte) bool {
	var said struct {
		Error struct{ Code any }
	}
	return json.Unmarshal(answer, &said) == nil && (said.Error.Code == "device_lost" || said.Error.Code == "shutting_down")
}

// isJSON reports whether data is one JSON value in UTF-8.
func isJSON(data []byte) bool { return utf8.Valid(data) && json.Valid(data) }

// tokenUsage is how many tokens an answer took, as an endpoint tells it in one API or another.
type tokenUsage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Input      int `json:"input_tokens"`
	Output     int `json:"output_tokens"`

	PromptDetails cachedTokens `json:"prompt_tokens_details"`
	InputDetails  cachedTokens `json:"input_tokens_details"`
	CacheRead     int          `json:"cache_read_input_tokens"` // Anthropic's, which Input does not have
	CacheWritten  int          `json:"cache_creation_input_tokens"`
}

type cachedTokens struct {
	Cached int `json:"cached_tokens"`
}

// mostUsed bounds the tokens that an endpoint can say to have used.
const mostUsed = 1 << 30

func (u *tokenUsage) in() int {
	return min(max(0, u.Prompt, u.Input), mostUsed) + min(max(0, u.CacheRead), mostUsed) + min(max(0, u.CacheWritten), mostUsed)
}

func (u *tokenUsage) out() int { return min(max(0, u.Completion, u.Output), mostUsed) }

// cached are the tokens of in that were in the endpoint's cache.
func (u *tokenUsage) cached() int {
	return min(max(0, u.PromptDetails.Cached, u.InputDetails.Cached, u.CacheRead), u.in())
}

// read reads the usage of an answer, or of an event. What is no usage counts nothing.
func (u *tokenUsage) read(answer []byte) {
	members(answer, func(key string, value []byte, _ int) error {
		if key == "usage" && len(value) < 4096 {
			json.Unmarshal(value, u)
		}
		return nil
	})
}
