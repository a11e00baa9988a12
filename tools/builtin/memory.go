package builtin

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"strings"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/memory"
	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/internal/terms"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/tools"
)

// pageKey names the page of a scope. Policy lets only known scopes through. The chat's own page is the narrowest, and
// what is meant where no scope is named.
func pageKey(c tools.Call, scope string) corebot.Key {
	switch scope {
	case policy.ScopeGlobal, policy.ScopeAgent:
		return c.Key.OfAgent()
	case policy.ScopeChannel:
		return c.Key.InChannel()
	}
	return c.Key
}

// origin says where the text of a call comes from, for a page. Policy lets only admins everywhere write a page that
// chats share, and in a tainted turn only after an approval. The operator stands for what such an admin has written
// alone in an untainted turn.
func origin(c tools.Call, page corebot.Key) corebot.MemoryNote {
	from := corebot.MemoryNote{Sender: c.Principal, MessageID: c.MessageID, Taint: c.Taint, At: time.Now()}
	if page != c.Key {
		from.Chat, from.Trusted = c.Key.String(), from.Clean() && len(c.Others) == 0
	}
	return from
}

// inPieces shows a page: what taints nobody, and behind that what others can have written.
func inPieces(ctx context.Context, c tools.Call, pages *memory.Store, page corebot.Key) (text string, outside bool,
	err error,
) {
	pieces, whole, err := pages.Pieces(ctx, page)
	if err == nil && !whole {
		err = corebot.WithHint(fmt.Errorf("read memory: the page %w", rootfs.ErrTooLarge),
			"read "+string(memory.Of(page))+" piece by piece as a file, then replace the page by a shorter one")
	}
	if err != nil {
		return "", false, err
	}
	var own, apart strings.Builder
	why := ""
	for _, p := range pieces {
		if p.CleanFor(c.Principal) {
			own.WriteString(p.Text)
			continue
		}
		if is := reservation(p.MemoryNote); is != why {
			fmt.Fprintf(&apart, "[kept apart: %s]\n", is)
			why = is
		}
		apart.WriteString(p.Text)
	}
	return strings.ToValidUTF8(own.String()+apart.String(), "\uFFFD"), apart.Len() > 0, nil
}

// reservation says why a piece of memory is not taken for what the reader himself said.
func reservation(n corebot.MemoryNote) string {
	switch {
	case n.Taint == memory.Unknown:
		return n.Taint
	case n.Taint != "":
		return "its turn had read text from outside (" + n.Taint + ")"
	}
	return "somebody else said it"
}

//go:embed memory_search.md
var memorySearchDoc string

// byMeaning begins the result of a search that went by meaning, too.
const byMeaning = "[found by words and by meaning, the best first]\n"

const nothingRemembered = "[nothing like that is remembered]"

// memoriesMost is how many lines one call shows.
const memoriesMost = 50

type memorySearchArgs struct {
	Query string `json:"query" jsonschema:"words to look for; words in double quotes stand together"`
	Scope string `json:"scope,omitempty" jsonschema:"chat, channel or agent; all three if left out"`
}

// scopes are the pages that are searched.
func (a memorySearchArgs) scopes() []string {
	if a.Scope == "" {
		return []string{policy.ScopeChat, policy.ScopeChannel, policy.ScopeGlobal}
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
			var keys []corebot.Key
			for _, scope := range a.scopes() {
				keys = append(keys, pageKey(c, scope))
			}
			found, how, err := pages.Search(ctx, c.Key, q, keys, factsShown)
			if err != nil {
				return "", false, tools.Own(err)
			}
			if how.Meaning {
				q = q.Loose()
			}
			b := bytes.NewBufferString(without(how))
			if how.Meaning && len(found) > 0 {
				b.WriteString(byMeaning)
			}
			for _, line := range found[:min(len(found), memoriesMost)] {
				apart := ""
				operators := keys[line.Page] == c.Key.OfAgent()
				if !operators && !line.CleanFor(c.Principal) {
					apart, outside = ", kept apart", true
				}
				fmt.Fprintf(b, "%s, line %d%s: %s\n", a.scopes()[line.Page], line.Number, apart,
					terms.Excerpt(line.Text, q.In(line.Text), excerptBytes))
			}
			switch {
			case len(found) == 0:
				b.WriteString(nothingRemembered)
			case len(found) > memoriesMost:
				fmt.Fprintf(b, "[there are %d more]\n", len(found)-memoriesMost)
			}
			return b.String(), outside, nil
		}, tools.Touches(func(_ tools.Call, a memorySearchArgs) policy.Target {
			// of the three the one that more is kept from
			return policy.Target{Scope: cmp.Or(a.Scope, policy.ScopeGlobal)}
		}))
}
