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
