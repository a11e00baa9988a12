package storagetest

import (
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
	for i, o := range []corebot.Outcome{says("found it"), given()} {
		d := s.begin(key("a"), fmt.Sprint(i))
		w := s.spawn(d, 0, true)
		if w.State != corebot.WaitOver || !strings.Contains(w.Word.Text, fmt.Sprint("/stop ", w.ID)) || w.Word.Outside {
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

func replayedJobPosts(s *suite) {
	_, waits := s.awaiting("1", 1)
	child := s.job(waits[0].ID)
	s.commit(child, corebot.Result{Outcome: given()})
	s.commit(s.claim(), corebot.Result{Outcome: answered()})
	s.nothingPosted()
	s.must(s.Letters.Replay(s.ctx(), child.Life, false))
	s.commit(s.job(waits[0].ID), corebot.Result{Outcome: says("late")})
	s.wantPosted("late", true)
	s.wantJob(waits[0].ID, corebot.JobFailed)
	s.nothingDue()
}
