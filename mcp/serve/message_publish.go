package serve

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/tools"
)

//go:embed message_publish.md
var messagePublishDoc string

// usualWait is how long a call waits that does not say how long.
const usualWait = time.Minute

type publishArgs struct {
	ChatID      string `json:"chatId,omitempty" jsonschema:"your chat; main if left out. A new id begins a chat"`
	Content     string `json:"content" jsonschema:"what to say, or a command of the chat such as /new or /status"`
	ID          string `json:"id,omitempty" jsonschema:"an id of your own: a repeated call gets the same reply"`
	WaitSeconds *int   `json:"waitSeconds,omitempty" jsonschema:"time for the reply; 60 if left out, 0 is no wait"`
}

// published is the result of message.publish.
type published struct {
	ID       string  `json:"id"`
	ChatID   string  `json:"chatId"`
	Status   string  `json:"status"`   // accepted, or duplicate: it was accepted before
	Answered bool    `json:"answered"` // it has ended, and these are the replies to it
	State    string  `json:"state"`    // how far it is, in words
	Replies  []reply `json:"replies"`
	Cursor   string  `json:"cursor"` // for message.replies: what comes after these replies
}

// messagePublish says something in a chat, as the principal, and waits.
func (s *Service) messagePublish() tools.Tool {
	return tools.New("message.publish", messagePublishDoc, tools.Idempotent|tools.Outside,
		func(ctx context.Context, c tools.Call, a publishArgs) (string, error) {
			wait, err := s.wait(a.WaitSeconds, usualWait)
			if err != nil {
				return "", err
			}
			p := &publication{Service: s, key: s.key(a.ChatID), id: cmp.Or(a.ID, c.StepID)}
			if err := p.publish(ctx, a.Content, wait); err != nil {
				return "", err
			}
			return s.encode(p.out)
		}, tools.Touches(func(_ tools.Call, a publishArgs) policy.Target { return s.ownChat(a.ChatID) }))
}

// wait is how long a call may wait: as long as it says, and no longer than there is time.
func (s *Service) wait(seconds *int, usual time.Duration) (time.Duration, error) {
	if seconds == nil {
		return min(usual, s.opts.MaxWait), nil
	}
	if most := int(s.opts.MaxWait / time.Second); *seconds < 0 || *seconds > most {
		return 0, fmt.Errorf("%w: waitSeconds %d: want 0 to %d", corebot.ErrInvalid, *seconds, most)
	}
	return time.Duration(*seconds) * time.Second, nil
}

// publication is one message on its way, and the replies to it.
type publication struct {
	*Service
	key corebot.Key
	id  string
	out published
}

func (p *publication) publish(ctx context.Context, content string, wait time.Duration) error {
	before, err := p.replies.Last(ctx, p.key)
	if err != nil {
		return fmt.Errorf("look into the mailbox: %w", err)
	}
	wake, stop := p.replies.Watch(p.key)
	defer stop()
	duplicate, err := p.accept(ctx, content)
	if err != nil {
		return err
	}
	p.out = published{ID: p.id, ChatID: p.key.Chat, Status: "accepted", Replies: []reply{}, Cursor: cursorText(before)}
	after := before
	if duplicate {
		p.out.Status, after = "duplicate", 0 // it may have been answered long ago
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		done, err := p.collect(context.WithoutCancel(ctx), after)
		if err != nil || done {
			return err
		}
		select {
		case <-wake:
		case <-timer.C: // the state is that of now, not of the last reply
			_, err := p.collect(context.WithoutCancel(ctx), after)
			return err
		case <-ctx.Done(): // whoever waits has gone; what was accepted is
			return nil
		}
	}
}

// accept hands the message to the front door. Once it is there it must be known what became of it, so that no
// cancellation counts.
func (p *publication) accept(ctx context.Context, content string) (duplicate bool, err error) {
	door, err := p.entrance(ctx)
	if err != nil {
		return false, err
	}
	got, err := door.Accept(context.WithoutCancel(ctx), channels.Incoming{
		ID: p.id, Channel: Channel, Account: p.key.Account, Chat: p.key.Chat, SenderID: p.opts.Principal,
		SenderName: p.opts.Principal, Parts: corebot.TextPart(content),
	})
	var busy *corebot.Busy
	switch {
	case errors.As(err, &busy):
		return false, corebot.WithHint(err, fmt.Sprintf("it was not accepted: try again in %v", busy.RetryAfter))
	case errors.Is(err, corebot.ErrCommitUnknown):
		return false, corebot.WithHint(err, fmt.Sprintf("call again with the id %q: it is accepted once", p.id))
	}
	return got.Duplicate, err
}

// collect looks for replies to the message behind a cursor. done says that there are some: more may come only if it is
// not answered.
func (p *publication) collect(ctx context.Context, after int64) (done bool, err error) {
	found, err := p.store.Mailbox.Answers(ctx, p.key, p.id, after, repliesMost)
	if err != nil {
		return false, fmt.Errorf("look into the mailbox: %w", err)
	}
	life, err := p.life(ctx)
	if err != nil {
		return false, err
	}
	p.out.State = life.State
	if len(found) == 0 && life.MergedInto != nil { // it was answered with another
		if found, err = p.store.Mailbox.Answers(ctx, p.key, life.MergedInto.MessageID, after, repliesMost); err != nil {
			return false, fmt.Errorf("look into the mailbox: %w", err)
		}
	}
	if len(found) == 0 {
		return false, nil
	}
	page := p.replyPage(p.key, found)
	p.out.Replies, p.out.Cursor, p.out.Answered = page.Messages, page.Cursor, life.End != ""
	return true, nil
}

// life is what became of the message; the zero life if that is no longer known.
func (p *publication) life(ctx context.Context) (corebot.Life, error) {
	told, err := p.store.Admin.Why(ctx, operate.ByMessage{MessageID: p.id})
	if err != nil && !errors.Is(err, corebot.ErrNotFound) {
		return corebot.Life{}, fmt.Errorf("look for what became of the message: %w", err)
	}
	for _, l := range told.Lives {
		if life := l.Whole(); life.Key == p.key && life.Direction != corebot.Outbound {
			return life, nil
		}
	}
	return corebot.Life{End: corebot.EndAnswered, State: "over, and no longer known"}, nil
}
