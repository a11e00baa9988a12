package discord

import (
	"strings"
	"testing"

	"github.com/corebot/corebot/channels/channeltest"
)

// TestThePageNamesEverySettingAndEveryErrorOfAnAccount reads docs/channels.md.
func TestThePageNamesEverySettingAndEveryErrorOfAnAccount(t *testing.T) {
	var said []string
	for _, err := range []error{revoked, disallowed, sharding, outside, closed} {
		words, _, _ := strings.Cut(err.Error(), ":")
		said = append(said, words)
	}
	channeltest.Page(t, "Discord", Network(), said...)
}

func TestEditsAreNeverSoOftenThatRepliesWait(t *testing.T) {
	s := Settings{Token: strings.Repeat("a", 24) + ".abcdef." + strings.Repeat("b", 27), APIURL: standardURL}
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	for s.Stream = streamLeast; s.Stream > 0; s.Stream /= 2 {
		if err := s.Validate(); (err == nil) != (s.Stream == streamLeast) {
			t.Fatalf("%v: %v", s.Stream, err)
		}
	}
}
