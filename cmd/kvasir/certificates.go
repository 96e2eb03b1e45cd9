package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
)

// certificates are the files, in PEM, of what connections speak: a server's certificate with its key, and who signs
// those of clients, "" for clients without.
type certificates struct {
	cert, key, clientCA string
	names               [3]string // of these, where they were given

	current *atomic.Pointer[tls.Config] // of new connections; nil without TLS
}

// open reads the files, if there are any, and returns what a server needs of them.
func (c *certificates) open() (*tls.Config, error) {
	if c.cert == "" {
		return nil, nil
	}
	c.current = new(atomic.Pointer[tls.Config])
	if err := c.read(); err != nil {
		return nil, err
	}
	return &tls.Config{
		ClientAuth:         c.current.Load().ClientAuth,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.current.Load(), nil },
	}, nil
}

func (c *certificates) read() error {
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		return fmt.Errorf("%s %s, %s %s: %w", c.names[0], c.cert, c.names[1], c.key, err)
	}
	next := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"}}
	if c.clientCA != "" {
		data, err := os.ReadFile(c.clientCA)
		if err != nil {
			return fmt.Errorf("%s: %w", c.names[2], err)
		}
		if next.ClientCAs = x509.NewCertPool(); !next.ClientCAs.AppendCertsFromPEM(data) {
			return fmt.Errorf("%s %s: there is no certificate in it", c.names[2], c.clientCA)
		}
		next.ClientAuth = tls.RequireAndVerifyClientCert
		next.SessionTicketsDisabled = true // a session would outlive the CA that its client was let in by
	}
	c.current.Store(next)
	return nil
}

// reload reads the files again. If one is not good, what there is stays.
func (c *certificates) reload(log *slog.Logger) {
	if c.current == nil {
		return
	}
	if err := c.read(); err != nil {
		log.Error("the certificates stay as they were", "error", err)
		return
	}
	log.Info("read the certificates again")
}
