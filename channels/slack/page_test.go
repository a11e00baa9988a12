package slack

import (
	"strings"
	"testing"

	"github.com/corebot/corebot/channels/channeltest"
)

// TestThePageNamesEverySettingAndEveryErrorOfAnAccount reads docs/channels.md.
func TestThePageNamesEverySettingAndEveryErrorOfAnAccount(t *testing.T) {
	var said []string
	for _, err := range []error{revoked, noScope, noSockets} {
		words, _, _ := strings.Cut(err.Error(), ": it is wrong")
		said = append(said, words)
	}
	channeltest.Page(t, "Slack", Network(), said...)
}

func TestEditsAreNeverSoOftenThatRepliesWait(t *testing.T) {
	s := Settings{Token: "xoxb-1234567890", AppToken: "xapp-1234567890", APIURL: standardURL}
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	for s.Stream = streamLeast; s.Stream > 0; s.Stream /= 2 {
		if err := s.Validate(); (err == nil) != (s.Stream == streamLeast) {
			t.Fatalf("%v: %v", s.Stream, err)
		}
	}
}
