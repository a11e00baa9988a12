package mail

import (
	"io"
	"strings"
	"testing"
	"time"
)

func TestTheBytesOfAttachmentsAreReadAndADamagedOneSaysSo(t *testing.T) {
	body := strings.ReplaceAll(`--x
Content-Type: text/plain

look
--x
Content-Type: text/plain; name="a.txt"
Content-Transfer-Encoding: base64
Content-Disposition: attachment

aGVsbG8=
--x
Content-Type: image/png; name="../b.png"
Content-Transfer-Encoding: base64
Content-Disposition: attachment

not!base64
--x
Content-Type: application/pdf
Content-Transfer-Encoding: base64

aGVsb`, "\n", "\r\n")
	h, rest := split([]byte("Content-Type: multipart/mixed; boundary=x\r\n\r\n" + body))
	said := readBody(h, rest, true)
	if len(said.files) != 3 || len(said.bytes) != 3 || said.bytes[0].Part != 0 || said.bytes[0].Missing != "" ||
		said.bytes[1].Missing == "" || said.bytes[2].Missing == "" || said.files[1].Name != "b.png" {
		t.Fatalf("%+v %+v", said.files, said.bytes)
	}
	content, err := said.bytes[0].Fetch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(content); string(text) != "hello" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
}

func TestHowLongAMailWasOnItsWay(t *testing.T) {
	at := time.Date(2026, 11, 25, 15, 23, 11, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"Received: by b; 25 Nov 2026 15:23:11 +0000\nReceived: by a; 25 Nov 2026 16:22:49 +0100\n": 22 * time.Second,
		"Received: by a with ESMTPA id\n\tx 25 Nov 2026 15:22:49 +0000\n":                          22 * time.Second,
		"Received: by a; 25 Nov 2026 15:24:00 +0000\n":                                             0, // another clock
		"Received: by a\n": 0, "Received: 99 Nov 2026 15:22:49 +0000\n": 0, "Subject: x\n": 0,
	} {
		if h, _ := split([]byte(text + "\n")); onItsWay(h, at) != want {
			t.Errorf("%q: %v", text, onItsWay(h, at))
		}
	}
}
