package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/internal/runes"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/scheduler"
	"github.com/corebot/corebot/scheduler/eventfiles"
	"github.com/corebot/corebot/storage"
	"github.com/corebot/corebot/workspace"
)

// taskGate says whether a due task may run. A task acts in the name of its maker. So the gate asks, at the due time,
// what the front door and the policy would have asked the maker.
type taskGate struct {
	app      *App // of which only the settings are used
	accounts map[channels.Account]account
	agents   []string
	may      channels.Admissions
	ledger   *storage.Ledger
	roles    *storage.Grants
	rules    *policy.Policy
	admins   corebot.Key // the admins' chat, which is told what a chat cannot be told; zero: none
	err      error       // the settings cannot be read: no task may run
}

func (a *App) taskGate(db *storage.DB) (g *taskGate, err error) {
	g = &taskGate{
		app: a, accounts: map[channels.Account]account{}, ledger: storage.NewLedger(db), roles: storage.NewGrants(db),
	}
	for _, x := range a.accounts() {
		g.accounts[x.Account] = x
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

// rooms are the chats as they are now, for links.
type rooms struct{ a *App }

// roomTime is how long a platform is asked who reads a chat.
const roomTime = 10 * time.Second

// Room implements [router.Rooms].
func (r rooms) Room(ctx context.Context, p corebot.Principal, k corebot.Key) (group, talks bool, err error) {
	ctx, done := context.WithTimeout(ctx, roomTime)
	defer done()
	if group, err = r.a.channels.IsGroup(ctx, k); err != nil {
		return group, false, err
	}
	decision, err := r.a.gate.may.Judge(ctx, p, k, group)
	return group, decision.Allow, err
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
	switch {
	case err != nil:
		return v, err
	case decision.Allow && t.Schedule.Kind == corebot.TaskHeartbeat:
		return g.heartbeat(ctx, t)
	case decision.Allow:
		return v, nil
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
	of := channels.AccountOf(k)
	x, known := g.accounts[of]
	switch {
	case !known:
		return fmt.Sprintf("the channel %s is not in the settings", of), false
	case x.off:
		return fmt.Sprintf("the channel %s is switched off", of), false
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
	return !g.accounts[channels.AccountOf(k)].served(g.app.serves)
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

// heartbeat gives a heartbeat what its page lists. A page that lists nothing, and a chat that is busy, leave nothing to
// do: then no model is asked.
func (g *taskGate) heartbeat(ctx context.Context, t corebot.Task) (v corebot.Verdict, err error) {
	u := g.app.agents.all[t.Key.Agent]
	if u == nil { // a command beside no daemon: the page is read when it is due
		return v, nil
	}
	page := u.notes.Page(workspace.Heartbeat)
	if v.Prompt = corebot.HeartbeatTasks(page.Text); v.Prompt == "" {
		return corebot.Verdict{Skip: "the page lists nothing"}, nil
	}
	if page.LeftOut != "" {
		v.Prompt += "\n(" + page.LeftOut + ")"
	}
	if len(v.Prompt) > corebot.MaxTaskPrompt {
		const note = "\n(the rest of this page is left out: a heartbeat has at most 16 KiB)"
		v.Prompt = runes.Head(v.Prompt, corebot.MaxTaskPrompt-len(note)) + note
	}
	busy, _, err := g.ledger.Head(ctx, t.Key)
	if err == nil && busy != 0 {
		return corebot.Verdict{Skip: "the chat is busy"}, nil
	}
	return v, err
}

// heartbeats are the tasks that the settings make, by agent. A heartbeat runs as whoever owns the home: the page is the
// owner's word.
func (a *App) heartbeats(now time.Time) (map[string]corebot.Task, error) {
	all := map[string]corebot.Task{}
	for _, entry := range a.config.AgentList() {
		h := entry.Heartbeat
		if h.Every == 0 {
			continue
		}
		key, err := h.Key(entry.ID)
		if err != nil {
			return nil, err
		}
		zone := cmp.Or(h.TimeZone, planner(a.config, nil).Default)
		s := corebot.Schedule{Kind: corebot.TaskHeartbeat, Spec: h.Spec(), TimeZone: zone}
		rule, err := scheduler.Parse(s, now)
		if err != nil {
			return nil, fmt.Errorf("the heartbeat of the agent %s: %w", entry.ID, err)
		}
		next, _ := rule.Next(now)
		owner := a.operator()
		all[entry.ID] = corebot.Task{
			Name: "heartbeat", Key: key, Schedule: s, Context: corebot.TaskIsolated, Creator: owner, Anchor: now,
			NextRun: next, Chain: 1, Overheard: !ownersChannel().Is(key.Channel),
			Prompt: "Look after what " + workspace.Heartbeat + " in the workspace lists.",
		}
	}
	return all, nil
}

// operator is who owns the home, or else runs Corebot: the home's own tasks run in that name.
func (a *App) operator() corebot.Principal {
	if owner := ownerOf(a.config.Home); owner.ID != "" {
		return owner
	}
	return corebot.AtTerminal(os.Getuid())
}

// EventFiles is where a home takes event files.
func EventFiles(home string) string { return filepath.Join(home, "events") }

// eventFiles makes tasks of the event files of the home.
func (a *App) eventFiles(r prometheus.Registerer) (*eventfiles.Directory, error) {
	p := planner(a.config, nil)
	return eventfiles.New(storage.NewTasks(a.Store).As(corebot.AuditEvent{Entry: corebot.EntryItself}),
		eventfiles.Options{
			Path: EventFiles(a.config.Home), Owner: a.operator(), Alone: ownersChannel(), Zone: p.Default,
			Limits: p.Most, Log: a.log, Metrics: r,
			Chat: func(ctx context.Context, name string) (corebot.Key, error) {
				found, err := a.service.FindChat(ctx, operate.ChatName{Name: name})
				if errors.Is(err, corebot.ErrNotFound) { // nobody has spoken there yet
					if key, err := UnknownChat(name, a.config.Routing()); err == nil {
						return key, nil
					}
				}
				return found.Key, err
			},
		})
}

// keepHeartbeats makes the tasks of heartbeats as the settings have them, and removes those that the settings do not
// have any more. A heartbeat that somebody has paused stays paused.
func (a *App) keepHeartbeats(ctx context.Context) error {
	want, err := a.heartbeats(time.Now())
	if err != nil {
		return err
	}
	tasks := storage.NewTasks(a.Store).As(corebot.AuditEvent{Entry: corebot.EntryItself})
	for after := ""; ; {
		found, next, err := tasks.Page(ctx, corebot.TaskFilter{Agent: a.only}, after, maxHeartbeatPage)
		if err != nil {
			return err
		}
		for _, t := range found {
			if t.Schedule.Kind != corebot.TaskHeartbeat || t.State == corebot.TaskDone {
				continue
			}
			w, wanted := want[t.Key.Agent]
			if wanted && t.Key == w.Key && t.Schedule == w.Schedule && t.Creator == w.Creator && t.Damaged == nil {
				delete(want, t.Key.Agent)
			} else if _, err := tasks.Change(ctx, t.ID, 0, corebot.TaskRemove, time.Time{}); err != nil {
				return err
			}
		}
		if after = next; after == "" {
			break
		}
	}
	for agent, t := range want {
		if a.only != "" && agent != a.only {
			continue
		}
		if _, err := tasks.Create(ctx, t, corebot.TaskLimits{}); err != nil {
			return fmt.Errorf("make the heartbeat of the agent %s: %w", agent, err)
		}
	}
	return nil
}

// maxHeartbeatPage is how many tasks are looked at together.
const maxHeartbeatPage = 500

// runScheduler runs due tasks. A daemon makes the tasks of its heartbeats first.
func (a *App) runScheduler(ctx context.Context) error {
	if a.serves {
		if err := a.keepHeartbeats(ctx); err != nil && ctx.Err() == nil {
			a.log.Error().Err(err).Msg("the heartbeats of the settings could not be made")
		}
	}
	return a.scheduler.Run(ctx)
}

// checkHeartbeats refuses settings of heartbeats that can never be due.
func checkHeartbeats(c config.Config) error {
	_, err := (&App{config: c}).heartbeats(time.Now())
	if err != nil {
		err = fmt.Errorf("agents[].heartbeat: %w", err)
	}
	return err
}
