package console

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/operate"
)

type memoryData struct {
	Agent  string               `json:"agent"`
	Agents []string             `json:"-"`
	Chats  []string             `json:"-"`
	Find   string               `json:"find,omitempty"`
	Found  []operate.MemoryLine `json:"found,omitempty"`
	Global operate.GlobalMemory `json:"global"`
	Page   *operate.MemoryPage  `json:"page,omitempty"`  // of the chat that was asked for
	Facts  *factsData           `json:"facts,omitempty"` // none beside lines that were looked for
}

// factsData is a page of the facts of an agent, or of those that a chat sees.
type factsData struct {
	operate.Page[operate.Fact]
	Superseded bool   `json:"superseded"` // superseded ones too
	More       string `json:"more,omitempty"`
	Older      bool   `json:"-"` // the page is not the first
}

// memory shows what an agent remembers: its page for all chats, the page of a chat piece by piece, and facts.
func (c *Console) memory(v *visit) error {
	s := v.service()
	d := memoryData{Agent: v.agentOf(), Agents: c.opts.Facts.KnownAgents()}
	d.Find = strings.TrimSpace(v.r.FormValue("find"))
	var err error
	if d.Global, err = s.ReadGlobalMemory(v.ctx(), operate.ByAgent{Agent: d.Agent}); err != nil {
		return err
	}
	if d.Find != "" {
		found, err := s.SearchMemory(v.ctx(), operate.MemorySearch{
			ByAgent: operate.ByAgent{Agent: d.Agent}, Text: d.Find, Part: operate.Part{Limit: pageRows},
		})
		if err != nil {
			return err
		}
		d.Found = found.Rows
	}
	chats, err := s.ListChats(v.ctx(), operate.ChatsQuery{Recent: true, Part: operate.Part{Limit: pageRows}})
	if err != nil {
		return err
	}
	for _, chat := range chats.Rows {
		if k, err := corebot.ParseKey(chat.Key); err == nil && k.Agent == d.Agent {
			d.Chats = append(d.Chats, chat.Key)
		}
	}
	var k corebot.Key
	if chat := v.r.FormValue("chat"); chat != "" {
		if k, err = corebot.ParseKey(chat); err != nil {
			return err
		}
		found, err := s.ReadMemory(v.ctx(), operate.MemoryQuery{Key: k})
		if err != nil {
			return err
		}
		d.Page = &found
		if !slices.Contains(d.Chats, found.Chat) { // it is older than the chats to choose from
			d.Chats = append([]string{found.Chat}, d.Chats...)
		}
	}
	if d.Find == "" {
		if d.Facts, err = v.facts(d.Agent, k); err != nil {
			return err
		}
	}
	return v.show(page{Name: "memory", Title: "Memory", Data: d})
}

// facts reads a page of the facts that a chat sees; without a chat, of those that were said in the chats of an agent.
func (v *visit) facts(agent string, k corebot.Key) (*factsData, error) {
	d := factsData{Superseded: v.r.FormValue("superseded") != "", Older: v.r.FormValue("after") != ""}
	q := operate.FactQuery{Key: k, Superseded: d.Superseded, Part: v.part()}
	if k == (corebot.Key{}) {
		q.Agent = agent
	}
	var err error
	if d.Page, err = v.service().ListFacts(v.ctx(), q); err != nil {
		return nil, err
	}
	d.More = v.more(d.Next)
	return &d, nil
}

// forgetFacts deletes the facts that are ticked.
func (c *Console) forgetFacts(v *visit) error {
	if err := v.r.ParseForm(); err != nil {
		return err
	}
	ticked := v.r.PostForm["fact"]
	if len(ticked) == 0 || len(ticked) > pageRows {
		return corebot.WithHint(fmt.Errorf("%w: %d facts are ticked", corebot.ErrInvalid, len(ticked)),
			fmt.Sprintf("tick the facts to forget, at most the %d of a page", pageRows))
	}
	ids := make([]int64, len(ticked))
	for i, text := range ticked {
		id, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return fmt.Errorf("%w: the form has %q as the number of a fact", corebot.ErrInvalid, clip(100, text))
		}
		ids[i] = id
	}
	done, err := v.service().ForgetFacts(v.ctx(), operate.ByFacts{IDs: ids})
	if err != nil {
		return err
	}
	return v.back(done, fmt.Sprintf("Facts that are forgotten: %d.", done.Changed), "/memory")
}

// changeMemory forgets lines of a chat's memory, or has the owner stand for it. Both name the page as it was shown.
func (c *Console) changeMemory(v *visit) error {
	if err := v.r.ParseForm(); err != nil {
		return err
	}
	k, err := corebot.ParseKey(v.r.PostFormValue("chat"))
	if err != nil {
		return err
	}
	var done operate.Done
	said, sum := "", v.r.PostFormValue("fingerprint")
	switch v.r.PathValue("action") {
	case "trust":
		done, err = v.service().TrustMemory(v.ctx(), operate.MemoryTrust{Key: k, Fingerprint: sum})
		said = "You stand for this page now."
	case "forget":
		lines := []int{}
		for _, text := range v.r.PostForm["line"] {
			from, to, _ := strings.Cut(text, "-")
			first, err1 := strconv.Atoi(from)
			last, err2 := strconv.Atoi(to)
			if err1 != nil || err2 != nil || last < first || last-first > 10_000 {
				return fmt.Errorf("%w: the form names no line", corebot.ErrInvalid)
			}
			for n := first; n <= last; n++ {
				lines = append(lines, n)
			}
		}
		if len(lines) == 0 { // the operation would take those for which nobody stands
			return corebot.WithHint(fmt.Errorf("%w: no line is ticked", corebot.ErrInvalid), "tick the lines to forget")
		}
		done, err = v.service().ForgetMemory(v.ctx(), operate.MemoryLoss{Key: k, Fingerprint: sum, Lines: lines})
		said = fmt.Sprintf("%d lines are forgotten.", done.Changed)
	default:
		err = errNoPage
	}
	if err != nil {
		return err
	}
	return v.back(done, said, "/memory?"+url.Values{"chat": {k.String()}, "agent": {k.Agent}}.Encode())
}
