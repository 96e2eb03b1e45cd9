package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/shared/constant"

	api "github.com/kvasir-llm/kvasir/api/openai"
	"github.com/kvasir-llm/kvasir/store"
)

// serveBatches serves a fake to two keys, with files and batches in a folder.
func serveBatches(t *testing.T, dir string) (*fakeModel, *Server, *httptest.Server) {
	t.Helper()
	fake := newFake("fake", "Hel", "lo")
	kept, err := store.Open(dir, store.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	s := build(t, Config{Models: []Served{served(fake)}, Keys: []Key{{Secret: "key"}, {Secret: "other"}}, State: kept})
	web := httptest.NewServer(s)
	t.Cleanup(func() {
		web.Close()
		s.Close()
		kept.Close()
	})
	return fake, s, web
}

// lines returns a batch's input: chats by custom_id, of which those that begin with "bad" are wrong.
func lines(ids ...string) string {
	var out strings.Builder
	for _, id := range ids {
		body := `{"messages":[{"role":"user","content":"hi"}]}`
		if strings.HasPrefix(id, "bad") {
			body = `{"messages":[]}`
		}
		fmt.Fprintf(&out, `{"custom_id":%q,"method":"POST","url":"/v1/chat/completions","body":%s}`+"\n", id, body)
	}
	return out.String()
}

func uploadLines(t *testing.T, client openai.Client, content string) string {
	t.Helper()
	f, err := client.Files.New(t.Context(), openai.FileNewParams{File: openai.File(strings.NewReader(content), "in.jsonl", "application/jsonl"),
		Purpose: openai.FilePurposeBatch})
	if err != nil {
		t.Fatal(err)
	}
	if f.Bytes != int64(len(content)) || f.Filename != "in.jsonl" || f.Purpose != "batch" || f.ExpiresAt <= f.CreatedAt {
		t.Errorf("uploaded %s", f.RawJSON())
	}
	return f.ID
}

func startBatch(t *testing.T, client openai.Client, content string) *openai.Batch {
	t.Helper()
	b, err := client.Batches.New(t.Context(), openai.BatchNewParams{InputFileID: uploadLines(t, client, content),
		Endpoint: openai.BatchNewParamsEndpointV1ChatCompletions, CompletionWindow: openai.BatchNewParamsCompletionWindow24h})
	if err != nil {
		t.Fatal(err)
	}
	if b.Status != "validating" && b.Status != "in_progress" {
		t.Errorf("a new batch is %s", b.RawJSON())
	}
	return b
}

// waitFor asks for a batch until it is in a status.
func waitFor(t *testing.T, client openai.Client, id string, status openai.BatchStatus) *openai.Batch {
	t.Helper()
	for {
		b, err := client.Batches.Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if b.Status == status {
			return b
		}
		switch b.Status {
		case "completed", "failed", "cancelled", "expired":
			t.Fatalf("the batch is %s", b.RawJSON())
		}
		time.Sleep(time.Millisecond)
	}
}

// output returns the lines of a batch's file by custom_id.
func output(t *testing.T, client openai.Client, file string) map[string]api.BatchResult {
	t.Helper()
	r, err := client.Files.Content(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	data, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]api.BatchResult{}
	for line := range bytes.Lines(data) {
		var one api.BatchResult
		if err := json.Unmarshal(line, &one); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if _, twice := out[one.CustomID]; twice {
			t.Errorf("%s is there twice", one.CustomID)
		}
		out[one.CustomID] = one
	}
	return out
}

// TestSDKBatch holds that a batch answers each request as chat completions do, puts errors in a file of their own, and
// is nobody else's.
func TestSDKBatch(t *testing.T) {
	_, _, web := serveBatches(t, t.TempDir())
	client, other := sdk(web, "key"), sdk(web, "other")
	b := startBatch(t, client, "\ufeff"+lines("a", "bad", "b")+"\r\n"+strings.TrimSpace(lines("c")))
	b = waitFor(t, client, b.ID, "completed")
	if c := b.RequestCounts; c.Total != 4 || c.Completed != 3 || c.Failed != 1 || b.CompletedAt == 0 {
		t.Errorf("the batch is %s", b.RawJSON())
	}
	good, bad := output(t, client, b.OutputFileID), output(t, client, b.ErrorFileID)
	for _, id := range []string{"a", "b", "c"} {
		one := good[id]
		if one.Response == nil || one.Response.StatusCode != 200 || !strings.Contains(string(one.Response.Body), `"content":"Hello"`) {
			t.Errorf("%s: %+v", id, one)
		}
	}
	if one := bad["bad"]; len(good) != 3 || len(bad) != 1 || one.Response == nil || one.Response.StatusCode != 400 ||
		!strings.Contains(string(one.Response.Body), "messages") {
		t.Errorf("%d answers, errors %+v", len(good), bad)
	}
	_, err := other.Batches.Get(t.Context(), b.ID)
	notFound(t, "another key's batch", err)
	_, err = other.Batches.Cancel(t.Context(), b.ID)
	notFound(t, "another key's cancel", err)
	for _, file := range []string{b.InputFileID, b.OutputFileID, b.ErrorFileID} {
		_, err = other.Files.Get(t.Context(), file)
		notFound(t, "another key's file", err)
		_, err = other.Files.Content(t.Context(), file)
		notFound(t, "another key's content", err)
		_, err = other.Files.Delete(t.Context(), file)
		notFound(t, "another key's delete", err)
	}
	if list, err := other.Batches.List(t.Context(), openai.BatchListParams{}); err != nil || len(list.Data) != 0 {
		t.Errorf("another key's batches %s, %v", list.RawJSON(), err)
	}
	if list, err := client.Batches.List(t.Context(), openai.BatchListParams{}); err != nil || len(list.Data) != 1 || list.Data[0].ID != b.ID {
		t.Errorf("batches %s, %v", list.RawJSON(), err)
	}
	list, err := client.Files.List(t.Context(), openai.FileListParams{Purpose: openai.String("batch_output"), Limit: openai.Int(1)})
	if err != nil || len(list.Data) != 1 || !list.HasMore {
		t.Errorf("files %s, %v", list.RawJSON(), err)
	}
	if _, err := client.Files.Delete(t.Context(), b.InputFileID); err != nil {
		t.Error(err)
	}
	_, err = client.Files.Get(t.Context(), b.InputFileID)
	notFound(t, "a deleted file", err)
}

// TestBatchIsRefused holds that a batch whose input is wrong fails with the lines that are.
func TestBatchIsRefused(t *testing.T) {
	_, _, web := serveBatches(t, t.TempDir())
	client := sdk(web, "key")
	b := startBatch(t, client, lines("a")+"{\n"+lines("a")+`{"custom_id":"x","method":"POST","url":"/v1/embeddings","body":{}}`)
	b = waitFor(t, client, b.ID, "failed")
	var got []string
	for _, e := range b.Errors.Data {
		got = append(got, fmt.Sprint(e.Line, " ", e.Code, " ", e.Param))
	}
	if want := "2 invalid_json , 3 duplicate_custom_id custom_id, 4 mismatched_url url"; strings.Join(got, ", ") != want {
		t.Errorf("errors %q, want %q", strings.Join(got, ", "), want)
	}
	var e *openai.Error
	_, err := client.Batches.New(t.Context(), openai.BatchNewParams{InputFileID: "file-1", Endpoint: "/v1/chat/completions", CompletionWindow: "24h"})
	if !errors.As(err, &e) || e.StatusCode != 400 || e.Param != "input_file_id" {
		t.Errorf("a file that is not there: %v", err)
	}
	_, err = client.Batches.Cancel(t.Context(), b.ID)
	if !errors.As(err, &e) || e.StatusCode != 409 {
		t.Errorf("a batch that has ended is cancelled: %v", err)
	}
	_, err = client.Files.New(t.Context(), openai.FileNewParams{File: strings.NewReader("x"), Purpose: "vision",
		ExpiresAfter: openai.FileNewParamsExpiresAfter{Anchor: constant.CreatedAt("created_at"), Seconds: 3600}})
	if !errors.As(err, &e) || e.StatusCode != 400 || e.Param != "purpose" {
		t.Errorf("another purpose: %v", err)
	}
}

// TestBatchIsCancelled holds that what was answered by then is kept, and that all other requests end.
func TestBatchIsCancelled(t *testing.T) {
	fake, _, web := serveBatches(t, t.TempDir())
	fake.hold = make(chan struct{})
	client := sdk(web, "key")
	b := startBatch(t, client, lines("a", "b", "c"))
	fake.hold <- struct{}{} // of one request, or of two
	fake.hold <- struct{}{}
	fake.hold <- struct{}{}
	fake.hold <- struct{}{} // four pieces of three answers of two: one at least is complete
	for b.RequestCounts.Completed == 0 {
		b = waitFor(t, client, b.ID, "in_progress")
	}
	if _, err := client.Batches.Cancel(t.Context(), b.ID); err != nil {
		t.Fatal(err)
	}
	b = waitFor(t, client, b.ID, "cancelled")
	if n := int64(len(output(t, client, b.OutputFileID))); n == 0 || n == 3 || n != b.RequestCounts.Completed {
		t.Errorf("%d answers of %s", n, b.RawJSON())
	}
	if n := fake.live.Load(); n != 0 {
		t.Errorf("%d generations go on", n)
	}
}

// TestBatchExpires holds that the requests of a batch whose time is over get an error.
func TestBatchExpires(t *testing.T) {
	fake, s, web := serveBatches(t, t.TempDir())
	fake.hold = make(chan struct{})
	client := sdk(web, "key")
	b := startBatch(t, client, lines("a", "b"))
	fake.hold <- struct{}{}
	s.later.batchOf(s.ring().tenants[0].owner, b.ID).cancel(errBatchExpired)
	b = waitFor(t, client, b.ID, "expired")
	late := output(t, client, b.ErrorFileID)
	if len(late) != 2 || late["a"].Error == nil || late["a"].Error.Code != "batch_expired" || b.RequestCounts.Failed != 2 {
		t.Errorf("%+v of %s", late, b.RawJSON())
	}
}

// TestBatchGoesOn holds that a batch goes on where it was when the server is started again: what was answered is not
// asked again.
func TestBatchGoesOn(t *testing.T) {
	dir := t.TempDir()
	fake := newFake("fake", "Hello")
	fake.hold = make(chan struct{})
	start := func() (*store.Store, *Server, *httptest.Server) {
		kept, err := store.Open(dir, store.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		s := build(t, Config{Models: []Served{served(fake)}, Keys: []Key{{Secret: "key"}}, State: kept})
		return kept, s, httptest.NewServer(s)
	}
	kept, s, web := start()
	var ids []string
	for i := range 20 {
		ids = append(ids, fmt.Sprint("r", i))
	}
	b := startBatch(t, sdk(web, "key"), lines(ids...))
	for range 7 {
		fake.hold <- struct{}{}
	}
	for b.RequestCounts.Completed < 7 {
		b = waitFor(t, sdk(web, "key"), b.ID, "in_progress")
	}
	web.Close()
	s.Close()
	kept.Close()
	asked := len(fake.asked) // by nobody any more
	close(fake.hold)
	kept, s, web = start()
	defer kept.Close()
	defer s.Close()
	defer web.Close()
	client := sdk(web, "key")
	b = waitFor(t, client, b.ID, "completed")
	if n := len(output(t, client, b.OutputFileID)); n != 20 || b.RequestCounts.Completed != 20 {
		t.Errorf("%d answers of %s", n, b.RawJSON())
	}
	fake.mu.Lock()
	defer fake.mu.Unlock()
	if n := len(fake.asked) - asked; n != 13 {
		t.Errorf("%d requests were asked after the restart, want 13", n)
	}
	for _, p := range fake.asked {
		if !p.Request.Background {
			t.Fatal("a request of a batch is not in the background")
		}
	}
}

// TestFilesNeedState holds that a server without a folder says so.
func TestFilesNeedState(t *testing.T) {
	s := build(t, Config{Models: []Served{served(newFake("fake"))}})
	web := httptest.NewServer(s)
	defer web.Close()
	var e *openai.Error
	client := sdk(web, "x")
	_, err := client.Files.List(context.Background(), openai.FileListParams{})
	if !errors.As(err, &e) || e.StatusCode != 404 || !strings.Contains(e.Message, "--state") {
		t.Errorf("got %v", err)
	}
}

// TestBatchOnDemand holds that a batch loads the models that its requests name, though they do not fit together, and
// asks each for what is its own.
func TestBatchOnDemand(t *testing.T) {
	kept, err := store.Open(t.TempDir(), store.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	c := &fakeCatalog{names: []string{"aaa", "bbb"}, takes: time.Millisecond, fakes: map[string]*fakeModel{}}
	s := build(t, Config{OnDemand: &OnDemand{Catalog: c, Memory: 5 << 20, Keep: -1}, Keys: []Key{{Secret: "key"}}, State: kept})
	defer s.Close()
	web := httptest.NewServer(s)
	defer web.Close()
	var in strings.Builder
	for i := range 8 {
		fmt.Fprintf(&in, `{"custom_id":"%d","method":"POST","url":"/v1/chat/completions","body":{"model":%q,"messages":[{"role":"user","content":"x"}]}}`+"\n",
			i, c.names[i%2])
	}
	client := sdk(web, "key")
	b := waitFor(t, client, startBatch(t, client, in.String()).ID, "completed")
	out := output(t, client, b.OutputFileID)
	for i := range 8 {
		one := out[fmt.Sprint(i)]
		if one.Response == nil || !strings.Contains(string(one.Response.Body), c.names[i%2]+" answers") {
			t.Errorf("request %d: %+v", i, one)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.opened) < 2 || len(c.opened) > 8 {
		t.Errorf("loaded %v", c.opened)
	}
}
