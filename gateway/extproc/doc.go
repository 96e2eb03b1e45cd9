// Package extproc is the server's side of Envoy's external processing protocol (envoy.service.ext_proc.v3 over gRPC)
// and of gRPC's health checks. It has the few messages that an endpoint picker needs, on HTTP/2 of the standard
// library. It knows nothing of endpoints. Read Stream first, then Message and Answer.
package extproc
