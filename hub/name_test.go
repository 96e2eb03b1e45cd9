package hub

import "testing"

func TestParseName(t *testing.T) {
	for in, want := range map[string]Name{
		"o/n":                           {Repo: "o/n"},
		"o/n@refs/pr/1:Q4_K_M":          {Repo: "o/n", Revision: "refs/pr/1", Tag: "Q4_K_M"},
		"hf.co/o/n:Q4_0":                {Repo: "o/n", Tag: "Q4_0"},
		"https://huggingface.co/o/n@v1": {Repo: "o/n", Revision: "v1"},
		"hf.co/gpt2":                    {Repo: "gpt2"},
	} {
		if got, err := ParseName(in); err != nil || got != want {
			t.Errorf("ParseName(%q) = %+v, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "gpt2", "a/b/c", "../b", "a/..", "a/b--c", "a/b:", "a/b@", "a/b@../c", "https://x/a/b", "a/b@x/.y", "a/b c"} {
		if got, err := ParseName(in); err == nil {
			t.Errorf("ParseName(%q) = %+v, want an error", in, got)
		}
	}
}

func FuzzParseName(f *testing.F) {
	f.Add("o/n@v1:Q4_0")
	f.Add("https://hf.co/x")
	f.Fuzz(func(t *testing.T, s string) {
		n, err := ParseName(s)
		if err != nil {
			return
		}
		if again, err := ParseName(n.String()); err != nil || again != n {
			t.Errorf("%q: %+v became %+v, %v", s, n, again, err)
		}
	})
}

func TestQuantTag(t *testing.T) {
	for stem, want := range map[string]string{
		"llama-2-7b.Q4_K_M": "Q4_K_M", "qwen2.5-7b-q4_0": "Q4_0", "m-UD-IQ2_XXS": "UD-IQ2_XXS", "m_q8_0": "Q8_0", "x.i1-Q4_K_S": "Q4_K_S",
		"BF16/model": "BF16", "phi-fp16": "FP16", "gpt-oss-20b-mxfp4": "MXFP4", "plain": "", "m-TQ1_0": "TQ1_0",
	} {
		if got := quantTag(stem); got != want {
			t.Errorf("quantTag(%q) = %q, want %q", stem, got, want)
		}
	}
}
