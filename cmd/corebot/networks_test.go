package main

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corebot/corebot/channels/telegram/telegramtest"
)

// networks are the platforms on which bots are killed.
var networks = []network{
	{name: "telegram", kind: "telegram", open: openTelegram},
}

// telegramPlatform cannot tell what it shows.
type telegramPlatform struct {
	*telegramtest.Server
	dropped atomic.Int64
}

func openTelegram(t *testing.T, _ int) networkPlatform {
	p := &telegramPlatform{Server: telegramtest.New()}
	t.Cleanup(p.Close)
	sends := 0
	p.Faults(func(c telegramtest.Call) telegramtest.Fault {
		if c.Method != "sendMessage" {
			return telegramtest.Fault{}
		}
		switch sends++; {
		case sends%47 == 0:
			p.dropped.Add(1)
			return telegramtest.Fault{DropAfter: true}
		case sends%61 == 0:
			return telegramtest.Flood(0.2)
		}
		return telegramtest.Fault{}
	})
	return p
}

func (p *telegramPlatform) settings() string {
	return fmt.Sprintf("{token: %q, api_url: %q, access: open}", telegramtest.Token, p.URL())
}

func telegramPerson(chat int) telegramtest.User {
	return telegramtest.User{ID: int64(5000 + chat), FirstName: "P"}
}

func (p *telegramPlatform) say(chat int, text string) {
	p.Say(telegramtest.Said{From: telegramPerson(chat), Text: text})
}

func (p *telegramPlatform) shown(chat int) []string { return p.Texts(telegramPerson(chat).ID) }

func (p *telegramPlatform) away(meanwhile func()) {
	p.Silence(true)
	p.Cut()
	meanwhile()
	time.Sleep(300 * time.Millisecond)
	p.Silence(false)
}

func (p *telegramPlatform) lost() (n int, once bool) { return int(p.dropped.Load()), false }
func (p *telegramPlatform) complaints() []string     { return p.Complaints() }
