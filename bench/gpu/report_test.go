package main

import (
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// measuring is a program that answers as kvasir would: a GPU, tests of a model at 200 tokens a second, of which the
// floor is 400, and a load.
const measuring = `
echo "$*" >> "$(dirname "$0")/asked"
case "$1 $2" in
devices*) echo '[{"name":"cuda:0","what":"NVIDIA H200","memory":1073741824}]' ;;
"bench load") echo '{"failed":0,"ttft_ms":{"p50":20},"itl_ms":{"p50":5,"p99":9},"e2e_ms":{"mean":2000},"output_tokens_per_second":1000,"cache_hit_rate":0.5}' ;;
"bench model")
	echo "a line of the log [1]" >&2
	tests=; for a; do [ "$last" = --tests ] && tests=$a; last=$a; done
	sep='['
	for t in $(echo $tests | tr , ' '); do
		case $t in tg*) n=64;; b*) n=${t#b}; n=$((${n%@*} * 32));; pp2048x16) n=32768;; pp512x*) n=$((512 * ${t#*x}));; pp*) n=${t#pp};; esac
		echo "$sep{\"model\":\"8b\",\"test\":\"$t\",\"tokens\":$n,\"tokens_per_second\":200,\"floor_tokens_per_second\":400,\"floor_gigaoperations\":1000}"; sep=,
	done
	echo ']'
	case "$*" in *"--quant u4"*) echo "no room for the rest" >&2; exit 1 ;; esac ;;
"bench write") echo model > "$3" ;;
serve*) exec sleep 600 ;;
esac`

// TestReportOfRows measures groups with a program that plays kvasir, and renders what another run adds to.
func TestReportOfRows(t *testing.T) {
	dir := t.TempDir()
	program := pretend(t, dir, "kvasir", measuring)
	file, docs := filepath.Join(dir, "data", "gpu.json"), filepath.Join(dir, "docs")
	if err := errors.Join(os.Mkdir(docs, 0o755), os.WriteFile(filepath.Join(docs, "gpu.md"), []byte("before\n"+beginMark+"\nold\n"+endMark+"\nafter\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	args := func(more ...string) []string {
		return append([]string{"--kvasir", program, "--data", file, "--out", filepath.Join(dir, "report.md")}, more...)
	}
	if err := run(t.Context(), args("--report", "--rows", "decode,prompt")); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), args("--report", "--rows", "engine,burst,tier,lora")); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), args("--report", "--rows", "lora,packed/8b Q4_K_M")); err != nil {
		t.Fatal(err)
	}
	if asked, _ := os.ReadFile(filepath.Join(dir, "asked")); strings.Contains(string(asked), "u4") {
		t.Error("a model that was not asked for was measured")
	}
	if err := run(t.Context(), args("--report", "--rows", "packed")); err == nil || err.Error() != "failed: packed, 8b U4" {
		t.Errorf("a model that does not fit: %v", err)
	}
	if err := run(t.Context(), args("--from", file, "--docs", docs)); err != nil {
		t.Fatal(err)
	}
	page, _ := os.ReadFile(filepath.Join(docs, "gpu.md"))
	for _, want := range []string{
		"before\n" + beginMark + "\n\nMeasured on NVIDIA H200.\n", endMark + "\nafter\n",
		"| 8b BF16 | 1 sequence | kvasir | 5.00 | 200 | 50% |\n|  |  | vLLM 0.26 | 4.94 (0.99×) | 203 (0.99×) | 69% |", // 64 steps of one token
		"| 8b BF16 | 32 sequences | kvasir | 160 | 200 | 50% |",
		"| 8b F8_E4M3 | 16 prompts of 2,048 | kvasir | 163,840 | 200 | 0.01 | 50% |",
		"| 8b BF16 | 256 sequences | kvasir | 5.00 | 12800% |", // 256/400 s, by a load
		"| 8b BF16 | 1,024 requests | kvasir | 1,000 | 20.0 | 5.00 | 9.00 |",
		"| 8b BF16 | 8,192 tokens | kvasir | 20.0 | 53.7 | 50.0 | 99% |", // 1.07 GB at 54.4 GB/s
		"| 8b U4 | 1 sequence | kvasir | 5.00 |",                         // before it failed
		"| 8b BF16, 16 adapters | 64 sequences | kvasir | 320 |",
		"Figures of vLLM 0.26, measured before: NVIDIA H200", "![Decoding: share of the floor, %](plots/gpu-share-decode.svg)",
	} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
	for _, name := range []string{"gpu-share-decode.svg", "gpu-times-vLLM-0.26-decode.svg", "gpu-rate-decode.svg", "gpu-share-prompt.svg"} {
		svg, err := os.ReadFile(filepath.Join(docs, "plots", name))
		if err == nil {
			err = xml.Unmarshal(svg, new(struct{}))
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	asked, _ := os.ReadFile(filepath.Join(dir, "asked"))
	for _, want := range []string{
		"bench model --device cuda --json --tests tg64@224,b8@240,b32@240,b64@240,b128@240,b256@240 --shape 8b --quant bf16 --choose -r 3\n",
		"bench load --json -n 1024 --input 512 --output 256 --shape 8b --quant bf16 --device cuda\n",
		"bench model --device cuda --json --tests pp512x256,b256@624,pp512x1024 --shape 8b --quant f8_e4m3 -r 0\n",
	} {
		if !strings.Contains(string(asked), want) {
			t.Errorf("the program was asked for\n%s; want among them %s", asked, want)
		}
	}
}

// TestReportOfServers measures kvasir and a peer as servers, one of which does not serve.
func TestReportOfServers(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/models":
			io.WriteString(w, `{"data":[{"id":"theirs"}]}`)
		case "/v1/completions":
			io.WriteString(w, `{}`)
		}
	}))
	defer server.Close()
	dir := t.TempDir()
	program := pretend(t, dir, "kvasir", measuring)
	file := filepath.Join(dir, "gpu.json")
	err := run(t.Context(), []string{
		"--kvasir", program, "--report", "--rows", "start,http,engine", "--data", file, "--known", "-", "--models", dir, "--limit", "2s",
		"--peer", "theirs=sleep 600", "--peer-url", server.URL + "/v1", "--out", filepath.Join(dir, "report.md"),
	})
	if err == nil || err.Error() != "failed: kvasir" { // nothing listens where it should
		t.Errorf("the report of servers: %v", err)
	}
	d, err := readData(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range [][3]string{
		{"start", "process start to first token", "theirs"}, {"http", "256 clients", "theirs"}, {"engine", "1 prompt of 8,192", "theirs"},
		{"engine", "32 sequences", ours},
	} {
		if r := d.find(want[0], bf16, want[1], want[2]); r == nil || len(r.Values) == 0 || r.Device != "NVIDIA H200" {
			t.Errorf("%v: %+v", want, r)
		}
	}
	if r := d.find("http", bf16, "1 client", "theirs"); r == nil || r.Values[outputRate] != 1000 || r.Floor <= 0 {
		t.Errorf("one client of theirs: %+v", r)
	}
}

// TestEveryRowIsATest holds that the groups ask kvasir for what it knows, and that known figures are of rows that there
// are.
func TestEveryRowIsATest(t *testing.T) {
	rows := map[[3]string]bool{{"start", bf16, "process start to first token"}: true}
	for _, g := range groups {
		for _, s := range g.steps {
			for name := range strings.SplitSeq(s.tests, ",") {
				test, err := parseTest(name)
				if err != nil {
					t.Error(err)
				}
				rows[[3]string{g.name, s.series, test.String()}] = true
			}
		}
		for _, l := range g.loads {
			rows[[3]string{g.name, l.series, l.row}] = true
			for _, name := range l.floor.tests {
				if _, err := parseTest(name); err != nil || len(l.floor.tests) != len(l.floor.times) {
					t.Errorf("%s, %s: floors %v, %v: %v", g.name, l.row, l.floor.tests, l.floor.times, err)
				}
			}
		}
	}
	d, err := readData("testdata/vllm.json")
	if err != nil || len(d.Results) == 0 {
		t.Fatalf("%d known figures, %v", len(d.Results), err)
	}
	for _, r := range d.Results {
		if !rows[[3]string{r.Group, r.Series, r.Row}] {
			t.Errorf("no row %s, %s, %s", r.Group, r.Series, r.Row)
		}
	}
	if err := run(t.Context(), []string{"--report", "--rows", "none", "--kvasir", pretend(t, t.TempDir(), "kvasir", measuring)}); err == nil || !strings.Contains(err.Error(), `no rows "none"`) {
		t.Errorf("a group that is not there: %v", err)
	}
}

func TestTimesAsFast(t *testing.T) {
	a := result{Values: map[string]float64{stepTime: 5, tokenRate: 200}, Device: "NVIDIA H200"}
	b := result{Values: map[string]float64{stepTime: 10, tokenRate: 50}, Device: "NVIDIA H200 141GB"}
	if got := timesAsFast(a, b, stepTime); got != 2 {
		t.Errorf("5 ms beside 10: %v", got)
	}
	if got := timesAsFast(a, b, tokenRate); got != 4 {
		t.Errorf("200 tokens/s beside 50: %v", got)
	}
	b.Device = "NVIDIA H100 80GB HBM3"
	if got := timesAsFast(a, b, stepTime); got != 0 {
		t.Errorf("on another GPU: %v", got)
	}
}

// TestWith holds that known figures do not take the place of measured ones.
func TestWith(t *testing.T) {
	row := func(server, device string) result {
		return result{Group: "decode", Series: bf16, Row: "1 sequence", Server: server, Device: device}
	}
	d := data{Results: []result{row(ours, "here"), row("theirs", "here")}}
	all := d.with(data{Results: []result{row("theirs", "there"), row("others", "there")}})
	if r := all.find("decode", bf16, "1 sequence", "theirs"); len(all.Results) != 3 || r.Device != "here" {
		t.Errorf("%+v", all.Results)
	}
}
