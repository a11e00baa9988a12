package httpapi

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/operate"
)

// Talk is the channel of programs: it takes their messages, and keeps the replies.
type Talk interface {
	// Say has a message on disk when it returns. A duplicate was accepted before. files are the bytes of those parts
	// that are no text, in their order.
	Say(ctx context.Context, k corebot.Key, id, sender string, parts []corebot.Part, files [][]byte) (duplicate bool,
		err error)
	// Watch gives a channel that something can be received from once there may be more replies in a conversation.
	Watch(k corebot.Key) (wake <-chan struct{}, stop func())
	// Last is the newest cursor of a conversation, or zero. Answers gives replies to a message behind a cursor.
	Last(ctx context.Context, k corebot.Key) (int64, error)
	Answers(ctx context.Context, k corebot.Key, id string, after int64, limit int) ([]corebot.Posted, error)
}

const (
	usualSession = "main"
	maxWait      = 60  // seconds
	maxAnswers   = 100 // to one message
)

type newMessage struct {
	byAgent
	Body struct {
		ID         string `json:"id,omitempty" jsonschema:"of your choice; again it changes nothing" empty:"refused"`
		SessionKey string `json:"sessionKey,omitempty" jsonschema:"the chat; left out: main" empty:"refused"`
		Content    string `json:"content,omitempty" jsonschema:"what to say, or a command of the chat such as /new"`
		Wait       int    `json:"wait,omitempty" jsonschema:"seconds to wait for the answer, at most 60"`

		Attachments []attachment `json:"attachments,omitempty" jsonschema:"files, at most 20"`
	} `body:""`
}

// attachment is a file of a message.
type attachment struct {
	Name string `json:"name,omitempty"`
	Type string `json:"type,omitempty" jsonschema:"a media type"`
	Data string `json:"data" jsonschema:"the bytes in base64"`
}

const (
	maxAttachments = 20
	maxFileName    = 512 // bytes of a name or a type
)

// filesOf are the attachments as parts, and their bytes.
func filesOf(all []attachment) (parts []corebot.Part, files [][]byte, err error) {
	if len(all) > maxAttachments {
		return nil, nil, fmt.Errorf("%w: a message has at most %d attachments", corebot.ErrInvalid, maxAttachments)
	}
	for i, a := range all {
		if len(a.Name) > maxFileName || len(a.Type) > maxFileName {
			return nil, nil, fmt.Errorf("%w: the name or the type of attachment %d is longer than %d bytes",
				corebot.ErrInvalid, i+1, maxFileName)
		}
		data, err := base64.StdEncoding.Strict().DecodeString(a.Data)
		if err != nil || len(data) == 0 {
			return nil, nil, malformed("data is the bytes of the file in base64",
				"the data of attachment %d is no base64", i+1)
		}
		parts = append(parts, corebot.Part{Type: corebot.PartFile, Name: a.Name, MediaType: a.Type})
		files = append(files, data)
	}
	return parts, files, nil
}

type (
	// sent is what became of a message. A message that has no answer yet is answered with the status 202.
	sent struct {
		ID         string  `json:"id"`
		AgentID    string  `json:"agentId"`
		SessionKey string  `json:"sessionKey"`
		SessionID  string  `json:"sessionId"`       // the key of the chat
		Status     string  `json:"status"`          // accepted or duplicate
		State      string  `json:"state,omitempty"` // with wait: how far it is, in words
		Answered   bool    `json:"answered"`        // with wait: it has ended, and these are all answers
		Messages   []reply `json:"messages"`        // with wait: the answers
	}
	// reply is what was said in answer to a message.
	reply struct {
		ID          string             `json:"id"`
		InReplyTo   string             `json:"inReplyTo,omitempty"`
		Content     string             `json:"content"`
		CreatedAt   time.Time          `json:"createdAt"`
		Cursor      string             `json:"cursor"`
		Notice      corebot.NoticeKind `json:"notice,omitempty"` // what Corebot itself says
		Attachments []corebot.Part     `json:"attachments,omitempty"`
		Actions     []corebot.Action   `json:"actions,omitempty"` // what a reader can do: send the command of an action
	}
)

// status is the status of the answer.
func (s sent) status() int {
	if s.Answered {
		return http.StatusOK
	}
	return http.StatusAccepted
}

func replyOf(p corebot.Posted) reply {
	r := reply{
		ID: p.ID, InReplyTo: p.InReplyTo, Content: p.Text(), CreatedAt: p.CreatedAt.UTC(),
		Cursor: strconv.FormatInt(p.Cursor, 10), Attachments: corebot.Attachments(p.Parts),
	}
	if p.Notice != nil {
		r.Notice, r.Actions = p.Notice.Kind, p.Notice.Actions
	}
	return r
}

// chat is the conversation that an agent and a session key name on the channel of programs.
func (s *Server) chat(agent, session string) (k corebot.Key, err error) {
	k = corebot.Key{Agent: agent, Channel: corebot.APIChannel, Chat: cmp.Or(session, usualSession)}
	if !slices.Contains(s.opts.Agents, agent) {
		return k, corebot.WithHint(fmt.Errorf("the agent %q: %w", corebot.Plainly(agent), corebot.ErrNotFound),
			"GET /api/agents lists the agents")
	}
	if session == "*" {
		return k, fmt.Errorf("%w: no chat is called *", corebot.ErrInvalid)
	}
	return k, k.Validate()
}

// closed refuses a token what it has no right to.
func closed(hint, format string, args ...any) error {
	return corebot.WithHint(&corebot.Denied{Reason: fmt.Sprintf(format, args...)}, hint)
}

func mayNotSend(t corebot.Token, chat string) error {
	return closed("corebot tokens add NAME --scope send --as api::NAME --chats CHAT makes one that may",
		"the token %s may not talk in the chat %s", t.Name, corebot.Plainly(chat))
}

// outgoing is a message of a token on its way.
type outgoing struct {
	*call
	key   corebot.Key
	id    string
	parts []corebot.Part
	files [][]byte
	wait  time.Duration
}

func sendMessage(c *call, ctx context.Context, m newMessage) (out sent, err error) {
	k, err := c.server.chat(m.Agent, m.Body.SessionKey)
	if err != nil {
		return out, err
	}
	if !c.token.MaySend(k.Chat) {
		return out, mayNotSend(c.token, k.Chat)
	}
	switch {
	case m.Body.Content == "" && len(m.Body.Attachments) == 0:
		return out, fmt.Errorf("%w: content is missing or empty", corebot.ErrInvalid)
	case m.Body.Wait < 0 || m.Body.Wait > maxWait:
		return out, fmt.Errorf("%w: wait is %d: want 0 to %d", corebot.ErrInvalid, m.Body.Wait, maxWait)
	}
	keys := c.request.Header[keyHeader] // of a message without an id it is the id
	if len(keys) > 1 || len(keys) == 1 && m.Body.ID != "" && m.Body.ID != keys[0] {
		return out, malformed("send one of them", "Idempotency-Key and id name the message differently")
	}
	o := outgoing{
		call: c, key: k, wait: time.Duration(m.Body.Wait) * time.Second,
		id: cmp.Or(m.Body.ID, strings.Join(keys, ""), randomID()),
	}
	if o.parts, o.files, err = filesOf(m.Body.Attachments); err != nil {
		return out, err
	}
	if m.Body.Content != "" {
		o.parts = slices.Concat(corebot.TextPart(m.Body.Content), o.parts)
	}
	return o.send(ctx)
}

// randomID is an id for a message whose sender gave none: it cannot be sent again.
func randomID() string { return "api-" + rand.Text() }

func (o outgoing) send(ctx context.Context) (out sent, err error) {
	out = sent{
		ID: o.id, AgentID: o.key.Agent, SessionKey: o.key.Chat, SessionID: o.key.String(), Status: "accepted",
		Messages: []reply{},
	}
	if o.wait > 0 {
		return o.sendAndWait(ctx, out)
	}
	return out, o.say(ctx, &out)
}

func (o outgoing) say(ctx context.Context, out *sent) error {
	duplicate, err := o.server.opts.Talk.Say(ctx, o.key, o.id, o.token.Sender, o.parts, o.files)
	if duplicate {
		out.Status = "duplicate"
	}
	return err
}

// sendAndWait ends when the message has ended, or when the time is up. Then it returns the notices so far, such
// as that a call waits for an approval. An accepted message stays accepted.
func (o outgoing) sendAndWait(ctx context.Context, out sent) (sent, error) {
	held, err := o.hold(context.WithoutCancel(ctx))
	if err != nil {
		return out, err
	}
	defer held.close()
	rc := http.NewResponseController(o.writer)
	if err := errors.Join(rc.SetReadDeadline(time.Time{}),
		rc.SetWriteDeadline(time.Now().Add(o.wait+requestTime))); err != nil {
		return out, err
	}
	return o.untilEnded(held.ctx, out)
}

// untilEnded sends the message and waits.
func (o outgoing) untilEnded(ctx context.Context, out sent) (sent, error) {
	talk := o.server.opts.Talk
	after, err := talk.Last(ctx, o.key)
	if err != nil {
		return out, err
	}
	wake, stop := talk.Watch(o.key)
	defer stop()
	if err := o.say(ctx, &out); err != nil {
		return out, err
	}
	if out.Status == "duplicate" {
		after = 0 // it may have been answered long ago
	}
	late := time.NewTimer(o.wait)
	defer late.Stop()
	for begun, over := out.Status == "duplicate", false; ; begun = true {
		if begun { // a new message has no answer before something has woken this
			if err := o.collect(ctx, &out, after); err != nil || out.Answered || over {
				return out, err
			}
		}
		select {
		case <-wake:
		case <-late.C:
			over = true
		case <-o.gone.Done(): // whoever waits has gone
			return out, nil
		case <-ctx.Done():
			return out, context.Cause(ctx)
		}
	}
}

// collect looks for answers to the message.
func (o outgoing) collect(ctx context.Context, out *sent, after int64) error {
	// Its end is looked at first: one commit ends a message and stores the answers, which are there once it has ended.
	life, err := o.life(ctx)
	if err != nil {
		return err
	}
	found, err := o.server.opts.Talk.Answers(ctx, o.key, o.id, after, maxAnswers)
	if err != nil {
		return err
	}
	if into := life.MergedInto; len(found) == 0 && into != nil { // it was answered with another
		if found, err = o.server.opts.Talk.Answers(ctx, o.key, into.MessageID, after, maxAnswers); err != nil {
			return err
		}
	}
	out.State, out.Answered = life.State, life.End != "" && life.MergedInto == nil || len(found) > 0 && life.End != ""
	out.Messages = out.Messages[:0]
	for _, p := range found {
		out.Messages = append(out.Messages, replyOf(p))
	}
	return nil
}

// life is what became of the message; one that is no longer known has ended.
func (o outgoing) life(ctx context.Context) (corebot.Life, error) {
	told, err := o.service().Why(ctx, operate.ByMessage{MessageID: o.id, Key: o.key})
	if err != nil && !errors.Is(err, corebot.ErrNotFound) {
		return corebot.Life{}, err
	}
	for _, l := range told.Lives {
		if life := l.Whole(); life.Key == o.key && life.Direction != corebot.Outbound {
			return life, nil
		}
	}
	return corebot.Life{End: corebot.EndAnswered, State: "over, and no longer known"}, nil
}
