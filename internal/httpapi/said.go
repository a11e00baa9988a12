package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/internal/outside"
)

type sessionQuery struct {
	byAgent
	SessionKey string `query:"sessionKey" doc:"the chat of the API; left out: main"`
	SessionID  string `query:"sessionId" doc:"the key of any chat of the agent, in the place of sessionKey"`
	View       string `query:"view" set:"views" doc:"simple (what people and the agent said) or full; left out: simple"`
	part
}

type (
	// sessionPage is a part of what was said in a chat, oldest first.
	sessionPage struct {
		AgentID    string         `json:"agentId"`
		SessionKey string         `json:"sessionKey"`
		SessionID  string         `json:"sessionId"`
		Messages   []shownMessage `json:"messages"`
		Next       string         `json:"next,omitempty"` // the parameter after of the page before this one
	}
	// shownMessage is one entry. In the simple view its content is a text; in the full view it is a list of blocks.
	shownMessage struct {
		Role       string      `json:"role"` // user, assistant or toolResult
		Content    any         `json:"content"`
		Timestamp  int64       `json:"timestamp"` // in milliseconds
		MessageID  string      `json:"messageId,omitempty"`
		Sender     string      `json:"sender,omitempty"`     // of a user: the name, for display only
		Meta       *modelMeta  `json:"meta,omitempty"`       // full view: while the journal is kept
		ToolCallID string      `json:"toolCallId,omitempty"` // full view: of a result
		ToolName   string      `json:"toolName,omitempty"`
		IsError    *bool       `json:"isError,omitempty"`
		Details    *diffDetail `json:"details,omitempty"`
	}
	// block is a piece of content: text, toolCall, or what came beside the text.
	block struct {
		Type      string          `json:"type"`
		Text      string          `json:"text,omitempty"`
		ID        string          `json:"id,omitempty"`
		Name      string          `json:"name,omitempty"`
		Arguments json.RawMessage `json:"arguments,omitempty"`
	}
	modelMeta struct {
		Provider   string      `json:"provider,omitempty"`
		Model      string      `json:"model,omitempty"`
		Usage      *modelUsage `json:"usage,omitempty"`
		StopReason string      `json:"stopReason,omitempty"`
	}
	modelUsage struct {
		Input       int64 `json:"input"`
		Output      int64 `json:"output"`
		CacheRead   int64 `json:"cacheRead,omitempty"`
		CacheWrite  int64 `json:"cacheWrite,omitempty"`
		TotalTokens int64 `json:"totalTokens"`
	}
	diffDetail struct {
		Diff string `json:"diff"`
	}
)

// session is the chat that a caller names, if his token may read it.
func (c *call) session(agent, sessionKey, sessionID string) (k corebot.Key, err error) {
	if sessionID == "" {
		k, err = c.server.chat(agent, sessionKey)
	} else if k, err = corebot.ParseKey(sessionID); err == nil && agent != "" && k.Agent != agent {
		err = fmt.Errorf("%w: the chat %s is not one of the agent %s", corebot.ErrInvalid, k, corebot.Plainly(agent))
	}
	if err == nil && !c.token.MayRead(k) {
		err = closed("the scope read reads every chat; the scope send reads the chats of --chats",
			"the token %s may not read the chat %s", c.token.Name, corebot.Plainly(k.Chat))
	}
	return k, err
}

func readSession(c *call, ctx context.Context, q sessionQuery) (p sessionPage, err error) {
	k, err := c.session(q.Agent, q.SessionKey, q.SessionID)
	if err != nil {
		return p, err
	}
	full := q.View == "full"
	if !full && q.View != "" && q.View != "simple" {
		return p, malformed("want simple or full", "view is %q", corebot.Plainly(q.View))
	}
	found, err := c.service().ReadHistory(ctx, operate.HistoryQuery{Key: k, Part: q.of(), Whole: full})
	if err != nil {
		return p, err
	}
	p = sessionPage{
		AgentID: k.Agent, SessionKey: k.Chat, SessionID: k.String(), Next: found.Next, Messages: []shownMessage{},
	}
	var journal journals
	if full {
		journal = journals{service: c.service(), key: k}
	}
	for _, e := range slices.Backward(found.Rows) {
		if !full {
			p.Messages = append(p.Messages, simple(e))
			continue
		}
		m, err := journal.full(ctx, e)
		if err != nil {
			return p, err
		}
		p.Messages = append(p.Messages, m)
	}
	return p, nil
}

func begun(e corebot.Said) shownMessage {
	m := shownMessage{Role: string(e.Speaker), Timestamp: e.At.UnixMilli(), MessageID: e.MessageID}
	if e.Speaker == corebot.SpeakerUser {
		m.Sender = e.Name
	}
	return m
}

func simple(e corebot.Said) shownMessage {
	m := begun(e)
	m.Content = corebot.TextOf(e.Parts)
	return m
}

// journals are the journals of the messages of a page, each read once.
type journals struct {
	service *operate.Service
	key     corebot.Key
	last    string // the message whose life is known
	life    corebot.Life
	answers []corebot.Answer // of its journal, that no entry has taken yet, the oldest first
}

// read finds the life of a message. A message whose life retention has deleted has an empty one.
func (j *journals) read(ctx context.Context, messageID string) error {
	if j.last == messageID {
		return nil
	}
	j.last, j.life, j.answers = messageID, corebot.Life{}, nil
	told, err := j.service.Why(ctx, operate.ByMessage{MessageID: messageID, Key: j.key})
	if err != nil && !errors.Is(err, corebot.ErrNotFound) {
		return err
	}
	for _, l := range told.Lives {
		if life := l.Whole(); life.Key == j.key && life.Direction == corebot.Inbound {
			j.life = life
		}
	}
	for _, s := range j.life.Steps {
		if s.Kind == corebot.StepModel && s.Answer != nil {
			j.answers = append(j.answers, *s.Answer)
		}
	}
	return nil
}

// step is the journaled call with an id.
func (j *journals) step(callID string) (found corebot.Step) {
	for _, s := range j.life.Steps {
		if s.Kind == corebot.StepTool && s.Call != nil && s.Call.ID == callID {
			return s
		}
	}
	return found
}

func (j *journals) full(ctx context.Context, e corebot.Said) (m shownMessage, err error) {
	if err = j.read(ctx, e.MessageID); err != nil {
		return m, err
	}
	m = begun(e)
	blocks := []block{}
	switch e.Speaker {
	case corebot.SpeakerAssistant:
		blocks = append(blocks, texts(e.Parts)...)
		for _, call := range e.Calls {
			blocks = append(blocks, block{Type: "toolCall", ID: call.ID, Name: call.Tool, Arguments: arguments(call)})
		}
		m.Meta = j.meta(e)
	case corebot.SpeakerTool:
		m.Role, m.ToolCallID = "toolResult", e.CallID
		step := j.step(e.CallID)
		failed := step.Result != nil && step.Result.Outcome != corebot.OutcomeSuccess
		if step.Call != nil {
			m.ToolName, m.Details = step.Call.Tool, diffOf(*step.Call)
		}
		m.IsError = &failed
		blocks = append(blocks, block{Type: "text", Text: outside.Unmarked(corebot.TextOf(e.Parts))})
	default:
		blocks = append(blocks, texts(e.Parts)...)
	}
	m.Content = blocks
	return m, nil
}

// texts are the parts of an entry: each text, and a line for each file.
func texts(parts []corebot.Part) (all []block) {
	if text := corebot.TextOf(parts); text != "" {
		all = append(all, block{Type: "text", Text: text})
	}
	for _, p := range corebot.Attachments(parts) {
		all = append(all, block{Type: string(p.Type), Name: p.Name})
	}
	return all
}

// arguments are those of a call, as JSON also where the model wrote something else.
func arguments(c corebot.ToolCall) json.RawMessage {
	if json.Valid(c.Args) {
		return c.Args
	}
	text, _ := json.Marshal(string(c.Args)) // a string: cannot fail
	return text
}

// meta tells which model gave an answer, as far as its journal and its life are kept. Thoughts are kept for their
// provider only, and shown to nobody.
func (j *journals) meta(e corebot.Said) *modelMeta {
	of := func(model, stop string, u corebot.Usage) *modelMeta {
		if model == "" {
			return nil
		}
		m := &modelMeta{Model: model, StopReason: stop, Usage: &modelUsage{
			Input: u.InputTokens, Output: u.OutputTokens, CacheRead: u.CacheReadTokens, CacheWrite: u.CacheWriteTokens,
			TotalTokens: u.InputTokens + u.OutputTokens,
		}}
		if provider, name, both := strings.Cut(model, "/"); both {
			m.Provider, m.Model = provider, name
		}
		return m
	}
	if len(e.Calls) == 0 { // the last answer: the life has the usage of all of them
		rest := j.life.Usage
		for _, s := range j.life.Steps {
			if s.Answer != nil {
				rest.InputTokens -= s.Answer.Usage.InputTokens
				rest.OutputTokens -= s.Answer.Usage.OutputTokens
				rest.CacheReadTokens -= s.Answer.Usage.CacheReadTokens
				rest.CacheWriteTokens -= s.Answer.Usage.CacheWriteTokens
			}
		}
		return of(j.life.Model, "stop", rest)
	}
	for i, a := range j.answers {
		if slices.EqualFunc(a.Calls, e.Calls, func(x, y corebot.ToolCall) bool { return x.ID == y.ID }) {
			j.answers = slices.Delete(j.answers, i, i+1)
			return of(a.Model, "toolUse", a.Usage)
		}
	}
	return nil
}

// edits are the arguments of a call that replaces text in a file.
type edits struct{ Old, New string }

// diffOf is what a call that replaces text in a file took out and put in, as lines with - and +.
func diffOf(c corebot.ToolCall) *diffDetail {
	var e edits
	if c.Tool != "fs.edit" || json.Unmarshal(c.Args, &e) != nil {
		return nil
	}
	var b strings.Builder
	for line := range strings.Lines(e.Old) {
		b.WriteString("-" + strings.TrimSuffix(line, "\n") + "\n")
	}
	for line := range strings.Lines(e.New) {
		b.WriteString("+" + strings.TrimSuffix(line, "\n") + "\n")
	}
	return &diffDetail{b.String()}
}
