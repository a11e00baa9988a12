package mail_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/mail"
	"github.com/corebot/corebot/channels/mail/mailtest"
	"github.com/corebot/corebot/internal/long"
)

// answer is a reply to a mail of Ann.
func answer(text string) channels.Outbound {
	return channels.Outbound{
		ID: "<said@people.test>/1/1", IdempotencyKey: "<said@people.test>/1/1", Kind: corebot.KindReply,
		Key: corebot.Key{
			Agent: "main", Channel: "mail", Account: "main", Chat: ann,
			Thread: "<root@people.test>",
		},
		InReplyTo: "<said@people.test>", Parts: corebot.TextPart(text), CreatedAt: time.Now(),
	}
}

func send(t *testing.T, c *mail.Channel, o channels.Outbound) (channels.Receipt, error) {
	t.Helper()
	return c.Send(t.Context(), o)
}

func TestAReplyIsAMailThatEveryProgramTakesForOne(t *testing.T) {
	s := platform(t)
	s.Say(mailtest.Said{ID: "said", Subject: "RE: re: =?utf-8?q?T=C3=A4a?=", Text: "x"})
	c := open(t, settings(s))
	got, err := send(t, c, answer("See **this** [page](http://a.org/b).\n\n.\nFrom here\n"))
	if err != nil {
		t.Fatal(err)
	}
	all := s.Sent()
	if len(all) != 1 {
		t.Fatalf("%d were sent", len(all))
	}
	m := read(t, all[0])
	for name, want := range map[string]string{
		"From": mailtest.Address, "To": ann, "In-Reply-To": "<said@people.test>",
		"References": "<root@people.test> <said@people.test>", "Auto-Submitted": "auto-replied",
		"Subject": "=?utf-8?q?Re:_T=C3=A4a?=", "Message-Id": got.IDs[0],
	} {
		if has := m.header.Get(name); has != want {
			t.Errorf("%s is %q and not %q", name, has, want)
		}
	}
	if m.to != ann || m.text != "See this page (http://a.org/b).\n\n.\nFrom here" ||
		!strings.Contains(m.page, `<b>this</b> <a href="http://a.org/b">page</a>`) {
		t.Errorf("%q %q", m.text, m.page)
	}
	other := answer("x")
	other.IdempotencyKey += "0"
	again, _ := send(t, c, answer("x"))
	further, _ := send(t, c, other)
	if again.IDs[0] != got.IDs[0] || further.IDs[0] == got.IDs[0] {
		t.Errorf("the ids are %q, %q and %q", got.IDs, again.IDs, further.IDs)
	}
}

// TestWhatAnswersNoMailHasTheSubjectOfItsConversation: the mail that began the conversation never came to the account,
// and another person names the same thread.
func TestWhatAnswersNoMailHasTheSubjectOfItsConversation(t *testing.T) {
	s := platform(t)
	const of = "References: <root@people.test>\n"
	s.Say(mailtest.Said{Subject: "Re: Tea", Text: "x", Headers: of})
	s.Say(mailtest.Said{Subject: "Re: The tea", Text: "x", Headers: of})
	s.Say(mailtest.Said{Subject: "You have won", Text: "x", Headers: of, From: "eve@people.test"})
	c := open(t, settings(s))
	reminder := answer("It is time.")
	reminder.InReplyTo = ""
	for range 2 { // from the mailbox, and from memory
		if _, err := send(t, c, reminder); err != nil {
			t.Fatal(err)
		}
	}
	for _, sent := range s.Sent() {
		h := read(t, sent).header
		if h.Get("Subject") != "Re: The tea" || h.Get("References") != "<root@people.test>" {
			t.Errorf("the reminder is %q, %q", h.Get("Subject"), h.Get("References"))
		}
	}
}

func TestANoticeIsShownAsItIsWritten(t *testing.T) {
	s := platform(t)
	o := answer("run **this** <b>?\nhint: no")
	o.Kind = corebot.KindNotice
	if _, err := send(t, open(t, settings(s)), o); err != nil {
		t.Fatal(err)
	}
	if m := read(t, s.Sent()[0]); m.text != o.Text() || m.page != "" {
		t.Errorf("%q %q", m.text, m.page)
	}
}

func TestNothingThatOthersChooseMakesAHeader(t *testing.T) {
	s := platform(t)
	c := open(t, settings(s))
	o := answer("Bcc: eve@evil.test\r\n\r\nx\r\n.\r\nRCPT TO:<eve@evil.test>")
	o.InReplyTo, o.Key.Thread = "<a@b>\r\nBcc: eve@evil.test", "<c@d>\nBcc: eve@evil.test"
	if _, err := send(t, c, o); err != nil {
		t.Fatal(err)
	}
	if all := s.Sent(); len(all) != 1 || read(t, all[0]).header.Get("Bcc") != "" || all[0].To != ann {
		t.Errorf("%q", all)
	}
	for _, chat := range []string{
		"ann@people.test>\r\nRCPT TO:<eve@evil.test", "ann@people.test,eve@evil.test", "Ann <ann@people.test>",
		"room", "",
	} {
		o := answer("x")
		o.Key.Chat = chat
		_, err := send(t, c, o)
		if f := (*corebot.Failure)(nil); !errors.As(err, &f) || f.Class != corebot.Permanent {
			t.Errorf("%q: %v", chat, err)
		}
	}
}

func TestWhatAServerSaysDecidesWhetherASendIsMadeAgain(t *testing.T) {
	s := platform(t)
	for name, c := range map[string]struct {
		to     string
		change func(*mail.Settings)
		want   corebot.Class
		says   string
	}{
		"nobody is there": {"x-permerror@people.test", nil, corebot.Permanent, "there is nobody"},
		"not now":         {"x-temperror@people.test", nil, corebot.RateLimited, "come again"},
		"the password is wrong": {
			ann, func(x *mail.Settings) { x.Password = "wrong" }, corebot.Cancelled,
			"refuses user",
		},
		"the server is away": {ann, func(x *mail.Settings) { x.SMTP = "127.0.0.1:1" }, corebot.Cancelled, "connect"},
	} {
		change := c.change
		if change == nil {
			change = func(*mail.Settings) {}
		}
		o := answer("x")
		o.Key.Chat = c.to
		_, err := send(t, open(t, settings(s, change)), o)
		f := (*corebot.Failure)(nil)
		if !errors.As(err, &f) || f.Class != c.want || !strings.Contains(err.Error(), c.says) ||
			errors.Is(err, channels.ErrMayBeShown) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestASendWhoseAnswerIsLostIsFoundInTheMailbox(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*mail.Settings){
		"self": func(*mail.Settings) {}, "append": func(x *mail.Settings) { x.SentCopy = "append" },
	} {
		s := platform(t)
		c := open(t, settings(s, change))
		_, shown, err := c.Delivered(t.Context(), answer("x"))
		if name == "self" && (shown || err != nil) || name == "append" && !errors.Is(err, channels.ErrCannotTell) {
			t.Errorf("%s: before the send: %v %v", name, shown, err)
		}
		s.Drop(1)
		if _, err := send(t, c, answer("x")); !errors.Is(err, channels.ErrMayBeShown) {
			t.Errorf("%s: a lost answer is %v", name, err)
		}
		if name == "append" { // the copy was never filed: nobody can tell
			if _, _, err := c.Delivered(t.Context(), answer("x")); !errors.Is(err, channels.ErrCannotTell) {
				t.Errorf("%v", err)
			}
			if _, err := send(t, c, answer("x")); err != nil {
				t.Error(err)
			}
		}
		r, shown, err := open(t, settings(s, change)).Delivered(t.Context(), answer("x"))
		if !shown || err != nil || len(r.IDs) != 1 {
			t.Errorf("%s: afterwards: %v %v", name, shown, err)
		}
	}
}

// A chat whose last send failed has 5 s for the next one: less than a copy can be on its way.
func TestALookThatEndsTooSoonForACopyLeavesTheQuestionOpen(t *testing.T) {
	t.Parallel()
	s := platform(t)
	c := open(t, settings(s))
	began := time.Now()
	for open := 0; ; open++ {
		soon, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		_, shown, err := c.Delivered(soon, answer("x"))
		cancel()
		f := (*corebot.Failure)(nil)
		switch {
		case shown || err != nil && (!errors.As(err, &f) || f.Class != corebot.Cancelled || f.RetryAfter <= 0):
			t.Fatalf("%v %v", shown, err)
		case err == nil && (open == 0 || time.Since(began) < mail.Arrives()):
			t.Fatalf("the mail counts as not sent after %v, in call %d", time.Since(began), open)
		case err == nil:
			return
		}
	}
}

// Most copies come long before the end of the wait for the latest one.
func TestACopyThatMayComeLateIsLookedForSoonAgain(t *testing.T) {
	t.Parallel()
	c := open(t, settings(platform(t)))
	c.Late(time.Hour)
	soon, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, shown, err := c.Delivered(soon, answer("x"))
	f := (*corebot.Failure)(nil)
	if shown || !errors.As(err, &f) || f.Class != corebot.Cancelled || f.RetryAfter > 10*time.Second {
		t.Errorf("%v %+v", shown, err)
	}
}

// A server can be so busy that copies wait in its queue: a look that ends before that would have the mail sent again.
func TestACopyOnALateServerHasMoreTime(t *testing.T) {
	t.Parallel()
	s, p := platform(t), newPorter()
	c := open(t, settings(s))
	run(t, c, p)
	s.Awaited()
	if _, err := send(t, c, answer("x")); err != nil {
		t.Fatal(err)
	}
	filed := func(n int) func() bool {
		return func() bool { is, _ := s.Count("Sent"); return is == n }
	}
	until(t, "the copy is filed", filed(1))
	late := 2 * mail.Arrives()
	at := time.Now().Truncate(time.Second)
	taken := "from y by x with ESMTPA id\r\n\tz " + at.Add(-late).Format("2 Jan 2006 15:04:05 -0700")
	raw := "Received: from x by z; " + at.Format(time.RFC1123Z) + "\r\nReceived: " + taken + "\r\n"
	s.Deliver([]byte(raw+string(s.Sent()[0].Raw)), at)
	until(t, "the late copy is filed", filed(2))
	until(t, "a mail that was never sent is looked for that long", func() bool { return c.Waits() >= 2*late })
	if long.Or(true, false) { // Delivered waits as long as a mail without a copy does in other tests
		return
	}
	began := time.Now()
	o := answer("y")
	o.IdempotencyKey = "another"
	if _, shown, err := c.Delivered(t.Context(), o); shown || err != nil {
		t.Errorf("%v %v", shown, err)
	}
	if took := time.Since(began); took < 2*late {
		t.Errorf("a mail that was never sent is looked for during %v only", took)
	}
}

// The servers of IMAP and SMTP are often two. While the second is down, a mail that it has taken waits in its spool.
func TestNoMailCountsAsMissingWhileTheServerThatSendsIsDown(t *testing.T) {
	s := platform(t)
	c := open(t, settings(s, func(x *mail.Settings) { x.SMTP = "127.0.0.1:1" }))
	_, shown, err := c.Delivered(t.Context(), answer("x"))
	f := (*corebot.Failure)(nil)
	if shown || !errors.As(err, &f) || f.Class != corebot.Cancelled {
		t.Errorf("%v %v", shown, err)
	}
}

func TestTheAccountsOwnCopiesAreFiledAndNotAnswered(t *testing.T) {
	s, p := platform(t), newPorter()
	c := open(t, settings(s))
	run(t, c, p)
	s.Awaited()
	if _, err := send(t, c, answer("x")); err != nil {
		t.Fatal(err)
	}
	until(t, "the copy is filed", func() bool {
		left, _ := s.Count("INBOX")
		filed, _ := s.Count("Sent")
		return left == 0 && filed == 1
	})
	if _, shown, err := c.Delivered(t.Context(), answer("x")); !shown || err != nil {
		t.Errorf("%v %v", shown, err)
	}
	if len(p.texts()) != 0 {
		t.Errorf("%q came in", p.texts())
	}
}
