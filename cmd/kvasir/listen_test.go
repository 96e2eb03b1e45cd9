package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kvasir-llm/kvasir/server"
)

// writeCertificate writes a certificate of a number, and its key, to the files of flags.
func writeCertificate(t *testing.T, f *connectionFlags, number int64) {
	t.Helper()
	writeUntil(t, f, number, time.Now().Add(time.Hour))
}

// addHalf adds half of a file of a certificate to it.
func addHalf(t *testing.T, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, append(data, data[:len(data)/2]...), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// writeUntil does what writeCertificate does, with a certificate that ends.
func writeUntil(t *testing.T, f *connectionFlags, number int64, end time.Time) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(number), NotAfter: end, DNSNames: []string{"localhost"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{f.TLSCert: {Type: "CERTIFICATE", Bytes: cert}, f.TLSKey: {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCertificateIsReadAgain holds that connections get the certificate that was in the files when they were last read
// and good.
func TestCertificateIsReadAgain(t *testing.T) {
	f := &connectionFlags{TLSCert: filepath.Join(t.TempDir(), "cert.pem"), TLSKey: filepath.Join(t.TempDir(), "key.pem")}
	writeCertificate(t, f, 1)
	var cfg server.Config
	if err := f.apply(&cfg); err != nil {
		t.Fatal(err)
	}
	ln, err := tls.Listen("tcp", "127.0.0.1:0", cfg.TLS)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	number := func() int64 {
		t.Helper()
		go func() {
			if c, err := ln.Accept(); err == nil {
				c.(*tls.Conn).Handshake()
				c.Close()
			}
		}()
		c, err := tls.Dial("tcp", ln.Addr().String(), &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return c.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	var out strings.Builder
	log := slog.New(slog.NewTextHandler(&out, nil))
	for _, step := range []struct {
		change func()
		want   int64
		says   string
	}{
		{func() {}, 1, ""},
		{func() { writeCertificate(t, f, 2); f.files.reload(log) }, 2, "read the certificates again"},
		{func() { os.WriteFile(f.TLSCert, []byte("no"), 0o600); f.files.reload(log) }, 2, "the certificates stay as they were"},
		{func() { writeCertificate(t, f, 3); addHalf(t, f.TLSCert); f.files.reload(log) }, 2, "of 2 certificates in it 1 can be read"},
		{func() { writeUntil(t, f, 4, time.Now().Add(-time.Hour)); f.files.reload(log) }, 2, "and not now"},
	} {
		step.change()
		if got := number(); got != step.want || !strings.Contains(out.String(), step.says) {
			t.Errorf("certificate %d, log %s; want %d, %q", got, out.String(), step.want, step.says)
		}
	}
}

// TestClientCertificates holds that only clients connect whose certificate is signed by one that is in the file now.
func TestClientCertificates(t *testing.T) {
	dir := t.TempDir()
	f := &connectionFlags{TLSCert: filepath.Join(dir, "cert.pem"), TLSKey: filepath.Join(dir, "key.pem")}
	writeCertificate(t, f, 1)
	var clients []tls.Certificate // each signed by itself
	var authorities [][]byte
	for i := range int64(2) {
		c := &connectionFlags{TLSCert: filepath.Join(dir, fmt.Sprint("client", i)), TLSKey: filepath.Join(dir, fmt.Sprint("client-key", i))}
		writeCertificate(t, c, 10+i)
		pair, err := tls.LoadX509KeyPair(c.TLSCert, c.TLSKey)
		if err != nil {
			t.Fatal(err)
		}
		pem, err := os.ReadFile(c.TLSCert)
		if err != nil {
			t.Fatal(err)
		}
		clients, authorities = append(clients, pair), append(authorities, pem)
	}
	f.TLSClientCA = filepath.Join(dir, "clients.pem")
	trust := func(pem []byte) {
		if err := os.WriteFile(f.TLSClientCA, pem, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	trust(authorities[0])
	var cfg server.Config
	if err := f.apply(&cfg); err != nil {
		t.Fatal(err)
	}
	ln, err := tls.Listen("tcp", "127.0.0.1:0", cfg.TLS)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	sessions := tls.NewLRUClientSessionCache(0)
	enters := func(with ...tls.Certificate) bool {
		t.Helper()
		go func() {
			if c, err := ln.Accept(); err == nil {
				c.Write([]byte("hello"))
				c.Close()
			}
		}()
		c, err := tls.Dial("tcp", ln.Addr().String(), &tls.Config{InsecureSkipVerify: true, Certificates: with, ClientSessionCache: sessions})
		if err != nil {
			return false
		}
		defer c.Close()
		_, err = io.ReadFull(c, make([]byte, 5)) // a client of TLS 1.3 hears of a refusal only now
		return err == nil
	}
	if !enters(clients[0]) || enters() || enters(clients[1]) {
		t.Error("not the client alone connects whose certificate is trusted")
	}
	log := slog.New(slog.DiscardHandler)
	trust(authorities[1])
	f.files.reload(log)
	if enters(clients[0]) || !enters(clients[1]) {
		t.Error("after another certificate is trusted, not its client alone connects")
	}
	trust([]byte("none"))
	f.files.reload(log)
	if enters(clients[0]) || !enters(clients[1]) {
		t.Error("a file without certificates changes who connects")
	}
	trust(authorities[0])
	addHalf(t, f.TLSClientCA)
	f.files.reload(log)
	if enters(clients[0]) || !enters(clients[1]) {
		t.Error("a file of which half a certificate is missing changes who connects")
	}
	if err := (&connectionFlags{TLSClientCA: f.TLSClientCA}).apply(&cfg); err == nil || !strings.Contains(err.Error(), "need each other") {
		t.Errorf("a client CA without a certificate of the server: %v", err)
	}
}
