package storage

import (
	"fmt"
	"testing"

	"github.com/corebot/corebot"
)

func mail(chat, id string) corebot.Message {
	return corebot.Message{
		ID: id, Direction: corebot.Outbound, Kind: corebot.KindReply, InReplyTo: "q-" + id, Parts: corebot.TextPart("text of " + id),
		Key: corebot.Key{Agent: "main", Channel: "webhook", Chat: chat},
	}
}

func TestAMailboxIsReadByCursorAndReadingTakesNothingAway(t *testing.T) {
	db := openTest(t, t.TempDir())
	box := NewMailbox(db)
	for i := range 5 {
		for range 2 { // posting again changes nothing
			if err := box.Post(t.Context(), mail("one", fmt.Sprint(i))); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := box.Post(t.Context(), mail("two", "0")); err != nil {
		t.Fatal(err)
	}
	key := mail("one", "").Key
	all, err := box.After(t.Context(), key, 0, 10)
	if last, lastErr := box.Last(t.Context(), key); err != nil || lastErr != nil || last != all[len(all)-1].Cursor {
		t.Errorf("the last cursor is %d of %+v: %v %v", last, all, err, lastErr)
	}
	if last, err := box.Last(t.Context(), mail("empty", "").Key); last != 0 || err != nil {
		t.Errorf("an empty list ends at %d: %v", last, err)
	}
	for range 2 {
		first, err := box.After(t.Context(), key, 0, 3)
		if err != nil || len(first) != 3 {
			t.Fatalf("the first page: %v %v", first, err)
		}
		rest, err := box.After(t.Context(), key, first[2].Cursor, 10)
		if err != nil || len(rest) != 2 {
			t.Fatalf("the second page: %v %v", rest, err)
		}
		for i, p := range append(first, rest...) {
			if p.ID != fmt.Sprint(i) || p.InReplyTo != "q-"+p.ID || p.Content != "text of "+p.ID || p.Kind != corebot.KindReply || p.CreatedAt.IsZero() {
				t.Errorf("message %d came back as %+v", i, p)
			}
		}
	}
}
