package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"
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
	pair, err := readPair(c.cert, c.key)
	if err == nil && c.current.Load() != nil && (time.Now().Before(pair.Leaf.NotBefore) || time.Now().After(pair.Leaf.NotAfter)) {
		err = fmt.Errorf("the certificate is good from %v until %v, and not now", pair.Leaf.NotBefore, pair.Leaf.NotAfter)
	}
	if err != nil {
		return fmt.Errorf("%s %s, %s %s: %w", c.names[0], c.cert, c.names[1], c.key, err)
	}
	next := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"}}
	if c.clientCA != "" {
		if next.ClientCAs, err = readPool(c.clientCA); err != nil {
			return fmt.Errorf("%s %s: %w", c.names[2], c.clientCA, err)
		}
		next.ClientAuth = tls.RequireAndVerifyClientCert
		next.SessionTicketsDisabled = true // a session would outlive the CA that its client was let in by
	}
	c.current.Store(next)
	return nil
}

// readPair reads a certificate, with those between it and its root, and its key.
func readPair(cert, key string) (pair tls.Certificate, err error) {
	chain, err := readFile(cert)
	if err != nil {
		return pair, err
	}
	secret, err := readFile(key)
	if err != nil {
		return pair, err
	}
	if pair, err = tls.X509KeyPair(chain, secret); err == nil {
		err = whole(chain, len(pair.Certificate))
	}
	return pair, err
}

// readPool reads certificates of those who sign others.
func readPool(path string) (*x509.CertPool, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, err
	}
	pool, n := x509.NewCertPool(), 0
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		pool.AddCert(cert)
		n++
	}
	if n == 0 {
		return nil, errors.New("there is no certificate in it")
	}
	return pool, whole(data, n)
}

// whole refuses a file of which only n certificates can be read: what is cut off or damaged is skipped elsewhere.
func whole(data []byte, n int) error {
	if all := strings.Count(string(data), "-----BEGIN CERTIFICATE-----"); all != n {
		return fmt.Errorf("of %d certificates in it %d can be read", all, n)
	}
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
