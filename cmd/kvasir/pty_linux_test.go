package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// console is kvasir in a terminal of its own.
type console struct {
	t      *testing.T
	fd     int // of master
	master *os.File
	cmd    *exec.Cmd
	seen   string // what came after the last match of expect
	began  unix.Termios
}

// startConsole runs kvasir in a pseudo-terminal of 80 columns.
func startConsole(t *testing.T, env []string, args ...string) *console {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals here: %v", err)
	}
	master := os.NewFile(uintptr(fd), "/dev/ptmx")
	t.Cleanup(func() { master.Close() })
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80})
	}
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { slave.Close() }) // open to the end, so that the terminal's mode can be read after the program
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &console{t: t, fd: fd, master: master}
	c.cmd = &exec.Cmd{
		Path: exe, Args: append([]string{"kvasir"}, args...), Stdin: slave, Stdout: slave, Stderr: slave,
		Env:         append(append(os.Environ(), "TERM=xterm", "XDG_STATE_HOME="+t.TempDir()), env...),
		SysProcAttr: &syscall.SysProcAttr{Setsid: true, Setctty: true},
	}
	c.began = c.mode()
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.cmd.Process.Kill() })
	return c
}

func (c *console) mode() unix.Termios {
	c.t.Helper()
	m, err := unix.IoctlGetTermios(c.fd, unix.TCGETS)
	if err != nil {
		c.t.Fatal(err)
	}
	return *m
}

// typed sends keys; a line ends with \r.
func (c *console) typed(keys string) {
	c.t.Helper()
	if _, err := c.master.WriteString(keys); err != nil {
		c.t.Fatal(err)
	}
}

// expect waits until the terminal shows want and returns what it showed before, from the end of the last match on.
func (c *console) expect(want string) string {
	c.t.Helper()
	c.master.SetReadDeadline(time.Now().Add(time.Minute)) // a bound for a test that fails, not a measurement
	var buf [4096]byte
	for {
		if before, after, ok := strings.Cut(c.seen, want); ok {
			c.seen = after
			return before
		}
		n, err := c.master.Read(buf[:])
		c.seen += string(buf[:n])
		if err != nil {
			c.t.Fatalf("want %q on the terminal, found %q: %v", want, c.seen, err)
		}
	}
}

// exits waits for the program's end and checks its exit code and that the terminal is as it was found.
func (c *console) exits(code int) {
	c.t.Helper()
	hangs := time.AfterFunc(time.Minute, func() { c.cmd.Process.Kill() }) // for a test that fails, not a measurement
	defer hangs.Stop()
	go func() {
		c.cmd.Wait()
		c.master.SetReadDeadline(time.Now())
	}()
	c.master.SetReadDeadline(time.Time{})
	rest, _ := io.ReadAll(c.master)
	if got := c.cmd.ProcessState.ExitCode(); got != code {
		c.t.Errorf("%v; want exit code %d; the terminal shows %q", c.cmd.ProcessState, code, c.seen+string(rest))
	}
	if m := c.mode(); m != c.began {
		c.t.Errorf("the terminal is left in mode %+v; it was %+v", m, c.began)
	}
}

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
	c.typed("/bye\r")
	c.exits(0)
	data, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(data), `"Tell me\nabout cats 猫 🐈"`) {
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
		{"/set temperature hot", `error: "hot" is no value of temperature`},
		{"/set max_tokens -1", "error: max_tokens is -1"},
		{"/set colour red", `error: no setting "colour"; there are max_tokens, min_p`},
		{"/set seed 7", ""},
		{"/set max_tokens 9", ""},
		{"/system Be brief.", ""},
		{"/show", "seed          7"},
		{"/show", "max_tokens    9"},
		{"/show", `system        "Be brief."`},
		{"/set seed", ""},
		{"/show", "another one each time"},
		{"/load /no/such/file", "error: open /no/such/file"},
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
	c.expect(prompted)
	c.typed("/bye\r")
	c.exits(0)
}

func TestChatTerminated(t *testing.T) {
	c := startConsole(t, nil, "run")
	c.expect(prompted)
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
