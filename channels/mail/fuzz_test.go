package mail_test

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/emersion/go-imap/v2"
	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/channeltest"
	"github.com/corebot/corebot/channels/mail"
	"github.com/corebot/corebot/channels/mail/mailtest"
)

// piece ends each piece of what a server says.
const piece = "\x1e"

// spoken makes a channel whose two servers say anything.
func spoken(f *testing.F) (*channeltest.Lines, *channeltest.Lines, func(testing.TB) *mail.Channel) {
	f.Helper()
	boxes, posts := channeltest.NewLines(f), channeltest.NewLines(f)
	return boxes, posts, func(tb testing.TB) *mail.Channel {
		tb.Helper()
		s := mail.Network().Standard.(mail.Settings)
		s.Address, s.Password, s.AuthServID = mailtest.Address, mailtest.Password, mailtest.AuthServID
		s.IMAP, s.SMTP = boxes.Addr(), posts.Addr()
		c, err := mail.New(s, channels.Site{Account: account, Log: zerolog.Nop()})
		if err != nil {
			tb.Fatal(err)
		}
		return c.(*mail.Channel)
	}
}

// FuzzMailbox has an IMAP server say anything: what comes in can be stored, and so can the place.
func FuzzMailbox(f *testing.F) {
	const login = "* OK [CAPABILITY IMAP4rev1 IDLE] hi\r\n" + piece + "T1 OK [CAPABILITY IMAP4rev1 IDLE] in\r\n" + piece
	const box = "* 1 EXISTS\r\n* OK [UIDVALIDITY 7] v\r\n* OK [UIDNEXT 2] n\r\n"
	const text = "From: ann@people.test\r\nMessage-ID: <a@people.test>\r\n\r\nhello"
	for _, seed := range []string{
		login + box + "T2 OK [READ-WRITE] open\r\n" + piece + "T3 OK noop\r\n" + piece + "* SEARCH 1\r\nT4 OK\r\n" +
			piece +
			"* 1 FETCH (UID 1 INTERNALDATE \"01-Jan-2026 00:00:00 +0000\" BODY[]<0> {66}\r\n" + text + ")\r\nT5 OK\r\n",
		login + box + "T2 NO [UNAVAILABLE] no\r\n", login + "T2 OK open\r\n", "* BYE\r\n", "* PREAUTH\r\n", "\r\n", "",
		login + "* 4294967296 EXISTS\r\n* OK [UIDVALIDITY 0] v\r\n* OK [UIDNEXT -1]\r\nT2 OK\r\n" + piece +
			"T3 BAD\r\n",
		login + box + "T2 OK\r\n" + piece + "T3 OK\r\n" + piece + "* SEARCH 4294967295 0 1 1\r\nT4 OK\r\n" + piece +
			"* 1 FETCH (UID 4294967295 BODY[] NIL)\r\n* 2 FETCH (BODY[] {99999999999}\r\n",
		"* OK " + strings.Repeat("(", 5000) + "\r\n",
		"* OK hi\r\n" + piece + "T1 NO " + strings.Repeat("ä", 3000) + "\r\n",
		login + box + "T2 OK\r\n" + piece + "T3 OK\r\n" + piece +
			"* ESEARCH (TAG \"T4\") UID ALL 1:4294967295\r\nT4 OK\r\n" + piece + "T5 OK\r\n",
		"* OK [CAPABILITY IMAP4rev1 (\r\n", login + "* CAPABILITY (\r\nT2 OK\r\n",
		login + "* LIST (\\Noselect) \"/\" \"&AAA-\"\r\n* FLAGS (\\*)\r\n* 1 EXPUNGE\r\nT2 OK\r\n",
	} {
		f.Add(seed)
	}
	boxes, _, open := spoken(f)
	f.Fuzz(func(t *testing.T, says string) {
		boxes.Say(strings.Split(says, piece)...)
		c, d := open(t), &channeltest.Door{}
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		channeltest.RequireBearable(t, c.Run(ctx, d), mailtest.Password)
		for _, in := range d.Got() {
			if corebot.CheckName(in.ID) != nil || corebot.CheckName(in.Chat) != nil || !utf8.ValidString(in.Text()) {
				t.Errorf("it came in: %+v", in)
			}
			for _, p := range in.Parts {
				if err := p.Validate(); err != nil {
					t.Error(err)
				}
			}
		}
		if at := d.Position(); at != "" && mail.CheckPlace(at) != nil {
			t.Errorf("it has stored the place %q", at)
		}
		_, err := c.Check(ctx)
		channeltest.RequireBearable(t, err, mailtest.Password)
	})
}

// FuzzPostOffice has an SMTP server say anything to a mail: it is told apart what was sent, what waits and what is
// over.
func FuzzPostOffice(f *testing.F) {
	const hello, in = "220 hi\r\n" + piece + "250-me\r\n250 AUTH PLAIN\r\n" + piece, "235 in\r\n" + piece
	for _, seed := range []string{
		hello + in + "250 from\r\n" + piece + "250 to\r\n" + piece + "250 to\r\n" + piece + "354 go\r\n" + piece +
			"250 ok\r\n",
		hello + in + "250 from\r\n" + piece + "550 no such person\r\n", hello + in + "451 later\r\n" + piece,
		hello + "535 " + strings.Repeat("ä", 3000) + "\r\n", "554 go away\r\n", "220\r\n", "x", "", "220-\r\n220-\r\n",
		hello + in + "250 from\r\n" + piece + "250 to\r\n" + piece + "250 to\r\n" + piece + "354 go\r\n" + piece +
			"552 large\r\n",
		"220 hi\r\n" + piece + "250-SIZE 99999999999999999999\r\n250 AUTH\r\n" + piece + "334 =\r\n" + piece,
	} {
		f.Add(seed)
	}
	_, posts, open := spoken(f)
	f.Fuzz(func(t *testing.T, says string) {
		posts.Say(strings.Split(says, piece)...)
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		receipt, err := open(t).Send(ctx, answer("hello"))
		channeltest.RequireBearable(t, err, mailtest.Password)
		if (err == nil) != (len(receipt.IDs) == 1) {
			t.Errorf("the receipt is %+v, %v", receipt, err)
		}
	})
}

// TestASearchThatNamesBillionsOfMailsIsReadInParts: a server can also name the highest number, and mails without one.
func TestASearchThatNamesBillionsOfMailsIsReadInParts(t *testing.T) {
	const last = math.MaxUint32
	four := []imap.UID{4}
	for name, c := range map[string]struct {
		found imap.UIDSet
		above imap.UID
		want  []imap.UID
	}{
		"billions":             {imap.UIDSet{{Start: 1, Stop: last}}, 5, []imap.UID{6, 7, 8}},
		"the highest":          {imap.UIDSet{{Start: last - 1, Stop: last}}, 1, []imap.UID{last - 1, last}},
		"nothing above":        {imap.UIDSet{{Start: last, Stop: last}}, last, nil},
		"no number":            {imap.UIDSet{{Start: 0, Stop: 0}, {Start: 3, Stop: 0}, {Start: 4, Stop: 4}}, 0, four},
		"ranges that overlap":  {imap.UIDSet{{Start: 3, Stop: 4}, {Start: 1, Stop: 3}}, 1, []imap.UID{2, 3, 4}},
		"a range from the end": {imap.UIDSet{{Start: 4, Stop: 1}}, 0, nil},
		"nothing":              {nil, 0, nil},
	} {
		if got := mail.UIDsOf(c.found, c.above, 3); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// FuzzPlace reads any stored place: one that is read is stored as it was.
func FuzzPlace(f *testing.F) {
	for _, seed := range []string{
		"7/1/1700000000/0", "7/1/1/4294967296", "-7/1/1/1", "7/1/1/1 ", "+7/1/1/1",
		"07/1/1/1", "",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if mail.CheckPlace(s) == nil && (strings.Count(s, "/") != 3 || strings.Trim(s, "0123456789/-") != "") {
			t.Errorf("%q is a place", s)
		}
	})
}
