package bench

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
)

// TraceOptions configures the replay of a recorded trace.
type TraceOptions struct {
	Limit   int     // most conversations; 0 is all
	Speed   float64 // 2 replays an hour in half an hour
	Lengths float64 // factor on the recorded numbers of tokens, for smaller machines or contexts
}

func (o TraceOptions) check() error {
	if o.Limit < 0 || !(o.Speed > 0) || math.IsInf(o.Speed, 0) || !(o.Lengths > 0) || o.Lengths > 1000 {
		return fmt.Errorf("bench: a trace limited to %d at speed %v with lengths times %v; want at least 0, above 0, and above 0 up to 1000", o.Limit, o.Speed, o.Lengths)
	}
	return nil
}

func (o TraceOptions) tokens(n int) int { return max(1, int(math.Round(float64(n)*o.Lengths))) }

func (o TraceOptions) full(n int) bool { return n == maxConversations || o.Limit > 0 && n == o.Limit }

// at returns the due time of a request that was recorded d after the first one.
func (o TraceOptions) at(d time.Duration) time.Duration {
	return time.Duration(min(float64(d)/o.Speed, maxSeconds*float64(time.Second)))
}

// mooncakeBlock is the number of tokens that a hash id stands for.
const mooncakeBlock = 512

// ParseMooncake reads a trace in Mooncake's form: JSON lines of {"timestamp": milliseconds, "input_length",
// "output_length", "hash_ids"}, where prompts that begin with the same ids begin with the same blocks of 512 tokens.
func ParseMooncake(r io.Reader, o TraceOptions) ([]Conversation, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	var out []Conversation
	var first float64
	block := o.tokens(mooncakeBlock)
	for n := 1; lines.Scan() && !o.full(len(out)); n++ {
		if strings.TrimSpace(lines.Text()) == "" {
			continue
		}
		var e struct {
			Timestamp float64  `json:"timestamp"`
			Input     int      `json:"input_length"`
			Output    int      `json:"output_length"`
			Hashes    []uint64 `json:"hash_ids"`
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("bench: trace line %d: %w", n, err)
		}
		if len(out) == 0 {
			first = e.Timestamp
		}
		since := (e.Timestamp - first) * float64(time.Millisecond)
		if e.Input < 1 || e.Input > maxTokens || e.Output < 1 || e.Output > maxTokens || !(since >= 0 && since < maxSeconds*float64(time.Second)) {
			return nil, fmt.Errorf("bench: trace line %d: timestamp %v, %d tokens in and %d out; want 1 to %d tokens, and times that do not precede the first, %v",
				n, e.Timestamp, e.Input, e.Output, maxTokens, first)
		}
		var parts []Part
		left := o.tokens(e.Input)
		for _, h := range e.Hashes {
			if left > 0 {
				parts = append(parts, Part{Seed: h, Tokens: min(block, left)})
				left -= parts[len(parts)-1].Tokens
			}
		}
		if left > 0 { // without an id: shared with no other request
			parts = append(parts, Part{Seed: math.MaxUint64 - uint64(len(out)), Tokens: left})
		}
		out = append(out, single(o.at(time.Duration(since)), parts, o.tokens(e.Output)))
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("bench: trace: %w", err)
	}
	return some(out)
}

// single returns a conversation of one turn.
func single(at time.Duration, parts []Part, output int) Conversation {
	return Conversation{At: at, Turns: []Turn{{Messages: []Message{{Role: "user", Parts: parts}}, Output: output}}}
}

func some(cs []Conversation) ([]Conversation, error) {
	if len(cs) == 0 {
		return nil, fmt.Errorf("bench: there is nothing to replay in it")
	}
	return cs, nil
}

// ParseAzure reads a trace in the form of Azure's LLM inference datasets: a line
// "TIMESTAMP,ContextTokens,GeneratedTokens", then lines such as "2023-11-16 18:17:03.9799600,4808,10". No two prompts
// begin alike.
func ParseAzure(r io.Reader, o TraceOptions) ([]Conversation, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(r)
	const header = "TIMESTAMP,ContextTokens,GeneratedTokens"
	if !lines.Scan() || strings.TrimPrefix(strings.TrimSpace(lines.Text()), "\ufeff") != header {
		return nil, fmt.Errorf("bench: trace line 1 is %.80q; want %s", lines.Text(), header)
	}
	var out []Conversation
	var first time.Time
	for n := 2; lines.Scan() && !o.full(len(out)); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" {
			continue
		}
		bad := func(what string) ([]Conversation, error) {
			return nil, fmt.Errorf("bench: trace line %d: %.80q: %s", n, line, what)
		}
		fields := strings.Split(line, ",")
		if len(fields) != 3 {
			return bad("want three fields")
		}
		at, err := time.Parse("2006-01-02 15:04:05", strings.TrimSuffix(fields[0], "+00:00"))
		if err != nil {
			return bad(err.Error())
		}
		in, err := strconv.Atoi(fields[1])
		if err != nil || in < 1 || in > maxTokens {
			return bad(fmt.Sprintf("want 1 to %d context tokens", maxTokens))
		}
		answer, err := strconv.Atoi(fields[2])
		if err != nil || answer < 1 || answer > maxTokens {
			return bad(fmt.Sprintf("want 1 to %d generated tokens", maxTokens))
		}
		if len(out) == 0 {
			first = at
		}
		if at.Before(first) {
			return bad("it precedes the first")
		}
		out = append(out, single(o.at(at.Sub(first)), []Part{{Seed: uint64(len(out)), Tokens: o.tokens(in)}}, o.tokens(answer)))
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("bench: trace: %w", err)
	}
	return some(out)
}

// ParseConversations reads conversations in ShareGPT's form: a JSON array of {"conversations": [{"from": "human",
// "value"}, {"from": "gpt", "value"}, …]}. The bytes of each recorded answer set the length of the measured one.
// Messages before the first human's and after the last answer are dropped.
func ParseConversations(r io.Reader, o TraceOptions) ([]Conversation, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	type entry struct{ From, Value string }
	var file []struct{ Conversations []entry }
	if err := json.NewDecoder(r).Decode(&file); err != nil {
		return nil, fmt.Errorf("bench: conversations: %w", err)
	}
	var out []Conversation
	for _, c := range file {
		if o.full(len(out)) {
			break
		}
		var turns []Turn
		for i := 0; i+1 < len(c.Conversations); i++ {
			q, a := c.Conversations[i], c.Conversations[i+1]
			if q.From != "human" && q.From != "user" || a.From != "gpt" && a.From != "assistant" || q.Value == "" || a.Value == "" {
				continue
			}
			message := Message{Role: "user", Parts: []Part{{Text: q.Value}}}
			turns = append(turns, Turn{Messages: []Message{message}, Output: min(o.tokens(Part{Text: a.Value}.size()), maxTokens)})
			i++
		}
		if turns != nil {
			out = append(out, Conversation{Turns: turns})
		}
	}
	return some(out)
}
