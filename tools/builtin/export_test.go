package builtin

import (
	"time"

	"github.com/corebot/corebot/internal/egress"
	"github.com/corebot/corebot/internal/roots"
	"github.com/corebot/corebot/tools"
)

// NewBraveAt asks another server than Brave's: nobody can try the real one without a key of his own.
func NewBraveAt(endpoint, key string, client *egress.Client) *Brave {
	return &Brave{endpoint: endpoint, key: key, client: client}
}

// SearchWithin is [Search] with limits that a test can reach.
func SearchWithin(root *roots.Reach, entries int, bytes int64, limit time.Duration) tools.Tool {
	return searchWithin(root, searchLimits{entries: entries, bytes: bytes, time: limit})
}
