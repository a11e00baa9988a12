package router

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/corebot/corebot"
)

// Books returns the usage that was booked.
type Books interface {
	Use(ctx context.Context, f corebot.UsageFilter) (corebot.UsageTotals, error)
}

// Spending is the router's view of usage and caps. The zero value has no caps, and then /usage has nothing to report.
type Spending struct {
	Books      Books
	Accounting corebot.Accounting
	Budget     corebot.Budget
	Agents     map[string]corebot.Cap // for all chats of an agent together, by agent id
}

// none says whether there is no cap.
func (s Spending) none() bool { return s.Budget == (corebot.Budget{}) && len(s.Agents) == 0 }

// spending is the view of now: the caps can change while the router runs.
func (r *Router) spending() Spending {
	s := r.opts.Spending
	if now := r.budget.Load(); now != nil {
		s.Budget = *now
	}
	return s
}

// SetBudget sets the caps for the turns that begin from now on. Messages that an earlier cap has deferred wait on;
// `corebot deferred release` lets them go.
func (r *Router) SetBudget(b corebot.Budget) { r.budget.Store(&b) }

// limit is one cap that concerns a message.
type limit struct {
	scope corebot.BudgetScope
	cap   corebot.Cap
	use   corebot.UsageFilter
}

// limits returns the caps that concern a principal in a chat today, the narrowest first.
func (s Spending) limits(k corebot.Key, p corebot.Principal, role corebot.Role) []limit {
	ofRole := s.Budget.Normal
	if role == corebot.RoleAdmin {
		ofRole = s.Budget.Admin
	}
	today := s.Accounting.Day(time.Now())
	all := []limit{
		{corebot.BudgetChat, s.Budget.Chat, corebot.UsageFilter{Chat: k}},
		{corebot.BudgetPrincipal, s.Budget.Principal, corebot.UsageFilter{Principal: p}},
		{corebot.BudgetRole, ofRole, corebot.UsageFilter{Role: role}},
		{corebot.BudgetAgent, s.Agents[k.Agent], corebot.UsageFilter{Agent: k.Agent}},
		{corebot.BudgetTotal, s.Budget.Total, corebot.UsageFilter{}},
	}
	var set []limit
	for _, l := range all {
		if !l.cap.None() {
			l.use.From, l.use.To = today, today
			set = append(set, l)
		}
	}
	return set
}

// overBudget defers a message whose turn may not begin because a cap is used up. A run that has begun continues to its
// end, also after a failure or a restart. If the usage cannot be read, the attempt fails, because nobody knows what the
// turn may cost.
func (r *Router) overBudget(ctx context.Context, d corebot.Delivery) (corebot.Result, bool) {
	s := r.spending()
	if s.Books == nil || s.none() || d.Stopped || begun(d) {
		return corebot.Result{}, false
	}
	used, err := r.usedUp(ctx, d)
	if err != nil {
		o := r.queue.Verdict(d, fmt.Errorf("read what was used today: %w", err))
		if o.Verb == corebot.Dead {
			return r.deadLetter(ctx, d, o, err, nil), true
		}
		return corebot.Result{Outcome: o}, true
	}
	if used == nil {
		return corebot.Result{}, false
	}
	r.metrics.deferred.WithLabelValues(string(used.scope)).Inc()
	if d.Job() != 0 {
		return jobOverBudget(used.scope), true
	}
	return s.deferred(d, used.scope), true
}

// begun says whether an earlier claim of this run did any work.
func begun(d corebot.Delivery) bool {
	return d.Attempt > 1 || d.Limited > 0 || d.Lost > 0 || len(d.Journal) > 0
}

// usedUp returns the first cap that has nothing left for the message; nil: none.
func (r *Router) usedUp(ctx context.Context, d corebot.Delivery) (*limit, error) {
	k := d.Message.Key.Acts()
	role, err := r.roles.RoleOf(ctx, d.Message.Sender, k)
	if err != nil {
		return nil, err
	}
	s := r.spending()
	for _, l := range s.limits(k, d.Message.Sender, role) {
		u, err := r.shared.use(ctx, s.Books, l)
		if err != nil {
			return nil, err
		}
		if l.cap.Reached(u) {
			return &l, nil
		}
	}
	return nil, nil
}

// deferred defers the message until the day ends, and tells the chat. The notice has the same id for a whole day, for
// each principal and kind of cap. So the chat is told once a day.
func (s Spending) deferred(d corebot.Delivery, scope corebot.BudgetScope) corebot.Result {
	now := time.Now()
	until := s.Accounting.NextDay(now)
	who := sha256.Sum256([]byte(d.Message.Sender.String()))
	told := notice(d, "", fmt.Sprintf("%s is used up. This message, and what follows it, waits and is answered from "+
		"%s on. /usage tells more.",
		capOf(scope), until.Format("15:04 MST on Monday, 2 January")), corebot.NoticeDeferred)
	told.ID = corebot.OwnID("budget", s.Accounting.Day(now), scope, hex.EncodeToString(who[:8]))
	return corebot.Result{
		Outcome: corebot.Outcome{Verb: corebot.Defer, At: until, Reason: scope.Reason()},
		Replies: []corebot.Message{told},
	}
}

// capOf names a cap in a sentence.
func capOf(s corebot.BudgetScope) string {
	switch s {
	case corebot.BudgetChat:
		return "Today's budget of this chat"
	case corebot.BudgetPrincipal:
		return "Your budget of today"
	case corebot.BudgetRole:
		return "Today's budget of all who have your role"
	case corebot.BudgetAgent:
		return "Today's budget of this agent"
	}
	return "Today's budget"
}

// noPlace refuses a message that is over budget in a chat with too many deferred messages.
func noPlace(d corebot.Delivery) corebot.Result {
	return corebot.Result{
		Outcome: corebot.Outcome{Verb: corebot.Done, End: corebot.EndRefused, Reason: refusedBudget},
		Replies: []corebot.Message{notice(d, "refused", "Today's budget is used up, and too many messages wait for "+
			"tomorrow's. This one is not kept: please send it again then.", corebot.NoticeRefused)},
	}
}

// sharedUse caches the usage of a role, an agent or everybody for a moment. Many chats ask for it, and each answer
// reads every row of the day.
type sharedUse struct {
	mu   sync.Mutex
	read map[corebot.UsageFilter]readUse
}

type readUse struct {
	use corebot.UsageTotals
	at  time.Time
}

// sharedFor is how long a cached usage counts. A cap can be exceeded by the usage of this time, in addition to the
// usage of running turns.
const sharedFor = time.Second

func (s *sharedUse) use(ctx context.Context, b Books, l limit) (corebot.UsageTotals, error) {
	if l.scope == corebot.BudgetChat || l.scope == corebot.BudgetPrincipal {
		return b.Use(ctx, l.use)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r, known := s.read[l.use]; known && time.Since(r.at) < sharedFor {
		return r.use, nil
	}
	u, err := b.Use(ctx, l.use)
	if err != nil {
		return u, err
	}
	for old, r := range s.read { // old entries, also of yesterday
		if time.Since(r.at) >= sharedFor {
			delete(s.read, old)
		}
	}
	if s.read == nil {
		s.read = map[corebot.UsageFilter]readUse{}
	}
	s.read[l.use] = readUse{u, time.Now()}
	return u, nil
}

// usageDays is how far back /usage reports, today included.
const usageDays = 30

// usage answers a /usage: the usage of the chat and of the sender, and for an admin the usage of everybody.
func (r *Router) usage(ctx context.Context, m corebot.Message, c corebot.Command) (corebot.Receipt, error) {
	if r.opts.Spending.Books == nil {
		return r.ledger.Answer(ctx, m, controlNotice(m, c, "What is used is not counted here."))
	}
	role, err := r.roles.RoleOf(ctx, m.Sender, m.Key)
	if err != nil {
		return corebot.Receipt{}, err
	}
	text, err := r.spending().report(ctx, m.Key, m.Sender, role)
	if err != nil {
		return corebot.Receipt{}, fmt.Errorf("read what was used: %w", err)
	}
	return r.ledger.Answer(ctx, m, controlNotice(m, c, text))
}

// part is one line of a report. Its cap is for one day.
type part struct {
	name   string
	filter corebot.UsageFilter
	cap    corebot.Cap
}

// report puts usage into words. A sender who is not an admin is told only about the chat and himself.
func (s Spending) report(ctx context.Context, k corebot.Key, p corebot.Principal, role corebot.Role) (string, error) {
	parts := []part{
		{"this chat", corebot.UsageFilter{Chat: k}, s.Budget.Chat},
		{"you, in all chats", corebot.UsageFilter{Principal: p}, s.Budget.Principal},
	}
	if role == corebot.RoleAdmin {
		parts = append(parts,
			part{"all who are normal", corebot.UsageFilter{Role: corebot.RoleNormal}, s.Budget.Normal},
			part{"all admins", corebot.UsageFilter{Role: corebot.RoleAdmin}, s.Budget.Admin},
			part{"everything", corebot.UsageFilter{}, s.Budget.Total})
	}
	if daily := s.Agents[k.Agent]; role == corebot.RoleAdmin && !daily.None() {
		parts = append(parts, part{"this agent", corebot.UsageFilter{Agent: k.Agent}, daily})
	}
	now := time.Now()
	today, first := s.Accounting.Day(now), s.Accounting.Day(now.AddDate(0, 0, 1-usageDays))
	var b strings.Builder
	fmt.Fprintf(&b, "Today, until %s:", s.Accounting.NextDay(now).Format("15:04 MST"))
	if err := s.lines(ctx, &b, parts, today, today, true); err != nil {
		return "", err
	}
	fmt.Fprintf(&b, "\nIn %d days:", usageDays)
	err := s.lines(ctx, &b, parts, first, today, false)
	return b.String(), err
}

func (s Spending) lines(ctx context.Context, b *strings.Builder, parts []part, from, to string, capped bool) error {
	for _, p := range parts {
		p.filter.From, p.filter.To = from, to
		u, err := s.Books.Use(ctx, p.filter)
		if err != nil {
			return err
		}
		fmt.Fprintf(b, "\n- %s: %s", p.name, s.Accounting.Describe(u))
		if capped && !p.cap.None() {
			fmt.Fprintf(b, "; the cap is %s", s.Accounting.DescribeCap(p.cap))
			if p.cap.Reached(u) {
				b.WriteString(", used up")
			}
		}
	}
	return nil
}
