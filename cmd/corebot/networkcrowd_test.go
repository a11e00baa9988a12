package main

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm/llmtest"
	"github.com/corebot/corebot/channels/discord/discordtest"
	"github.com/corebot/corebot/channels/mail/mailtest"
	"github.com/corebot/corebot/channels/matrix/matrixtest"
	"github.com/corebot/corebot/channels/slack/slacktest"
	"github.com/corebot/corebot/channels/telegram/telegramtest"
	"github.com/corebot/corebot/internal/long"
)

var crowdMessages = long.Int("crowd.messages", 60, 400, "how many messages a group has")

const (
	crowdPeople = 50
	crowdAsks   = 20 // each so manieth message names the bot

	mostCrowdMemory = 192 << 20 // that Corebot may have, however many messages a group has
)

// hasGroups is a platform with a group, in which many people write. Some of their messages name the bot.
type hasGroups interface {
	networkPlatform
	sayInGroup(person int, text string, named bool)
	shownInGroup() []string
}

// apart is a platform that answers each member of a group for himself: the order is that of each.
type apart interface{ shownTo(person int) []string }

// paced is a platform whose rules allow an account a few lines at once, and then one in each pace.
type paced interface{ pace() time.Duration }

const (
	ircGroup = "#crowd"
	ircPace  = 100 * time.Millisecond
	ircBurst = 4 // lines that an account sends at once at most

	// ircTalk is how far apart the lines of the people are. No server lets each of fifty say ten lines in a second.
	ircTalk = 2 * time.Millisecond
)

// ircCrowd is a channel of IRC, and mailCrowd a thread of mails in which people write to each other. The bot has a copy
// of each mail, and is the first whom a mail addresses that names it.
type (
	ircCrowd  struct{ *ircPlatform }
	mailCrowd struct{ *mailPlatform }
)

func (p ircCrowd) pace() time.Duration { return ircPace }

func (p ircCrowd) settings() string {
	here := fmt.Sprintf("pace: %v, channels: [%q]", ircPace, ircGroup)
	return strings.Replace(ircSettings(p.Addr()), "pace: 1ms", here, 1)
}

func (p ircCrowd) sayInGroup(person int, text string, named bool) {
	if named {
		text = "corebot: " + text
	}
	time.Sleep(ircTalk)
	p.Say(ircPerson(person), ircGroup, text)
}

func (p ircCrowd) shownInGroup() (texts []string) {
	for _, l := range p.Shown(ircGroup) {
		answer := strings.TrimPrefix(l, "\x0f")
		if _, rest, named := strings.Cut(answer, ": "); named { // whoever has asked, if that was not long ago
			answer = rest
		}
		texts = append(texts, answer)
	}
	return texts
}

func (p mailCrowd) sayInGroup(person int, text string, named bool) {
	said := mailtest.Said{
		From: mailPerson(person), ID: strings.ReplaceAll(text, " ", "-"), Text: text,
		Headers: fmt.Sprintf("References: %s\n", mailRoot(0)),
	}
	raw := said.Raw()
	if !named {
		raw = bytes.Replace(raw, []byte("\r\nTo: "), []byte("\r\nTo: <everybody@people.test>\r\nCc: "), 1)
	}
	p.Deliver(raw, time.Now())
}

func (p mailCrowd) shownTo(person int) []string { return p.shown(person) }

func (p mailCrowd) shownInGroup() (texts []string) {
	for person := range crowdPeople {
		texts = append(texts, p.shown(person)...)
	}
	return texts
}

var (
	telegramGroup = telegramtest.Chat{ID: -100200300, Type: "supergroup", Title: "The crowd"}
	matrixGroup   = "!crowd:test"
	discordGroup  = "300000000000000077"
	slackGroup    = "C0CROWD"
)

func (p *telegramPlatform) sayInGroup(person int, text string, named bool) {
	m := telegramtest.Said{Chat: telegramGroup, From: telegramPerson(person), Text: text}
	if named {
		name := "@" + telegramtest.Bot.Username
		m.Text = name + " " + text
		m.More = map[string]any{"entities": []any{map[string]any{"type": "mention", "offset": 0, "length": len(name)}}}
	}
	p.Say(m)
}

func (p *telegramPlatform) shownInGroup() []string { return p.Texts(telegramGroup.ID) }

func (p *matrixPlatform) sayInGroup(person int, text string, named bool) {
	content := map[string]any{"msgtype": "m.text", "body": text}
	if named {
		content["m.mentions"] = map[string]any{"user_ids": []string{matrixtest.Bot}}
	}
	p.Say(matrixtest.Said{Room: matrixGroup, From: fmt.Sprintf("@person%d:test", person), Content: content})
}

func (p *matrixPlatform) shownInGroup() []string { return p.Texts(matrixGroup) }

func (p *discordPlatform) sayInGroup(person int, text string, named bool) {
	if named {
		text = "<@" + discordtest.BotID + "> " + text
	}
	p.Say(discordtest.Said{Channel: discordGroup, From: discordPerson(person), Text: text})
}

func (p *discordPlatform) shownInGroup() []string { return p.Texts(discordGroup) }

func (p *slackPlatform) sayInGroup(person int, text string, named bool) {
	if named {
		text = "<@" + slacktest.Bot + "> " + text
	}
	p.Say(slacktest.Said{Channel: slackGroup, User: fmt.Sprint("U0P", person), Text: text})
}

func (p *slackPlatform) shownInGroup() []string { return p.Texts(slackGroup) }

// withGroup opens a platform with a group of many people, and with no other faults.
func withGroup(t *testing.T, n network) hasGroups {
	t.Helper()
	switch p := n.open(t, 1).(type) {
	case *matrixPlatform:
		people := make([]string, crowdPeople)
		for i := range people {
			people[i] = fmt.Sprintf("@person%d:test", i)
		}
		p.Room(matrixGroup, people...)
		p.Faults(nil)
		return p
	case *discordPlatform:
		p.Open(discordGroup, 0, "")
		p.Faults(nil)
		return p
	case *slackPlatform:
		p.Open(slackGroup)
		p.Faults(nil)
		return p
	case *telegramPlatform:
		p.Faults(nil)
		return p
	case *ircPlatform:
		p.Drop(nil)
		return ircCrowd{p}
	case *mailPlatform:
		p.Faults(0, 0)
		return mailCrowd{p}
	default:
		t.Fatalf("%s has no group", n.name)
		return nil
	}
}

var questionIn = regexp.MustCompile(`question (\d+)`)

// TestACrowdThatNeverStopsIsAnsweredWhereItAsks has many people write into one group at once. A message that names the
// bot is answered once and in order, whatever the others write. Other messages are not answered, and no prompt grows
// with the group.
func TestACrowdThatNeverStopsIsAnsweredWhereItAsks(t *testing.T) {
	long.Only(t, "TestStories")
	t.Parallel()
	for _, name := range long.Or([]string{"telegram"},
		[]string{"telegram", "matrix", "discord", "slack", "irc", "mail"}) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			crowd(t, networkNamed(t, name))
		})
	}
}

func crowd(t *testing.T, n network) {
	var longest, turns atomic.Int64
	platform := withGroup(t, n)
	n.open = func(*testing.T, int) networkPlatform { return platform }
	b := besiegeWith(t, n, func(r llmtest.Request) llmtest.Answer {
		size := 0
		for _, m := range r.Messages {
			size += len(m.Content)
		}
		turns.Add(1)
		for old := longest.Load(); int64(size) > old && !longest.CompareAndSwap(old, int64(size)); {
			old = longest.Load()
		}
		var asked []string
		for _, m := range questionIn.FindAllStringSubmatch(lastUser(r), -1) {
			asked = append(asked, m[1])
		}
		return llmtest.Text("answers " + strings.Join(asked, " "))
	})
	b.begin()
	if b.history {
		b.await("it receives", func() bool {
			n, err := b.rows("FROM channel_cursors")
			return err == nil && n > 0
		})
	}
	began, asks := time.Now(), 0
	for i := range crowdMessages() {
		text, named := fmt.Sprintf("chatter %d", i), i%crowdAsks == 0
		if named {
			text = fmt.Sprintf("question %d", asks)
			asks++
		}
		platform.sayInGroup(i%crowdPeople, text, named)
	}
	said := time.Since(began)
	b.await("everything is read, answered and sent", func() bool {
		n, err := b.lives(corebot.Inbound)
		return err == nil && n == crowdMessages() && strings.Contains(b.ask("/status"), `"queue":{}`)
	})
	took, rss := time.Since(began), b.residentMemory()
	b.terminate()
	b.output("db", "check")
	judgeCrowd(t, platform, asks, took)
	if rss > mostCrowdMemory {
		t.Errorf("Corebot has %d bytes in memory", rss)
	}
	if longest.Load() > 120_000 {
		t.Errorf("a prompt has %d bytes", longest.Load())
	}
	for _, c := range platform.complaints() {
		t.Errorf("the platform complains: %s", c)
	}
	b.tell(fmt.Sprintf(`group of %d people on %s
messages                %d, said in %v; all are read, answered and sent after %v
questions               %d, answered in %d turns
longest prompt          %d bytes
memory                  %.1f MiB
`, crowdPeople, n.name, crowdMessages(), said.Round(time.Millisecond), took.Round(time.Millisecond), asks, turns.Load(),
		longest.Load(), float64(rss)/(1<<20)))
}

// judgeCrowd compares what the group shows with the questions, and with the pace of the platform.
func judgeCrowd(t *testing.T, platform hasGroups, asks int, took time.Duration) {
	t.Helper()
	asked := map[int][]int{}
	for i := range asks {
		person := 0
		if _, is := platform.(apart); is {
			person = i * crowdAsks % crowdPeople
		}
		asked[person] = append(asked[person], i)
	}
	for person, want := range asked {
		texts := platform.shownInGroup()
		if p, is := platform.(apart); is {
			texts = p.shownTo(person)
		}
		var answered []int
		for _, text := range slices.Compact(texts) {
			for _, word := range strings.Fields(strings.TrimPrefix(text, "answers ")) {
				number, err := strconv.Atoi(word)
				if err != nil {
					t.Errorf("the group shows %q", text)
					break
				}
				answered = append(answered, number)
			}
		}
		if !slices.Equal(answered, want) {
			t.Errorf("of the questions %v these are answered: %v", want, answered)
		}
	}
	if p, is := platform.(paced); is {
		if n := len(platform.shownInGroup()); took < time.Duration(n-ircBurst)*p.pace() {
			t.Errorf("%d lines were sent in %v, and one is allowed in %v", n, took, p.pace())
		}
	}
}

// residentMemory is what the program has in memory, in bytes; 0 where nobody can tell.
func (b *besieged) residentMemory() int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", b.daemon.Process.Pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text))
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
