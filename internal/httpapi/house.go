package httpapi

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/operate"
)

type bySkill struct {
	byAgent
	Skill string `path:"skill"`
}

func showSkill(s *operate.Service, ctx context.Context, by bySkill) (operate.SkillPage, error) {
	return s.ShowSkill(ctx, operate.SkillName{ByAgent: operate.ByAgent(by.byAgent), Name: by.Skill})
}

type byServer struct {
	byAgent
	Server string `path:"server"`
}

type serverQuery struct {
	byServer
	part
}

func showServer(s *operate.Service, ctx context.Context, q serverQuery) (operate.MCPTools, error) {
	return s.ShowServer(ctx, operate.ToolsQuery{
		ByAgent: operate.ByAgent(q.byAgent), Server: q.Server, Part: q.of(),
	})
}

type toolApproval struct {
	byServer
	Body struct {
		Fingerprints map[string]string `json:"fingerprints" jsonschema:"of each tool, as the list of tools gave it"`
		ReadOnly     []string          `json:"readOnly,omitempty" jsonschema:"those of them that only read"`
	} `body:""`
}

func approveTools(s *operate.Service, ctx context.Context, a toolApproval) (operate.Done, error) {
	return s.ApproveTools(ctx, operate.ToolApproval{
		ByAgent: operate.ByAgent(a.byAgent), Server: a.Server, Fingerprints: a.Body.Fingerprints,
		ReadOnly: a.Body.ReadOnly,
	})
}

func reloadServers(s *operate.Service, ctx context.Context, by byAgent) (operate.MCPServers, error) {
	return s.ReloadServers(ctx, operate.ServersQuery{ByAgent: operate.ByAgent(by)})
}

func globalMemory(s *operate.Service, ctx context.Context, by byAgent) (operate.GlobalMemory, error) {
	return s.ReadGlobalMemory(ctx, operate.ByAgent(by))
}

type memorySearch struct {
	Agent string `query:"agent" doc:"left out: all agents"`
	Text  string `query:"text" doc:"words, and phrases in quotes: a line must have all of them"`
	part
}

func searchMemory(s *operate.Service, ctx context.Context, q memorySearch) (operate.Page[operate.MemoryLine], error) {
	return s.SearchMemory(ctx, operate.MemorySearch{
		ByAgent: operate.ByAgent{Agent: q.Agent}, Text: q.Text, Part: q.of(),
	})
}

type factsQuery struct {
	Agent      string `query:"agent" doc:"left out: all agents"`
	Chat       string `query:"chat" doc:"the key of a chat: the facts that it sees"`
	Superseded bool   `query:"superseded" doc:"facts that a newer one stands for, too"`
	part
}

func listFacts(s *operate.Service, ctx context.Context, q factsQuery) (p operate.Page[operate.Fact], err error) {
	of := operate.FactQuery{Agent: q.Agent, Superseded: q.Superseded, Part: q.of()}
	if q.Chat != "" {
		if of.Key, err = corebot.ParseKey(q.Chat); err != nil {
			return p, err
		}
	}
	return s.ListFacts(ctx, of)
}

func showFact(s *operate.Service, ctx context.Context, by byID) (operate.Fact, error) {
	return s.ShowFact(ctx, operate.ByFact(by))
}

func forgetFact(s *operate.Service, ctx context.Context, by byID) (operate.Done, error) {
	return s.ForgetFacts(ctx, operate.ByFacts{IDs: []int64{by.ID}})
}

type memoryQuery struct {
	byChat
	part
}

// memoryPage is a part of the memory of a chat. Its fingerprint is that of the whole memory.
type memoryPage struct {
	operate.MemoryPage
	Next string `json:"next,omitempty"`
}

func showMemory(s *operate.Service, ctx context.Context, q memoryQuery) (p memoryPage, err error) {
	k, err := corebot.ParseKey(q.Chat)
	if err != nil {
		return p, err
	}
	if p.MemoryPage, err = s.ReadMemory(ctx, operate.MemoryQuery{Key: k}); err != nil {
		return p, err
	}
	if q.After != "" {
		line, err := strconv.Atoi(q.After)
		if err != nil {
			return p, malformed("begin again without it", "after is %q", corebot.Plainly(q.After))
		}
		p.Pieces = slices.DeleteFunc(p.Pieces, func(m operate.MemoryPiece) bool { return m.Line <= line })
	}
	if n := q.Limit; n > 0 && n < len(p.Pieces) {
		p.Pieces, p.Next = p.Pieces[:n], strconv.Itoa(p.Pieces[n-1].Line)
	}
	return p, nil
}

type memoryLoss struct {
	byChat
	Body struct {
		Fingerprint string `json:"fingerprint" jsonschema:"of the page as you have read it"`
		All         bool   `json:"all,omitempty"`
		Lines       []int  `json:"lines,omitempty" jsonschema:"from 1; without both: those for which nobody stands"`
	} `body:""`
}

func forgetMemory(s *operate.Service, ctx context.Context, l memoryLoss) (d operate.Done, err error) {
	k, err := corebot.ParseKey(l.Chat)
	if err != nil {
		return d, err
	}
	return s.ForgetMemory(ctx, operate.MemoryLoss{
		Key: k, Fingerprint: l.Body.Fingerprint, All: l.Body.All, Lines: l.Body.Lines,
	})
}

type byAccount struct {
	Account string `path:"account" doc:"KIND, or KIND:ACCOUNT, as the list of channels has it"`
}

func restartChannel(s *operate.Service, ctx context.Context, by byAccount) (operate.Done, error) {
	kind, account, _ := strings.Cut(by.Account, ":")
	return s.RestartChannel(ctx, operate.AccountName{Kind: kind, Account: account})
}

// proof says whether the audit trail is as it was written.
type proof struct {
	Intact bool   `json:"intact"`
	Broken string `json:"broken,omitempty"` // where and how it differs
	corebot.AuditChain
}

func verifyAudit(s *operate.Service, ctx context.Context, _ none) (proof, error) {
	chain, err := s.VerifyAudit(ctx, operate.Verification{})
	if broken := (*corebot.BrokenChain)(nil); errors.As(err, &broken) {
		return proof{false, broken.Error(), chain}, nil
	}
	return proof{err == nil, "", chain}, err
}

func auditRecords(s *operate.Service, ctx context.Context, p part) (operate.Page[corebot.AuditRecord], error) {
	return s.ReadRecords(ctx, p.of())
}
