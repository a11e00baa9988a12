package storage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/corebot/corebot"
)

func TestAGrantCountsForItsPrincipalAndItsChatOnly(t *testing.T) {
	db := openTest(t, t.TempDir())
	g := NewGrants(db)
	ctx := context.Background()
	everywhere := corebot.Principal{Channel: "test", Account: "bot", ID: "ada"}
	here := corebot.Principal{Channel: "test", Account: "bot", ID: "bob"}
	must(t, g.Grant(ctx, corebot.Grant{Principal: everywhere, Role: corebot.RoleAdmin, By: "operator"}))
	must(t, g.Grant(ctx, corebot.Grant{Principal: here, Role: corebot.RoleAdmin, Chat: testKey("a"), By: everywhere.String()}))
	for _, c := range []struct {
		p    corebot.Principal
		chat string
		want corebot.Role
	}{
		{everywhere, "a", corebot.RoleAdmin},
		{everywhere, "b", corebot.RoleAdmin},
		{here, "a", corebot.RoleAdmin},
		{here, "b", corebot.RoleNormal},
		{corebot.Principal{Channel: "other", Account: "bot", ID: "ada"}, "a", corebot.RoleNormal},
		{corebot.Principal{Channel: "test", Account: "", ID: "ada"}, "a", corebot.RoleNormal},
		{corebot.Principal{Channel: "test", Account: "bot", ID: "Ada"}, "a", corebot.RoleNormal},
		{corebot.Principal{Channel: "test", Account: "bot"}, "a", corebot.RoleNormal},
	} {
		if got, err := g.RoleOf(ctx, c.p, testKey(c.chat)); err != nil || got != c.want {
			t.Errorf("%v in %s is %s (%v), want %s", c.p, c.chat, got, err, c.want)
		}
	}
}

func TestAGrantReplacesAndIsListed(t *testing.T) {
	db := openTest(t, t.TempDir())
	g := NewGrants(db)
	ctx := context.Background()
	p := corebot.Principal{Channel: "test", ID: "ada"}
	chat := corebot.Key{Agent: "main", Channel: "te:st", Account: "%", Chat: "ü", Thread: "1"}
	must(t, g.Grant(ctx, corebot.Grant{Principal: p, Role: corebot.RoleAdmin, Chat: chat, By: "operator"}))
	must(t, g.Grant(ctx, corebot.Grant{Principal: p, Role: corebot.RoleNormal, Chat: chat, By: "somebody"}))
	got, err := g.List(ctx)
	if err != nil || len(got) != 1 || got[0].Chat != chat || got[0].Role != corebot.RoleNormal || got[0].By != "somebody" || got[0].AtMS == 0 {
		t.Fatalf("listed %+v, %v", got, err)
	}
	if role, err := g.RoleOf(ctx, p, chat); err != nil || role != corebot.RoleNormal {
		t.Fatalf("the role is %s, %v", role, err)
	}
}

func TestNobodyAndNothingCannotBeGranted(t *testing.T) {
	g := NewGrants(openTest(t, t.TempDir()))
	if err := g.Grant(context.Background(), corebot.Grant{Principal: corebot.Principal{Channel: "test"}, Role: corebot.RoleAdmin}); !errors.Is(err, corebot.ErrInvalid) {
		t.Errorf("a sender without an id: %v", err)
	}
	if err := g.Grant(context.Background(), corebot.Grant{Principal: corebot.Principal{Channel: "test", ID: "x"}, Role: "root"}); err == nil {
		t.Error("a role that does not exist was granted")
	}
}

// A row without an id would be for everybody whom a channel cannot name.
func TestTheTableOfGrantsTakesNoneWithoutAnID(t *testing.T) {
	db := openTest(t, t.TempDir())
	err := db.write(t.Context(), "test", func(t *tx) error {
		_, err := t.exec(upsertGrant, "test", "", "", "", "admin", "nobody", t.now)
		return err
	})
	if err == nil {
		t.Error("it is there")
	}
}

// turnTest runs one turn of a chat that leaves entries in its history.
func turnTest(t *testing.T, db *DB, chat, id string, r corebot.Result) corebot.Delivery {
	t.Helper()
	publishTest(t, db, chat, id)
	d := claimTest(t, db)
	r.Outcome = corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered}
	must(t, NewLedger(db).Commit(context.Background(), d, r))
	return d
}

func said(texts ...string) []corebot.HistoryEntry {
	var entries []corebot.HistoryEntry
	for _, text := range texts {
		entries = append(entries, corebot.HistoryEntry{Speaker: corebot.SpeakerUser, Sender: corebot.Principal{Channel: "test", ID: "ada"}, Text: text, At: time.UnixMilli(5)})
	}
	return entries
}

func texts(t *testing.T, db *DB, chat string, limit int) []string {
	t.Helper()
	entries, err := NewHistory(db).Recent(context.Background(), testKey(chat), limit)
	must(t, err)
	var out []string
	for _, e := range entries {
		out = append(out, e.Text)
	}
	return out
}

func TestHistoryIsInTheOrderOfTurnsAndBelongsToItsSession(t *testing.T) {
	db := openTest(t, t.TempDir())
	turnTest(t, db, "a", "1", corebot.Result{History: said("1", "2")})
	turnTest(t, db, "b", "1", corebot.Result{History: said("other")})
	turnTest(t, db, "a", "2", corebot.Result{History: said("3", "4", "5")})
	if got := texts(t, db, "a", 10); !slices.Equal(got, []string{"1", "2", "3", "4", "5"}) {
		t.Errorf("the history is %v", got)
	}
	if got := texts(t, db, "a", 3); !slices.Equal(got, []string{"3", "4", "5"}) {
		t.Errorf("the newest are %v", got)
	}
	turnTest(t, db, "a", "/new", corebot.Result{History: said("bye"), NewSession: true})
	if got := texts(t, db, "a", 10); len(got) > 0 {
		t.Errorf("the new session begins with %v", got)
	}
	turnTest(t, db, "a", "3", corebot.Result{History: said("6")})
	if got := texts(t, db, "a", 10); !slices.Equal(got, []string{"6"}) {
		t.Errorf("the new session has %v", got)
	}
	if got := texts(t, db, "b", 10); !slices.Equal(got, []string{"other"}) {
		t.Errorf("the other chat has %v", got)
	}
	chat, err := NewChats(db).Chat(context.Background(), testKey("a"))
	if err != nil || chat.Session != 2 {
		t.Errorf("the chat is %+v, %v", chat, err)
	}
}

func TestAHistoryEntryComesBackWhole(t *testing.T) {
	db := openTest(t, t.TempDir())
	want := []corebot.HistoryEntry{
		{Speaker: corebot.SpeakerUser, Sender: corebot.Principal{Channel: "test", ID: "ada"}, Name: "Ada", Text: "list", MessageID: "1", At: time.UnixMilli(7)},
		{Speaker: corebot.SpeakerAssistant, Calls: []corebot.ToolCall{{ID: "c", Tool: "fs.list", Args: []byte(`{"path":"."}`)}}, MessageID: "1", At: time.UnixMilli(8)},
		{Speaker: corebot.SpeakerTool, Text: "a\x00b", CallID: "c", MessageID: "1", At: time.UnixMilli(9)},
	}
	turnTest(t, db, "a", "1", corebot.Result{History: want})
	got, err := NewHistory(db).Recent(context.Background(), testKey("a"), 10)
	must(t, err)
	for i := range want {
		want[i].Session, want[i].Seq = 1, 1
		if i >= len(got) || fmt.Sprintf("%#v", got[i]) != fmt.Sprintf("%#v", want[i]) {
			t.Fatalf("got %#v, want %#v", got, want)
		}
	}
}

func TestALifeTellsWhatItsMessageDoesNow(t *testing.T) {
	db := openTest(t, t.TempDir())
	q := NewQueue(db)
	ctx := context.Background()
	state := func(id, want string) corebot.Life {
		t.Helper()
		lives, err := NewLives(db).Find(ctx, id)
		must(t, err)
		if len(lives) != 1 || lives[0].State != want {
			t.Fatalf("message %s: %+v, want %q", id, lives, want)
		}
		return lives[0]
	}
	publishTest(t, db, "a", "1")
	publishTest(t, db, "a", "2")
	state("1", "ready")
	state("2", "waiting behind others")
	d := claimTest(t, db)
	state("1", "running")
	must(t, q.Settle(ctx, d, corebot.Outcome{Verb: corebot.Wait, At: time.Now(), Reason: "approval"}))
	if l := state("1", "waiting: approval"); l.WakeAt.IsZero() || l.Attempts != 0 {
		t.Errorf("got %+v", l)
	}
	must(t, q.Settle(ctx, claimTest(t, db), corebot.Outcome{Verb: corebot.RetryAt, At: time.Now(), Error: "no"}))
	if l := state("1", "waiting: backoff"); l.Attempts != 1 || l.LastError != "no" {
		t.Errorf("got %+v", l)
	}
	must(t, q.Settle(ctx, claimTest(t, db), corebot.Outcome{Verb: corebot.Done, End: corebot.EndRefused}))
	state("1", "refused")
	state("2", "ready")
	must(t, q.Settle(ctx, claimTest(t, db), corebot.Outcome{Verb: corebot.Dead, Reason: "permanent"}))
	state("2", "dead")
	publishTest(t, db, "b", "1")
	if lives, err := NewLives(db).Find(ctx, "1"); err != nil || len(lives) != 2 {
		t.Errorf("two chats used the id: %v, %v", lives, err)
	}
	if _, err := NewLives(db).Get(ctx, 4711); !errors.Is(err, corebot.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}

func TestStatsCountWhatIsThere(t *testing.T) {
	db := openTest(t, t.TempDir())
	q := NewQueue(db)
	ctx := context.Background()
	if s, err := q.Stats(ctx); err != nil || len(s.Pools) != 0 || !s.OldestUnanswered.IsZero() {
		t.Fatalf("of nothing: %+v, %v", s, err)
	}
	turnTest(t, db, "answered", "0", corebot.Result{History: said("x"), Replies: []corebot.Message{{
		ID: "0/1/0", Direction: corebot.Outbound, Kind: corebot.KindReply, Key: testKey("answered"), Parts: corebot.TextPart("hi"),
	}}})
	for _, chat := range []string{"dead", "backoff", "runs", "waits", "waits"} {
		publishTest(t, db, chat, fmt.Sprint(chat, time.Now()))
	}
	must(t, q.Settle(ctx, claimTest(t, db), corebot.Outcome{Verb: corebot.Dead, Reason: "test"}))
	backoff := claimTest(t, db)
	must(t, q.Settle(ctx, backoff, corebot.Outcome{Verb: corebot.RetryAt, At: time.Now().Add(time.Hour)}))
	claimTest(t, db)
	s, err := q.Stats(ctx)
	must(t, err)
	if got, want := s.Pools[corebot.InboundPool], (PoolStats{Depth: 4, Lanes: 3, Leased: 1, Waiting: 1}); got != want {
		t.Errorf("inbound: %+v, want %+v", got, want)
	}
	if got, want := s.Pools[corebot.OutboundPool("test")], (PoolStats{Depth: 1, Lanes: 1}); got != want {
		t.Errorf("outbound: %+v, want %+v", got, want)
	}
	if s.DeadLetters[corebot.Inbound] != 1 || s.Chats != 1 || !s.OldestUnanswered.Equal(backoff.PublishedAt) {
		t.Errorf("got %+v, the oldest is of %v", s, backoff.PublishedAt)
	}
}

func TestAStepComesBackWhole(t *testing.T) {
	db := openTest(t, t.TempDir())
	publishTest(t, db, "a", "1")
	d := claimTest(t, db)
	want := []corebot.Step{
		{Position: 0, Kind: corebot.StepModel, State: corebot.StepDone, Answer: &corebot.Answer{Text: "a", Calls: []corebot.ToolCall{{ID: "c", Tool: "x", Args: []byte(`"not an object"`)}}}},
		{Position: 1, Kind: corebot.StepTool, State: corebot.StepIntended, Call: &corebot.ToolCall{ID: "c", Tool: "x", Args: []byte(`{}`)}},
		{Position: 2, Kind: corebot.StepPart, State: corebot.StepDone},
	}
	for _, s := range want {
		must(t, NewLedger(db).Record(context.Background(), d, s))
	}
	if err := NewLedger(db).Record(context.Background(), d, corebot.Step{Kind: "no such kind"}); err == nil {
		t.Error("a step of no kind was recorded")
	}
	life, err := NewLives(db).Get(context.Background(), d.Life)
	must(t, err)
	if len(life.Steps) != len(want) {
		t.Fatalf("%d steps", len(life.Steps))
	}
	for i, got := range life.Steps {
		if g, w := mustEncode(t, got), mustEncode(t, want[i]); g != w {
			t.Errorf("step %d is %s, want %s", i, g, w)
		}
	}
}

func mustEncode(t *testing.T, v any) string {
	t.Helper()
	s, err := encode(v)
	must(t, err)
	return s
}
