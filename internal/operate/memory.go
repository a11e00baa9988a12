package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/terms"
)

// Memories keeps what agents remember: one page for all chats of an agent, and one for each chat.
type Memories interface {
	// GlobalMemory gives the page that every chat of an agent reads, and the path of its file.
	GlobalMemory(ctx context.Context, agent string) (page, path string, err error)
	// Memory gives the page of a chat, or one that chats share: see [corebot.Key.InChannel]. Without a page, there are
	// no pieces.
	Memory(ctx context.Context, k corebot.Key) (MemoryPage, error)
	// Remembering says which chats of an agent can have a page, without a look for each page.
	Remembering(ctx context.Context, agent string) (can func(k corebot.Key) bool, err error)
	// TrustMemory has a principal stand for the whole page, if the page still has the fingerprint.
	TrustMemory(ctx context.Context, k corebot.Key, fingerprint string, by corebot.Principal) error
	// ForgetMemory deletes lines of the page, if the page still has the fingerprint, and counts them.
	ForgetMemory(ctx context.Context, f MemoryLoss) (int, error)
}

// Facts keeps what was said as facts.
type Facts interface {
	List(ctx context.Context, q corebot.FactFilter, after string, limit int) (found []corebot.Fact, next string,
		err error)
	Fact(ctx context.Context, id int64) (corebot.Fact, error)
	Forget(ctx context.Context, k corebot.Key, ids []int64, may func(corebot.Fact) bool) (int, error)
}

// Attached are the references of messages to files.
type Attached interface {
	// OfChat are the hashes of contents that a chat refers to, in order, behind a hash.
	OfChat(ctx context.Context, k corebot.Key, after string, limit int) ([]string, error)
	// File is the newest reference of a chat to a content.
	File(ctx context.Context, k corebot.Key, hash string) (corebot.AttachedFile, error)
}

// The operations on memory, and on the files of messages.
var (
	ListAttached     = reads("files.list", (*Service).ListAttached)
	ReadGlobalMemory = ofFiles("memory.global", (*Service).ReadGlobalMemory)
	ReadMemory       = reads("memory.show", (*Service).ReadMemory)
	SearchMemory     = walks("memory.search", (*Service).SearchMemory)
	TrustMemory      = changes("memory.trust", (*Service).TrustMemory)
	ForgetMemory     = changes("memory.forget", (*Service).ForgetMemory)
	ListFacts        = reads("facts.list", (*Service).ListFacts)
	ShowFact         = reads("facts.show", (*Service).ShowFact)
	ForgetFacts      = changes("facts.forget", (*Service).ForgetFacts)
)

type (
	// MemoryQuery asks for the memory of a chat, or one that chats share.
	MemoryQuery struct {
		Key corebot.Key `json:"key"`
	}
	// GlobalMemory is the page that every chat of an agent reads.
	GlobalMemory struct {
		Path string `json:"path"`
		Text string `json:"text"`
	}
	// MemoryPage is the memory of a chat, in pieces that were written at different times.
	MemoryPage struct {
		Chat        string        `json:"chat"`
		Fingerprint string        `json:"fingerprint"` // of the whole page
		Cut         bool          `json:"cut"`         // the file is too large: these are its beginning
		Pieces      []MemoryPiece `json:"pieces"`
	}
	// MemoryPiece is a part of a page that one turn wrote, or that something else than Corebot wrote.
	MemoryPiece struct {
		Line      int       `json:"line"` // the number of its first line, from 1
		Text      string    `json:"text"`
		Sender    string    `json:"sender,omitempty"` // whose turn wrote it
		MessageID string    `json:"messageId,omitempty"`
		At        time.Time `json:"at,omitzero"`
		Taint     string    `json:"taint,omitempty"`   // what others can have had a hand in
		Trusted   bool      `json:"trusted,omitempty"` // an operator stands for it
		Clean     bool      `json:"clean"`             // the operator, or its sender alone, stands behind it
	}
	// MemorySearch asks for the lines that have every phrase of a query.
	MemorySearch struct {
		ByAgent
		Text string `json:"text"`
		Part
	}
	// MemoryLine is a line that was found.
	MemoryLine struct {
		Chat string `json:"chat,omitempty"` // empty: the page that every chat reads
		Line int    `json:"line"`
		Text string `json:"text"`
	}
	// MemoryTrust names the page that its reader trusts.
	MemoryTrust struct {
		Key         corebot.Key `json:"key"`
		Fingerprint string      `json:"fingerprint"`
	}
	// FactQuery asks for a page of the facts that a chat sees, or of all.
	FactQuery struct {
		Key        corebot.Key `json:"key,omitzero"`
		Agent      string      `json:"agent,omitempty"`
		Superseded bool        `json:"superseded,omitempty"`
		Part
	}
	// Fact is what somebody said, and where.
	Fact struct {
		ID           int64             `json:"id"`
		ChatID       string            `json:"chatId"` // the key of the conversation in which it was said
		Scope        corebot.FactScope `json:"scope"`
		Subject      string            `json:"subject"`
		Relation     string            `json:"relation"`
		Object       string            `json:"object"`
		Sender       string            `json:"senderId,omitempty"`
		MessageID    string            `json:"messageId,omitempty"`
		At           time.Time         `json:"at"`
		Taint        string            `json:"taint,omitempty"`   // what others can have had a hand in
		Trusted      bool              `json:"trusted,omitempty"` // an admin of everything stands for it
		SupersededBy int64             `json:"supersededBy,omitempty"`
	}
	// AttachedQuery asks for a part of the files that messages of a chat refer to.
	AttachedQuery struct {
		Key corebot.Key `json:"key"`
		Part
	}
	// Attachment is a file that messages of a chat refer to, by the newest of them.
	Attachment struct {
		Hash      string    `json:"hash"` // SHA-256 of its bytes, in hex
		Name      string    `json:"name,omitempty"`
		MediaType string    `json:"mediaType,omitempty"`
		Size      int64     `json:"size"` // in bytes
		MessageID string    `json:"messageId,omitempty"`
		At        time.Time `json:"at,omitzero"`
		Fault     string    `json:"fault,omitempty"` // why the bytes are not kept
	}
	// ByFact names a fact.
	ByFact struct {
		ID int64 `json:"id"`
	}
	// ByFacts names facts.
	ByFacts struct {
		IDs []int64 `json:"ids"`
	}
	// MemoryLoss names the lines that go: some lines, or all, or those for which nobody stands.
	MemoryLoss struct {
		Key         corebot.Key `json:"key"`
		Fingerprint string      `json:"fingerprint"`
		All         bool        `json:"all,omitempty"`
		Lines       []int       `json:"lines,omitempty"` // their numbers, from 1
	}
)

// ReadGlobalMemory gives the page that every chat of an agent reads.
func (s *Service) ReadGlobalMemory(ctx context.Context, by ByAgent) (GlobalMemory, error) {
	text, path, err := s.stores.Memories.GlobalMemory(ctx, by.Agent)
	return GlobalMemory{path, text}, err
}

// ReadMemory gives the memory of a chat, piece by piece.
func (s *Service) ReadMemory(ctx context.Context, q MemoryQuery) (MemoryPage, error) {
	return s.stores.Memories.Memory(ctx, q.Key)
}

// SearchMemory looks in the page that every chat of an agent reads, and then in the pages of the agent's channels and
// chats. An empty agent means all agents. A cursor says how many lines were given before: a line that is forgotten
// meanwhile moves those behind it.
func (s *Service) SearchMemory(ctx context.Context, q MemorySearch) (Page[MemoryLine], error) {
	query := terms.Parse(q.Text)
	if len(query.Phrases) == 0 {
		return Page[MemoryLine]{}, fmt.Errorf("%w: %q has no word to look for", corebot.ErrInvalid, clip(q.Text))
	}
	given, err := strconv.Atoi(cmp.Or(q.After, "0"))
	if err != nil || given < 0 {
		return Page[MemoryLine]{}, corebot.WithHint(fmt.Errorf("%w: %q is no cursor of this list", corebot.ErrInvalid,
			clip(q.After)), "begin again with the first page")
	}
	found, full, seen := Page[MemoryLine]{Rows: []MemoryLine{}}, q.size(), 0
	look := func(chat, text string, first int) {
		n := first - 1
		for line := range strings.Lines(text) {
			n++
			if found.Next != "" || query.In(line).Phrases != len(query.Phrases) {
				continue
			}
			if seen++; seen <= given {
				continue
			}
			if len(found.Rows) == full {
				found.Next = strconv.Itoa(given + full)
				return
			}
			found.Rows = append(found.Rows, MemoryLine{chat, n, strings.TrimSpace(line)})
		}
	}
	agents, err := s.stores.Agents.Agents(ctx)
	if err != nil {
		return found, err
	}
	canHave := map[string]func(corebot.Key) bool{}
	for _, a := range agents {
		if a.ID != cmp.Or(q.Agent, a.ID) {
			continue
		}
		text, _, err := s.stores.Memories.GlobalMemory(ctx, a.ID)
		if err != nil {
			return found, err
		}
		if canHave[a.ID], err = s.stores.Memories.Remembering(ctx, a.ID); err != nil {
			return found, err
		}
		look("", text, 1)
	}
	shared := map[corebot.Key]bool{}
	for after := ""; found.Next == ""; {
		chats, next, err := s.stores.Chats.Page(ctx, "", after, MaxRows)
		if err != nil {
			return found, err
		}
		for _, c := range chats {
			if c.Key.Agent != cmp.Or(q.Agent, c.Key.Agent) {
				continue
			}
			pages := []corebot.Key{c.Key}
			if of := c.Key.InChannel(); !shared[of] {
				pages, shared[of] = []corebot.Key{of, c.Key}, true
			}
			for _, k := range pages {
				if can := canHave[k.Agent]; can != nil && !can(k) {
					continue
				}
				page, err := s.stores.Memories.Memory(ctx, k)
				if err != nil {
					return found, fmt.Errorf("the memory of %s: %w", k, err)
				}
				for _, p := range page.Pieces {
					look(page.Chat, p.Text, p.Line)
				}
			}
		}
		if after = next; next == "" {
			break
		}
	}
	return found, nil
}

// TrustMemory has the owner of the home stand for a chat's memory, as it was shown.
func (s *Service) TrustMemory(ctx context.Context, t MemoryTrust) (Done, error) {
	return Done{Changed: 1}, s.stores.Memories.TrustMemory(ctx, t.Key, t.Fingerprint, s.stores.Owner)
}

// ForgetMemory deletes lines of a chat's memory, and counts them.
func (s *Service) ForgetMemory(ctx context.Context, f MemoryLoss) (Done, error) {
	if f.All && len(f.Lines) > 0 || slices.ContainsFunc(f.Lines, func(n int) bool { return n < 1 }) {
		return Done{}, fmt.Errorf("%w: lines are numbered from 1, and some of them are not all", corebot.ErrInvalid)
	}
	n, err := s.stores.Memories.ForgetMemory(ctx, f)
	return Done{Changed: n}, err
}

func factOf(f corebot.Fact) Fact {
	row := Fact{
		ID: f.ID, ChatID: f.Key.String(), Scope: f.Scope, Subject: f.Subject, Relation: f.Relation, Object: f.Object,
		MessageID: f.MessageID, At: f.At, Taint: f.Taint, Trusted: f.Trusted, SupersededBy: f.SupersededBy,
	}
	if f.Sender.ID != "" {
		row.Sender = f.Sender.String()
	}
	return row
}

// ListFacts lists facts, newest first.
func (s *Service) ListFacts(ctx context.Context, q FactQuery) (Page[Fact], error) {
	found, next, err := s.stores.Facts.List(ctx, corebot.FactFilter{
		Key: q.Key, Agent: q.Agent, Superseded: q.Superseded,
	}, q.After, q.size())
	return pageOf(found, next, factOf), err
}

// ShowFact gives a fact.
func (s *Service) ShowFact(ctx context.Context, by ByFact) (Fact, error) {
	f, err := s.stores.Facts.Fact(ctx, by.ID)
	return factOf(f), err
}

// ForgetFacts deletes facts, one by one. It stops at the first that is not there; earlier ones are gone.
func (s *Service) ForgetFacts(ctx context.Context, by ByFacts) (Done, error) {
	return each(by.IDs, func(id int64) error {
		f, err := s.stores.Facts.Fact(ctx, id)
		if err == nil {
			_, err = s.stores.Facts.Forget(ctx, f.Key, []int64{id}, func(corebot.Fact) bool { return true })
		}
		return err
	})
}

// ListAttached lists the files that messages of a chat refer to, each content once, in the order of their hashes.
func (s *Service) ListAttached(ctx context.Context, q AttachedQuery) (Page[Attachment], error) {
	hashes, err := s.stores.Attached.OfChat(ctx, q.Key, q.After, q.size())
	if err != nil {
		return Page[Attachment]{}, err
	}
	page := Page[Attachment]{Rows: []Attachment{}}
	for _, hash := range hashes {
		f, err := s.stores.Attached.File(ctx, q.Key, hash)
		if errors.Is(err, corebot.ErrNotFound) { // deleted meanwhile
			continue
		}
		if err != nil {
			return page, err
		}
		page.Rows = append(page.Rows, Attachment{f.Hash, f.Name, f.MediaType, f.Size, f.MessageID, f.At, f.Fault})
	}
	if len(hashes) == q.size() {
		page.Next = hashes[len(hashes)-1]
	}
	return page, nil
}
