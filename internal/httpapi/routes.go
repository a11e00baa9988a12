package httpapi

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/operate"
)

// routes are all paths of the API, but for its description.
func routes() []route {
	return []route{
		get("/api/status", "How Corebot stands: queue, dead letters, usage of today", status),
		get("/api/health", "Why it cannot accept or answer, and what is wrong although it does", health),
		get("/api/agents", "The agents", listAgents),
		get("/api/agents/{agent}", "One agent: model, tools, routes", showAgent),
		get("/api/agents/{agent}/status", "What an agent does now: its running turns, and what waits", agentStatus),
		ofCall(http.MethodGet, "/api/agents/{agent}/files/{hash}", corebot.ScopeRead,
			"The bytes of a file of a chat", readFile).orScope(corebot.ScopeSend),
		get("/api/agents/{agent}/skills", "The skills of an agent", listSkills),
		get("/api/agents/{agent}/mcp", "The MCP servers of an agent, and how they are doing", listServers),
		ofCall(http.MethodPost, "/api/agents/{agent}/messages", corebot.ScopeSend,
			"Send a message to an agent, and wait for its answer if you like", sendMessage),
		ofCall(http.MethodGet, "/api/agents/{agent}/history", corebot.ScopeRead,
			"What was said in a chat: the newest page first, and each page oldest first", readSession).
			orScope(corebot.ScopeSend),
		get("/api/agents/{agent}/skills/{skill}", "One skill: its page, and what it needs", showSkill),
		get("/api/agents/{agent}/mcp/{server}", "What an MCP server says of its tools", showServer),
		change(http.MethodPost, "/api/agents/{agent}/mcp/{server}/approve",
			"Approve tools of an MCP server, as you have read them", approveTools),
		change(http.MethodPost, "/api/agents/{agent}/mcp/reload", "Read the file of MCP servers again", reloadServers),
		get("/api/agents/{agent}/memory", "The page of memory that every chat of an agent reads", globalMemory),
		get("/api/memory", "The lines of memory that have some words", searchMemory),
		get("/api/chats/{chat}/memory", "The memory of a chat, piece by piece", showMemory),
		change(http.MethodDelete, "/api/chats/{chat}/memory", "Forget lines of a chat's memory, as it was shown",
			forgetMemory),
		get("/api/facts", "The facts that agents know, newest first", listFacts),
		get("/api/facts/{id}", "One fact: who said it, and where", showFact),
		change(http.MethodDelete, "/api/facts/{id}", "Forget a fact for good", forgetFact),
		get("/api/chats", "The chats", listChats),
		get("/api/chats/{chat}", "One chat: its settings and its summary", showChat),
		get("/api/chats/{chat}/history", "What was said in a chat, newest first", history),
		get("/api/messages/{id}", "The lives of the messages with an id: what became of them, step by step", why),
		get("/api/deadletters", "The dead letters, newest first", listDeadLetters),
		get("/api/deadletters/{id}", "One dead letter, with what was said and every attempt", showDeadLetter),
		change(http.MethodPost, "/api/deadletters/{id}/replay", "Put a dead letter back into the queue",
			replayDeadLetter),
		change(http.MethodPatch, "/api/deadletters/{id}",
			"Replay a dead letter with another text and the same files, under a new id", editDeadLetter),
		change(http.MethodDelete, "/api/deadletters/{id}", "Give a dead letter up for good", dropDeadLetter),
		get("/api/approvals", "The calls that wait for an approval, oldest first", listApprovals),
		get("/api/approvals/{id}", "The calls of one request, in any state", showApproval),
		change(http.MethodPost, "/api/approvals/{id}", "Approve or deny a request: all its calls", resolveApproval),
		get("/api/rules", "The approvals that last", listRules),
		change(http.MethodDelete, "/api/rules/{id}", "End an approval that lasts", revokeRule),
		get("/api/schedules", "The scheduled tasks", listTasks),
		get("/api/schedules/{id}", "One task and its newest runs", showTask),
		change(http.MethodPost, "/api/schedules", "Make a task", createTask),
		change(http.MethodPatch, "/api/schedules/{id}", "Pause a task, resume it, or run it once now", changeTask),
		change(http.MethodDelete, "/api/schedules/{id}", "Remove a task and its runs for good", removeTask),
		get("/api/jobs", "Work that turns gave to other turns", listJobs),
		get("/api/jobs/{id}", "One job", showJob),
		change(http.MethodDelete, "/api/jobs/{id}", "Stop a job", stopJob),
		get("/api/waits", "What turns wait for", listWaits),
		get("/api/channels", "The accounts of channels, and how they are doing", listChannels),
		change(http.MethodPost, "/api/channels/{account}/restart",
			"End the connection of an account and begin it anew", restartChannel),
		get("/api/pairings", "Who asks to talk", listPairings),
		change(http.MethodPost, "/api/pairings/{code}", "Let in who got a code, or turn him away", decidePairing),
		get("/api/audit", "The audit trail, newest first", listAudit),
		get("/api/audit/verification", "Whether the audit trail is as it was written", verifyAudit),
		get("/api/audit/records", "The audit trail as it is stored and hashed, oldest first", auditRecords),
		get("/api/usage", "What models used: by day, chat, sender and model", listUsage),
		get("/api/usage/sums", "What models used, added up by day, chat or model", sumUsage),
	}
}

// part is which rows of a list a caller wants.
type part struct {
	After string `query:"after" doc:"the next of the previous page"`
	Limit int    `query:"limit" least:"1" doc:"at most so many rows; some lists give fewer"`
}

func (p part) of() operate.Part { return operate.Part{After: p.After, Limit: p.Limit} }

type (
	none    struct{}
	byAgent struct {
		Agent string `path:"agent"`
	}
	agentPart struct {
		byAgent
		part
	}
	byID struct {
		ID int64 `path:"id"`
	}
	byChat struct {
		Chat string `path:"chat" doc:"the key of the chat, such as main:webhook::ops"`
	}
	allOf struct {
		All bool `query:"all" doc:"also those that have ended"`
		part
	}
)

// rowsOf maps the rows of a page to what commands print of them with --json.
func rowsOf[T, R any](p operate.Page[T], err error, row func(T) R) (operate.Page[R], error) {
	out := operate.Page[R]{Rows: make([]R, len(p.Rows)), Next: p.Next}
	for i, r := range p.Rows {
		out.Rows[i] = row(r)
	}
	return out, err
}

func status(s *operate.Service, ctx context.Context, _ none) (operate.Status, error) {
	return s.Status(ctx, struct{}{})
}

func health(s *operate.Service, ctx context.Context, _ none) (operate.Health, error) {
	return s.ReadHealth(ctx, struct{}{})
}

func listAgents(s *operate.Service, ctx context.Context, p part) (operate.Page[operate.Agent], error) {
	return s.ListAgents(ctx, p.of())
}

func showAgent(s *operate.Service, ctx context.Context, by byAgent) (operate.Agent, error) {
	return s.ShowAgent(ctx, operate.ByAgent(by))
}

func listSkills(s *operate.Service, ctx context.Context, q agentPart) (operate.Skills, error) {
	return s.ListSkills(ctx, operate.SkillsQuery{ByAgent: operate.ByAgent(q.byAgent), Part: q.of()})
}

func listServers(s *operate.Service, ctx context.Context, q agentPart) (operate.MCPServers, error) {
	return s.ListServers(ctx, operate.ServersQuery{ByAgent: operate.ByAgent(q.byAgent), Part: q.of()})
}

type chatsQuery struct {
	Channel string `query:"channel"`
	part
}

func listChats(s *operate.Service, ctx context.Context, q chatsQuery) (operate.Page[operate.Chat], error) {
	return s.ListChats(ctx, operate.ChatsQuery{Channel: q.Channel, Part: q.of()})
}

func showChat(s *operate.Service, ctx context.Context, by byChat) (c operate.Conversation, err error) {
	k, err := corebot.ParseKey(by.Chat)
	if err != nil {
		return c, err
	}
	return s.ShowChat(ctx, operate.ChatQuery{Key: k})
}

type historyQuery struct {
	byChat
	part
}

func history(s *operate.Service, ctx context.Context, q historyQuery) (p operate.Page[corebot.Said], err error) {
	k, err := corebot.ParseKey(q.Chat)
	if err != nil {
		return p, err
	}
	return s.ReadHistory(ctx, operate.HistoryQuery{Key: k, Part: q.of()})
}

type byMessage struct {
	ID string `path:"id" doc:"the id that the message came with"`
}

func why(s *operate.Service, ctx context.Context, by byMessage) (operate.Told, error) {
	return s.Why(ctx, operate.ByMessage{MessageID: by.ID})
}

type deadLetterQuery struct {
	Agent   string    `query:"agent"`
	Channel string    `query:"channel"`
	Chat    string    `query:"chatId" doc:"the id of a chat, of any account and thread"`
	Sender  string    `query:"senderId"`
	Reason  string    `query:"reason" set:"reasons"`
	Since   time.Time `query:"since" doc:"dead at this moment or later"`
	Until   time.Time `query:"until" doc:"dead before this moment"`
	Text    string    `query:"text" doc:"stands in what was said, in any case of its letters"`
	Error   string    `query:"error" doc:"stands in the last error, likewise"`
	part
}

func listDeadLetters(s *operate.Service, ctx context.Context, q deadLetterQuery) (operate.Page[operate.DeadLetter],
	error,
) {
	return s.ListDeadLetters(ctx, operate.DeadLetterQuery{Part: q.of(), Filter: corebot.DeadLetterFilter{
		Agent: q.Agent, Channel: q.Channel, Chat: q.Chat, Sender: q.Sender, Reason: q.Reason, After: q.Since,
		Before: q.Until, Text: q.Text, Error: q.Error,
	}})
}

func showDeadLetter(s *operate.Service, ctx context.Context, by byID) (operate.Life, error) {
	return s.ShowDeadLetter(ctx, operate.ByID(by))
}

type replay struct {
	byID
	Fresh bool `query:"fresh" doc:"start over, and do not resume its journal: effects can happen again"`
}

func replayDeadLetter(s *operate.Service, ctx context.Context, r replay) (operate.Done, error) {
	return s.ReplayDeadLetters(ctx, operate.Replay{IDs: []int64{r.ID}, Fresh: r.Fresh})
}

type edit struct {
	byID
	Body struct {
		NewID string `json:"newId" jsonschema:"the id of the message with the new text"`
		Text  string `json:"text"`
	} `body:""`
}

func editDeadLetter(s *operate.Service, ctx context.Context, e edit) (operate.Done, error) {
	return s.EditDeadLetter(ctx, operate.Edit{ID: e.ID, NewID: e.Body.NewID, Text: e.Body.Text})
}

func dropDeadLetter(s *operate.Service, ctx context.Context, by byID) (operate.Done, error) {
	return s.DropDeadLetters(ctx, operate.Drop{IDs: []int64{by.ID}})
}

func listApprovals(s *operate.Service, ctx context.Context, q allOf) (operate.Page[operate.ApprovalRow], error) {
	p, err := s.ListApprovals(ctx, operate.ApprovalQuery{All: q.All, Part: q.of()})
	return rowsOf(p, err, operate.Approval.Row)
}

// request is all calls of one model answer that need an approval.
type request struct {
	Calls []operate.ApprovalRow `json:"calls"`
}

func showApproval(s *operate.Service, ctx context.Context, by byID) (r request, err error) {
	found, err := s.ShowApproval(ctx, operate.ByID(by))
	page, err := rowsOf(operate.Page[operate.Approval]{Rows: found.Calls}, err, operate.Approval.Row)
	return request{page.Rows}, err
}

type resolution struct {
	byID
	Body struct {
		State corebot.ApprovalState `json:"state" jsonschema:"approved or denied"`
		For   corebot.Lasting       `json:"for,omitempty" jsonschema:"session or always: the approval lasts"`
		Stop  bool                  `json:"stop,omitempty" jsonschema:"with a denial: the turn ends, too"`
	} `body:""`
}

func resolveApproval(s *operate.Service, ctx context.Context, r resolution) (operate.Done, error) {
	return s.ResolveApprovals(ctx, operate.Resolution{
		IDs: []int64{r.ID}, State: r.Body.State, For: r.Body.For, Stop: r.Body.Stop,
	})
}

func listRules(s *operate.Service, ctx context.Context, p part) (operate.Page[operate.RuleRow], error) {
	page, err := s.ListRules(ctx, operate.RuleQuery{Part: p.of()})
	return rowsOf(page, err, operate.Rule.Row)
}

func revokeRule(s *operate.Service, ctx context.Context, by byID) (operate.Done, error) {
	return s.RevokeRules(ctx, operate.ByRules{IDs: []int64{by.ID}})
}

type taskQuery struct {
	Agent string            `query:"agent"`
	State corebot.TaskState `query:"state" set:"states"`
	part
}

func listTasks(s *operate.Service, ctx context.Context, q taskQuery) (operate.Page[operate.TaskRow], error) {
	return s.ListTasks(ctx, operate.TaskQuery{Agent: q.Agent, State: q.State, Part: q.of()})
}

// shownRuns is how many runs a task is shown with.
const shownRuns = 20

func showTask(s *operate.Service, ctx context.Context, by byID) (operate.TaskDetail, error) {
	return s.ShowTask(ctx, operate.TaskRuns{ID: by.ID, Limit: shownRuns})
}

type newTask struct {
	Body struct {
		Chat     string              `json:"chat" jsonschema:"the key of the chat in which it runs and answers"`
		Kind     corebot.TaskKind    `json:"kind" jsonschema:"once, interval, daily or cron"`
		Spec     string              `json:"spec" jsonschema:"a time such as 2026-12-24T18:00, 90m, 08:30 or cron"`
		TimeZone string              `json:"timeZone,omitempty" jsonschema:"left out: tasks.time_zone" empty:"refused"`
		Prompt   string              `json:"prompt"`
		Name     string              `json:"name,omitempty"`
		Context  corebot.TaskContext `json:"context,omitempty" jsonschema:"group or isolated" empty:"refused"`
	} `body:""`
}

func createTask(s *operate.Service, ctx context.Context, n newTask) (row operate.TaskRow, err error) {
	k, err := corebot.ParseKey(n.Body.Chat)
	if err != nil {
		return row, err
	}
	owner, ok := s.Owner()
	if !ok {
		return row, errNoOwner
	}
	spec := n.Body.Spec
	if d, err := time.ParseDuration(spec); err == nil && d > 0 && n.Body.Kind == corebot.TaskOnce { // as in /remind
		spec = time.Now().Add(d).UTC().Truncate(time.Second).Format(time.RFC3339)
	}
	return s.CreateTask(ctx, operate.NewTask{
		Key: k, By: owner, Name: n.Body.Name, Prompt: n.Body.Prompt,
		Context:  cmp.Or(n.Body.Context, corebot.TaskInChat),
		Schedule: corebot.Schedule{Kind: n.Body.Kind, Spec: spec, TimeZone: n.Body.TimeZone},
	})
}

type taskChange struct {
	byID
	Body struct {
		Action corebot.TaskAction `json:"action" jsonschema:"pause, resume or run"`
	} `body:""`
}

func changeTask(s *operate.Service, ctx context.Context, c taskChange) (operate.Done, error) {
	return s.ChangeTask(ctx, operate.TaskChange{IDs: []int64{c.ID}, Action: c.Body.Action})
}

func removeTask(s *operate.Service, ctx context.Context, by byID) (operate.Done, error) {
	return s.ChangeTask(ctx, operate.TaskChange{IDs: []int64{by.ID}, Action: corebot.TaskRemove})
}

func listJobs(s *operate.Service, ctx context.Context, q allOf) (operate.Page[operate.JobRow], error) {
	return s.ListJobs(ctx, operate.JobQuery{All: q.All, Part: q.of()})
}

func showJob(s *operate.Service, ctx context.Context, by byID) (operate.JobRow, error) {
	return s.ShowJob(ctx, operate.JobID(by))
}

func stopJob(s *operate.Service, ctx context.Context, by byID) (operate.Done, error) {
	return s.StopJobs(ctx, operate.JobIDs{IDs: []int64{by.ID}})
}

func listWaits(s *operate.Service, ctx context.Context, q allOf) (operate.Page[operate.WaitRow], error) {
	return s.ListWaits(ctx, operate.WaitQuery{All: q.All, Part: q.of()})
}

func listChannels(s *operate.Service, ctx context.Context, p part) (operate.Page[operate.ChannelAccount], error) {
	return s.ListChannels(ctx, p.of())
}

func listPairings(s *operate.Service, ctx context.Context, q allOf) (operate.Page[operate.Pairing], error) {
	return s.ListPairings(ctx, operate.PairingQuery{All: q.All, Part: q.of()})
}

type pairingDecision struct {
	Code string `path:"code"`
	Body struct {
		State corebot.PairingState `json:"state" jsonschema:"paired or denied"`
	} `body:""`
}

func decidePairing(s *operate.Service, ctx context.Context, d pairingDecision) (operate.Pairing, error) {
	return s.DecidePairing(ctx, operate.PairingDecision{Code: d.Code, State: d.Body.State})
}

type auditQuery struct {
	Since   time.Time            `query:"since"`
	Until   time.Time            `query:"until"`
	Agent   string               `query:"agent"`
	Channel string               `query:"channel"`
	Chat    string               `query:"chatId" doc:"the id of a chat, of any account and thread"`
	Sender  string               `query:"senderId"`
	Tool    string               `query:"tool" doc:"a tool, or a change such as facts.forget"`
	Outcome corebot.AuditOutcome `query:"outcome" set:"outcomes"`
	part
}

func listAudit(s *operate.Service, ctx context.Context, q auditQuery) (operate.Page[operate.AuditRow], error) {
	page, err := s.ListAudit(ctx, operate.AuditQuery{Part: q.of(), Filter: corebot.AuditFilter{
		Since: q.Since, Until: q.Until, Agent: q.Agent, Channel: q.Channel, Chat: q.Chat, Sender: q.Sender,
		Tool: q.Tool, Outcome: q.Outcome,
	}})
	return rowsOf(page, err, func(e operate.AuditEvent) operate.AuditRow { return e.AuditRow })
}

type usageQuery struct {
	From string `query:"from" doc:"the first day, such as 2026-12-24"`
	To   string `query:"to" doc:"the last day"`
	part
}

func listUsage(s *operate.Service, ctx context.Context, q usageQuery) (operate.Page[corebot.UsageRow], error) {
	return s.ListUsage(ctx, operate.UsageQuery{From: q.From, To: q.To, Part: q.of()})
}
