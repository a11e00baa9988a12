package app

import (
	"context"
	"fmt"
	"slices"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/storage"
)

// taskGate says whether a due task may run. A task acts in the name of its maker. So the gate asks, at the due time,
// what the front door and the policy would have asked the maker.
type taskGate struct {
	app    *App // of which only the settings are used
	kinds  map[channels.Account]kind
	agents []string
	may    channels.Admissions
	roles  *storage.Grants
	rules  *policy.Policy
	admins corebot.Key // the admins' chat, which is told what a chat cannot be told; zero: none
	err    error       // the settings cannot be read: no task may run
}

func (a *App) taskGate(db *storage.DB) (g *taskGate, err error) {
	g = &taskGate{app: a, kinds: map[channels.Account]kind{}, roles: storage.NewGrants(db)}
	for _, k := range a.kinds() {
		g.kinds[k.Account] = k
	}
	for _, entry := range a.config.AgentList() {
		g.agents = append(g.agents, entry.ID)
	}
	if g.may, err = a.admissions(db); err != nil {
		return g, err
	}
	if g.rules, err = Rules(a.config); err != nil {
		return g, err
	}
	g.admins, err = adminChat(a.config.Admin)
	return g, err
}

// Judge implements the gate of the scheduler. A task stays due where only this process lacks its agent or channel. A
// task whose agent or channel is not in the settings is paused: its messages would wait for ever.
func (g *taskGate) Judge(ctx context.Context, t corebot.Task) (v corebot.Verdict, err error) {
	if g.err != nil {
		return v, g.err
	}
	why, heard := g.misses(t.Key)
	if why != "" {
		return g.pause(t, why, heard), nil
	}
	if g.elsewhere(t.Key) {
		return corebot.Verdict{Wait: true}, nil
	}
	decision, err := g.admitted(ctx, t)
	if err != nil || decision.Allow {
		return v, err
	}
	// a chat that does not talk with Corebot is not told
	return g.pause(t, decision.Reason, slices.Contains([]string{"not-listed", tasksElsewhere}, decision.Rule)), nil
}

// pause is the verdict that pauses a task. heard says that its chat can be told; else the admins' chat is.
func (g *taskGate) pause(t corebot.Task, why string, heard bool) corebot.Verdict {
	if heard {
		return corebot.Verdict{Fault: why, Tell: t.Key}
	}
	return corebot.Verdict{Fault: why, Tell: g.admins}
}

// misses says what the settings do not have of a conversation; empty: nothing. heard says whether the chat still has a
// channel.
func (g *taskGate) misses(k corebot.Key) (why string, heard bool) {
	account := channels.Account{Kind: k.Channel, Name: k.Account}
	kind, known := g.kinds[account]
	switch {
	case !known:
		return fmt.Sprintf("the channel %s is not in the settings", account), false
	case kind.reaches == nil || kind.reaches(g.app) == nil:
		return fmt.Sprintf("the channel %s is switched off", account), false
	case !slices.Contains(g.agents, k.Agent):
		return fmt.Sprintf("there is no agent %q", k.Agent), true
	}
	return "", true
}

// elsewhere says that another process is the one that runs the agent of a conversation, or its channel.
func (g *taskGate) elsewhere(k corebot.Key) bool {
	if g.app.only != "" && g.app.only != k.Agent {
		return true
	}
	return !g.kinds[channels.Account{Kind: k.Channel, Name: k.Account}].opens(g.app.config,
		Options{Serve: g.app.serves})
}

// tasksElsewhere is the rule about tasks of another conversation than that in which they are made.
const tasksElsewhere = "tasks-other-chat"

// admitted says whether the maker of a task may make it now: where it was made, and for the chat in which it runs. A
// task without a place was made by the operator on the machine.
func (g *taskGate) admitted(ctx context.Context, t corebot.Task) (d policy.Decision, err error) {
	there, err := g.may.Chats.Admission(ctx, t.Key)
	switch {
	case err != nil:
		return d, fmt.Errorf("read who may talk in chat %s: %w", t.Key, err)
	case there.Access == corebot.DenyChat:
		return policy.Decision{Rule: "chat-denied", Reason: "its chat is shut"}, nil
	case t.From == (corebot.Key{}):
		return policy.Decision{Allow: true}, nil
	}
	if d, err = g.may.Judge(ctx, t.Creator, t.From, t.Group); err != nil || !d.Allow {
		d.Reason = "its maker may not talk where it was made: " + d.Reason
		return d, err
	}
	if t.Key == t.From {
		return d, nil
	}
	r := policy.Request{
		Tool: "tasks.schedule", Principal: t.Creator, Others: t.Others, Key: t.From,
		Target: policy.Target{Chat: t.Key}, Entry: corebot.Entry{Kind: corebot.EntryTask, From: t.From},
	}
	for in, role := range map[corebot.Key]*corebot.Role{t.From: &r.Role, t.Key: &r.There, {}: &r.Everywhere} {
		if *role, err = g.lowest(ctx, t, in); err != nil {
			return d, err
		}
	}
	if d = g.rules.Authorize(r); !d.Allow {
		d.Reason = "its maker may not make it any more: " + d.Reason
	}
	return d, nil
}

// lowest is the lowest role of all whose text is in a task.
func (g *taskGate) lowest(ctx context.Context, t corebot.Task, in corebot.Key) (corebot.Role, error) {
	for _, p := range append([]corebot.Principal{t.Creator}, t.Others...) {
		if role, err := g.roles.RoleOf(ctx, p, in); err != nil || role != corebot.RoleAdmin {
			return role, err
		}
	}
	return corebot.RoleAdmin, nil
}
