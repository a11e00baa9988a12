package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/cli"
	"github.com/corebot/corebot/internal/app"
	"github.com/corebot/corebot/internal/backoff"
	"github.com/corebot/corebot/internal/live"
	"github.com/corebot/corebot/internal/operate"
)

// attached is a terminal of this process at the Corebot of the home, whichever process that is. Typed lines go to the
// front door of that Corebot, and its messages are shown here. If that Corebot ends, the terminal goes on with the next
// one.
type attached struct {
	link    *app.Link
	agent   string
	chat    string
	id      string        // of the session
	patient time.Duration // how long it waits for the next Corebot; 0: for as long as the terminal is open
	shown   string        // the last message that was shown here, until Corebot knows
	events  live.Hub
	tell    func(app.Place) // says which Corebot it has reached after the first, and that it is gone
}

// again is the pause between two tries to reach a Corebot that is gone.
const again = 200 * time.Millisecond

// attach opens the chat.
func (a *attached) attach(ctx context.Context) error {
	first := a.id == ""
	if first {
		a.id = uuid.Must(uuid.NewV7()).String()
	}
	_, err := app.AttachTerminal.Call(ctx, a.link,
		app.Terminal{Agent: a.agent, Chat: a.chat, Session: a.id, Again: !first})
	return err
}

// Accept implements [channels.Accepter]. A message whose Corebot has gone before it answered is given to the next one:
// under its id it stays one.
func (a *attached) Accept(ctx context.Context, in channels.Incoming) (accepted channels.Accepted, err error) {
	for gone := false; ; gone = true {
		accepted, err = app.Send(ctx, a.link, in)
		if !app.IsGone(err) || ctx.Err() != nil {
			accepted.Duplicate = accepted.Duplicate && !gone // perhaps it was this very one
			return accepted, err
		}
		backoff.Sleep(ctx, again)
	}
}

// run talks until the channel ends, showing what Corebot has for this chat.
func (a *attached) run(ctx context.Context, c cli.Terminal) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	pumped := make(chan struct{})
	go func() {
		defer close(pumped)
		if m, open := a.openRequest(ctx); open {
			_, _ = c.Send(ctx, m) // who cannot be shown the request answers it by its number
		}
		if err := a.pump(ctx, c); err != nil {
			stop(err) // nothing more would ever be shown
		}
	}()
	err := c.Run(ctx, a)
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	stop(nil)
	<-pumped
	bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	a.leave(bye)
	return err
}

// leave says goodbye, if Corebot is still there; else the silence of the terminal tells.
func (a *attached) leave(ctx context.Context) {
	_, _ = app.DetachTerminal.Call(ctx, a.link.Reached(),
		app.Terminal{Agent: a.agent, Chat: a.chat, Session: a.id, Shown: a.shown})
}

// pump fetches until ctx ends.
func (a *attached) pump(ctx context.Context, c cli.Terminal) error {
	var gone time.Time // since when Corebot is
	for ctx.Err() == nil {
		err := a.fetch(ctx, c)
		switch {
		case err == nil:
			gone = time.Time{}
		case ctx.Err() != nil:
		// the last is what is left of it on its way
		case app.IsGone(err), errors.Is(err, cli.ErrDetached), errors.Is(err, corebot.ErrNotFound):
			if gone.IsZero() {
				gone = time.Now()
			}
			if a.patient > 0 && time.Since(gone) > a.patient {
				return a.givenUp()
			}
			if err := a.attach(ctx); err != nil {
				backoff.Sleep(ctx, again)
			}
		default:
			return err
		}
	}
	return nil
}

// givenUp is why a terminal ends that nobody sits at.
func (a *attached) givenUp() error {
	err := fmt.Errorf("the running Corebot has gone and did not come back within %v; what was accepted is kept, and "+
		"is answered by the next Corebot that runs", a.patient)
	return corebot.WithHint(err, "run it: corebot serve")
}

// fetch shows what there is to show next.
func (a *attached) fetch(ctx context.Context, c cli.Terminal) error {
	f, err := app.FetchTerminal.Call(ctx, a.link,
		app.Terminal{Agent: a.agent, Chat: a.chat, Session: a.id, Shown: a.shown})
	if err != nil {
		return err
	}
	a.shown = ""
	for _, e := range f.Events {
		a.events.Publish(e)
	}
	if f.Message == nil {
		return nil
	}
	m := *f.Message
	m.Key, m.Kind, m.CreatedAt, m.Notice = a.key(), f.Kind, f.Made, f.Notice
	if _, err := c.Send(ctx, m); err != nil { // it stays in the queue, and other terminals need not wait for this one
		a.leave(ctx)
		backoff.Sleep(ctx, time.Second)
		return nil
	}
	a.shown = m.ID
	return nil
}

func (a *attached) key() corebot.Key { return cli.TerminalKey(a.agent, a.chat) }

// earlierKept is how many messages a terminal shows of a chat that is opened again.
const earlierKept = 6

// earlier gives the newest messages of the chat's session, oldest first. Replies that no terminal has shown are left
// out, since they come by themselves. A terminal does without messages that cannot be read.
func (a *attached) earlier(ctx context.Context) []corebot.HistoryEntry {
	chat, err := operate.ShowChat.Call(ctx, a.link, operate.ChatQuery{Key: a.key()})
	if err != nil {
		return nil
	}
	query := operate.HistoryQuery{Key: a.key(), Part: operate.Part{Limit: earlierKept}}
	found, err := operate.ReadHistory.Call(ctx, a.link, query)
	if err != nil {
		return nil
	}
	var said []corebot.HistoryEntry
	unseen := map[string]bool{} // by message: its reply has not been shown
	for _, e := range found.Rows {
		if e.Session != chat.Session {
			break
		}
		if e.Speaker == corebot.SpeakerAssistant {
			if _, asked := unseen[e.MessageID]; !asked {
				unseen[e.MessageID] = a.replyWaits(ctx, e.MessageID)
			}
			if unseen[e.MessageID] {
				continue
			}
		}
		said = append(said, e.HistoryEntry)
	}
	slices.Reverse(said)
	return said
}

// replyWaits says whether a reply to a message is still on its way to a terminal.
func (a *attached) replyWaits(ctx context.Context, id string) bool {
	return a.waits(ctx, id, corebot.KindReply)
}

func (a *attached) waits(ctx context.Context, id string, kind corebot.Kind) bool {
	life, err := app.TerminalLife.Call(ctx, a.link, app.TerminalMessage{Agent: a.agent, Chat: a.chat, ID: id})
	return err == nil && slices.ContainsFunc(life.Replies, func(r corebot.Life) bool {
		return r.Kind == kind && r.End == ""
	})
}

// openRequest is the request for an approval that the chat waits for, as a notice for this terminal. A request that no
// terminal has shown comes by itself. Where nobody sits, nobody is shown it again.
func (a *attached) openRequest(ctx context.Context) (m channels.Outbound, open bool) {
	if a.patient > 0 {
		return m, false
	}
	calls, err := gather(func(p operate.Part) (operate.Page[operate.Approval], error) {
		return operate.ListApprovals.Call(ctx, a.link, operate.ApprovalQuery{Part: p})
	})
	if err != nil {
		return m, false
	}
	var asked corebot.ApprovalRequest
	for _, call := range calls {
		if call.Key == a.key() && (len(asked.All) == 0 || call.Request == asked.Request) {
			asked.All = append(asked.All, call.Approval)
			asked.Approval = asked.All[0]
		}
	}
	if len(asked.All) == 0 || a.noticeWaits(ctx, asked.MessageID) {
		return m, false
	}
	var b strings.Builder
	t := &teller{w: &b}
	for _, call := range asked.All {
		printApproval(t, call, maxListed)
	}
	about := asked.NoticeOf()
	return channels.Outbound{
		ID: corebot.OwnID("approval", asked.Request, "open"), Key: a.key(), Kind: corebot.KindNotice,
		Parts: corebot.TextPart(strings.TrimSpace(b.String())), InReplyTo: asked.MessageID, Notice: &about,
	}, true
}

// noticeWaits says whether a notice about a message is still on its way to a terminal.
func (a *attached) noticeWaits(ctx context.Context, id string) bool {
	return a.waits(ctx, id, corebot.KindNotice)
}

// output gives the result of a call that was shown here.
func (a *attached) output(ctx context.Context, message string, position int) (corebot.ToolResult, error) {
	m := app.TerminalMessage{Agent: a.agent, Chat: a.chat, ID: message}
	return app.TerminalOutput.Call(ctx, a.link, app.TerminalCall{TerminalMessage: m, Position: position})
}

// rename gives the chat a name for display.
func (a *attached) rename(ctx context.Context, name string) error {
	chat, err := operate.ShowChat.Call(ctx, a.link, operate.ChatQuery{Key: a.key()})
	if err != nil && !errors.Is(err, corebot.ErrNotFound) {
		return err
	}
	change := operate.ChatChange{Key: a.key(), Registered: chat.Registered, Name: name}
	_, err = operate.RegisterChat.Call(ctx, a.link, change)
	return err
}

// exportKept is how many messages of a session are exported, the newest.
const exportKept = 5_000

// session gives what was said in the chat's session, oldest first.
func (a *attached) session(ctx context.Context) (said []corebot.HistoryEntry, err error) {
	chat, err := operate.ShowChat.Call(ctx, a.link, operate.ChatQuery{Key: a.key()})
	if errors.Is(err, corebot.ErrNotFound) {
		return nil, nil
	}
	query := operate.HistoryQuery{Key: a.key()}
	for more := true; more && err == nil && len(said) < exportKept; {
		var found operate.Page[corebot.Said]
		found, err = operate.ReadHistory.Call(ctx, a.link, query)
		for _, e := range found.Rows {
			if e.Session == chat.Session {
				said = append(said, e.HistoryEntry)
			}
		}
		query.After = found.Next
		more = found.Next != "" && found.Rows[len(found.Rows)-1].Session == chat.Session
	}
	slices.Reverse(said)
	return said, err
}
