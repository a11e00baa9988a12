package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/long"
	"github.com/corebot/corebot/internal/vector"
)

// marked fills every table with what a chat can leave behind, with a mark in each text.
func marked(t *testing.T, db *DB, chat, mark string, turns int) {
	t.Helper()
	k := testKey(chat)
	big := strings.Repeat(mark+" ", 2000) // takes pages of its own
	for i := range turns {
		text := fmt.Sprintf("%s%d and %s", mark, i, mark)
		if i%5 == 0 {
			text = big
		}
		m := testMessage(chat, fmt.Sprintf("m%d", i))
		m.Parts = corebot.TextPart(text)
		m.Sender.ID = mark
		r, err := NewQueue(db).Publish(t.Context(), []corebot.Message{m}, corebot.Limits{})
		must(t, errors.Join(err, r[0].Err))
		d := claimTest(t, db)
		ended := corebot.AuditEvent{Event: toolResult, Tool: "fs.read", Key: k, Args: `{"path":"` + mark + `"}`}
		must(t, NewLedger(db).Record(t.Context(), d, corebot.Step{
			Kind: corebot.StepTool, State: corebot.StepDone, Call: &corebot.ToolCall{ID: "c", Tool: "fs.read"},
			Result: &corebot.ToolResult{Content: text},
		}, ended))
		reply := outboundTest(chat, fmt.Sprintf("r%d", i))
		must(t, NewLedger(db).Commit(t.Context(), d, corebot.Result{
			Outcome: corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered},
			History: []corebot.HistoryEntry{
				{Speaker: corebot.SpeakerUser, Parts: corebot.TextPart(text), Name: mark, At: time.Now()},
				{Speaker: corebot.SpeakerAssistant, Parts: corebot.TextPart(text), At: time.Now()},
			},
		}))
		reply.Parts = corebot.TextPart(text)
		must(t, NewMailbox(db).Post(t.Context(), reply))
	}
	chats := NewChats(db)
	must(t, chats.Register(t.Context(), k, true, mark))
	must(t, chats.SetMemoryNotes(t.Context(), k, []corebot.MemoryNote{{Ends: 1, Sum: mark}}, nil, ""))
	who := corebot.Principal{Channel: "test", ID: mark}
	must(t, NewGrants(db).Grant(t.Context(), corebot.Grant{Principal: who, Chat: k, Role: corebot.RoleAdmin}))
	_, err := NewTasks(db).Create(t.Context(), corebot.Task{
		Name: mark, Key: k, Schedule: corebot.Schedule{Kind: corebot.TaskInterval, Spec: "1h", TimeZone: "UTC"},
		Prompt: mark, Creator: who, Context: corebot.TaskInChat, NextRun: time.Now().Add(time.Hour),
		State: corebot.TaskActive,
	}, corebot.TaskLimits{})
	must(t, err)
	_, err = NewVersions(db, corebot.VersionLimits{PerChat: 9, Bytes: 1 << 20}).Keep(t.Context(), corebot.FileVersion{
		Key: k, MessageID: "m0", Principal: who, Path: mark, Data: []byte(big),
	})
	must(t, err)
	must(t, NewFacts(db).Learn(t.Context(), corebot.Fact{
		Key: k, Scope: corebot.FactsOfAgent, Subject: mark, Relation: "is", Object: mark, Sender: who, MessageID: "m0",
	}, corebot.Fact{
		Key: k, Scope: corebot.FactsOfChat, Subject: "it", Relation: "is", Object: mark, Sender: who, MessageID: "m0",
	}, corebot.Fact{
		Key: k, Scope: corebot.FactsOfChat, Subject: "it", Relation: "was", Object: mark, Sender: who, MessageID: mark,
	}))
	all, err := NewFacts(db).Page(t.Context(), k, true, 1) // the record keeps the sender, and the message
	must(t, err)
	n, err := NewFacts(db).Forget(t.Context(), k, []int64{all[0].ID}, func(corebot.Fact) bool { return true })
	must(t, err)
	if n != 1 || all[0].Relation != "was" {
		t.Fatalf("%d facts were forgotten: %+v", n, all)
	}
	for _, q := range []string{
		`INSERT INTO summaries (chat_id, session, through, text, model, at) SELECT id, 1, 1, ?1, '', 1 FROM chats
			WHERE chat = ?2`,
		`INSERT INTO approval_rules (agent, channel, account, chat, thread, principal, session, beyond, binding,
			request, created_at, created_by) VALUES ('main', 'test', '', ?2, '', ?1, 0, 0, ?1, 1, 1, ?1)`,
		`INSERT INTO usage_days (day, agent, key, channel, account, sender, model, turns, input, output, cache_read,
			cache_write, cost, unpriced, estimated) VALUES ('2026-01-01', 'main', 'main:test::' || ?2, 'test', '', ?1,
			'model', 1, 5, 7, 0, 0, 9, 0, 0)`,
		`INSERT INTO dead_notices VALUES ('main', 'test', '', ?2, '', ?1, 1, 1, ?1, ?1, 1, 1)`,
		`INSERT INTO attached_files (agent, channel, account, chat, thread, message_id, hash, name, media_type, size,
			at) VALUES ('main', 'test', '', ?2, '', ?1, ?1, ?1, ?1, 1, 1)`,
		`INSERT INTO file_charges VALUES ('main:test::' || ?2, 'test', '', ?1, 1, 1)`,
		`INSERT INTO approvals (life_id, run, position, tool, args, dir, files, digest, change, rule, taint, step_id,
			because, state, reason, created_at, expires_at, resolved_by) SELECT MIN(m.id), 1, 0, 'fs.write', ?1, ?1,
			?1, x'', ?1, 'r', ?1, 's', ?1, 'denied', ?1, 1, 1, ?1 FROM message_life m JOIN lanes l ON l.id = m.lane_id
			WHERE l.chat = ?2 AND l.direction = 1`,
		`INSERT INTO waits (life_id, run, position, kind, purpose, state, sender, chat, word, reason, ended_by,
			created_at, due_at) SELECT MIN(m.id), 1, 1, 'word', ?1, 'over', ?1, ?1, ?1, ?1, ?1, 1, 1
			FROM message_life m JOIN lanes l ON l.id = m.lane_id WHERE l.chat = ?2 AND l.direction = 1`,
		`INSERT INTO jobs (kind, background, state, parent_id, life_id, results, sender, prompt, depth, tokens, calls,
			reason, noted_at, created_at) SELECT 'run', 1, 'done', MIN(m.id), MIN(m.id), ?1, ?1, ?1, 1, 1, 1, ?1, 1, 1
			FROM message_life m JOIN lanes l ON l.id = m.lane_id WHERE l.chat = ?2 AND l.direction = 1`,
	} {
		sideQuery(t, db.path, q, mark, chat)
	}
}

// lower makes ASCII letters small where they are. [bytes.ToLower] takes ten times as long.
func lower(b []byte) []byte {
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return b
}

// holds names the files below a directory that have a text in them, in any letters.
func holds(t *testing.T, dir, text string) (files []string) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if n := bytes.Count(lower(data), lower([]byte(text))); n > 0 {
			files = append(files, fmt.Sprintf("%s %d times", d.Name(), n))
		}
		return err
	}))
	return files
}

// marks gives each text a vector that is known again in the bytes of a file: the mark in the text decides.
type marks struct{}

func (marks) Embed(_ context.Context, texts []string) (all [][]float32, _ corebot.Usage, _ error) {
	for _, text := range texts {
		mark := "other"
		for _, known := range []string{"wombat", "quokka", "numbat"} {
			if strings.Contains(text, known) {
				mark = known
			}
		}
		all = append(all, markNumbers(mark))
	}
	return all, corebot.Usage{}, nil
}

func markNumbers(mark string) (v []float32) {
	for _, c := range strings.Repeat(mark, 5) {
		v = append(v, float32(c%97))
	}
	return append(v, 127)[:20]
}

func markVector(mark string) []byte {
	packed, err := vector.Pack(markNumbers(mark))
	if err != nil {
		panic(err)
	}
	return packed[4:]
}

// A large chat leaves free pages behind, and a small one leaves its terms in the index of the others.
func TestOfADeletedChatNoByteIsLeft(t *testing.T) {
	for name, turns := range map[string]int64{"large": long.Or[int64](30, 300), "small": 3} {
		t.Run(name, func(t *testing.T) { deletedTest(t, turns) })
	}
}

func deletedTest(t *testing.T, turns int64) {
	dir := t.TempDir()
	db := openTest(t, dir)
	marked(t, db, "stays", "quokka", 100)
	marked(t, db, "gone", "wombat", int(turns))
	marked(t, db, "later", "numbat", 30)
	index, err := NewSearchIndex(db, SearchIndexOptions{})
	must(t, err)
	must(t, index.CatchUp(t.Context()))
	must(t, NewVectors(db, VectorOptions{Embedder: marks{}, Model: "m"}).CatchUp(t.Context()))
	f, k := NewForgetting(db), testKey("gone")
	before := wholeTrail(t, db)

	publishTest(t, db, "gone", "waits")
	if _, err := f.Chat(t.Context(), k, nil); !errors.Is(err, corebot.ErrInvalid) {
		t.Fatalf("with a message that waits it is %v", err)
	}
	must(t, NewLedger(db).Commit(t.Context(), claimTest(t, db), corebot.Result{
		Outcome: corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered},
	}))

	has, err := NewChats(db).Contents(t.Context(), k)
	must(t, err)
	gone, err := f.Chat(t.Context(), k, nil)
	must(t, err)
	if has.Messages != gone.Messages || has.History != gone.History || has.Facts != gone.Facts || gone.Facts != 2 ||
		has.Tasks != gone.Tasks || has.Mail != gone.Mail || has.Rules != gone.Rules || has.Grants != gone.Grants ||
		has.Versions != gone.Versions || has.Files != 1 {
		t.Errorf("counted were %+v, and deleted %+v", has, gone)
	}
	if gone.Chats != 1 || gone.Messages != turns+1 || gone.History != 2*turns || gone.Mail != turns ||
		gone.Tasks != 1 || gone.Rules != 1 || gone.Grants != 1 || gone.Versions != 1 || gone.Arguments < turns ||
		gone.KeptArguments != 0 {
		t.Errorf("deleted were %+v", gone)
	}
	pages, err := f.Overwrite(t.Context())
	must(t, err)
	if pages == 0 {
		t.Error("no page was free")
	}

	if left := holds(t, dir, "wombat"); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
	if left := holds(t, dir, string(markVector("wombat"))); len(left) > 0 {
		t.Errorf("vectors are left: %v", left)
	}
	if len(holds(t, dir, string(markVector("quokka")))) == 0 {
		t.Error("the vectors of another chat are gone, too")
	}
	for _, mark := range []string{"quokka", "numbat"} {
		if len(holds(t, dir, mark)) == 0 {
			t.Errorf("%s is gone, too", mark)
		}
	}
	wantWhole(t, db)
	if trail := wholeTrail(t, db); trail.Events != before.Events+3 || trail.Emptied != gone.Arguments {
		t.Errorf("the trail is %+v, and was %+v", trail, before)
	}
	if got := sideQuery(t, dir, `SELECT key, sender, input, output FROM usage_days WHERE input > 0 ORDER BY key`); len(
		got) != 3 || got[0] != "main:deleted::deleted||5|7" {
		t.Errorf("usage is %v", got)
	}
	if _, err := f.Chat(t.Context(), k, nil); !errors.Is(err, corebot.ErrNotFound) {
		t.Errorf("a second time it is %v", err)
	}
	usedTest(t, db, "gone", "m0") // its old id is new
	if n := sideQuery(t, dir, `SELECT COUNT(*) FROM history h JOIN chats c ON c.id = h.chat_id
		WHERE c.chat = 'gone'`); n[0] != "2" {
		t.Errorf("the new chat has %s entries", n[0])
	}
}

func TestADeletedChatTakesItsThreadsItsChildTurnsAndItsQuestionsAlong(t *testing.T) {
	db := openTest(t, t.TempDir())
	k := testKey("gone")
	thread := k
	thread.Thread = "7"
	child := corebot.Key{Agent: k.Agent, Channel: corebot.JobChannel, Account: "test:", Chat: "gone", Thread: "3:"}
	ofThread := child
	ofThread.Thread = "4:7"
	asked := corebot.AskedFrom(k, "helper")
	others := []corebot.Key{
		testKey("gone2"),
		{Agent: "helper", Channel: "test", Chat: "gone"},
		{Agent: k.Agent, Channel: corebot.JobChannel, Account: "test:", Chat: "gone2", Thread: "3:"},
		corebot.AskedFrom(testKey("gone2"), "helper"),
	}
	own := []corebot.Key{k, thread, child, ofThread, asked}
	for _, k := range slices.Concat(own, others) {
		m := testMessage("", "m")
		m.Key = k
		r, err := NewQueue(db).Publish(t.Context(), []corebot.Message{m}, corebot.Limits{})
		must(t, errors.Join(err, r[0].Err))
		must(t, NewLedger(db).Commit(t.Context(), claimTest(t, db), corebot.Result{
			Outcome: corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered},
		}))
	}
	meant := func(k corebot.Key) (all []string) {
		t.Helper()
		keys, err := NewForgetting(db).Meant(t.Context(), k)
		must(t, err)
		for _, k := range keys {
			all = append(all, k.String())
		}
		slices.Sort(all)
		return all
	}
	spelled := func(keys ...corebot.Key) (all []string) {
		for _, k := range keys {
			all = append(all, k.String())
		}
		slices.Sort(all)
		return all
	}
	if got, want := meant(k), spelled(own...); !slices.Equal(got, want) {
		t.Errorf("the chat means %v, want %v", got, want)
	}
	if got, want := meant(thread), spelled(thread, ofThread); !slices.Equal(got, want) {
		t.Errorf("the thread means %v, want %v", got, want)
	}
	// A deletion that is cut off after some of them is ended by the next.
	f := NewForgetting(db)
	keys, err := f.Meant(t.Context(), k)
	must(t, err)
	_, err = f.one(t.Context(), keys[len(keys)-1])
	must(t, err)
	if gone, err := f.Chat(t.Context(), k, nil); err != nil || gone.Messages != 4 {
		t.Errorf("deleted were %+v: %v", gone, err)
	}
	if n := count(t, db.path, "message_life"); n != len(others) {
		t.Errorf("%d lives are left, want %d", n, len(others))
	}
	wantWhole(t, db)
}

// The author of a new table says here what a deleted chat leaves in it.
func TestEachTableIsKnownToTheDeletionOfChats(t *testing.T) {
	emptied := strings.Fields(`api_keys approval_rules approvals attached_files audit_events chats dead_notices drafts
		execution_steps fact_owners fact_words facts file_charges forgotten forks
		file_versions grants history history_terms jobs lanes mailbox memory_pages memory_sources message_life
		pairings replays
		links summaries task_runs tasks usage_days vectors waits`)
	without := strings.Fields(`audit_chain bootstrap channel_cursors client_calls console_links console_sessions
		goose_db_version history_indexed link_failures link_tries mcp_servers mcp_tools message_parked message_queue
		objective_alarms objective_cursors objective_minutes page_sources pairing_failures samples
		store tokens totals vector_state`)
	db := openTest(t, t.TempDir())
	for _, name := range sideQuery(t, db.path, `SELECT name FROM sqlite_schema WHERE type = 'table'
		AND name NOT LIKE 'sqlite_%' AND name NOT LIKE 'history_terms_%'`) {
		if !slices.Contains(emptied, name) && !slices.Contains(without, name) {
			t.Errorf("storage/forget.go does not know the table %s: delete a chat's rows there, or say here that it "+
				"has nothing of a chat", name)
		}
	}
}
