// Package freeport finds ports for servers that tests start and start again. It is imported by tests only.
package freeport

import (
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// Port returns a port of 127.0.0.1 on which nobody listens. It lies below those that systems give to connections of
// clients, so that none of these takes it before the server does, or while the server is away.
func Port(t testing.TB) string {
	t.Helper()
	const first, count = 12000, 18000
	var last error
	for range 100 {
		port := strconv.Itoa(first + rand.IntN(count))
		ln, err := net.Listen("tcp", "127.0.0.1:"+port)
		if err == nil {
			ln.Close()
			return port
		}
		last = err
	}
	t.Fatalf("no port of 100 is free: %v", last)
	return ""
}
