package house

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func readPage(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestTranslation keeps README.zh-CN.md in step with README.md: the same levels of headings, rows of tables, items,
// code and links, in the same order.
func TestTranslation(t *testing.T) {
	shape := func(text string) (out []string) {
		text = strings.NewReplacer("](README.md)", "](other)", "](README.zh-CN.md)", "](other)").Replace(text)
		for line := range strings.Lines(text) {
			switch mark, _, _ := strings.Cut(line, " "); {
			case strings.HasPrefix(line, "    "):
				out = append(out, line)
			case mark == "|" || mark == "-" || mark != "" && strings.Trim(mark, "#") == "":
				out = append(out, mark)
			}
		}
		return out
	}
	links := func(text string) (out []string) {
		for _, m := range regexp.MustCompile(`\]\(([^)]+)\)`).FindAllStringSubmatch(text, -1) {
			out = append(out, m[1])
		}
		slices.Sort(out) // the order of words differs
		return out
	}
	english, chinese := readPage(t, "README.md"), readPage(t, "README.zh-CN.md")
	e, c := shape(english), shape(chinese)
	for i := range max(len(e), len(c)) {
		if i >= len(e) || i >= len(c) || e[i] != c[i] {
			t.Fatalf("part %d of %d (README.md) and %d (README.zh-CN.md) differs: from here %q and %q", i, len(e), len(c), e[min(i, len(e)):], c[min(i, len(c)):])
		}
	}
	le := links(strings.Replace(english, "README.zh-CN.md", "README.md", 1))
	if lc := links(chinese); !slices.Equal(le, lc) {
		t.Errorf("links differ:\n%q\n%q", le, lc)
	}
}

// TestDocsAreListed makes sure that docs/README.md, which the site's menu is made of, lists every page once. The notes
// have a list of their own.
func TestDocsAreListed(t *testing.T) {
	listed := map[string]int{}
	for _, m := range regexp.MustCompile(`(?m)^- \[[^]]+\]\(([^)#]+)\)$`).FindAllStringSubmatch(readPage(t, "docs/README.md"), -1) {
		listed[m[1]]++
	}
	for _, page := range pages(t) {
		name, err := filepath.Rel(filepath.Join(root, "docs"), page)
		if name = filepath.ToSlash(name); err != nil || strings.HasPrefix(name, "..") || name == "README.md" || strings.HasPrefix(name, "notes/") && name != "notes/README.md" {
			continue
		}
		if listed[name] != 1 {
			t.Errorf("docs/README.md lists %s %d times", name, listed[name])
		}
	}
}

// TestPerformanceBegins makes sure that the first table of docs/performance.md says what the measured one says.
func TestPerformanceBegins(t *testing.T) {
	text := readPage(t, "docs/performance.md")
	rows := regexp.MustCompile(`(?m)^\| (\w+) \| ([\d.,]+) \(([\d.]+)×\) \| ([\d.,]+) \(([\d.]+)×\) \| ([\d.,]+) \(([\d.]+)×\) \|$`).FindAllStringSubmatch(text, -1)
	if len(rows) != 3 {
		t.Fatalf("the table has %d rows", len(rows))
	}
	for _, r := range rows {
		own := regexp.MustCompile(`(?m)^\| 1\.1b \| ` + r[1] + ` \| kvasir \| (\S+) [^|]*\| (\S+) [^|]*\|[^|]*\|[^|]*\| (\S+) .*\n\|  \|  \| llama\.cpp \| \S+ \(([\d.]+)×\) \| \S+ \(([\d.]+)×\) \|[^|]*\|[^|]*\| \S+ \(([\d.]+)×\)`)
		m := own.FindStringSubmatch(text)
		if m == nil || !slices.Equal(m[1:], []string{r[2], r[4], r[6], r[3], r[5], r[7]}) {
			t.Errorf("%s: the table at the beginning has %q, the measured one %q", r[1], r[1:], m)
		}
	}
}
