package router

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/corebot/corebot"
)

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
	filter corebot.UseFilter
	cap    corebot.Cap
}

// report puts usage into words. A sender who is not an admin is told only about the chat and himself.
func (s Spending) report(ctx context.Context, k corebot.Key, p corebot.Principal, role corebot.Role) (string, error) {
	parts := []part{
		{"this chat", corebot.UseFilter{Chat: k}, s.Budget.Chat},
		{"you, in all chats", corebot.UseFilter{Principal: p}, s.Budget.Principal},
	}
	if role == corebot.RoleAdmin {
		parts = append(parts,
			part{"all who are normal", corebot.UseFilter{Role: corebot.RoleNormal}, s.Budget.Normal},
			part{"all admins", corebot.UseFilter{Role: corebot.RoleAdmin}, s.Budget.Admin},
			part{"everything", corebot.UseFilter{}, s.Budget.Total})
	}
	if daily := s.Agents[k.Agent]; role == corebot.RoleAdmin && !daily.None() {
		parts = append(parts, part{"this agent", corebot.UseFilter{Agent: k.Agent}, daily})
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
