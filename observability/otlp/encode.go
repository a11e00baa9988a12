package otlp

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/corebot/corebot/internal/trace"
)

// The numbers of the fields, of opentelemetry/proto/trace/v1/trace.proto and its neighbours, version 1.
const (
	requestResourceSpans = 1

	resourceSpansResource = 1
	resourceSpansScope    = 2
	resourceAttributes    = 1

	scopeSpansScope = 1
	scopeSpansSpans = 2
	scopeName       = 1
	scopeVersion    = 2

	spanTraceID    = 1
	spanSpanID     = 2
	spanParent     = 4
	spanName       = 5
	spanKind       = 6
	spanBegan      = 7
	spanEnded      = 8
	spanAttributes = 9
	spanStatus     = 15
	spanFlags      = 16

	statusMessage = 2
	statusCode    = 3
	statusError   = 2

	keyValueKey   = 1
	keyValueValue = 2
	anyString     = 1
	anyInt        = 3

	responsePartial = 1
	partialRejected = 1
)

const scope = "github.com/corebot/corebot"

// frame is a request around the spans of one resource, without the spans.
type frame struct{ resource, scope []byte }

func newFrame(resource [][2]string, version string) frame {
	var f frame
	for _, p := range resource {
		f.resource = message(f.resource, resourceAttributes, text(nil, p[0], p[1]))
	}
	f.scope = str(str(nil, scopeName, scope), scopeVersion, version)
	return f
}

// request encodes spans as an ExportTraceServiceRequest.
func (f frame) request(spans []*trace.Span) []byte {
	all := message(nil, scopeSpansScope, f.scope)
	var one []byte
	for _, s := range spans {
		one = appendSpan(one[:0], s)
		all = message(all, scopeSpansSpans, one)
	}
	of := message(nil, resourceSpansResource, f.resource)
	return message(nil, requestResourceSpans, message(of, resourceSpansScope, all))
}

func appendSpan(b []byte, s *trace.Span) []byte {
	at := s.At()
	b = message(b, spanTraceID, at.ID[:])
	b = message(b, spanSpanID, at.Span[:])
	if s.Parent != [8]byte{} {
		b = message(b, spanParent, s.Parent[:])
	}
	b = str(b, spanName, s.Name)
	b = number(b, spanKind, uint64(s.Kind))
	b = protowire.AppendFixed64(protowire.AppendTag(b, spanBegan, protowire.Fixed64Type), uint64(s.Began.UnixNano()))
	b = protowire.AppendFixed64(protowire.AppendTag(b, spanEnded, protowire.Fixed64Type), uint64(s.Ended.UnixNano()))
	for _, a := range s.Attributes {
		if a.Text != "" {
			b = message(b, spanAttributes, text(nil, a.Key, a.Text))
			continue
		}
		value := number(nil, anyInt, uint64(a.Number))
		b = message(b, spanAttributes, message(str(nil, keyValueKey, a.Key), keyValueValue, value))
	}
	if s.Failed != "" {
		b = message(b, spanStatus, number(str(nil, statusMessage, s.Failed), statusCode, statusError))
	}
	return protowire.AppendFixed32(protowire.AppendTag(b, spanFlags, protowire.Fixed32Type), 1)
}

// text is a KeyValue.
func text(b []byte, key, value string) []byte {
	return message(str(b, keyValueKey, key), keyValueValue, str(nil, anyString, value))
}

func str(b []byte, field protowire.Number, value string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), value)
}

func message(b []byte, field protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), value)
}

func number(b []byte, field protowire.Number, value uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), value)
}

// rejected reads an ExportTraceServiceResponse: how many spans the receiver did not take. An answer that it
// cannot read counts as nothing: the receiver has said 2xx.
func rejected(answer []byte) int64 {
	partial, _ := protowire.ConsumeBytes(fieldOf(answer, responsePartial, protowire.BytesType))
	n, size := protowire.ConsumeVarint(fieldOf(partial, partialRejected, protowire.VarintType))
	if size < 0 {
		return 0
	}
	return int64(n)
}

// fieldOf is the rest of a message from the value of a field on; nil: the field is not there.
func fieldOf(b []byte, field protowire.Number, as protowire.Type) []byte {
	for len(b) > 0 {
		number, kind, size := protowire.ConsumeTag(b)
		if size < 0 {
			return nil
		}
		b = b[size:]
		if number == field && kind == as {
			return b
		}
		if size = protowire.ConsumeFieldValue(number, kind, b); size < 0 {
			return nil
		}
		b = b[size:]
	}
	return nil
}
