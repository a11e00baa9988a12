package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/corebot/corebot"
)

// doors are the chat networks whose people send bad input.
var doors = []string{"telegram", "matrix", "discord", "slack", "irc", "mail"}

const (
	corporaChats   = 20
	corporaPrompts = 5   // of so many items one is a prompt
	corporaWave    = 200 // items that people say before Corebot has settled them: a poll brings many of them
	corporaRoom    = "#crowd"
)

// crier is a network on which people send bad input.
type crier struct {
	*besieged
	// cry has a person say an item. Of most networks it is chatter of a group unless it is a prompt.
	cry   func(person int, text string, prompt bool)
	read  func() []string // what the people read
	joins int             // items that are one message: a mail has room for several
}

// openNetworks makes platforms on which nothing goes wrong but what people say, and gives the home their accounts.
func (f *fort) openNetworks() {
	f.t.Helper()
	t, settings := f.t, "\nchannels:\n"
	f.networks = map[string]*crier{}
	for _, name := range doors {
		n := networkNamed(t, name)
		c := &crier{besieged: &besieged{network: n}, joins: 1}
		switch name {
		case "irc":
			p := n.open(t, corporaChats).(*ircPlatform)
			p.Drop(nil)
			c.platform, c.read = p, everyChat(p)
			c.cry = func(person int, text string, prompt bool) {
				target := corporaRoom
				if prompt {
					target = "corebot"
				}
				p.Say(ircPerson(person%corporaChats), target, text)
			}
		case "mail":
			p := n.open(t, corporaChats).(*mailPlatform)
			p.Faults(0, 0)
			c.platform, c.read, c.joins = p, everyChat(p), corporaPrompts
			c.cry = func(person int, text string, _ bool) { p.say(person%corporaChats, text) }
		default:
			p := withGroup(t, n)
			c.platform, c.read = p, p.shownInGroup
			c.cry = func(person int, text string, prompt bool) { p.sayInGroup(person%crowdPeople, text, prompt) }
		}
		f.networks[name] = c
		account := strings.TrimSuffix(c.platform.settings(), "}")
		if name == "irc" {
			account += fmt.Sprintf(", channels: [%q]", corporaRoom)
		}
		settings += fmt.Sprintf("  %s:\n    main: %s}\n", n.kind, account)
	}
	file, err := os.OpenFile(filepath.Join(f.home, "corebot.yaml"), os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = file.WriteString(settings)
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

func everyChat(p networkPlatform) func() []string {
	return func() (all []string) {
		for chat := range corporaChats {
			all = append(all, p.shown(chat)...)
		}
		return all
	}
}

// fromNetwork has the people of a chat network say the items. Each is stored once, and each prompt comes to an end: an
// answer, or the words of Corebot to a command. An item without a sign that can be seen is said nowhere.
func (f *fort) fromNetwork(name string) func() {
	return func() {
		b := f.networks[name]
		log, err := os.ReadFile(f.log) // an earlier door has started the daemon anew
		if err != nil {
			f.t.Fatal(err)
		}
		b.siege = &siege{service: f.service, url: "http://" + addressOf(log, "observability")}
		b.await(name+" receives", func() bool {
			n, err := b.rows("FROM channel_cursors WHERE channel = ?", b.kind)
			if p, is := b.platform.(*ircPlatform); is && !p.Joined(corporaRoom) {
				return false
			}
			return err == nil && (n > 0 || name == "telegram")
		})
		db, err := b.database()
		if err != nil {
			f.t.Fatal(err)
		}
		defer db.Close() //nolint:errcheck // only read
		b.looks = db
		came := func() int {
			n, err := b.rows(`FROM message_life m JOIN lanes l ON l.id = m.lane_id
				WHERE l.direction <> ? AND l.channel = ?`, corebot.Outbound, b.kind)
			if err != nil {
				f.t.Fatal(err)
			}
			return n
		}
		said := 0
		for items := range slices.Chunk(f.items, corporaWave) {
			for texts := range slices.Chunk(sayable(name, items), b.joins) {
				b.cry(said, strings.Join(texts, "\n"), said%corporaPrompts == 0)
				said++
			}
			b.await(fmt.Sprintf("%s: %d messages are settled", name, said), func() bool {
				return came() >= said && strings.Contains(b.ask("/status"), `"queue":{}`)
			})
		}
		if n := came(); n != said || said < len(f.items)/2/b.joins {
			f.t.Errorf("%s: of %d items %d messages were said, and %d came", name, len(f.items), said, n)
		}
		f.requireShown(b)
	}
}

// codesOf are what a network's own markup has of signs that are not seen: codes of looks, and what keeps a sign of the
// text from being markup.
var codesOf = map[string]*strings.Replacer{
	"irc":   strings.NewReplacer("\x02", "", "\x0f", "", "\x11", "", "\x1d", "", "\x1e", ""),
	"slack": strings.NewReplacer("\u200b", ""), "discord": strings.NewReplacer("\u200b", ""),
}

// requireShown looks at what the people of a network have read.
func (f *fort) requireShown(b *crier) {
	f.t.Helper()
	answers := 0
	for _, text := range b.read() {
		if codes := codesOf[b.name]; codes != nil {
			text = codes.Replace(text)
		}
		if strings.Contains(text, "you said: ") {
			answers++
		}
		if hides(text) || strings.Contains(text, theSecret) {
			f.t.Errorf("%s shows %.300q", b.name, text)
		}
	}
	if answers < len(f.items)/corporaPrompts/2 {
		f.t.Errorf("%s shows %d answers to %d items", b.name, answers, len(f.items))
	}
	for _, c := range b.platform.complaints() {
		f.t.Errorf("%s complains: %.300s", b.name, c)
	}
}

// sayable are items as people of a network can say them. A line of IRC has no control characters and 400 bytes.
func sayable(network string, items []string) (texts []string) {
	for _, item := range items {
		text := strings.ToValidUTF8(item[:min(len(item), 4000)], "\ufffd")
		if network == "irc" {
			text = strings.Map(func(r rune) rune {
				if unicode.IsControl(r) {
					return ' '
				}
				return r
			}, strings.ToValidUTF8(text[:min(len(text), 400)], ""))
		}
		if network == "slack" { // the platform writes the signs of its markup so, whoever types them
			text = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(text)
		}
		if strings.ContainsFunc(text, func(r rune) bool { return unicode.IsGraphic(r) && !unicode.IsSpace(r) }) {
			texts = append(texts, text)
		}
	}
	return texts
}
