package router

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/nearest"
	"github.com/corebot/corebot/internal/runes"
	"github.com/corebot/corebot/policy"
)

// Control accepts a message that acts at once. It returns after the commit that stored the message together with its
// effect. A duplicate changes nothing. If commands of one sender in one chat have no effect and come too fast, the
// error is [corebot.ErrCommandRate].
func (r *Router) Control(ctx context.Context, m corebot.Message) (corebot.Receipt, error) {
	if err := m.Validate(r.opts.MaxBytes); err != nil {
		return corebot.Receipt{}, err
	}
	if m.DeleteOf != "" {
		return r.remove(ctx, m)
	}
	switch c, _, _ := corebot.ParseCommand(m.Text()); c.Name {
	case "/stop":
		if id, err := corebot.ParseJobID(c.Args); err == nil {
			return r.stopJob(ctx, m, c, id)
		}
		return r.stop(ctx, m, c)
	case "/jobs":
		return r.jobs(ctx, m, c)
	case "/steer":
		return r.steer(ctx, m, c)
	case "/retry":
		return r.retry(ctx, m, c)
	case "/dead":
		return r.dead(ctx, m, c)
	case "/drop":
		return r.drop(ctx, m, c)
	case "/approve", "/deny":
		return r.decide(ctx, m, c)
	case "/rules":
		return r.rules(ctx, m, c)
	case "/why":
		return r.why(ctx, m, c)
	case "/usage":
		return r.usage(ctx, m, c)
	case "/pair":
		return r.pair(ctx, m, c)
	case "/link":
		return r.link(ctx, m, c)
	case "/unlink":
		return r.unlink(ctx, m, c)
	case "/model":
		return r.model(ctx, m, c)
	case "/think":
		return r.think(ctx, m, c)
	case "/skills":
		return r.skills(ctx, m, c)
	case "/models":
		return r.ledger.Answer(ctx, m, controlNotice(m, c, r.modelList(m.Key.Agent)))
	case "/context":
		return r.contextUse(ctx, m, c)
	case "/status":
		return r.status(ctx, m, c)
	case "/remind":
		return r.remind(ctx, m, c)
	case "/tasks":
		return r.tasks(ctx, m, c)
	case "/resume":
		return r.resume(ctx, m, c)
	default:
		return r.ledger.Answer(ctx, m, controlNotice(m, corebot.Command{Name: "/unknown"},
			unknown(corebot.UnknownCommand(m.Text()))))
	}
}

// longestEcho bounds the mistyped word that a notice repeats.
const longestEcho = 40

// unknown is the answer to an unknown command. It suggests a known command only if at most half of its letters differ.
func unknown(word string) string {
	var names []string
	for _, c := range corebot.Commands() {
		names = append(names, c.Name)
	}
	advice := "/help lists the commands."
	if len(word) > longestEcho {
		word = runes.Head(word, longestEcho) + "…"
	}
	if name, edits := nearest.Name(strings.ToLower(word), names); 2*edits <= len(name) {
		advice = fmt.Sprintf("Did you mean %s?", name)
	}
	return fmt.Sprintf("There is no command %s. %s To say it as text, begin with //.", corebot.Plainly(word), advice)
}

// Interrupt cancels the turn of a message that the store has stopped because a newer prompt came.
func (r *Router) Interrupt(life int64) { r.active.stop(life, corebot.ErrInterrupted) }

// controlNotice is the notice about a control message. Its id depends only on the message and the command, so every
// repetition has the same id.
func controlNotice(m corebot.Message, c corebot.Command, text string) corebot.Message {
	return corebot.TextNotice(m.Key, m.ID+c.Name, m.ID, text, corebot.Notice{Kind: corebot.NoticeCommand})
}

// stop accepts a /stop.
func (r *Router) stop(ctx context.Context, m corebot.Message, c corebot.Command) (corebot.Receipt, error) {
	life, refused, by, err := r.head(ctx, m, c)
	if err != nil {
		return corebot.Receipt{}, err
	}
	asked, err := r.asked(ctx, m, c)
	if err != nil {
		return corebot.Receipt{}, err
	}
	admin, programs := by.Role == corebot.RoleAdmin, 0
	if r.opts.Programs != nil {
		programs = r.opts.Programs.RunningOf(m.Key, m.Sender, admin)
	}
	s, err := r.ledger.Stop(ctx, m, life, by, func(found bool) corebot.Message {
		return controlNotice(m, c, stopText(found, refused, programs))
	}, asked...)
	if err != nil {
		return corebot.Receipt{}, err
	}
	if programs > 0 && !s.Duplicate {
		r.opts.Programs.StopOf(m.Key, m.Sender, admin)
	}
	if s.Found {
		r.active.stop(life, corebot.ErrStopped)
		for _, h := range asked {
			r.active.stop(h.Life, corebot.ErrStopped)
		}
	}
	return corebot.Receipt{Life: s.Life, Duplicate: s.Duplicate}, nil
}

// stopText says what a /stop ends. The programs are those in the background that its sender may end.
func stopText(found, refused bool, programs int) string {
	var ends []string
	switch {
	case found:
		ends = append(ends, "Stopping.")
	case refused:
		ends = append(ends, "Only who sent the message, or an admin, can stop its answer.")
	case programs == 0:
		return "There is nothing to stop."
	}
	switch {
	case programs == 1:
		ends = append(ends, "1 program in the background ends.")
	case programs > 1:
		ends = append(ends, fmt.Sprintf("%d programs in the background end.", programs))
	}
	return strings.Join(ends, " ")
}

// asked finds the questions to other agents that the chat's turns led to, as far as the policy lets the command act on
// them.
func (r *Router) asked(ctx context.Context, m corebot.Message, c corebot.Command) ([]corebot.Head, error) {
	found, err := r.ledger.Asked(ctx, m.Key, r.opts.Agents)
	if err != nil {
		return nil, fmt.Errorf("look for what %s is about: %w", c.Name, err)
	}
	var mayStop []corebot.Head
	for _, h := range found {
		decision, _, err := r.judge(ctx, m, c, h.Sender)
		if err != nil {
			return nil, err
		}
		if decision.Allow {
			mayStop = append(mayStop, h)
		}
	}
	return mayStop, nil
}

// head finds the message that the chat works on, and asks the policy whether the command may act on it. The sender of
// that message and admins may. For anybody else life is 0, as if the lane were empty, and refused is true. by is the
// command's audit event.
func (r *Router) head(ctx context.Context, m corebot.Message,
	c corebot.Command,
) (life int64, refused bool, by corebot.AuditEvent, err error) {
	life, sender, err := r.ledger.Head(ctx, m.Key)
	if err != nil {
		return 0, false, by, fmt.Errorf("look for what %s is about: %w", c.Name, err)
	}
	decision, by, err := r.judge(ctx, m, c, sender)
	switch {
	case err != nil:
		return 0, false, by, err
	case life == 0:
		by.Outcome = "" // there is no message, so nothing is denied
	case !decision.Allow:
		life = 0
	}
	return life, by.Outcome == corebot.OutcomeDenied, by, nil
}

// judge asks the policy whether a command may act on a message, or end a session, of a sender. by is the command's
// audit event.
func (r *Router) judge(ctx context.Context, m corebot.Message, c corebot.Command,
	sender corebot.Principal,
) (d policy.Decision, by corebot.AuditEvent, err error) {
	role, err := r.roles.RoleOf(ctx, m.Sender, m.Key)
	if err != nil {
		return d, by, err
	}
	everywhere, err := r.roles.RoleOf(ctx, m.Sender, corebot.Key{})
	if err != nil {
		return d, by, err
	}
	d = r.policy.Authorize(policy.Request{
		Tool: c.Name, Role: role, Everywhere: everywhere, Principal: m.Sender, Key: m.Key,
		Target: policy.Target{Sender: sender}, Entry: m.Entry,
	})
	by = corebot.AuditEvent{
		Event: strings.TrimPrefix(c.Name, "/"), Tool: c.Name, Key: m.Key, Principal: m.Sender, Role: role,
		Entry: corebot.EntryCommand, Rule: d.Rule, Args: "{}",
	}
	if !d.Allow {
		by.Outcome = corebot.OutcomeDenied
	}
	return d, by, nil
}

// remove accepts the deletion of a message on its platform. It cancels a message that waits, for those who could stop
// it, and the chat is not told what it sees. A deletion that cancels nothing leaves nothing behind: people clear whole
// chats.
func (r *Router) remove(ctx context.Context, m corebot.Message) (corebot.Receipt, error) {
	life, err := r.letters.Meant(ctx, m.Key, m.DeleteOf, m.Sender)
	if errors.Is(err, corebot.ErrNotFound) {
		return corebot.Receipt{}, nil
	}
	if err != nil {
		return corebot.Receipt{}, fmt.Errorf("look for the deleted message: %w", err)
	}
	if life.End != "" && life.End != corebot.EndReplaced || m.Sender.ID == "" {
		return corebot.Receipt{}, nil
	}
	decision, _, err := r.judge(ctx, m, corebot.Command{Name: "/stop"}, life.Sender)
	if err != nil || !decision.Allow {
		return corebot.Receipt{}, err
	}
	return r.ledger.Cancel(ctx, m)
}

// steer accepts a /steer. Its text becomes an inbound prompt that the running turn merges at its next step, unless the
// turn ends before. If nothing runs, or the sender may not steer the turn, the prompt waits its turn.
func (r *Router) steer(ctx context.Context, m corebot.Message, c corebot.Command) (corebot.Receipt, error) {
	if c.Args == "" {
		return r.ledger.Answer(ctx, m, controlNotice(m, c, "Say what you want to add: /steer TEXT."))
	}
	life, refused, by, err := r.head(ctx, m, c)
	if err != nil {
		return corebot.Receipt{}, err
	}
	s, err := r.ledger.Steer(ctx, asPrompt(m, c.Args), life, by, func(merges bool) *corebot.Message {
		var n corebot.Message
		switch {
		case merges:
			n = controlNotice(m, c, "Steering.")
		case refused:
			n = controlNotice(m, c, "Only who sent the message that is being answered, or an admin, can steer its "+
				"answer. Yours waits its turn.")
		default:
			return nil // the answer itself will show that the text was read
		}
		return &n
	})
	return s.Receipt, err
}

// asPrompt turns a /steer into the prompt of its text, with the same id.
func asPrompt(m corebot.Message, text string) corebot.Message {
	m.Direction, m.Kind, m.Parts = corebot.Inbound, corebot.KindPrompt, corebot.WithText(m.Parts, text)
	return m
}
