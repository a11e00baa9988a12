package storage

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
)

func TestAHealthyDatabaseHasNoProblems(t *testing.T) {
	db := openTest(t, t.TempDir())
	q := NewQueue(db)
	for _, chat := range []string{"a", "a", "b", "c", "d"} {
		publishTest(t, db, chat, chat+time.Now().String())
	}
	for _, o := range []corebot.Outcome{
		{Verb: corebot.Done, End: corebot.EndAnswered},
		{Verb: corebot.Dead, Reason: "test"},
		{Verb: corebot.RetryAt, At: time.Now().Add(time.Hour)},
	} {
		must(t, q.Settle(context.Background(), claimTest(t, db), o))
	}
	claimTest(t, db)
	problems, err := db.Problems(context.Background())
	if err != nil || len(problems) > 0 {
		t.Fatalf("%v %v", problems, err)
	}
}

func TestPlantedProblemsAreFound(t *testing.T) {
	for plant, want := range map[string]string{
		`UPDATE lanes SET depth = depth + 1`:                      "says it has 3 messages and has 2",
		`UPDATE lanes SET bytes = bytes + 7`:                      "bytes and has",
		`UPDATE lanes SET wake_at = NULL`:                         "is never due",
		`UPDATE lanes SET depth = 0`:                              "is empty and due",
		`DELETE FROM message_queue WHERE life_id = 1`:             "message 1 has not ended and is not in the queue",
		`UPDATE message_life SET "end" = 'answered' WHERE id = 2`: "message 2 has ended and is still in the queue",

		`INSERT INTO message_queue (life_id, lane_id, seq, body) VALUES (99, 1, 9, x'00')`: "refers to a missing row",

		`UPDATE message_life SET lane_id = 4711 WHERE id = 1`: "refers to a missing row of lanes",
	} {
		db := openTest(t, t.TempDir())
		publishTest(t, db, "chat", "1")
		publishTest(t, db, "chat", "2")
		sideQuery(t, db.path, plant)
		problems, err := db.Problems(context.Background())
		if err != nil || !strings.Contains(strings.Join(problems, "\n"), want) {
			t.Errorf("%s: found %q, %v", plant, problems, err)
		}
	}
}
