package builtin

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/terms"
	"github.com/corebot/corebot/tools"
)

//go:embed history_search.md
var historySearchDoc string

// Sayings finds what was said in a chat. By words, found are the newest entries that have all of the query or, where
// there are none, those that have the most of its terms. By meaning, the best come first.
type Sayings interface {
	Search(ctx context.Context, k corebot.Key, q terms.Query, limit int) (found []corebot.HistoryEntry,
		how corebot.Match, err error)
	// Sources says of found entries, each by its place, who has spoken in the turn that said it.
	Sources(ctx context.Context, k corebot.Key, found []corebot.HistoryEntry) ([]corebot.Sources, error)
}

const nothingSaid = "[nothing like that was said in this chat]"

const (
	sayingsShown = 10
	sayingsMost  = 50
	queryBytes   = 1_000 // bytes
	excerptBytes = 500
)

type historySearchArgs struct {
	Query string `json:"query" jsonschema:"words that were said; words in double quotes stand together"`
	Limit int    `json:"limit,omitempty" jsonschema:"how many at most; 10 if left out, 50 at most"`
}

// saying is something that was said, as the model sees it.
type saying struct {
	At       time.Time `json:"at"`
	Who      string    `json:"who"` // user or assistant
	Name     string    `json:"name,omitempty"`
	SenderID string    `json:"senderId,omitempty"`
	Text     string    `json:"text"`
}

// HistorySearch finds what was said in the caller's own chat, in all its sessions. Messages of the caller's
// principal, and answers of untainted turns to him alone, are not from outside.
func HistorySearch(sayings Sayings) tools.Tool {
	return tools.NewSourced("history.search", historySearchDoc, tools.ReadOnly,
		func(ctx context.Context, c tools.Call, a historySearchArgs) (text string, outside bool, err error) {
			q, err := parseQuery(a.Query)
			if err != nil {
				return "", false, tools.Own(err)
			}
			if a.Limit < 0 {
				return "", false, tools.Own(fmt.Errorf("%w: limit %d: want 1 to %d", corebot.ErrInvalid, a.Limit,
					sayingsMost))
			}
			found, how, err := sayings.Search(ctx, c.Key, q, min(cmp.Or(a.Limit, sayingsShown), sayingsMost))
			if err == nil {
				outside, err = saidOutside(ctx, sayings, c, found)
			}
			if err != nil {
				return "", false, tools.Own(fmt.Errorf("search the history: %w", err))
			}
			text, err = foundText(found, how, q)
			return text, outside, err
		})
}

// saidOutside says whether others than the operator and the caller's principal can have had a hand in what was found.
func saidOutside(ctx context.Context, sayings Sayings, c tools.Call, found []corebot.HistoryEntry) (bool, error) {
	if len(found) == 0 {
		return false, nil
	}
	of, err := sayings.Sources(ctx, c.Key, found)
	return slices.ContainsFunc(of, func(s corebot.Sources) bool { return !s.CleanFor(c.Principal) }), err
}

// foundText is what the model reads.
func foundText(found []corebot.HistoryEntry, how corebot.Match, q terms.Query) (string, error) {
	head := without(how)
	switch {
	case len(found) == 0:
		return head + nothingSaid, nil
	case how.Meaning:
		return sayingLines(found, q.Loose(), byMeaning)
	case how.Whole:
		return sayingLines(found, q, head)
	}
	return sayingLines(found, q.Loose(), head+"[nothing has all of that; these have some of it]\n")
}

// without says why a search went by words alone although it could go by meaning, too.
func without(how corebot.Match) string {
	if how.Without == "" {
		return ""
	}
	return "[searched by words alone: " + how.Without + "]\n"
}

// parseQuery refuses what cannot be searched for.
func parseQuery(text string) (terms.Query, error) {
	if len(text) > queryBytes {
		return terms.Query{}, fmt.Errorf("%w: a query of %d bytes: want at most %d", corebot.ErrInvalid, len(text),
			queryBytes)
	}
	q := terms.Parse(text)
	if len(q.Phrases) == 0 {
		return q, fmt.Errorf("%w: the query has no letter, digit or symbol that can be searched for",
			corebot.ErrInvalid)
	}
	return q, nil
}

// sayingLines writes one JSON object a line, so that nothing that was said can pass for another line.
func sayingLines(found []corebot.HistoryEntry, q terms.Query, head string) (string, error) {
	out := bytes.NewBufferString(head)
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	for _, e := range found {
		err := enc.Encode(saying{
			e.At.UTC(), string(e.Speaker), e.Name, e.Sender.ID,
			terms.Excerpt(e.Text(), q.In(e.Text()), excerptBytes),
		})
		if err != nil {
			return "", fmt.Errorf("encode what was said: %w", err)
		}
	}
	return out.String(), nil
}
