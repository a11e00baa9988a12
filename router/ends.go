package router

import (
	"fmt"
	"strings"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/policy"
)

// notice is what Corebot itself says about a delivery. Its name makes its id the same however often it is written.
func notice(d corebot.Delivery, name, text string) corebot.Message {
	return corebot.Message{
		ID: d.RunID() + "/" + name, Direction: corebot.Outbound, Key: d.Caller().Results(), Kind: corebot.KindNotice,
		Parts: corebot.TextPart(text), InReplyTo: d.Message.ID,
	}
}

// Reasons of ends that are told in words of their own. They are stored; they never change.
const (
	stopInterrupt = "interrupt"
	refusedBudget = "budget"
	refusedOthers = policy.RuleSessionOfOthers
)

// stopped ends a message by /stop, or by a newer prompt, and keeps what was done in the history.
func stopped(d corebot.Delivery, done corebot.Result, interrupted bool) corebot.Result {
	reason, text := "stop", "Stopped."
	if interrupted {
		reason, text = stopInterrupt, "Stopped, for your newer message."
	}
	done.Outcome = corebot.Outcome{Verb: corebot.Done, End: corebot.EndStopped, Reason: reason}
	done.Replies = []corebot.Message{notice(d, "stopped", text)}
	return done
}

// longDelay is from when on a chat is told that a rate limit delays its answer.
const longDelay = time.Minute

// delayed tells the chat, once, that a rate limit delays its answer. The notice says nothing that differs from
// attempt to attempt: it is the same however often it is written.
func delayed(d corebot.Delivery, o corebot.Outcome) []corebot.Message {
	if o.Class != corebot.RateLimited.String() {
		return nil
	}
	since := d.LimitedAt
	if since.IsZero() {
		since = d.ClaimedAt
	}
	if o.At.Sub(since) < longDelay {
		return nil
	}
	return []corebot.Message{notice(d, "delayed", "The model provider limits how often it can be asked, so this answer takes longer. "+
		"The message keeps its place and is tried again by itself. /status tells when, and /stop ends it.")}
}

// help lists the chat commands, and the terminal's own are not among them.
func help() string {
	var b strings.Builder
	b.WriteString("Commands of this chat:")
	for _, c := range corebot.Commands() {
		fmt.Fprintf(&b, "\n%-13s %s", strings.TrimSpace(c.Name+" "+c.Args), c.Summary)
	}
	fmt.Fprintf(&b, "\n%-13s %s", "//TEXT", "say /TEXT itself; a path such as /tmp/x is text anyway")
	return b.String()
}

// command answers a chat command that kept its place in the lane.
func command(d corebot.Delivery) corebot.Result {
	done := corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered}
	switch c, _, _ := corebot.ParseCommand(d.Message.Text()); c.Name {
	case "/new", "/reset":
		return corebot.Result{Outcome: done, NewSession: true, Replies: []corebot.Message{notice(d, "new", "A new conversation begins here.")}}
	default:
		return corebot.Result{Outcome: done, Replies: []corebot.Message{notice(d, "help", help())}}
	}
}
