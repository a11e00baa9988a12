package serve

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/tools"
)

//go:embed message_replies.md
var messageRepliesDoc string

const (
	repliesShown = 20
	repliesMost  = 100
	replyBytes   = 128 << 10 // of one text
	repliesBytes = 256 << 10 // of all texts together, about
)

type repliesArgs struct {
	ChatID      string `json:"chatId,omitempty" jsonschema:"which of your chats; main if it is left out"`
	After       string `json:"after,omitempty" jsonschema:"an earlier cursor: replies behind it; all if left out"`
	Limit       int    `json:"limit,omitempty" jsonschema:"how many at most; 20 if it is left out, 100 at most"`
	WaitSeconds *int   `json:"waitSeconds,omitempty" jsonschema:"how long to wait for the first; 0 if left out"`
}

// replyPage is the result of message.replies.
type replyPage struct {
	ChatID   string  `json:"chatId"`
	Messages []reply `json:"messages"`
	Cursor   string  `json:"cursor"` // where to go on
}

type reply struct {
	ID        string `json:"id"`
	InReplyTo string `json:"inReplyTo,omitempty"`
	Kind      string `json:"kind"` // reply, or notice: what Corebot itself says
	Content   string `json:"content"`
	Truncated bool   `json:"truncated,omitempty"` // the content was longer
	CreatedAt string `json:"createdAt"`
	Cursor    string `json:"cursor"`
}

// messageReplies fetches the replies of a chat behind a cursor. Reading takes nothing away.
func (s *Service) messageReplies() tools.Tool {
	return tools.New("message.replies", messageRepliesDoc, tools.ReadOnly|tools.Outside,
		func(ctx context.Context, _ tools.Call, a repliesArgs) (string, error) {
			limit, err := page(a.Limit, repliesShown, repliesMost)
			if err != nil {
				return "", err
			}
			after, err := cursorOf(a.After)
			if err != nil {
				return "", err
			}
			wait, err := s.wait(a.WaitSeconds, 0)
			if err != nil {
				return "", err
			}
			k := s.key(a.ChatID)
			if err := k.Validate(); err != nil {
				return "", err
			}
			found, err := s.await(ctx, k, after, limit, wait)
			if err != nil {
				return "", err
			}
			out := s.replyPage(k, found)
			if len(found) == 0 {
				out.Cursor = cursorText(after)
			}
			return s.encode(out)
		}, tools.Touches(func(_ tools.Call, a repliesArgs) policy.Target { return s.ownChat(a.ChatID) }))
}

// await reads a page of replies and, if there are none, waits for some.
func (s *Service) await(ctx context.Context, k corebot.Key, after int64, limit int,
	wait time.Duration,
) ([]corebot.Posted, error) {
	wake, stop := s.replies.Watch(k)
	defer stop()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		// Read after watching: what comes before the read is read, what comes after it wakes.
		found, err := s.replies.Page(context.WithoutCancel(ctx), k, after, limit, repliesBytes)
		if err != nil {
			return nil, fmt.Errorf("look into the mailbox: %w", err)
		}
		if len(found) > 0 || wait == 0 {
			return found, nil
		}
		select {
		case <-wake:
		case <-timer.C:
			return nil, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// replyPage takes as many replies as there is room for; the cursor is behind the last of them.
func (s *Service) replyPage(k corebot.Key, found []corebot.Posted) replyPage {
	out := replyPage{ChatID: k.Chat, Messages: []reply{}}
	for bytes, i := 0, 0; i < len(found) && bytes < repliesBytes; i++ {
		p := found[i]
		content, truncated := s.shown(p.Parts, replyBytes)
		bytes += len(content)
		out.Cursor = cursorText(p.Cursor)
		out.Messages = append(out.Messages, reply{
			p.ID, p.InReplyTo, string(p.Kind), content, truncated,
			timestamp(p.CreatedAt), out.Cursor,
		})
	}
	return out
}

func cursorText(n int64) string { return strconv.FormatInt(n, 10) }
