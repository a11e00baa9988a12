package storagetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent"
)

// History is what a turn reads of its chat. It guarantees:
//
//   - Entries come back whole and in the order of their turns, also after a restart.
//   - A turn reads its session from the newest entry back, however long the session is.
//   - A turn finds nothing of a session that is over, of another chat, thread or agent.
//   - A turn that begins a session is the first of it, and one that ends a session is the last of it.
//   - A summary and its step are one commit, and behind the summary only later entries are read.
//   - A summary keeps whose words it is made of.
//   - A summary reaches ever further and never back, and takes no entry away.
//   - A summary ends with its session.
//   - The summary of a session stays when the session ends, with the range that it covers.
//   - A turn hears once of replies that were given up, and never of notices or of another chat's.
//   - A message that the chat only hears hides no reply that was given up, and repeats none.
//   - Of many replies that were given up a turn hears of the newest.
//   - Reading ends with its context.
type History interface {
	agent.History
	Summaries(ctx context.Context, k corebot.Key, r corebot.SummaryRange, limit int) ([]corebot.Summary, error)
}

func historySpecs() []spec {
	return []spec{
		{"Entries come back whole and in the order of their turns, also after a restart.", entriesComeBack},
		{"A turn reads its session from the newest entry back, however long the session is.", sessionIsReadBack},
		{"A turn finds nothing of a session that is over, of another chat, thread or agent.", turnFindsItsOwn},
		{
			"A turn that begins a session is the first of it, and one that ends a session is the last of it.",
			turnsBoundSessions,
		},
		{
			"A summary and its step are one commit, and behind the summary only later entries are read.",
			summaryIsOneCommit,
		},
		{"A summary keeps whose words it is made of.", summaryKeepsItsSources},
		{"A summary reaches ever further and never back, and takes no entry away.", summaryNeverGoesBack},
		{"A summary ends with its session.", summaryEndsWithSession},
		{
			"The summary of a session stays when the session ends, with the range that it covers.",
			summariesStay,
		},
		{
			"A turn hears once of replies that were given up, and never of notices or of another chat's.",
			undeliveredIsHeardOnce,
		},
		{
			"A message that the chat only hears hides no reply that was given up, and repeats none.",
			overheardHidesNothing,
		},
		{"Of many replies that were given up a turn hears of the newest.", newestUndeliveredAreHeard},
		{"Reading ends with its context.", readingEndsWithContext},
	}
}

// entry is something that was said.
func entry(by corebot.Speaker, words string) corebot.HistoryEntry {
	e := corebot.HistoryEntry{Speaker: by, Parts: corebot.WithText(nil, words), At: time.Now().UTC().Truncate(moment)}
	if by == corebot.SpeakerUser {
		e.Sender, e.Name = person("ann"), "Ann"
	}
	return e
}

// words are those of an entry.
func words(e corebot.HistoryEntry) string { return e.Text() }

// said are entries of ann.
func said(texts ...string) (entries []corebot.HistoryEntry) {
	for _, t := range texts {
		entries = append(entries, entry(corebot.SpeakerUser, t))
	}
	return entries
}

// recalled is what a turn of a conversation would read, newest first.
func (s *suite) recalled(k corebot.Key) (out []string) {
	s.t.Helper()
	for _, e := range s.recalledEntries(k) {
		out = append(out, words(e))
	}
	return out
}

func (s *suite) recalledEntries(k corebot.Key) (out []corebot.HistoryEntry) {
	s.t.Helper()
	_, entries, err := s.History.Recall(s.ctx(), corebot.Delivery{Message: corebot.Message{Key: k}}, 1)
	s.must(err)
	for e, err := range entries {
		s.must(err)
		out = append(out, e)
	}
	return out
}

func (s *suite) wantRecalled(k corebot.Key, want ...string) {
	s.t.Helper()
	s.equal("the session of "+k.String(), s.recalled(k), want)
}

func entriesComeBack(s *suite) {
	call := corebot.ToolCall{ID: "c", Tool: "fs.list", Args: []byte(`{"path":"."}`)}
	want := []corebot.HistoryEntry{
		entry(corebot.SpeakerUser, "list <&>\u2028"), entry(corebot.SpeakerAssistant, ""),
		entry(corebot.SpeakerTool, "a\x00b ⅷ"),
		entry(corebot.SpeakerAssistant, "done"), entry(corebot.SpeakerUser, "thanks"),
	}
	want[1].Calls, want[2].CallID, want[2].Outside, want[3].Outside = []corebot.ToolCall{call}, "c", true, true
	want[0].Metadata = corebot.Metadata{"order": []byte(`{"id":7}`), "<&>\u2028": []byte(`"\u2028 \""`)}
	s.turn(key("a"), "1", corebot.Result{History: want[:4]})
	s.turn(key("a"), "2", corebot.Result{History: want[4:]})
	s.reopen()
	got := s.recalledEntries(key("a"))
	slices.Reverse(got)
	for i := range want {
		want[i].Session, want[i].MessageID = 1, map[bool]string{true: "1", false: "2"}[i < 4]
	}
	s.equal("the history", got, want)
	if got[0].Seq != got[3].Seq || got[3].Seq >= got[4].Seq {
		s.t.Errorf("the places of the turns are %d and %d", got[3].Seq, got[4].Seq)
	}
}

func sessionIsReadBack(s *suite) {
	var want []string
	for i, n := range []int{49, 102, 1, 50, 3} {
		var texts []string
		for j := range n {
			texts = append(texts, fmt.Sprint(i, "-", j))
		}
		s.turn(key("a"), fmt.Sprint(i), corebot.Result{History: said(texts...)})
		want = append(want, texts...)
	}
	slices.Reverse(want)
	s.wantRecalled(key("a"), want...)
	_, entries, err := s.History.Recall(s.ctx(), corebot.Delivery{Message: corebot.Message{Key: key("a")}}, 1)
	s.must(err)
	for e, err := range entries { // whoever has enough stops
		s.must(err)
		if want = want[1:]; words(e) == "4-0" {
			break
		}
	}
	s.equal("what is left is newest", want[0], "3-49")
}

func turnFindsItsOwn(s *suite) {
	own := []corebot.Key{key("a"), thread("a", "1"), key("b"), agentKey("other", "a"), key("A")}
	for _, k := range own {
		s.turn(k, "1", corebot.Result{History: said("over in " + k.String()), NewSession: true})
		s.turn(k, "2", corebot.Result{History: said("now in " + k.String())})
	}
	for _, k := range own {
		s.wantRecalled(k, "now in "+k.String())
	}
	if none := s.recalled(key("c")); len(none) != 0 {
		s.t.Errorf("a chat that nobody knows has %q", none)
	}
}

func turnsBoundSessions(s *suite) {
	s.turn(key("a"), "1", corebot.Result{History: said("one")})
	s.turn(key("a"), "2", corebot.Result{History: said("two"), BeginsSession: true})
	s.turn(key("a"), "3", corebot.Result{History: said("three")})
	s.wantRecalled(key("a"), "three", "two")
	s.turn(key("a"), "4", corebot.Result{History: said("bye"), NewSession: true})
	if left := s.recalled(key("a")); len(left) != 0 {
		s.t.Errorf("the new session begins with %q", left)
	}
	s.turn(key("a"), "5", corebot.Result{History: said("five")})
	s.wantRecalled(key("a"), "five")
	if chat, err := s.Chats(operator()).Chat(s.ctx(), key("a")); err != nil || chat.Session != 3 {
		s.t.Errorf("the chat is %+v, %v", chat, err)
	}
}

// summarize stores a summary of a chat's session.
func (s *suite) summarize(d corebot.Delivery, position int, session, through int64, text string) {
	s.t.Helper()
	s.must(s.Journal.Summarize(s.ctx(), d, summaryStep(position),
		corebot.Summary{Session: session, Through: through, Text: text, Model: "m"}))
}

func (s *suite) wantSummary(k corebot.Key, text string, through int64) {
	s.t.Helper()
	r, _, err := s.History.Recall(s.ctx(), corebot.Delivery{Message: corebot.Message{Key: k}}, 1)
	if err != nil || r.Summary.Text != text || r.Summary.Through != through {
		s.t.Fatalf("the summary is %+v, %v; want %q through %d", r.Summary, err, text, through)
	}
}

func summaryIsOneCommit(s *suite) {
	k := key("a")
	var through int64
	for i := range 3 {
		through = s.turn(k, fmt.Sprint(i), corebot.Result{History: said(fmt.Sprint("said ", i))}).Seq
	}
	s.wantSummary(k, "", 0)
	d := s.begin(k, "3")
	s.summarize(d, 0, 1, through-1, "short")
	s.reopen()
	s.wantSummary(k, "short", through-1)
	s.wantRecalled(k, "said 2")
	if d = s.claim(); len(d.Journal) != 1 || d.Journal[0].Kind != corebot.StepSummary {
		s.t.Errorf("the journal is %+v", d.Journal)
	}
}

func summaryKeepsItsSources(s *suite) {
	elsewhere := corebot.Principal{Channel: "other", Account: "work", ID: "bob"} // the maker of a task
	for i, want := range []corebot.Sources{
		{Sender: person("alice")},
		{Sender: elsewhere, Outside: true},
		{Sender: person("alice"), Others: true},
		{Others: true},
		{Outside: true},
	} {
		k := key(fmt.Sprint("chat", i))
		at := s.turn(k, "0", corebot.Result{History: said("said")}).Seq
		s.must(s.Journal.Summarize(s.ctx(), s.begin(k, "1"), summaryStep(0),
			corebot.Summary{Session: 1, Through: at, Text: "short", Sources: want}))
		r, _, err := s.History.Recall(s.ctx(), corebot.Delivery{Message: corebot.Message{Key: k}}, 1)
		if err != nil || r.Summary.Sources != want {
			s.t.Errorf("the sources are %+v, %v; want %+v", r.Summary.Sources, err, want)
		}
	}
}

func summaryNeverGoesBack(s *suite) {
	k := key("a")
	var at []int64
	for i := range 3 {
		at = append(at, s.turn(k, fmt.Sprint(i), corebot.Result{History: said(fmt.Sprint("said ", i))}).Seq)
	}
	d := s.begin(k, "3")
	for i, c := range []struct {
		through    int64
		text, want string
		reaches    int64
	}{
		{at[0], "one", "one", at[0]},
		{at[0], "the same again", "one", at[0]},
		{at[1], "two", "two", at[1]},
		{at[0], "late", "two", at[1]},
	} {
		s.summarize(d, i, 1, c.through, c.text)
		s.wantSummary(k, c.want, c.reaches)
	}
	s.equal("the pages", s.pages(k, 2), []string{"said 2", "said 1", "said 0"})
}

func summaryEndsWithSession(s *suite) {
	k := key("a")
	at := s.turn(k, "0", corebot.Result{History: said("said")}).Seq
	d := s.begin(k, "1")
	s.summarize(d, 0, 1, at, "first")
	s.must(s.Chats(operator()).Reset(s.ctx(), k))
	s.wantSummary(k, "", 0)
	s.summarize(d, 1, 2, at, "second")
	s.summarize(d, 2, 1, at+9, "late")
	s.wantSummary(k, "second", at)
}

// lose has a message of Corebot's given up, a moment from what happens before and behind.
func (s *suite) lose(k corebot.Key, kind corebot.Kind, id string) int64 {
	s.t.Helper()
	s.publish(outbound(k, kind, id, "text of "+id))
	d, found := s.due(corebot.OutboundPool("test"))
	if !found {
		s.t.Fatal("the message is not due")
	}
	time.Sleep(moment)
	s.must(s.Queue.Settle(s.ctx(), d, deadLettered()))
	time.Sleep(moment)
	return d.Life
}

// wantHeard compares the given up replies that a turn hears of.
func (s *suite) wantHeard(d corebot.Delivery, want string) {
	s.t.Helper()
	r, _, err := s.History.Recall(s.ctx(), d, 3)
	s.must(err)
	var ids []string
	for _, l := range r.Undelivered {
		ids = append(ids, l.MessageID)
		if l.Reason != "permanent" || l.LastError != "it broke" || l.Message == nil ||
			l.Message.Text() != "text of "+l.MessageID {
			s.t.Errorf("the turn hears of %+v", l)
		}
	}
	if got := strings.Join(ids, " "); got != want {
		s.t.Errorf("the turn of %s hears of %q, want %q", d.Message.ID, got, want)
	}
	time.Sleep(moment)
}

func undeliveredIsHeardOnce(s *suite) {
	k := key("a")
	d := s.begin(k, "0")
	s.wantHeard(d, "")
	lost := s.lose(k, corebot.KindReply, "lost")
	s.wantHeard(d, "") // the turn has begun without it
	s.commit(d, corebot.Result{Outcome: answered(), History: said("hello")})
	s.lose(key("b"), corebot.KindReply, "of another chat")
	s.lose(k, corebot.KindNotice, "a notice")
	for i, c := range []struct {
		ends corebot.Result
		want string
	}{
		{corebot.Result{Outcome: deadLettered()}, "lost"}, // a turn that fails has told nobody
		{corebot.Result{Outcome: answered(), History: said("well")}, "lost"},
		{corebot.Result{Outcome: answered(), History: said("so"), NewSession: true}, ""},
		{corebot.Result{Outcome: answered(), History: said("anew")}, ""},
	} {
		d = s.begin(k, fmt.Sprint("turn ", i))
		s.wantHeard(d, c.want)
		s.commit(d, c.ends)
	}
	s.must(s.Letters.Replay(s.ctx(), lost, false))
	d, _ = s.due(corebot.OutboundPool("test"))
	s.must(s.Queue.Settle(s.ctx(), d, corebot.Outcome{Verb: corebot.Done, End: corebot.EndSent}))
	s.wantHeard(s.begin(k, "last"), "") // the reply has arrived
}

func overheardHidesNothing(s *suite) {
	k := key("a")
	overhear := func(id string) {
		m := prompt(k, id)
		m.Kind = corebot.KindHeard
		s.publish(m)
		time.Sleep(moment)
	}
	s.turn(k, "0", corebot.Result{History: said("hello")})
	s.lose(k, corebot.KindReply, "lost")
	overhear("beside")
	d := s.begin(k, "1")
	s.wantHeard(d, "lost")
	s.commit(d, corebot.Result{Outcome: answered(), History: said("well")})
	overhear("beside again")
	s.wantHeard(s.begin(k, "2"), "")
}

func newestUndeliveredAreHeard(s *suite) {
	for i := range 5 {
		s.lose(key("a"), corebot.KindReply, fmt.Sprint("lost", i))
	}
	s.wantHeard(s.begin(key("a"), "1"), "lost4 lost3 lost2")
}

func readingEndsWithContext(s *suite) {
	var texts []string
	for i := range 200 {
		texts = append(texts, fmt.Sprint(i))
	}
	s.turn(key("a"), "1", corebot.Result{History: said(texts...)})
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(s.ctx())
	_, entries, err := s.History.Recall(ctx, corebot.Delivery{Message: corebot.Message{Key: key("a")}}, 1)
	s.must(err)
	cancel(gone)
	var last error
	for _, err := range entries {
		if last != nil {
			s.t.Fatal("something comes behind the error")
		}
		last = err
	}
	s.wantErr(last, gone)
}

// summariesStay ends three sessions that were summarised, and asks for ranges of them.
func summariesStay(s *suite) {
	k, day := key("a"), func(n int) time.Time { return time.Unix(int64(n)*86_400, 0) }
	for i := range 3 {
		for _, last := range []int{1, 2} { // each session is summarised twice
			id := fmt.Sprintf("%d%d", i, last)
			d := s.begin(k, id)
			s.must(s.Journal.Summarize(s.ctx(), d, summaryStep(0), corebot.Summary{
				Session: int64(i + 1), Through: d.Seq, Text: "short " + id, From: day(10*i + last), To: day(10*i + 5),
			}))
			s.commit(d, corebot.Result{Outcome: answered(), History: said("q" + id)})
		}
		s.must(s.Chats(operator()).Reset(s.ctx(), k))
	}
	other := s.begin(key("b"), "1")
	s.summarize(other, 0, 1, 1, "of another chat")
	s.commit(other, corebot.Result{Outcome: answered()})
	for what, r := range map[string]corebot.SummaryRange{
		"[short 22 short 12 short 02]": {},
		"[short 22 short 12]":          {FirstSession: 2},
		"[short 12 short 02]":          {LastSession: 2},
		"[short 12]":                   {FirstSession: 2, LastSession: 2},
		"[short 02]":                   {To: day(6)},
		"[short 22]":                   {From: day(16)},
		"[]":                           {FirstSession: 4},
	} {
		all, err := s.History.Summaries(s.ctx(), k, r, 10)
		s.must(err)
		got := []string{}
		for _, found := range all {
			got = append(got, found.Text)
			if n := int(found.Session) - 1; !found.From.Equal(day(10*n+1)) || !found.To.Equal(day(10*n+5)) {
				s.t.Errorf("session %d is summarised from %v to %v", found.Session, found.From, found.To)
			}
		}
		s.equal(fmt.Sprintf("%+v", r), fmt.Sprint(got), what)
	}
	newest, err := s.History.Summaries(s.ctx(), k, corebot.SummaryRange{}, 1)
	s.must(err)
	s.equal("of the newest one", len(newest), 1)
}
