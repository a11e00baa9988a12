package llm

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/corebot/corebot"
)

var allowedName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func request(offered []string, past ...string) Request {
	var r Request
	for _, n := range offered {
		r.Tools = append(r.Tools, Tool{Name: n})
	}
	for _, n := range past {
		r.Messages = append(r.Messages, Message{Role: Assistant, Calls: []corebot.ToolCall{{Tool: n}}})
	}
	return r
}

func TestNamesStayReadable(t *testing.T) {
	n := NewNames(request([]string{"fs.read", "chat.set_role", "mcp__files__read", "bus.dead_letter.list"}))
	for name, want := range map[string]string{
		"fs.read": "fs_read", "chat.set_role": "chat_set_role", "mcp__files__read": "mcp__files__read",
		"bus.dead_letter.list": "bus_dead_letter_list",
	} {
		if got := n.Encode(name); got != want || n.Decode(got) != name {
			t.Errorf("%s is encoded as %s, and that decoded as %s", name, got, n.Decode(got))
		}
	}
}

func TestCollidingNamesAreHashedAndAValidNameKeepsItself(t *testing.T) {
	n := NewNames(request([]string{"fs.read", "fs_read", "a.b.c", "a.b_c"}))
	if n.Encode("fs_read") != "fs_read" || n.Encode("fs.read") == "fs_read" {
		t.Errorf("fs_read is %s, fs.read is %s", n.Encode("fs_read"), n.Encode("fs.read"))
	}
	if a, b := n.Encode("a.b.c"), n.Encode("a.b_c"); a == b || a == "a_b_c" || b == "a_b_c" {
		t.Errorf("a.b.c is %s, a.b_c is %s", a, b)
	}
}

func TestAToolThatIsCalledLikeAHashDoesNotCollide(t *testing.T) {
	first := hashedName("fs.read", 0)
	n := NewNames(request([]string{"fs.read", "fs_read", first}))
	if got := n.Encode("fs.read"); got == first || n.Decode(got) != "fs.read" || n.Decode(first) != first {
		t.Errorf("fs.read is encoded as %s", got)
	}
}

func TestHistoryNeverChangesHowAnOfferedToolIsCalled(t *testing.T) {
	n := NewNames(request([]string{"fs.read"}, "fs_read", "fs-read", "fs.read"))
	if n.Encode("fs.read") != "fs_read" {
		t.Errorf("fs.read is encoded as %s", n.Encode("fs.read"))
	}
	if e := n.Encode("fs_read"); e == "fs_read" || n.Decode(e) != "fs_read" {
		t.Errorf("the unknown tool of the history is encoded as %s", e)
	}
}

func TestAGrowingHistoryKeepsItsNames(t *testing.T) {
	before := NewNames(request(nil, "x.y"))
	after := NewNames(request(nil, "x.y", "x_y"))
	if before.Encode("x.y") != after.Encode("x.y") {
		t.Errorf("x.y was %s and became %s", before.Encode("x.y"), after.Encode("x.y"))
	}
}

func TestLongNamesAreShortenedAndStayApart(t *testing.T) {
	a, b := strings.Repeat("long.", 20)+"a", strings.Repeat("long.", 20)+"b"
	n := NewNames(request([]string{a, b}))
	if n.Encode(a) == n.Encode(b) || !allowedName.MatchString(n.Encode(a)) || n.Decode(n.Encode(b)) != b {
		t.Errorf("%s and %s", n.Encode(a), n.Encode(b))
	}
}

func TestAnInventedNameDecodesToItself(t *testing.T) {
	n := NewNames(request([]string{"fs.read"}))
	for _, name := range []string{"make_coffee", "fs.read", "", "日本"} {
		if got := n.Decode(name); got != name {
			t.Errorf("%q became %q", name, got)
		}
	}
}

func TestTheOrderOfToolsDoesNotMatter(t *testing.T) {
	names := []string{"a.b", "a_b", "a-b", "a b", "", strings.Repeat("x", 65)}
	forth := NewNames(request(names))
	slices.Reverse(names)
	back := NewNames(request(names))
	for _, name := range names {
		if forth.Encode(name) != back.Encode(name) {
			t.Errorf("%q: %s or %s", name, forth.Encode(name), back.Encode(name))
		}
	}
}

func FuzzNamesAreReversible(f *testing.F) {
	f.Add("fs.read\nfs_read", "fs_read\nx")
	f.Add("a.b\na_b\na b\n", "a.b.c\na_b_c")
	f.Add(strings.Repeat("y", 70)+"\n"+hashedName("fs.read", 0)+"\nfs.read\nfs_read", "日本\n\xff")
	f.Fuzz(func(t *testing.T, offered, past string) {
		tools, history := strings.Split(offered, "\n"), strings.Split(past, "\n")
		n := NewNames(request(tools, history...))
		seen := make(map[string]string)
		for _, name := range append(tools, history...) {
			e := n.Encode(name)
			if !allowedName.MatchString(e) {
				t.Fatalf("%q is encoded as %q", name, e)
			}
			if other, taken := seen[e]; taken && other != name {
				t.Fatalf("%q and %q are both %q", name, other, e)
			}
			seen[e] = name
			if n.Decode(e) != name {
				t.Fatalf("%q comes back as %q", name, n.Decode(e))
			}
		}
		alone := NewNames(request(tools))
		for _, name := range tools {
			if n.Encode(name) != alone.Encode(name) {
				t.Fatalf("the history changed %q", name)
			}
		}
	})
}

func TestAToolThatIsOfferedTwiceDoesNotCollideWithItself(t *testing.T) {
	if got := NewNames(request([]string{"fs.read", "x", "fs.read"})).Encode("fs.read"); got != "fs_read" {
		t.Errorf("fs.read is encoded as %s", got)
	}
}

func TestWhatIsKeptOfTheOfferedToolsKnowsNothingOfAHistory(t *testing.T) {
	offered := OfferedNames(request([]string{"fs.read"}).Tools)
	past := request(nil, "fs_read", "fs.read").Messages
	for range 2 {
		n := offered.With(past)
		if e := n.Encode("fs_read"); n.Encode("fs.read") != "fs_read" || e == "fs_read" || n.Decode(e) != "fs_read" {
			t.Errorf("fs.read is %s, fs_read of the history is %s", n.Encode("fs.read"), e)
		}
	}
	if _, known := offered.encoded["fs_read"]; known || offered.With(request(nil, "fs.read").Messages) != offered {
		t.Error("a history has changed what is kept, or one that calls nothing new has copied it")
	}
}
