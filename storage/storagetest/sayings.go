package storagetest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/internal/terms"
	"github.com/corebot/corebot/tools/builtin"
)

// Sayings are all that was said in a chat, in its older sessions too: people and programs page and search through it.
// They guarantee:
//
//   - Pages go back through all sessions and hold each entry that a person or the agent said once.
//   - A place that no page has given is refused.
//   - A search finds words, phrases and beginnings of words in all sessions, newest first, indexed or not.
//   - A search finds nothing of another chat, thread or agent, and no result of a tool.
//   - A search that finds nothing whole gives the entries that have the most of its words.
//   - Of what was found the store tells who has spoken in its turn.
type Sayings interface {
	builtin.Sayings
	operate.History
}

func sayingSpecs() []spec {
	return []spec{
		{
			"Pages go back through all sessions and hold each entry that a person or the agent said once.",
			pagesHoldEverything,
		},
		{"A place that no page has given is refused.", unknownPlaceIsRefused},
		{
			"A search finds words, phrases and beginnings of words in all sessions, newest first, indexed or not.",
			searchFinds,
		},
		{"A search finds nothing of another chat, thread or agent, and no result of a tool.", searchFindsItsOwn},
		{"A search that finds nothing whole gives the entries that have the most of its words.", searchFindsTheMost},
		{"Of what was found the store tells who has spoken in its turn.", foundHasItsSpeakers},
	}
}

// pages reads all that was said in a chat, so many entries at once, newest first.
func (s *suite) pages(k corebot.Key, size int) (out []string) {
	s.t.Helper()
	for before := ""; ; {
		page, err := s.Sayings.Before(s.ctx(), k, before, size)
		s.must(err)
		if len(page) > size {
			s.t.Fatalf("a page of %d has %d entries", size, len(page))
		}
		if len(page) == 0 {
			return out
		}
		for _, e := range page {
			out, before = append(out, words(e.HistoryEntry)), e.Place
		}
	}
}

// dialogue is a turn with a call in it.
func (s *suite) dialogue(k corebot.Key, id, user, agent string) {
	s.t.Helper()
	call, result := entry(corebot.SpeakerAssistant, ""), entry(corebot.SpeakerTool, "the tool said xylophone")
	call.Calls, result.CallID = []corebot.ToolCall{{ID: "1", Tool: "fs.read", Args: []byte(`{}`)}}, "1"
	s.turn(k, id, corebot.Result{History: []corebot.HistoryEntry{
		entry(corebot.SpeakerUser, user), call, result, entry(corebot.SpeakerAssistant, agent),
	}})
}

func pagesHoldEverything(s *suite) {
	var want []string
	for i := range 5 {
		user, answer := fmt.Sprint("question ", i), fmt.Sprint("answer ", i)
		s.dialogue(key("a"), fmt.Sprint(i), user, answer)
		s.dialogue(agentKey("other", "a"), fmt.Sprint(i), "of another", "of another")
		want = append(want, user, answer)
		if i == 2 {
			s.must(s.Chats(operator()).Reset(s.ctx(), key("a")))
		}
	}
	slices.Reverse(want)
	for _, size := range []int{1, 3, 10, 100} {
		s.equal(fmt.Sprint("pages of ", size), s.pages(key("a"), size), want)
	}
	if none := s.pages(key("nobody"), 3); len(none) != 0 {
		s.t.Errorf("a chat that nobody knows has %q", none)
	}
}

func unknownPlaceIsRefused(s *suite) {
	s.dialogue(key("a"), "1", "hello", "hi")
	for _, bad := range []string{"x", "..", "-1.2.3", "99999999999999999999.1.1", "1.2.x"} {
		if _, err := s.Sayings.Before(s.ctx(), key("a"), bad, 3); !errors.Is(err, corebot.ErrInvalid) {
			s.t.Errorf("the place %q: %v", bad, err)
		}
	}
}

// search looks for words, before and after what was said is indexed.
func (s *suite) wantFound(k corebot.Key, query string, limit int, wantWhole bool, want ...string) {
	s.t.Helper()
	for _, state := range []string{"as it is", "indexed"} {
		found, how, err := s.Sayings.Search(s.ctx(), k, terms.Parse(query), limit)
		s.must(err)
		var got []string
		for _, e := range found {
			got = append(got, words(e))
		}
		if how.Whole != wantWhole || !slices.Equal(got, want) {
			s.t.Errorf("%s: %q finds %q (whole: %v), want %q", state, query, got, how.Whole, want)
		}
		if state == "as it is" {
			s.must(s.Index(s.ctx()))
		}
	}
}

func searchFinds(s *suite) {
	k := key("a")
	for i := range 5 {
		s.dialogue(k, fmt.Sprint(i), fmt.Sprint("Plüm jam number", i), "noted")
		if i == 2 {
			s.must(s.Index(s.ctx()))
			s.must(s.Chats(operator()).Reset(s.ctx(), k))
		}
	}
	s.wantFound(k, "plum", 3, true, "Plüm jam number4", "Plüm jam number3", "Plüm jam number2")
	s.wantFound(k, "jam number0", 5, true, "Plüm jam number0")
	s.wantFound(k, `"plum jam" numb`, 2, true, "Plüm jam number4", "Plüm jam number3")
	s.wantFound(k, `"jam plum"`, 0, true)
	s.wantFound(k, "", 5, true)
}

func searchFindsItsOwn(s *suite) {
	own := []corebot.Key{key("a"), thread("a", "1"), key("b"), agentKey("other", "a")}
	for i, k := range own {
		s.dialogue(k, "1", fmt.Sprint("the secret is mango ", i), "noted")
	}
	for i, k := range own {
		s.wantFound(k, "mango", 10, true, fmt.Sprint("the secret is mango ", i))
	}
	s.wantFound(key("a"), "xylophone", 5, false)
	s.wantFound(key("nobody"), "mango", 5, true)
}

func searchFindsTheMost(s *suite) {
	for i, fruit := range []string{"apple pear", "apple", "apple pear plum", "fig", "pear"} {
		s.dialogue(key("a"), fmt.Sprint(i), fruit, "-")
		if i == 1 {
			s.must(s.Index(s.ctx()))
		}
	}
	s.wantFound(key("a"), `"plum apple" pear cherry`, 3, false, "apple pear plum", "apple pear", "pear")
}

func foundHasItsSpeakers(s *suite) {
	k, ann, bob := key("a"), person("ann"), person("bob")
	said := func(who corebot.Principal, text string, outside bool) corebot.HistoryEntry {
		e := entry(corebot.SpeakerUser, text)
		e.Sender, e.Outside = who, outside
		return e
	}
	tainted := entry(corebot.SpeakerAssistant, "fig answer to ann, tainted")
	tainted.Outside = true
	for i, turn := range [][]corebot.HistoryEntry{
		{said(ann, "fig of ann", false), entry(corebot.SpeakerAssistant, "fig answer to ann")},
		{said(bob, "hello", false), entry(corebot.SpeakerAssistant, "fig answer to bob")},
		{said(ann, "hello", false), said(bob, "and", false), entry(corebot.SpeakerAssistant, "fig answer to both")},
		{said(ann, "hello", false), tainted},
		{said(ann, "hello", true), entry(corebot.SpeakerAssistant, "fig answer to a forwarded message")},
		{entry(corebot.SpeakerAssistant, "fig answer to nobody")},
	} {
		s.turn(k, fmt.Sprint(i), corebot.Result{History: turn})
	}
	s.must(s.Chats(operator()).Reset(s.ctx(), k))
	s.turn(k, "later", corebot.Result{History: []corebot.HistoryEntry{said(bob, "later", false)}})
	found, _, err := s.Sayings.Search(s.ctx(), k, terms.Parse("fig"), 50)
	s.must(err)
	of, err := s.Sayings.Sources(s.ctx(), k, found)
	s.must(err)
	clean := map[string]bool{}
	for i, e := range found {
		clean[e.Text()] = of[i].CleanFor(ann)
		if of[i].CleanFor(bob) != (e.Text() == "fig answer to bob") {
			s.t.Errorf("for bob %q is clean: %v", e.Text(), of[i].CleanFor(bob))
		}
	}
	s.equal("what is clean for ann", clean, map[string]bool{
		"fig of ann": true, "fig answer to ann": true, "fig answer to bob": false, "fig answer to both": false,
		"fig answer to ann, tainted": false, "fig answer to a forwarded message": false, "fig answer to nobody": false,
	})
	elsewhere, err := s.Sayings.Sources(s.ctx(), key("b"), found)
	s.must(err)
	for i, of := range elsewhere {
		if found[i].Speaker == corebot.SpeakerAssistant && of.CleanFor(ann) {
			s.t.Errorf("in another chat %q is clean", found[i].Text())
		}
	}
}
