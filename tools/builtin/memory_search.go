package builtin

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"strings"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/memory"
	"github.com/corebot/corebot/internal/terms"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/tools"
)

//go:embed memory_search.md
var memorySearchDoc string

const nothingRemembered = "[nothing like that is remembered]"

// memoriesMost is how many lines one call shows.
const memoriesMost = 50

type memorySearchArgs struct {
	Query string `json:"query" jsonschema:"words to look for; words in double quotes stand together"`
	Scope string `json:"scope,omitempty" jsonschema:"global or chat; both if left out"`
}

// scopes are the pages that are searched.
func (a memorySearchArgs) scopes() []string {
	if a.Scope == "" {
		return []string{policy.ScopeChat, policy.ScopeGlobal}
	}
	return []string{a.Scope}
}

// MemorySearch finds lines of memory. It reads the pages whole: they are bounded, and an index would have to follow
// whoever edits them.
func MemorySearch(pages *memory.Store) tools.Tool {
	return tools.NewSourced("memory.search", memorySearchDoc, tools.ReadOnly,
		func(ctx context.Context, c tools.Call, a memorySearchArgs) (text string, outside bool, err error) {
			q, err := parseQuery(a.Query)
			if err != nil {
				return "", false, tools.Own(err)
			}
			var b strings.Builder
			n := 0
			for _, scope := range a.scopes() {
				found, err := remembered(ctx, pages, c.Key, scope, q)
				if err != nil {
					return "", false, tools.Own(err)
				}
				for _, line := range found {
					if n++; n > memoriesMost {
						continue
					}
					apart := ""
					if scope == policy.ScopeChat && !line.CleanFor(c.Principal) {
						apart, outside = ", kept apart", true
					}
					fmt.Fprintf(&b, "%s, line %d%s: %s\n", scope, line.Number, apart,
						terms.Excerpt(line.Text, q.In(line.Text), excerptBytes))
				}
			}
			if n > memoriesMost {
				fmt.Fprintf(&b, "[there are %d more]\n", n-memoriesMost)
			}
			return cmp.Or(b.String(), nothingRemembered), outside, nil
		}, tools.Touches(func(_ tools.Call, a memorySearchArgs) policy.Target {
			// of the two the one that more is kept from
			return policy.Target{Scope: cmp.Or(a.Scope, policy.ScopeGlobal)}
		}))
}

// remembered finds lines of one page.
func remembered(ctx context.Context, pages *memory.Store, k corebot.Key, scope string,
	q terms.Query,
) ([]memory.Line, error) {
	if scope == policy.ScopeGlobal {
		return pages.Search(memory.Global, q)
	}
	return pages.SearchChat(ctx, k, q)
}
