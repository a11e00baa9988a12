package storagetest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/corebot/corebot"
)

// Jobs in the background: what the conversation hears of them.

// posted is what the conversation gets, and what its next turn knows of it.
func (s *suite) wantPosted(text string, outside bool) {
	s.t.Helper()
	out, found := s.due(corebot.OutboundPool("test"))
	if !found || !strings.Contains(out.Message.Text(), text) || out.Message.Key != key("a") {
		s.t.Fatalf("the chat gets %v %+v, want %q", found, out.Message, text)
	}
	s.must(s.Queue.Settle(s.ctx(), out, corebot.Outcome{Verb: corebot.Done, End: corebot.EndSent}))
	said, err := s.Sayings.Before(s.ctx(), key("a"), "", 1)
	s.must(err)
	if len(said) != 1 || said[0].Text() != out.Message.Text() || said[0].Outside != outside || said[0].Posted() {
		s.t.Errorf("the history has %+v", said)
	}
}

func (s *suite) nothingPosted() {
	s.t.Helper()
	if out, found := s.due(corebot.OutboundPool("test")); found {
		s.t.Errorf("the chat gets %+v", out.Message)
	}
}

func backgroundPosts(s *suite) {
	for i, o := range []corebot.Outcome{says("found it"), deadLettered()} {
		d := s.begin(key("a"), fmt.Sprint(i))
		w := s.spawn(d, 0, true)
		if w.State != corebot.WaitMet || !strings.Contains(w.Word.Text, fmt.Sprint("/stop ", w.ID)) || w.Word.Outside {
			s.t.Errorf("the call finds %+v", w)
		}
		s.equal("after a crash", s.spawn(d, 0, true), w)
		s.commit(d, corebot.Result{Outcome: answered()})
		s.job(w.ID)
		s.reopen()
		s.commit(s.job(w.ID), corebot.Result{Outcome: o})
		text := []string{"found it", "failed"}[i]
		s.wantPosted(text, i == 0)
		s.nothingPosted()
		s.nothingDue()
	}
}

func progressIsThrottled(s *suite) {
	d := s.begin(key("a"), "1")
	w := s.spawn(d, 0, true)
	s.commit(d, corebot.Result{Outcome: answered()})
	s.job(w.ID)
	notes, last := 0, time.Now()
	for i := range 3 * corebot.MaxJobNotes {
		time.Sleep(corebot.JobNoteEvery / 2)
		s.reopen()
		s.record(s.job(w.ID), corebot.Step{
			Position: i, Kind: corebot.StepModel, State: corebot.StepDone,
			Answer: &corebot.Answer{Text: "so far", Calls: []corebot.ToolCall{{Tool: "fs.read", Args: []byte("{}")}}},
		})
		out, found := s.due(corebot.OutboundPool("test"))
		if !found {
			continue
		}
		if since := time.Since(last); since < corebot.JobNoteEvery {
			s.t.Errorf("note %d comes after %v", notes, since)
		}
		notes, last = notes+1, time.Now()
		if m := out.Message; !strings.Contains(m.Text(), "fs.read") || m.Kind != corebot.KindNotice ||
			m.Key != key("a") {
			s.t.Errorf("the note is %+v", m)
		}
		s.must(s.Queue.Settle(s.ctx(), out, corebot.Outcome{Verb: corebot.Done, End: corebot.EndSent}))
	}
	if notes != corebot.MaxJobNotes {
		s.t.Errorf("%d notes", notes)
	}
}

// works has the turn of a job ask for a tool, and says whether the chat hears of it.
func (s *suite) works(d corebot.Delivery, position int) (told bool) {
	s.t.Helper()
	s.record(d, corebot.Step{
		Position: position, Kind: corebot.StepModel, State: corebot.StepDone,
		Answer: &corebot.Answer{Text: "so far", Calls: []corebot.ToolCall{{Tool: "fs.read", Args: []byte("{}")}}},
	})
	out, told := s.due(corebot.OutboundPool("test"))
	if told {
		s.must(s.Queue.Settle(s.ctx(), out, corebot.Outcome{Verb: corebot.Done, End: corebot.EndSent}))
	}
	return told
}

func notesKeepDistance(s *suite) {
	d := s.begin(key("a"), "1")
	for i := range 3 {
		s.spawn(d, i, true)
	}
	s.commit(d, corebot.Result{Outcome: answered()})
	notes := 0
	for i := range 5 {
		time.Sleep(corebot.JobNoteEvery)
		s.reopen()
		for range 3 {
			if s.works(s.claim(), i) {
				notes++
			}
		}
		if notes != i+1 {
			s.t.Fatalf("three jobs have told %d things in %d times %v", notes, i+1, corebot.JobNoteEvery)
		}
	}
	other := s.begin(key("b"), "2")
	s.spawn(other, 0, true)
	s.commit(other, corebot.Result{Outcome: answered()})
	time.Sleep(corebot.JobNoteEvery)
	s.reopen()
	notes = 0
	for range 4 {
		if s.works(s.claim(), 5) {
			notes++
		}
	}
	if notes != 2 {
		s.t.Errorf("two conversations are told %d things", notes)
	}
}

func replayedJobPosts(s *suite) {
	again := map[string]func(dead corebot.Delivery){
		"a replay": func(dead corebot.Delivery) { s.must(s.Letters.Replay(s.ctx(), dead.Life, false)) },
		"an edit":  func(dead corebot.Delivery) { s.must(s.Letters.Edit(s.ctx(), dead.Life, "edited", "other words")) },
	}
	for how, repeat := range again {
		for _, stopped := range []bool{false, true} {
			_, waits := s.awaiting(fmt.Sprint(how, stopped), 1)
			id := waits[0].ID
			child := s.job(id)
			s.commit(child, corebot.Result{Outcome: deadLettered()})
			s.wantJob(id, corebot.JobFailed)
			s.commit(s.claim(), corebot.Result{Outcome: answered()})
			s.nothingPosted()
			repeat(child)
			if j := s.wantJob(id, corebot.JobOpen); !j.Background || j.Reason != "" {
				s.t.Errorf("after %s the job is %+v", how, j)
			}
			open, _, err := s.jobs().Page(s.ctx(), key("a"), false, "", 10)
			s.must(err)
			if len(open) != 1 || open[0].ID != id {
				s.t.Errorf("after %s the open jobs are %+v", how, open)
			}
			if stopped {
				s.must(s.jobs().Stop(s.ctx(), id))
				if child = s.job(id); !child.Stopped {
					s.t.Errorf("after %s the job is not stopped", how)
				}
				o := corebot.Outcome{Verb: corebot.Done, End: corebot.EndStopped}
				s.commit(child, corebot.Result{Outcome: o})
				s.wantPosted("was stopped", false)
				s.wantJob(id, corebot.JobStopped)
				continue
			}
			s.commit(s.job(id), corebot.Result{Outcome: says("late")})
			s.wantPosted("late", true)
			s.wantJob(id, corebot.JobDone)
			s.nothingDue()
		}
	}
}

func runHasAllJobs(s *suite) {
	d := s.begin(key("a"), "1")
	for run := range 2 {
		for i := range corebot.MaxJobs {
			s.spawn(d, i, true)
			s.commit(s.claim(), corebot.Result{Outcome: corebot.Outcome{Verb: corebot.Done, End: corebot.EndRefused}})
			if i == corebot.MaxJobs/2 { // an attempt that breaks off loses nothing, and gains nothing
				s.reopen()
				d = s.claim()
				s.spawn(d, i, true)
			}
		}
		if _, err := s.waitAt(d, corebot.MaxJobs, newJob(d, true)); !errors.Is(err, corebot.ErrTooManyJobs) {
			s.t.Errorf("run %d: one job more: %v", run, err)
		}
		s.commit(d, corebot.Result{Outcome: deadLettered()})
		if run == 0 {
			s.must(s.Letters.Replay(s.ctx(), d.Life, true))
			d = s.claim()
		}
	}
}
