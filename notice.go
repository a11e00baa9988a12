package corebot

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// NoticeKind says what a [Notice] is about. The values are stored, and programs read them; they never change.
type NoticeKind string

const (
	NoticeApproval    NoticeKind = "approval"    // calls wait for an approval: see Notice.Approval
	NoticeAwaited     NoticeKind = "awaited"     // the message waits behind a call that waits, or has ended its wait
	NoticeWait        NoticeKind = "wait"        // the answer waits for a time or a word: see Notice.Wait
	NoticeJob         NoticeKind = "job"         // a job in the background goes on
	NoticeCommand     NoticeKind = "command"     // the answer to a chat command
	NoticeStopped     NoticeKind = "stopped"     // the message was stopped
	NoticeDelayed     NoticeKind = "delayed"     // a rate limit of the provider delays the answer
	NoticeDeferred    NoticeKind = "deferred"    // a budget is used up; the message is answered later
	NoticeRefused     NoticeKind = "refused"     // the message was refused, and no turn answers it
	NoticeBusy        NoticeKind = "busy"        // the message was not accepted, for want of room
	NoticeLate        NoticeKind = "late"        // the message was sent too long ago to be answered
	NoticeGaveUp      NoticeKind = "gave-up"     // the message is a dead letter
	NoticeDropped     NoticeKind = "dropped"     // an operator dropped the message
	NoticeUnreadable  NoticeKind = "unreadable"  // the stored message cannot be read
	NoticeUndelivered NoticeKind = "undelivered" // a reply to another chat is a dead letter
	NoticeEmpty       NoticeKind = "empty"       // the model answered with no text
	NoticeContext     NoticeKind = "context"     // the model's context is small for this chat
	NoticeTask        NoticeKind = "task"        // a scheduled task was paused
	NoticeObjective   NoticeKind = "objective"   // a service level objective is missed, or kept again
	NoticeAudit       NoticeKind = "audit"       // the audit trail is broken
	NoticePairing     NoticeKind = "pairing"     // the code with which an admin lets the sender in, or that he did
	NoticeTool        NoticeKind = "tool"        // a result that a tool shows to the chat itself
	NoticeChannel     NoticeKind = "channel"     // what Corebot cannot do in this chat of its network
)

// Notice says in data what the text of a notice says in words: what it is about, and what its reader can do. A channel
// can show buttons by it, and a program can decide by it. Everything that a person needs stands in the text, too.
//
// A notice does not distinguish messages: the same id with the same text is the same message, whatever its notice.
type Notice struct {
	Kind     NoticeKind      `json:"kind"`
	Approval *ApprovalNotice `json:"approval,omitempty"`
	Wait     *WaitNotice     `json:"wait,omitempty"`
	Actions  []Action        `json:"actions,omitempty"`
}

// WaitNotice is a wait of the answer.
type WaitNotice struct {
	ID    int64     `json:"id"`
	Kind  WaitKind  `json:"kind"`
	For   string    `json:"for,omitempty"`
	Until time.Time `json:"until"`
}

// ApprovalNotice is a request for an approval.
type ApprovalNotice struct {
	ID        int64        `json:"id"`
	Calls     []NoticeCall `json:"calls"`
	MoreCalls int          `json:"moreCalls,omitempty"` // calls beyond [MaxNoticeCalls]
	ExpiresAt time.Time    `json:"expiresAt"`
}

// NoticeCall is a call of a request, as the model wrote it.
type NoticeCall struct {
	Tool string `json:"tool"`
	Args string `json:"arguments,omitempty"` // JSON; empty if the calls of the request have no room for it
}

// Action is something that a reader of a notice can do. To do it is to send the command, as one's own message.
type Action struct {
	Name    string `json:"name"`    // stable, such as "approve"
	Label   string `json:"label"`   // for people, such as "Approve"
	Command string `json:"command"` // such as "/approve 7"
}

// Bounds of a notice. The text of the message has all calls whole.
const (
	MaxNoticeCalls = 32
	MaxNoticeArgs  = 8 << 10 // bytes of the arguments of all calls together
)

// NoticeOf makes a request for an approval of its calls.
func (a ApprovalRequest) NoticeOf() Notice {
	about := ApprovalNotice{ID: a.Request, ExpiresAt: a.ExpiresAt.UTC(), Calls: []NoticeCall{}}
	room := MaxNoticeArgs
	for i, call := range a.All {
		if i == MaxNoticeCalls {
			about.MoreCalls = len(a.All) - i
			break
		}
		shown := NoticeCall{Tool: Plainly(call.Bound.Tool)}
		if args := Plainly(string(call.Bound.Args)); len(args) <= room {
			shown.Args = args
			room -= len(args)
		}
		about.Calls = append(about.Calls, shown)
	}
	return Notice{Kind: NoticeApproval, Approval: &about, Actions: a.Actions()}
}

// Actions are what a reader can do about a request.
func (a ApprovalRequest) Actions() []Action {
	bound := slices.ContainsFunc(a.All, func(call Approval) bool { return call.Binding.Kind != "" })
	return a.actions(bound, a.Session)
}

// Actions are what a reader can do about the request of an approval, as far as the approval alone can tell.
func (a Approval) Actions() []Action {
	return a.actions(a.Binding.Kind != "", a.Session)
}

// actions say what can be done about a request. With bound an approval can last, in a session only if there is one.
func (a Approval) actions(bound bool, session int64) []Action {
	id := strconv.FormatInt(a.Request, 10)
	all := []Action{
		{Name: "approve", Label: "Approve", Command: "/approve " + id},
		{Name: "deny", Label: "Deny", Command: "/deny " + id},
		{Name: "deny-stop", Label: "Deny and stop", Command: "/deny " + id + " stop"},
	}
	if bound && session != 0 {
		all = append(all, Action{
			Name: "approve-session", Label: "Approve for this session", Command: "/approve " + id + " session",
		})
	}
	if bound {
		all = append(all, Action{Name: "approve-always", Label: "Approve always", Command: "/approve " + id +
			" always"})
	}
	return all
}

// Usage says in words how a request is answered.
func (a Approval) Usage() string {
	return fmt.Sprintf("/approve %d or /deny %d", a.Request, a.Request)
}

// NoticeOf tells of a wait.
func (w Pending) NoticeOf() Notice {
	return Notice{
		Kind: NoticeWait, Wait: &WaitNotice{w.ID, w.Kind, Plainly(w.For), w.Until.UTC()}, Actions: w.Actions(),
	}
}

// Actions are what a reader can do about a wait.
func (w Pending) Actions() []Action {
	return []Action{
		{Name: "resume", Label: "Go on now", Command: "/resume " + strconv.FormatInt(w.ID, 10)},
		StopAction(),
	}
}

// TextNotice is a message of Corebot itself to a conversation, about something and with what its reader can do.
func TextNotice(to Key, id, inReplyTo, text string, about Notice) Message {
	return Message{
		ID: id, Direction: Outbound, Key: to, Kind: KindNotice, Parts: TextPart(text), InReplyTo: inReplyTo,
		Notice: &about,
	}
}

// StopAction ends the answer that is being made.
func StopAction() Action { return Action{Name: "stop", Label: "Stop", Command: "/stop"} }

// RetryAction has a message tried again that was given up.
func RetryAction(messageID string) Action {
	return Action{Name: "retry", Label: "Try again", Command: "/retry " + messageID}
}

// stored is the notice as JSON; empty: there is none.
func (n *Notice) stored() string {
	if n == nil {
		return ""
	}
	b, err := json.Marshal(n)
	if err != nil { // a year that JSON has no word for; the text says the same
		return ""
	}
	return string(b)
}

// readNotice reads what stored wrote.
func readNotice(stored string) (*Notice, error) {
	if stored == "" {
		return nil, nil
	}
	n := new(Notice)
	return n, json.Unmarshal([]byte(stored), n)
}
