package main

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"

	"github.com/kvasir-llm/kvasir/api/openai"
	"github.com/kvasir-llm/kvasir/api/wire"
	"github.com/kvasir-llm/kvasir/guard"
	"github.com/kvasir-llm/kvasir/server"
)

type batchCmd struct {
	In  string `arg:"" type:"existingfile" help:"Requests, as the Batch API takes them: JSON Lines with custom_id, method, url and body."`
	Out string `arg:"" type:"path" help:"Answers, one a line. If the file is there, its answers are kept and only the others are made."`

	Model   string  `short:"m" help:"Built-in name, hub name, file or folder." placeholder:"NAME"`
	Name    string  `name:"served-model-name" help:"What the requests call the model, if not by its own name." placeholder:"NAME"`
	MaxSeqs natural `help:"Sequences computed at once. By default 256." placeholder:"N"`
	Quiet   bool    `short:"q" help:"Show no progress."`
	draftFlags
	engineFlags
}

func (batchCmd) Help() string {
	return `Answers a file of requests without a server, as fast as the machine can. Requests that begin alike come after each other,
so that what they share is computed once. Interrupted in any way, the same command goes on where it was.

Examples:
  kvasir batch in.jsonl out.jsonl
  kvasir batch in.jsonl out.jsonl -m Qwen/Qwen3-0.6B-GGUF:Q8_0 --served-model-name gpt-4o-mini`
}

// maxLine is the largest line of an input or an output.
const maxLine = 64 << 20

func (c *batchCmd) Run(ctx context.Context) error {
	in, err := os.Open(c.In)
	if err != nil {
		return err
	}
	defer in.Close()
	todo, models, err := readRequests(in)
	if err != nil {
		return fmt.Errorf("%s: %w", c.In, err)
	}
	out, done, err := openAnswers(c.Out, in)
	if err != nil {
		return fmt.Errorf("%s: %w", c.Out, err)
	}
	defer out.Close()
	all := len(todo)
	todo = slices.DeleteFunc(todo, func(r batchRequest) bool { return done[r.id] })
	if len(todo) == 0 {
		fmt.Fprintf(os.Stderr, "all %d requests have answers\n", all)
		return nil
	}
	slices.SortFunc(todo, inTurn)
	found, err := openModel(ctx, c.Model)
	if err != nil {
		return err
	}
	found.name = cmp.Or(c.Name, found.name)
	for name, line := range models {
		if name != found.name {
			found.ckpt.Close()
			return usageError{fmt.Sprintf("%s: line %d asks for the model %q, and this one is called %q; --served-model-name calls it otherwise",
				c.In, line, name, found.name)}
		}
	}
	o := c.options(found.name)
	if err := c.draftFlags.openDraft(ctx, &o); err != nil {
		return err
	}
	o.Profile, o.MaxSeqs, o.MaxWaiting = "throughput", int(c.MaxSeqs), 4*atOnce
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	o.Lost = func(err error) {
		end(fmt.Errorf("the device is lost; the same command goes on where the answers end: %w", err))
	}
	m, err := load(ctx, found, o)
	if err != nil {
		return err
	}
	defer m.Close()
	s, err := server.New(server.Config{Version: version(), Models: []server.Served{server.FromText(m)}})
	if err != nil {
		return err
	}
	defer s.Close()
	p := newBatchProgress(c.Quiet, all, all-len(todo))
	err = answerAll(ctx, s, in, out, todo, p)
	p.end(err)
	return err
}

// batchRequest is a line of the input.
type batchRequest struct {
	id     string
	at     int64 // of the line in the file
	length int   // bytes
	group  string
	number int // of the line, from 1
}

// groupBytes is how much of the beginning of a prompt decides which requests are answered after each other.
const groupBytes = 1024

// inTurn puts requests that begin alike together, those that share more next to each other, and of these the longest
// first, so that no long one is left for the end.
func inTurn(a, b batchRequest) int {
	return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(b.length, a.length), cmp.Compare(a.number, b.number))
}

// groupOf returns the beginning of what a request's prompt is made from, in the order in which templates write it.
func groupOf(body []byte) (group, model string, err error) {
	var parts struct {
		Model                                               string
		Instructions, Tools, Messages, Prompt, Input, Query json.RawMessage
	}
	if err := json.Unmarshal(body, &parts); err != nil {
		return "", "", err
	}
	all := slices.Concat(parts.Instructions, parts.Tools, parts.Messages, parts.Prompt, parts.Input, parts.Query)
	return string(all[:min(len(all), groupBytes)]), parts.Model, nil
}

// readRequests reads the lines of an input, and which models they name, each with the first line that does.
func readRequests(in io.Reader) (all []batchRequest, models map[string]int, err error) {
	seen := map[string]int{}
	models = map[string]int{}
	err = eachLine(in, func(number int, at int64, line []byte) error {
		if len(line) == 0 {
			return nil
		}
		one, err := openai.DecodeBatchLine(line)
		if err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
		if before := seen[one.CustomID]; before > 0 {
			return fmt.Errorf("line %d: custom_id %q is that of line %d too", number, one.CustomID, before)
		}
		seen[one.CustomID] = number
		group, model, err := groupOf(one.Body)
		if err != nil {
			return fmt.Errorf("line %d: body: %w", number, err)
		}
		if model != "" && models[model] == 0 {
			models[model] = number
		}
		all = append(all, batchRequest{id: one.CustomID, at: at, length: len(line), group: group, number: number})
		return nil
	})
	if err == nil && len(all) == 0 {
		err = errors.New("there is no request in it")
	}
	return all, models, err
}

// eachLine calls f with the lines of a file, without the white space around them.
func eachLine(in io.Reader, f func(number int, at int64, line []byte) error) error {
	lines := bufio.NewReaderSize(in, 1<<20)
	at := int64(0)
	for number := 1; ; number++ {
		var line []byte
		for {
			piece, err := lines.ReadSlice('\n')
			if line = append(line, piece...); len(line) > maxLine {
				return fmt.Errorf("line %d has more than %d bytes", number, maxLine)
			}
			if err == bufio.ErrBufferFull {
				continue
			}
			if err != nil && err != io.EOF {
				return err
			}
			if err == io.EOF && len(line) == 0 {
				return nil
			}
			break
		}
		trimmed, skipped := trim(line, number == 1)
		if err := f(number, at+int64(skipped), trimmed); err != nil {
			return err
		}
		at += int64(len(line))
	}
}

// trim takes the white space off a line and, at the beginning of a file, the mark that some editors write.
func trim(line []byte, first bool) (trimmed []byte, skipped int) {
	const mark = "\ufeff"
	if first && len(line) >= len(mark) && string(line[:len(mark)]) == mark {
		skipped = len(mark)
	}
	end := len(line)
	for skipped < end && line[skipped] <= ' ' {
		skipped++
	}
	for end > skipped && line[end-1] <= ' ' {
		end--
	}
	return line[skipped:end], skipped
}

// openAnswers opens an output for appending and returns which requests it answers. A last line that was cut off is
// removed.
func openAnswers(name string, in *os.File) (*os.File, map[string]bool, error) {
	out, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, nil, err
	}
	a, err := in.Stat()
	b, failed := out.Stat()
	if err := errors.Join(err, failed); err == nil && os.SameFile(a, b) {
		out.Close()
		return nil, nil, errors.New("it is the input")
	}
	done, whole, bad := map[string]bool{}, int64(0), 0
	err = eachLine(out, func(number int, at int64, line []byte) error {
		if bad > 0 {
			return fmt.Errorf("line %d is no answer of a batch", bad)
		}
		var one openai.BatchResult
		if len(line) > 0 && (json.Unmarshal(line, &one) != nil || one.CustomID == "") {
			bad = number // which only the last line may be
			return nil
		}
		if len(line) > 0 {
			done[one.CustomID] = true
			whole = at + int64(len(line))
		}
		return nil
	})
	if err == nil {
		err = mend(out, whole)
	}
	if err != nil {
		out.Close()
		return nil, nil, err
	}
	return out, done, nil
}

// mend cuts a file off after its last whole line, whose end may be missing, and goes to its end.
func mend(out *os.File, whole int64) error {
	if err := out.Truncate(whole); err != nil {
		return err
	}
	if _, err := out.Seek(whole, io.SeekStart); err != nil || whole == 0 {
		return err
	}
	_, err := out.Write([]byte{'\n'})
	return err
}

// atOnce is how many requests are given to the engine at once.
const atOnce = 512

// answerAll answers requests in their order, many at once, and writes each answer when it is complete.
func answerAll(ctx context.Context, s *server.Server, in io.ReaderAt, out io.Writer, todo []batchRequest, p *batchProgress) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan batchRequest)
	var workers sync.WaitGroup
	var writing sync.Mutex
	for range min(atOnce, len(todo)) {
		workers.Add(1)
		guard.Go(func() error {
			for r := range next {
				if err := answerOne(ctx, s, in, r, func(line []byte, tokens int, ok bool) error {
					writing.Lock()
					defer writing.Unlock()
					_, err := out.Write(line)
					p.add(tokens, ok)
					return err
				}); err != nil {
					return err
				}
			}
			return nil
		}, func(err error) {
			if err != nil {
				cancel(err)
			}
			workers.Done()
		})
	}
feed:
	for _, r := range todo {
		select {
		case next <- r:
		case <-ctx.Done():
			break feed
		}
	}
	close(next)
	workers.Wait()
	return context.Cause(ctx)
}

// answerOne answers a request and gives its line to write, with the tokens that were generated.
func answerOne(ctx context.Context, s *server.Server, in io.ReaderAt, r batchRequest,
	write func(line []byte, tokens int, ok bool) error) error {
	data := make([]byte, r.length)
	if _, err := in.ReadAt(data, r.at); err != nil {
		return err
	}
	one, err := openai.DecodeBatchLine(data)
	if err != nil {
		return fmt.Errorf("line %d has changed: %w", r.number, err)
	}
	response := s.Answer(ctx, one)
	if response == nil {
		return context.Cause(ctx)
	}
	line, err := wire.Encode(&openai.BatchResult{ID: "batch_req_" + rand.Text(), CustomID: r.id, Response: response})
	if err != nil {
		return err
	}
	var said struct {
		Usage struct {
			Completion int `json:"completion_tokens"`
			Output     int `json:"output_tokens"`
		}
	}
	json.Unmarshal(response.Body, &said) // errors have none
	return write(line, said.Usage.Completion+said.Usage.Output, response.StatusCode == 200)
}
