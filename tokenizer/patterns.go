package tokenizer

import "strings"

// The patterns that cut text before byte-level models, as the models' own tokenizers define them.
const (
	patternGPT2 = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

	patternLlama3 = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|` +
		`\s*[\r\n]+|\s+(?!\S)|\s+`
	patternQwen2 = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|` +
		`\s*[\r\n]+|\s+(?!\S)|\s+`
	patternQwen35 = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|` +
		`\s*[\r\n]+|\s+(?!\S)|\s+`
	patternO200k = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|` +
		`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|` +
		`\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patternTekken = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|` +
		`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|` +
		`\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patternKimi = `[\p{Han}]+|` +
		`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+` +
		`(?i:'s|'t|'re|'ve|'m|'ll|'d)?|` +
		`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*` +
		`(?i:'s|'t|'re|'ve|'m|'ll|'d)?|` +
		`\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`

	// patternCl100k differs from Llama 3's by its end: white space before the end of the text is one piece.
	patternCl100k = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|` +
		`\s+\z|\s*[\r\n]|\s+(?!\S)|\s`

	patternNewlineRuns = `[^\n]+|[\n]+`
	patternBloom       = ` ?[^(\s|.,!?…。，、।۔،)]+`
	patternDeepSeekCJK = `[一-龥぀-ゟ゠-ヿ]+`
	patternDeepSeek3   = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|" +
		` ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patternDeepSeekWords = `\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝ\x{1F5F}-\x{1F7D}` +
		`ᾀ-ᾴᾶ-ᾼ\x{1FBE}ῂ-ῄῆ-ῌῐ-\x{1FD3}ῖ-\x{1FDB}ῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ\x{2126}ℨ\x{212A}-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄ` +
		`Ⰰ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+`
)

// preTokenizer is a way to cut text before a byte-level model: the patterns are applied one after the other, each to
// the pieces that the ones before it left.
type preTokenizer struct {
	patterns     []string
	ignoreMerges bool // a piece that is a token is that token
	addBOS       bool // unless the file says otherwise
}

// preTokenizers are the names that GGUF's tokenizer.ggml.pre may have.
var preTokenizers = makePreTokenizers()

func makePreTokenizers() map[string]preTokenizer {
	m := map[string]preTokenizer{}
	add := func(names string, p preTokenizer) {
		for _, name := range strings.Fields(names) {
			m[name] = p
		}
	}
	of := func(patterns ...string) preTokenizer { return preTokenizer{patterns: patterns} }
	add("gpt-2 phi-2 jina-es jina-de gigachat jina-v2-es jina-v2-de a.x-4.0 mellum modern-bert mpt olmo jais exaone4 "+
		"trillion granite-docling jina-v1-en jina-v2-code roberta-bpe", of(patternGPT2))
	add("llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
		preTokenizer{[]string{patternLlama3}, true, true})
	add("dbrx smaug-bpe chatglm-bpe glm4", of(patternLlama3))
	add("qwen2 stablelm2 hunyuan megrez deepseek-r1-qwen kormo f2llmv2 grok-2 solar-open", of(patternQwen2))
	add("qwen35", of(patternQwen35))
	add("gpt-4o llama4 kanana2 talkie minimax-m2", of(patternO200k))
	add("granite-embed-multi-97m", preTokenizer{patterns: []string{patternO200k}, ignoreMerges: true})
	add("tekken", preTokenizer{[]string{patternTekken}, true, true})
	add("kimi-k2", of(patternKimi))
	add("tiny_aya cohere2moe", of(`\d{1,3}(?=(?:\d{3})*\b)`, patternO200k))
	add("superbpe", of(`\p{N}+`, `(?=(\d{3})+(?!\d))`))
	add("starcoder refact command-r smollm codeshell exaone minerva-7b mellum2", of(`\p{N}`, patternGPT2))
	add("falcon", of("[\\p{P}\\$\\+<=>\\^~\\|`]+", patternGPT2, `[0-9][0-9][0-9]`))
	add("default", of(`[\p{P}\$\+<=>\^~\|]+`, patternGPT2, `\p{N}+`, `[0-9][0-9][0-9]`))
	add("bloom poro-chat gpt3-finnish", of(patternBloom))
	add("viking", of(patternBloom, `\p{N}`))
	add("deepseek-llm", of(`[\r\n]`, patternDeepSeekWords, `\s?[!-/:-~！-／：-～‘-‟　-。]+`, `\s+$`, `[一-龥ࠀ-一가-퟿]+`, `\p{N}+`))
	add("deepseek-coder", of(`[\r\n]`, `\s?\p{L}+`, `\s?\p{P}+`, `[一-龥ࠀ-一가-퟿]+`, `\p{N}`))
	add("deepseek-v3 hunyuan-dense joyai-llm hy_v4", of(`\p{N}{1,3}`, patternDeepSeekCJK, patternDeepSeek3))
	add("bailingmoe bailingmoe2 llada-moe", of(`'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}|`+
		` ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+`))
	add("seed-coder", of(`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|`+
		`\s*[\r\n]+|\s+(?!\S)|\s+`))
	add("exaone-moe", of(`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}|`+
		` ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+`))
	add("minicpm5", preTokenizer{patterns: []string{`\p{N}{1,3}`, `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|` +
		`\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`}, ignoreMerges: true})
	add("jais-2", of(`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|`+
		`\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|`+
		`\s{1,2}(?!\S)|\s{1}`))
	add("youtu", preTokenizer{patterns: []string{`[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+`,
		strings.Replace(patternO200k, `\p{N}{1,3}`, `\p{N}`, 1)}, ignoreMerges: true})
	add("laguna", of(patternNewlineRuns, patternQwen2))
	return m
}

// patternNames finds the common name of a list of patterns, joined by NUL.
var patternNames = map[string]string{
	patternGPT2: "gpt-2", patternLlama3: "llama-bpe", patternQwen2: "qwen2", patternQwen35: "qwen35", patternO200k: "gpt-4o",
	patternTekken: "tekken", patternKimi: "kimi-k2",
	strings.Join(preTokenizers["deepseek-v3"].patterns, "\x00"): "deepseek-v3",
}

// stages compiles the patterns.
func (p preTokenizer) stages() ([]stage, error) {
	var list []stage
	for _, pattern := range p.patterns {
		f, err := compilePattern(pattern)
		if err != nil {
			return nil, err
		}
		list = append(list, &splitter{find: f})
	}
	return list, nil
}
