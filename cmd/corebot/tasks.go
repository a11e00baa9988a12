package main

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/app"
	"github.com/corebot/corebot/internal/control"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/scheduler"
)

func newTasks(s *shell) *cobra.Command {
	return group("tasks", "Add, list and change prompts that are due at set times", newTasksAdd(s), newTasksList(s),
		newTasksShow(s), newTasksPreview(s),
		newTasksChange(s, "pause", corebot.TaskPause, "Let tasks rest until they are resumed", "paused"),
		newTasksChange(s, "resume", corebot.TaskResume, "Let paused tasks go on with their next due time", "resumed"),
		newTasksChange(s, "rm", corebot.TaskRemove, "Remove tasks and their runs for good", "removed"),
		newTasksChange(s, "run", corebot.TaskRunNow, "Run tasks once now, beside their due times", "queued a run of"))
}

// times are the flags that say when a task is due: exactly one of them must be given.
type times struct{ at, every, daily, cron, zone string }

func (t *times) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&t.at, "at", "", "once, at this time, such as 2026-12-24T18:00")
	f.StringVar(&t.every, "every", "", "again and again after this time, such as 90m")
	f.StringVar(&t.daily, "daily", "", "every day at this time, such as 08:30")
	f.StringVar(&t.cron, "cron", "", `at the times of a cron expression of five fields, such as "30 8 * * 1-5"`)
	f.StringVar(&t.zone, "tz", "", "the time zone, such as Europe/Berlin (default: tasks.time_zone)")
}

// schedule reads the flags: exactly one of the four times.
func (t *times) schedule(cmd *cobra.Command) (s corebot.Schedule, err error) {
	given := 0
	for flag, kind := range map[string]corebot.TaskKind{
		"at": corebot.TaskOnce, "every": corebot.TaskInterval, "daily": corebot.TaskDaily, "cron": corebot.TaskCron,
	} {
		if f := cmd.Flags().Lookup(flag); f.Changed {
			s = corebot.Schedule{Kind: kind, Spec: f.Value.String(), TimeZone: t.zone}
			given++
		}
	}
	if given != 1 {
		return s, usage(cmd, errors.New("say when: give one of --at, --every, --daily and --cron"))
	}
	// Whether its times are over depends on the time zone of the home, too.
	_, err = scheduler.Parse(s, time.Now())
	if errors.Is(err, scheduler.ErrPast) || errors.Is(err, scheduler.ErrNever) {
		err = nil
	}
	return s, usageWithHint(err)
}

func newTasksAdd(s *shell) *cobra.Command {
	var when times
	var chat, name, context string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "add --chat KEY (--at TIME | --every DURATION | --daily HH:MM | --cron EXPRESSION) PROMPT",
		Short: "Add a prompt that is due at set times",
		Long: `Add a prompt that is due at set times. Each due time becomes one message of the chat; the agent
answers there. The task runs as you, with your role of that moment, and nobody is there to approve
its calls: requests go to the chat and to the admins' chat, and expire.`,
		Args: takes("PROMPT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			schedule, err := when.schedule(cmd)
			if err != nil {
				return err
			}
			if to := corebot.TaskContext(context); to != corebot.TaskInChat && to != corebot.TaskIsolated {
				return usage(cmd, fmt.Errorf("--context %q: want %s or %s", context, corebot.TaskInChat,
					corebot.TaskIsolated))
			}
			if chat == "" {
				return usage(cmd, errors.New("say in which chat: --chat KEY; `corebot chats list` shows the keys"))
			}
			key, err := s.chat(cmd, chat)
			if errors.Is(err, corebot.ErrNotFound) { // of a chat in which nobody has spoken yet
				c, broken := s.settings()
				if broken != nil {
					return broken
				}
				if key, err = app.UnknownChat(chat, c.Routing()); errors.Is(err, corebot.ErrNotFound) {
					err = corebot.WithHint(fmt.Errorf("chat %q: %w", chat, err),
						"`corebot chats list` shows the keys; another one begins with its channel, such as cli:main")
				}
			}
			if err != nil {
				return err
			}
			id, _ := whoRuns()
			task := operate.NewTask{
				Key: key, Schedule: schedule, Name: name, Prompt: args[0], Context: corebot.TaskContext(context),
				By: corebot.Principal{Channel: corebot.TerminalChannel, Account: corebot.TerminalAccount, ID: id},
			}
			return s.change(cmd, func(c control.Caller) error {
				made, err := operate.CreateTask.Call(cmd.Context(), c, task)
				if err != nil || asJSON {
					return errors.Join(err, printIf(cmd, err == nil, made))
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "task %d, next due %s\n", made.ID, dueAt(made))
				return err
			})
		},
	}
	when.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&chat, "chat", "", "the chat in which it runs and answers: its key, or a short form such as webhook:c1")
	f.StringVar(&name, "name", "", "a few words for people")
	f.StringVar(&context, "context", string(corebot.TaskInChat),
		"group: as a turn of the chat; isolated: without the chat's history")
	jsonFlag(cmd, &asJSON)
	return cmd
}

// printIf prints a value as JSON, if there is one.
func printIf(cmd *cobra.Command, is bool, v any) error {
	if !is {
		return nil
	}
	return printJSON(cmd, v)
}

// dueAt is when a task is due next, in its own zone.
func dueAt(t operate.TaskRow) string {
	if t.NextRunAt == nil {
		return "-"
	}
	location, err := time.LoadLocation(t.TimeZone)
	if err != nil {
		location = time.UTC
	}
	return t.NextRunAt.In(location).Format("2006-01-02 15:04 MST")
}

func newTasksList(s *shell) *cobra.Command {
	var asJSON bool
	var agent, chat, state string
	var limit int
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the tasks",
		Args:  takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			q := operate.TaskQuery{Agent: agent, State: corebot.TaskState(state)}
			if chat != "" {
				key, err := s.chat(cmd, chat)
				if err != nil {
					return err
				}
				q.Key = key
			}
			_, err := taskTable.print(cmd, asJSON, limit, func(p operate.Part) (operate.Page[operate.TaskRow], error) {
				q.Part = p
				return look(s, cmd, operate.ListTasks, q)
			})
			if errors.Is(err, corebot.ErrInvalid) {
				err = usage(cmd, err)
			}
			return err
		},
	}
	jsonFlag(cmd, &asJSON)
	f := cmd.Flags()
	f.StringVar(&agent, "agent", "", "of this agent only")
	f.StringVar(&chat, "chat", "", "of this chat only: its key, or a short form such as webhook:c1")
	f.StringVar(&state, "state", "", "in this state only: active, paused or done")
	limitFlag(cmd, &limit, 1000, "at most this many")
	return cmd
}

var taskTable = listing[operate.TaskRow]{
	header: "ID\tNAME\tCHAT\tWHEN\tNEXT\tSTATE\tLAST",
	none:   "no tasks",
	cells: func(t operate.TaskRow) string {
		if t.Problem != "" {
			return fmt.Sprintf("%d\t-\t%s\t-\t-\tcannot be read: `corebot db check` shows the damage\t-", t.ID,
				t.ChatID)
		}
		return fmt.Sprintf("%d\t%s\t%s\t%s %s\t%s\t%s\t%s", t.ID, oneLine(t.Name, 30), t.ChatID, t.Kind,
			oneLine(t.Spec, corebot.MaxTaskSpec), dueAt(t), t.State, t.LastEnd)
	},
}

func newTasksShow(s *shell) *cobra.Command {
	var asJSON bool
	var limit int
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show a task and its runs",
		Args:  takes("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := taskID(cmd, args[0])
			if err != nil {
				return err
			}
			found, err := look(s, cmd, operate.ShowTask, operate.TaskRuns{ID: id, Limit: limit})
			if err != nil || asJSON {
				return errors.Join(err, printIf(cmd, err == nil, found))
			}
			return printTask(cmd, found)
		},
	}
	jsonFlag(cmd, &asJSON)
	limitFlag(cmd, &limit, 20, "at most this many runs")
	return cmd
}

func printTask(cmd *cobra.Command, d operate.TaskDetail) error {
	t := &teller{w: cmd.OutOrStdout()}
	t.line("task %d %s", d.ID, oneLine(d.Name, corebot.MaxTaskName))
	t.line("  chat: %s, as %s, context %s", d.ChatID, d.Creator, d.Context)
	t.line("  when: %s %s, time zone %s", d.Kind, oneLine(d.Spec, corebot.MaxTaskSpec), d.TimeZone)
	state := string(d.State)
	if d.Reason != "" {
		state += ": " + oneLine(d.Reason, 200)
	}
	t.line("  state: %s, next due %s", state, dueAt(d.TaskRow))
	if d.Tools != nil {
		t.line("  tools: %s", oneLine(cmp.Or(strings.Join(d.Tools, ", "), "none"), 1_000))
	}
	t.line("  prompt: %s", strings.ReplaceAll(printable(d.Prompt), "\n", "\n  "))
	for _, r := range d.Runs {
		outcome := r.Outcome
		if outcome == "" {
			outcome = "waits or runs"
		}
		line := fmt.Sprintf("  run of %s: %s", r.Due.Local().Format(time.DateTime), outcome)
		if r.EndedAt != nil && r.Life != 0 {
			line += fmt.Sprintf(" after %s", r.EndedAt.Sub(r.Published).Round(time.Millisecond))
		}
		if r.MessageID != "" {
			line += fmt.Sprintf(", message %s, %d tokens", printable(r.MessageID), r.Tokens)
		}
		if r.Cost > 0 {
			line += ", cost " + r.Cost.String()
		}
		if r.Error != "" {
			line += ": " + oneLine(r.Error, 200)
		}
		t.line("%s", line)
	}
	return t.err
}

func newTasksPreview(s *shell) *cobra.Command {
	var when times
	var asJSON bool
	var count int
	cmd := &cobra.Command{
		Use:   "preview (--at TIME | --every DURATION | --daily HH:MM | --cron EXPRESSION)",
		Short: "Show when a task would be due",
		Args:  takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			schedule, err := when.schedule(cmd)
			if err != nil {
				return err
			}
			found, err := look(s, cmd, operate.PreviewTask, operate.PreviewQuery{Schedule: schedule, Count: count})
			if err != nil || asJSON {
				return errors.Join(err, printIf(cmd, err == nil, found))
			}
			t := &teller{w: cmd.OutOrStdout()}
			for _, due := range found.Times {
				t.line("%s", due.Format(time.RFC3339))
			}
			return t.err
		},
	}
	when.flags(cmd)
	jsonFlag(cmd, &asJSON)
	numberFlag(cmd, &count, "count", 5, "this many times, at most 100")
	return cmd
}

func newTasksChange(s *shell, name string, action corebot.TaskAction, short, said string) *cobra.Command {
	return &cobra.Command{
		Use: name + " ID...", Short: short, Args: takes("ID..."),
		RunE: func(cmd *cobra.Command, args []string) error {
			change := operate.TaskChange{Action: action}
			for _, arg := range args {
				id, err := taskID(cmd, arg)
				if err != nil {
					return err
				}
				change.IDs = append(change.IDs, id)
			}
			return s.change(cmd, func(c control.Caller) error {
				done, err := operate.ChangeTask.Call(cmd.Context(), c, change)
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s %s\n", said, count(int64(done.Changed), "task"))
				return err
			})
		},
	}
}

func taskID(cmd *cobra.Command, s string) (int64, error) {
	id, err := strconv.ParseInt(s, 10, 64)
	if err != nil || id < 1 {
		return 0, usage(cmd, fmt.Errorf("%q is not the id of a task", s))
	}
	return id, nil
}
