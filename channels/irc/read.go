package irc

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
)

// mark stands at the begin of each line of a Corebot. People do not see it: it ends styles that there are none of. By
// it one Corebot knows another, so that two of them do not answer each other for ever.
const mark = "\x0f"

// accountOf is the services account that the server has put on a line. A client cannot set it. Without it nobody knows
// who wrote the line: a nick is whose it is at the moment.
func (s *session) accountOf(l line) string {
	account := l.tags["account"]
	if !s.caps["account-tag"] || account == "*" || account == "" || len(account) > 100 ||
		strings.ContainsFunc(account, func(r rune) bool { return r <= ' ' || r == 0x7f || unicode.IsControl(r) }) {
		return ""
	}
	return fold(account)
}

// accountChat is the private chat of an account; no nick begins like it.
func accountChat(account string) string { return "@" + account }

// reads makes a message of a line. means is false for a line that says nothing to Corebot.
func (c *Channel) reads(s *session, l line) (in channels.Incoming, means bool) {
	target, text := l.param(0), l.param(1)
	if !isNick(l.source.nick) || l.source.user == "" || s.again(l) {
		return in, false
	}
	account := s.accountOf(l)
	in.SenderID, in.SenderName = account, l.source.nick
	in.Bot = l.command == "NOTICE" || strings.HasPrefix(text, mark)
	if _, bot := l.tags["bot"]; bot {
		in.Bot = true
	}
	in.Interactive = !in.Bot
	switch {
	case isChannel(target):
		in.Chat, in.Envelope.Group = fold(target), true
	case !s.own(target) || l.command == "NOTICE": // to some in a channel, or of services
		return in, false
	case account != "":
		in.Chat = accountChat(account)
	default:
		in.Chat = fold(l.source.nick) + "!" + l.source.user + "@" + l.source.host
	}
	in.ID = s.idOf(l)
	in.Envelope.SentAt = time.Now()
	if to := l.tags["+draft/reply"]; corebot.CheckName(to) == nil && corebot.CheckID(to) == nil {
		in.Envelope.ReplyTo = to
	}
	text, means = spoken(text, l.source.nick)
	if !means || corebot.CheckName(in.Chat) != nil {
		return in, false
	}
	text, in.Envelope.Mentioned = s.words(text)
	in.Parts = corebot.TextPart(text)
	in.Hourly, in.By = &c.hourly, account
	if account == "" {
		in.By = l.source.user + "@" + l.source.host
	}
	c.remember(in, account, l)
	return in, true
}

// remember notes under which nick somebody spoke.
func (c *Channel) remember(in channels.Incoming, account string, l line) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if account != "" {
		c.nicks.is(account, l.source.nick)
	}
	switch {
	case in.Envelope.Group && in.Envelope.Mentioned:
		c.askers.is(in.ID, l.source.nick)
	case in.Envelope.Group:
		c.speakers.is(in.ID, l.source.nick)
	}
}

// idOf is the id of a message: the server's own, or the number of the line on this connection.
func (s *session) idOf(l line) string {
	if id := l.tags["msgid"]; id != "" && s.caps["message-tags"] && corebot.CheckName(id) == nil &&
		corebot.CheckID(id) == nil {
		return id
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.number++
	return fmt.Sprintf("%s/%d", s.id, s.number)
}

// spoken is what somebody says: without looks, and what he does as words. Other requests between programs are not said.
func spoken(text, nick string) (string, bool) {
	if ctcp, is := strings.CutPrefix(text, "\x01"); is {
		ctcp = strings.TrimSuffix(ctcp, "\x01")
		doing, is := strings.CutPrefix(ctcp, "ACTION ")
		if !is {
			return "", false
		}
		text = "* " + nick + " " + doing
	}
	text = strings.TrimSpace(bare(text))
	return text, text != ""
}

// bare is a text without the codes of looks and colours.
func bare(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); {
		r, width := utf8.DecodeRuneInString(text[i:])
		i += width
		switch {
		case r == 3: // a colour: up to two digits, a comma, two digits
			i += digits(text[i:], 2)
			if strings.HasPrefix(text[i:], ",") {
				if n := digits(text[i+1:], 2); n > 0 {
					i += 1 + n
				}
			}
		case r == 4: // a colour of six digits
			if n := hexDigits(text[i:], 6); n == 6 {
				i += n
			}
		case r == '\t':
			b.WriteByte(' ')
		case unicode.IsControl(r):
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func digits(s string, most int) (n int) {
	for n < most && n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}

func hexDigits(s string, most int) (n int) {
	for n < most && n < len(s) && strings.ContainsRune("0123456789abcdefABCDEF", rune(s[n])) {
		n++
	}
	return n
}

// words reads a text without the nick of Corebot before its first word, and says whether the text names it. "!status"
// is "/status": programs for IRC keep slashes for themselves.
func (s *session) words(text string) (said string, mentioned bool) {
	s.mu.Lock()
	nicks := []string{fold(s.nick), fold(s.of.settings.Nick)}
	s.mu.Unlock()
	first, rest, _ := strings.Cut(text, " ")
	called := strings.TrimPrefix(strings.TrimRight(first, ":,"), "@")
	if slices.Contains(nicks, fold(called)) && (called != first || len(rest) == 0) {
		text, mentioned = strings.TrimSpace(rest), true
		if text == "" {
			text = first
		}
	}
	for word := range strings.FieldsFuncSeq(fold(text), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_[]{}\\|^`", r)
	}) {
		mentioned = mentioned || slices.Contains(nicks, word)
	}
	if command, args, _ := strings.Cut(text, " "); strings.HasPrefix(command, "!") {
		command = "/" + command[1:]
		if slices.ContainsFunc(corebot.Commands(), func(u corebot.CommandUsage) bool { return u.Name == command }) {
			text = strings.TrimSpace(command + " " + args)
		}
	}
	return text, mentioned
}
