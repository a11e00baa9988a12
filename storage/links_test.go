package storage

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/corebot/corebot"
)

// linkedTest links a chat of another channel, with colliding ids of messages and a colliding id of the sender.
func linkedTest(t *testing.T) (db *DB, from, to corebot.Key) {
	t.Helper()
	db, from, to = openTest(t, t.TempDir()), testKey("a"), testKey("b")
	to.Channel = "other"
	exchangeTest(t, db, from, "m0", "ann", true)
	exchangeTest(t, db, from, "m1", "ann", false)
	exchangeTest(t, db, to, "m0", "ann", false)
	k, err := NewLinks(db).Put(t.Context(), from, to)
	must(t, err)
	if k.Entries != 6 {
		t.Fatalf("linked is %+v", k)
	}
	exchangeTest(t, db, to, "m1", "ann", false)
	return db, from, to
}

func TestALinkedChatHasTheSendersAndTheMarksOfTheOther(t *testing.T) {
	db, from, to := linkedTest(t)
	was, _ := inPlay(t, db, from)
	is, texts := inPlay(t, db, to)
	wantTexts(t, texts, turnOf("m0", "m1", "m1")...)
	for i := range was {
		if a, b := was[i], is[i]; a.Sender != b.Sender || a.Outside != b.Outside || a.MessageID != b.MessageID {
			t.Errorf("entry %d was %+v and is %+v", i, a, b)
		}
	}
	own := corebot.Principal{Channel: "other", ID: "ann"}
	if last := is[6]; last.Sender != own || is[0].Sender == own {
		t.Errorf("ann of the one is ann of the other: %v %v", is[0].Sender, last.Sender)
	}
	if other, found, err := NewLedger(db).Another(t.Context(), to, own); err != nil || found {
		t.Errorf("%v speaks in the chat: %v", other, err)
	}
	wantWhole(t, db)
}

// Facts, summaries and forks that have words of a link go with it. The words of the chat itself stay, under their ids.
func TestAnEndedLinkLeavesNoneOfItsWords(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, db *DB, from, to corebot.Key){
		"unlinked there": func(t *testing.T, db *DB, _, to corebot.Key) {
			_, err := NewLinks(db).Unlink(t.Context(), to)
			must(t, err)
		},
		"unlinked here": func(t *testing.T, db *DB, from, _ corebot.Key) {
			_, err := NewLinks(db).Unlink(t.Context(), from)
			must(t, err)
		},
		"deleted": func(t *testing.T, db *DB, from, _ corebot.Key) {
			_, err := NewForgetting(db).Chat(t.Context(), from, nil)
			must(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			db, from, to := linkedTest(t)
			fork := to
			fork.Chat = "f"
			_, err := NewSessions(db).Fork(t.Context(), corebot.Fork{From: to, To: fork})
			must(t, err)
			for _, who := range []corebot.Principal{{Channel: "test", ID: "ann"}, {Channel: "other", ID: "ann"}} {
				must(t, NewFacts(db).Learn(t.Context(), corebot.Fact{
					Key: to, Scope: corebot.FactsOfChat, Subject: who.Channel, Relation: "has", Object: "a cat",
					Sender:    who,
					MessageID: "m0",
				}))
			}
			sideQuery(t, db.path, `INSERT INTO summaries (chat_id, session, through, text, model, at)
				SELECT id, session, 3, 'of it all', '', 1 FROM chats WHERE chat = 'b'`)
			end(t, db, from, to)
			for _, k := range []corebot.Key{to, fork} {
				_, texts := inPlay(t, db, k)
				wantTexts(t, texts, turnOf("m1")...)
			}
			facts := sideQuery(t, db.path, `SELECT subject FROM facts`)
			if len(facts) != 1 || facts[0] != "other" {
				t.Errorf("the facts are %q", facts)
			}
			if n := sideQuery(t, db.path, `SELECT COUNT(*) FROM links`); n[0] != "0" {
				t.Errorf("%s links are left", n[0])
			}
			wantWhole(t, db)
			trail := wholeTrail(t, db)
			if trail.Events == 0 {
				t.Error("the audit has nothing")
			}
		})
	}
}

func TestChatsThatCannotBeLinkedAreNot(t *testing.T) {
	db, from, to := linkedTest(t)
	thread, helper, empty := from, to, testKey("empty")
	thread.Thread, helper.Agent = "7", "helper"
	publishTest(t, db, "busy", "w")
	for name, pair := range map[string][2]corebot.Key{
		"the same chat": {from, from}, "its thread": {from, thread}, "another agent": {from, helper},
		"at work": {from, testKey("busy")}, "no name": {from, testKey("")}, "nothing said": {empty, to},
	} {
		if name == "nothing said" {
			must(t, NewChats(db).Register(t.Context(), empty, true, ""))
		}
		if _, err := NewLinks(db).Put(t.Context(), pair[0], pair[1]); !errors.Is(err, corebot.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	must(t, NewLedger(db).Commit(t.Context(), claimTest(t, db), corebot.Result{
		Outcome: corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered},
	}))
	for range corebot.MaxLinks - 1 {
		_, err := NewLinks(db).Put(t.Context(), from, to)
		must(t, err)
	}
	if _, err := NewLinks(db).Put(t.Context(), from, to); !errors.Is(err, corebot.ErrInvalid) ||
		!strings.Contains(err.Error(), "can have no more") {
		t.Errorf("one more: %v", err)
	}
}

// A /link that is delivered again, and a code that two chats enter, change nothing a second time.
func TestADuplicateOfALinkChangesNothing(t *testing.T) {
	db := openTest(t, t.TempDir())
	from, to := testKey("a"), testKey("b")
	exchangeTest(t, db, from, "m0", "ann", false)
	l, code := NewLinks(db), ""
	run := func(k corebot.Key, id, sender, text string, step corebot.LinkStep) (refused error) {
		t.Helper()
		m := testMessage(k.Chat, id)
		m.Direction, m.Kind, m.Parts = corebot.Control, corebot.KindControl, corebot.TextPart(text)
		m.Sender.ID = sender
		_, err := l.Command(t.Context(), m, step, code, corebot.AuditEvent{},
			func(all []corebot.Link, err error) []corebot.Message {
				if refused = err; step == corebot.LinkOffer && err == nil {
					code = all[0].Code
				}
				return nil
			})
		must(t, err)
		return refused
	}
	must(t, run(from, "c1", "ann", "/link", corebot.LinkOffer))
	must(t, run(from, "c1", "ann", "/link", corebot.LinkOffer))
	must(t, run(to, "c2", "bea", "/link X", corebot.LinkEnter))
	must(t, run(to, "c2", "bea", "/link X", corebot.LinkEnter))
	if err := run(testKey("c"), "c3", "eve", "/link X", corebot.LinkEnter); !errors.Is(err, corebot.ErrNotFound) {
		t.Errorf("a used code: %v", err)
	}
	for range 2 {
		must(t, run(from, "c4", "ann", "/link yes", corebot.LinkAgree))
	}
	if err := run(from, "c5", "ann", "/link yes", corebot.LinkAgree); !errors.Is(err, corebot.ErrNotFound) {
		t.Errorf("a second yes: %v", err)
	}
	_, texts := inPlay(t, db, to)
	wantTexts(t, texts, turnOf("m0")...)
	if n := sideQuery(t, db.path, `SELECT COUNT(*) FROM history`); n[0] != "6" {
		t.Errorf("%s entries", n[0])
	}
}

// The policy looks for others before the commit, and somebody can speak in between. An admin may link their words.
func TestAYesTakesNobodysWordsAlongWhoSpokeAfterThePolicyWasAsked(t *testing.T) {
	for role, linked := range map[corebot.Role]bool{corebot.RoleNormal: false, corebot.RoleAdmin: true} {
		db := openTest(t, t.TempDir())
		from, to := testKey("a"), testKey("b")
		exchangeTest(t, db, from, "m0", "ann", false)
		l, code := NewLinks(db), ""
		var refused error
		for i, step := range []corebot.LinkStep{corebot.LinkOffer, corebot.LinkEnter, corebot.LinkAgree} {
			m := testMessage(from.Chat, fmt.Sprintf("c%d", i))
			m.Direction, m.Kind, m.Parts = corebot.Control, corebot.KindControl, corebot.TextPart("/link")
			m.Sender.ID = "ann"
			switch step {
			case corebot.LinkEnter:
				m.Key = to
			case corebot.LinkAgree:
				exchangeTest(t, db, from, "m1", "cat", false)
			}
			_, err := l.Command(t.Context(), m, step, code, corebot.AuditEvent{Role: role},
				func(all []corebot.Link, err error) []corebot.Message {
					if refused = err; step == corebot.LinkOffer && err == nil {
						code = all[0].Code
					}
					return nil
				})
			must(t, err)
		}
		if got := refused == nil; got != linked || !linked && !errors.Is(refused, corebot.ErrInvalid) {
			t.Errorf("%s: %v", role, refused)
		}
		if n := sideQuery(t, db.path, `SELECT COUNT(*) > 0 FROM history WHERE linked <> 0`); (n[0] == "1") != linked {
			t.Errorf("%s: copied is %s", role, n[0])
		}
	}
}

// A fork of the chat that resumed a conversation has its words, too. They go when the conversation is deleted, also if
// that chat was deleted before.
func TestWordsOfALinkGoFromForksWhenTheChatBetweenIsDeleted(t *testing.T) {
	db, from, to := linkedTest(t)
	fork := to
	fork.Chat = "f"
	_, err := NewSessions(db).Fork(t.Context(), corebot.Fork{From: to, To: fork})
	must(t, err)
	_, err = NewForgetting(db).Chat(t.Context(), to, nil)
	must(t, err)
	if n := sideQuery(t, db.path, `SELECT COUNT(*) FROM history WHERE linked <> 0`); n[0] == "0" {
		t.Fatal("the fork has nothing of the conversation")
	}
	_, err = NewForgetting(db).Chat(t.Context(), from, nil)
	must(t, err)
	if n := sideQuery(t, db.path, `SELECT COUNT(*) FROM history WHERE linked <> 0`); n[0] != "0" {
		t.Errorf("%v entries of the conversation are left", n)
	}
}

// A fork has no summary of words that came by a link: it would not be found when they are deleted.
func TestAForkHasNoSummaryOfLinkedWords(t *testing.T) {
	db, from, to := linkedTest(t)
	sideQuery(t, db.path, `INSERT INTO summaries (chat_id, session, through, text, model, at)
		SELECT id, session, (SELECT MAX(seq) FROM history h WHERE h.chat_id = chats.id AND h.linked <> 0), 'sum', '', 1
		FROM chats WHERE chat = 'b'`)
	fork := to
	fork.Chat = "f"
	_, err := NewSessions(db).Fork(t.Context(), corebot.Fork{From: to, To: fork})
	must(t, err)
	_, err = NewForgetting(db).Chat(t.Context(), from, nil)
	must(t, err)
	for _, table := range []string{"history WHERE linked <> 0", "summaries"} {
		if n := count(t, db.path, table); n != 0 {
			t.Errorf("%s: %d are left", table, n)
		}
	}
}

// A turn that runs has read the words, and can be making a summary of them.
func TestWordsOfALinkAreNotDeletedUnderATurnThatHasReadThem(t *testing.T) {
	db, from, to := linkedTest(t)
	m := testMessage(to.Chat, "run")
	m.Key, m.Sender = to, corebot.Principal{Channel: to.Channel, ID: "ann"}
	_, err := NewQueue(db).Publish(t.Context(), []corebot.Message{m}, corebot.Limits{})
	must(t, err)
	d := claimTest(t, db)
	if _, err := NewForgetting(db).Chat(t.Context(), from, nil); !errors.Is(err, corebot.ErrInvalid) {
		t.Errorf("deleted: %v", err)
	}
	if _, err := NewLinks(db).Unlink(t.Context(), from); !errors.Is(err, corebot.ErrInvalid) {
		t.Errorf("unlinked: %v", err)
	}
	must(t, NewQueue(db).Settle(t.Context(), d, corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered}))
	_, err = NewForgetting(db).Chat(t.Context(), from, nil)
	must(t, err)
}

// All entries of the second chat came by a link, and are linked no further. Nothing of the third chat changes.
func TestARefusedLinkChangesNothing(t *testing.T) {
	db, _, to := linkedTest(t)
	third := testKey("c")
	third.Channel = "third"
	exchangeTest(t, db, third, "x0", "cat", false)
	sideQuery(t, db.path, `UPDATE history SET rewound = 9
		WHERE linked = 0 AND chat_id = (SELECT id FROM chats WHERE chat = 'b')`)
	if _, err := NewLinks(db).Put(t.Context(), to, third); !errors.Is(err, corebot.ErrInvalid) {
		t.Errorf("linked: %v", err)
	}
	must(t, db.write(t.Context(), "test", func(tx *tx) error {
		_, err := NewLinks(db).putTx(tx, to, third, "", "")
		if !errors.Is(err, corebot.ErrInvalid) {
			t.Errorf("linked: %v", err)
		}
		return nil // a command that is refused commits its notice
	}))
	if session := sideQuery(t, db.path, `SELECT session FROM chats WHERE chat = 'c'`); session[0] != "1" {
		t.Errorf("the third chat has the session %v", session)
	}
}

// A turn that is too large for a copy is named, and what a copy can have without it is copied. The bound is one of
// bytes: a text in another script has several for each letter.
func TestACopySaysThatTheLastTurnIsTooLargeAndTakesOthers(t *testing.T) {
	for name, c := range map[string]struct{ grow, want string }{
		"a text": {
			`UPDATE history SET text = text || printf('%.*c', 8 << 20, 'x') WHERE seq = 2 AND ordinal = 0`, "8.1 MiB",
		},
		"a text in another script": {
			`UPDATE history SET text = replace(printf('%.*c', 3 << 20, 'x'), 'x', '猫') WHERE seq = 2 AND ordinal = 0`,
			"9.1 MiB",
		},
		"many calls": {
			`INSERT INTO history (chat_id, session, seq, ordinal, speaker, text, message_id, at)
				WITH RECURSIVE n(i) AS (SELECT 3 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
				SELECT id, 1, 2, i, 'tool', 'x', 'm1', 1 FROM chats, n WHERE chat = 'a'`, "2001 entries",
		},
	} {
		t.Run(name, func(t *testing.T) {
			db, from := openTest(t, t.TempDir()), testKey("a")
			for i := range 2 {
				exchangeTest(t, db, from, fmt.Sprint("m", i), "ann", false)
			}
			sideQuery(t, db.path, c.grow)
			s := NewSessions(db)
			_, err := s.Fork(t.Context(), corebot.Fork{From: from, To: testKey("whole")})
			if !errors.Is(err, corebot.ErrInvalid) || !strings.Contains(err.Error(),
				"the last message and its answer have "+c.want+", and a copy takes at most ") ||
				corebot.HintOf(err) == "" {
				t.Errorf("a fork: %v", err)
			}
			if _, err := NewLinks(db).Put(t.Context(), from, testKey("linked")); !errors.Is(err,
				corebot.ErrInvalid) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("a link: %v", err)
			}
			if n := sideQuery(t, db.path, `SELECT COUNT(*) FROM chats`); n[0] != "1" {
				t.Errorf("there are %s chats", n[0])
			}
			done, err := s.Fork(t.Context(), corebot.Fork{From: from, To: testKey("earlier"), At: "m0"})
			if err != nil || done.Entries != 3 || done.Older != 0 {
				t.Errorf("a fork before it: %+v %v", done, err)
			}
			exchangeTest(t, db, from, "m2", "ann", false)
			done, err = s.Fork(t.Context(), corebot.Fork{From: from, To: testKey("later")})
			if err != nil || done.Entries != 3 || done.Older < 6 {
				t.Errorf("a fork behind it: %+v %v", done, err)
			}
			// A summary of the rest is no copy of it either.
			summaryTest(t, db, from, 1, "of m0")
			_, err = s.Fork(t.Context(), corebot.Fork{From: from, To: testKey("summary"), At: "m1"})
			if !errors.Is(err, corebot.ErrInvalid) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("with a summary: %v", err)
			}
		})
	}
}
