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
