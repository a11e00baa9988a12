package console

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/operate"
)

// request is all calls of one model answer that need an approval.
type request struct {
	ID      int64                 `json:"id"`
	Chat    string                `json:"chat"`
	Message string                `json:"messageId"`
	By      string                `json:"principal"`
	Because string                `json:"because"` // why an approval is needed
	Lasts   bool                  `json:"lasts"`   // an approval can last
	Session bool                  `json:"session"`
	Unbound string                `json:"unbound,omitempty"` // why none of its approvals can last
	Expires time.Time             `json:"expiresAt"`
	Calls   []operate.Approval    `json:"-"`
	Rows    []operate.ApprovalRow `json:"calls"`
	Ended   bool                  `json:"ended,omitempty"`
}

// requests gathers calls by their requests, in their order.
func requests(calls []operate.Approval) (all []*request) {
	by := map[int64]*request{}
	for _, a := range calls {
		r := by[a.Request]
		if r == nil {
			r = &request{
				ID: a.Request, Chat: a.Key.String(), Message: a.MessageID, By: a.Principal.String(),
				Because: because(a),
				Session: a.Session != 0, Unbound: a.Unbound, Expires: a.ExpiresAt,
				Ended: a.State != corebot.ApprovalAwaited,
			}
			by[a.Request], all = r, append(all, r)
		}
		r.Lasts = r.Lasts || a.Binding.Kind != ""
		r.Calls, r.Rows = append(r.Calls, a), append(r.Rows, a.Row())
	}
	return all
}

// because says why a call needs an approval.
func because(a operate.Approval) string {
	switch {
	case a.Because != "":
		return "It was asked before, and " + a.Because + "."
	case a.Taint != "":
		return "The turn has read text that others can have written: " + a.Taint + "."
	case a.Rule != "":
		return "The rule " + a.Rule + " wants an approval for it."
	}
	return "The settings want an approval for it."
}

type approvalsData struct {
	Waiting []*request        `json:"waiting"`
	Ended   []*request        `json:"ended"`
	Rules   []operate.RuleRow `json:"rules"`
	More    string            `json:"more,omitempty"`
}

// approvals shows the calls that wait, those that were decided lately, and the approvals that last.
func (c *Console) approvals(v *visit) error {
	s, d := v.service(), approvalsData{}
	var calls []operate.Approval
	for after := ""; len(calls) < pageRows; {
		waits, err := s.ListApprovals(v.ctx(), operate.ApprovalQuery{Part: operate.Part{After: after}})
		if err != nil {
			return err
		}
		calls = append(calls, waits.Rows...)
		if after = waits.Next; after == "" {
			break
		}
	}
	if len(calls) > 0 { // the last request can go on behind what was read: a decision is about all of it
		last := calls[len(calls)-1].Request
		whole, err := s.ShowApproval(v.ctx(), operate.ByID{ID: last})
		if err != nil {
			return err
		}
		calls = slices.DeleteFunc(calls, func(a operate.Approval) bool { return a.Request == last })
		calls = append(calls, whole.Calls...)
	}
	d.Waiting = requests(calls)
	all, err := s.ListApprovals(v.ctx(), operate.ApprovalQuery{All: true, Part: v.part()})
	if err != nil {
		return err
	}
	for _, r := range requests(all.Rows) {
		if r.Ended {
			d.Ended = append(d.Ended, r)
		}
	}
	d.More = v.more(all.Next)
	rules, err := s.ListRules(v.ctx(), operate.RuleQuery{Part: operate.Part{Limit: pageRows}})
	for _, r := range rules.Rows {
		d.Rules = append(d.Rules, r.Row())
	}
	if err != nil {
		return err
	}
	return v.show(page{Name: "approvals", Title: "Approvals", Data: d, Live: true})
}

// decide approves or denies a request. Of two who decide at once, the second is told what the first has decided.
func (c *Console) decide(v *visit) error {
	id, err := v.id()
	if err != nil {
		return err
	}
	r := operate.Resolution{IDs: []int64{id}, State: corebot.ApprovalApproved}
	said := fmt.Sprintf("Request %d is approved.", id)
	switch answer := v.r.PostFormValue("answer"); answer {
	case "once":
	case "session", "always":
		r.For = corebot.Lasting(answer)
		said = fmt.Sprintf("Request %d is approved, and calls such as it: %s.", id, answer)
	case "deny", "stop":
		r.State, r.Stop = corebot.ApprovalDenied, answer == "stop"
		said = fmt.Sprintf("Request %d is denied.", id)
	default:
		return fmt.Errorf("%w: an approval cannot be answered with %q", corebot.ErrInvalid, clip(100, answer))
	}
	done, err := v.service().ResolveApprovals(v.ctx(), r)
	if resolved := (*corebot.Resolved)(nil); errors.As(err, &resolved) && !wantsJSON(v.r) {
		return v.back(nil, "Somebody was faster: "+resolved.Error()+".", "/approvals")
	}
	if err != nil {
		return err
	}
	return v.back(done, said, "/approvals")
}

func (c *Console) revokeRule(v *visit) error {
	id, err := v.id()
	if err != nil {
		return err
	}
	done, err := v.service().RevokeRules(v.ctx(), operate.ByRules{IDs: []int64{id}})
	if err != nil {
		return err
	}
	return v.back(done, "The approval does not last any more.", "/approvals")
}

type deadData struct {
	operate.Page[operate.DeadLetter]
	Filter corebot.DeadLetterFilter `json:"filter"`
	More   string                   `json:"more,omitempty"`
	Count  *corebot.DeadCounts      `json:"count,omitempty"` // what a change of many would mean
	Action string                   `json:"-"`
	Query  url.Values               `json:"-"`
}

// deadFilter reads the filter of the address or of the form.
func (v *visit) deadFilter() (f corebot.DeadLetterFilter, q url.Values, err error) {
	q = url.Values{}
	for _, name := range []string{
		"direction", "agent", "channel", "sender", "reason", "text", "error", "before", "after_",
	} {
		if value := strings.TrimSpace(v.r.FormValue(name)); value != "" {
			q.Set(name, value)
		}
	}
	f, err = operate.DeadWords{
		Direction: q.Get("direction"), Agent: q.Get("agent"), Channel: q.Get("channel"), Sender: q.Get("sender"),
		Reason: q.Get("reason"), Text: q.Get("text"), Error: q.Get("error"), Before: q.Get("before"),
		After: q.Get("after_"),
	}.Filter(time.Now())
	return f, q, err
}

// deadLetters lists what was given up. With an action, it says first what that would change.
func (c *Console) deadLetters(v *visit) error {
	f, q, err := v.deadFilter()
	if err != nil {
		return err
	}
	s := v.service()
	found, err := s.ListDeadLetters(v.ctx(), operate.DeadLetterQuery{Filter: f, Part: v.part()})
	if err != nil {
		return err
	}
	d := deadData{Page: found, Filter: f, More: v.more(found.Next), Query: q}
	if d.Action = v.r.FormValue("action"); d.Action == "replay" || d.Action == "drop" {
		counts, err := s.CountDeadLetters(v.ctx(), operate.DeadCountQuery{Filter: f, By: corebot.DeadByChat})
		if err != nil {
			return err
		}
		d.Count = &counts
	}
	return v.show(page{Name: "deadletters", Title: "Dead letters", Data: d, Live: d.Count == nil})
}

// deadBulk replays or drops all dead letters of a filter. The page before it has shown how many these are.
func (c *Console) deadBulk(v *visit) error {
	f, _, err := v.deadFilter()
	if err != nil {
		return err
	}
	var done operate.Done
	switch action := v.r.PostFormValue("action"); action {
	case "replay":
		done, err = v.service().ReplayDeadLetters(v.ctx(), operate.Replay{Filter: &f})
	case "drop":
		done, err = v.service().PurgeDeadLetters(v.ctx(), operate.Purge{Filter: f})
	default:
		err = fmt.Errorf("%w: dead letters cannot be changed by %q", corebot.ErrInvalid, clip(100, action))
	}
	if err != nil {
		return err
	}
	said := fmt.Sprintf("%d changed.", done.Changed)
	if done.Left > 0 {
		said = fmt.Sprintf("%d changed, %d stay: %s", done.Changed, done.Left, done.Why)
	}
	return v.back(done, said, "/deadletters")
}

type lifeData struct {
	Life operate.Life `json:"life"`
	Text string       `json:"-"`
	Long bool         `json:"-"` // the text is on the page only if somebody changes it
	Edit bool         `json:"-"`
}

// longText is how long a text is that a page has whole only if somebody changes it.
const longText = 64 << 10

func (c *Console) deadLetter(v *visit) error {
	id, err := v.id()
	if err != nil {
		return err
	}
	life, err := v.service().ShowDeadLetter(v.ctx(), operate.ByID{ID: id})
	if err != nil {
		return err
	}
	d := lifeData{Life: life}
	if life.Message != nil {
		d.Text = life.Message.Text()
	}
	d.Edit = v.r.FormValue("edit") != ""
	d.Long = len(d.Text) > longText && !d.Edit
	return v.show(page{Name: "deadletter", Title: fmt.Sprintf("Dead letter %d", id), Data: d})
}

// deadChange replays, edits or drops one dead letter.
func (c *Console) deadChange(v *visit) error {
	id, err := v.id()
	if err != nil {
		return err
	}
	s, said := v.service(), ""
	var done operate.Done
	switch v.r.PathValue("action") {
	case "replay":
		fresh := v.r.PostFormValue("fresh") != ""
		done, err = s.ReplayDeadLetters(v.ctx(), operate.Replay{IDs: []int64{id}, Fresh: fresh})
		said = "The message is back in its queue."
	case "edit":
		done, err = s.EditDeadLetter(v.ctx(), operate.Edit{
			ID: id, NewID: v.r.PostFormValue("newId"),
			Text: strings.ReplaceAll(v.r.PostFormValue("text"), "\r\n", "\n"),
		})
		said = "The edited message is in the queue."
	case "drop":
		done, err = s.DropDeadLetters(v.ctx(), operate.Drop{IDs: []int64{id}})
		said = "The message is dropped for good."
	default:
		err = errNoPage
	}
	if err != nil {
		return err
	}
	return v.back(done, said, "/deadletters")
}

type whyData struct {
	ID    string         `json:"id"`
	Lives []operate.Life `json:"lives"`
}

// why tells the whole life of a message.
func (c *Console) why(v *visit) error {
	d := whyData{ID: strings.TrimSpace(v.r.FormValue("id"))}
	if d.ID != "" {
		told, err := v.service().Why(v.ctx(), operate.ByMessage{MessageID: d.ID})
		if err != nil && !errors.Is(err, corebot.ErrNotFound) || err != nil && wantsJSON(v.r) {
			return err
		}
		d.Lives = told.Lives
	}
	return v.show(page{Name: "why", Title: "Why", Data: d})
}
