package builtin

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/egress"
	"github.com/corebot/corebot/internal/webpage"
	"github.com/corebot/corebot/tools"
)

//go:embed web_search.md
var webSearchDoc string

const (
	resultsShown = 5   // unless the model asks for another number
	resultsMost  = 20  // whatever it asks for
	maxQuery     = 400 // bytes, which is what search engines take
	maxSnippet   = 500 // bytes of a title or a snippet
)

const nothingFound = "[nothing was found]"

// SearchEngine finds pages. It returns at most count of them, the best first.
type SearchEngine interface {
	Search(ctx context.Context, query string, count int) ([]SearchResult, error)
}

// SearchResult is one page that was found. Its texts may have HTML in them.
type SearchResult struct {
	Title, URL, Snippet string
	Age                 string // when it was written, in words or as a date; may be empty
}

type webSearchArgs struct {
	Query string `json:"query" jsonschema:"what to search for"`
	Count int    `json:"count,omitempty" jsonschema:"how many results; 5 if it is left out, 20 at most"`
}

// WebSearch asks a search engine. timeout is that of the engine's client.
func WebSearch(engine SearchEngine, timeout time.Duration) tools.Tool {
	return tools.New("web.search", webSearchDoc, tools.ReadOnly|tools.Outside|tools.Links,
		func(ctx context.Context, _ tools.Call, a webSearchArgs) (string, error) {
			query := strings.TrimSpace(a.Query)
			switch {
			case query == "" || len(query) > maxQuery:
				return "", tools.Own(fmt.Errorf("%w: a query of %d bytes: want 1 to %d", corebot.ErrInvalid, len(query),
					maxQuery))
			case a.Count < 0:
				return "", tools.Own(fmt.Errorf("%w: count %d: want 1 to %d", corebot.ErrInvalid, a.Count, resultsMost))
			}
			count := min(cmp.Or(a.Count, resultsShown), resultsMost)
			found, err := engine.Search(ctx, query, count)
			if err != nil {
				return "", fmt.Errorf("search the web: %w", err)
			}
			return searchText(found[:min(len(found), count)]), nil
		}, tools.Timeout[webSearchArgs](timeout+slack),
		tools.OwnWords(func(tools.Call, webSearchArgs) []string { return []string{nothingFound} }))
}

// searchText numbers the results, each with its lines below its title.
func searchText(found []SearchResult) string {
	if len(found) == 0 {
		return nothingFound
	}
	var b strings.Builder
	for i, r := range found {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%d. %s\n   %s\n", i+1, cmp.Or(brief(r.Title), "(no title)"), brief(r.URL))
		if snippet := brief(r.Snippet); snippet != "" {
			b.WriteString("   " + snippet + "\n")
		}
		if age := brief(r.Age); age != "" {
			b.WriteString("   age: " + age + "\n")
		}
	}
	return b.String()
}

// brief is a text of a search engine in one line, without markup.
func brief(s string) string {
	s = webpage.Plain(s)
	if len(s) > maxSnippet {
		s = strings.ToValidUTF8(s[:maxSnippet], "") + "…"
	}
	return s
}

// asJSON decodes the answer of a search engine.
func asJSON(answer egress.Response, into any) error {
	switch {
	case answer.Cut:
		return fmt.Errorf("%s answered with too much", answer.URL.Host)
	case answer.MediaType != "application/json":
		return fmt.Errorf("%s answered with %.60q, which is no list of results", answer.URL.Host, answer.MediaType)
	}
	if err := json.Unmarshal(answer.Body, into); err != nil {
		return fmt.Errorf("%s answered with bad JSON: %w", answer.URL.Host, err)
	}
	return nil
}

// statusError says what is wrong with an answer that is no success; nil if it is one. refused is said where the engine
// refuses who asks.
func statusError(answer egress.Response, refused error) error {
	switch {
	case answer.Status == http.StatusOK:
		return nil
	case answer.Status == http.StatusUnauthorized, answer.Status == http.StatusForbidden:
		return refused
	}
	return fmt.Errorf("%s: %s", answer.URL.Host, statusText(answer))
}
