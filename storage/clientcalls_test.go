package storage

import (
	"errors"
	"strconv"
	"sync"
	"testing"

	"github.com/corebot/corebot"
)

func clientCall(key, args string) corebot.ClientCall {
	return corebot.ClientCall{
		Principal: corebot.Principal{Channel: "mcp", ID: "editor"}, Key: key,
		Tool: "bus.dead_letter.replay", Args: []byte(args),
	}
}

func clientEvent() corebot.AuditEvent {
	return corebot.AuditEvent{
		Event: "tool.result", Tool: "bus.dead_letter.replay", Entry: corebot.EntryClient,
		Key:       corebot.Key{Agent: "main", Channel: "mcp", Chat: "main"},
		Principal: corebot.Principal{Channel: "mcp", ID: "editor"}, Outcome: corebot.OutcomeSuccess, Args: "{}",
	}
}

func TestAClientsChangeIsMadeOnceForItsKeyWhateverBecomesOfTheLetterSince(t *testing.T) {
	db := openTest(t, t.TempDir())
	calls := NewClientCalls(db)
	id := deadLetter(t, db, "a", "1", "poison")
	call := clientCall("k", `{"id":`+strconv.FormatInt(id, 10)+`}`)
	must(t, calls.Apply(t.Context(), call, corebot.ReplayDeadLetter{ID: id}, clientEvent()))
	d := take(t, db, corebot.InboundPool)
	must(t, NewQueue(db).Settle(t.Context(), d, corebot.Outcome{Verb: corebot.Dead, Reason: "poison again"}))

	// as after a crash that took the answer
	must(t, calls.Apply(t.Context(), call, corebot.ReplayDeadLetter{ID: id}, clientEvent()))
	if life := lifeOf(t, db, id); life.End != corebot.EndDead || life.Run != 2 {
		t.Errorf("the repeated call replayed it again: %+v", life)
	}
	must(t, calls.Apply(t.Context(), clientCall("another", string(call.Args)), corebot.ReplayDeadLetter{ID: id},
		clientEvent()))
	if life := lifeOf(t, db, id); life.Run != 3 {
		t.Errorf("another call did not replay it: %+v", life)
	}
	results := 0
	for _, e := range notes(t, db) {
		if e.Event == "tool.result" && e.Entry == corebot.EntryClient {
			results++
		}
	}
	if results != 3 {
		t.Errorf("three calls left %d results in the audit", results)
	}
	healthy(t, db)
}

func TestAKeyThatWasUsedForAnotherCallIsRefused(t *testing.T) {
	db := openTest(t, t.TempDir())
	calls := NewClientCalls(db)
	one, two := deadLetter(t, db, "a", "1", "poison"), deadLetter(t, db, "b", "1", "poison")
	must(t, calls.Apply(t.Context(), clientCall("k", `{"id":1}`), corebot.ReplayDeadLetter{ID: one}, clientEvent()))
	err := calls.Apply(t.Context(), clientCall("k", `{"id":2}`), corebot.ReplayDeadLetter{ID: two}, clientEvent())
	if refused := (*corebot.Refused)(nil); !errors.As(err, &refused) || !errors.Is(err, corebot.ErrConflict) {
		t.Errorf("the same key with another call: %v", err)
	}
	if life := lifeOf(t, db, two); life.End != corebot.EndDead {
		t.Errorf("it was replayed all the same: %+v", life)
	}
	other := clientCall("k", `{"id":2}`)
	other.Principal.ID = "somebody else"
	must(t, calls.Apply(t.Context(), other, corebot.ReplayDeadLetter{ID: two}, clientEvent()))
}

func TestARefusedChangeOfAClientIsNotRemembered(t *testing.T) {
	db := openTest(t, t.TempDir())
	calls := NewClientCalls(db)
	call := clientCall("k", `{}`)
	refused := (*corebot.Refused)(nil)
	if err := calls.Apply(t.Context(), call, corebot.ReplayDeadLetter{ID: 4711}, clientEvent()); !errors.As(err,
		&refused) || !errors.Is(err, corebot.ErrNotFound) {
		t.Fatalf("replay of what is not there: %v", err)
	}
	if err := calls.Apply(t.Context(), call, corebot.SendMessage{Text: "hi"}, clientEvent()); !errors.As(err,
		&refused) {
		t.Errorf("a post outside of a turn: %v", err)
	}
	if len(notes(t, db)) != 0 {
		t.Errorf("refused changes left %+v", notes(t, db))
	}
	id := deadLetter(t, db, "a", "1", "poison")
	must(t, calls.Apply(t.Context(), call, corebot.ReplayDeadLetter{ID: id}, clientEvent()))
	if life := lifeOf(t, db, id); life.Run != 2 {
		t.Errorf("the key of a refused call was taken for used: %+v", life)
	}
}

func TestOneKeyAtOnceFromManyPlacesActsOnce(t *testing.T) {
	db := openTest(t, t.TempDir())
	calls := NewClientCalls(db)
	id := deadLetter(t, db, "a", "1", "poison")
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			if err := calls.Apply(t.Context(), clientCall("k", `{}`), corebot.ReplayDeadLetter{ID: id},
				clientEvent()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if life := lifeOf(t, db, id); life.Run != 2 {
		t.Errorf("it was replayed %d times", life.Run-1)
	}
}

func TestTheKeysOfClientsAreBounded(t *testing.T) {
	db := openTest(t, t.TempDir())
	must(t, db.write(t.Context(), "test", func(t *tx) error {
		for i := range keptClientCalls + 5 {
			if err := rememberTx(t, clientCall(strconv.Itoa(i), ""), false); err != nil {
				return err
			}
		}
		return nil
	}))
	var known [2]bool
	must(t, db.write(t.Context(), "test", func(t *tx) (err error) {
		for i, key := range []string{"4", "5"} {
			if known[i], err = repeatedTx(t, clientCall(key, "")); err != nil {
				return err
			}
		}
		return nil
	}))
	if known != [2]bool{false, true} {
		t.Errorf("the fifth and the sixth of %d: known %v", keptClientCalls+5, known)
	}
}
