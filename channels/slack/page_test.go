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
