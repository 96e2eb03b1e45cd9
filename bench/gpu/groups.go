package main

import (
	"cmp"
	"fmt"
	"strings"
)

// The metrics of results. Of a rate more is better, of a time less.
const (
	stepTime   = "ms"
	tokenRate  = "tokens/s"
	operations = "TFLOP/s"
	outputRate = "output tokens/s"
	firstToken = "first token, ms"
	gap        = "between tokens, ms"
	gapP99     = "p99, ms"
	seconds    = "s"
	linkRate   = "GB/s"
	found      = "found, %"
)

// isRate reports whether more is better.
func isRate(metric string) bool { return strings.HasSuffix(metric, "/s") }

// group is a table of the report: what steps, loads, and starts of servers it has.
type group struct {
	name, title, about string
	metrics            []string // the first has floors
	steps              []steps
	loads              []measuredLoad
	starts             bool
}

// steps are rows that kvasir bench model measures: no engine and no server, but tokens are chosen.
type steps struct{ series, flags, tests string }

// measuredLoad is a row that kvasir bench load measures. kvasir loads a model in the client's process, or is a server
// with kvasir bench write's file; others are always servers.
type measuredLoad struct {
	series, row string
	flags       string // of a model in the process; "" is a server
	load        string // flags
	scheduling  string // flags of kvasir alone
	own         bool   // not measured on other servers
	clients     int    // of a load that --clients may leave out
	beside      string // flags of another load, begun meanwhile
	floor       floor
	values      func(l, beside load) map[string]float64
}

// model is the flags of the load's model, which is BF16 on a server.
func (m measuredLoad) model() string { return cmp.Or(m.flags, bf16Flags) }

// floor is the least time of a load. What bytes and operations count is told by kvasir bench model -r 0 (package bench
// has the formula): the time is the sum of tests, each so many times, of a decode that of one step. Or it is that of
// bytes over the link to the device. Of a first metric that is a rate, tokens are those of the load.
type floor struct {
	tests  []string
	times  []float64
	tokens float64
	bytes  float64
}

const (
	bf16Flags, bf16 = "--shape 8b --quant bf16", "8b BF16"
	fp8Flags, fp8   = "--shape 8b --quant f8_e4m3", "8b F8_E4M3"

	tokenBytes8B = 2 * 32 * 8 * 128 * 2 // of the cache: keys and values of 32 layers with 8 heads of 128, in BF16
)

// decodes are tests of so many sequences, with a mean of 256 tokens each: as answers of 256 tokens to prompts of 128.
func decodes(seqs ...int) string {
	var tests []string
	for _, n := range seqs {
		tests = append(tests, decode(n, 256))
	}
	return strings.Join(tests, ",")
}

// decode is the test of n sequences with a mean of so many tokens.
func decode(n, mean int) string {
	if n == 1 {
		return fmt.Sprintf("tg64@%d", mean-32)
	}
	return fmt.Sprintf("b%d@%d", n, mean-16)
}

// groups are the tables of the report.
var groups = []group{
	{name: "decode", title: "Decoding", about: "A step, in which each sequence has 256 tokens on average.",
		metrics: []string{stepTime, tokenRate}, steps: []steps{
			{bf16, bf16Flags, decodes(1, 8, 32, 64, 128, 256)},
			{fp8, fp8Flags, decodes(1, 32, 64, 256)},
		}},
	{name: "context", title: "Decoding with long contexts", about: "A step.",
		metrics: []string{stepTime, tokenRate}, steps: []steps{
			{bf16, bf16Flags, decode(1, 8192) + "," + decode(32, 4096) + "," + decode(128, 2048)},
		}},
	{name: "prompt", title: "Prompts", about: "The forward pass of all, until the last token is chosen.",
		metrics: []string{stepTime, tokenRate, operations}, steps: []steps{
			{bf16, bf16Flags, "pp512,pp8192,pp2048x16"},
			{fp8, fp8Flags, "pp8192,pp2048x16"},
		}},
	{name: "engine", title: "Through the engine", metrics: []string{stepTime},
		about: "Answers of 256 tokens to prompts of 128, all at once: the median time between tokens. Prompts: that to the first token.",
		loads: []measuredLoad{
			answers(bf16, bf16Flags, 1), answers(bf16, bf16Flags, 32), answers(bf16, bf16Flags, 256),
			oneByOne(bf16, bf16Flags, 512), oneByOne(bf16, bf16Flags, 8192),
		}},
	{name: "burst", title: "Many requests at once", about: "Prompts of 512 tokens, answers of 256: a batch job. kvasir has the profile throughput, or its default, chat.",
		metrics: []string{outputRate, firstToken, gap, gapP99}, loads: []measuredLoad{
			atOnce(bf16, bf16Flags, 1024), evenly(atOnce(bf16, bf16Flags, 1024)),
			atOnce(fp8, fp8Flags, 256), evenly(atOnce(fp8, fp8Flags, 256)),
			atOnce(fp8, fp8Flags, 1024), evenly(atOnce(fp8, fp8Flags, 1024)),
		}},
	{name: "http", title: "Served over HTTP", about: "Clients with prompts of 512 tokens and answers of 256; first tokens and times between tokens are medians.",
		metrics: []string{outputRate, firstToken, gap, gapP99}, loads: []measuredLoad{
			clients(1, 6), clients(32, 192), clients(64, 320), clients(256, 1024),
		}},
	{name: "start", title: "Start", about: "From the start of a server's process to the first token of a request, with the model's files in the page cache.",
		metrics: []string{seconds}, starts: true},
	{name: "moe", title: "A mixture of experts", about: "30b-a3b has the shape of Qwen3-30B-A3B: 128 experts, of which each token goes to 8.",
		metrics: []string{stepTime, tokenRate, operations}, steps: []steps{
			{"30b-a3b BF16", "--shape 30b-a3b --quant bf16 --chunk 1024", decodes(1, 256)}, // room for the cache of 256 beside 61 GB
			{"30b-a3b BF16", "--shape 30b-a3b --quant bf16", "pp8192"},
		}},
	{name: "packed", title: "Packed weights", about: "A step. U4 is what GPTQ, AWQ and compressed-tensors of 4 bits become, in groups of 128.",
		metrics: []string{stepTime, tokenRate}, steps: []steps{
			{bf16, bf16Flags, decodes(1, 8, 32, 64, 128, 256)},
			{"8b Q4_K_M", "--shape 8b --quant q4_k_m", decodes(1, 8, 32, 64, 128, 256)},
			{"8b U4", "--shape 8b --quant u4", decodes(1, 8, 32, 64, 128, 256)},
		}},
	{name: "shapes", title: "Other shapes", about: "3b and 14b have heads of 128, 1.1b of 64; the last has those of 96, and a vocabulary that no power of two divides: 28 layers of width 3,072.",
		metrics: []string{stepTime, tokenRate, operations}, steps: []steps{
			{"1.1b BF16", "--shape 1.1b --quant bf16", decodes(1, 64) + ",pp2048"},
			{"3b BF16", "--shape 3b --quant bf16", decodes(1, 64) + ",pp2048"},
			{"14b BF16", "--shape 14b --quant bf16", decodes(1, 64) + ",pp2048"},
			{"heads of 96", "--shape layers=28,width=3072,ff=8192,heads=32,kv=8,head=96,vocab=50257 --quant bf16", decodes(1, 64) + ",pp2048"},
		}},
	{name: "mxfp4", title: "Experts in MXFP4", about: "The shape of gpt-oss-20b: 32 experts, of which each token goes to 4.",
		metrics: []string{stepTime, tokenRate, operations}, steps: []steps{
			{"gpt-oss-20b MXFP4", "--shape gpt-oss-20b --quant mxfp4", decodes(1, 8, 64) + ",pp8192"},
		}},
	{name: "mla", title: "Latent attention", about: "v2-lite has the shape of DeepSeek-V2-Lite.",
		metrics: []string{stepTime, tokenRate, operations}, steps: []steps{
			{"v2-lite BF16", "--shape v2-lite --quant bf16", decodes(1, 32, 256) + "," + decode(64, 4096) + ",pp8192"},
		}},
	{name: "lora", title: "Adapters", about: "Adapters of rank 16 for every weight of the layers, which sequences have in turn.",
		metrics: []string{stepTime, tokenRate}, steps: []steps{
			{bf16, bf16Flags, decode(64, 256)},
			{"8b BF16, 16 adapters", bf16Flags + " --adapters 16", decode(64, 256)},
		}},
	{name: "cache", title: "Types of the cache", about: "A step.",
		metrics: []string{stepTime, tokenRate}, steps: []steps{
			{"8b BF16, cache BF16", bf16Flags + " --kv-type bf16", decode(64, 2048)},
			{"8b BF16, cache F8_E4M3", bf16Flags + " --kv-type f8_e4m3", decode(64, 2048)},
			{"8b BF16, cache Q8_0", bf16Flags + " --kv-type q8_0", decode(64, 2048)},
		}},
	{name: "beside", title: "Long prompts beside decoding sequences",
		about:   "64 clients with prompts of 256 tokens and answers of 300; meanwhile another one sends three prompts of 32,000, one after the other, whose median time to the first token is shown.",
		metrics: []string{gapP99, gap, firstToken}, loads: []measuredLoad{{
			series: bf16, row: "64 clients", load: "-c 64 -n 64 --input 256 --output 300", beside: "-c 1 -n 3 --input 32000 --output 1",
			values: func(l, beside load) map[string]float64 {
				return map[string]float64{gapP99: l.ITL.P99, gap: l.ITL.P50, firstToken: beside.TTFT.P50}
			},
		}}},
	{name: "tier", title: "Prompts found in host memory", about: "The median time to the first token of prompts of 8,192 tokens, whose blocks the device's cache has given to the host's memory, but for each one's first time.",
		metrics: []string{stepTime, linkRate, found}, loads: []measuredLoad{{
			series: bf16, row: "8,192 tokens", own: true, flags: bf16Flags + " --kv-bytes 4G --host-kv-bytes 8G --max-seqs 16",
			load:  "-c 1 -n 32 --input 8192 --output 1 --shared 1 --groups 6",
			floor: floor{bytes: 8192 * tokenBytes8B},
			values: func(l, _ load) map[string]float64 {
				return map[string]float64{stepTime: l.TTFT.P50, linkRate: 8192 * tokenBytes8B / l.TTFT.P50 / 1e6, found: 100 * l.Found}
			},
		}}},
}

// groupNames are the names of groups.
func groupNames() []string {
	var names []string
	for _, g := range groups {
		names = append(names, g.name)
	}
	return names
}

// answers measures the steps of the engine while it decodes n sequences.
func answers(series, flags string, n int) measuredLoad {
	return measuredLoad{
		series: series, row: count(n, "sequence"), flags: flags, load: fmt.Sprintf("-c %d -n %d --input 128 --output 256", n, n),
		floor:  floor{tests: []string{decode(n, 256)}, times: []float64{1}},
		values: func(l, _ load) map[string]float64 { return map[string]float64{stepTime: l.ITL.P50} },
	}
}

// oneByOne measures prompts of so many tokens, one after the other.
func oneByOne(series, flags string, tokens int) measuredLoad {
	return measuredLoad{
		series: series, row: "1 prompt of " + comma(tokens), flags: flags, load: fmt.Sprintf("-c 1 -n 7 --input %d --output 1", tokens),
		floor:  floor{tests: []string{fmt.Sprintf("pp%d", tokens)}, times: []float64{1}},
		values: func(l, _ load) map[string]float64 { return map[string]float64{stepTime: l.TTFT.P50} },
	}
}

// atOnce measures n requests that arrive at once, with the profile for batch jobs. The floor has 256 at a time.
func atOnce(series, flags string, n int) measuredLoad {
	m := served512(min(n, 256), n)
	m.series, m.row, m.flags, m.load = series, count(n, "request"), flags, fmt.Sprintf("-n %d --input 512 --output 256", n)
	m.scheduling = "--profile throughput"
	return m
}

// evenly is a load with kvasir's default profile: steps are short while anyone decodes.
func evenly(m measuredLoad) measuredLoad {
	m.row, m.scheduling, m.own = m.row+", profile chat", "", true
	return m
}

// clients measures n clients of a server that send so many requests in all.
func clients(n, requests int) measuredLoad {
	m := served512(n, requests)
	m.clients, m.row, m.load = n, count(n, "client"), fmt.Sprintf("-c %d -n %d --input 512 --output 256 --seed %d", n, requests, n)
	return m
}

// served512 is a load of prompts of 512 tokens and answers of 256, of which n run at once. The floor's steps decode n
// sequences with a mean of 640 tokens.
func served512(n, requests int) measuredLoad {
	prompts := fmt.Sprintf("pp512x%d", requests)
	return measuredLoad{
		series: bf16, floor: floor{
			tests: []string{prompts, decode(n, 512+128)}, times: []float64{1, float64(requests * 256 / n)}, tokens: float64(requests * 256),
		},
		values: func(l, _ load) map[string]float64 {
			return map[string]float64{outputRate: l.Output, firstToken: l.TTFT.P50, gap: l.ITL.P50, gapP99: l.ITL.P99}
		},
	}
}
