package storage

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/long"
)

// Every bit of a stored body in turn: whoever gets the message is told that it is damaged, unless it is what it was.
func TestNoFlippedBitOfABodyChangesWhatIsRun(t *testing.T) {
	dir := t.TempDir()
	var bits int
	earlier(t, dir, func(db *DB) {
		publishTest(t, db, "chat", "1")
		bits = 8 * len(sideQuery(t, dir, `SELECT body FROM message_queue`)[0])
		var others []corebot.Message
		for bit := 1; bit < bits; bit++ {
			others = append(others, testMessage(fmt.Sprint("chat", bit), "1"))
		}
		_, err := NewQueue(db).Publish(t.Context(), others, corebot.Limits{})
		must(t, err)
	})
	flipBodies(t, dir)
	db := openTest(t, dir)
	damaged := 0
	for range bits {
		d := claimTest(t, db)
		if d.Damaged != nil {
			damaged++
		} else if got := d.Message; got.ID != "1" || got.Text() != "text of 1" ||
			got.Sender != testMessage("", "1").Sender || got.SenderName != "" ||
			got.InReplyTo != "" || len(got.Metadata) > 0 || len(got.Parts) != 1 {
			t.Errorf("delivered for good: %+v", got)
		}
		must(t, NewQueue(db).Settle(t.Context(), d, corebot.Outcome{Verb: corebot.Dead, Reason: "damaged"}))
	}
	if damaged < bits*3/4 {
		t.Errorf("only %d of %d flipped bits were noticed", damaged, bits)
	}
	letters, err := NewDeadLetters(db).List(t.Context(), corebot.DeadLetterFilter{Reason: "damaged"})
	if err != nil || len(letters) != bits {
		t.Errorf("%d of %d are dead letters: %v", len(letters), bits, err)
	}
	healthy(t, db)
}

// flipBodies flips another bit in every stored body.
func flipBodies(t *testing.T, dir string) {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(dir, FileName))
	must(t, err)
	defer db.Close() //nolint:errcheck // a test's own connection
	db.SetMaxOpenConns(1)
	var body []byte
	must(t, db.QueryRow(`SELECT body FROM message_queue ORDER BY life_id`).Scan(&body))
	for bit := range 8 * len(body) {
		flipped := bytes.Clone(body)
		flipped[bit/8] ^= 1 << (bit % 8)
		res,
			err := db.Exec(
			`UPDATE message_queue SET body = ? WHERE life_id = (SELECT MIN(life_id) + ? FROM message_queue)`, flipped,
			bit)
		must(t, err)
		if n, err := res.RowsAffected(); n != 1 || err != nil {
			t.Fatalf("bit %d: %d rows, %v", bit, n, err)
		}
	}
}

// A bit that flips in the page of a body, where SQLite keeps no checksum.
func TestABodyThatChangedInTheFileIsDeliveredAsDamaged(t *testing.T) {
	dir := t.TempDir()
	wholeDatabase(t, dir)
	path := filepath.Join(dir, FileName)
	file, err := os.ReadFile(path)
	must(t, err)
	at := bytes.Index(file, []byte("text of 1"))
	if at < 0 {
		t.Fatal("the body is not in the file")
	}
	file[at] ^= 1
	must(t, os.WriteFile(path, file, 0o600))
	db := openTest(t, dir)
	if d := claimTest(t, db); d.Message.ID != "1" || d.Damaged == nil {
		t.Errorf("delivered as %+v", d)
	}
}

func TestADirectionThatDoesNotExistKeepsNothingElseFromRunning(t *testing.T) {
	dir := t.TempDir()
	earlier(t, dir, func(db *DB) {
		publishTest(t, db, "a", "1")
		publishTest(t, db, "b", "2")
	})
	sideQuery(t, dir, `UPDATE lanes SET direction = direction + 16 WHERE chat = 'a'`)
	db := openTest(t, dir)
	for range 2 {
		d := claimTest(t, db)
		must(t, NewQueue(db).Settle(t.Context(), d, corebot.Outcome{Verb: corebot.Dead, Reason: "test"}))
	}
	publishTest(t, db, "b", "3")
}

// variety makes a small database with something in every table that matters here, and gives its bytes and the texts of
// its messages.
func variety(t *testing.T) (file []byte, texts map[string]bool) {
	t.Helper()
	texts = map[string]bool{}
	dir := t.TempDir()
	earlier(t, dir, func(db *DB) {
		w := newWorkload(db, func() int { return 0 })
		w.run(chats("chat", 3), 2, func(place int) bool { return place == 8 })
		for place := range 8 {
			w.publish("waiting", place)
		}
		for id, r := range w.book {
			texts[testMessage(r.chat, id).Text()] = true
		}
	})
	file, err := os.ReadFile(filepath.Join(dir, FileName))
	must(t, err)
	return file, texts
}

// The checksum covers what was said, not under which id: an id that changed in the file must not have another message's
// answer.
func TestAMessageWhoseIDChangedInTheFileIsDeliveredAsDamaged(t *testing.T) {
	dir := t.TempDir()
	db := openTest(t, dir)
	publishTest(t, db, "a", "1")
	sideQuery(t, dir, `UPDATE message_life SET message_id = '3'`)
	if d := claimTest(t, db); d.Damaged == nil {
		t.Errorf("it is delivered as %q", d.Message.ID)
	}
}

var flippedDatabases = long.Int("bitflip.databases", 15, 200, "databases of which up to eight bits are flipped")

// The test damages only the database's file, not the log. In the log SQLite takes a frame with a wrong checksum, and
// all frames after it, for the rest of a write that a power cut tore. Nobody can tell the two cases apart.
func TestADatabaseWithFlippedBitsWorksOrSaysThatItIsDamaged(t *testing.T) {
	chance := rand.New(rand.NewPCG(5, 5))
	whole, texts := variety(t)
	count := map[string]int{}
	met := func() bool { return count["refused"] > 0 && count["damage is reported"] > 0 && count["works"] > 0 }
	// Few bits are where only a check of the whole file finds them: one database of fifty is damaged there.
	for i := 0; i < flippedDatabases() || !met() && i < 500; i++ {
		file := bytes.Clone(whole)
		for range 1 + chance.IntN(8) {
			file[chance.IntN(len(file))] ^= 1 << chance.IntN(8)
		}
		dir := t.TempDir()
		must(t, os.WriteFile(filepath.Join(dir, FileName), file, 0o600))
		count[tryDamaged(t, dir, file, texts)]++
	}
	t.Log(count)
	if !met() {
		t.Errorf("not every way was met: %v", count)
	}
}

// tryDamaged uses a database that has flipped bits and says what came of it.
func tryDamaged(t *testing.T, dir string, file []byte, texts map[string]bool) string {
	t.Helper()
	db, err := Open(t.Context(), dir, Options{})
	if err != nil {
		if now, e := os.ReadFile(filepath.Join(dir, FileName)); e != nil || !bytes.Equal(now, file) {
			t.Errorf("refused with %v, and the file was changed: %v", err, e)
		}
		return "refused"
	}
	defer running(t, db)()
	_, listErr := NewDeadLetters(db).List(t.Context(), corebot.DeadLetterFilter{})
	_, findErr := NewLives(db).Find(t.Context(), messageID("waiting", 3))
	problems, checkErr := db.Problems(t.Context())
	reported := len(problems) > 0 || cmp.Or(checkErr, listErr, findErr) != nil
	deliveries, claimErr := claimDamaged(t, db, reported)
	for _, d := range deliveries {
		if d.Damaged == nil && !texts[d.Message.Text()] {
			t.Errorf("a changed text is delivered for good: %+v", d.Message)
		}
	}
	found, _, readErr := keptMessages(db)
	if reported || cmp.Or(claimErr, readErr) != nil {
		return "damage is reported"
	}
	if len(found) != len(texts) {
		t.Errorf("%d messages of %d are there, and nobody says a word", len(found), len(texts))
	}
	return "works"
}

// claimDamaged claims what is due. Damage that keeps it from being found may keep the claim waiting if it is reported
// elsewhere, and only then: a claim without an end is no report.
func claimDamaged(t *testing.T, db *DB, reported bool) ([]corebot.Delivery, error) {
	t.Helper()
	patience := time.Minute
	if reported {
		patience = 50 * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	deliveries, err := NewQueue(db).Claim(ctx, corebot.InboundPool, 9, corebot.ClaimOptions{Lease: time.Minute})
	if errors.Is(err, context.DeadlineExceeded) {
		if !reported {
			t.Fatal("a claim waits for what is due, and nobody says a word")
		}
		return nil, nil
	}
	return deliveries, err
}
