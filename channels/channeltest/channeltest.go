// Package channeltest states what a channel must do, as a suite of tests that runs against any channel. The suite gives
// the channel a real door, outbox, supervisor and store; the test of the channel gives the platform behind it.
//
// A channel guarantees:
//
//   - What people say comes in once, in order, under their chat and their id.
//   - Who takes the name of another is another: a sender is who the platform says, and not what he calls himself.
//   - An edit of a message that waits takes its place, and a deletion cancels one.
//   - Nothing is acknowledged that is not stored: while nobody has room, the platform keeps it.
//   - What is said while the channel does not run comes in at the next start, unless the platform forgets it, and
//     nothing comes in again.
//   - A reply is shown in its chat once, whole and in order, however long it is.
//   - A send that the platform refuses for its rate is tried again.
//   - What has the same idempotency key is shown once, if the channel says so.
//   - A send of unknown end is found again, if the channel can look, and no other is taken for it.
//   - The files of a reply are shown behind its text. The chat reads why a file is not shown.
//   - The send of a file of unknown end is found again, if the channel can look.
//   - Whatever file comes, its message is stored, with the file or why there is none. The name of a file
//     leads nowhere, and no more of a file is in memory than a piece.
//   - A send ends soon after its context, and a run after its own.
//   - A connection that breaks is made anew, and loses nothing.
//
// [Misfortunes] is a further suite: hours without the platform, or without rights there. [Picture] holds the docs
// against what a platform shows.
//
// A guarantee about something that a platform cannot do is skipped: see [Subject].
package channeltest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/bus"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/channeltest/platform"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/internal/live"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/storage"
)

// Chat is the chat of the platform in which the suite talks, unless the subject has another.
const Chat = "room"

// Subject is a channel under test, and the platform behind it.
type Subject struct {
	Account channels.Account
	Chat    string // the platform's id of the chat; empty: the constant
	Thread  string // in which all of it is said; empty: none
	// ID is the id under which something comes in that the suite calls by another; nil: it is the same.
	ID func(id string) string
	// Open makes the channel as a new process would, for the same account of the same platform.
	Open func() channels.Channel
	// Say has a person say something in the chat. A platform that keeps nothing says it again until it is acknowledged;
	// Say need not wait for that. door is for a channel whose messages do not come in by its Run.
	Say func(door channels.Accepter, id, text string)
	// Shown are the texts that the chat shows, in order.
	Shown func() []string

	// Edit has the person give an earlier message another text, by an event with an id of its own. Delete has the
	// person take a message back. nil: on this platform nobody can, or the bot is not told.
	Edit   func(door channels.Accepter, id, of, text string)
	Delete func(door channels.Accepter, id, of string)

	// Company are others in the chat than people, by what they are.
	Company map[string]Other

	// Again has the platform give the bot once more what was said under an id; nil: it gives nothing twice.
	Again func(id string)

	// Pose has somebody else say something under the name of the person, and wherever he can. nil: nobody can take the
	// name of another.
	Pose func(id, text string)

	// Revoke has the platform know the account no longer, and break its connections; Restore has it know the account
	// again. Revoked is what the error of the account says then, and Secret is what it does not say. Closed is a chat
	// in which the account may not write, and Refused is what the dead letter of such a reply says.
	Revoke, Restore func()
	Revoked, Secret string
	Closed, Refused string

	// Forgets says that the platform keeps nothing for a channel that is not connected: what is said then is lost. Say
	// waits until the channel is connected.
	Forgets bool

	// Files are what the channels of Open send, and Uploads are the files that the chat shows, in order, as
	// "NAME: BYTES". TooLarge is a size that the platform refuses. nil: the channel shows no files.
	Files    *Files
	Uploads  func() []string
	TooLarge int64

	// Attach has a person say something with a file, and gives the words of a refusal; empty: it was taken. The
	// platform gives the file as the file says. nil: NoFiles says why no file comes.
	Attach          func(door channels.Accepter, id, text string, f platform.File) (refused string)
	NoFiles         string
	FilesInMessages bool   // a file stands in its message itself, so it is as large as it is
	Refuses         string // a pattern of the words of a refusal

	Cut     func()            // breaks every connection; nil: there is none that could break
	Silence func(silent bool) // has the platform answer nothing, or answer again; nil: it cannot
	Refuse  func(n int)       // has the platform refuse the next n sends for their rate; nil: it never does
}

// Run holds a channel to the guarantees. subject makes a platform of its own for each.
func Run(t *testing.T, subject func(t *testing.T) Subject) {
	for _, spec := range []struct {
		guarantee string
		hold      func(*rig)
	}{
		{"What people say comes in once, in order, under their chat and their id.", comesIn},
		{"Who takes the name of another is another.", isAnother},
		{"An edit of a message that waits takes its place, and a deletion cancels one.", isEdited},
		{"Nothing is acknowledged that is not stored.", waitsForRoom},
		{"What is said while the channel does not run comes in at the next start.", comesInLater},
		{"A reply is shown in its chat once, whole and in order.", isShown},
		{"A send that the platform refuses for its rate is tried again.", isTriedAgain},
		{"What has the same idempotency key is shown once.", isShownOnce},
		{"A send of unknown end is found again.", isFound},
		{"The files of a reply are shown behind its text.", showsFiles},
		{"The send of a file of unknown end is found again.", findsFiles},
		{"Whatever file comes, its message is stored, with the file or why there is none.", getsBadFiles},
		{"A send ends soon after its context.", sendEnds},
		{"A connection that breaks is made anew.", isMadeAnew},
	} {
		t.Run(spec.guarantee, func(t *testing.T) {
			r := &rig{Subject: subject(t), t: t, dir: t.TempDir()}
			if r.Chat == "" {
				r.Chat = Chat
			}
			if r.ID == nil {
				r.ID = func(id string) string { return id }
			}
			r.start()
			defer func() { r.stop() }() // also where it is skipped: its channel would connect again and again
			spec.hold(r)
		})
	}
}

// patience bounds every wait of the suite. Under the race detector on a busy machine things take long.
const patience = 30 * time.Second

// rig is a Corebot with the channel under test. Nothing answers what comes in.
type rig struct {
	Subject
	t          *testing.T
	dir        string
	kit        *apptest.Kit
	channel    channels.Channel
	supervisor *channels.Supervisor
	stop       func()

	model *apptest.Model         // answers what comes in; nil: nothing does
	alter func(*apptest.Options) // makes it one in which people approve calls and see it type; nil: they do not
}

// start runs the channel as a new process does.
func (r *rig) start() {
	r.t.Helper()
	o := apptest.Options{
		Dir: r.dir, Bus: bus.Options{BackoffBase: time.Millisecond, Limits: corebot.Limits{TotalDepth: most}},
	}
	if r.model != nil {
		o.Bus, o.Model = bus.Options{}, r.model // as a Corebot has them
	}
	parts := []func(context.Context) error{
		func(ctx context.Context) error { return r.supervisor.Receive(ctx) },
		func(ctx context.Context) error { return r.supervisor.Send(ctx) },
	}
	if r.alter != nil {
		o.Router.Live = new(live.Hub)
		r.alter(&o)
		parts = append(parts, func(ctx context.Context) error { return r.supervisor.Type(ctx, o.Router.Live) })
	}
	r.kit = apptest.New(r.t, o)
	access, err := policy.NewAccess(policy.AccessOpen, corebot.Allowlist{})
	r.must(err)
	front, err := channels.NewFrontDoor(r.kit.Bus, r.kit.Router, channels.Admissions{
		Chats:    storage.NewChats(r.kit.DB),
		Accounts: map[channels.Account]channels.AccountRules{r.Account: {Access: access, People: r.alter != nil}},
	}, channels.DoorOptions{Files: r.desk(), FetchPause: 20 * time.Millisecond})
	r.must(err)
	outbox, err := channels.NewOutbox(r.kit.Bus, r.kit.Ledger, channels.Resend, zerolog.Nop(), nil)
	r.must(err)
	r.channel = r.Open()
	r.supervisor, err = channels.NewSupervisor(front, outbox, zerolog.Nop(),
		channels.Entry{Account: r.Account, Channel: r.channel})
	r.must(err)
	if r.model != nil {
		r.kit.Start()
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, len(parts))
	for _, part := range parts {
		go func() { ended <- part(ctx) }()
	}
	r.stop = func() {
		r.t.Helper()
		cancel()
		for range cap(ended) {
			select {
			case err := <-ended:
				r.must(err)
			case <-time.After(patience):
				r.t.Fatalf("the channel has not ended %v after its context", patience)
			}
		}
		r.kit.Close()
	}
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// until waits for something to become true.
func (r *rig) until(what string, is func() bool) {
	r.t.Helper()
	for began := time.Now(); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Since(began) > patience {
			r.t.Fatalf("%v pass without: %s; the account is %+v", patience, what, r.supervisor.Status())
		}
	}
}

func (r *rig) say(id, text string) { r.Say(r.supervisor.DoorOf(r.Account), id, text) }

// stored are the messages with an id.
func (r *rig) stored(id string) []corebot.Life {
	r.t.Helper()
	lives, err := r.kit.Lives.Find(r.t.Context(), r.ID(id))
	r.must(err)
	return lives
}

func (r *rig) key() corebot.Key {
	return corebot.Key{
		Agent: corebot.DefaultAgent, Channel: r.Account.Kind, Account: r.Account.Name, Chat: r.Chat, Thread: r.Thread,
	}
}

func (r *rig) reply(id, text string) {
	r.t.Helper()
	_, err := r.kit.Bus.Publish(r.t.Context(), corebot.Message{
		ID: id, Direction: corebot.Outbound, Kind: corebot.KindReply, Key: r.key(), Parts: corebot.TextPart(text),
	})
	r.must(err)
}

func comesIn(r *rig) {
	// The third is an item of the published naughty strings. Behind the name of a bot it looks like a part of that.
	texts := []string{"text of m0", "text of m1", ",", ":"}
	for i, text := range texts {
		id := fmt.Sprint("m", i)
		r.say(id, text)
		r.until(id+" is stored", func() bool { return len(r.stored(id)) == 1 })
	}
	for i, text := range texts {
		id := fmt.Sprint("m", i)
		d := r.kit.Claim()
		m := d.Message
		if m.ID != r.ID(id) || m.Text() != text || m.Key != r.key() || m.Sender.ID == "" ||
			m.Sender.Channel != r.Account.Kind || m.Sender.Account != r.Account.Name {
			r.t.Errorf("%s came in as %+v", id, m)
		}
		r.must(r.kit.Bus.Settle(r.t.Context(), d, corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered}))
	}
}

func isAnother(r *rig) {
	if r.Pose == nil {
		r.t.Skip("nobody can take the name of another")
	}
	r.say("m1", "this is Ann")
	r.until("m1 is stored", func() bool { return len(r.stored("m1")) == 1 })
	r.Pose("m2", "this is Ann")
	r.until("m2 is stored", func() bool { // ids can be those of a chat
		lives := map[int64]bool{}
		for _, l := range append(r.stored("m1"), r.stored("m2")...) {
			lives[l.ID] = true
		}
		return len(lives) == 2
	})
	var said [2]corebot.Message
	for i := range said {
		d := r.kit.Claim()
		said[i] = d.Message
		r.must(r.kit.Bus.Settle(r.t.Context(), d, corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered}))
	}
	if said[0].SenderName != said[1].SenderName || said[0].Sender.ID == said[1].Sender.ID ||
		said[0].Sender.ID == "" || said[1].Sender.ID == "" {
		r.t.Errorf("%+v and %+v", said[0], said[1])
	}
}

func isEdited(r *rig) {
	if r.Edit == nil {
		r.t.Skip("what was said on the platform stays as it is")
	}
	door := r.supervisor.DoorOf(r.Account)
	for _, id := range []string{"m1", "m2"} {
		r.say(id, "text of "+id)
		r.until(id+" is stored", func() bool { return len(r.stored(id)) == 1 })
	}
	if r.Delete != nil {
		r.Delete(door, "deletes m1", "m1")
		r.until("m1 is cancelled", func() bool { return r.stored("m1")[0].End == corebot.EndDeleted })
	} else {
		done := corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered}
		r.must(r.kit.Bus.Settle(r.t.Context(), r.kit.Claim(), done))
	}
	for _, id := range []string{"edit1", "edit2"} {
		r.Edit(door, id, "m2", "text of "+id)
		r.until(id+" is stored", func() bool { return len(r.stored(id)) == 1 })
	}
	if d := r.kit.Claim(); d.Message.ID != r.ID("edit2") || d.Message.Text() != "text of edit2" {
		r.t.Errorf("the turn is of %s %q", d.Message.ID, d.Message.Text())
	}
}

// most is how many messages can wait.
const most = 4

func waitsForRoom(r *rig) {
	r.say("m0", "the account begins here") // before its first position is stored, nothing is for it
	r.until("m0 is stored", func() bool { return len(r.stored("m0")) == 1 })
	for i := range most - 1 {
		_, err := r.kit.Bus.Publish(r.t.Context(), corebot.Message{
			ID: string(rune('a' + i)), Direction: corebot.Inbound, Kind: corebot.KindPrompt, Key: apptest.Key("other"),
			Parts: corebot.TextPart("first"),
		})
		r.must(err)
	}
	r.say("m1", "is there room?")
	time.Sleep(50 * time.Millisecond)
	if n := len(r.stored("m1")); n != 0 {
		r.t.Fatalf("%d are stored without room", n)
	}
	done := corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered}
	r.must(r.kit.Bus.Settle(r.t.Context(), r.kit.Claim(), done))
	r.must(r.supervisor.Restart(r.Account)) // or its wait before the next try would be long
	r.until("m1 is stored", func() bool { return len(r.stored("m1")) == 1 })
}

func comesInLater(r *rig) {
	r.say("m1", "before")
	r.until("m1 is stored", func() bool { return len(r.stored("m1")) == 1 })
	r.stop()
	later := func() { r.say("m2", "in between") }
	if _, periodic := r.channel.(channels.Periodic); periodic && !r.Forgets { // the platform keeps it
		later()
		later = func() {}
	}
	r.start()
	later()
	r.until("m2 is stored", func() bool { return len(r.stored("m2")) == 1 })
	if n := len(r.stored("m1")); n != 1 {
		r.t.Errorf("the first message is there %d times", n)
	}
}

// squeezed is a text without the spaces at which it may be cut.
func squeezed(texts ...string) string {
	return strings.Join(strings.Fields(strings.Join(texts, " ")), "")
}

func isShown(r *rig) {
	long := strings.Repeat("many words, ", 500)
	r.reply("r1", long)
	r.reply("r2", "the end")
	r.until("the second reply is shown", func() bool { return slices.Contains(r.Shown(), "the end") })
	if got := r.Shown(); squeezed(got...) != squeezed(long, "the end") {
		r.t.Errorf("the chat shows %d texts: %.200q", len(got), got)
	}
	r.until("both are settled", func() bool {
		return r.stored("r1")[0].End == corebot.EndSent && r.stored("r2")[0].End == corebot.EndSent
	})
}

func isTriedAgain(r *rig) {
	if r.Refuse == nil {
		r.t.Skip("the platform refuses nothing for its rate")
	}
	r.Refuse(2)
	r.reply("r1", "hello")
	r.until("the reply is sent", func() bool { return r.stored("r1")[0].End == corebot.EndSent })
	if got := r.Shown(); !slices.Equal(got, []string{"hello"}) {
		r.t.Errorf("the chat shows %q", got)
	}
}

func isShownOnce(r *rig) {
	if _, native := r.channel.(channels.Idempotent); !native {
		r.t.Skip("the platform has no idempotency keys")
	}
	for range 3 {
		_, err := r.channel.Send(r.t.Context(), channels.Outbound{
			ID: "r1", IdempotencyKey: "r1", Key: r.key(), Kind: corebot.KindReply, Parts: corebot.TextPart("hello"),
		})
		r.must(err)
	}
	if got := r.Shown(); !slices.Equal(got, []string{"hello"}) {
		r.t.Errorf("the chat shows %q", got)
	}
}

func isFound(r *rig) {
	asked, can := r.channel.(channels.Reconciler)
	if !can {
		r.t.Skip("the channel cannot look up what the platform shows")
	}
	r.say("m1", "a question")
	r.say("m2", "another")
	r.until("both are stored", func() bool { return len(r.stored("m1"))+len(r.stored("m2")) == 2 })
	o := channels.Outbound{
		ID: "r1", IdempotencyKey: "r1", Key: r.key(), Kind: corebot.KindReply, Parts: corebot.TextPart("hello"),
		CreatedAt: time.Now(), InReplyTo: r.ID("m1"),
	}
	sent, err := r.channel.Send(r.t.Context(), o)
	r.must(err)
	later := o
	later.ID, later.IdempotencyKey, later.CreatedAt, later.InReplyTo = "r2", "r2", time.Now(), r.ID("m2")
	for _, c := range []channels.Reconciler{asked, r.Open().(channels.Reconciler)} { // and in another process
		found, shown, err := c.Delivered(r.t.Context(), o)
		r.must(err)
		if !shown || len(sent.IDs) == 0 || !slices.Equal(found.IDs, sent.IDs) || found.Reached != sent.Reached {
			r.t.Errorf("what was sent as %+v is found as %+v, %v", sent, found, shown)
		}
		found, shown, err = c.Delivered(r.t.Context(), later)
		if shown || err != nil && !errors.Is(err, channels.ErrCannotTell) {
			r.t.Errorf("what was never sent is found as %+v, %v, %v", found, shown, err)
		}
	}
}

func sendEnds(r *rig) {
	if r.Silence == nil {
		r.t.Skip("the platform always answers")
	}
	r.Silence(true)
	defer r.Silence(false)
	ctx, cancel := context.WithTimeout(r.t.Context(), 20*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err := r.channel.Send(ctx, channels.Outbound{
		ID: "r1", IdempotencyKey: "r1", Key: r.key(), Kind: corebot.KindReply, Parts: corebot.TextPart("hello"),
	})
	if took := time.Since(began); err == nil || took > 5*time.Second {
		r.t.Errorf("it ended after %v with %v", took, err)
	}
}

func isMadeAnew(r *rig) {
	if r.Cut == nil {
		r.t.Skip("there is no connection that could break")
	}
	r.say("m1", "before")
	r.until("m1 is stored", func() bool { return len(r.stored("m1")) == 1 })
	r.Cut()
	if !r.Forgets {
		r.say("m2", "in between")
	}
	r.must(r.supervisor.Restart(r.Account)) // or the supervisor would wait for a second
	if r.Forgets {
		r.say("m2", "in between")
	}
	r.until("m2 is stored", func() bool { return len(r.stored("m2")) == 1 })
	if n := len(r.stored("m1")); n != 1 {
		r.t.Errorf("the first message is there %d times", n)
	}
}
