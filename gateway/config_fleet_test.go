package gateway

import (
	"strings"
	"testing"
)

// TestConfigOfFleetsIsRefused is TestMistakes for events, sources, roles and times.
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
		"endpoints: [http://a], lengths: [{model: n}]":                                               "endpoints, a split or lengths, one of the three",
		"lengths: [{model: x}]":                                                                      `lengths[0].model: "x" is no other model's name`,
		"lengths: [{model: n, up_to: 9}]":                                                            "lengths[0].up_to: 9; want numbers that rise, and none for the last",
		"lengths: [{model: n, up_to: 9}, {model: n, up_to: 9}, {model: n}]":                          "lengths[1].up_to: 9",
		"lengths: [{model: n}, {model: n}]":                                                          "lengths[0].up_to: 0",
		"endpoints: [http://a], shadow: {model: m}":                                                  `shadow.model: "m" is no other model's name`,
		"endpoints: [http://a], shadow: {share: 0.1}":                                                `shadow.model: "" is no other`,
		"endpoints: [http://a], shadow: {model: n, share: 1.1}":                                      "the share is 1.1",
		"endpoints: [http://a], batch: {inputs: 3}":                                                  "batch.wait: it is missing",
		"endpoints: [http://a], batch: {wait: 2s}":                                                   "wait is 2s",
		"endpoints: [http://a], semantic: {model: n}":                                                "the model keeps no answers; set cache",
		"endpoints: [http://a], cache: 1m, semantic: {threshold: 1}":                                 `semantic.model: "" is no other`,
		"endpoints: [http://a], cache: 1m, semantic: {model: n, threshold: 2}":                       "the threshold is 2",
		"endpoints: [{url: http://a, role: prefill, bootstrap_port: 1}, http://b], transfer: nixl":   "of a prefill endpoint with transfer sglang",
		"endpoints: [{url: http://a, role: prefill}, http://b], transfer: nixl, transfer_tokens: -1": "transfer_tokens: -1",
	} {
		text = "models: [{name: m, " + text + "}, {name: n, endpoints: [http://n]}]\n"
		if _, err := Parse("fleet.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s%v\nwant %s", text, err, want)
		}
	}
}
