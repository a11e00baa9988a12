package channels

import (
	"fmt"
	"testing"
	"time"

	"github.com/corebot/corebot"
)

func TestEpisodesAreRememberedOfSoManyChatsAndNoMore(t *testing.T) {
	var e episodes
	now := time.Unix(0, 0)
	for i := range 5 * episodeChats {
		e.refused(corebot.Key{Chat: fmt.Sprint(i)}, now)
		if n := len(e.young) + len(e.aged); n > episodeChats {
			t.Fatalf("%d chats are remembered", n)
		}
	}
	if e.refused(corebot.Key{Chat: fmt.Sprint(5*episodeChats - 1)}, now) {
		t.Error("the last one was forgotten")
	}
}
