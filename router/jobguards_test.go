package router_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/router"
	"github.com/corebot/corebot/scheduler"
	"github.com/corebot/corebot/storage"
	"github.com/corebot/corebot/tools"
	"github.com/corebot/corebot/tools/builtin"
)

// Guards of jobs: commands of people while jobs work, and work that a job causes.

// wantJobs compares how the jobs stand, oldest first.
func (f *family) wantJobs(t *testing.T, want ...corebot.JobState) {
	t.Helper()
	all, _, err := f.Jobs.Page(t.Context(), corebot.Key{}, true, "", 20)
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(all)
	var got []corebot.JobState
	for _, j := range all {
		got = append(got, j.State)
	}
	if !slices.Equal(got, want) {
		t.Errorf("the jobs are %q, want %q", got, want)
	}
}

// TestANewerMessageInterruptsTheJobsThatItsAnswerWaitsForAndNoOther: work in the background goes on.
func TestANewerMessageInterruptsTheJobsThatItsAnswerWaitsForAndNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFamily(t, apptest.Options{
			Router: workers(4), Queueing: corebot.Queueing{Mode: corebot.ModeInterrupt},
		}, map[string][]apptest.Reply{
			"go":    {apptest.Asks(run("aside", "background", true)), apptest.Asks(run("child"))},
			"aside": {apptest.After(time.Minute, probe("x"))},
			"child": {apptest.Asks(run("below"))}, "below": {apptest.Hangs()},
		})
		f.Say("a", "1", "go")
		pass(time.Second)
		f.wantJobs(t, corebot.JobOpen, corebot.JobOpen, corebot.JobOpen)
		f.Say("a", "2", "something else")
		pass(time.Second)
		f.WantEnd("1", corebot.EndStopped)
		f.wantJobs(t, corebot.JobOpen, corebot.JobStopped, corebot.JobStopped)
		pass(2 * time.Minute)
		f.wantJobs(t, corebot.JobDone, corebot.JobStopped, corebot.JobStopped)
	})
}

// TestAStopLeavesTheQuestionOfAJobInTheBackground: the job was begun by an answer that has ended. A question of an
// answer that is stopped ends with it.
func TestAStopLeavesTheQuestionOfAJobInTheBackground(t *testing.T) {
	for _, background := range []bool{true, false} {
		for _, waits := range []string{"true", "false"} {
			t.Run(fmt.Sprint(background, waits), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					question := apptest.Call("s", "agent.send", `{"agent":"helper","content":"noon?","wait":`+waits+`}`)
					o := apptest.Options{Router: workers(4)}
					o.Router.Agents = []string{"main", "helper"}
					f := newFamily(t, o, map[string][]apptest.Reply{
						"go":    {apptest.Asks(run("child", "background", background))},
						"child": {apptest.Asks(question), apptest.After(2*time.Minute, probe("y"))},
						"noon?": {apptest.After(time.Minute, probe("x"))},
					})
					f.SayAs("root", "a", "1", "go")
					pass(time.Second)
					f.SayAs("root", "a", "2", "/stop")
					pass(5 * time.Minute)
					_, answered := f.callers["x"]
					if answered != background {
						t.Errorf("the helper goes on: %t", answered)
					}
					want := "Stopping."
					if background {
						want = "There is nothing to stop."
					}
					if text := notice(t, f.Kit, "2"); text != want {
						t.Errorf("the chat is told %q", text)
					}
				})
			})
		}
	}
}

// TestAJobThatWouldBeginOverACapIsRefusedAtOnce: the first answer of the parent uses the day's budget up.
func TestAJobThatWouldBeginOverACapIsRefusedAtOnce(t *testing.T) {
	for name, call := range map[string]corebot.ToolCall{
		"a child turn":            run("child"),
		"work in the background":  run("child", "background", true),
		"a question to an agent":  apptest.Call("s", "agent.send", `{"agent":"helper","content":"noon?","wait":true}`),
		"a child turn of a child": run("deep"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := apptest.Options{Router: workers(2)}
				o.Router.Spending = router.Spending{Budget: corebot.Budget{Principal: corebot.Cap{Tokens: 15}}}
				if name == "a child turn of a child" {
					o.Router.Spending.Budget.Principal.Tokens = 30
				}
				f := newFamily(t, o, map[string][]apptest.Reply{
					"go":   {costs(apptest.Asks(call))},
					"deep": {costs(apptest.Asks(run("child")))},
				})
				f.SayAs("root", "a", "1", "go")
				pass(time.Minute)
				f.WantEnd("1", corebot.EndAnswered)
				told := strings.Join(f.Transcript("a"), "\n")
				if !strings.Contains(told, "Your budget of today is used up") ||
					strings.Contains(told, "done: child") || strings.Contains(told, "done: noon?") {
					t.Errorf("the history is %q", told)
				}
			})
		})
	}
}

// costs is a reply that uses 15 tokens.
func costs(r apptest.Reply) apptest.Reply {
	return func(ctx context.Context, req llm.Request, onText func(string)) (corebot.Answer, error) {
		a, err := r(ctx, req, onText)
		a.Usage = corebot.Usage{InputTokens: 10, OutputTokens: 5}
		return a, err
	}
}

// TestStatusTellsTheApprovalsOfJobs: an admin of the chat can find and answer them there.
func TestStatusTellsTheApprovalsOfJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := apptest.Options{Policy: policy.Options{ShellEnabled: true}, Router: workers(2)}
		o.Tools = []tools.Tool{shells()}
		f := newFamily(t, o, map[string][]apptest.Reply{
			"go": {apptest.Asks(run("child"))},
			"child": {
				apptest.Asks(apptest.Call("f", "web.fetch", `{"text":"x"}`)),
				apptest.Asks(apptest.Call("g", "shell.exec", `{"text":"x"}`)),
			},
		})
		f.admin(t, "boss", apptest.Key("a"))
		f.SayAs("boss", "a", "1", "go")
		pass(time.Second)
		const line = "\nApproval 1 of a job: shell.exec, until 00:"
		f.SayAs("boss", "a", "2", "/status")
		if text := notice(t, f.Kit, "2"); !strings.Contains(text, line) ||
			!strings.HasPrefix(text, "An answer waits for the results of jobs.") {
			t.Errorf("the status is %q", text)
		}
		f.SayAs("boss", "b", "3", "/status")
		if text := notice(t, f.Kit, "3"); strings.Contains(text, "pproval") {
			t.Errorf("another chat is told %q", text)
		}
		f.SayAs("boss", "a", "4", "/deny 1")
		pass(time.Second)
		f.SayAs("boss", "a", "5", "/status")
		if text := notice(t, f.Kit, "5"); strings.Contains(text, "pproval") {
			t.Errorf("after the answer the status is %q", text)
		}
	})
}

func shells() tools.Tool {
	return tools.New("shell.exec", "A tool of a test.", tools.SideEffect,
		func(context.Context, tools.Call, apptest.ToolArgs) (string, error) { return "ran", nil })
}

func TestWhyTellsTheJobsOfAMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFamily(t, apptest.Options{Router: workers(2)}, map[string][]apptest.Reply{
			"go":    {apptest.Asks(run("child"), run("aside", "background", true))},
			"child": {apptest.Fails(fmt.Errorf("%w: no such model", corebot.ErrInvalid))},
		})
		f.Say("a", "1", "go")
		pass(time.Hour)
		f.Say("a", "2", "/why 1")
		text := notice(t, f.Kit, "2")
		for _, part := range []string{
			"began job 1 (a child turn)", "job 1 ended: failed",
			"began job 2 (a child turn in the background)", "job 2 ended: done",
		} {
			if !strings.Contains(text, part) {
				t.Errorf("it tells %q, and lacks %q", text, part)
			}
		}
		lives, err := f.Lives.Find(t.Context(), "corebot:job/1")
		if err != nil || len(lives) != 1 || lives[0].Job == nil || lives[0].Job.Parent.MessageID != "1" ||
			lives[0].Job.State != corebot.JobFailed {
			t.Errorf("the message of the job is %+v, %v", lives, err)
		}
	})
}

// TestAChatThatIsResetOrDeletedMeanwhileGetsTheResult: nothing but the result stands in its new session.
func TestAChatThatIsResetOrDeletedMeanwhileGetsTheResult(t *testing.T) {
	for how, change := range map[string]func(*testing.T, *family) error{
		"reset": func(t *testing.T, f *family) error {
			return storage.NewChats(f.DB).Reset(t.Context(), apptest.Key("a"))
		},
		"deleted": func(_ *testing.T, f *family) error { // as retention does
			f.Alter("DELETE FROM history")
			f.Alter("DELETE FROM chats")
			return nil
		},
	} {
		for _, background := range []bool{true, false} {
			t.Run(fmt.Sprint(how, background), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := newFamily(t, apptest.Options{Router: workers(2)}, map[string][]apptest.Reply{
						"go":    {apptest.Asks(run("child", "background", background))},
						"child": {apptest.After(time.Minute, probe("x"))},
					})
					f.Say("a", "0", "hello")
					pass(time.Second)
					f.Say("a", "1", "go")
					pass(time.Second)
					if err := change(t, f); err != nil {
						t.Fatal(err)
					}
					pass(2 * time.Minute)
					f.WantEnd("1", corebot.EndAnswered)
					want := "assistant: Job 1 has a result:\n\ndone: child; seen"
					if !background {
						want = "assistant: done: go; done: child; seen"
					}
					if got := f.Transcript("a"); !slices.Contains(got, want) {
						t.Errorf("the history is %q", got)
					}
				})
			})
		}
	}
}

// TestWhatANarrowedChildTurnCausesHasNoOtherTools: it makes a task, and asks another agent. A child turn whose tools
// nobody has chosen narrows nothing.
func TestWhatANarrowedChildTurnCausesHasNoOtherTools(t *testing.T) {
	schedules := func(prompt, minute string) apptest.Reply {
		return apptest.Asks(apptest.Call("t"+prompt, "tasks.schedule",
			`{"kind":"once","spec":"2000-01-01T00:`+minute+`","prompt":"`+prompt+`"}`))
	}
	asks := func(content, wait string) apptest.Reply {
		return apptest.Asks(apptest.Call("s"+content, "agent.send",
			`{"agent":"helper","content":"`+content+`","wait":`+wait+`}`))
	}
	for name, narrow := range map[string]bool{"chosen": true, "all": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				call := run("child")
				if narrow {
					call = run("child", "tools", []string{"tasks.schedule", "agent.*", "web.search"})
				}
				o := apptest.Options{Router: workers(2)}
				o.Tools = []tools.Tool{builtin.TasksSchedule(scheduler.Planner{})}
				f := newFamily(t, o, map[string][]apptest.Reply{
					"go":    {apptest.Asks(call)},
					"child": {schedules("later", "05"), asks("noon?", "true"), asks("night?", "false")},
					"later": {schedules("again", "10"), apptest.Asks(run("of the task")), probe("later")},
				})
				f.SayAs("root", "a", "1", "go")
				pass(time.Hour)
				f.WantEnd("1", corebot.EndAnswered)
				if c := f.callers["later"]; (c.Tools != nil) != narrow {
					t.Errorf("the run of the task has the tools %q alone", c.Tools)
				}
				for _, prompt := range []string{"later", "noon?", "night?", "again", "of the task", "done: night?"} {
					offered, ran := f.offers[prompt]
					if !ran {
						t.Errorf("%q did not run: %q", prompt, f.Transcript("a"))
					}
					if slices.Contains(offered, "web.fetch") == narrow {
						t.Errorf("%q is offered %q", prompt, offered)
					}
				}
			})
		})
	}
}

// TestAnAnswerToTheRunOfATaskIsNoWayOutOfItsChain: a task whose run asks another agent could go on for ever by the turn
// that reads the answer.
func TestAnAnswerToTheRunOfATaskIsNoWayOutOfItsChain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := apptest.Options{Router: workers(2), Tools: []tools.Tool{builtin.TasksSchedule(scheduler.Planner{})}}
		f := newFamily(t, o, map[string][]apptest.Reply{
			"go": {apptest.Asks(apptest.Call("t", "tasks.schedule",
				`{"kind":"once","spec":"2000-01-01T00:05","prompt":"later"}`))},
			"later": {
				apptest.Asks(apptest.Call("s", "agent.send", `{"agent":"helper","content":"noon?"}`)),
			},
			"noon?":             {probe("question")},
			"done: noon?; seen": {probe("answer")},
		})
		f.SayAs("root", "a", "1", "go")
		pass(time.Hour)
		for _, turn := range []string{"question", "answer"} {
			if c, ran := f.callers[turn]; !ran || c.Chain != 1 {
				t.Errorf("the turn of the %s is %d tasks deep: %+v", turn, c.Chain, c)
			}
		}
	})
}

// TestAnApprovalThatNobodyGivesEndsInTheRunOfTheTask: nobody is there when a task runs. The run goes on without the
// call, and its journal says why.
func TestAnApprovalThatNobodyGivesEndsInTheRunOfTheTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := apptest.Options{Router: workers(2), Policy: policy.Options{ShellEnabled: true}}
		o.Tools = []tools.Tool{builtin.TasksSchedule(scheduler.Planner{}), shells()}
		f := newFamily(t, o, map[string][]apptest.Reply{
			"go": {
				apptest.Asks(apptest.Call("f", "web.fetch", `{"text":"x"}`)),
				apptest.Asks(apptest.Call("t", "tasks.schedule",
					`{"kind":"once","spec":"2000-01-01T00:05","prompt":"later"}`)),
			},
			"later": {apptest.Asks(apptest.Call("g", "shell.exec", `{"text":"x"}`))},
		})
		f.SayAs("root", "a", "1", "go")
		pass(48 * time.Hour)
		runs, err := storage.NewTasks(f.DB).Runs(t.Context(), 1, time.Time{}, 10)
		if err != nil || len(runs) != 1 || runs[0].Outcome != string(corebot.EndAnswered) {
			t.Fatalf("the runs are %+v, %v", runs, err)
		}
		lives, err := f.Lives.Find(t.Context(), runs[0].MessageID)
		if err != nil || len(lives) != 1 {
			t.Fatalf("its message is %+v, %v", lives, err)
		}
		last := lives[0].Steps[len(lives[0].Steps)-1]
		if last.Result == nil || !strings.Contains(last.Result.Content, "none came in time") {
			t.Errorf("the run's last step is %+v", last)
		}
	})
}

// TestTheWaitOfAJobIsToldAsThatOfTheJob: it holds up no message of the chat, and /stop alone does not end it.
func TestTheWaitOfAJobIsToldAsThatOfTheJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := apptest.Options{Router: workers(2), Tools: builtin.Waits(builtin.WaitOptions{Longest: 24 * time.Hour})}
		f := newFamily(t, o, map[string][]apptest.Reply{
			"go":    {apptest.Asks(run("child", "background", true))},
			"child": {apptest.Asks(apptest.Call("w", "wait.until", `{"duration":"2h"}`))},
		})
		f.Say("a", "1", "go")
		pass(time.Minute)
		const want = "Job 1 waits until 02:00:00 UTC on 1 January (wait 2). /resume 2 ends the wait now. " +
			"/stop 1 stops the job."
		if told := f.heard("corebot:job/1"); len(told) != 1 || told[0] != want {
			t.Errorf("the chat is told %q", told)
		}
	})
}
