package guard

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// Rebound reports whether a request that came in on a loopback address names a host that is not this machine for sure.
// A web page can make its own name resolve to 127.0.0.1, and then the browser takes what listens there for the page's
// own origin; only the Host tells.
func Rebound(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return ok && Loopback(local.String()) && !Loopback(r.Host)
}

// Loopback reports whether a host, with or without a port, is this machine for sure.
func Loopback(host string) bool {
	host = Hostname(host)
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// Hostname returns a host without its port, in lower case.
func Hostname(host string) string {
	u := url.URL{Host: host}
	return strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
}
