package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"github.com/coreos/go-systemd/v22/activation"

	"github.com/kvasir-llm/kvasir/server"
)

// connectionFlags bound connections and say what they speak.
type connectionFlags struct {
	UDS          string `name:"uds" help:"Listen on this Unix socket instead of an address. Whoever may open the file may connect." placeholder:"PATH" type:"path"`
	RootPath     string `name:"root-path" help:"What precedes every path, such as /llm, when a proxy passes paths on as they came." placeholder:"PATH"`
	MaxConns     int    `name:"max-connections" help:"Most connections at once; 0 is any number." default:"4096"`
	MaxConnsEach int    `name:"max-connections-per-address" help:"Most connections at once of one address that is not this machine's, or of one IPv6 network of 64 bits; 0 is any number." default:"512"`
	TLSCert      string `name:"tls-cert" help:"A PEM file of the server's certificate and those between it and its root; read again on SIGHUP." placeholder:"FILE" type:"existingfile"`
	TLSKey       string `name:"tls-key" help:"A PEM file of the certificate's key." placeholder:"FILE" type:"existingfile"`
	TLSClientCA  string `name:"tls-client-ca" help:"A PEM file of certificates: only clients with a certificate that one of them has signed may connect; read again on SIGHUP." placeholder:"FILE" type:"existingfile"`

	files certificates
	file  string // the Unix socket that was made, and is to be removed; "" is none
}

// apply sets what a server does with connections.
func (f *connectionFlags) apply(cfg *server.Config) error {
	if f.MaxConns < 0 || f.MaxConnsEach < 0 {
		return usageError{fmt.Sprintf("--max-connections is %d and --max-connections-per-address %d; want at least 0",
			f.MaxConns, f.MaxConnsEach)}
	}
	cfg.MaxConns, cfg.MaxConnsEach, cfg.RootPath = f.MaxConns, f.MaxConnsEach, f.RootPath
	if (f.TLSCert == "") != (f.TLSKey == "") || f.TLSClientCA != "" && f.TLSCert == "" {
		return usageError{"--tls-cert and --tls-key need each other, and --tls-client-ca needs both"}
	}
	f.files = certificates{cert: f.TLSCert, key: f.TLSKey, clientCA: f.TLSClientCA,
		names: [3]string{"--tls-cert", "--tls-key", "--tls-client-ca"}}
	var err error
	cfg.TLS, err = f.files.open()
	return err
}

// openSocket is listen, or takes the socket that the program had before it was started anew.
func (f *connectionFlags) openSocket(address string, before *lives) (net.Listener, error) {
	if before.Restarts == 0 {
		return f.listen(address)
	}
	socket := os.NewFile(uintptr(before.Socket), "socket")
	defer socket.Close()
	ln, err := net.FileListener(socket)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on the socket from before the program was started anew: %w", err)
	}
	f.file = before.File
	if u, ok := ln.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(f.file != "")
	}
	return ln, nil
}

// listen opens the socket that the server answers on, or takes the one that systemd opened for it. A Unix socket that a
// process left behind is replaced, one that another still answers on is not.
func (f *connectionFlags) listen(address string) (net.Listener, error) {
	switch passed, err := activation.Listeners(); {
	case err != nil:
		return nil, fmt.Errorf("cannot listen on the socket that systemd passed: %w", err)
	case len(passed) > 1:
		return nil, fmt.Errorf("systemd passed %d sockets; want one: a single Listen… line in kvasir.socket", len(passed))
	case len(passed) == 1 && passed[0] == nil:
		return nil, errors.New("systemd passed a socket that takes no connections; want ListenStream= in kvasir.socket")
	case len(passed) == 1:
		return passed[0], nil
	}
	network := "tcp"
	if f.UDS != "" {
		network, address = "unix", f.UDS
		if c, err := net.Dial(network, address); err == nil {
			c.Close()
			return nil, fmt.Errorf("cannot listen on %s: another process does", address)
		} else if errors.Is(err, syscall.ECONNREFUSED) {
			os.Remove(address)
		}
	}
	ln, err := net.Listen(network, address)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w", address, rootOf(err))
	}
	f.file = f.UDS
	return ln, nil
}

// rootOf returns what the system said of a call on a socket, without the call's name.
func rootOf(err error) error {
	if sys := new(os.SyscallError); errors.As(err, &sys) {
		return sys.Err
	}
	return err
}

// scheme is how addresses of the server begin.
func (f *connectionFlags) scheme() string {
	switch {
	case f.UDS != "":
		return "unix:"
	case f.TLSCert != "":
		return "https://"
	}
	return "http://"
}
