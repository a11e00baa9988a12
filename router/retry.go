package router

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/corebot/corebot"
)

// Letters stores the dead letters.
type Letters interface {
	// Meant finds the message of a chat that a /retry names by its id. Without an id it is the newest dead letter of
	// the asker.
	Meant(ctx context.Context, k corebot.Key, messageID string, asker corebot.Principal) (corebot.Life, error)
	// Retry stores the /retry, the replay of the letter (0: none) and the notice in one commit. It calls notice with
	// the result: nil, [corebot.ErrNotFound] if the letter is no longer dead, or [corebot.ErrOverloaded] if there is no
	// room.
	Retry(ctx context.Context, m corebot.Message, letter int64, by corebot.AuditEvent,
		notice func(error) corebot.Message) (corebot.Receipt, error)
}

// retry accepts a /retry: "/retry ID", or "/retry" for the sender's newest dead letter. Two commands in a row deliver
// the message once, because the second finds no dead letter.
func (r *Router) retry(ctx context.Context, m corebot.Message, c corebot.Command) (corebot.Receipt, error) {
	w, err := r.weigh(ctx, m, c)
	if err != nil {
		return corebot.Receipt{}, err
	}
	return r.letters.Retry(ctx, m, w.letter, w.by, func(err error) corebot.Message {
		switch {
		case err == nil:
			return controlNotice(m, c, fmt.Sprintf("Message %s will be tried again.", w.messageID))
		case errors.Is(err, corebot.ErrNotFound):
			return controlNotice(m, c, w.instead)
		}
		return controlNotice(m, c,
			fmt.Sprintf("There is no room for message %s now; it is kept. Ask again a little later.", w.messageID))
	})
}

// weighed is a /retry as far as the router can judge it before the store acts.
type weighed struct {
	letter    int64 // to replay; 0: none
	messageID string
	by        corebot.AuditEvent
	instead   string // what the chat is told if nothing was replayed
}

// weigh finds the message of a /retry, and asks the policy whether the sender may replay it.
func (r *Router) weigh(ctx context.Context, m corebot.Message, c corebot.Command) (w weighed, err error) {
	life, err := r.letters.Meant(ctx, m.Key, c.Args, m.Sender)
	if errors.Is(err, corebot.ErrNotFound) {
		w.instead = nothingMeant(c.Args)
		return w, nil
	}
	if err != nil {
		return w, fmt.Errorf("look for what to retry: %w", err)
	}
	decision, by, err := r.judge(ctx, m, c, life.Sender)
	if err != nil {
		return w, err
	}
	by.Event, by.Args = "dead_letter.replay", about(life)
	w.messageID, w.by = life.MessageID, by
	switch {
	case !decision.Allow:
		w.instead = "Only who sent the message, or an admin, can have it tried again."
	case life.End != corebot.EndDead:
		w.instead = notGivenUp(life.MessageID, life.End)
	default:
		w.letter, w.instead = life.ID, notGivenUp(life.MessageID, "") // for the case that another replay is faster
		if life.Reason == corebot.ReasonDamaged {
			w.instead = fmt.Sprintf("What is stored of message %s cannot be read any more: please send it again.",
				life.MessageID)
		}
	}
	return w, nil
}

// about is the audit's note of a denied command on a message. An accepted /retry has the note of the replay instead.
func about(life corebot.Life) string {
	// a number and a string: Marshal cannot fail
	args, _ := json.Marshal(map[string]any{"id": life.ID, "messageId": life.MessageID})
	return string(args)
}

func nothingMeant(id string) string {
	if id == "" {
		return "No message of yours in this chat was given up."
	}
	return fmt.Sprintf("There is no message %s in this chat.", id)
}

// notGivenUp says why a known message cannot be retried.
func notGivenUp(id string, end corebot.End) string {
	switch end {
	case "":
		return fmt.Sprintf("Message %s is not given up: it waits for its answer, or is being answered.", id)
	case corebot.EndDropped:
		return fmt.Sprintf("Message %s was dropped by an operator and cannot be tried again. Please send it anew.", id)
	}
	return fmt.Sprintf("Message %s is not given up: it was %s.", id, end)
}
