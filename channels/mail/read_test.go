package mail

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot/channels"
)

func testChannel(t testing.TB) *Channel {
	t.Helper()
	s := standard()
	s.Address, s.Password, s.AuthServID = "bot@corebot.test", "secret", "mx.org"
	s.IMAP, s.SMTP = "127.0.0.1:143", "127.0.0.1:25"
	c, err := New(s, channels.Site{Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	return c.(*Channel)
}

const checked = "Authentication-Results: mx.org; dmarc=pass header.from=people.test\r\n"

// mailOf is a mail of Ann with some more header and a body.
func mailOf(more, body string) fetched {
	text := checked + "From: Ann <ann@people.test>\r\nTo: bot@corebot.test\r\nSubject: Tea\r\nMessage-ID: " +
		"<1@people.test>\r\n" +
		more + "\r\n" + body
	return fetched{uid: 1, received: time.Now(), text: []byte(text), whole: true}
}

func TestAMailBecomesAMessageOfItsVerifiedSender(t *testing.T) {
	c := testChannel(t)
	in, is := c.read(mailOf("References: <root@a> <2@b>\r\nIn-Reply-To: <2@b>\r\nCc: bob@people.test\r\n", "Tea?\r\n"))
	if is != message || in.ID != "<1@people.test>" || in.Chat != "ann@people.test" ||
		in.SenderID != "ann@people.test" ||
		in.Thread != "<root@a>" || in.Envelope.ReplyTo != "<2@b>" || in.Text() != "Tea?" || !in.Interactive || in.Bot ||
		!in.Envelope.Mentioned || in.Envelope.Group || in.Envelope.Forwarded || in.SenderName != "Ann" {
		t.Errorf("%v %+v", is, in)
	}
	for name, want := range map[string]string{"subject": "Tea", "to": "bot@corebot.test", "cc": "bob@people.test"} {
		if got, _ := in.Metadata.Text(name); got != want {
			t.Errorf("%s is %q", name, got)
		}
	}
	only, _ := c.read(mailOf("", "Tea?"))
	if only.Thread != "<1@people.test>" {
		t.Errorf("a mail that answers none has the thread %q", only.Thread)
	}
	copied := mailOf("", "Tea?")
	copied.text = []byte(strings.Replace(string(copied.text), "To: bot", "To: bob@people.test\r\nCc: bot", 1))
	if in, _ := c.read(copied); in.Envelope.Mentioned || !in.Envelope.Group {
		t.Errorf("one that gets a copy is meant: %+v", in.Envelope)
	}
}

// Everybody chooses the name beside his address, and can choose the name or the address of the owner.
func TestWhoTakesTheNameOfAnotherIsAnother(t *testing.T) {
	c := testChannel(t)
	for _, name := range []string{
		"Ann", `"ann@people.test"`, `"Ann <ann@people.test>"`, "=?utf-8?q?ann=40people.test?=",
	} {
		posed := mailOf("", "/approve 1")
		posed.text = []byte(strings.NewReplacer("Ann <ann@people.test>", name+" <mallory@evil.test>",
			"header.from=people.test", "header.from=evil.test").Replace(string(posed.text)))
		in, is := c.read(posed)
		if is != message || in.SenderID != "mallory@evil.test" || in.Chat != "mallory@evil.test" {
			t.Errorf("%s: %v %+v", name, is, in)
		}
	}
}

func TestASenderWhomTheServerHasNotVerifiedIsAStranger(t *testing.T) {
	c := testChannel(t)
	forged := mailOf("", "/approve 1")
	forged.text = []byte(strings.Replace(string(forged.text), "dmarc=pass", "dmarc=fail", 1))
	if _, is := c.read(forged); is != leftOut {
		t.Fatalf("it is %v", is)
	}
	c.settings.Unverified = unverifiedStranger
	in, is := c.read(forged)
	if is != message || in.SenderID != "" || in.Interactive || !in.Envelope.Forwarded ||
		in.Chat != "unverified ann@people.test" {
		t.Errorf("%v %+v", is, in)
	}
}

func TestMailsOfProgramsAreNeverAnswered(t *testing.T) {
	for _, line := range []string{
		"Auto-Submitted: auto-replied", "Auto-Submitted: auto-generated (x); y", "Precedence: bulk", "Precedence: LIST",
		"List-Id: <a.b>", "List-Unsubscribe: <http://a>", "X-Auto-Response-Suppress: DR, All", "Return-Path: <>",
		"X-Autoreply: yes", `Content-Type: multipart/report; report-type=delivery-status; boundary=x`,
		"Precedence: junk", "Precedence: auto_reply", "X-Autorespond: x", "X-Auto-Reply: x", "X-Mail-Autoreply: x",
		"X-Failed-Recipients: x@y", "X-Auto-Response-Suppress: AutoReply", "X-Auto-Response-Suppress: OOF",
		"Content-Type: message/delivery-status", "Content-Type: message/disposition-notification",
		"Feedback-ID: 7:campaign:esp\r\nList-Unsubscribe: <http://a>", // the other sign stays one
	} {
		c := testChannel(t)
		if in, is := c.read(mailOf(line+"\r\n", "hello")); is == message && !in.Bot || in.Interactive {
			t.Errorf("%s: %+v", line, in)
		}
		unchecked := mailOf(line+"\r\n", "hello")
		unchecked.text = unchecked.text[len(checked):]
		c.settings.Unverified = unverifiedStranger
		if _, is := c.read(unchecked); is != leftOut {
			t.Errorf("%s, not verified: %v", line, is)
		}
	}
	for _, from := range []string{
		"no-reply", "noreply", "MAILER-DAEMON", "postmaster", "do_not_reply", "bounces+x", "list-request", "owner-list",
		"bounce", "bounces-7", "listserv", "majordomo",
	} {
		got := mailOf("", "hello")
		got.text = []byte(strings.Replace(string(got.text), "ann@", from+"@", 1))
		if in, is := testChannel(t).read(got); is == message && !in.Bot {
			t.Errorf("%s: %+v", from, in)
		}
	}
	for _, line := range []string{
		"Auto-Submitted: no", "Precedence: first-class", "X-Auto-Response-Suppress: DR, RN",
		"List-Unsubscribe-Post: List-Unsubscribe=One-Click",
	} {
		if in, is := testChannel(t).read(mailOf(line+"\r\n", "hello")); is != message || in.Bot {
			t.Errorf("%s: %v", line, is)
		}
	}
}

// TestAPersonAtAProviderThatMarksEveryMailIsAnswered has headers as Proton and Fastmail write them.
func TestAPersonAtAProviderThatMarksEveryMailIsAnswered(t *testing.T) {
	for name, lines := range map[string]string{
		"Proton": "Feedback-ID: 29384756:user:proton\r\nX-Pm-Message-ID: 5f0c2b9ad1e34c7e8a90b1c2d3e4f5a6b7c8d9e0\r\n" +
			"MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\nX-Pm-Origin: internal\r\n",
		"Fastmail": "Feedback-ID: i1a2b4c6d:Fastmail\r\nX-ME-Sender: <xms:Yx2aZ0uQ>\r\n" +
			"X-ME-Proxy-Cause: gggruggvucftvghtrhhoucdtuddrgeefuddrfeeltddgtdehucetufdoteggodetrfdotf\r\n" +
			"X-ThreadId: A8f3c1d2e4b5\r\nUser-Agent: Cyrus-JMAP/3.11.0-alpha0-1108-g3a29173c6d\r\n" +
			"MIME-Version: 1.0\r\nContent-Type: text/plain\r\n",
	} {
		if in, is := testChannel(t).read(mailOf(lines, "hello")); is != message || in.Bot || !in.Interactive {
			t.Errorf("%s: %v %+v", name, is, in)
		}
	}
}

func TestAMailThatSaysToBeOfCorebotIsLeftOut(t *testing.T) {
	c := testChannel(t)
	got := mailOf("", "hello")
	got.text = []byte(strings.ReplaceAll(string(got.text), "ann@people.test", "bot@corebot.test"))
	if _, is := c.read(got); is != leftOut {
		t.Errorf("it is %v", is)
	}
}

func TestACorrespondentHasALargestNumberOfAnswersInAnHour(t *testing.T) {
	c := testChannel(t)
	if in, _ := c.read(mailOf("", "hello")); in.Hourly != &c.hourly || in.Hourly.Most != c.settings.Hourly {
		t.Errorf("the door counts with %+v", in.Hourly)
	}
}

func TestAnIdIsOfItsSenderAndAMailWithoutOneIsNamedByItsContent(t *testing.T) {
	c := testChannel(t)
	ann, _ := c.read(mailOf("", "hello"))
	got := mailOf("", "hello")
	got.text = []byte(strings.Replace(string(got.text), "ann@", "eve@", 1))
	eve, _ := c.read(got)
	if ann.ID != eve.ID || ann.Chat == eve.Chat {
		t.Errorf("%s in %s and %s in %s", ann.ID, ann.Chat, eve.ID, eve.Chat)
	}
	for _, id := range []string{
		"", "Message-ID: \r\n", "Message-ID: x\r\n", "Message-ID: <a@b>\r\nMessage-ID: <c@d>\r\n",
		"Message-ID: <" + strings.Repeat("a", 2000) + "@b>\r\n", "Message-ID: <a b@c>\r\n",
	} {
		got := mailOf("", "hello")
		got.text = []byte(strings.Replace(string(got.text), "Message-ID: <1@people.test>\r\n", id, 1))
		in, is := c.read(got)
		again, _ := c.read(got)
		if is != message || !strings.HasPrefix(in.ID, "<sha256.") || in.ID != again.ID {
			t.Errorf("%.40q: %v %q", id, is, in.ID)
		}
	}
}

func TestTheTextOfAMailIsWhatItsSenderHasWritten(t *testing.T) {
	for in, want := range map[string]string{
		"Yes.\r\n\r\nOn Mon, 3 Nov 2026, Bot <bot@corebot.test> wrote:\r\n> No?\r\n> Yes?\r\n":          "Yes.",
		"Yes.\r\n\r\nOn Mon, 3 Nov 2026 at 10:00, A Very Long Name\r\n<bot@corebot.test> wrote:\r\n> a": "Yes.",
		"Am 3.11.2026 schrieb Bot:\r\n> Tee?\r\nGern.\r\n> Milch?\r\nNein.": "Am " +
			"3.11.2026 schrieb Bot:\n> Tee?\nGern.\n> Milch?\nNein.",
		"Yes.\r\n-- \r\nAnn\r\n+49 1\r\n": "Yes.",
		"Yes.\r\n\r\n-----Original Message-----\r\nFrom: Bot\r\nSent: today\r\nTo: Ann\r\n\r\nNo?": "Yes.",
		"Yes.\r\n\r\nVon: Bot\r\nGesendet: heute\r\nAn: Ann\r\nBetreff: Tee\r\n\r\nNein?":          "Yes.",
		"Buy:\r\n- milk\r\nTo: do":   "Buy:\n- milk\nTo: do",
		"> all of it\r\n> is quoted": "> all of it\n> is quoted",
		"/approve 1\r\n\r\n> a\r\n":  "/approve 1",
	} {
		if got := (content{plain: in}).text(); got != want {
			t.Errorf("%q became\n%q and not\n%q", in, got, want)
		}
	}
	page := `<html><head><title>T</title><style>p{}</style></head><body><p>Yes &amp; <b>no</b>,
		see <a href="http://a.org/b">this</a>.</p><ul><li>one<li>two</ul><pre>a
  b</pre><div>On 3.11., Bot wrote:</div><blockquote><p>old</p></blockquote><script>x</script></body></html>`
	want := "Yes & no, see this (http://a.org/b).\n\n• one\n• two\na\n  b"
	if got := (content{page: page}).text(); got != want {
		t.Errorf("%q", got)
	}
}

func TestAForwardedMailIsNoCommand(t *testing.T) {
	c := testChannel(t)
	in, _ := c.read(mailOf("", "/stop\r\n---------- Forwarded message ---------\r\nFrom: eve@evil.test\r\n\r\nhi"))
	if !in.Envelope.Forwarded || !strings.Contains(in.Text(), "eve@evil.test") {
		t.Errorf("%+v %q", in.Envelope, in.Text())
	}
}

func TestHostileMailsEndSoonAndWithinBounds(t *testing.T) {
	parts := func(n int) string { return strings.Repeat("--b\r\nContent-Type: text/plain\r\n\r\nx\r\n", n) }
	nested := func(depth int) string {
		var b strings.Builder
		for i := range depth {
			fmt.Fprintf(&b, "Content-Type: multipart/mixed; boundary=\"%d\"\r\n\r\n--%d\r\n", i+1, i+1)
		}
		return b.String()
	}
	big := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("a", 900<<10)))
	for name, got := range map[string]fetched{
		"100,000 parts":      mailOf("Content-Type: multipart/mixed; boundary=b\r\n", parts(100_000)),
		"1,000 parts deep":   mailOf("Content-Type: multipart/mixed; boundary=\"0\"\r\n", "--0\r\n"+nested(1000)),
		"an enormous header": mailOf(strings.Repeat("X-A: b\r\n", 50_000), "x"),
		"an enormous field":  mailOf("X-A: b\r\n"+strings.Repeat(" c\r\n", 200_000), "x"),
		"a part of a header": mailOf("Content-Type: multipart/mixed; boundary=b\r\n",
			"--b\r\n"+strings.Repeat("A: b\r\n", 150_000)),
		"many references":     mailOf("References: "+strings.Repeat("<a@b> ", 30_000)+"\r\n", "x"),
		"many people":         mailOf("Cc: "+strings.Repeat("a@b.c, ", 30_000)+"x@y\r\n", "x"),
		"base64":              mailOf("Content-Transfer-Encoding: base64\r\n", big),
		"a charset of nobody": mailOf("Content-Type: text/plain; charset=\"../x\"\r\n", "caf\xe9"),
		"UTF-7":               mailOf("Content-Type: text/plain; charset=utf-7\r\n", "+ADw-"),
		"UTF-16 cut off":      mailOf("Content-Type: text/plain; charset=utf-16\r\n", "\xff\xfea"),
		"deep HTML":           mailOf("Content-Type: text/html\r\n", strings.Repeat("<blockquote><div>", 50_000)+"x"),
		"lines":               mailOf("", strings.Repeat("From:\r\n", 150_000)),
		"quotes":              mailOf("", strings.Repeat(">\r\n", 300_000)),
		"a subject":           mailOf("Subject: "+strings.Repeat("=?utf-8?q?=41?= ", 15_000)+"\r\n", "x"),
		"zeros":               mailOf("", strings.Repeat("\x00", 1<<20)),
		"no end of line":      {text: []byte(strings.Repeat("a", 1<<20)), received: time.Now()},
		"nothing":             {received: time.Now()},
	} {
		began := time.Now()
		in, is := testChannel(t).read(got)
		took := time.Since(began)
		if n := len(in.Text()); is == message && (n > maxText+1000 || len(in.Parts) > maxFiles+1) ||
			took > 10*time.Second {
			t.Errorf("%s: %v, %d bytes, %d parts after %v", name, is, n, len(in.Parts), took)
		}
	}
}

func TestAttachmentsAreNamedAndNotKept(t *testing.T) {
	in, _ := testChannel(t).read(mailOf("Content-Type: multipart/mixed; boundary=b\r\n", "--b\r\n\r\nsee\r\n"+
		"--b\r\nContent-Type: image/png; name=\"../../a\u202egnp.exe\"\r\n\r\nx\r\n--b\r\nContent-Type: "+
		"message/rfc822\r\n\r\nFrom: x\r\n--b--"))
	if len(in.Parts) != 3 || in.Parts[1].Name != "agnp.exe" || in.Parts[1].Type != "image" ||
		in.Parts[2].MediaType != "message/rfc822" {
		t.Errorf("%+v", in.Parts)
	}
}

// FuzzMail reads any mail: it never panics, and what comes of it is valid.
func FuzzMail(f *testing.F) {
	for _, s := range []string{
		string(mailOf("", "hello").text),
		string(mailOf("Content-Type: multipart/alternative; boundary=b\r\n",
			"--b\r\n\r\nx\r\n--b\r\nContent-Type: text/html\r\n\r\n<p>x\r\n--b--").text),
		"From: a@b\n\nx", ":", "\r\n", "From: =?x?q?=?= <a@b>\nSubject: =?utf-16?b?AAA?=\n\n-- \n>",
	} {
		f.Add([]byte(s))
	}
	c := testChannel(f)
	c.settings.Unverified = unverifiedStranger
	f.Fuzz(func(t *testing.T, text []byte) {
		h, body := split(text)
		readBody(h, body, true).text() // without the net under read
		in, is := c.read(fetched{text: text, received: time.Now(), whole: true})
		if is == message && (in.ID == "" || in.Chat == "" ||
			strings.ContainsAny(in.SenderName+in.ID+in.Thread+in.Chat, "\r\n")) {
			t.Errorf("%+v", in)
		}
	})
}
