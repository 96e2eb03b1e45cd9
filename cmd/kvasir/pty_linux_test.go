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
