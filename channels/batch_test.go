package channels_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/bus"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/storage"
)

var account = channels.Account{Kind: apptest.Channel, Name: "acc"}

// inLane is a message of a chat of its own, without a thread.
func inLane(id, chat, text string) channels.Incoming {
	in := incoming(id, text)
	in.Channel, in.Account, in.Chat, in.Thread = "", "", chat, ""
	return in
}

// taken are the results of a batch in words.
func taken(b channels.AcceptedBatch) (out []string) {
	for _, r := range b.Messages {
		word := "accepted"
		switch {
		case r.Err != nil:
			word = "refused"
		case r.Duplicate:
			word = "duplicate"
		}
		out = append(out, r.ID+" "+word)
	}
	return out
}

func wantTaken(t *testing.T, b channels.AcceptedBatch, err error, want ...string) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if got := taken(b); !slices.Equal(got, want) {
		t.Fatalf("got %q, want %q", got, want)
	}
}

func TestABatchIsTakenInAndItsCursorIsKnownToTheNextRun(t *testing.T) {
	k, front := newDoor(t, policy.AccessOpen)
	door := front.At(account)
	c, err := door.Cursor(t.Context())
	if err != nil || c != (corebot.Cursor{}) {
		t.Fatalf("the first cursor is %+v, %v", c, err)
	}
	b, err := door.AcceptBatch(t.Context(), []channels.Incoming{inLane("1", "a", "one"), inLane("2", "b", "two")},
		c.To("2"))
	wantTaken(t, b, err, "1 accepted", "2 accepted")
	now, err := front.At(account).Cursor(t.Context())
	if err != nil || now != b.Cursor || now.Position != "2" {
		t.Errorf("the next run begins at %+v, %v", now, err)
	}
	if m := k.Claim().Message; m.Key.Channel != account.Kind || m.Key.Account != account.Name ||
		m.Sender.Account != account.Name {
		t.Errorf("the first message is %+v", m)
	}
}

func TestARefusalForGoodDoesNotHoldTheCursorBack(t *testing.T) {
	k, front := newDoor(t, policy.AccessAllowlist, apptest.Channel+":acc:alice")
	door := front.At(account)
	stranger := inLane("3", "a", "let me in")
	stranger.SenderID = "mallory"
	empty, long, own := inLane("4", "a", " "), inLane("5", "a", strings.Repeat("x", 1001)), inLane("6", "a", "x")
	own.ID = corebot.OwnIDs + "x"
	conflict := inLane("1", "a", "another text")
	b, err := door.AcceptBatch(t.Context(), []channels.Incoming{
		inLane("1", "a", "one"), inLane("1", "a", "one"), conflict, stranger, empty, long, own, inLane("2", "a", "two"),
	}, corebot.Cursor{}.To("9"))
	wantTaken(t, b, err, "1 accepted", "1 duplicate", "1 refused", "3 refused", "4 refused", "5 refused",
		own.ID+" refused", "2 accepted")
	for i, want := range map[int]error{
		2: corebot.ErrConflict, 3: channels.ErrNotAdmitted, 4: corebot.ErrInvalid, 5: corebot.ErrTooLarge,
		6: corebot.ErrInvalid,
	} {
		if err := b.Messages[i].Err; !errors.Is(err, want) {
			t.Errorf("message %d: %v, want %v", i, err, want)
		}
	}
	if c, err := door.Cursor(t.Context()); err != nil || c.Position != "9" {
		t.Errorf("the cursor is %+v, %v", c, err)
	}
	events, err := storage.NewAudit(k.DB).List(t.Context(), corebot.AuditFilter{Limit: 10})
	if err != nil || len(events) != 1 || events[0].Principal.ID != "mallory" {
		t.Errorf("the audit has %+v, %v", events, err)
	}
}

func TestAFullChatIsToldOnceAndDoesNotSilenceItsAccount(t *testing.T) {
	k, front := newDoor(t, policy.AccessOpen)
	door := front.At(account)
	var flood []channels.Incoming
	for i := range 5 {
		flood = append(flood, inLane(fmt.Sprint(i), "full", "hello"))
	}
	b, err := door.AcceptBatch(t.Context(), append(flood, inLane("other", "b", "hello")), corebot.Cursor{}.To("6"))
	wantTaken(t, b, err, "0 accepted", "1 accepted", "2 refused", "3 refused", "4 refused", "other accepted")
	var busy *corebot.Busy
	if !errors.As(b.Messages[2].Err, &busy) || busy.RetryAfter <= 0 {
		t.Errorf("the refusal is %v", b.Messages[2].Err)
	}
	if told, again := stored(t, k, "2/busy"), stored(t, k, "3/busy")+stored(t, k, "4/busy"); told != 1 || again != 0 {
		t.Errorf("the chat was told %d times, and %d times more", told, again)
	}
}

func TestABatchWithoutRoomForAnybodyComesAgain(t *testing.T) {
	k := apptest.New(t, apptest.Options{Bus: bus.Options{Limits: corebot.Limits{TotalDepth: 2}}})
	door := k.Door.At(channels.Account{Kind: apptest.Channel})
	batch := []channels.Incoming{inLane("1", "a", "one"), inLane("2", "b", "two"), inLane("3", "c", "three")}
	_, err := door.AcceptBatch(t.Context(), batch, corebot.Cursor{}.To("3"))
	var busy *corebot.Busy
	if !errors.As(err, &busy) || !errors.Is(err, corebot.ErrOverloaded) || busy.RetryAfter <= 0 || busy.Tell {
		t.Fatalf("got %v", err)
	}
	if c, err := door.Cursor(t.Context()); err != nil || c != (corebot.Cursor{}) || stored(t, k, "1") != 0 {
		t.Errorf("the cursor is %+v, %v", c, err)
	}
	b, err := door.AcceptBatch(t.Context(), batch[:2], corebot.Cursor{}.To("2"))
	wantTaken(t, b, err, "1 accepted", "2 accepted")
}

func TestAControlMessageOfABatchActsInItsPlace(t *testing.T) {
	k, front := newDoor(t, policy.AccessOpen)
	door := front.At(account)
	batch := []channels.Incoming{
		inLane("1", "a", "one"), inLane("stop", "a", "/stop"), inLane("2", "a", "two"),
	}
	for _, repeated := range []bool{false, true} {
		b, err := door.AcceptBatch(t.Context(), batch, corebot.Cursor{}.To("3"))
		want := []string{"1 accepted", "stop accepted", "2 accepted"}
		if repeated {
			want = []string{"1 duplicate", "stop duplicate", "2 duplicate"}
		}
		wantTaken(t, b, err, want...)
	}
	k.WantTold("stop", "Stopping.")
	if d := k.Claim(); d.Message.ID != "1" || !d.Stopped {
		t.Errorf("the first delivery is %s, stopped: %v", d.Message.ID, d.Stopped)
	}
}

func TestARunThatAnotherRunHasOvertakenStoresNothing(t *testing.T) {
	k, front := newDoor(t, policy.AccessOpen)
	old, young := front.At(account), front.At(account)
	if _, err := young.AcceptBatch(t.Context(), nil, corebot.Cursor{}.To("5")); err != nil {
		t.Fatal(err)
	}
	_, err := old.AcceptBatch(t.Context(), []channels.Incoming{inLane("1", "a", "one")}, corebot.Cursor{}.To("3"))
	if !errors.Is(err, corebot.ErrCursorMoved) || stored(t, k, "1") != 0 {
		t.Errorf("got %v", err)
	}
	if c, err := young.Cursor(t.Context()); err != nil || c.Position != "5" {
		t.Errorf("the cursor is %+v, %v", c, err)
	}
}

func TestABatchIsOfOneAccountAndBounded(t *testing.T) {
	_, front := newDoor(t, policy.AccessOpen)
	door := front.At(account)
	foreign := inLane("1", "a", "one")
	foreign.Channel, foreign.Account = apptest.Channel, "another"
	if _, err := door.AcceptBatch(t.Context(), []channels.Incoming{foreign}, corebot.Cursor{}); !errors.Is(err,
		corebot.ErrInvalid) {
		t.Errorf("a message of another account: %v", err)
	}
	many := slices.Repeat([]channels.Incoming{inLane("1", "a", "one")}, corebot.MaxBatch+1)
	if _, err := door.AcceptBatch(t.Context(), many, corebot.Cursor{}); !errors.Is(err, corebot.ErrTooLarge) {
		t.Errorf("too many: %v", err)
	}
}

func TestAnAccountThatHearsNothingButAnswersIsAlive(t *testing.T) {
	o := newOutbox(t, "", "")
	p := &platform{}
	s, err := channels.NewSupervisor(o.Door, o.Outbox, zerolog.Nop(), entry("", p))
	if err != nil {
		t.Fatal(err)
	}
	door := s.DoorOf(channels.Account{Kind: apptest.Channel}).(channels.Door)
	if _, err := door.AcceptBatch(t.Context(), nil, corebot.Cursor{}.To("1")); err != nil {
		t.Fatal(err)
	}
	if st := s.Status()[0]; time.Since(st.LastEvent) > time.Minute {
		t.Errorf("the status is %+v", st)
	}
}

func TestOfABatchThatComesAgainNoChatIsToldOfARefusal(t *testing.T) {
	k := apptest.New(t, apptest.Options{Bus: bus.Options{Limits: corebot.Limits{LaneDepth: 2, TotalDepth: 3}}})
	door := k.Door.At(channels.Account{Kind: apptest.Channel})
	batch := []channels.Incoming{
		inLane("1", "a", "one"), inLane("2", "a", "two"), inLane("3", "a", "three"), inLane("stop", "a", "/stop"),
		inLane("4", "b", "four"), inLane("5", "c", "five"),
	}
	if _, err := door.AcceptBatch(t.Context(), batch, corebot.Cursor{}.To("6")); !errors.Is(err,
		corebot.ErrOverloaded) {
		t.Fatalf("without room: %v", err)
	}
	for range 2 {
		done := corebot.Outcome{Verb: corebot.Done, End: corebot.EndStopped}
		if err := k.Bus.Settle(t.Context(), k.Claim(), done); err != nil {
			t.Fatal(err)
		}
	}
	b, err := door.AcceptBatch(t.Context(), batch, corebot.Cursor{}.To("6"))
	wantTaken(t, b, err, "1 duplicate", "2 duplicate", "3 accepted", "stop duplicate", "4 accepted", "5 accepted")
	if told := stored(t, k, "3/busy"); told != 0 {
		t.Errorf("the chat was told %d times that a message is refused that was taken in", told)
	}
}
