package telegram

import (
	"strings"
	"testing"

	"github.com/corebot/corebot/channels/channeltest"
)

// TestThePageNamesEverySettingAndEveryErrorOfAnAccount reads docs/channels.md.
func TestThePageNamesEverySettingAndEveryErrorOfAnAccount(t *testing.T) {
	var said []string
	for _, err := range []error{errRevoked, errOtherWebhook, errOtherPoller, errForeignWebhook, errWebhookGone} {
		words, _, _ := strings.Cut(err.Error(), " with the same token")
		words, _, _ = strings.Cut(words, ": it is wrong")
		words, _, _ = strings.Cut(words, " of its own")
		words, _, _ = strings.Cut(words, ": another program has removed")
		said = append(said, words)
	}
	channeltest.Page(t, "Telegram", Network(), said...)
}

func TestEditsAreNeverSoOftenThatRepliesWait(t *testing.T) {
	s := Settings{Token: "123456:" + strings.Repeat("a", 35), APIURL: standardURL, Poll: maxPoll}
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	for s.Stream = streamLeast; s.Stream > 0; s.Stream /= 2 {
		if err := s.Validate(); (err == nil) != (s.Stream == streamLeast) {
			t.Fatalf("%v: %v", s.Stream, err)
		}
	}
}
