package storage

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/corebot/corebot"
)

func TestAHistoryIsReadBackwardsPageByPageThroughAllSessions(t *testing.T) {
	db := openTest(t, t.TempDir())
	var want []string
	for i := range 5 {
		user, agent := fmt.Sprintf("question %d", i), fmt.Sprintf("answer %d", i)
		dialogue(t, db, "a", fmt.Sprint(i), user, agent)
		dialogue(t, db, "b", fmt.Sprint(i), "of another chat", "of another chat")
		want = append(want, user, agent)
		if i == 2 {
			must(t, NewChats(db).Reset(t.Context(), testKey("a")))
		}
	}
	slices.Reverse(want)
	var got []string
	for before := ""; ; {
		page, err := NewHistory(db).Before(t.Context(), testKey("a"), before, 3)
		must(t, err)
		if len(page) == 0 {
			break
		}
		for _, e := range page {
			got, before = append(got, e.Text), e.Place
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the pages have %q, want %q", got, want)
	}
	if none, err := NewHistory(db).Before(t.Context(), testKey("nobody"), "", 3); len(none) != 0 || err != nil {
		t.Errorf("a chat that nobody knows: %v %v", none, err)
	}
	for _, bad := range []string{"x", "1", "1.2", "1.2.3.4", "1.2.x", "-1.2.3", "1..3", "99999999999999999999.1.1"} {
		if _, err := NewHistory(db).Before(t.Context(), testKey("a"), bad, 3); !errors.Is(err, corebot.ErrInvalid) {
			t.Errorf("the place %q: %v", bad, err)
		}
	}
}

func TestChatsAreReadPageByPage(t *testing.T) {
	db := openTest(t, t.TempDir())
	for i := range 7 {
		must(t, NewChats(db).Register(t.Context(), testKey(fmt.Sprint(i)), true, ""))
	}
	must(t, NewChats(db).Register(t.Context(), corebot.Key{Agent: "main", Channel: "elsewhere", Chat: "x"}, true, ""))
	for channel, want := range map[string]int{"": 8, testKey("").Channel: 7, "nowhere": 0} {
		seen := map[corebot.Key]bool{}
		for after := int64(0); ; {
			page, err := NewChats(db).Page(t.Context(), channel, after, 3)
			must(t, err)
			if len(page) == 0 {
				break
			}
			for _, c := range page {
				if seen[c.Key] || c.ID <= after {
					t.Fatalf("chat %s came twice, or out of order", c.Key)
				}
				seen[c.Key], after = true, c.ID
			}
		}
		if len(seen) != want {
			t.Errorf("channel %q: %d chats, want %d", channel, len(seen), want)
		}
	}
}

func TestTheAnswersToAMessageAreFoundAmongTheRepliesOfItsChat(t *testing.T) {
	db := openTest(t, t.TempDir())
	box := NewMailbox(db)
	for _, id := range []string{"1", "2", "3"} {
		must(t, box.Post(t.Context(), mail("one", id)))
		must(t, box.Post(t.Context(), mail("two", id)))
	}
	key := mail("one", "").Key
	found, err := box.Answers(t.Context(), key, "q-2", 0, 10)
	if err != nil || len(found) != 1 || found[0].ID != "2" || found[0].Content != "text of 2" || found[0].Kind != corebot.KindReply {
		t.Fatalf("found %+v: %v", found, err)
	}
	if behind, err := box.Answers(t.Context(), key, "q-2", found[0].Cursor, 10); len(behind) != 0 || err != nil {
		t.Errorf("behind it there is %+v: %v", behind, err)
	}
}

func TestWhatClientsBrowseIsFoundWithoutAScan(t *testing.T) {
	path := planned(t)
	for name, q := range map[string]*query{
		"chatsBehind": chatsBehind, "saidBefore": saidBefore, "answers": answers,
		"selectClientCall": selectClientCall, "trimClientCalls": trimClientCalls,
	} {
		if got := plan(t, path, q); got == "" || strings.Contains(got, "SCAN") || strings.Contains(got, "TEMP B-TREE") {
			t.Errorf("%s:\n%s", name, got)
		}
	}
}
