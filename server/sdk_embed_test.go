package server

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/openai/openai-go/v3"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/engine/text"
	"github.com/kvasir-llm/kvasir/weights"
)

// TestSDKEmbeddings asks an encoder, and the built-in decoder, with OpenAI's client.
func TestSDKEmbeddings(t *testing.T) {
	dir := filepath.Join("..", "model", "testdata", "encoders", "bert")
	var examples []struct {
		Text   string
		IDs    []int64
		Vector []float64
	}
	data, err := os.ReadFile(filepath.Join(dir, "texts.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &examples); err != nil {
		t.Fatal(err)
	}
	ckpt, err := weights.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	encoder, err := text.Open(ckpt, text.Options{Name: "bert", Compute: compute.Options{Threads: 1}, KVBytes: 16 << 20})
	ckpt.Close()
	if err != nil {
		t.Fatal(err)
	}
	defer encoder.Close()
	decoder, err := mini()
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(build(t, Config{Models: []Served{*decoder, FromText(encoder)}}))
	defer web.Close()
	client := sdk(web, "key")

	var texts []string
	var ids [][]int64
	tokens := int64(0)
	for _, e := range examples {
		texts, ids, tokens = append(texts, e.Text), append(ids, e.IDs), tokens+int64(len(e.IDs))
	}
	whole, err := client.Embeddings.New(t.Context(), openai.EmbeddingNewParams{
		Model: "bert", Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: texts}})
	if err != nil {
		t.Fatal(err)
	}
	if len(whole.Data) != len(examples) || whole.Usage.PromptTokens != tokens || whole.Usage.TotalTokens != tokens || whole.Model != "bert" {
		t.Fatalf("%d vectors, usage %+v, model %s", len(whole.Data), whole.Usage, whole.Model)
	}
	for i, e := range examples {
		if c := cosine(whole.Data[i].Embedding, e.Vector); !(c > 0.999999) || int(whole.Data[i].Index) != i {
			t.Errorf("vector %d (index %d) has a cosine of %v to the reference", i, whole.Data[i].Index, c)
		}
	}
	byID, err := client.Embeddings.New(t.Context(), openai.EmbeddingNewParams{
		Model: "bert", Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfTokenArrays: ids}, Dimensions: openai.Int(6)})
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range examples {
		v := byID.Data[i].Embedding
		if c := cosine(v, e.Vector[:6]); len(v) != 6 || !(c > 0.999999) || !(math.Abs(dot(v, v)-1) < 1e-5) {
			t.Errorf("vector %d of 6 dimensions has %d, and a cosine of %v to the reference", i, len(v), c)
		}
	}

	ask := openai.EmbeddingNewParams{Model: "kvasir-mini", Input: openai.EmbeddingNewParamsInputUnion{OfString: openai.String("What is a KV cache?")}}
	plain, err := client.Embeddings.New(t.Context(), ask)
	if err != nil {
		t.Fatal(err)
	}
	ask.EncodingFormat = openai.EmbeddingNewParamsEncodingFormatBase64
	var coded struct{ Data []struct{ Embedding string } }
	if err := client.Post(t.Context(), "embeddings", ask, &coded); err != nil {
		t.Fatal(err)
	}
	raw, err := base64.StdEncoding.DecodeString(coded.Data[0].Embedding)
	if err != nil || len(raw) != 4*len(plain.Data[0].Embedding) {
		t.Fatalf("%d bytes, %v; want four for each of %d values", len(raw), err, len(plain.Data[0].Embedding))
	}
	for i, v := range plain.Data[0].Embedding {
		if got := math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:])); got != float32(v) {
			t.Fatalf("value %d is %v in base64 and %v as a number", i, got, v)
		}
	}
	if length := dot(plain.Data[0].Embedding, plain.Data[0].Embedding); !(math.Abs(length-1) < 1e-5) {
		t.Errorf("the decoder's vector has the square length %v; want 1", length)
	}

	chat := openai.ChatCompletionNewParams{Model: "bert", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Hi")}}
	if _, err := client.Chat.Completions.New(t.Context(), chat); err == nil {
		t.Error("an encoder answered a conversation")
	}
}

func cosine(a, b []float64) float64 { return dot(a, b) / math.Sqrt(dot(a, a)*dot(b, b)) }

func dot(a, b []float64) float64 {
	sum := 0.0
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}
