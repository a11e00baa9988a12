package apptest

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/agent/memory"
	"github.com/corebot/corebot/agent/pages"
	"github.com/corebot/corebot/tools"
	"github.com/corebot/corebot/workspace"
)

// Reply is one answer of a scripted model.
type Reply func(ctx context.Context, r llm.Request, onText func(string)) (corebot.Answer, error)

// spent is the usage of every answer of a scripted model.
var spent = corebot.Usage{InputTokens: 10, OutputTokens: 5}

// Model gives the replies of its script, one for each request.
type Model struct {
	mu       sync.Mutex
	replies  []Reply
	always   Reply
	requests []llm.Request
}

// Script is a model that gives these replies, and fails for good when they are used up.
func Script(replies ...Reply) *Model {
	return &Model{replies: replies, always: Fails(&corebot.Failure{
		Class: corebot.Permanent,
		Err:   errors.New("the script is used up"),
	})}
}

// Always is a model that gives one reply again and again.
func Always(r Reply) *Model { return &Model{always: r} }

// Name is what the model calls itself.
func (m *Model) Name() string { return "scripted" }

// Complete gives the next reply.
func (m *Model) Complete(ctx context.Context, r llm.Request, onText func(string)) (corebot.Answer, error) {
	if onText == nil {
		onText = func(string) {}
	}
	return m.next(r)(ctx, r, onText)
}

func (m *Model) next(r llm.Request) Reply {
	m.mu.Lock()
	defer m.mu.Unlock()
	r.Messages = slices.Clone(r.Messages)
	m.requests = append(m.requests, r)
	if len(m.replies) == 0 {
		return m.always
	}
	reply := m.replies[0]
	m.replies = m.replies[1:]
	return reply
}

// Requests are what the model was asked, oldest first.
func (m *Model) Requests() []llm.Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.requests)
}

// Last is the newest request.
func (m *Model) Last() llm.Request {
	all := m.Requests()
	if len(all) == 0 {
		return llm.Request{}
	}
	return all[len(all)-1]
}

// Text answers with a text.
func Text(s string) Reply {
	return func(_ context.Context, _ llm.Request, onText func(string)) (corebot.Answer, error) {
		onText(s)
		return corebot.Answer{Text: s, Model: "scripted", Usage: spent}, nil
	}
}

// Asks answers with tool calls.
func Asks(calls ...corebot.ToolCall) Reply {
	return func(context.Context, llm.Request, func(string)) (corebot.Answer, error) {
		return corebot.Answer{Calls: calls, Model: "scripted", Usage: spent}, nil
	}
}

// Call is a tool call; args are what the model writes, JSON or not.
func Call(id, tool, args string) corebot.ToolCall {
	return corebot.ToolCall{ID: id, Tool: tool, Args: json.RawMessage(args)}
}

// Fails answers with an error.
func Fails(err error) Reply {
	return func(context.Context, llm.Request, func(string)) (corebot.Answer, error) { return corebot.Answer{}, err }
}

// Hangs never answers: it waits for the end of its context.
func Hangs() Reply {
	return func(ctx context.Context, _ llm.Request, _ func(string)) (corebot.Answer, error) {
		<-ctx.Done()
		return corebot.Answer{}, context.Cause(ctx)
	}
}

// After waits before it replies, or until its context ends.
func After(d time.Duration, r Reply) Reply {
	return func(ctx context.Context, req llm.Request, onText func(string)) (corebot.Answer, error) {
		select {
		case <-time.After(d):
			return r(ctx, req, onText)
		case <-ctx.Done():
			return corebot.Answer{}, context.Cause(ctx)
		}
	}
}

// Notes are the texts of a workspace that a test writes.
type Notes struct {
	IdentityText, UserText, ToolsText, SkillsText, Global string
	SoulText, AgentsText, BootstrapText                   string
	Chats                                                 map[corebot.Key]string // memories of an unknown source
	Trusted                                               map[corebot.Key]string // for which the operator stands
	Memory                                                *memory.Store          // of chats, in the place of Chats

	LeftOut string // of the identity and of each chat's memory

	Renewals atomic.Int64 // how often it was told that the next page is to be as of now
}

// Page implements [agent.Notes].
func (n *Notes) Page(path string) pages.Page {
	p := pages.Page{Text: map[string]string{
		workspace.Identity: n.IdentityText, workspace.Soul: n.SoulText, workspace.Agents: n.AgentsText,
		workspace.User:  n.UserText,
		workspace.Tools: n.ToolsText, workspace.Memory: n.Global, workspace.Bootstrap: n.BootstrapText,
	}[path]}
	if path == workspace.Identity {
		p.LeftOut = n.LeftOut
	}
	return p
}

// Renew implements [agent.Notes].
func (n *Notes) Renew() { n.Renewals.Add(1) }

// Skills implements [agent.Notes].
func (n *Notes) Skills() pages.Page { return pages.Page{Text: n.SkillsText} }

// SkillsHere implements [agent.Notes].
func (n *Notes) SkillsHere(corebot.Key, corebot.SkillChoices, string) string { return "" }

// ChatMemory implements [agent.Notes].
func (n *Notes) ChatMemory(ctx context.Context, k corebot.Key) (pieces []memory.Piece, leftOut string) {
	if n.Memory != nil {
		pieces, _, err := n.Memory.Pieces(ctx, k)
		if err != nil {
			panic(err)
		}
		return pieces, n.LeftOut
	}
	if text := n.Trusted[k]; text != "" {
		pieces = append(pieces, memory.Piece{Text: text, MemoryNote: corebot.MemoryNote{Trusted: true}})
	}
	if text := n.Chats[k]; text != "" {
		pieces = append(pieces, memory.Piece{Text: text, MemoryNote: corebot.MemoryNote{Taint: memory.Unknown}})
	}
	return pieces, n.LeftOut
}

// ToolArgs are the arguments of every test tool.
type ToolArgs struct {
	Text string `json:"text"`
}

// Tool is a tool that a test makes. Policy knows no test tools: name it as one that is open to all and touches nothing,
// such as web.search or web.fetch.
func Tool(name string, traits tools.Traits, fn func(ctx context.Context, text string) (string, error)) tools.Tool {
	return tools.New(name, "A tool of a test.", traits, func(ctx context.Context, _ tools.Call,
		a ToolArgs,
	) (string, error) {
		return fn(ctx, a.Text)
	})
}
