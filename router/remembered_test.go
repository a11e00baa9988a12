package router_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/memory"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/router"
	"github.com/corebot/corebot/storage"
)

// remembering is what chats remember: real pages on a real workspace, and real facts.
type remembering struct {
	*memory.Store
	*storage.Facts
}

func (r *remembering) ForgetFor(ctx context.Context, by corebot.AuditEvent, k corebot.Key, ids []int64,
	may func(corebot.Fact) bool,
) (int, error) {
	return r.As(by).Forget(ctx, k, ids, may)
}

var _ router.Remembered = (*remembering)(nil)

func newRemembering(t *testing.T) (*linking, *remembering) {
	root, err := rootfs.New(filepath.Join(t.TempDir()))
	must(t, err)
	t.Cleanup(func() { _ = root.Close() })
	from, r := &sources{}, &remembering{}
	r.Store, err = memory.New(root, memory.Options{Sources: from})
	must(t, err)
	model := apptest.Always(apptest.Text("hm"))
	k := apptest.New(t, apptest.Options{Model: model, Router: router.Options{Remembered: r}})
	from.Chats, r.Facts = storage.NewChats(k.DB), storage.NewFacts(k.DB)
	return &linking{Kit: k.Start(), t: t, model: model}, r
}

// remember has somebody say a line, and a fact about himself.
func (l *linking) remember(r *remembering, who, chat, line string) {
	l.t.Helper()
	_, err := r.Remember(l.t.Context(), apptest.Key(chat), memory.Edit{Text: line},
		corebot.MemoryNote{Sender: apptest.Person(who), MessageID: "m-" + who, At: time.Now()}, nil)
	must(l.t, err)
	must(l.t, r.Learn(l.t.Context(), corebot.Fact{
		Key: apptest.Key(chat), Scope: corebot.FactsOfChat, Subject: who, Relation: "says", Object: line,
		Sender: apptest.Person(who), At: time.Now(),
	}))
}

// numberOf is the number of the row that has a text.
func (l *linking) numberOf(list, text string) string {
	l.t.Helper()
	found := regexp.MustCompile(`- ([LF]\d+) [^\n]*` + regexp.QuoteMeta(text)).FindStringSubmatch(list)
	if found == nil {
		l.t.Fatalf("%q is not in %q", text, list)
	}
	return found[1]
}

func TestAChatShowsAndForgetsWhatItRemembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, r := newRemembering(t)
		l.want("bob", "a", "/memory", "Nothing is remembered in this chat.")
		l.remember(r, "ann", "a", "tea is green")
		l.remember(r, "bob", "a", "tea is black")
		l.remember(r, "eve", "b", "a secret of b")
		list := l.says("bob", "a", "/memory")
		for _, want := range []string{
			"tea is green (by " + apptest.Person("ann").Label(), "tea is black (by you",
			"bob · says · tea is black (by you",
		} {
			if !strings.Contains(list, want) {
				t.Errorf("the list has no %q: %s", want, list)
			}
		}
		if strings.Contains(list, "secret") {
			t.Errorf("a lists what b remembers: %s", list)
		}
		green, black := l.numberOf(list, "tea is green"), l.numberOf(list, "tea is black")
		annsFact, bobsFact := l.numberOf(list, "ann · says"), l.numberOf(list, "bob · says")
		l.want("bob", "a", "/memory green", "tea is green")
		if got := l.says("bob", "a", "/memory green"); strings.Contains(got, "black") {
			t.Errorf("it found %q", got)
		}
		l.want("bob", "a", "/memory red", "Nothing with these words")
		for _, bad := range []string{"", "1", "L", "L12", "F", "X1", "L12345678901", "F-1", "F1;2"} {
			l.want("bob", "a", "/memory forget "+bad, "Say which")
		}

		// Nobody forgets what others said, and no chat what is another's.
		l.want("bob", "a", fmt.Sprintf("/memory forget %s %s", green, annsFact), "2 of them are of others")
		secret := l.says("eve", "b", "/memory")
		l.want("bob", "a", fmt.Sprintf("/memory forget %s %s", l.numberOf(secret, "a secret of b ("),
			l.numberOf(secret, "eve · says")), "2 numbers mean nothing")
		if now := l.says("eve", "b", "/memory"); now != secret {
			t.Errorf("b has %q, and had %q", now, secret)
		}
		l.want("bob", "a", fmt.Sprintf("/memory forget %s, %s", strings.ToLower(black), bobsFact),
			"Forgotten: 1 line and 1 fact.")
		l.want("bob", "a", "/memory forget "+black+" "+bobsFact, "2 numbers mean nothing")
		list = l.says("bob", "a", "/memory")
		if strings.Contains(list, "black") || l.numberOf(list, "tea is green") != green {
			t.Errorf("the list is %q", list)
		}
		// An admin of the chat can.
		here := corebot.Grant{Principal: apptest.Person("root"), Role: corebot.RoleAdmin, Chat: apptest.Key("a")}
		must(t, l.Grants.Grant(t.Context(), here))
		l.want("root", "b", "/memory forget "+l.numberOf(secret, "eve · says"), "of others")
		l.want("root", "a", "/memory forget "+green+" "+annsFact, "Forgotten: 1 line and 1 fact.")
		l.want("root", "a", "/memory", "Nothing is remembered")
		l.audited(map[string]int{
			"bob forget denied": 1, "bob memory success": 1, "bob facts.forget success": 1,
			"root memory success": 1, "root facts.forget success": 1,
		})
	})
}

// Digits that two lines begin with forget neither, nor anything else of the command. The answer has the lines with
// numbers that tell them apart.
func TestDigitsOfTwoLinesForgetNeither(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, r := newRemembering(t)
		seen, one, two, digits := map[string]string{}, "", "", ""
		for i := 0; two == ""; i++ {
			text := fmt.Sprint("note ", i)
			sum := sha256.Sum256([]byte(text))
			all := fmt.Sprintf("%09d", binary.BigEndian.Uint64(sum[:])%1e9)
			if digits = all[:6]; seen[digits] != "" {
				one, two = seen[digits], text
			}
			seen[digits] = text
		}
		l.remember(r, "bob", "a", one)
		first := l.numberOf(l.says("bob", "a", "/memory"), one+" (")
		if first != "L"+digits {
			t.Fatalf("alone the line is %s, want %s", first, digits)
		}
		l.remember(r, "bob", "a", two)
		l.remember(r, "bob", "a", "a third line")
		list := l.says("bob", "a", "/memory")
		third := l.numberOf(list, "a third line (")
		answer := l.says("bob", "a", "/memory forget "+third+" "+first)
		a, b := l.numberOf(answer, one), l.numberOf(answer, two)
		if !strings.Contains(answer, "several lines") || a == b || len(a) < len("L1234567") ||
			strings.Contains(answer, "third") {
			t.Errorf("the answer is %q", answer)
		}
		if now := l.says("bob", "a", "/memory"); now != list {
			t.Errorf("the list was %q, and is %q", list, now)
		}
		l.want("bob", "a", "/memory forget L4711", "Say which") // four digits can soon be those of another line
		l.want("bob", "a", "/memory forget "+b, "Forgotten: 1 line")
		if now := l.says("bob", "a", "/memory"); !strings.Contains(now, "- "+first+" "+one) ||
			strings.Contains(now, "- "+first+" "+two) || strings.Contains(now, b) {
			t.Errorf("the list is %q", now)
		}
	})
}

// audited counts the events of commands that forget, by sender, event and outcome.
func (l *linking) audited(want map[string]int) {
	l.t.Helper()
	events, _, err := storage.NewAudit(l.DB).Page(l.t.Context(), corebot.AuditFilter{}, "", 1000)
	must(l.t, err)
	got := map[string]int{}
	for _, e := range events {
		if e.Event == "memory" || e.Event == "facts.forget" {
			name := e.Event
			if e.Outcome == corebot.OutcomeDenied {
				name = "forget"
			}
			got[fmt.Sprintf("%s %s %s", e.Principal.ID, name, e.Outcome)]++
		}
	}
	for name, n := range want {
		if got[name] < n {
			l.t.Errorf("the audit has %v, want %s", got, name)
		}
	}
}

// Only an admin forgets the lines of an unknown author and those that the operator stands for. A long list has a bound,
// and no line of it can be a command of a terminal.
func TestLinesOfNobodyAreTheAdmins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, r := newRemembering(t)
		l.remember(r, "ann", "a", "one")
		must(t, r.Append(memory.Chat(apptest.Key("a")), "by hand \u202e\x1b[31m"))
		list := l.says("ann", "a", "/memory")
		if strings.ContainsAny(list, "\u202e\x1b") {
			t.Errorf("the list has %q", list)
		}
		l.want("ann", "a", "/memory forget "+l.numberOf(list, "by hand"), "1 of them are of others")
		pieces, _, err := r.Pieces(t.Context(), apptest.Key("a"))
		must(t, err)
		must(t, r.Trust(t.Context(), apptest.Key("a"), memory.Sum(pieces),
			corebot.MemoryNote{Sender: apptest.Person("ann")}))
		l.want("ann", "a", "/memory forget "+l.numberOf(list, "one ("), "1 of them are of others")
		for i := range 300 {
			l.remember(r, "ann", "a", fmt.Sprint("line number ", i, " of many"))
		}
		list = l.says("ann", "a", "/memory")
		if len(list) > 8<<10 || !strings.Contains(list, "more: /memory WORDS finds them") {
			t.Errorf("the list has %d bytes: %s", len(list), list)
		}
		l.want("ann", "a", "/memory number 299", "line number 299 of many")
	})
}

// A page that somebody has made too large with an editor can be listed, and no number means a line of it.
func TestNoLineOfAPageThatIsTooLargeIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		root, err := rootfs.New(dir)
		must(t, err)
		defer root.Close() //nolint:errcheck // of a test
		from, r := &sources{}, &remembering{}
		r.Store, err = memory.New(root, memory.Options{Sources: from})
		must(t, err)
		model := apptest.Always(apptest.Text("hm"))
		k := apptest.New(t, apptest.Options{Model: model, Router: router.Options{Remembered: r}})
		from.Chats, r.Facts = storage.NewChats(k.DB), storage.NewFacts(k.DB)
		l := &linking{Kit: k.Start(), t: t, model: model}
		l.remember(r, "ann", "a", "tea is green")
		n := l.numberOf(l.says("ann", "a", "/memory green"), "tea is green (")
		path := filepath.Join(dir, string(memory.Of(apptest.Key("a"))))
		page, err := os.ReadFile(path)
		must(t, err)
		must(t, os.WriteFile(path, append(page, strings.Repeat("x another line of the page\n", 4000)...), 0o600))
		if list := l.says("ann", "a", "/memory green"); !strings.Contains(list, "too large") ||
			strings.Contains(list, "such as L") {
			t.Errorf("it lists %q", list)
		}
		l.want("ann", "a", "/memory forget "+n, "an operator shortens the page first")
		l.want("ann", "a", "hello", "hm")
	})
}
