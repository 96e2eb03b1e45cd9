package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestSystemd starts the server as systemd does: with a socket at descriptor 3, and one to tell when it is ready.
func TestSystemd(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	file, err := ln.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(dir, "kvasir")); err != nil { // by this name it is the program
		t.Fatal(err)
	}
	told, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer told.Close()
	if err := told.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", `LISTEN_PID=$$ exec ./kvasir serve`)
	cmd.Dir, cmd.ExtraFiles, cmd.Stderr = dir, []*os.File{file}, os.Stderr
	cmd.Env = append(os.Environ(), "LISTEN_FDS=1", "NOTIFY_SOCKET="+filepath.Join(dir, "notify"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	next := func() string {
		message := make([]byte, 100)
		n, err := told.Read(message)
		if err != nil {
			t.Fatal(err)
		}
		return string(message[:n])
	}
	if got := next(); got != "READY=1" {
		t.Errorf("the server said %q; want that it is ready", got)
	}
	if code := run([]string{"health", "--url", "http://" + ln.Addr().String()}); code != exitOK {
		t.Errorf("health ends with %d", code)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := next(); got != "STOPPING=1" {
		t.Errorf("the server said %q; want that it stops", got)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the server ended with %v", err)
	}
}
