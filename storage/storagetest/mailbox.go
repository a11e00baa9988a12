package storagetest

import (
	"fmt"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/mcp/serve"
)

// Mailbox is the replies that programs fetch. It guarantees:
//
//   - Messages come back whole, in the order in which they were posted, page by page.
//   - Reading takes nothing away: the same cursor gives the same messages, also after a restart.
//   - Posting a message again changes nothing.
//   - A conversation gives its own messages only.
//   - The last cursor is that of the newest message, and behind it comes only what is posted later.
//   - The answers to a message are found among the replies of its conversation.
//   - The parts of a message and its notice come back with it, however it came into the mailbox.
//   - A reply to a pulled conversation is in the mailbox with the commit of its turn; nobody claims it.
//   - A reply to a pulled conversation fails with its turn, and its clients are told nothing.
//   - A message to a pulled conversation is taken once under its id, also after a restart.
//   - A message to a pulled conversation overtakes none that waits in the lane.
type Mailbox interface {
	serve.Mailbox
}

func mailboxSpecs() []spec {
	return []spec{
		{"Messages come back whole, in the order in which they were posted, page by page.", mailComesInOrder},
		{
			"Reading takes nothing away: the same cursor gives the same messages, also after a restart.",
			readingTakesNothing,
		},
		{"Posting a message again changes nothing.", postingAgainChangesNothing},
		{"A conversation gives its own messages only.", mailIsOfItsConversation},
		{
			"The last cursor is that of the newest message, and behind it comes only what is posted later.",
			lastCursorIsTheNewest,
		},
		{"The answers to a message are found among the replies of its conversation.", answersAreFound},
		{
			"The parts of a message and its notice come back with it, however it came into the mailbox.",
			mailComesWhole,
		},
		{
			"A reply to a pulled conversation is in the mailbox with the commit of its turn; nobody claims it.",
			pulledReplyRidesOnItsTurn,
		},
		{
			"A reply to a pulled conversation fails with its turn, and its clients are told nothing.",
			pulledReplyFailsWithItsTurn,
		},
		{"A message to a pulled conversation is taken once under its id, also after a restart.", pulledIdIsTakenOnce},
		{"A message to a pulled conversation overtakes none that waits in the lane.", pulledReplyOvertakesNothing},
	}
}

// mail is a reply to the question with its id.
func mail(k corebot.Key, id string) corebot.Message {
	m := outbound(k, corebot.KindReply, id, "text of "+id)
	m.InReplyTo = "q-" + id
	return m
}

func (s *suite) post(k corebot.Key, ids ...string) {
	s.t.Helper()
	for _, id := range ids {
		s.must(s.Mailbox.Post(s.ctx(), mail(k, id)))
	}
}

// after reads a page, and requires the ids of its messages.
func (s *suite) after(k corebot.Key, cursor int64, limit int, want ...string) []corebot.Posted {
	s.t.Helper()
	got, err := s.Mailbox.After(s.ctx(), k, cursor, limit)
	s.must(err)
	var ids []string
	for _, p := range got {
		ids = append(ids, p.ID)
		if p.Cursor <= cursor {
			s.t.Errorf("behind cursor %d comes %d", cursor, p.Cursor)
		}
		cursor = p.Cursor
	}
	s.equal("the messages", ids, want)
	return got
}

func mailComesInOrder(s *suite) {
	k := key("a")
	s.post(k, "3", "1", "2", "5", "4")
	first := s.after(k, 0, 3, "3", "1", "2")
	rest := s.after(k, first[2].Cursor, 10, "5", "4")
	for _, p := range append(first, rest...) {
		if p.InReplyTo != "q-"+p.ID || p.Text() != "text of "+p.ID || p.Kind != corebot.KindReply ||
			p.CreatedAt.IsZero() {
			s.t.Errorf("a message came back as %+v", p)
		}
	}
}

func mailComesWhole(s *suite) {
	k := key("a")
	m := mail(k, "1")
	m.Kind, m.Notice = corebot.KindNotice, &corebot.Notice{
		Kind: corebot.NoticeApproval, Actions: corebot.Approval{Request: 7}.Actions(),
		Approval: &corebot.ApprovalNotice{ID: 7, Calls: []corebot.NoticeCall{{Tool: "x", Args: "{}"}}},
	}
	m.Parts = append(m.Parts, corebot.Part{
		Type: corebot.PartImage, Hash: "ff", Name: "cat.png", MediaType: "image/png",
	})
	s.must(s.Mailbox.Post(s.ctx(), m))
	image := mail(k, "2")
	image.Parts = corebot.Attachments(m.Parts)
	s.pull()
	s.publish(image)
	m.ID, m.InReplyTo = "3", "q-3"
	s.publish(m)
	for _, p := range s.after(k, 0, 10, "1", "2", "3") {
		want := m
		if p.ID == "2" {
			want = image
		}
		s.equal("the parts of "+p.ID, p.Parts, want.Parts)
		s.equal("the notice of "+p.ID, p.Notice, want.Notice)
	}
	found, err := s.Mailbox.Answers(s.ctx(), k, "q-3", 0, 10)
	s.must(err)
	if len(found) != 1 || len(found[0].Parts) != 2 || found[0].Notice == nil {
		s.t.Errorf("the answer is found as %+v", found)
	}
}

func readingTakesNothing(s *suite) {
	k := key("a")
	s.post(k, "1", "2", "3")
	first := s.after(k, 0, 1, "1")
	for range 3 {
		s.after(k, 0, 10, "1", "2", "3")
		s.after(k, first[0].Cursor, 10, "2", "3")
		s.reopen()
	}
	s.post(k, "4")
	s.after(k, first[0].Cursor, 10, "2", "3", "4")
}

func postingAgainChangesNothing(s *suite) {
	k := key("a")
	s.post(k, "1", "2")
	before := s.after(k, 0, 10, "1", "2")
	other := mail(k, "1")
	other.Parts = corebot.TextPart("another text")
	s.must(s.Mailbox.Post(s.ctx(), other))
	s.post(k, "2")
	s.equal("the messages", s.after(k, 0, 10, "1", "2"), before)
}

func mailIsOfItsConversation(s *suite) {
	own := []corebot.Key{
		key("a"), thread("a", "1"), key("A"), agentKey("other", "a"),
		{Agent: "main", Channel: "test", Account: "1", Chat: "a"},
	}
	for round := range 2 {
		for i, k := range own {
			s.post(k, fmt.Sprint("m", i, round))
		}
	}
	for i, k := range own {
		s.after(k, 0, 10, fmt.Sprint("m", i, 0), fmt.Sprint("m", i, 1))
	}
}

func lastCursorIsTheNewest(s *suite) {
	k := key("a")
	if last, err := s.Mailbox.Last(s.ctx(), k); err != nil || last != 0 {
		s.t.Errorf("an empty list ends at %d, %v", last, err)
	}
	s.post(k, "1", "2")
	s.post(key("b"), "3")
	last, err := s.Mailbox.Last(s.ctx(), k)
	s.must(err)
	if all := s.after(k, 0, 10, "1", "2"); all[1].Cursor != last {
		s.t.Errorf("the last cursor is %d of %+v", last, all)
	}
	s.after(k, last, 10)
	s.post(k, "4")
	s.after(k, last, 10, "4")
}

func answersAreFound(s *suite) {
	k := key("a")
	for _, id := range []string{"1", "2", "3"} {
		s.post(k, id)
		s.post(key("b"), id)
	}
	more := mail(k, "2 again")
	more.InReplyTo = "q-2"
	s.must(s.Mailbox.Post(s.ctx(), more))
	found, err := s.Mailbox.Answers(s.ctx(), k, "q-2", 0, 10)
	if err != nil || len(found) != 2 || found[0].ID != "2" || found[1].ID != "2 again" ||
		found[0].Text() != "text of 2" {
		s.t.Fatalf("found %+v, %v", found, err)
	}
	if rest, err := s.Mailbox.Answers(s.ctx(), k, "q-2", found[0].Cursor, 10); err != nil || len(rest) != 1 ||
		rest[0].ID != "2 again" {
		s.t.Errorf("behind it there is %+v, %v", rest, err)
	}
	if one, err := s.Mailbox.Answers(s.ctx(), k, "q-2", 0, 1); err != nil || len(one) != 1 {
		s.t.Errorf("of at most one there are %+v, %v", one, err)
	}
}
