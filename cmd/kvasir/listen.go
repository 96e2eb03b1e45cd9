package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync/atomic"
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

	tls *atomic.Pointer[tls.Config] // of new connections; nil without TLS
}

// apply sets what a server does with connections.
func (f *connectionFlags) apply(cfg *server.Config) error {
	if f.MaxConns < 0 || f.MaxConnsEach < 0 {
		return usageError{fmt.Sprintf("--max-connections is %d and --max-connections-per-address %d; want at least 0",
			f.MaxConns, f.MaxConnsEach)}
	}
	cfg.MaxConns, cfg.MaxConnsEach, cfg.RootPath = f.MaxConns, f.MaxConnsEach, f.RootPath
	if f.TLSCert == "" && f.TLSKey == "" && f.TLSClientCA == "" {
		return nil
	}
	f.tls = new(atomic.Pointer[tls.Config])
	if err := f.read(); err != nil {
		return err
	}
	cfg.TLS = &tls.Config{
		ClientAuth:         f.tls.Load().ClientAuth,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return f.tls.Load(), nil },
	}
	return nil
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

func (f *connectionFlags) read() error {
	if f.TLSCert == "" || f.TLSKey == "" {
		return usageError{"--tls-cert and --tls-key need each other, and --tls-client-ca needs both"}
	}
	pair, err := tls.LoadX509KeyPair(f.TLSCert, f.TLSKey)
	if err != nil {
		return fmt.Errorf("--tls-cert %s, --tls-key %s: %w", f.TLSCert, f.TLSKey, err)
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"}}
	if f.TLSClientCA != "" {
		data, err := os.ReadFile(f.TLSClientCA)
		if err != nil {
			return fmt.Errorf("--tls-client-ca: %w", err)
		}
		if c.ClientCAs = x509.NewCertPool(); !c.ClientCAs.AppendCertsFromPEM(data) {
			return fmt.Errorf("--tls-client-ca %s: there is no certificate in it", f.TLSClientCA)
		}
		c.ClientAuth = tls.RequireAndVerifyClientCert
		c.SessionTicketsDisabled = true // a session would outlive the CA that its client was let in by
	}
	f.tls.Store(c)
	return nil
}

// reload reads the certificates again. If one is not good, those that there are stay.
func (f *connectionFlags) reload(log *slog.Logger) {
	if f.tls == nil {
		return
	}
	if err := f.read(); err != nil {
		log.Error("the certificates stay as they were", "error", err)
		return
	}
	log.Info("read the certificates again")
}
