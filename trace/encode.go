package trace

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// scopeName names what made the spans.
const scopeName = "kvasir"

// Numbers of fields in opentelemetry/proto/{collector/trace,trace,common,resource}/v1.
const (
	requestResourceSpans = 1

	resourceSpansResource, resourceSpansScopes = 1, 2
	resourceAttributes                         = 1
	scopeSpansScope, scopeSpansSpans           = 1, 2
	scopeFieldName, scopeFieldVersion          = 1, 2

	spanTrace, spanID, spanState, spanParent, spanName, spanKind = 1, 2, 3, 4, 5, 6
	spanBegin, spanEnd, spanAttributes, spanStatus, spanFlags    = 7, 8, 9, 15, 16
	statusMessage, statusCode                                    = 2, 3
	keyValueKey, keyValueValue                                   = 1, 2

	anyString, anyBool, anyInt, anyDouble, anyArray = 1, 2, 3, 4, 5
	arrayValues                                     = 1
)

// statusError is OTLP's STATUS_CODE_ERROR.
const statusError = 2

// Flags of a span: the trace is sampled, and whether the parent is in another process is known, and so.
const flagSampled, flagKnown, flagRemote = 1, 0x100, 0x200

// flags returns what OTLP notes of a span's context.
func (s *Span) flags() uint32 {
	f := uint32(flagSampled | flagKnown)
	if s.kind == server && s.parent != [8]byte{} {
		f |= flagRemote
	}
	return f
}

// appendProto appends an ExportTraceServiceRequest of spans that have ended.
func appendProto(dst []byte, r *resource, spans []*Span) []byte {
	scope := appendString(nil, scopeFieldName, scopeName)
	scope = appendString(scope, scopeFieldVersion, r.version)
	scopes := appendMessage(nil, scopeSpansScope, scope)
	var one []byte
	for _, s := range spans {
		one = s.appendProto(one[:0])
		scopes = appendMessage(scopes, scopeSpansSpans, one)
	}
	var attrs []byte
	for _, a := range r.attrs {
		attrs = appendAttr(attrs, resourceAttributes, a)
	}
	all := appendMessage(nil, resourceSpansResource, attrs)
	return appendMessage(dst, requestResourceSpans, appendMessage(all, resourceSpansScopes, scopes))
}

func (s *Span) appendProto(dst []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	dst = appendMessage(dst, spanTrace, s.own.Trace[:])
	dst = appendMessage(dst, spanID, s.own.Span[:])
	dst = appendString(dst, spanState, s.own.State)
	if s.parent != [8]byte{} {
		dst = appendMessage(dst, spanParent, s.parent[:])
	}
	dst = appendString(dst, spanName, clip(s.name))
	dst = protowire.AppendTag(dst, spanKind, protowire.VarintType)
	dst = protowire.AppendVarint(dst, uint64(s.kind))
	dst = appendFixed64(dst, spanBegin, uint64(s.begin.UnixNano()))
	dst = appendFixed64(dst, spanEnd, uint64(s.end.UnixNano()))
	for _, a := range s.attrs {
		dst = appendAttr(dst, spanAttributes, a)
	}
	if s.bad {
		status := appendString(nil, statusMessage, clip(s.fault))
		status = protowire.AppendTag(status, statusCode, protowire.VarintType)
		dst = appendMessage(dst, spanStatus, protowire.AppendVarint(status, statusError))
	}
	dst = protowire.AppendTag(dst, spanFlags, protowire.Fixed32Type)
	return protowire.AppendFixed32(dst, s.flags())
}

func appendAttr(dst []byte, field protowire.Number, a Attr) []byte {
	pair := appendString(nil, keyValueKey, a.Key)
	return appendMessage(dst, field, appendMessage(pair, keyValueValue, appendValue(nil, a.Value)))
}

func appendValue(dst []byte, v any) []byte {
	switch v := v.(type) {
	case string: // also if it is empty: one of the kinds must be there
		dst = protowire.AppendTag(dst, anyString, protowire.BytesType)
		return protowire.AppendString(dst, clip(v))
	case bool:
		dst = protowire.AppendTag(dst, anyBool, protowire.VarintType)
		return protowire.AppendVarint(dst, protowire.EncodeBool(v))
	case int:
		return appendValue(dst, int64(v))
	case int64:
		dst = protowire.AppendTag(dst, anyInt, protowire.VarintType)
		return protowire.AppendVarint(dst, uint64(v))
	case float64:
		return appendFixed64(dst, anyDouble, math.Float64bits(v))
	case []string:
		var list []byte
		for _, s := range v {
			list = appendMessage(list, arrayValues, appendValue(nil, s))
		}
		return appendMessage(dst, anyArray, list)
	}
	return appendValue(dst, fmt.Sprint(v))
}

func appendMessage(dst []byte, field protowire.Number, body []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(dst, field, protowire.BytesType), body)
}

func appendString(dst []byte, field protowire.Number, s string) []byte {
	if s == "" {
		return dst
	}
	return protowire.AppendString(protowire.AppendTag(dst, field, protowire.BytesType), s)
}

func appendFixed64(dst []byte, field protowire.Number, x uint64) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(dst, field, protowire.Fixed64Type), x)
}

// clip bounds a string, and makes it UTF-8, which protobuf wants.
func clip(s string) string {
	if len(s) > maxText {
		s = s[:maxText]
		for i := 0; i < utf8.UTFMax && !utf8.ValidString(s); i++ { // a character that was cut
			s = s[:len(s)-1]
		}
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// The same in JSON: ids are hexadecimal, and 64-bit integers strings.
type (
	jsonRequest struct {
		ResourceSpans []jsonResourceSpans `json:"resourceSpans"`
	}
	jsonResourceSpans struct {
		Resource   jsonAttrs        `json:"resource"`
		ScopeSpans []jsonScopeSpans `json:"scopeSpans"`
	}
	jsonAttrs struct {
		Attributes []jsonAttr `json:"attributes"`
	}
	jsonScopeSpans struct {
		Scope jsonScope  `json:"scope"`
		Spans []jsonSpan `json:"spans"`
	}
	jsonScope struct {
		Name    string `json:"name"`
		Version string `json:"version,omitempty"`
	}
	jsonSpan struct {
		Trace      string      `json:"traceId"`
		ID         string      `json:"spanId"`
		State      string      `json:"traceState,omitempty"`
		Parent     string      `json:"parentSpanId,omitempty"`
		Name       string      `json:"name"`
		Kind       Kind        `json:"kind"`
		Begin      string      `json:"startTimeUnixNano"`
		End        string      `json:"endTimeUnixNano"`
		Attributes []jsonAttr  `json:"attributes,omitempty"`
		Status     *jsonStatus `json:"status,omitempty"`
		Flags      uint32      `json:"flags"`
	}
	jsonStatus struct {
		Message string `json:"message,omitempty"`
		Code    int    `json:"code"`
	}
	jsonAttr struct {
		Key   string         `json:"key"`
		Value map[string]any `json:"value"`
	}
)

func appendJSON(dst []byte, r *resource, spans []*Span) ([]byte, error) {
	scope := jsonScopeSpans{Scope: jsonScope{scopeName, r.version}}
	for _, s := range spans {
		scope.Spans = append(scope.Spans, s.json())
	}
	body, err := json.Marshal(jsonRequest{[]jsonResourceSpans{{jsonAttrs{jsonAttrsOf(r.attrs)}, []jsonScopeSpans{scope}}}})
	return append(dst, body...), err
}

func (s *Span) json() jsonSpan {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := jsonSpan{Trace: s.own.ID(), ID: hex.EncodeToString(s.own.Span[:]), State: s.own.State, Name: clip(s.name), Kind: s.kind,
		Begin: strconv.FormatInt(s.begin.UnixNano(), 10), End: strconv.FormatInt(s.end.UnixNano(), 10),
		Attributes: jsonAttrsOf(s.attrs), Flags: s.flags()}
	if s.parent != [8]byte{} {
		out.Parent = hex.EncodeToString(s.parent[:])
	}
	if s.bad {
		out.Status = &jsonStatus{clip(s.fault), statusError}
	}
	return out
}

func jsonAttrsOf(attrs []Attr) (out []jsonAttr) {
	for _, a := range attrs {
		out = append(out, jsonAttr{a.Key, jsonValue(a.Value)})
	}
	return out
}

func jsonValue(v any) map[string]any {
	switch v := v.(type) {
	case string:
		return map[string]any{"stringValue": clip(v)}
	case bool:
		return map[string]any{"boolValue": v}
	case int:
		return jsonValue(int64(v))
	case int64:
		return map[string]any{"intValue": strconv.FormatInt(v, 10)}
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return map[string]any{"doubleValue": strings.Replace(fmt.Sprint(v), "+Inf", "Infinity", 1)}
		}
		return map[string]any{"doubleValue": v}
	case []string:
		all := []map[string]any{}
		for _, s := range v {
			all = append(all, jsonValue(s))
		}
		return map[string]any{"arrayValue": map[string]any{"values": all}}
	}
	return jsonValue(fmt.Sprint(v))
}
