package server

import (
	"encoding/json"
	"errors"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"

	"github.com/kvasir-llm/kvasir/store"
)

// serveResponses serves the built-in model to two keys, with what it stores in a folder.
func serveResponses(t *testing.T) (*httptest.Server, openai.Client) {
	t.Helper()
	m, err := mini()
	if err != nil {
		t.Fatal(err)
	}
	kept, err := store.Open(t.TempDir(), store.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kept.Close() })
	s := build(t, Config{Version: "test", Models: []Served{*m}, Keys: []Key{{Secret: "key"}, {Secret: "other"}}, State: kept})
	t.Cleanup(s.Close)
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	return web, sdk(web, "key")
}

// said is a greedy question of a text.
func said(text string) responses.ResponseNewParams {
	return responses.ResponseNewParams{Model: "kvasir-mini", Temperature: openai.Float(0),
		Input: responses.ResponseNewParamsInputUnion{OfString: openai.String(text)}}
}

func notFound(t *testing.T, what string, err error) {
	t.Helper()
	var e *openai.Error
	if !errors.As(err, &e) || e.StatusCode != 404 {
		t.Errorf("%s: %v; want status 404", what, err)
	}
}

// TestSDKResponse holds that a response is the same whole, streamed and stored, and another key's client finds none of
// it.
func TestSDKResponse(t *testing.T) {
	web, client := serveResponses(t)
	ask := said("What is a KV cache?")
	ask.MaxOutputTokens = openai.Int(24)
	whole, err := client.Responses.New(t.Context(), ask)
	if err != nil {
		t.Fatal(err)
	}
	answer := whole.OutputText()
	if len(answer) < 20 || whole.Status != "incomplete" || whole.IncompleteDetails.Reason != "max_output_tokens" ||
		whole.Usage.OutputTokens != 24 || whole.Usage.TotalTokens != 24+whole.Usage.InputTokens {
		t.Errorf("answer %q, %s", answer, whole.RawJSON())
	}
	stream := client.Responses.NewStreaming(t.Context(), ask)
	var kinds []string
	text, last := "", responses.Response{}
	for n := int64(0); stream.Next(); n++ {
		e := stream.Current()
		if e.SequenceNumber != n {
			t.Errorf("event %d has number %d", n, e.SequenceNumber)
		}
		if e.Type == "response.output_text.delta" {
			text += e.Delta
		} else {
			kinds = append(kinds, strings.TrimPrefix(e.Type, "response."))
		}
		last = e.Response
	}
	want := []string{"created", "in_progress", "output_item.added", "content_part.added", "output_text.done",
		"content_part.done", "output_item.done", "incomplete"}
	if stream.Err() != nil || text != answer || !reflect.DeepEqual(kinds, want) || last.OutputText() != answer {
		t.Errorf("%v: %q, events %q; want %q and %q", stream.Err(), text, kinds, answer, want)
	}

	stored, err := client.Responses.Get(t.Context(), whole.ID, responses.ResponseGetParams{})
	if err != nil || stored.RawJSON() != whole.RawJSON() {
		t.Errorf("stored %s, %v; given %s", stored.RawJSON(), err, whole.RawJSON())
	}
	items, err := client.Responses.InputItems.List(t.Context(), whole.ID, responses.InputItemListParams{})
	if err != nil || len(items.Data) != 1 || !strings.Contains(items.Data[0].RawJSON(), `"What is a KV cache?"`) {
		t.Errorf("input %s, %v", items.RawJSON(), err)
	}
	other := sdk(web, "other")
	_, err = other.Responses.Get(t.Context(), whole.ID, responses.ResponseGetParams{})
	notFound(t, "another key's get", err)
	notFound(t, "another key's delete", other.Responses.Delete(t.Context(), whole.ID))
	_, err = other.Responses.InputItems.List(t.Context(), whole.ID, responses.InputItemListParams{})
	notFound(t, "another key's list", err)
	next := said("And?")
	next.PreviousResponseID = openai.String(whole.ID)
	var e *openai.Error
	if _, err = other.Responses.New(t.Context(), next); !errors.As(err, &e) || e.Code != "previous_response_not_found" {
		t.Errorf("another key goes on: %v", err)
	}
	if err := client.Responses.Delete(t.Context(), whole.ID); err != nil {
		t.Error(err)
	}
	_, err = client.Responses.Get(t.Context(), whole.ID, responses.ResponseGetParams{})
	notFound(t, "after delete", err)
}

// TestSDKConversation holds that the three ways to go on are one: by the id of the response before, with its items, and
// with references to these.
func TestSDKConversation(t *testing.T) {
	_, client := serveResponses(t)
	ask := said("What is a KV cache?")
	ask.MaxOutputTokens = openai.Int(16)
	first, err := client.Responses.New(t.Context(), ask)
	if err != nil {
		t.Fatal(err)
	}
	user := func(text string) responses.ResponseInputItemUnionParam {
		return responses.ResponseInputItemParamOfMessage(text, responses.EasyInputMessageRoleUser)
	}
	byID := said("And why?")
	byID.PreviousResponseID = openai.String(first.ID)
	byItems := said("")
	said := first.Output[0].AsMessage().ToParam()
	byItems.Input = responses.ResponseNewParamsInputUnion{OfInputItemList: []responses.ResponseInputItemUnionParam{
		user("What is a KV cache?"), {OfOutputMessage: &said}, user("And why?")}}
	byReference := byItems
	byReference.Input.OfInputItemList = []responses.ResponseInputItemUnionParam{user("What is a KV cache?"),
		responses.ResponseInputItemParamOfItemReference(first.Output[0].ID), user("And why?")}
	var answers []string
	var tokens []int64
	for _, p := range []responses.ResponseNewParams{byID, byItems, byReference} {
		p.MaxOutputTokens = openai.Int(16)
		r, err := client.Responses.New(t.Context(), p)
		if e := new(openai.Error); errors.As(err, &e) {
			t.Fatal(e.Message)
		}
		answers, tokens = append(answers, r.OutputText()), append(tokens, r.Usage.InputTokens)
	}
	if answers[0] != answers[1] || answers[1] != answers[2] || tokens[0] != tokens[1] || tokens[1] != tokens[2] {
		t.Errorf("answers %q of %d tokens", answers, tokens)
	}
	if tokens[0] <= first.Usage.InputTokens+16 {
		t.Errorf("%d tokens of input; the first request had %d", tokens[0], first.Usage.InputTokens)
	}
}

// TestSDKResponseTools holds that a function is called, streamed and whole, and that what it gives goes back.
func TestSDKResponseTools(t *testing.T) {
	_, client := serveResponses(t)
	ask := said("What is the weather in Paris?")
	ask.ToolChoice = responses.ResponseNewParamsToolChoiceUnion{OfToolChoiceMode: openai.Opt(responses.ToolChoiceOptionsRequired)}
	ask.Tools = []responses.ToolUnionParam{{OfFunction: &responses.FunctionToolParam{Name: "get_weather", Strict: openai.Bool(true),
		Parameters: map[string]any{"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}},
			"required": []string{"city"}, "additionalProperties": false}}}}
	r, err := client.Responses.New(t.Context(), ask)
	if err != nil {
		t.Fatal(err)
	}
	call := r.Output[len(r.Output)-1].AsFunctionCall()
	var args struct{ City string }
	if err := json.Unmarshal([]byte(call.Arguments), &args); err != nil || call.Name != "get_weather" || args.City != "Paris" || call.CallID == "" {
		t.Errorf("the call is %s", call.RawJSON())
	}
	stream := client.Responses.NewStreaming(t.Context(), ask)
	pieces, done := "", ""
	for stream.Next() {
		switch e := stream.Current(); e.Type {
		case "response.function_call_arguments.delta":
			pieces += e.Delta
		case "response.function_call_arguments.done":
			done = e.Arguments
		}
	}
	if stream.Err() != nil || pieces != call.Arguments || done != call.Arguments {
		t.Errorf("streamed %q and %q (%v), whole %q", pieces, done, stream.Err(), call.Arguments)
	}
	next := responses.ResponseNewParams{Model: "kvasir-mini", PreviousResponseID: openai.String(r.ID),
		Input: responses.ResponseNewParamsInputUnion{OfInputItemList: []responses.ResponseInputItemUnionParam{
			{OfFunctionCallOutput: &responses.ResponseInputItemFunctionCallOutputParam{CallID: openai.String(call.CallID),
				Output: responses.ResponseInputItemFunctionCallOutputOutputUnionParam{OfString: openai.String(`{"temperature": 21}`)}}}}}}
	last, err := client.Responses.New(t.Context(), next)
	if err != nil || last.Status != "completed" || last.OutputText() == "" {
		t.Errorf("%v, %s", err, last.RawJSON())
	}
}

// TestSDKResponseFormat holds that text.format gives an answer its form.
// TestResponseNamespace holds that a function of a namespace is called with both names, and that its output belongs to
// the conversation.
func TestResponseNamespace(t *testing.T) {
	_, client := serveResponses(t)
	var first struct {
		ID     string
		Tools  []json.RawMessage
		Output []struct{ Type, Namespace, Name, Arguments, CallID string }
	}
	const tools = `[{"type":"namespace","name":"sky","description":"The sky.","tools":[{"type":"function","name":"get_weather",` +
		`"description":"Get the weather of a city","parameters":{"type":"object","properties":{"city":` +
		`{"type":"string"}},"required":["city"]},"strict":false}]}]`
	ask := func(body string, out any) {
		t.Helper()
		raw := option.WithRequestBody("application/json", []byte(body))
		if err := client.Post(t.Context(), "responses", nil, out, raw); err != nil {
			t.Fatal(err)
		}
	}
	ask(`{"input":"What is the weather in Paris?","temperature":0,"tool_choice":"required","parallel_tool_calls":false,"tools":`+
		tools+`}`, &first)
	if len(first.Output) != 1 || first.Output[0].Type != "function_call" || first.Output[0].Namespace != "sky" ||
		first.Output[0].Name != "get_weather" || string(first.Tools[0]) != tools[1:len(tools)-1] {
		t.Fatalf("%+v, %s", first, first.Tools)
	}
	input := `{"type":"function_call","namespace":"sky","name":"get_weather","call_id":"1","arguments":"{}"},` +
		`{"type":"function_call_output","call_id":"1","output":"21 degrees"}`
	var prompts [2]struct {
		Usage struct {
			InputTokens int `json:"input_tokens"`
		}
	}
	ask(`{"input":[`+input+`],"max_output_tokens":16}`, &prompts[0])
	ask(`{"input":[`+strings.Replace(strings.Replace(input, `"namespace":"sky",`, "", 1), "get_weather", "sky.get_weather", 1)+
		`],"max_output_tokens":16}`, &prompts[1])
	if prompts[0] != prompts[1] || prompts[0].Usage.InputTokens == 0 {
		t.Errorf("%+v", prompts)
	}
}

func TestSDKResponseFormat(t *testing.T) {
	_, client := serveResponses(t)
	ask := said("What is the capital of France?")
	ask.Text = responses.ResponseTextConfigParam{Format: responses.ResponseFormatTextConfigUnionParam{
		OfJSONSchema: &responses.ResponseFormatTextJSONSchemaConfigParam{Name: "fact", Strict: openai.Bool(true),
			Schema: map[string]any{"type": "object", "properties": map[string]any{"capital": map[string]any{"enum": []string{"Paris", "Rome"}}},
				"required": []string{"capital"}, "additionalProperties": false}}}}
	r, err := client.Responses.New(t.Context(), ask)
	if err != nil {
		t.Fatal(err)
	}
	var fact struct{ Capital string }
	if err := json.Unmarshal([]byte(r.OutputText()), &fact); err != nil || fact.Capital == "" {
		t.Errorf("%q: %v", r.OutputText(), err)
	}
	if f := r.Text.Format.AsJSONSchema(); f.Name != "fact" || f.Schema["required"] == nil {
		t.Errorf("format %s", r.Text.RawJSON())
	}
}

// TestSDKReasoning holds that reasoning is an item, which comes back sealed for a client that keeps the conversation.
func TestSDKReasoning(t *testing.T) {
	_, client := serveResponses(t)
	ask := said("What is 17 + 25?")
	ask.Reasoning = shared.ReasoningParam{Effort: shared.ReasoningEffortHigh}
	ask.Store = openai.Bool(false)
	ask.Include = []responses.ResponseIncludable{responses.ResponseIncludableReasoningEncryptedContent}
	r, err := client.Responses.New(t.Context(), ask)
	if err != nil {
		t.Fatal(err)
	}
	if r.Output[0].Type != "reasoning" || r.Usage.OutputTokensDetails.ReasoningTokens == 0 {
		t.Fatalf("no reasoning: %s", r.RawJSON())
	}
	thought := r.Output[0].AsReasoning()
	if thought.Content[0].Text == "" || thought.EncryptedContent == "" || strings.Contains(thought.EncryptedContent, thought.Content[0].Text) {
		t.Errorf("reasoning %s", thought.RawJSON())
	}
	_, err = client.Responses.Get(t.Context(), r.ID, responses.ResponseGetParams{})
	notFound(t, "a response that is not stored", err)
	again := said("")
	sealed := responses.ResponseReasoningItemParam{ID: thought.ID, Summary: []responses.ResponseReasoningItemSummaryParam{},
		EncryptedContent: openai.String(thought.EncryptedContent)}
	again.Input = responses.ResponseNewParamsInputUnion{OfInputItemList: []responses.ResponseInputItemUnionParam{
		responses.ResponseInputItemParamOfMessage("What is 17 + 25?", responses.EasyInputMessageRoleUser), {OfReasoning: &sealed},
		responses.ResponseInputItemParamOfMessage(r.OutputText(), responses.EasyInputMessageRoleAssistant),
		responses.ResponseInputItemParamOfMessage("Sure?", responses.EasyInputMessageRoleUser)}}
	if _, err := client.Responses.New(t.Context(), again, option.WithMaxRetries(0)); err != nil {
		t.Error(err)
	}
}

// TestSDKBackground holds that a response in the background is stored when it is complete, that its events can be read
// from any of them on, and that cancelling one ends it.
func TestSDKBackground(t *testing.T) {
	fake := newFake("kvasir-mini", "Hel", "lo", "!")
	fake.hold = make(chan struct{})
	s := build(t, Config{Models: []Served{served(fake)}, Keys: []Key{{Secret: "key"}, {Secret: "other"}}})
	t.Cleanup(s.Close)
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	client := sdk(web, "key")
	ask := said("hi")
	ask.Background = openai.Bool(true)
	one, err := client.Responses.New(t.Context(), ask)
	if err != nil || one.Status != "queued" || !one.Background {
		t.Fatalf("%v, %s", err, one.RawJSON())
	}
	fake.hold <- struct{}{}
	streamed := option.WithQuery("stream", "true") // which the client leaves out of the address
	all := client.Responses.GetStreaming(t.Context(), one.ID, responses.ResponseGetParams{}, streamed)
	events := func(n int) (kinds []string) {
		t.Helper()
		for len(kinds) < n && all.Next() {
			kinds = append(kinds, strings.TrimPrefix(all.Current().Type, "response."))
		}
		return kinds
	}
	want := []string{"created", "queued", "in_progress", "output_item.added", "content_part.added", "output_text.delta"}
	if got := events(len(want)); !reflect.DeepEqual(got, want) {
		t.Errorf("events %q, want %q (%v)", got, want, all.Err())
	}
	if now, err := client.Responses.Get(t.Context(), one.ID, responses.ResponseGetParams{}); err != nil || now.Status != "in_progress" {
		t.Errorf("%v, %s", err, now.RawJSON())
	}
	fake.hold <- struct{}{}
	fake.hold <- struct{}{}
	want = []string{"output_text.delta", "output_text.delta", "output_text.done", "content_part.done", "output_item.done", "completed"}
	if got := events(99); !reflect.DeepEqual(got, want) {
		t.Errorf("events %q, want %q (%v)", got, want, all.Err())
	}
	done, err := client.Responses.Get(t.Context(), one.ID, responses.ResponseGetParams{})
	if err != nil || done.Status != "completed" || done.OutputText() != "Hello!" {
		t.Errorf("%v, %s", err, done.RawJSON())
	}
	all = client.Responses.GetStreaming(t.Context(), one.ID, responses.ResponseGetParams{StartingAfter: openai.Int(9)}, streamed)
	if got := events(99); !reflect.DeepEqual(got, want[4:]) {
		t.Errorf("the events after 9 are %q", got)
	}
	stopped, err := client.Responses.Cancel(t.Context(), one.ID)
	if err != nil || stopped.Status != "completed" {
		t.Errorf("one that has ended is cancelled: %v, %s", err, stopped.RawJSON())
	}

	two, err := client.Responses.New(t.Context(), ask)
	if err != nil {
		t.Fatal(err)
	}
	fake.hold <- struct{}{}
	other := sdk(web, "other")
	_, err = other.Responses.Cancel(t.Context(), two.ID)
	notFound(t, "another key's cancel", err)
	stopped, err = client.Responses.Cancel(t.Context(), two.ID)
	if err != nil || stopped.Status != "cancelled" {
		t.Errorf("%v, %s", err, stopped.RawJSON())
	}
	if n := fake.live.Load(); n != 0 {
		t.Errorf("%d generations go on", n)
	}
}

// TestRestartEndsResponses holds that a response that the process before did not complete is said to have failed.
func TestRestartEndsResponses(t *testing.T) {
	dir := t.TempDir()
	kept, err := store.Open(dir, store.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	err = kept.PutResponse(t.Context(), &store.Response{ID: "resp_1", Created: 1, Status: "in_progress",
		Body: []byte(`{"id":"resp_1","status":"in_progress","error":null}`), Input: []byte(`{"data":[]}`)})
	if err != nil {
		t.Fatal(err)
	}
	s := build(t, Config{Models: []Served{served(newFake("fake"))}, State: kept})
	defer kept.Close()
	defer s.Close()
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest("GET", "/v1/responses/resp_1", nil))
	if got := w.Body.String(); w.Code != 200 || !strings.Contains(got, `"status":"failed"`) || !strings.Contains(got, "stopped") {
		t.Errorf("%d %s", w.Code, got)
	}
}
