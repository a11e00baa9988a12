package irc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/markup"
	"github.com/corebot/corebot/internal/lazy"
)

// recipient is the place that a key names.
type recipient struct {
	channel          string
	account          string // of a private chat with somebody whom the server knows
	nick, userAtHost string // of a private chat with a stranger
}

// recipientOf reads the chat of a key.
func recipientOf(k corebot.Key) (to recipient, err error) {
	nick, address, stranger := strings.Cut(k.Chat, "!")
	account, known := strings.CutPrefix(k.Chat, "@")
	switch {
	case k.Thread != "":
		return to, fmt.Errorf("%w: IRC has no threads", corebot.ErrInvalid)
	case isChannel(k.Chat):
		return recipient{channel: k.Chat}, nil
	case known && isNick(account) || known && accountShape().MatchString(account):
		return recipient{account: account}, nil
	case stranger && isNick(nick) && strings.Contains(address, "@"):
		return recipient{nick: nick, userAtHost: address}, nil
	}
	return to, corebot.WithHint(
		fmt.Errorf("%w: chat %q is no channel and no person of IRC", corebot.ErrInvalid, k.Chat),
		"`corebot chats list` shows the chats that have written")
}

// accountShape is what an account can look like whose name is no nick.
var accountShape = lazy.Regexp(`^[^\s,:!*@]{1,100}$`)

// Send shows one line: the beginning of the text, as much as fits. The receipt says how far that is.
func (c *Channel) Send(ctx context.Context, o channels.Outbound) (channels.Receipt, error) {
	to, err := recipientOf(o.Key)
	if err != nil {
		return channels.Receipt{}, &corebot.Failure{Class: corebot.Permanent, Err: err}
	}
	s, err := c.session(ctx)
	if err != nil {
		return channels.Receipt{}, err
	}
	if !s.take(ctx) {
		return channels.Receipt{}, c.notYet()
	}
	defer s.leave()
	target, err := s.find(ctx, to, o)
	if err != nil {
		return channels.Receipt{}, err
	}
	return s.show(ctx, target, o)
}

// notYet is the error of a line that had no time before its end.
func (c *Channel) notYet() error {
	return &corebot.Failure{
		Class: corebot.Cancelled, RetryAfter: c.settings.Pace, Err: errors.New("other lines were sent first; it waits"),
	}
}

// show sends the next line. A line whose looks the channel refuses goes as plain text.
func (s *session) show(ctx context.Context, target string, o channels.Outbound) (r channels.Receipt, err error) {
	whole := o.Before + o.Text()
	document := markup.Of(o.Kind, whole)
	first, room := s.addressed(target, o)
	spans, to := piece(document, len(o.Before), room-len(mark+first))
	r.Reached = to - len(o.Before)
	for i, styled := range lines(spans) {
		if i > 0 {
			first = ""
		}
		plain := guarded(safe(markup.Text(styled)))
		if strings.TrimSpace(plain) == "" {
			continue
		}
		fits := func(text string) []string { return channels.Split(text, room-len(mark+first)) }
		for i, text := range fits(guarded(look(styled))) { // one, unless an address is longer than a line
			if !s.of.pace.turn(ctx) {
				return channels.Receipt{}, s.of.notYet()
			}
			a, err := s.ask(ctx, "PRIVMSG "+target+" :"+mark+first+text)
			if all := fits(plain); refusedLooks(a, target, err) && i < len(all) {
				a, err = s.ask(ctx, "PRIVMSG "+target+" :"+first+all[i])
			}
			if err == nil {
				err = refusal(a, target)
			}
			if err != nil {
				return channels.Receipt{}, err
			}
			if a.echo != "" && corebot.CheckName(a.echo) == nil {
				r.IDs = append(r.IDs, a.echo)
			}
		}
	}
	return r, nil
}

// minRoom is how much of a line is left for its text at least.
const minRoom = 256

// addressed is what stands before a line, and the room for it and its text. The first line of an answer in a channel
// begins with the nick of the asker.
func (s *session) addressed(target string, o channels.Outbound) (first string, room int) {
	room = maxLine - s.overhead(target)
	if !isChannel(target) || o.Before != "" || o.InReplyTo == "" {
		return "", room
	}
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	asker := cmp.Or(s.of.askers.nick[o.InReplyTo], s.of.speakers.nick[o.InReplyTo])
	if asker != "" && room-len(asker) > minRoom+10 {
		first = asker + ": "
	}
	return first, room
}

// piece is the next line, with the codes of its looks at most as long as there is room.
func piece(d markup.Document, from, room int) (spans []markup.Span, to int) {
	for limit := max(room, minRoom); ; {
		spans, to = d.Line(from, limit, func(s string) int { return len(s) })
		over := 0
		for _, l := range lines(spans) {
			over = max(over, len(guarded(look(l)))-room)
		}
		if over <= 0 || limit == minRoom {
			return spans, to
		}
		limit = max(limit-over, minRoom)
	}
}

// lines cuts styled text at its line breaks. There is mostly one.
func lines(spans []markup.Span) (all [][]markup.Span) {
	var now []markup.Span
	for _, span := range spans {
		for i, text := range strings.Split(span.Text, "\n") {
			if i > 0 {
				all, now = append(all, now), nil
			}
			if span.Text = text; text != "" {
				now = append(now, span)
			}
		}
	}
	return append(all, now)
}

// codes are the codes of looks, which begin and end a style alike.
var codes = []struct {
	style markup.Style
	code  string
}{{markup.Bold, "\x02"}, {markup.Italic, "\x1d"}, {markup.Struck, "\x1e"}, {markup.Code, "\x11"}}

// look writes spans with codes.
func look(spans []markup.Span) string {
	var b strings.Builder
	for i, span := range spans {
		var on string
		for _, c := range codes {
			if span.Style&c.style != 0 {
				on += c.code
			}
		}
		b.WriteString(on + safe(span.Text) + on)
		if span.Link != "" && span.Link != span.Text && (i+1 == len(spans) || spans[i+1].Link != span.Link) {
			b.WriteString(safe(" (" + span.Link + ")"))
		}
	}
	return b.String()
}

// safe is a text without control characters: none of them is of a model.
func safe(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ReplaceAll(strings.ToValidUTF8(text, "\ufffd"), "\t", "    "))
}

// guarded keeps a line from being a command of another bot, such as "!kick somebody": it begins with a space then.
func guarded(text string) string {
	words := strings.TrimLeft(text, "\x02\x11\x1d\x1e")
	r, width := utf8.DecodeRuneInString(words)
	next, _ := utf8.DecodeRuneInString(words[min(width, len(words)):])
	if (unicode.IsPunct(r) || unicode.IsSymbol(r)) && unicode.IsLetter(next) {
		return " " + text
	}
	return text
}

// failed is what the server said against a line to a target, or nil.
func (a *asked) failed(target string) *line {
	for i, l := range a.said {
		about := fold(l.param(1)) == fold(target) || l.param(1) == "PRIVMSG" || l.command == "412" || l.command == "417"
		if (l.command >= "400" && l.command < "800" || l.command == "263") && about ||
			l.command == "FAIL" && l.param(0) == "PRIVMSG" {
			return &a.said[i]
		}
	}
	return nil
}

// refusedLooks says whether a channel has refused a line for its looks.
func refusedLooks(a *asked, target string, err error) bool {
	if err != nil {
		return false
	}
	l := a.failed(target)
	if l == nil {
		return false
	}
	words := fold(l.last())
	return slices.ContainsFunc([]string{"color", "colour", "formatting", "control codes"}, func(sign string) bool {
		return strings.Contains(words, sign)
	})
}

var (
	errAbsent = errors.New("the person is not on the server, or not under a nick that is logged in to the account")
	mute      = corebot.WithHint(errors.New("the channel does not let Corebot speak"),
		"ask an operator of the channel for voice, or for an exception from its modes")
	outside = corebot.WithHint(errors.New("no member of the channel: it has not let Corebot in, or has kicked it out"),
		"invite it again, or look at channels.irc.ACCOUNT.channels")
)

var seconds = lazy.Regexp(`([0-9]{1,4}) ?sec`)

// refusal is what a refused line means for its message.
func refusal(a *asked, target string) error {
	l := a.failed(target)
	if l == nil {
		return nil
	}
	said := fmt.Sprintf("%s %.300q", l.command, l.last())
	slow := func(err error, after time.Duration) error {
		err = fmt.Errorf("%w; it says: %s", err, said)
		return &corebot.Failure{Class: corebot.RateLimited, RetryAfter: after, Err: err}
	}
	switch l.command {
	case "263", "439", "707":
		wait := time.Duration(0)
		if m := seconds().FindStringSubmatch(l.last()); m != nil {
			n, _ := strconv.Atoi(m[1]) // digits
			wait = time.Duration(n) * time.Second
		}
		return slow(errors.New("the server asks to wait"), wait)
	case "401", "406":
		if !isChannel(target) {
			return slow(errAbsent, 0)
		}
	case "404", "FAIL":
		return slow(mute, 0)
	case "403", "442":
	default:
		return &corebot.Failure{Class: corebot.Permanent, Err: fmt.Errorf("the server refuses the line: %s", said)}
	}
	return &corebot.Failure{Class: corebot.Permanent, Err: fmt.Errorf("%w; it says: %s", outside, said)}
}

// found is the nick behind a private chat, and when the server has said so.
type found struct {
	nick string
	at   time.Time
}

// fresh is how long what the server has said of a nick counts for the further lines of an answer.
const fresh = 30 * time.Second

// find is the nick or the channel to write to. Of a private chat the server is asked first who has the nick: a nick can
// have changed hands since the question.
func (s *session) find(ctx context.Context, to recipient, o channels.Outbound) (string, error) {
	if to.channel != "" {
		return to.channel, nil
	}
	if was, is := s.checked[o.Key.Chat]; is && o.Before != "" && time.Since(was.at) < fresh && time.Since(was.at) >= 0 {
		return was.nick, nil
	}
	for _, nick := range s.of.candidates(to) {
		if !s.of.pace.turn(ctx) {
			return "", s.of.notYet()
		}
		a, err := s.ask(ctx, "WHOIS "+nick)
		if err != nil { // nothing was shown
			err = fmt.Errorf("ask who %s is: %v", nick, err)
			return "", &corebot.Failure{Class: corebot.Cancelled, RetryAfter: soon, Err: err}
		}
		if slices.ContainsFunc(a.said, to.is(nick)) {
			if len(s.checked) >= maxNames {
				clear(s.checked)
			}
			s.checked[o.Key.Chat] = found{nick, time.Now()}
			return nick, nil
		}
		if l := a.failed("WHOIS"); l != nil {
			return "", refusal(a, "WHOIS")
		}
	}
	return "", &corebot.Failure{Class: corebot.RateLimited, Err: errAbsent}
}

// candidates are the nicks that can be meant.
func (c *Channel) candidates(to recipient) (nicks []string) {
	if to.nick != "" {
		return []string{to.nick}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if last := c.nicks.nick[to.account]; last != "" {
		nicks = append(nicks, last)
	}
	if isNick(to.account) && !slices.Contains(nicks, to.account) {
		nicks = append(nicks, to.account)
	}
	return nicks
}

// is says whether an answer to WHOIS shows that a nick is meant.
func (to recipient) is(nick string) func(line) bool {
	return func(l line) bool {
		switch {
		case fold(l.param(1)) != fold(nick):
			return false
		case to.account != "":
			return l.command == "330" && fold(l.param(2)) == to.account
		}
		return l.command == "311" && l.param(2)+"@"+l.param(3) == to.userAtHost
	}
}
