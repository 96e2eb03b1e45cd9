package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// systemd is what a server gets of it: a socket at descriptor 3, and one to tell when it is ready.
type systemd struct {
	url    string
	socket *os.File
	told   *net.UnixConn
	notify string // the path of told
}

func startSystemd(t *testing.T) *systemd {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	s := &systemd{url: "http://" + ln.Addr().String(), notify: filepath.Join(t.TempDir(), "notify")}
	if s.socket, err = ln.(*net.TCPListener).File(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.socket.Close() })
	if s.told, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: s.notify, Net: "unixgram"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.told.Close() })
	if err := s.told.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return s
}

// starts makes a command one that systemd starts.
func (s *systemd) starts(cmd *exec.Cmd) {
	cmd.Args = append([]string{"sh", "-c", `LISTEN_PID=$$ exec "$@"`, "sh", cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	cmd.ExtraFiles = []*os.File{s.socket}
	cmd.Env = append(cmd.Environ(), "LISTEN_FDS=1", "NOTIFY_SOCKET="+s.notify)
}

// hears waits for the next messages.
func (s *systemd) hears(t *testing.T, messages ...string) {
	t.Helper()
	for _, want := range messages {
		got := make([]byte, 100)
		if n, err := s.told.Read(got); err != nil || string(got[:n]) != want {
			t.Errorf("the server said %q, %v; want %q", got[:n], err, want)
		}
	}
}

// TestSystemd starts the server as systemd does.
func TestSystemd(t *testing.T) {
	manager := startSystemd(t)
	cmd := exec.Command(linkKvasir(t), "serve")
	manager.starts(cmd)
	p := startProcess(t, cmd)
	manager.hears(t, "READY=1")
	if code := run([]string{"health", "--url", manager.url}); code != exitOK {
		t.Errorf("health ends with %d", code)
	}
	p.ends(t)
	manager.hears(t, "STOPPING=1")
}
