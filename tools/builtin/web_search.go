package builtin

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
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
			query, count, err := a.check()
			if err != nil {
				return "", err
			}
			found, err := engine.Search(ctx, query, count)
			if err != nil {
				return "", fmt.Errorf("search the web: %w", err)
			}
			return searchText(found[:min(len(found), count)]), nil
		}, tools.Timeout[webSearchArgs](timeout+slack),
		tools.OwnWords(func(tools.Call, webSearchArgs) []string { return []string{nothingFound} }))
}

// check gives the query and the number of results that are wanted.
func (a webSearchArgs) check() (query string, count int, err error) {
	query = strings.TrimSpace(a.Query)
	switch {
	case query == "" || len(query) > maxQuery:
		return "", 0, tools.Own(fmt.Errorf("%w: a query of %d bytes: want 1 to %d", corebot.ErrInvalid, len(query),
			maxQuery))
	case a.Count < 0:
		return "", 0, tools.Own(fmt.Errorf("%w: count %d: want 1 to %d", corebot.ErrInvalid, a.Count, resultsMost))
	}
	return query, min(cmp.Or(a.Count, resultsShown), resultsMost), nil
}

// WebSearchBy has a tool of an MCP server search. The function find gives the tool as its server lists it now; without
// the tool a search is an error. The operator has chosen the tool, so no rule for tools of MCP servers holds for it.
func WebSearchBy(name string, find func(name string) (tools.Tool, bool), timeout time.Duration) tools.Tool {
	return tools.New("web.search", webSearchDoc, tools.ReadOnly|tools.Outside|tools.Links,
		func(ctx context.Context, call tools.Call, a webSearchArgs) (string, error) {
			query, count, err := a.check()
			if err != nil {
				return "", err
			}
			tool, there := find(name)
			if !there {
				return "", tools.Own(fmt.Errorf("search the web: no MCP server has the tool %s now", name))
			}
			args, err := queryArgs(tool.Offered().Schema, query, count)
			if err != nil {
				return "", fmt.Errorf("search the web by %s: %w", name, err)
			}
			text, err := tool.Work(ctx, call, args)
			if err != nil {
				return "", fmt.Errorf("search the web by %s: %w", name, err)
			}
			return text, nil
		}, tools.Timeout[webSearchArgs](timeout+slack))
}

// The names that search tools give to the query and to the number of results, the likeliest first.
var (
	queryNames = []string{"query", "q", "search_query", "searchTerm", "search_term", "keywords", "text", "input"}
	countNames = []string{"count", "limit", "num_results", "numResults", "max_results", "maxResults", "top_k"}
)

// queryArgs are the arguments of a search tool by its schema: the query, and the number of results if the tool takes
// one.
func queryArgs(schema json.RawMessage, query string, count int) (json.RawMessage, error) {
	var s struct {
		Properties map[string]struct {
			Type any `json:"type"`
		} `json:"properties"`
		Required []string `json:"required"`
	}
	if err := json.Unmarshal(schema, &s); err != nil {
		return nil, fmt.Errorf("its schema cannot be read: %w", err)
	}
	args := map[string]any{}
	for _, name := range append(queryNames, s.Required...) {
		if p, there := s.Properties[name]; there && p.Type == "string" {
			args[name] = query
			break
		}
	}
	if len(args) == 0 {
		return nil, tools.Own(errors.New("it takes no query"))
	}
	for _, name := range countNames {
		if p, there := s.Properties[name]; there && (p.Type == "integer" || p.Type == "number") {
			args[name] = count
			break
		}
	}
	return json.Marshal(args)
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
