package main

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corebot/corebot/channels/discord/discordtest"
	"github.com/corebot/corebot/channels/irc/irctest"
	"github.com/corebot/corebot/channels/matrix/matrixtest"
	"github.com/corebot/corebot/channels/slack/slacktest"
	"github.com/corebot/corebot/channels/telegram/telegramtest"
	"github.com/corebot/corebot/internal/long"
)

// networks are the platforms on which bots are killed.
var networks = []network{
	{name: "telegram", kind: "telegram", open: openTelegram},
	{name: "telegram-webhook", kind: "telegram", open: openTelegramHook},
	{name: "telegram-stream", kind: "telegram", streams: true, open: openTelegramStream},
	{name: "matrix", kind: "matrix", history: true, streams: true, open: openMatrix},
	{name: "discord", kind: "discord", history: true, streams: true, open: openDiscord},
	{name: "dendrite", kind: "matrix", history: true, streams: true, open: openDendrite},
	{name: "slack", kind: "slack", history: true, streams: true, open: openSlack},
	{name: "irc", kind: "irc", forgets: true, open: openIRC},
	{name: "mail", kind: "mail", history: true, open: openMail},
	{name: "exim", kind: "mail", history: true, open: openPostOffice},
	{name: "mox", kind: "mail", history: true, open: openMox},
	{name: "ngircd", kind: "irc", forgets: true, open: openNgircd},
	{name: "inspircd", kind: "irc", forgets: true, open: openInspircd},
}

// telegramPlatform cannot tell what it shows.
type telegramPlatform struct {
	*telegramtest.Server
	hook    string // where the bot listens; empty: it polls
	stream  bool   // answers are shown while they grow
	dropped atomic.Int64
}

func openTelegram(t *testing.T, _ int) networkPlatform {
	p := &telegramPlatform{Server: telegramtest.New()}
	t.Cleanup(p.Close)
	sends := 0
	p.Faults(func(c telegramtest.Call) telegramtest.Fault {
		if c.Method != "sendMessage" && c.Method != "editMessageText" {
			return telegramtest.Fault{}
		}
		switch sends++; {
		case sends%long.Or(11, 47) == 0:
			p.dropped.Add(1)
			return telegramtest.Fault{DropAfter: true}
		case sends%long.Or(13, 61) == 0 && c.Method == "sendMessage": // a refused edit ends drafts for long
			return telegramtest.Flood(0.2)
		}
		return telegramtest.Fault{}
	})
	return p
}

// openTelegramHook is a platform that posts what people write, some of it twice.
func openTelegramHook(t *testing.T, chats int) networkPlatform {
	p := openTelegram(t, chats).(*telegramPlatform)
	p.hook = freeAddr(t)
	p.PostFaults(func(n int) telegramtest.PostFault {
		return telegramtest.PostFault{Forget: n%7 == 0, Twice: n%11 == 0}
	})
	return p
}

// openTelegramStream is a platform on which answers grow.
func openTelegramStream(t *testing.T, chats int) networkPlatform {
	p := openTelegram(t, chats).(*telegramPlatform)
	p.stream = true
	return p
}

func (p *telegramPlatform) settings() string {
	if p.stream {
		return fmt.Sprintf("{token: %q, api_url: %q, access: open, stream: 10ms}", telegramtest.Token, p.URL())
	}
	if p.hook != "" {
		return fmt.Sprintf("{token: %q, api_url: %q, access: open, webhook_url: %q, webhook_addr: %q}",
			telegramtest.Token, p.URL(), "http://"+p.hook+"/telegram", p.hook)
	}
	return fmt.Sprintf("{token: %q, api_url: %q, access: open}", telegramtest.Token, p.URL())
}

func telegramPerson(chat int) telegramtest.User {
	return telegramtest.User{ID: int64(5000 + chat), FirstName: "P"}
}

func (p *telegramPlatform) say(chat int, text string) {
	p.Say(telegramtest.Said{From: telegramPerson(chat), Text: text})
}

// shown leaves out drafts that were cut off before anything stood in them. A kill between the answer of the platform
// and the commit that notes the draft leaves one.
func (p *telegramPlatform) shown(chat int) []string {
	empty := func(text string) bool { return p.stream && text == "…" }
	return slices.DeleteFunc(p.Texts(telegramPerson(chat).ID), empty)
}

func (p *telegramPlatform) away(meanwhile func()) {
	p.Silence(true)
	time.Sleep(20 * time.Millisecond) // a refusal that is cut off would be heard by nobody, and counts here
	p.Cut()
	meanwhile()
	time.Sleep(300 * time.Millisecond)
	p.Silence(false)
}

func (p *telegramPlatform) lost() (n int, once bool) { return int(p.dropped.Load()), false }

func (p *telegramPlatform) complaints() []string { return p.Complaints() }

func (p *telegramPlatform) edits() (texts []string) {
	for _, c := range p.Calls("editMessageText") {
		texts = append(texts, c.Text)
	}
	return texts
}

// grown is what is wrong with the edits by which answers have grown.
func grown(edits []string) (wrong []string) {
	if slices.ContainsFunc(edits, func(text string) bool { return strings.Contains(text, thought[:4]) }) {
		wrong = append(wrong, "an edit has shown what the model thinks")
	}
	if n := len(edits); n < networkMessages()/4 {
		wrong = append(wrong, fmt.Sprintf("only %d edits have shown that answers grow", n))
	}
	return wrong
}

// matrixPlatform knows no transaction any more after each of its restarts.
type matrixPlatform struct {
	*matrixtest.Server
	dropped atomic.Int64
}

func matrixRoom(chat int) string { return fmt.Sprintf("!room%d:test", chat) }

func openMatrix(t *testing.T, chats int) networkPlatform {
	p := &matrixPlatform{Server: matrixtest.New()}
	t.Cleanup(p.Close)
	for chat := range chats {
		p.Room(matrixRoom(chat), fmt.Sprintf("@person%d:test", chat))
	}
	sends := 0
	p.Faults(func(c matrixtest.Call) matrixtest.Fault {
		if c.Name != "send" && c.Name != "redact" {
			return matrixtest.Fault{}
		}
		switch sends++; {
		case sends%long.Or(11, 23) == 0:
			p.dropped.Add(1)
			return matrixtest.Fault{DropAfter: true}
		case sends%long.Or(13, 61) == 0:
			return matrixtest.Flood(200)
		}
		return matrixtest.Fault{}
	})
	return p
}

func (p *matrixPlatform) settings() string {
	return matrixSettings(p.URL(), matrixtest.Token)
}

func matrixSettings(homeserver, token string) string {
	return fmt.Sprintf("{homeserver: %q, token: %q, hourly: 1000000, access: open, stream: 10ms}", homeserver, token)
}

func (p *matrixPlatform) say(chat int, text string) {
	p.Say(matrixtest.Said{Room: matrixRoom(chat), From: fmt.Sprintf("@person%d:test", chat), Text: text})
}

func (p *matrixPlatform) shown(chat int) []string { return p.Texts(matrixRoom(chat)) }

func (p *matrixPlatform) away(meanwhile func()) {
	p.Silence(true)
	p.Restart()
	meanwhile()
	time.Sleep(300 * time.Millisecond)
	p.Silence(false)
}

func (p *matrixPlatform) lost() (n int, once bool) { return int(p.dropped.Load()), true }
func (p *matrixPlatform) complaints() []string     { return p.Complaints() }
func (p *matrixPlatform) edits() []string          { return p.Edited() }

// ircPlatform forgets what it has shown, and cannot tell what it shows.
type ircPlatform struct {
	*irctest.Server
	dropped atomic.Int64
}

func openIRC(t *testing.T, chats int) networkPlatform {
	p := &ircPlatform{Server: irctest.New(nil)}
	t.Cleanup(p.Close)
	for chat := range chats {
		p.Arrive(ircPerson(chat))
	}
	sends := 0
	p.Drop(func() bool {
		sends++
		if sends%long.Or(11, 47) == 0 {
			p.dropped.Add(1)
		}
		return sends%long.Or(11, 47) == 0
	})
	return p
}

func ircPerson(chat int) irctest.Person {
	name := fmt.Sprint("person", chat)
	return irctest.Person{Nick: name, Account: name}
}

func (p *ircPlatform) settings() string { return ircSettings(p.Addr()) }

// ircSettings are those of an account that nobody takes for a flood.
func ircSettings(addr string) string {
	return fmt.Sprintf("{addr: %q, tls: false, pace: 1ms, hourly: 1000000, access: open}", addr)
}

func (p *ircPlatform) say(chat int, text string) { p.Say(ircPerson(chat), "corebot", text) }
func (p *ircPlatform) chatLike(chat int) string  { return fmt.Sprint("@person", chat) }

func (p *ircPlatform) shown(chat int) (texts []string) {
	for _, l := range p.Shown(ircPerson(chat).Nick) {
		texts = append(texts, strings.TrimPrefix(l, "\x0f"))
	}
	return texts
}

func (p *ircPlatform) away(meanwhile func()) {
	p.Ban("the server is restarted")
	p.Cut()
	meanwhile()
	time.Sleep(300 * time.Millisecond)
	p.Ban("")
}

func (p *ircPlatform) lost() (n int, once bool) { return int(p.dropped.Load()), false }
func (p *ircPlatform) complaints() []string     { return p.Complaints() }

// slackPlatform loses the events of a time in which the app is not connected: the app must fetch them.
type slackPlatform struct {
	*slacktest.Server
	dropped atomic.Int64
}

func slackChat(chat int) string { return fmt.Sprint("D0CHAT", chat) }

func openSlack(t *testing.T, chats int) networkPlatform {
	p := &slackPlatform{Server: slacktest.New()}
	t.Cleanup(p.Close)
	for chat := range chats {
		p.Open(slackChat(chat))
	}
	sends := 0
	p.Faults(func(c slacktest.Call) slacktest.Fault {
		if !strings.HasPrefix(c.Method, "chat.") {
			return slacktest.Fault{}
		}
		switch sends++; {
		case sends%long.Or(11, 23) == 0:
			p.dropped.Add(1)
			return slacktest.Fault{DropAfter: true}
		case sends%long.Or(13, 61) == 0:
			return slacktest.Fault{Status: 429, RetryAfter: 1}
		}
		return slacktest.Fault{}
	})
	return p
}

func (p *slackPlatform) settings() string {
	return fmt.Sprintf("{token: %q, app_token: %q, api_url: %q, access: open, stream: 10ms}", slacktest.Token,
		slacktest.AppToken, p.URL())
}

func (p *slackPlatform) say(chat int, text string) {
	p.Say(slacktest.Said{Channel: slackChat(chat), User: fmt.Sprint("U0P", chat), Text: text})
}

func (p *slackPlatform) shown(chat int) []string { return p.Texts(slackChat(chat)) }

func (p *slackPlatform) away(meanwhile func()) {
	p.Silence(true)
	p.Cut()
	meanwhile()
	time.Sleep(300 * time.Millisecond)
	p.Silence(false)
}

func (p *slackPlatform) lost() (n int, once bool) { return int(p.dropped.Load()), true }
func (p *slackPlatform) complaints() []string     { return p.Complaints() }
func (p *slackPlatform) edits() []string          { return p.Edited() }

// discordPlatform forgets every session while it is out of reach: then only its history has what was said.
type discordPlatform struct {
	*discordtest.Server
	dropped atomic.Int64
}

func discordPerson(chat int) discordtest.User {
	return discordtest.User{ID: fmt.Sprint(400000000000005000 + chat), Name: "person"}
}

func openDiscord(t *testing.T, chats int) networkPlatform {
	p := &discordPlatform{Server: discordtest.New()}
	t.Cleanup(p.Close)
	p.EditsIn = 100 * time.Millisecond // the budget of a channel would be used up by a few answers
	for chat := range chats {
		p.Know(discordPerson(chat))
	}
	sends := 0
	p.Faults(func(c discordtest.Call) discordtest.Fault {
		if c.Name != "send" && c.Name != "edit" && c.Name != "delete" {
			return discordtest.Fault{}
		}
		switch sends++; {
		case sends%long.Or(11, 23) == 0:
			p.dropped.Add(1)
			return discordtest.Fault{DropAfter: true}
		case sends%long.Or(13, 61) == 0:
			return discordtest.Flood(0.2)
		}
		return discordtest.Fault{}
	})
	return p
}

func (p *discordPlatform) settings() string {
	return fmt.Sprintf("{token: %q, api_url: %q, access: open, stream: 10ms}", discordtest.Token, p.URL())
}

func (p *discordPlatform) say(chat int, text string) {
	p.Say(discordtest.Said{From: discordPerson(chat), Text: text})
}

func (p *discordPlatform) shown(chat int) []string {
	return p.Texts(discordtest.DirectOf(discordPerson(chat)))
}

func (p *discordPlatform) away(meanwhile func()) {
	p.Silence(true)
	p.Cut()
	p.Forget()
	meanwhile()
	time.Sleep(300 * time.Millisecond)
	p.Silence(false)
}

func (p *discordPlatform) lost() (n int, once bool) { return int(p.dropped.Load()), true }

func (p *discordPlatform) complaints() []string { return p.Complaints() }

func (p *discordPlatform) edits() (texts []string) {
	for _, c := range p.Calls("edit") {
		texts = append(texts, string(c.Body))
	}
	return texts
}
