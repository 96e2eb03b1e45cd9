package gateway

import (
	"strings"
	"testing"
)

// TestConfigOfFleetsIsRefused is TestConfigIsRefused for events, sources, roles and times.
func TestConfigOfFleetsIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"endpoints: [{url: http://a, events: 5557}]":                                                 "expected a text",
		"endpoints: [{url: http://a, events: \"tcp://*:5557\"}]":                                     "models[0].endpoints[0].events: \"tcp://*:5557\"; want an address to connect to",
		"endpoints: [{url: http://a, events: udp://x:1}]":                                            "want tcp://host:port",
		"endpoints: [{url: http://a, events_replay: tcp://a:1}]":                                     "events_replay and events_topic need events",
		"endpoints: [{url: http://a, event: tcp://a:1}]":                                             "did you mean events?",
		"endpoints: [dns+http://a]":                                                                  "want dns+http://name:port",
		"endpoints: [\"file:x\"]":                                                                    "a path that begins with /",
		"endpoints: [{url: \"dns+http://a:1\", max_in_flight: -1}]":                                  "max_in_flight is -1",
		"endpoints: [http://a], hedge: -1s":                                                          "models[0].hedge: -1s",
		"endpoints: [http://a], slo: {ttft: -1s}":                                                    "models[0].slo",
		"endpoints: [http://a], transfer: rdma":                                                      `transfer is "rdma"; want one of none, nixl, sglang`,
		"endpoints: [http://a], transfer: nixl":                                                      "0 of 1 have role prefill; want some of both kinds",
		"endpoints: [{url: http://a, role: prefill}]":                                                "role: it needs the model's transfer",
		"endpoints: [{url: http://a, role: encode}], transfer: nixl":                                 `role: "encode"; want prefill, decode or nothing`,
		"endpoints: [{url: http://a, role: prefill, bootstrap_port: 1}, http://b], transfer: nixl":   "of a prefill endpoint with transfer sglang",
		"endpoints: [{url: http://a, role: prefill}, http://b], transfer: nixl, transfer_tokens: -1": "transfer_tokens: -1",
	} {
		text = "models: [{name: m, " + text + "}]\n"
		if _, err := Parse("fleet.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s%v\nwant %s", text, err, want)
		}
	}
}
