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
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/channeltest/platform"
	"github.com/corebot/corebot/internal/apptest"
)

const (
	anHour     = time.Hour
	saysEach   = 5 * time.Minute
	comesBack  = 15 * time.Minute // after an outage everything is answered; IRC waits for 10 after a ban
	answeredBy = "answer to "

	// A channel that fails is run again after a minute at most, and the reply is tried each 15 s on average.
	mostDials  = 600
	mostWrites = 1200 // to the platform, such as a request
)

// Misfortunes are what a channel gets over in hours. Time is virtual.
//
// Its network is out of reach for an hour, in three ways: what is connected falls silent, connections are refused, and
// connections do not begin. Or the platform does not know the account any more for an hour. People write meanwhile, and
// a reply waits. Then the reply is shown, and each message is answered once and in order, unless the platform forgets
// it. Meanwhile the channel says why it fails, and tries again and again, never without a pause.
//
// Or a chat lets the account write nothing: its reply is a dead letter that says why, and other chats go on.
func Misfortunes(t *testing.T, subject func(t *testing.T) Subject) {
	sets := func(w platform.Weather) func(*rig, *platform.Memory) {
		return func(r *rig, network *platform.Memory) {
			r.endure(network, func() { network.Set(w) }, func() { network.Set(platform.Fair) })
		}
	}
	for name, play := range map[string]func(*rig, *platform.Memory){
		"the platform falls silent": sets(platform.Deaf), "the platform refuses connections": sets(platform.Refuses),
		"connections hang": sets(platform.Hangs), "the account is revoked": isRevoked, "a chat is closed": isClosed,
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, subject, play)
		})
	}
}

// virtually plays something in virtual time, on a network in memory, with a Corebot that answers.
func virtually(t *testing.T, subject func(t *testing.T) Subject, play func(*rig, *platform.Memory)) {
	t.Helper()
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
		play(r, network)
	})
}

func isRevoked(r *rig, network *platform.Memory) {
	said := func() string {
		s := r.supervisor.Status()[0]
		if s.State != channels.Failed || !strings.Contains(s.LastError, r.Revoked) ||
			strings.Contains(s.LastError, r.Secret) {
			r.t.Errorf("the account is %s: %s", s.State, s.LastError)
		}
		return s.LastError
	}
	r.endure(network, r.Revoke, func() {
		said()
		if checker, can := r.Open().(channels.Checker); can {
			_, err := checker.Check(r.t.Context())
			if err == nil || !strings.Contains(err.Error(), r.Revoked) || corebot.HintOf(err) == "" {
				r.t.Errorf("a check says %v, hint: %s", err, corebot.HintOf(err))
			}
		}
		late := r.stored("late")[0]
		if late.End != "" || late.Attempts > 1 { // one is cut off with the connection
			r.t.Errorf("the reply has ended %q after %d attempts: %s", late.End, late.Attempts, late.LastError)
		}
		r.Restore()
	})
}

func isClosed(r *rig, _ *platform.Memory) {
	r.say("q0", "question 0")
	r.within(comesBack, "an answer", func() bool { return len(r.Shown()) == 1 })
	k := r.key()
	k.Chat, k.Thread = r.Closed, ""
	_, err := r.kit.Bus.Publish(r.t.Context(), corebot.Message{
		ID: "closed", Direction: corebot.Outbound, Kind: corebot.KindReply, Key: k,
		Parts: corebot.TextPart("who hears it?"),
	})
	r.must(err)
	r.say("q1", "question 1")
	r.within(time.Minute, "an answer beside a closed chat", func() bool { return len(r.Shown()) == 2 })
	r.within(2*anHour, "the reply is a dead letter", func() bool {
		return r.stored("closed")[0].End == corebot.EndDead
	})
	if l := r.stored("closed")[0]; !strings.Contains(l.LastError, r.Refused) {
		r.t.Errorf("the dead letter says %q after %d attempts", l.LastError, l.Attempts)
	}
}

// echoes answers with what was asked.
func echoes(ctx context.Context, r llm.Request, onText func(string)) (corebot.Answer, error) {
	said := r.Messages[len(r.Messages)-1].Text
	return apptest.Text(answeredBy+said[strings.LastIndex(said, "question"):])(ctx, r, onText)
}

// endure plays an hour that begin makes a bad one, until its end.
func (r *rig) endure(network *platform.Memory, begin, end func()) {
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
	began := time.Now()
	dials, writes := network.Count()
	begin()
	r.reply("late", "an earlier result")
	want = append(want, "an earlier result")
	for time.Since(began) < anHour {
		time.Sleep(saysEach)
		if !r.Forgets {
			ask()
		}
	}
	d, n := network.Count()
	dials, writes = d-dials, n-writes
	end()
	r.t.Logf("%d connections and %d writes in an hour", dials, writes)
	if dials > mostDials || writes > mostWrites {
		r.t.Errorf("%d connections and %d writes in an hour, at most %d and %d", dials, writes, mostDials, mostWrites)
	}
	if dials+writes == 0 {
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
