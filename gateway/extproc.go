package gateway

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"github.com/kvasir-llm/kvasir/gateway/extproc"
)

// ExtProc says where proxies such as Envoy ask which endpoint a request goes to, and how they find the answer.
type ExtProc struct {
	Listen     string         `yaml:"listen"` // "" is nowhere
	Cert       string         `yaml:"cert"`   // files in PEM; without them connections are not encrypted
	Key        string         `yaml:"key"`
	SelfSigned bool           `yaml:"self_signed"` // encrypted, with a certificate of the gateway's own making
	Objectives map[string]int `yaml:"objectives"`  // the priorities of requests, by what a header calls their objective
}

// same reports whether two listen alike. Their objectives may be others.
func (x ExtProc) same(y ExtProc) bool {
	return x.Listen == y.Listen && x.Cert == y.Cert && x.Key == y.Key && x.SelfSigned == y.SelfSigned
}

// checkExtProc refuses what a proxy cannot be told: it reaches endpoints by their addresses, and asks the same of each.
func (c *Config) checkExtProc() error {
	x := c.ExtProc
	switch {
	case x.Listen == "" && (x.Cert != "" || x.Key != "" || x.SelfSigned || len(x.Objectives) > 0):
		return wrong("ext_proc.listen", "it is missing")
	case x.Listen == "":
		return nil
	case (x.Cert == "") != (x.Key == ""):
		return wrong("ext_proc", "cert and key need each other")
	case x.SelfSigned && x.Cert != "":
		return wrong("ext_proc.self_signed", "there is a cert, too")
	}
	for i, m := range c.Models {
		for j, e := range m.Endpoints {
			at := fmt.Sprintf("models[%d].endpoints[%d]", i, j)
			if s, many, _ := parseSource(e.URL); many && s.kind == "srv" {
				return wrong(at+".url", "with ext_proc it must be found by its address, as with dns+http://")
			} else if many {
				continue
			}
			if _, err := e.address(); err != nil {
				return wrong(at+".url", "%v", err)
			}
			if e.API != "" || e.Role != "" {
				return wrong(at, "with ext_proc an endpoint has neither api nor role, since the proxy sends requests as they came")
			}
		}
	}
	return nil
}

// address is where a proxy reaches an endpoint: its IP address and port.
func (e *Endpoint) address() (string, error) {
	u, err := url.Parse(e.URL)
	if err != nil {
		return "", err
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	if _, err := netip.ParseAddr(u.Hostname()); err != nil || u.Path != "" {
		return "", fmt.Errorf("%q; with ext_proc, want an IP address and a port", e.URL)
	}
	return net.JoinHostPort(u.Hostname(), port), nil
}

// Picker returns a server that tells proxies which endpoint a request goes to, by Envoy's ext_proc; its configuration
// says whether it wants TLS.
func (g *Gateway) Picker() (*http.Server, error) {
	cfg := g.setup.Load().cfg
	s := &http.Server{
		Handler: &extproc.Service{Process: g.pick, Ready: func() bool { return !g.draining.Load() }, Most: cfg.MaxBody + 1<<20},
		HTTP2:   &http.HTTP2Config{MaxConcurrentStreams: 1 << 16, MaxReceiveBufferPerStream: 1 << 20, MaxReceiveBufferPerConnection: 16 << 20},
	}
	s.Protocols = new(http.Protocols)
	var pair tls.Certificate
	var err error
	switch x := cfg.ExtProc; {
	case x.Cert != "":
		pair, err = tls.LoadX509KeyPair(x.Cert, x.Key)
	case x.SelfSigned:
		pair, err = selfSigned()
	default:
		s.Protocols.SetUnencryptedHTTP2(true)
		return s, nil
	}
	s.Protocols.SetHTTP2(true)
	s.TLSConfig = &tls.Config{Certificates: []tls.Certificate{pair}}
	return s, err
}

// selfSigned makes a certificate that is good for ten years, for clients that do not look who signed it.
func selfSigned() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	number, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return tls.Certificate{}, err
	}
	about := &x509.Certificate{
		SerialNumber: number, Subject: pkix.Name{CommonName: "kvasir gateway"}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(10, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, about, about, &key.PublicKey, key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

// among returns the endpoints of a model that a proxy may choose from, by their addresses, with or without ports. nil
// names are all. g.mu is held.
func (m *model) among(names []string) (ids []int) {
	if names == nil {
		return nil
	}
	ids = []int{}
	for _, e := range m.pool {
		at, _ := e.cfg.address() // Config.check has seen it
		host, _, _ := net.SplitHostPort(at)
		if slices.Contains(names, at) || slices.Contains(names, host) {
			ids = append(ids, e.id)
		}
	}
	return ids
}
