package agent

import (
	"crypto/sha256"

	"github.com/corebot/corebot"
)

// maxRepeats is how often one call may give the same result in a turn before the turn is taken to be stuck.
const maxRepeats = 3

// repeats notices a model that goes in circles: the same call with the same result again and again.
type repeats struct {
	seen map[[sha256.Size]byte]int
	most int
}

func (r *repeats) note(c corebot.ToolCall, result corebot.ToolResult) {
	if r.seen == nil {
		r.seen = map[[sha256.Size]byte]int{}
	}
	h := sha256.New()
	for _, s := range []string{c.Tool, string(c.Args), string(result.Outcome), result.Content} {
		h.Write([]byte(s))
		h.Write([]byte{0})
	}
	key := [sha256.Size]byte(h.Sum(nil))
	r.seen[key]++
	r.most = max(r.most, r.seen[key])
}

func (r *repeats) stuck() bool { return r.most >= maxRepeats }
