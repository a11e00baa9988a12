package channeltest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/channels/channeltest/platform"
	"github.com/corebot/corebot/internal/apptest"
)

const (
	anHour     = time.Hour
	saysEach   = 5 * time.Minute
	comesBack  = 5 * time.Minute // how long after an outage everything is answered
	answeredBy = "answer to "

	// A channel that fails is run again after a minute at most, and the reply is tried each 15 s on average.
	mostDials  = 600
	mostWrites = 1200 // to the platform, such as a request
)

// OutOfReach has the network of a channel be out of reach for an hour, in three ways: what is connected falls silent,
// connections are refused, and connections do not begin. People write meanwhile, and a reply waits. Then the reply is
// shown, and each message is answered once and in order, unless the platform forgets it. Meanwhile the channel tries
// again and again, and never without a pause. Time is virtual.
func OutOfReach(t *testing.T, subject func(t *testing.T) Subject) {
	for name, weather := range map[string]platform.Weather{
		"falls silent": platform.Deaf, "refuses": platform.Refuses, "hangs": platform.Hangs,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(26 * 365 * 24 * time.Hour) // the clock begins before the ids of Discord do
				network := platform.InMemory(t)
				r := &rig{Subject: subject(t), t: t, dir: t.TempDir(), model: apptest.Always(echoes)}
				if r.Chat == "" {
					r.Chat = Chat
				}
				if r.ID == nil {
					r.ID = func(id string) string { return id }
				}
				r.start()
				defer func() { r.stop() }()
				r.endure(network, weather)
			})
		})
	}
}

// echoes answers with what was asked.
func echoes(ctx context.Context, r llm.Request, onText func(string)) (corebot.Answer, error) {
	said := r.Messages[len(r.Messages)-1].Text
	return apptest.Text(answeredBy+said[strings.LastIndex(said, "question"):])(ctx, r, onText)
}

// endure plays the hour.
func (r *rig) endure(network *platform.Memory, w platform.Weather) {
	asked := 0
	var want []string
	ask := func() {
		text := fmt.Sprint("question ", asked)
		want = append(want, answeredBy+text)
		r.say(fmt.Sprint("q", asked), text)
		asked++
	}
	answered := func() bool { return slices.Equal(r.Shown(), want) }
	ask()
	r.within(comesBack, "an answer before the outage", answered)
	time.Sleep(time.Minute) // the usual quiet: nothing is left to be done
	began, dials, writes := time.Now(), 0, 0
	fair := func() {
		d, n := network.Count()
		dials, writes = d-dials, n-writes
		network.Set(platform.Fair)
	}
	dials, writes = network.Count()
	network.Set(w)
	r.reply("late", "an earlier result")
	want = append(want, "an earlier result")
	for time.Since(began) < anHour {
		time.Sleep(saysEach)
		if !r.Forgets {
			ask()
		}
	}
	fair()
	r.t.Logf("%d connections and %d writes in an hour", dials, writes)
	if dials > mostDials || writes > mostWrites {
		r.t.Errorf("%d connections and %d writes in an hour, at most %d and %d", dials, writes, mostDials, mostWrites)
	}
	if dials == 0 {
		r.t.Error("the channel has not tried again")
	}
	back := time.Now()
	if r.Forgets {
		r.within(comesBack, "the channel comes back", func() bool { return r.running() })
		ask()
	}
	r.within(comesBack, "everything is answered after the outage", answered)
	r.t.Logf("everything is answered %v after it", time.Since(back).Round(time.Second))
	time.Sleep(anHour) // nothing comes again
	if shown := r.Shown(); !slices.Equal(shown, want) {
		r.t.Errorf("the chat shows %q", shown)
	}
	for i := range asked {
		if n := len(r.inbound(fmt.Sprint("q", i))); n != 1 {
			r.t.Errorf("question %d is there %d times", i, n)
		}
	}
}

// inbound are the messages with an id that came in.
func (r *rig) inbound(id string) []corebot.Life {
	return slices.DeleteFunc(r.stored(id), func(l corebot.Life) bool { return l.Direction == corebot.Outbound })
}

// running says whether the account runs, and has run for a while.
func (r *rig) running() bool {
	s := r.supervisor.Status()[0]
	return s.State == "running" && time.Since(s.Since) > time.Minute
}

// within waits for something in virtual time.
func (r *rig) within(d time.Duration, what string, is func() bool) {
	r.t.Helper()
	for began := time.Now(); !is(); time.Sleep(100 * time.Millisecond) {
		if time.Since(began) > d {
			r.t.Fatalf("%v pass without: %s; the chat shows %q, and the account is %s: %s", d, what, r.Shown(),
				r.supervisor.Status()[0].State, r.supervisor.Status()[0].LastError)
		}
	}
}
