package storagetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/corebot/corebot"
)

// Jobs are the work that turns give to other turns. The [Journal] begins them. They guarantee:
//
//   - A job begins once, with its wait, its step, its message and its audit event, and comes back exactly.
//   - The message of a job acts for the principal and in the conversation of its parent, with its taint and its budget.
//   - The end of a job ends the wait of its call, with its result or the reason, and is counted.
//   - The last of several jobs wakes the turn, and no earlier one does.
//   - A job that ends before the turn sleeps is not lost, and neither is one that ends in a crash.
//   - A turn that is stopped, or spoken to, or ends, stops its jobs and theirs.
//   - A job that takes too long is stopped, and its call is told so.
//   - A job in the background holds no turn, and the conversation and its history get the result once.
//   - A job in the background tells of its progress once in a while.
//   - The progress notes of a conversation keep their distance, however many jobs it has.
//   - A question to another agent is answered to the call that waits.
//   - A job beyond a limit is refused and leaves nothing, and an ended one no longer counts.
//   - What a job and its jobs use is known when it ends, and is booked to the conversation.
//   - A command stops a job once, in one commit with its notice, and a denied one does not.
//   - A job that failed is open again while its replay or its edit runs, and brings its result to the conversation.
//   - A fresh run of a message has the whole number of jobs.
//   - A call that waits for a job takes no word.
type Jobs interface {
	Job(ctx context.Context, id int64) (corebot.Job, error)
	Page(ctx context.Context, of corebot.Key, all bool, after string, limit int) ([]corebot.Job, string, error)
	Stop(ctx context.Context, id int64) error
	Command(ctx context.Context, m corebot.Message, id int64, by corebot.AuditEvent,
		notice func(error) corebot.Message) (corebot.Receipt, error)
}

func jobSpecs() []spec {
	return []spec{
		{
			"A job begins once, with its wait, its step, its message and its audit event, and comes back exactly.",
			jobBegins,
		},
		{
			"The message of a job acts for the principal and in the conversation of its parent, with its taint and " +
				"its budget.", jobActsForParent,
		},
		{"The end of a job ends the wait of its call, with its result or the reason, and is counted.", jobEnds},
		{"The last of several jobs wakes the turn, and no earlier one does.", lastJobWakes},
		{
			"A job that ends before the turn sleeps is not lost, and neither is one that ends in a crash.",
			earlyJobIsKept,
		},
		{"A turn that is stopped, or spoken to, or ends, stops its jobs and theirs.", stopGoesDown},
		{"A job that takes too long is stopped, and its call is told so.", jobExpires},
		{
			"A job in the background holds no turn, and the conversation and its history get the result once.",
			backgroundPosts,
		},
		{"A job in the background tells of its progress once in a while.", progressIsThrottled},
		{
			"The progress notes of a conversation keep their distance, however many jobs it has.", notesKeepDistance,
		},
		{"A question to another agent is answered to the call that waits.", questionIsAnswered},
		{"A job beyond a limit is refused and leaves nothing, and an ended one no longer counts.", jobsAreLimited},
		{"What a job and its jobs use is known when it ends, and is booked to the conversation.", jobsCount},
		{"A command stops a job once, in one commit with its notice, and a denied one does not.", commandStopsOnce},
		{
			"A job that failed is open again while its replay or its edit runs, and brings its result to the " +
				"conversation.", replayedJobPosts,
		},
		{"A fresh run of a message has the whole number of jobs.", runHasAllJobs},
		{"A call that waits for a job takes no word.", jobTakesNoWord},
	}
}

func (s *suite) jobs() Jobs { return s.Jobs(operator()) }

// newJob is a job that a turn begins.
func newJob(d corebot.Delivery, background bool) corebot.Pending {
	asks := d.Caller()
	asks.Taint = "a page"
	return corebot.Pending{
		Kind: corebot.WaitJob, State: corebot.WaitAwaited, Until: time.Now().Add(patience),
		Job: &corebot.NewJob{
			Kind: corebot.JobRun, Background: background, Tools: []string{"fs.read"}, Prompt: "look it up",
			Budget: corebot.JobBudget{Tokens: 100, Calls: 3}, Asks: asks,
		},
	}
}

// spawn has a call at a position begin a job.
func (s *suite) spawn(d corebot.Delivery, position int, background bool) corebot.Pending {
	s.t.Helper()
	w, err := s.waitAt(d, position, newJob(d, background))
	s.must(err)
	return w
}

// awaiting has a new turn wait for so many jobs, and end its claim.
func (s *suite) awaiting(id string, jobs int) (d corebot.Delivery, waits []corebot.Pending) {
	s.t.Helper()
	d = s.begin(key("a"), id)
	for i := range jobs {
		waits = append(waits, s.spawn(d, i, false))
	}
	s.sleeps(d, waits[0])
	return d, waits
}

// job claims the message of a job, which must be due.
func (s *suite) job(id int64) corebot.Delivery {
	s.t.Helper()
	d := s.claim()
	if d.Job() != id {
		s.t.Fatalf("message %s is due, want that of job %d", d.Message.ID, id)
	}
	return d
}

func says(text string) corebot.Outcome {
	o := answered()
	o.Says = &corebot.Word{Text: text, Outside: true}
	return o
}

func (s *suite) wantJob(id int64, want corebot.JobState) corebot.Job {
	s.t.Helper()
	j, err := s.jobs().Job(s.ctx(), id)
	s.must(err)
	if j.State != want || j.EndedAt.IsZero() != (want == corebot.JobOpen) {
		s.t.Errorf("job %d is %+v, want %s", id, j, want)
	}
	return j
}

func jobBegins(s *suite) {
	d := s.begin(key("a"), "1")
	first := s.spawn(d, 0, false)
	for range 2 {
		s.equal("begun again", s.spawn(d, 0, false), first)
		s.reopen()
		ds := []corebot.Delivery{s.claim(), s.claim()}
		if d = ds[0]; d.Job() != 0 {
			d = ds[1]
		}
	}
	if first.State != corebot.WaitAwaited || first.Cost != (corebot.JobBudget{Tokens: 100, Calls: 3}) {
		s.t.Errorf("the wait is %+v", first)
	}
	j := s.wantJob(first.ID, corebot.JobOpen)
	want := corebot.Job{
		ID: first.ID, Kind: corebot.JobRun, State: corebot.JobOpen, Prompt: "look it up", Depth: 1,
		Parent: corebot.Origin{Life: d.Life, MessageID: "1"}, Life: j.Life, MessageID: j.MessageID, Key: j.Key,
		Results: key("a"), Principal: person("ann"), Budget: corebot.JobBudget{Tokens: 100, Calls: 3},
		CreatedAt: j.CreatedAt,
	}
	s.equal("the job", j, want)
	for _, of := range []corebot.Key{{}, key("a")} {
		for _, all := range []bool{false, true} {
			listed, _, err := s.jobs().Page(s.ctx(), of, all, "", 10)
			s.must(err)
			s.equal("the list", listed, []corebot.Job{j})
		}
	}
	if others, _, err := s.jobs().Page(s.ctx(), key("b"), true, "", 10); err != nil || len(others) > 0 {
		s.t.Errorf("another conversation has %+v, %v", others, err)
	}
	s.wantEvents("job.begin")
	if _, err := s.jobs().Job(s.ctx(), first.ID+1); !errors.Is(err, corebot.ErrNotFound) {
		s.t.Errorf("an unknown number: %v", err)
	}
}

func jobActsForParent(s *suite) {
	_, waits := s.awaiting("1", 1)
	for range 2 {
		d := s.job(waits[0].ID)
		c := d.Caller()
		want := corebot.Caller{
			Key: key("a"), Principal: person("ann"), MessageID: d.Message.ID, Taint: "a page", Depth: 1, Narrow: true,
			Tools: []string{"fs.read"}, Entry: corebot.Entry{Kind: corebot.EntryJob, From: key("a")},
		}
		s.equal("who acts", c, want)
		if d.Message.Key == key("a") || d.Message.Child.Budget != (corebot.JobBudget{Tokens: 100, Calls: 3}) ||
			c.Results() != key("a") {
			s.t.Errorf("the message is %+v", d.Message)
		}
		s.reopen()
	}
}

func jobEnds(s *suite) {
	broke := deadLettered()
	broke.Plain = "the model is gone"
	refused := corebot.Outcome{Verb: corebot.Done, End: corebot.EndRefused, Reason: "x"}
	for i, o := range []corebot.Outcome{says("found"), broke, refused} {
		_, waits := s.awaiting(fmt.Sprint(i), 1)
		id := waits[0].ID
		s.commit(s.job(id), corebot.Result{Outcome: o})
		state := []corebot.JobState{corebot.JobDone, corebot.JobFailed, corebot.JobFailed}[i]
		j := s.wantJob(id, state)
		d := s.claim()
		w, err := s.waitAt(d, 0, corebot.Pending{})
		s.must(err)
		if i == 0 && (w.State != corebot.WaitMet || w.Word != (corebot.Word{Text: "found", Outside: true})) ||
			i > 0 && (w.State != corebot.WaitGivenUp || w.Reason == "" || w.Reason != j.Reason) {
			s.t.Errorf("outcome %d: the call finds %+v", i, w)
		}
		if i == 1 && j.Reason != broke.Plain {
			s.t.Errorf("the reason is %q", j.Reason)
		}
		s.commit(d, corebot.Result{Outcome: answered()})
		s.nothingDue()
	}
	s.nothingPosted()
	s.wantEvents("job.begin", "job.end", "job.begin", "job.end", "job.begin", "job.end")
}

func lastJobWakes(s *suite) {
	d, waits := s.awaiting("1", 5)
	var claimed []corebot.Delivery
	for range waits {
		claimed = append(claimed, s.claim())
	}
	for i, c := range claimed {
		s.nothingDue()
		s.commit(c, corebot.Result{Outcome: says(fmt.Sprint(i))})
	}
	again := s.claim()
	if again.Life != d.Life || again.Attempt != 1 {
		s.t.Fatalf("claimed %+v", again)
	}
	for i := range waits {
		w, err := s.waitAt(again, i, corebot.Pending{})
		s.must(err)
		if w.State != corebot.WaitMet || w.Word.Text == "" {
			s.t.Errorf("call %d finds %+v", i, w)
		}
	}
	s.sleeps(again, waits[0]) // as one that was slow: it is not held
	s.commit(s.claim(), corebot.Result{Outcome: answered()})
	s.nothingDue()
}

func earlyJobIsKept(s *suite) {
	d := s.begin(key("a"), "1")
	w := s.spawn(d, 0, false)
	s.commit(s.job(w.ID), corebot.Result{Outcome: says("early")})
	s.sleeps(d, w)
	s.claim()
	s.reopen()
	d = s.claim()
	over, err := s.waitAt(d, 0, newJob(d, false))
	s.must(err)
	if over.ID != w.ID || over.Word.Text != "early" {
		s.t.Errorf("the call finds %+v", over)
	}
	s.commit(d, corebot.Result{Outcome: answered()})
	s.nothingDue()
}

func stopGoesDown(s *suite) {
	for i, how := range []string{"stopped", "spoken to", "ends"} {
		d, waits := s.awaiting(fmt.Sprint(i), 1)
		child := s.job(waits[0].ID)
		below, apart := s.spawn(child, 0, false), s.spawn(child, 1, true)
		s.sleeps(child, below)
		s.claim()
		s.claim()
		m := prompt(key("a"), fmt.Sprint("word-", i))
		switch how {
		case "stopped":
			m.Direction, m.Kind = corebot.Control, corebot.KindControl
			_, err := s.Ledger.Stop(s.ctx(), m, d.Life, callBy(person("ann")), func(bool) corebot.Message {
				return outbound(m.Key, corebot.KindNotice, "told", "stopping")
			})
			s.must(err)
		case "spoken to":
			_, err := s.Ledger.Steer(s.ctx(), m, d.Life, corebot.AuditEvent{},
				func(bool) *corebot.Message { return nil })
			s.must(err)
		case "ends":
			time.Sleep(patience)
			for ended := false; !ended; {
				c := s.claim()
				if ended = c.Life == d.Life; ended { // without the result
					s.commit(c, corebot.Result{Outcome: answered()})
				}
			}
		}
		s.wantJob(waits[0].ID, corebot.JobOpen) // until its message has ended
		for {
			c, found := s.due(corebot.InboundPool)
			if !found {
				time.Sleep(lease)
				if c, found = s.due(corebot.InboundPool); !found {
					break
				}
			}
			if c.Job() != 0 && !c.Stopped {
				s.t.Errorf("%s: job %d was not stopped", how, c.Job())
			}
			o := answered()
			if c.Stopped {
				o.End = corebot.EndStopped
			}
			s.commit(c, corebot.Result{Outcome: o})
		}
		for _, w := range []corebot.Pending{waits[0], below, apart} {
			s.wantJob(w.ID, corebot.JobStopped)
		}
	}
}

func jobExpires(s *suite) {
	d, waits := s.awaiting("1", 1)
	s.job(waits[0].ID) // and nothing comes of it
	time.Sleep(time.Until(waits[0].Until))
	again := s.claim()
	for again.Life != d.Life {
		again = s.claim()
	}
	w, err := s.waitAt(again, 0, corebot.Pending{})
	s.must(err)
	if w.State != corebot.WaitExpired {
		s.t.Errorf("the call finds %+v", w)
	}
	s.commit(again, corebot.Result{Outcome: answered()})
	time.Sleep(lease)
	if c := s.job(waits[0].ID); !c.Stopped {
		s.t.Error("the job goes on")
	}
}

func questionIsAnswered(s *suite) {
	d := s.begin(key("a"), "1")
	ask := newJob(d, false)
	ask.Job.Kind, ask.Job.Agent = corebot.JobAsk, "helper"
	w, err := s.waitAt(d, 0, ask)
	s.must(err)
	if _, err := s.waitAt(d, 1, ask); !refused(err) {
		s.t.Errorf("a second question at once: %v", err)
	}
	s.sleeps(d, w)
	asked := s.job(w.ID)
	if asked.Message.Key.Agent != "helper" || asked.Message.Relay == nil || asked.Caller().Taint != "a page" {
		s.t.Errorf("the question is %+v", asked.Message)
	}
	if _, ok := asked.Answer(asked.Caller(), "x"); ok {
		s.t.Error("the answer comes as a message, too")
	}
	s.commit(asked, corebot.Result{Outcome: says("yes")})
	again := s.claim()
	over, err := s.waitAt(again, 0, corebot.Pending{})
	s.must(err)
	// the other agent has a budget of its own
	if again.Life != d.Life || over.Word.Text != "yes" || over.Cost != (corebot.JobBudget{}) {
		s.t.Errorf("the call finds %+v", over)
	}
	s.wantJob(w.ID, corebot.JobDone)
}

func jobsAreLimited(s *suite) {
	d := s.begin(key("a"), "1")
	w := s.spawn(d, 0, false)
	before := s.seen(d)
	for i, spoil := range []func(*corebot.Pending){
		func(p *corebot.Pending) { p.Limits.PerSender = 1 },
		func(p *corebot.Pending) { p.Limits.Total = 1 },
		func(p *corebot.Pending) { p.Job.Prompt = " " },
		func(p *corebot.Pending) { p.Job.Prompt = "\xff" },
		func(p *corebot.Pending) { p.Job.Prompt = strings.Repeat("x", corebot.MaxJobPrompt+1) },
		func(p *corebot.Pending) { p.Job.Budget.Tokens = -1 },
		func(p *corebot.Pending) { p.Job.Asks.Depth = corebot.MaxJobDepth },
	} {
		p := newJob(d, false)
		spoil(&p)
		if _, err := s.waitAt(d, 1, p); !refused(err) {
			s.t.Errorf("job %d: %v", i, err)
		}
	}
	if after := s.seen(d); after != before {
		s.t.Errorf("a refused job left something:\n got %s\nwas %s", after, before)
	}
	s.commit(s.job(w.ID), corebot.Result{Outcome: says("x")})
	p := newJob(d, false)
	p.Limits = corebot.WaitLimits{PerSender: 1, Total: 1}
	_, err := s.waitAt(d, 1, p)
	s.must(err)
	s.commit(s.claim(), corebot.Result{Outcome: says("x")})
	for i := 2; ; i++ {
		_, err := s.waitAt(d, i, newJob(d, false))
		if i-2 == corebot.MaxJobsAtOnce {
			if !refused(err) || !errors.Is(err, corebot.ErrTooManyJobs) {
				s.t.Errorf("job %d at once: %v", i-1, err)
			}
			return
		}
		s.must(err)
	}
}

func jobsCount(s *suite) {
	_, waits := s.awaiting("1", 1)
	child := s.job(waits[0].ID)
	s.record(child, corebot.Step{
		Position: 0, Kind: corebot.StepModel, State: corebot.StepDone,
		Answer: &corebot.Answer{Model: "m", Usage: corebot.Usage{InputTokens: 10, OutputTokens: 1}},
	})
	below := s.spawn(child, 1, false)
	s.sleeps(child, below)
	s.commit(s.job(below.ID), corebot.Result{Outcome: says("x"), Spent: []corebot.ModelUsage{spent("m", 20, 0)}})
	child = s.job(waits[0].ID)
	s.commit(child, corebot.Result{Outcome: says("x"), Spent: []corebot.ModelUsage{spent("m", 40, 0)}})
	if j := s.wantJob(waits[0].ID, corebot.JobDone); j.Used != (corebot.JobBudget{Tokens: 71, Calls: 1}) {
		s.t.Errorf("it used %+v", j.Used)
	}
	w, err := s.waitAt(s.claim(), 0, corebot.Pending{})
	s.must(err)
	if w.Cost != (corebot.JobBudget{Tokens: 71, Calls: 1}) {
		s.t.Errorf("its call costs %+v", w.Cost)
	}
	if u := s.use(corebot.UsageFilter{Chat: key("a")}); u.InputTokens != 70 || u.OutputTokens != 1 {
		s.t.Errorf("the chat used %+v", u)
	}
}

// stops sends a command about a job, and gives what its notice was told.
func (s *suite) stops(id int64, by corebot.AuditEvent) (r corebot.Receipt, told error) {
	s.t.Helper()
	m := prompt(key("a"), "/stop")
	m.Direction, m.Kind = corebot.Control, corebot.KindControl
	r, err := s.jobs().Command(s.ctx(), m, id, by, func(err error) corebot.Message {
		told = err
		return outbound(m.Key, corebot.KindNotice, "told", "so be it")
	})
	s.must(err)
	return r, told
}

func commandStopsOnce(s *suite) {
	d := s.begin(key("a"), "1")
	w := s.spawn(d, 0, true)
	s.commit(d, corebot.Result{Outcome: answered()})
	for n := range 2 {
		if r, told := s.stops(w.ID, callBy(person("ann"))); r.Duplicate != (n == 1) || told != nil {
			s.t.Fatalf("time %d: %+v, told %v", n, r, told)
		}
	}
	child := s.job(w.ID)
	if !child.Stopped {
		s.t.Error("the stop is not told")
	}
	s.commit(child, corebot.Result{Outcome: corebot.Outcome{Verb: corebot.Done, End: corebot.EndStopped}})
	s.wantJob(w.ID, corebot.JobStopped)
	over := (*corebot.NoLongerRuns)(nil)
	if err := s.jobs().Stop(s.ctx(), w.ID); !errors.As(err, &over) {
		s.t.Errorf("stopped again: %v", err)
	}
	s.wantErr(s.jobs().Stop(s.ctx(), w.ID+1), corebot.ErrNotFound)
	s.wantEvents("job.begin", "job.stop", "job.end")
	s.reopen()
	other := s.spawn(s.begin(key("b"), "2"), 0, true)
	by := callBy(person("eve"))
	by.Event, by.Outcome = "stop", corebot.OutcomeDenied
	m := prompt(key("b"), "/stop 2")
	m.Direction, m.Kind = corebot.Control, corebot.KindControl
	_, err := s.jobs().Command(s.ctx(), m, other.ID, by, func(error) corebot.Message {
		return outbound(m.Key, corebot.KindNotice, "denied", "no")
	})
	s.must(err)
	if s.job(other.ID).Stopped {
		s.t.Error("a denied command stops the job")
	}
}

func jobTakesNoWord(s *suite) {
	_, waits := s.awaiting("1", 1)
	s.wantErr(s.words().Give(s.ctx(), waits[0].ID, corebot.Word{Text: "x"}), corebot.ErrNoWord)
	_, told := s.resumes(waits[0].ID, callBy(person("ann")))
	s.wantErr(told, corebot.ErrNoWord)
	s.wantWait(waits[0].ID, corebot.WaitAwaited)
}
