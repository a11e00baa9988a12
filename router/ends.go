package router

import (
	"fmt"

	"github.com/corebot/corebot"
)

// notice is what Corebot itself says about a delivery. Its name makes its id the same however often it is written.
func notice(d corebot.Delivery, name, text string) corebot.Message {
	return corebot.Message{
		ID: d.RunID() + "/" + name, Direction: corebot.Outbound, Key: d.Message.Key, Kind: corebot.KindNotice,
		Parts: corebot.TextPart(text), InReplyTo: d.Message.ID,
	}
}

// gaveUp ends a message as a dead letter and tells the chat once.
func gaveUp(d corebot.Delivery, o corebot.Outcome) corebot.Result {
	text := fmt.Sprintf("Sorry, I could not answer this message (%s). It is kept as a dead letter; an operator can have it tried again.", o.Reason)
	return corebot.Result{Outcome: o, Replies: []corebot.Message{notice(d, "gave-up", text)}}
}

// stopped ends a message by /stop and keeps what was done in the history.
func stopped(d corebot.Delivery, done corebot.Result) corebot.Result {
	done.Outcome = corebot.Outcome{Verb: corebot.Done, End: corebot.EndStopped, Reason: "stop"}
	done.Replies = []corebot.Message{notice(d, "stopped", "Stopped.")}
	return done
}

const help = `Commands of this chat:
/new or /reset  begin a new conversation; what was said before is kept but no longer in play
/stop           stop the answer that is being made
/help           this list`

// command answers a chat command that kept its place in the lane.
func command(d corebot.Delivery) corebot.Result {
	done := corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered}
	switch c, _, _ := corebot.ParseCommand(d.Message.Text()); c.Name {
	case "/new", "/reset":
		return corebot.Result{Outcome: done, NewSession: true, Replies: []corebot.Message{notice(d, "new", "A new conversation begins here.")}}
	default:
		return corebot.Result{Outcome: done, Replies: []corebot.Message{notice(d, "help", help)}}
	}
}
