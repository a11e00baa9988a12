package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
)

// Context says what the next request would carry if a principal wrote in a chat. It asks no model and changes nothing.
func (a *Agent) Context(ctx context.Context, k corebot.Key, p corebot.Principal) (corebot.ContextUse, error) {
	tools, end := a.tools.Begin(ctx)
	defer end()
	now := time.Now()
	t := a.begin(corebot.Delivery{
		Message:     corebot.Message{Direction: corebot.Inbound, Key: k, Kind: corebot.KindPrompt, Sender: p},
		PublishedAt: now, ClaimedAt: now,
	}, tools)
	if err := t.prepare(ctx); err != nil {
		return corebot.ContextUse{}, err
	}
	return t.contextUse(ctx)
}

// contextUse weighs the parts of the next request, without the message itself.
func (t *turn) contextUse(ctx context.Context) (corebot.ContextUse, error) {
	now, err := t.sections(ctx)
	if err != nil {
		return corebot.ContextUse{}, err
	}
	offered := t.sized(t.offered)
	t.shown, t.messages = pastWhole(t.past.turns), t.messages[:1] // the situation
	whole := t.view(offered)
	room := t.room - t.costOf(view{tools: whole.tools, head: whole.head, present: whole.present})
	c := corebot.ContextUse{
		Model: t.modelFor(), Window: t.opts.ContextTokens, Answer: t.opts.OutputTokens,
		History: t.costOf(view{past: whole.past}), Summary: t.past.summary.At, Begins: t.beginsSession,
	}
	if !t.opts.Compaction.Off {
		c.CompactsAt = max(1, room-t.opts.Compaction.ReserveTokens)
	}
	skills, memory := t.count(now[skillsAt].String()), t.count(now[memoryAt].String())
	chatMemory := t.count(t.pagesOfMemory(ctx))
	add := func(name string, tokens int, note string) {
		if tokens > 0 {
			c.Parts = append(c.Parts, corebot.ContextPart{Name: name, Tokens: tokens, Note: note})
		}
	}
	add("pages of the agent", t.cost(t.system)-skills-memory, "")
	add("skills", skills, "")
	add("memory", memory+chatMemory, "")
	add("tools", t.costOf(view{tools: offered}), toolNote(offered, t.shortened))
	add("summary", t.cost(whole.head[1:]...), "")
	shown := t.pastWithin(t.past.turns, max(room, 0))
	add("history", t.costOf(view{past: shown}), historyNote(len(shown), len(t.past.turns)))
	add("situation", t.cost(t.messages...)-chatMemory, "")
	return c, nil
}

func toolNote(offered []llm.Tool, shortened bool) string {
	note := fmt.Sprintf("%d of them", len(offered))
	if shortened {
		note += ", with short descriptions"
	}
	return note
}

func historyNote(shown, all int) string {
	if shown < all {
		return fmt.Sprintf("%d of %d messages with their answers", shown, all)
	}
	if all == 1 {
		return "1 message with its answer"
	}
	return fmt.Sprintf("%d messages with their answers", all)
}
