package router

import (
	"fmt"
	"strings"

	"github.com/corebot/corebot"
)

// notice is what Corebot itself says about a delivery. Its name makes its id the same however often it is written.
func notice(d corebot.Delivery, name, text string) corebot.Message {
	return corebot.Message{
		ID: d.RunID() + "/" + name, Direction: corebot.Outbound, Key: d.Message.Key, Kind: corebot.KindNotice,
		Parts: corebot.TextPart(text), InReplyTo: d.Message.ID,
	}
}

// gaveUp ends a message as a dead letter and tells the chat once. What its last attempt spent is counted like any other.
func gaveUp(d corebot.Delivery, o corebot.Outcome, spent []corebot.Spent) corebot.Result {
	text := fmt.Sprintf("Sorry, I could not answer this message (%s). ", o.Reason)
	if d.Damaged != nil { // a retry would fail the same way
		text += fmt.Sprintf("What is stored of message %s cannot be read any more: please send it again.", d.Message.ID)
	} else {
		text += fmt.Sprintf("It is kept as message %s: send \"/retry %s\" to have it tried again.", d.Message.ID, d.Message.ID)
	}
	return corebot.Result{Outcome: o, Spent: spent, Replies: []corebot.Message{notice(d, "gave-up", text)}}
}

// stopped ends a message by /stop, or by a newer prompt, and keeps what was done in the history.
func stopped(d corebot.Delivery, done corebot.Result, interrupted bool) corebot.Result {
	reason, text := "stop", "Stopped."
	if interrupted {
		reason, text = "interrupt", "Stopped, for your newer message."
	}
	done.Outcome = corebot.Outcome{Verb: corebot.Done, End: corebot.EndStopped, Reason: reason}
	done.Replies = []corebot.Message{notice(d, "stopped", text)}
	return done
}

// help lists the chat commands, and the terminal's own are not among them.
func help() string {
	var b strings.Builder
	b.WriteString("Commands of this chat:")
	for _, c := range corebot.Commands() {
		fmt.Fprintf(&b, "\n%-13s %s", strings.TrimSpace(c.Name+" "+c.Args), c.Summary)
	}
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
