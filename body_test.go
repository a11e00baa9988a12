package corebot_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
)

// wholeMessage has something of everything that a body holds.
func wholeMessage() corebot.Message {
	m := valid()
	m.Direction, m.Key = 0, corebot.Key{} // columns of their own
	m.SenderName, m.InReplyTo = "Ada", "0"
	m.Metadata = corebot.Texts(map[string]string{"k": "v", "": "", "ü": strings.Repeat("x", 300)})
	m.Parts = append(m.Parts, corebot.Part{Type: corebot.PartImage, Hash: "h", Name: "n", MediaType: "image/png"})
	return m
}

func TestABodyComesBackAsItWentIn(t *testing.T) {
	m := wholeMessage()
	body, sum := m.EncodeBody()
	if sum != m.Checksum() {
		t.Fatal("the body has another checksum than its message")
	}
	got := corebot.Message{Kind: m.Kind}
	if err := corebot.DecodeBody(body, sum[:], &got); err != nil || !reflect.DeepEqual(got, m) {
		t.Fatalf("%v\ngot  %+v\nwant %+v", err, got, m)
	}
}

func TestAnEnvelopeIsPartOfTheBodyOnlyWhereThereIsOne(t *testing.T) {
	plain := wholeMessage()
	before, sum := plain.EncodeBody()
	seen := map[corebot.Checksum]bool{sum: true}
	for _, e := range []corebot.Envelope{
		{ReplyTo: "m0"},
		{Group: true},
		{Mentioned: true},
		{Forwarded: true},
		{SentAt: time.UnixMilli(0).UTC()},
		{SentAt: time.UnixMilli(1 << 41).UTC()},
		{DeliverAt: time.UnixMilli(1 << 41).UTC()},
		{DeliverAt: time.UnixMilli(0).UTC(), SentAt: time.UnixMilli(7).UTC()},
		{ReplyTo: "m0", Group: true, Mentioned: true, SentAt: time.UnixMilli(1).UTC()},
	} {
		m := wholeMessage()
		m.Envelope = e
		body, sum := m.EncodeBody()
		if seen[sum] {
			t.Errorf("%+v changes nothing about the message", e)
		}
		seen[sum] = true
		got := corebot.Message{Kind: m.Kind}
		if err := corebot.DecodeBody(body, sum[:], &got); err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("%v\ngot  %+v\nwant %+v", err, got, m)
		}
		body[0] = before[0] // the version of a message without one
		if err := corebot.DecodeBody(body, sum[:], &got); err == nil {
			t.Errorf("a body with %+v was read as one without", e)
		}
	}
	if before[0] != 1 {
		t.Errorf("the body of a message without an envelope has version %d, which an older build cannot read",
			before[0])
	}
}

func TestABodyThatWasStoredAsJSONCanStillBeRead(t *testing.T) {
	m := wholeMessage()
	body, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	sum := m.Checksum()
	got := corebot.Message{Kind: m.Kind}
	if err := corebot.DecodeBody(body, sum[:], &got); err != nil || !reflect.DeepEqual(got, m) {
		t.Fatalf("%v\ngot  %+v\nwant %+v", err, got, m)
	}
	if err := corebot.DecodeBody([]byte(strings.Replace(string(body), "hello", "hullo", 1)), sum[:], &got); err == nil {
		t.Fatal("another text was taken for it")
	}
	if err := corebot.DecodeBody(body[:len(body)-1], sum[:], &got); err == nil {
		t.Fatal("half of it was taken")
	}
}

func TestABodyOfAnotherKindIsDamaged(t *testing.T) {
	body, sum := wholeMessage().EncodeBody()
	if err := corebot.DecodeBody(body, sum[:], &corebot.Message{Kind: corebot.KindNotice}); err == nil {
		t.Fatal("it was taken")
	}
}

func FuzzWhateverIsStoredIsTheMessageOrDamaged(f *testing.F) {
	m := wholeMessage()
	body, sum := m.EncodeBody()
	f.Add(body)
	f.Add([]byte{})
	f.Add([]byte(`{"parts":null}`))
	f.Add(body[:len(body)-1])
	f.Add(append(body[:len(body):len(body)], 0))
	f.Fuzz(func(t *testing.T, stored []byte) {
		got := corebot.Message{Kind: m.Kind}
		if err := corebot.DecodeBody(stored, sum[:], &got); err == nil && got.Checksum() != sum {
			t.Fatalf("%q is taken for %+v", stored, got)
		}
		// With the right checksum, as after a bad encoder: no panic, no giant allocation.
		own := corebot.Message{Kind: m.Kind}
		for _, sum := range [][]byte{nil, make([]byte, 16)} {
			_ = corebot.DecodeBody(stored, sum, &own)
		}
	})
}
