package mail_test

import (
	"fmt"
	"testing"

	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/channeltest"
	"github.com/corebot/corebot/channels/mail"
	"github.com/corebot/corebot/channels/mail/mailtest"
)

// A program that marks its mails as those of a person has the answers that the settings allow. Another Corebot is known
// by the header of its mails: here by that of this one.
func TestMailHasNoTwoProgramsTalkForEver(t *testing.T) {
	const most = 5
	channeltest.Company(t, func(t *testing.T) channeltest.Subject {
		p := platform(t)
		s := subjectOf(t, p, "self")
		said := func(from, header string) channeltest.Other {
			return channeltest.Other{Say: func(text string) {
				p.Say(mailtest.Said{From: from, Text: text, Headers: header})
			}}
		}
		hidden := said("hidden@people.test", "")
		hidden.Most = most
		s.Company = map[string]channeltest.Other{
			"the account itself":   said(mailtest.Address, ""),
			"a mailing list":       said("list@people.test", "List-Id: <list.people.test>\n"),
			"a program":            said("noreply@people.test", ""),
			"a program that hides": hidden,
			"another Corebot": {Say: func(text string) {
				sent := p.Sent()
				header := read(t, sent[len(sent)-1]).header
				p.Say(mailtest.Said{
					From: "corebot@elsewhere.test", Text: text,
					Headers: fmt.Sprintf("Auto-Submitted: %s\n", header.Get("Auto-Submitted")),
				})
			}},
		}
		s.Open = func() channels.Channel {
			return open(t, settings(p, func(s *mail.Settings) { s.Hourly = most }))
		}
		return s
	})
}
