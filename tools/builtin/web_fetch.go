package builtin

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/egress"
	"github.com/corebot/corebot/internal/webpage"
	"github.com/corebot/corebot/tools"
)

//go:embed web_fetch.md
var webFetchDoc string

// slack is how much later than its client a tool of the web gives up. So the client's error comes first: it says more.
const slack = 2 * time.Second

type webFetchArgs struct {
	URL string `json:"url" jsonschema:"the address, beginning with http:// or https://"`
}

// WebFetch reads a page or a PDF document of the web through client. timeout is that of the client; it holds for
// reading and converting together. Without docs documents are not shown.
func WebFetch(client *egress.Client, timeout time.Duration, docs Documents) tools.Tool {
	wants := func(mediaType string) bool { return isReadable(mediaType) || docs != nil && isDocument(mediaType) }
	return tools.New("web.fetch", webFetchDoc, tools.ReadOnly|tools.Outside|tools.Egress|tools.Links,
		func(ctx context.Context, _ tools.Call, a webFetchArgs) (string, error) {
			ctx, stop := context.WithTimeoutCause(ctx, timeout,
				fmt.Errorf("get %.200q: it took too long (the limit is %v)",
					a.URL, timeout))
			defer stop()
			answer, err := client.Get(ctx, egress.Request{
				URL: a.URL, Wants: wants, Header: http.Header{"Accept": {"text/html, application/xhtml+xml, " +
					"text/markdown, text/plain, application/json, application/pdf, application/xml;q=0.9, */*;q=0.1"}},
			})
			switch {
			case err != nil:
				return "", refusal(err)
			case answer.Status/100 != 2:
				return "", unwanted(a.URL, answer)
			}
			return readable(ctx, answer, docs)
		}, tools.Timeout[webFetchArgs](timeout+slack),
		tools.Able(func(_ tools.Call, a webFetchArgs) error { return refusal(client.Check(a.URL)) }),
		tools.GoesTo(func(_ tools.Call, a webFetchArgs) []string { return []string{a.URL} }))
}

// refusal adds to a refused address who can change that.
func refusal(err error) error {
	if errors.Is(err, egress.ErrRefused) {
		return corebot.WithHint(err, "only the operator can change what may be fetched, in tools.web of the settings")
	}
	return err
}

// isReadable says whether an answer of that type can be shown as text.
func isReadable(mediaType string) bool { return isPage(mediaType) || isPlain(mediaType) }

func isPage(mediaType string) bool {
	return mediaType == "text/html" || mediaType == "application/xhtml+xml"
}

func isDocument(mediaType string) bool { return mediaType == "application/pdf" }

func isPlain(mediaType string) bool {
	switch mediaType {
	case "text/plain", "text/markdown", "text/x-markdown", "application/json", "text/json", "application/xml",
		"text/xml":
		return true
	}
	return strings.HasSuffix(mediaType, "+json") || strings.HasSuffix(mediaType, "+xml") && mediaType != "image/svg+xml"
}

// readable is an answer as the model reads it: where it comes from, what it is called, what it says.
func readable(ctx context.Context, answer egress.Response, docs Documents) (string, error) {
	head := "URL: " + answer.URL.Redacted() + "\n"
	if docs != nil && isDocument(answer.MediaType) {
		text, err := fetchedDocument(ctx, docs, answer.Body, answer.Cut)
		return head + "\n" + text, err
	}
	if !isReadable(answer.MediaType) {
		return head + fmt.Sprintf("\n[a file of type %.100q; only pages, text and PDF are shown]",
			answer.MediaType), nil
	}
	text, cut := "", answer.Cut
	if isPage(answer.MediaType) {
		page, err := webpage.Markdown(ctx, answer.Body, answer.ContentType, answer.URL)
		if err != nil {
			return "", err
		}
		if page.Title != "" {
			head += "Title: " + page.Title + "\n"
		}
		text, cut = page.Markdown, cut || page.Cut
	} else {
		text = webpage.Decode(answer.Body, answer.ContentType)
	}
	if strings.TrimSpace(text) == "" {
		text = "[there is no text]"
	}
	if cut {
		text += "\n\n[there is more than this; the rest was not read]"
	}
	return head + "\n" + text, nil
}

// unwanted is the error of an answer without a page. The server chooses the address behind a redirect, and the words of
// its headers.
func unwanted(asked string, answer egress.Response) error {
	err := fmt.Errorf("get %s: %s", answer.URL.Redacted(), statusText(answer))
	if u, wrong := url.Parse(asked); wrong == nil && *answer.URL == *u && answer.Header.Get("Retry-After") == "" {
		return tools.Own(err)
	}
	return err
}

// statusText is the status of an answer, and when to try again if it says so.
func statusText(answer egress.Response) string {
	text := strings.TrimSpace(fmt.Sprintf("the server answered %d %s", answer.Status, http.StatusText(answer.Status)))
	if after := answer.Header.Get("Retry-After"); after != "" &&
		(answer.Status == http.StatusTooManyRequests || answer.Status == http.StatusServiceUnavailable) {
		text += fmt.Sprintf("; it says to try again after %.40q", after)
	}
	return text
}
