// Package gateway is one front door for many engines and providers that speak OpenAI's API: an HTTP proxy that decides
// for each request which endpoint answers it (route), in what order requests go (fair), and what to do when an endpoint
// fails. It forwards bodies as they came and streams as they come, and knows nothing of what is inside an engine.
//
// A request goes through Gateway.ServeHTTP: its body is scanned once (scan), its key is looked up (keys), it waits for
// its turn and gets an endpoint (Gateway.place), and its answer is copied (exchange). Read Config and Gateway first.
package gateway
