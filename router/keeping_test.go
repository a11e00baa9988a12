package router_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/apptest"
)

// In a chat that keeps nothing each message is answered without the ones before it, and /rewind and /new find
// nothing to work on. Another chat keeps what it is told.
func TestAChatThatKeepsNothingAnswersEachMessageAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := apptest.Always(apptest.Text("hm"))
		keeper := &corebot.Keeper{Rules: []corebot.KeepRule{{
			Channel: "test", Chat: "quiet*", Keeping: corebot.Keeping{Nothing: true},
		}}}
		l := &linking{
			Kit: apptest.New(t, apptest.Options{Model: model, Keeper: keeper}).Start(), t: t, model: model,
		}
		for _, chat := range []string{"quiet-1", "loud"} { // in this order: m1 is of the first
			keeps := chat == "loud"
			l.want("ann", chat, "my cat is Kafka", "hm")
			l.want("ann", chat, "who is my cat?", "hm")
			if shown := l.shown(); strings.Contains(shown, "Kafka") != keeps {
				t.Errorf("in %s the model was shown %q", chat, shown)
			}
			if n := len(l.Said(chat)); n > 0 != keeps {
				t.Errorf("%s has %d entries", chat, n)
			}
		}
		l.want("ann", "quiet-1", "/rewind", "There is nothing to rewind")
		l.want("ann", "quiet-1", "/new", "A new conversation begins here")
		l.want("ann", "quiet-1", "/why m1", "answered")
	})
}
