package hub

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFromEnv(t *testing.T) {
	home := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write(".cache/huggingface/token", "hf_default\n")
	write("hf/token", "hf_of_hf_home")
	write("xdg/huggingface/token", "")
	tokenPath := write("elsewhere", "  hf_elsewhere \n")
	cwd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	std := Client{Endpoint: "https://huggingface.co", Token: "hf_default", CacheDir: filepath.Join(home, ".cache/huggingface/hub")}
	for env, change := range map[string]func(c *Client){
		"":                                     func(c *Client) {},
		"HF_ENDPOINT=http://mirror:8080/hub//": func(c *Client) { c.Endpoint = "http://mirror:8080/hub" },
		"HF_TOKEN=hf_a HUGGING_FACE_HUB_TOKEN=hf_b HF_TOKEN_PATH=" + tokenPath: func(c *Client) { c.Token = "hf_a" },
		"HUGGING_FACE_HUB_TOKEN=hf_b HF_TOKEN_PATH=" + tokenPath:               func(c *Client) { c.Token = "hf_b" },
		"HF_TOKEN_PATH=~/elsewhere":                                            func(c *Client) { c.Token = "hf_elsewhere" },
		"HF_TOKEN_PATH=/nowhere":                                               func(c *Client) { c.Token = "" },
		"HF_HUB_DISABLE_IMPLICIT_TOKEN=1 HF_TOKEN=hf_a":                        func(c *Client) { c.Token = "" },
		"HF_HUB_DISABLE_IMPLICIT_TOKEN=0":                                      func(c *Client) {},
		"HF_HUB_CACHE=/c HUGGINGFACE_HUB_CACHE=/d HF_HOME=/e":                  func(c *Client) { c.CacheDir, c.Token = "/c", "" },
		"HUGGINGFACE_HUB_CACHE=/d":                                             func(c *Client) { c.CacheDir = "/d" },
		"HF_HUB_CACHE=~":                                                       func(c *Client) { c.CacheDir = home },
		"HF_HUB_CACHE=$HOME/${SUB} SUB=s":                                      func(c *Client) { c.CacheDir = filepath.Join(home, "s") },
		"HF_HUB_CACHE=rel":                                                     func(c *Client) { c.CacheDir = filepath.Join(cwd, "rel") },
		"HF_HOME=~/hf":                                                         func(c *Client) { c.CacheDir, c.Token = filepath.Join(home, "hf/hub"), "hf_of_hf_home" },
		"XDG_CACHE_HOME=$HOME/xdg":                                             func(c *Client) { c.CacheDir, c.Token = filepath.Join(home, "xdg/huggingface/hub"), "" },
		"HOME= USERPROFILE=" + home:                                            func(c *Client) {},
		"HOME= HF_HUB_CACHE=~/c USERPROFILE=" + home:                           func(c *Client) { c.CacheDir = filepath.Join(home, "c") },
		"HF_HUB_OFFLINE=1":                                                     func(c *Client) { c.Offline = true },
		"HF_HUB_OFFLINE=yes":                                                   func(c *Client) { c.Offline = true },
		"HF_HUB_OFFLINE=0":                                                     func(c *Client) {},
		"TRANSFORMERS_OFFLINE=True":                                            func(c *Client) { c.Offline = true },
		"TRANSFORMERS_OFFLINE=on HF_HUB_OFFLINE=0":                             func(c *Client) { c.Offline = true },
	} {
		want := std
		change(&want)
		if got, err := FromEnv(getenv(home, env)); err != nil || *got != want {
			t.Errorf("%s\n got %+v, %v\nwant %+v", env, got, err, want)
		}
	}
	for env, want := range map[string]string{
		"HF_ENDPOINT=huggingface.co":  `HF_ENDPOINT "huggingface.co"`,
		"HF_ENDPOINT=ftp://x":         `HF_ENDPOINT "ftp://x"`,
		"HF_ENDPOINT=http://%zz":      "HF_ENDPOINT",
		"HF_TOKEN=hf_a\x01b":          "token holds a character",
		"HF_TOKEN_PATH=~":             home,
		"HF_TOKEN_PATH=" + cwd + "/x": "",
	} {
		if _, err := FromEnv(getenv(home, env)); (err != nil) != (want != "") || want != "" && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", env, err)
		}
	}
}

// getenv reads words NAME=value.
func getenv(home, words string) func(string) string {
	env := map[string]string{"HOME": home}
	for _, w := range strings.Split(words, " ") {
		name, value, _ := strings.Cut(w, "=")
		env[name] = value
	}
	return func(name string) string { return env[name] }
}

func TestResolve(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.MkdirAll("o/local", 0o777); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"m.gguf", "o/m.gguf"} {
		if err := os.WriteFile(file, nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	abs, err := filepath.Abs("m.gguf")
	if err != nil {
		t.Fatal(err)
	}
	for in, want := range map[string]Target{
		"m.gguf":               {Path: "m.gguf"},
		"./m.gguf":             {Path: "./m.gguf"},
		abs:                    {Path: abs},
		"o/m.gguf":             {Path: "o/m.gguf"},
		".":                    {Path: ".", Dir: true},
		"o":                    {Path: "o", Dir: true},
		"o/local":              {Path: "o/local", Dir: true}, // a folder that exists wins over a hub's name
		"hf.co/o/local":        {Name: Name{Repo: "o/local"}},
		"o/m":                  {Name: Name{Repo: "o/m"}},
		"o/m:m.gguf":           {Name: Name{Repo: "o/m", Tag: "m.gguf"}},
		"o/m@v1:Q4_0":          {Name: Name{Repo: "o/m", Revision: "v1", Tag: "Q4_0"}},
		"https://hf.co/o/m":    {Name: Name{Repo: "o/m"}},
		"huggingface.co/gpt2":  {Name: Name{Repo: "gpt2"}},
		"hf.co/o/m@refs/pr/12": {Name: Name{Repo: "o/m", Revision: "refs/pr/12"}},
	} {
		if got, err := Resolve(in); err != nil || got != want {
			t.Errorf("Resolve(%q) = %+v, %v", in, got, err)
		}
	}
	for in, want := range map[string]string{
		"none.gguf": "none.gguf: no such file", "./none": "./none: no such file", "/none/x": "/none/x: no such file", "../x/y": "no such file",
		"~/none": "~/none: no such file", "o/none/": "o/none/: no such file", "o/none.gguf": "o/none.gguf: no such file",
		"none": "those are owner/name; and no file or folder has that name", "": "those are owner/name",
		"https://other.host/o/m": "an address must begin with", "a/b/c": "those are owner/name", "o/m\x00": "is no name of a hub",
	} {
		if got, err := Resolve(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Resolve(%q) = %+v, %v; want %q", in, got, err, want)
		}
	}
}
