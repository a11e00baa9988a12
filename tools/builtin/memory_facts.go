package builtin

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/tools"
)

var (
	//go:embed memory_facts.md
	memoryFactsDoc string
	//go:embed memory_recall.md
	memoryRecallDoc string
	//go:embed memory_forget.md
	memoryForgetDoc string
	//go:embed memory_summary.md
	memorySummaryDoc string
)

// Facts are what a chat knows as facts: see storage.
type Facts interface {
	// Recall finds facts by their words and, where there are vectors, by their meaning.
	Recall(ctx context.Context, k corebot.Key, who corebot.Principal, text string,
		limit int) ([]corebot.Fact, corebot.Match, error)
	Page(ctx context.Context, k corebot.Key, all bool, limit int) ([]corebot.Fact, error)
}

// Summaries gives the summaries of a chat's sessions.
type Summaries interface {
	Summaries(ctx context.Context, k corebot.Key, r corebot.SummaryRange, limit int) ([]corebot.Summary, error)
}

const (
	noFacts        = "[no such fact is remembered]"
	noSummaries    = "[no session of that range has been summarised; history.search finds what was said]"
	factsShown     = 20
	factsMost      = 200
	summariesMost  = 20
	summaryBytes   = 6_000
	maxForgotten   = 100
	factsOfAnyone  = policy.ScopeChat
	dayOfSummaries = time.DateOnly
)

// MemoryFacts are the tools for facts.
func MemoryFacts(facts Facts) []tools.Tool {
	inChat := func() policy.Target { return policy.Target{Scope: factsOfAnyone} }
	return []tools.Tool{
		tools.NewSourced("memory.facts", memoryFactsDoc, tools.ReadOnly,
			func(ctx context.Context, c tools.Call, a memoryFactsArgs) (string, bool, error) {
				if a.Limit < 0 {
					return "", false, tools.Own(fmt.Errorf("%w: limit %d: want 1 to %d", corebot.ErrInvalid, a.Limit,
						factsMost))
				}
				found, err := facts.Page(ctx, c.Key, a.Superseded, min(cmp.Or(a.Limit, factsShown), factsMost))
				return factLines(c, found, err)
			}, tools.Touches(func(tools.Call, memoryFactsArgs) policy.Target { return inChat() })),
		tools.NewSourced("memory.recall", memoryRecallDoc, tools.ReadOnly,
			func(ctx context.Context, c tools.Call, a memoryRecallArgs) (string, bool, error) {
				if _, err := parseQuery(a.Query); err != nil {
					return "", false, tools.Own(err)
				}
				found, how, err := facts.Recall(ctx, c.Key, c.Principal, a.Query, factsShown)
				text, outside, err := factLines(c, found, err)
				return without(how) + text, outside, err
			}, tools.Touches(func(tools.Call, memoryRecallArgs) policy.Target { return inChat() })),
		memoryForget(),
	}
}

type memoryFactsArgs struct {
	Superseded bool `json:"superseded,omitempty" jsonschema:"also facts that newer ones have superseded"`
	Limit      int  `json:"limit,omitempty" jsonschema:"how many, the newest; 20 if left out, 200 at most"`
}

type memoryRecallArgs struct {
	Query string `json:"query" jsonschema:"what to remember: words, names"`
}

// factLine is a fact, as the model sees it.
type factLine struct {
	ID           int64     `json:"id"`
	Scope        string    `json:"scope"`
	Subject      string    `json:"subject"`
	Relation     string    `json:"relation"`
	Object       string    `json:"object"`
	SaidBy       string    `json:"saidBy,omitempty"`
	MessageID    string    `json:"messageId,omitempty"`
	At           time.Time `json:"at"`
	SupersededBy int64     `json:"supersededBy,omitempty"`
	KeptApart    string    `json:"keptApart,omitempty"`
}

// factLines writes one JSON object a line, so that no fact can pass for another. Text that others can have written
// makes the result one from outside.
func factLines(c tools.Call, found []corebot.Fact, err error) (string, bool, error) {
	if err != nil {
		return "", false, tools.Own(fmt.Errorf("read facts: %w", err))
	}
	var out bytes.Buffer
	outside := false
	for _, f := range found {
		line := factLine{
			ID: f.ID, Scope: string(f.Scope), Subject: f.Subject, Relation: f.Relation, Object: f.Object,
			SaidBy: f.Sender.Label(), MessageID: f.MessageID, At: f.At.UTC(), SupersededBy: f.SupersededBy,
		}
		if !f.CleanFor(c.Principal) {
			line.KeptApart, outside = reservation(corebot.MemoryNote{Sender: f.Sender, Taint: f.Taint}), true
		}
		if err := encodeLine(&out, line); err != nil {
			return "", false, err
		}
	}
	return cmp.Or(out.String(), noFacts), outside, nil
}

func encodeLine(out *bytes.Buffer, line any) error {
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(line); err != nil {
		return fmt.Errorf("encode what is remembered: %w", err)
	}
	return nil
}

type memoryForgetArgs struct {
	Facts    []int64 `json:"facts" jsonschema:"the ids of the facts to forget, as memory.facts shows them"`
	Everyone bool    `json:"everyone,omitempty" jsonschema:"also facts that others of this chat said; for admins"`
}

// memoryForget deletes facts of the caller's own; of others, policy lets admins. A tainted turn deletes nothing clean,
// unless an admin has approved it.
func memoryForget() tools.Tool {
	return tools.NewOwn("memory.forget", memoryForgetDoc, 0,
		func(_ context.Context, c tools.Call, a memoryForgetArgs) (corebot.Effect, string, error) {
			if len(a.Facts) == 0 || len(a.Facts) > maxForgotten {
				return nil, "", fmt.Errorf("%w: name 1 to %d facts by their ids", corebot.ErrInvalid, maxForgotten)
			}
			return corebot.ForgetFacts{
				Chat: c.Key, IDs: a.Facts, Own: c.Principal, Everyone: a.Everyone,
				Tainted: c.Taint != "" && !a.Everyone,
			}, "forgotten, as far as they may be", nil
		}, tools.Touches(func(c tools.Call, a memoryForgetArgs) policy.Target {
			t := policy.Target{Scope: factsOfAnyone, Sender: c.Principal}
			if a.Everyone {
				t.Sender = corebot.Principal{}
			}
			return t
		}))
}

type memorySummaryArgs struct {
	Range string `json:"range,omitempty" jsonschema:"sessions such as 3 or 2-5, or days such as 2026-01-05..2026-01-31"`
}

// MemorySummary shows the summaries of a chat's sessions.
func MemorySummary(summaries Summaries) tools.Tool {
	return tools.NewSourced("memory.summary", memorySummaryDoc, tools.ReadOnly,
		func(ctx context.Context, c tools.Call, a memorySummaryArgs) (text string, outside bool, err error) {
			r, err := a.parse()
			if err != nil {
				return "", false, tools.Own(err)
			}
			found, err := summaries.Summaries(ctx, c.Key, r, summariesMost)
			if err != nil {
				return "", false, tools.Own(fmt.Errorf("read summaries: %w", err))
			}
			var out bytes.Buffer
			for _, s := range found {
				outside = outside || s.Outside || !s.OnlyOf(c.Principal)
				if err := encodeLine(&out, summaryLine{
					s.Session, s.From.UTC(), s.To.UTC(), shortened(s.Text),
				}); err != nil {
					return "", false, err
				}
			}
			return cmp.Or(out.String(), noSummaries), outside, nil
		}, tools.Touches(func(tools.Call, memorySummaryArgs) policy.Target {
			return policy.Target{Scope: policy.ScopeChat}
		}))
}

type summaryLine struct {
	Session int64     `json:"session"`
	From    time.Time `json:"from,omitzero"`
	To      time.Time `json:"to,omitzero"`
	Text    string    `json:"text"`
}

func shortened(text string) string {
	if len(text) <= summaryBytes {
		return text
	}
	return strings.ToValidUTF8(text[:summaryBytes], "") + " [shortened]"
}

// parse reads a range: nothing, one session, two sessions with "-" between, or two days with ".." between.
func (a memorySummaryArgs) parse() (r corebot.SummaryRange, err error) {
	text := strings.TrimSpace(a.Range)
	bad := fmt.Errorf("%w: range %q: want sessions such as 3 or 2-5, or days such as 2026-01-05..2026-01-31",
		corebot.ErrInvalid, corebot.Plainly(text[:min(len(text), 100)]))
	if text == "" {
		return r, nil
	}
	if from, to, days := strings.Cut(text, ".."); days {
		if r.From, err = time.ParseInLocation(dayOfSummaries, strings.TrimSpace(from), time.Local); err != nil {
			return r, bad
		}
		if r.To, err = time.ParseInLocation(dayOfSummaries, strings.TrimSpace(to), time.Local); err != nil {
			return r, bad
		}
		r.To = r.To.AddDate(0, 0, 1).Add(-time.Millisecond)
		return r, nil
	}
	first, last, two := strings.Cut(text, "-")
	if !two {
		last = first
	}
	if r.FirstSession, err = strconv.ParseInt(strings.TrimSpace(first), 10, 64); err != nil || r.FirstSession < 1 {
		return r, bad
	}
	if r.LastSession, err = strconv.ParseInt(strings.TrimSpace(last), 10, 64); err != nil ||
		r.LastSession < r.FirstSession {
		return r, bad
	}
	return r, nil
}
