// Package webpage makes text of web pages: their main content as Markdown, whatever their charset and however they are
// built.
//
// Guarantees of [Markdown]:
//   - It ends soon after ctx does. Its work and memory are bounded by the size of the page, however hostile. Depth,
//     number of nodes and amount of text have limits. The rest is left out, and the text says so.
//   - It does not panic, whatever the libraries behind it do.
//   - Scripts, styles, forms and text that a browser would not show are left out, where markup and style attributes
//     tell. Links are absolute, and lead to http, https, mail and telephone only.
//
// Limits: style sheets are not read, so text that only they hide is shown, and no script runs.
package webpage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"codeberg.org/readeck/go-readability/v2"
	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/base"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/commonmark"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/table"
	"golang.org/x/net/html"
)

const (
	maxTitle = 300 // bytes
	leastRun = 200 // bytes of text; less is no main content if the page has more
)

// Page is what can be read of a page.
type Page struct {
	Title    string // in one line; may be empty
	Markdown string
	Whole    bool // no main content was found: this is everything
	Cut      bool // it has more than the limits let through
}

var errPanic = errors.New("the page could not be converted")

// Markdown converts an HTML page. contentType is the header with which it came, or empty; relative links are relative
// to address. The error is the cause of ctx, or says that the page cannot be converted.
func Markdown(ctx context.Context, body []byte, contentType string, address *url.URL) (Page, error) {
	type end struct {
		page Page
		err  error
	}
	done := make(chan end, 1)
	go func() { // the libraries do not look at ctx; what is left behind is bounded, and ends by itself
		page, err := convert(ctx, Decode(body, contentType), address)
		done <- end{page, err}
	}()
	select {
	case <-ctx.Done():
		return Page{}, context.Cause(ctx)
	case e := <-done:
		return e.page, e.err
	}
}

func convert(ctx context.Context, text string, address *url.URL) (Page, error) {
	b := newBuilder(address)
	if err := b.parse(ctx, text); err != nil {
		return Page{}, err
	}
	page := Page{Title: title(b.title.String()), Cut: b.cut}
	if main, name := mainContent(b.document, b.base); main != nil {
		md, err := markdown(ctx, main)
		if err == nil && (len(md) >= leastRun || len(md) >= len(textOf(b.body))) {
			if name != "" {
				page.Title = title(name)
			}
			page.Markdown = md
			return page, nil
		}
	}
	if ctx.Err() != nil {
		return Page{}, context.Cause(ctx)
	}
	page.Whole = true
	md, err := markdown(ctx, b.body)
	if err != nil {
		md = textOf(b.body)
	}
	page.Markdown = md
	return page, nil
}

// mainContent finds what the page is about, and its name; nil if nothing stands out. The document is left as it is.
func mainContent(document *html.Node, base *url.URL) (main *html.Node, name string) {
	defer func() {
		if recover() != nil {
			main = nil
		}
	}()
	finder := readability.NewParser()
	finder.DisableJSONLD = true
	article, err := finder.ParseDocument(document, base)
	if err != nil {
		return nil, ""
	}
	return article.Node, article.Title()
}

func markdown(ctx context.Context, n *html.Node) (_ string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errPanic, p)
		}
	}()
	c := converter.NewConverter(
		// a model needs no snake\_case, and escaping looks ahead from every [ to the end
		converter.WithEscapeMode(converter.EscapeModeDisabled),
		converter.WithPlugins(base.NewBasePlugin(),
			commonmark.NewCommonmarkPlugin(commonmark.WithLinkEmptyHrefBehavior(commonmark.LinkBehaviorSkip)),
			table.NewTablePlugin(
				// one long cell would make its whole column as long
				table.WithCellPaddingBehavior(table.CellPaddingBehaviorNone),
			)),
	)
	out, err := c.ConvertNode(n, converter.WithContext(ctx))
	return string(bytes.TrimSpace(out)), err
}

// title is a title in one line.
func title(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > maxTitle {
		s = strings.ToValidUTF8(s[:maxTitle], "") + "…"
	}
	return s
}

// textOf is the text below a node, its words as far apart as they were.
func textOf(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data)
		}
	}
	return strings.TrimSpace(b.String())
}

// Plain is a piece of HTML as text in one line, without its tags.
func Plain(fragment string) string {
	var b strings.Builder
	z := html.NewTokenizer(strings.NewReader(fragment))
	for {
		switch z.Next() {
		case html.ErrorToken: // the end: a string cannot be read badly
			return strings.Join(strings.Fields(b.String()), " ")
		case html.TextToken:
			b.Write(z.Text())
		}
	}
}
