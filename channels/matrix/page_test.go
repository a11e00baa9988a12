package matrix

import (
	"strings"
	"testing"

	"github.com/corebot/corebot/channels/channeltest"
)

// TestThePageNamesEverySettingAndEveryErrorOfAnAccount reads docs/channels.md.
func TestThePageNamesEverySettingAndEveryErrorOfAnAccount(t *testing.T) {
	var said []string
	for _, err := range []error{revoked, expired, outside} {
		words, _, _ := strings.Cut(err.Error(), ":")
		said = append(said, words)
	}
	channeltest.Page(t, "Matrix", Network(), said...)
}

func TestEditsAreNeverSoOftenThatRepliesWait(t *testing.T) {
	s := Settings{Homeserver: "https://matrix.example.org", Token: "token"}
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	for s.Stream = streamLeast; s.Stream > 0; s.Stream /= 2 {
		if err := s.Validate(); (err == nil) != (s.Stream == streamLeast) {
			t.Fatalf("%v: %v", s.Stream, err)
		}
	}
}
