package main

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
)

// TestUnixSocket makes sure that a socket that was left behind is replaced, and one that answers is not.
func TestUnixSocket(t *testing.T) {
	f := connectionFlags{UDS: filepath.Join(t.TempDir(), "kvasir.sock")}
	first, err := f.listen("")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.listen(""); err == nil || !strings.Contains(err.Error(), "another process does") {
		t.Errorf("a second server on the socket: %v", err)
	}
	first.(*net.UnixListener).SetUnlinkOnClose(false) // as after a kill -9
	first.Close()
	second, err := f.listen("")
	if err != nil {
		t.Fatal(err)
	}
	second.Close()
}
