package corebot_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/corebot/corebot"
)

const traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func TestATraceparentIsReadAsW3CTraceContextSays(t *testing.T) {
	for header, want := range map[string]bool{
		traceparent: true,
		strings.TrimSuffix(traceparent, "1") + "0":         true,
		"cc" + traceparent[2:]:                             true, // a later version
		"cc" + traceparent[2:] + "-more":                   true,
		"":                                                 false,
		traceparent + "-more":                              false,
		"cc" + traceparent[2:] + "more":                    false,
		"ff" + traceparent[2:]:                             false,
		strings.ToUpper(traceparent):                       false,
		traceparent[:54]:                                   false,
		strings.ReplaceAll(traceparent, "-", "_"):          false,
		"00-" + strings.Repeat("0", 32) + traceparent[35:]: false,
		traceparent[:36] + strings.Repeat("0", 16) + "-01": false,
		traceparent[:54] + "g":                             false,
	} {
		got, ok := corebot.ParseTraceparent(header)
		if ok != want || ok != !got.IsZero() {
			t.Errorf("%q: %v, %+v", header, ok, got)
		}
	}
	got, _ := corebot.ParseTraceparent(traceparent)
	if !got.Sampled || got.Traceparent() != traceparent || got.IDText() != traceparent[3:35] {
		t.Errorf("%q comes back as %q", traceparent, got.Traceparent())
	}
}

func FuzzATraceparentComesBackAsItWentIn(f *testing.F) {
	f.Add(traceparent)
	f.Add("cc" + traceparent[2:] + "-")
	f.Fuzz(func(t *testing.T, header string) {
		got, ok := corebot.ParseTraceparent(header)
		if again, ok2 := corebot.ParseTraceparent(got.Traceparent()); ok2 != ok || ok && again != got {
			t.Errorf("%q is %+v, and that is %+v", header, got, again)
		}
	})
}

// TestATraceIsStoredWithAMessageAndDistinguishesNone: a caller that sends its message again begins another trace.
func TestATraceIsStoredWithAMessageAndDistinguishesNone(t *testing.T) {
	plain, notice := wholeMessage(), wholeMessage()
	notice.Kind, notice.Notice = corebot.KindNotice, &corebot.Notice{Kind: corebot.NoticeTool}
	enveloped := wholeMessage()
	enveloped.Envelope.Group = true
	for _, m := range []corebot.Message{plain, notice, enveloped} {
		_, untraced := m.EncodeBody()
		m.Trace, _ = corebot.ParseTraceparent(traceparent)
		body, sum := m.EncodeBody()
		got := corebot.Message{Kind: m.Kind}
		if err := corebot.DecodeBody(body, sum[:], &got); err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("%v\ngot  %+v\nwant %+v", err, got, m)
		}
		if sum != untraced {
			t.Error("its trace makes it another message")
		}
		for cut := range body {
			if err := corebot.DecodeBody(body[:cut], sum[:], new(corebot.Message)); err == nil {
				t.Errorf("the first %d of %d bytes are taken for a body", cut, len(body))
			}
		}
	}
}
