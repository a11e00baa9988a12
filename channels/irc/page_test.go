package irc

import (
	"strings"
	"testing"

	"github.com/corebot/corebot/channels/channeltest"
)

// TestThePageNamesEverySettingAndEveryErrorOfAnAccount reads docs/channels.md.
func TestThePageNamesEverySettingAndEveryErrorOfAnAccount(t *testing.T) {
	var said []string
	for _, err := range []error{refused, noLogin, banned, throttled, badNick, mute, outside} {
		words, _, _ := strings.Cut(err.Error(), ": it has")
		said = append(said, words)
	}
	channeltest.Page(t, "IRC", Network(), append(said, "the person is not on the server")...)
}
