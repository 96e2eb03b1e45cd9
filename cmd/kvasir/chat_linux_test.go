package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// prompted is what the terminal shows when a prompt appears, rather than when one is drawn again.
const prompted = "\n>>> "

func TestChat(t *testing.T) {
	c := startConsole(t, nil, "run", "--verbose")
	c.expect("kvasir-mini, ")
	c.expect(prompted)
	c.typed("/help\r")
	c.expect("/bye")
	c.expect(prompted)
	c.typed("Hello\r")
	c.expect("tokens/s")
	c.expect(prompted)
	c.typed("\"\"\"Tell me\r")
	c.expect("... ")
	c.typed("about cats 猫 🐈\"\"\"\r")
	c.expect("tokens/s")
	c.expect(prompted)
	file := t.TempDir() + "/chat.json"
	c.typed("/save " + file + "\r")
	c.expect("saved 4 messages")
	c.typed("/clear\r/show\r")
	c.expect("conversation  0 messages")
	c.typed("/load " + file + "\r")
	c.expect("loaded 4 messages")
	c.expect(prompted)
	c.typed("/regenerate\r")
	c.expect("tokens/s")
	c.expect(prompted)
	c.typed("/edit Who are you?\r")
	c.expect("tokens/s")
	c.expect(prompted)
	c.typed("/edit\r")
	c.expect(">>> Who are you?")
	c.typed(" And why?\r")
	c.expect("tokens/s")
	c.expect(prompted)
	c.typed("/model no/such\r")
	c.expect("error: ")
	c.expect(prompted)
	c.typed("/model kvasir-mini\r")
	c.expect("kvasir-mini, ")
	c.expect(prompted)
	c.typed("/save " + file + ".2\r")
	c.expect("saved 4 messages")
	c.expect(prompted)
	c.typed("/bye\r")
	c.exits(0)
	if data, err := os.ReadFile(file + ".2"); err != nil || !strings.Contains(string(data), `"Who are you? And why?"`) {
		t.Errorf("the edited conversation: %v\n%s", err, data)
	}
	data, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(data), `"Tell me\nabout cats 猫 🐈"`) {
		t.Errorf("the saved conversation: %v\n%s", err, data)
	}
}

func TestChatPaste(t *testing.T) {
	c := startConsole(t, nil, "run", "--verbose")
	c.expect("\x1b[?2004h")
	c.expect(prompted)
	c.typed("What is this? \x1b[200~A first line,\ra second one.\r\x1b[201~")
	c.expect("[pasted 1: 2 lines]")
	c.typed("\r")
	c.expect("tokens/s")
	c.expect(prompted)
	c.typed("/edit\r")
	c.expect("A first line,⏎a second one.")
	c.typed(" Really?\r")
	c.expect("tokens/s")
	c.expect(prompted)
	file := t.TempDir() + "/chat.json"
	c.typed("/save " + file + "\r")
	c.expect("saved 2 messages")
	c.typed("/bye\r")
	c.expect("\x1b[?2004l")
	c.exits(0)
	data, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(data), `"What is this? A first line,\na second one. Really?"`) {
		t.Errorf("the saved conversation: %v\n%s", err, data)
	}
}

func TestChatSettings(t *testing.T) {
	c := startConsole(t, nil, "run", "--temperature", "0.25")
	for _, line := range []struct{ in, want string }{
		{"/show", "temperature 0.25"},
		{"/set temperature 0.5", ""},
		{"/show", "temperature 0.5"},
		{"/set temperature 9", "error: temperature is 9; want from 0 to 2"},
		{"/show", "temperature 0.5"},
		{"/set temperature hot", `error: "hot" is no value of temperature; want a number`},
		{"/set", "conversation  0 messages"},
		{"/set max_tokens -1", "error: max_tokens is -1"},
		{"/set max_tokens 99999", "max_tokens is 2047: the context has 2048 tokens"},
		{"/regenerate", "error: there is no prompt yet"},
		{"/set colour red", `error: no setting "colour"; there are max_tokens, min_p`},
		{"/set seed 7", ""},
		{"/set max_tokens 9", ""},
		{"/system Be brief.", ""},
		{"/show", "seed          7"},
		{"/show", "max_tokens    9"},
		{"/show", `system        "Be brief."`},
		{"/set seed", ""},
		{"/show", "another one each time"},
		{"/load /no/such/file", "error: /no/such/file: no such file or folder"},
		{"/save", "error: /save wants a file"},
		{"/frobnicate", "error: no command /frobnicate"},
	} {
		c.expect(prompted)
		c.typed(line.in + "\r")
		c.expect(line.want)
	}
	c.expect(prompted)
	c.typed("\x04") // Ctrl-D
	c.exits(0)
}

func TestChatHistory(t *testing.T) {
	state := "XDG_STATE_HOME=" + t.TempDir()
	c := startConsole(t, []string{state}, "run", "--max-tokens", "1")
	c.expect(prompted)
	c.typed("first prompt\r")
	c.expect(prompted)
	c.typed("\x1b[A") // up
	c.expect("first prompt")
	c.typed("\x15/bye\r") // Ctrl-U empties the line
	c.exits(0)
	c = startConsole(t, []string{state}, "run")
	c.expect(prompted)
	c.typed("\x1b[A\x1b[A")
	c.expect("first prompt")
	c.typed("\x15\x04")
	c.exits(0)
}

func TestChatCtrlC(t *testing.T) {
	model, err := endlessModel(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	c := startConsole(t, nil, "run", model)
	c.expect(prompted)
	c.typed("What is a KV cache?\r")
	c.expect("\n")
	c.expect(" ") // the answer has begun
	c.typed("\x03")
	c.expect("(stopped)")
	c.expect(prompted)
	c.typed("/show\r")
	c.expect("conversation  2 messages")
	c.expect(prompted)
	c.typed("half a prompt")
	c.expect("half a prompt")
	c.typed("\x03") // drops the line, not the program
	c.expect("(/bye or Ctrl-D leaves)")
	c.expect(prompted)
	c.typed("/bye\r")
	c.exits(0)
}

func TestChatTerminated(t *testing.T) {
	c := startConsole(t, nil, "run")
	c.expect(prompted)
	c.typed("half")
	c.expect("half") // the line editor reads
	c.cmd.Process.Signal(syscall.SIGTERM)
	c.exits(130)

	model, err := endlessModel(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	c = startConsole(t, nil, "run", model)
	c.expect(prompted)
	c.typed("Hello\r")
	c.expect("\n")
	c.expect(" ")
	c.cmd.Process.Signal(syscall.SIGTERM)
	c.exits(130)
}

func TestAnswerInterrupted(t *testing.T) {
	model, err := endlessModel(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	c := startConsole(t, nil, "run", model, "What is a KV cache?")
	c.expect(" ")
	c.typed("\x03")
	c.exits(130)
}

func TestPullBars(t *testing.T) {
	hub := httptest.NewServer(hubFolder(hubWithTiny(t)))
	defer hub.Close()
	c := startConsole(t, []string{"HF_ENDPOINT=" + hub.URL, "HF_HOME=" + t.TempDir()}, "pull", "them/tiny")
	c.expect("model.safetensors")
	c.expect("done")
	c.expect("/snapshots/" + hubCommit)
	c.exits(0)
}

func TestPullInterrupted(t *testing.T) {
	folder := hubFolder(hubWithTiny(t))
	file, err := os.Stat(filepath.Join(string(folder), "them", "tiny", "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, ".safetensors") && r.Method == http.MethodGet {
			w.Header().Set("Content-Length", fmt.Sprint(file.Size()))
			w.Write(make([]byte, 1000))
			w.(http.Flusher).Flush()
			<-r.Context().Done() // the rest never comes
			return
		}
		folder.ServeHTTP(w, r)
	}))
	defer hub.Close()
	c := startConsole(t, []string{"HF_ENDPOINT=" + hub.URL, "HF_HOME=" + t.TempDir()}, "pull", "them/tiny")
	c.expect("downloading")
	c.typed("\x03")
	c.exits(130)
}

// hubWithTiny returns the folder of a hub that holds them/tiny.
func hubWithTiny(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	if err := os.CopyFS(filepath.Join(root, "them", "tiny"), os.DirFS("../../model/testdata/goldens/llama")); err != nil {
		t.Fatal(err)
	}
	return root
}
