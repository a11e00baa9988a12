package router

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/redact"
	"github.com/corebot/corebot/internal/runes"
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
	// OfChat lists the newest dead letters of a chat, and says how many there are.
	OfChat(ctx context.Context, k corebot.Key, c corebot.ChatLetters, limit int) (found []corebot.DeadLetter, all int,
		err error)
	// ChangeOfChat stores a command, its change of dead letters and the notice of the result in one commit.
	ChangeOfChat(ctx context.Context, m corebot.Message, c corebot.ChatLetters, by corebot.AuditEvent,
		notice func(corebot.Replayed) corebot.Message) (corebot.Receipt, error)
}

// retry accepts a /retry: "/retry ID", "/retry all", or "/retry" for the sender's newest dead letter. Two commands in a
// row deliver the message once, because the second finds no dead letter.
func (r *Router) retry(ctx context.Context, m corebot.Message, c corebot.Command) (corebot.Receipt, error) {
	if c.Args == allLetters {
		return r.changeAll(ctx, m, c, "dead_letter.replay")
	}
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
	by.Args = about(life)
	if by.Event = "dead_letter.replay"; c.Name == "/drop" {
		by.Event = "dead_letter.drop"
	}
	w.messageID, w.by = life.MessageID, by
	switch {
	case !decision.Allow:
		w.instead = "Only who sent the message, or an admin, can have it tried again."
		if c.Name == "/drop" {
			w.instead = "Only who sent the message, or an admin, can drop it."
		}
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

// maxShownID bounds what a chat is shown of an id that somebody typed, in bytes.
const maxShownID = 200

func nothingMeant(id string) string {
	if id == "" {
		return "No message of yours in this chat was given up."
	}
	return fmt.Sprintf("There is no message %s in this chat.", runes.Head(redact.Visible(id), maxShownID))
}

// notGivenUp says why a known message cannot be retried.
func notGivenUp(id string, end corebot.End) string {
	switch end {
	case "":
		return fmt.Sprintf("Message %s is not given up: it waits for its answer, or is being answered.", id)
	case corebot.EndDropped:
		return fmt.Sprintf("Message %s was dropped and cannot be tried again. Please send it anew.", id)
	}
	return fmt.Sprintf("Message %s is not given up: it was %s.", id, end)
}

// allLetters is the word for all dead letters that /dead lists. It means them also where a message has it as its id.
const allLetters = "all"

// lettersShown is how many dead letters /dead shows.
const lettersShown = 10

// ofWhom are the dead letters of a chat that the sender of a command may see and change. They are his own, or all of
// them if he may act on messages of others. by is the command's audit event.
func (r *Router) ofWhom(ctx context.Context, m corebot.Message, c corebot.Command) (of corebot.ChatLetters,
	by corebot.AuditEvent, err error,
) {
	d, by, err := r.judge(ctx, m, c, corebot.Principal{}) // of nobody whom a channel names
	if err == nil && !d.Allow {
		_, by, err = r.judge(ctx, m, c, m.Sender)
	}
	return corebot.ChatLetters{Of: m.Sender, Any: d.Allow}, by, err
}

// dead accepts a /dead: the list of the messages that were given up.
func (r *Router) dead(ctx context.Context, m corebot.Message, c corebot.Command) (corebot.Receipt, error) {
	of, _, err := r.ofWhom(ctx, m, c)
	if err != nil {
		return corebot.Receipt{}, err
	}
	found, all, err := r.letters.OfChat(ctx, m.Key, of, lettersShown)
	if err != nil {
		return corebot.Receipt{}, fmt.Errorf("list the dead letters of a chat: %w", err)
	}
	return r.ledger.Answer(ctx, m, controlNotice(m, c, deadList(of, found, all)))
}

func deadList(of corebot.ChatLetters, found []corebot.DeadLetter, all int) string {
	whose, by := "your messages in this chat", ""
	if of.Any {
		whose = "the messages of this chat"
	}
	if all == 0 {
		return fmt.Sprintf("None of %s is given up.", whose)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %s %s given up", all, whose, isOrAre(all))
	if all > len(found) {
		fmt.Fprintf(&b, "; these are the newest %d", len(found))
	}
	b.WriteString(":")
	for _, l := range found {
		if of.Any && l.Sender.ID != "" {
			by = ", of " + visible(l.Sender.ID)
		}
		fmt.Fprintf(&b, "\n%s (%s%s): %s", visible(l.MessageID), l.DeadAt.UTC().Format("2006-01-02 15:04 MST"), by,
			whyDead(l))
		if l.Head != "" {
			fmt.Fprintf(&b, " %q", visible(l.Head))
		}
	}
	b.WriteString("\n/retry ID tries one again, and /retry all tries all of them. /drop ID gives one up for good.")
	return b.String()
}

func isOrAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// whyDead says why a message was given up, in words for everybody.
func whyDead(l corebot.DeadLetter) string {
	d := corebot.Delivery{Message: corebot.Message{ID: l.MessageID}, Attempt: l.Attempts}
	switch l.Reason {
	case corebot.ReasonDamaged:
		return "what is stored of it cannot be read any more."
	case corebot.ReasonPoison:
		return "Corebot broke off again and again at the same place of it."
	}
	return whyGivenUp(d, corebot.Outcome{Reason: l.Reason, Plain: l.Plain})
}

// drop accepts a /drop: "/drop ID", or "/drop all".
func (r *Router) drop(ctx context.Context, m corebot.Message, c corebot.Command) (corebot.Receipt, error) {
	switch c.Args {
	case "":
		return r.ledger.Answer(ctx, m, controlNotice(m, c, "/drop ID gives up a message for good that Corebot could "+
			"not answer, and /drop all gives up all of them. /dead lists them."))
	case allLetters:
		return r.changeAll(ctx, m, c, "dead_letter.drop")
	}
	w, err := r.weigh(ctx, m, c)
	if err != nil {
		return corebot.Receipt{}, err
	}
	if w.letter == 0 && w.by.Outcome == corebot.OutcomeDenied {
		return r.ledger.Refuse(ctx, m, w.by, controlNotice(m, c, w.instead))
	}
	if w.letter == 0 {
		return r.ledger.Answer(ctx, m, controlNotice(m, c, w.instead))
	}
	return r.letters.ChangeOfChat(ctx, m, corebot.ChatLetters{ID: w.letter, Drop: true}, w.by,
		func(done corebot.Replayed) corebot.Message {
			if done.Done == 0 {
				return controlNotice(m, c, notGivenUp(w.messageID, ""))
			}
			return controlNotice(m, c, fmt.Sprintf("Message %s is dropped, and its text is deleted.", w.messageID))
		})
}

// changeAll accepts a command about all dead letters that /dead lists.
func (r *Router) changeAll(ctx context.Context, m corebot.Message, c corebot.Command, event string) (corebot.Receipt,
	error,
) {
	of, by, err := r.ofWhom(ctx, m, c)
	if err != nil {
		return corebot.Receipt{}, err
	}
	by.Event, of.Drop = event, c.Name == "/drop"
	return r.letters.ChangeOfChat(ctx, m, of, by, func(done corebot.Replayed) corebot.Message {
		return controlNotice(m, c, changedAll(of, done))
	})
}

func changedAll(of corebot.ChatLetters, done corebot.Replayed) string {
	if done == (corebot.Replayed{}) {
		return deadList(of, nil, 0)
	}
	text := []string{plural(done.Done) + " will be tried again."}
	if of.Drop {
		text = []string{fmt.Sprintf("%s %s dropped for good.", plural(done.Done), isOrAre(done.Done))}
	}
	if done.Left > 0 {
		text = append(text, fmt.Sprintf("There is no room for %s now; ask again a little later.", plural(done.Left)))
	}
	if done.More > 0 {
		text = append(text, fmt.Sprintf("%s more: say it again.", plural(done.More)))
	}
	return strings.Join(text, " ")
}

func plural(n int) string {
	if n == 1 {
		return "1 message"
	}
	return fmt.Sprintf("%d messages", n)
}
