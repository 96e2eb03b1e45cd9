package family

import (
	"os"
	"strings"
	"testing"
)

// TestGuide holds that the family that the guide adds is the one that is here.
func TestGuide(t *testing.T) {
	guide, err := os.ReadFile("../../docs/add-a-model.md")
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile("starcoder.go")
	if err != nil {
		t.Fatal(err)
	}
	_, shown, _ := strings.Cut(string(guide), "```go\n")
	shown, _, _ = strings.Cut(shown, "```\n")
	if shown == "" || !strings.HasSuffix(string(file), shown) {
		t.Errorf("docs/add-a-model.md shows\n%s\nwhich is not what starcoder.go has", shown)
	}
}
