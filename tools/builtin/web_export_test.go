package builtin

import "github.com/corebot/corebot/internal/egress"

// NewBraveAt asks another server than Brave's: nobody can try the real one without a key of his own.
func NewBraveAt(endpoint, key string, client *egress.Client) *Brave {
	return &Brave{endpoint: endpoint, key: key, client: client}
}
