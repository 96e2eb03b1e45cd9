package extproc

import (
	"google.golang.org/protobuf/encoding/protowire"
)

// Answer is what Envoy is told to do with a part.
type Answer struct {
	Part   Part
	Set    [][2]string // headers, by names in lower case
	Remove []string    // headers
	// Metadata are texts by namespace and key, for what comes after in Envoy.
	Metadata map[string]map[string]string
	// Reroute lets Envoy choose the route anew, since headers that it depends on have changed.
	Reroute bool
	Body    []byte // in place of the part's body, which nil leaves as it is
	Duplex  bool   // the body is sent as FullDuplex wants it, and Body is a piece of it
	End     bool   // of a Duplex body
}

// Immediate is an answer to the client in place of an endpoint's.
type Immediate struct {
	Status  int
	Headers [][2]string
	Body    []byte
	Why     string // in Envoy's access log
}

// appendField appends a field that is a message, bytes or a text.
func appendField(b []byte, number protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), value)
}

func appendNumber(b []byte, number protowire.Number, x uint64) []byte {
	if x == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, number, protowire.VarintType), x)
}

func one(yes bool) uint64 {
	if yes {
		return 1
	}
	return 0
}

// encode makes a ProcessingResponse.
func (a *Answer) encode() []byte {
	mutation := mutation(a.Set, a.Remove)
	var response []byte
	if a.Part == RequestTrailers || a.Part == responseTrailers { // TrailersResponse
		response = appendField(nil, 1, mutation)
	} else { // HeadersResponse or BodyResponse, both with a CommonResponse
		var common []byte
		if len(mutation) > 0 {
			common = appendField(common, 2, mutation)
		}
		switch {
		case a.Duplex:
			piece := appendNumber(appendField(nil, 1, a.Body), 2, one(a.End))
			common = appendField(common, 3, appendField(nil, 3, piece))
		case a.Body != nil:
			common = appendField(common, 3, appendField(nil, 1, a.Body))
		}
		common = appendNumber(common, 5, one(a.Reroute))
		response = appendField(nil, 1, common)
	}
	b := appendField(nil, protowire.Number(a.Part-1), response)
	if len(a.Metadata) > 0 {
		b = appendField(b, 8, metadata(a.Metadata))
	}
	return b
}

// encode makes a ProcessingResponse.
func (i *Immediate) encode() []byte {
	b := appendField(nil, 1, appendNumber(nil, 1, uint64(i.Status)))
	if len(i.Headers) > 0 {
		b = appendField(b, 2, mutation(i.Headers, nil))
	}
	b = appendField(b, 3, i.Body)
	return appendField(nil, 7, appendField(b, 5, []byte(i.Why)))
}

// overwrite is HeaderValueOption's OVERWRITE_IF_EXISTS_OR_ADD.
const overwrite = 2

// mutation makes a HeaderMutation.
func mutation(set [][2]string, remove []string) (b []byte) {
	for _, h := range set {
		header := appendField(appendField(nil, 1, []byte(h[0])), 3, []byte(h[1]))
		b = appendField(b, 1, appendNumber(appendField(nil, 1, header), 3, overwrite))
	}
	for _, name := range remove {
		b = appendField(b, 2, []byte(name))
	}
	return b
}

// metadata makes a Struct of Structs of texts.
func metadata(spaces map[string]map[string]string) (b []byte) {
	for space, texts := range spaces {
		var inner []byte
		for key, text := range texts {
			inner = appendEntry(inner, key, appendField(nil, 3, []byte(text)))
		}
		b = appendEntry(b, space, appendField(nil, 5, inner))
	}
	return b
}

// appendEntry appends an entry of a Struct.
func appendEntry(b []byte, key string, value []byte) []byte {
	return appendField(b, 1, appendField(appendField(nil, 1, []byte(key)), 2, value))
}
