package storage

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
)

// stranger is a sender of an account whom nobody knows.
func stranger(account, id string) corebot.Pairing {
	return corebot.Pairing{
		Principal: corebot.Principal{Channel: "net", Account: account, ID: id}, Name: "Some One",
		Chat: corebot.Key{Agent: corebot.DefaultAgent, Channel: "net", Account: account, Chat: id},
	}
}

// ask has a stranger ask to be let in, and returns his code; empty: he got none.
func ask(t *testing.T, db *DB, p corebot.Pairing) (code string) {
	t.Helper()
	offered, err := NewPairings(db).Offer(t.Context(), p, func(p corebot.Pairing) corebot.Message {
		code = p.Code
		return corebot.TextNotice(p.Chat, fmt.Sprint("m/", p.AskedAt.UnixMilli()), "m", p.Code,
			corebot.Notice{Kind: corebot.NoticePairing})
	})
	must(t, err)
	if !offered {
		return ""
	}
	return code
}

func decide(t *testing.T, db *DB, code string, state corebot.PairingState) error {
	t.Helper()
	_, err := NewPairings(db).Decide(t.Context(), code, state)
	return err
}

func wantPaired(t *testing.T, db *DB, p corebot.Principal, want bool) {
	t.Helper()
	if is, err := NewPairings(db).Paired(t.Context(), p); err != nil || is != want {
		t.Errorf("%s is paired: %v, %v; want %v", p, is, err, want)
	}
}

func TestACodeLetsItsSenderInOnItsAccountAlone(t *testing.T) {
	db := openTest(t, t.TempDir())
	ann := stranger("work", "ann")
	code := ask(t, db, ann)
	if parsed, err := corebot.ParsePairingCode(strings.ToLower(code)); err != nil || parsed != code {
		t.Fatalf("the code is %q: %v", code, err)
	}
	wantPaired(t, db, ann.Principal, false)
	must(t, decide(t, db, code, corebot.PairingPaired))
	wantPaired(t, db, ann.Principal, true)
	for _, other := range []corebot.Principal{
		stranger("private", "ann").Principal, stranger("work", "bob").Principal,
		{Channel: "other", Account: "work", ID: "ann"},
		{Channel: "net", Account: "work"},
	} {
		wantPaired(t, db, other, false)
	}
	var rows []string
	for _, e := range notes(t, db) {
		rows = append(rows, e.Event+" "+string(e.Outcome)+" "+e.Args)
	}
	if got := strings.Join(rows, "\n"); got !=
		`pairing.paired success {"chat":"main:net:work:ann","principal":"net:work:ann"}` {
		t.Errorf("the audit is\n%s", got)
	}
	if told := count(t, db.path, "message_queue"); told != 2 {
		t.Errorf("%d notices were enqueued; the sender is told the code, and that he may talk", told)
	}
}

func TestACodeIsGoodOnce(t *testing.T) {
	for _, first := range []corebot.PairingState{corebot.PairingPaired, corebot.PairingDenied} {
		db := openTest(t, t.TempDir())
		ann := stranger("work", "ann")
		code := ask(t, db, ann)
		must(t, decide(t, db, code, first))
		for _, again := range []corebot.PairingState{corebot.PairingPaired, corebot.PairingDenied} {
			if err := decide(t, db, code, again); !errors.Is(err, corebot.ErrInvalid) {
				t.Errorf("%s, then %s: %v", first, again, err)
			}
		}
		wantPaired(t, db, ann.Principal, first == corebot.PairingPaired)
		if code := ask(t, db, ann); code != "" {
			t.Errorf("who is %s got the code %s", first, code)
		}
		must(t, NewPairings(db).Remove(t.Context(), ann.Principal))
		wantPaired(t, db, ann.Principal, false)
		if err := NewPairings(db).Remove(t.Context(), ann.Principal); !errors.Is(err, corebot.ErrNotFound) {
			t.Errorf("removed twice: %v", err)
		}
		if ask(t, db, ann) == "" {
			t.Error("who was forgotten gets no code")
		}
	}
}

func TestACodeExpiresAndMakesRoomForAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := openTest(t, t.TempDir())
		ann := stranger("work", "ann")
		old := ask(t, db, ann)
		time.Sleep(corebot.PairingTime - time.Millisecond)
		if code := ask(t, db, ann); code != "" {
			t.Errorf("a second code while the first is good: %s", code)
		}
		time.Sleep(time.Millisecond)
		if err := decide(t, db, old, corebot.PairingPaired); !errors.Is(err, corebot.ErrInvalid) {
			t.Errorf("the expired code: %v", err)
		}
		if open, _, err := NewPairings(db).Page(t.Context(), corebot.PairingOpen, "", 10); err != nil ||
			len(open) != 0 {
			t.Errorf("open are %+v, %v", open, err)
		}
		code := ask(t, db, ann)
		if code == "" || code == old {
			t.Fatalf("after %q he got %q", old, code)
		}
		must(t, decide(t, db, code, corebot.PairingPaired))
		if err := decide(t, db, old, corebot.PairingDenied); !errors.Is(err, corebot.ErrNotFound) {
			t.Errorf("the replaced code: %v", err)
		}
	})
}

func TestAFloodOfStrangersGetsThreeCodesAndMakesNoListGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := openTest(t, t.TempDir())
		for round := 1; round <= 3; round++ {
			var mu sync.Mutex
			var wg sync.WaitGroup
			codes := 0
			for i := range 200 {
				wg.Go(func() {
					if ask(t, db, stranger("work", fmt.Sprint(round, "-", i))) != "" {
						mu.Lock()
						defer mu.Unlock()
						codes++
					}
				})
			}
			wg.Wait()
			if rows := count(t, db.path, "pairings"); codes != corebot.MaxOpenPairings ||
				rows != corebot.MaxOpenPairings {
				t.Errorf("round %d: %d codes, %d rows", round, codes, rows)
			}
			time.Sleep(corebot.PairingTime)
		}
		if ask(t, db, stranger("private", "ann")) == "" {
			t.Error("another account has no room")
		}
	})
}

func TestASenderWithoutAUsableIDGetsNoCode(t *testing.T) {
	db := openTest(t, t.TempDir())
	for _, id := range []string{"", "a\x00b", "a\u0085b", "a\nb", "\xff", strings.Repeat("x", corebot.MaxKeyField+1)} {
		p := stranger("work", id)
		p.Chat.Chat = "room"
		if offered, err := NewPairings(db).Offer(t.Context(), p, nil); offered || !errors.Is(err, corebot.ErrInvalid) {
			t.Errorf("%q: %v, %v", id, offered, err)
		}
	}
	if rows := count(t, db.path, "pairings"); rows != 0 {
		t.Errorf("%d rows", rows)
	}
}

// pairCommand sends a /pair of an admin.
func pairCommand(t *testing.T, db *DB, id, code string) (verdict error) {
	t.Helper()
	m := testMessage("admins", id)
	m.Direction, m.Kind = corebot.Control, corebot.KindControl
	by := corebot.AuditEvent{Key: m.Key, Principal: m.Sender, Entry: corebot.EntryCommand, Rule: "pair"}
	_, err := NewPairings(db).Command(t.Context(), m, code, corebot.PairingPaired, by,
		func(_ corebot.Pairing, err error) corebot.Message {
			verdict = err
			return corebot.TextNotice(m.Key, id+"/pair", id, "said", corebot.Notice{Kind: corebot.NoticeCommand})
		})
	must(t, err)
	return verdict
}

func TestGuessedCodesAreCountedInTheDatabaseAndLockTheCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		var code string
		ann := stranger("work", "ann")
		for n := range corebot.MaxPairingFailures + 1 { // each in a process of its own
			must(t, Seed(dir))
			db, err := Open(t.Context(), dir, Options{})
			must(t, err)
			stop := runWriter(db)
			if code == "" {
				code = ask(t, db, ann)
			}
			guess := pairCommand(t, db, fmt.Sprint("guess", n), fmt.Sprintf("AAAAAA%02d", n+22))
			locked := n == corebot.MaxPairingFailures
			if errors.Is(guess, corebot.ErrNotFound) == locked {
				t.Errorf("guess %d: %v", n, guess)
			}
			stop()
			must(t, db.Close())
		}
		db := openTest(t, dir)
		if err := pairCommand(t, db, "right", code); !errors.Is(err, errPairingLocked) {
			t.Errorf("the right code while codes are locked: %v", err)
		}
		wantPaired(t, db, ann.Principal, false)
		must(t, decide(t, db, code, corebot.PairingPaired)) // the operator is not locked out
		wantPaired(t, db, ann.Principal, true)
		bob := stranger("work", "bob")
		time.Sleep(corebot.PairingTime)
		must(t, pairCommand(t, db, "later", ask(t, db, bob)))
		wantPaired(t, db, bob.Principal, true)
	})
}

func TestACodeKeepsItsHourWhenTheClockIsSetBack(t *testing.T) {
	db := openTest(t, t.TempDir())
	code := ask(t, db, stranger("work", "ann"))
	before := sideQuery(t, db.path, "SELECT expires_at FROM pairings")[0]
	must(t, db.write(t.Context(), "test", func(t *tx) error {
		t.writes++ // the transaction does not count the rows of the shift
		return t.conn.shift(t.now, -2*time.Hour)
	}))
	var was, is int64
	_, _ = fmt.Sscan(before, &was)
	_, _ = fmt.Sscan(sideQuery(t, db.path, "SELECT expires_at FROM pairings")[0], &is)
	if code == "" || was-is != (2*time.Hour).Milliseconds() {
		t.Errorf("it expires at %d, and did at %d", is, was)
	}
}
