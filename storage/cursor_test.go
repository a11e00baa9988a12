package storage

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
)

func TestPagesOfDeadLettersHaveEachOnceAlsoOfOneMoment(t *testing.T) {
	db := openTest(t, t.TempDir())
	letters := NewDeadLetters(db)
	var want []string
	for i := range 7 {
		deadReply(t, db, "one", fmt.Sprintf("m%d", i))
	}
	// All letters died in the same millisecond, as the letters of one commit do.
	must(t, db.write(t.Context(), "test", func(t *tx) error {
		_, err := t.exec(&query{`UPDATE message_life SET ended_at = ?`}, time.Now().Add(-time.Minute))
		return err
	}))
	all, err := letters.List(t.Context(), corebot.DeadLetterFilter{})
	must(t, err)
	for _, l := range all {
		want = append(want, l.MessageID)
	}
	var got []string
	after := ""
	for pages := 0; pages == 0 || after != ""; pages++ {
		page, next, err := letters.Page(t.Context(), corebot.DeadLetterFilter{}, after, 3)
		must(t, err)
		for _, l := range page {
			got = append(got, l.MessageID)
		}
		if pages == 0 {
			deadReply(t, db, "one", "later") // in front of the first page
		}
		after = next
	}
	if len(want) != 7 || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the pages have %v, the list %v", got, want)
	}
}

func TestACursorOfAnotherListIsRefused(t *testing.T) {
	db := openTest(t, t.TempDir())
	for _, after := range []string{
		"x", "3", cursor("dead", 1), cursor("dead", "1", "2"), cursor("other", 1, 2),
		cursor("dead", 1, 2)[1:], strings.Repeat("A", 1<<20),
	} {
		if _, _, err := NewDeadLetters(db).Page(t.Context(), corebot.DeadLetterFilter{}, after, 3); !errors.Is(err,
			corebot.ErrInvalid) {
			t.Errorf("the cursor %.100q: %v", after, err)
		} else if len(err.Error()) > 300 {
			t.Errorf("the error repeats a cursor of %d bytes", len(after))
		}
	}
}

// walked are the rows of a list in pages of two, each spelled as one word.
func walked[T any](t *testing.T, page func(after string) ([]T, string, error), spell func(T) string) (all []string) {
	t.Helper()
	for after, pages := "", 0; after != "" || pages == 0; pages++ {
		found, next, err := page(after)
		must(t, err)
		if len(found) > 2 || pages > 20 {
			t.Fatalf("page %d has %d rows", pages, len(found))
		}
		for _, f := range found {
			all = append(all, spell(f))
		}
		after = next
	}
	return all
}

func TestPagesOfEveryListFollowItsOrder(t *testing.T) {
	db, ctx := openTest(t, t.TempDir()), t.Context()
	grants := NewGrants(db)
	for _, id := range []string{"b", "a", "c"} {
		must(t, grants.Grant(ctx, corebot.Grant{
			Principal: corebot.Principal{Channel: "x", ID: id},
			Role:      corebot.RoleAdmin, Chat: chatKey("2"),
		}))
		must(t, grants.Grant(ctx, corebot.Grant{
			Principal: corebot.Principal{Channel: "x", ID: id},
			Role:      corebot.RoleAdmin, Chat: chatKey("1"),
		}))
	}
	must(t, grants.Grant(ctx, corebot.Grant{
		Principal: corebot.Principal{Channel: "x", ID: "a"},
		Role:      corebot.RoleAdmin,
	}))
	must(t, db.write(ctx, "test", func(t *tx) error {
		for _, day := range []string{"2026-01-01", "2026-01-03", "2026-01-02"} {
			for _, key := range []string{"k2", "k1"} {
				for _, model := range []string{"m2", "m1"} {
					if _, err := t.exec(bookDay, day, "main", key, "x", "", "a", model, 1, 1, 1, 0, 0, 0, 0,
						0); err != nil {
						return err
					}
				}
			}
		}
		return nil
	}))
	for name, c := range map[string]struct {
		got  []string
		want string
	}{
		"grants": {walked(t, func(after string) ([]corebot.Grant, string, error) { return grants.Page(ctx, after, 2) },
			func(g corebot.Grant) string {
				return g.Principal.ID + g.Chat.Chat
			}), "[a a1 a2 b1 b2 c1 c2]"},
		"usage": {
			walked(t, func(after string) ([]corebot.UsageRow, string, error) {
				return NewBooks(db).Page(ctx, "2026-01-02", "2026-01-03", after, 2)
			}, func(u corebot.UsageRow) string { return u.Day[8:] + u.Chat + u.Model }),
			"[03k1m1 03k1m2 03k2m1 03k2m2 02k1m1 02k1m2 02k2m1 02k2m2]",
		},
		"audit": {walked(t, func(after string) ([]corebot.AuditEvent, string, error) {
			return NewAudit(db).Page(ctx, corebot.AuditFilter{}, after, 2)
		}, func(e corebot.AuditEvent) string { return fmt.Sprint(e.ID) }), "[7 6 5 4 3 2 1]"},
	} {
		if got := fmt.Sprint(c.got); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestPagesOfApprovalsGoBothWays(t *testing.T) {
	db := openTest(t, t.TempDir())
	for _, chat := range []string{"a", "b", "c"} {
		publishTest(t, db, chat, "1")
		_, err := askAgain(t, db, claimTest(t, db))
		must(t, err)
	}
	for all, want := range map[bool]string{false: "[1 2 3]", true: "[3 2 1]"} {
		ids := walked(t, func(after string) ([]corebot.Approval, string, error) {
			return NewApprovals(db).Page(t.Context(), all, after, 2)
		}, func(a corebot.Approval) string { return fmt.Sprint(a.ID) })
		if got := fmt.Sprint(ids); got != want {
			t.Errorf("with all %v the pages have %s, want %s", all, got, want)
		}
	}
}
