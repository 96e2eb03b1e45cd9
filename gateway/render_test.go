package gateway

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kvasir-llm/kvasir/route"
)

// TestRenderedTokens reads answers of engines, and what is none.
func TestRenderedTokens(t *testing.T) {
	for said, want := range map[string][]int32{
		`{"token_ids":[1,23 , 456]}`: {1, 23, 456}, `[{"prompt":"a]","token_ids":[7]},{"token_ids":[8]}]`: {7},
		` [ {"x":[[]],"token_ids" : [ 2147483647 ]} ]`: {2147483647}, `{"token_ids":[2147483648]}`: nil, `{"token_ids":[99999999999999999999]}`: nil,
		`{"token_ids":[]}`: nil, `{"token_ids":[1,]}`: nil, `{"token_ids":[-1]}`: nil, `{"token_ids":[1.5]}`: nil, `{"token_ids":[1`: nil,
		`[]`: nil, `[1]`: nil, ``: nil, `null`: nil, `{"token_ids":null}`: nil, `{"token_ids":"1"}`: nil, `{"token_ids":[1}]`: nil,
	} {
		if got := renderedTokens([]byte(said)); !slices.Equal(got, want) {
			t.Errorf("%s: %v; want %v", said, got, want)
		}
	}
}

// BenchmarkRender measures what it takes to know a prompt's blocks of tokens: a round trip to an engine that has the
// tokens ready, and their names; beside it requests of the same engines that are routed by their bytes. An engine's own
// time for its template and tokenizer comes on top, which the last case models at 20 MB/s.
func BenchmarkRender(b *testing.B) {
	for _, size := range []int{1 << 10, 220 << 10} {
		for _, how := range []string{"bytes", "exact", "exact and tokenizing"} {
			b.Run(fmt.Sprintf("size=%d/%s", size, how), func(b *testing.B) {
				tokens := make([]string, size/bytesPerToken)
				for i := range tokens {
					tokens[i] = strconv.Itoa(i * 7919 % 150_000)
				}
				ids := `[{"token_ids":[` + strings.Join(tokens, ",") + "]}]"
				engine := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					io.Copy(io.Discard, r.Body)
					switch {
					case r.Method != http.MethodPost:
						http.NotFound(w, r)
					case strings.HasSuffix(r.URL.Path, "/render"):
						if how != "exact" {
							time.Sleep(time.Duration(size) * time.Second / 20e6)
						}
						io.WriteString(w, ids)
					default:
						w.Header().Set("Content-Type", "application/json")
						io.WriteString(w, `{"choices":[]}`)
					}
				})
				one, two := httptest.NewServer(engine), httptest.NewServer(engine)
				defer one.Close()
				defer two.Close()
				config := fmt.Sprintf("models: [{name: m, endpoints: [{url: %q, events: \"tcp://127.0.0.1:1\"}, %q]}]", one.URL, two.URL)
				c, err := Parse("fleet.yaml", []byte(config))
				if err != nil {
					b.Fatal(err)
				}
				g, err := New(c, Options{Logger: slog.New(slog.DiscardHandler)})
				if err != nil {
					b.Fatal(err)
				}
				defer g.Close()
				if how != "bytes" {
					g.mu.Lock()
					g.fleet.SetCoverage(g.ends[one.URL].id, route.ToldFully)
					g.fleet.Store(g.ends[one.URL].id, route.Block{Name: 1, Seed: 1, Tokens: make([]int32, 16)})
					g.mu.Unlock()
				}
				body := `{"model":"m","max_tokens":1,"prompt":"` + strings.Repeat("x", size) + `"}`
				var took []time.Duration
				for b.Loop() {
					began := time.Now()
					w := httptest.NewRecorder()
					g.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/completions", strings.NewReader(body)))
					if took = append(took, time.Since(began)); w.Code != http.StatusOK {
						b.Fatal(w.Body)
					}
				}
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2].Microseconds()), "µs-median")
			})
		}
	}
}
