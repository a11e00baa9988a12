package router_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/router"
)

// A reply id that is taken by another reply stays taken.
func TestACommitThatCanNeverSucceedEndsTheMessageAtOnceUnderItsName(t *testing.T) {
	for name, c := range map[string]struct {
		taken   func(d corebot.Delivery) []string
		told    int
		refuses error
	}{
		"a reply id is taken": {taken: func(d corebot.Delivery) []string {
			return []string{d.RunID() +
				"/1"}
		}, told: 1},
		"the id of the apology, too": {taken: func(d corebot.Delivery) []string {
			return []string{d.RunID() +
				"/1", d.RunID() + "/gave-up"}
		}},
		"the database breaks a constraint":    {told: 1, refuses: corebot.ErrUnstorable},
		"the journal is that of another turn": {told: 1, refuses: corebot.ErrDiverged},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				model := apptest.Always(apptest.Text("hi"))
				o := apptest.Options{Model: model}
				if c.refuses != nil {
					o.Ledger = func(l router.Ledger) router.Ledger {
						return &faultyLedger{Ledger: l, commit: func(try int, real func() error) error {
							if try == 1 {
								return c.refuses
							}
							return real()
						}}
					}
				}
				k := apptest.New(t, o)
				k.Say("a", "1", "hello")
				d := corebot.Delivery{Message: *k.Life("1").Message, Run: 1}
				if c.taken != nil {
					for _, id := range c.taken(d) {
						m := corebot.Message{
							ID: id, Direction: corebot.Outbound, Key: d.Message.Key,
							Kind: corebot.KindReply, Parts: corebot.TextPart("something else"),
						}
						if _, err := k.Bus.Publish(t.Context(), m); err != nil {
							t.Fatal(err)
						}
					}
				}
				began := time.Now()
				k.Start()
				pass(time.Minute)
				life := k.Life("1")
				if life.End != corebot.EndDead || life.Reason != corebot.ReasonUnstored ||
					life.EndedAt.Sub(began) > time.Second {
					t.Errorf("it ended %q (%s) after %v", life.End, life.Reason, life.EndedAt.Sub(began))
				}
				if n := len(model.Requests()); n != 1 {
					t.Errorf("the model was asked %d times", n)
				}
				if told := k.Told("1"); len(told) != c.told {
					t.Errorf("the chat was told %+v", told)
				}
			})
		})
	}
}

// The message id "sent/5" made the reply id "sent/5/1/1", which was also the first message that life 5 sent.
func TestAMessageIDThatLooksLikeOneOfCorebotsOwnIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := apptest.New(t, apptest.Options{Model: apptest.Always(apptest.Text("hi"))})
		k.Say("a", "sent/5", "hello")
		posted := corebot.Delivery{Life: 5, Run: 1}.PostID(1)
		m := corebot.Message{
			ID: posted, Direction: corebot.Outbound, Key: k.Life("sent/5").Key,
			Kind: corebot.KindReply, Parts: corebot.TextPart("a post"),
		}
		if _, err := k.Bus.Publish(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		k.Start()
		pass(time.Second)
		k.WantEnd("sent/5", corebot.EndAnswered)
	})
}
