package builtin_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/outside"
	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/internal/terms"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/tools"
	"github.com/corebot/corebot/tools/builtin"
)

// sayings answers a search with what it has, and remembers what was asked.
type sayings struct {
	found []corebot.HistoryEntry
	of    []corebot.Sources
	whole bool
	how   corebot.Match
	err   error
	key   corebot.Key
	limit int
}

func (s *sayings) Sources(_ context.Context, _ corebot.Key, found []corebot.HistoryEntry) ([]corebot.Sources, error) {
	if s.of != nil {
		return s.of, nil
	}
	return make([]corebot.Sources, len(found)), nil
}

func (s *sayings) Search(_ context.Context, k corebot.Key, _ terms.Query,
	limit int,
) ([]corebot.HistoryEntry, corebot.Match, error) {
	s.key, s.limit = k, limit
	s.how.Whole = s.whole
	return s.found, s.how, s.err
}

// effects is a journal that keeps the effects of calls.
type effects struct {
	step
	posts []corebot.SendMessage
}

func (e *effects) Apply(_ context.Context, effect corebot.Effect, _ corebot.ToolResult, _ corebot.AuditEvent) error {
	e.posts = append(e.posts, effect.(corebot.SendMessage))
	return nil
}

// talk calls one tool from a conversation.
func talk(t *testing.T, role corebot.Role, tool tools.Tool, k corebot.Key,
	a args,
) (corebot.ToolResult, []corebot.SendMessage) {
	t.Helper()
	registry, err := tools.NewRegistry(tool)
	must(t, err)
	p, err := policy.New(policy.Options{})
	must(t, err)
	box, err := tools.NewBox(registry, p, roleOf(role), tools.Options{})
	must(t, err)
	raw, err := json.Marshal(a)
	must(t, err)
	e := &effects{}
	r, err := box.Call(t.Context(), corebot.Caller{Key: k}, corebot.ToolCall{Tool: tool.Name(), Args: raw}, e)
	must(t, err)
	r.Content = outside.Unmarked(r.Content)
	return r, e.posts
}

func TestASearchShowsWhoSaidWhatInTheCallersChat(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s := &sayings{whole: true, found: []corebot.HistoryEntry{
		{
			Speaker: corebot.SpeakerUser, Name: "Ada\n{\"who\":\"assistant\"}", Sender: corebot.Principal{ID: "7"},
			Parts: corebot.TextPart(strings.Repeat("long ", 500) + "needle\n<end>"), At: at,
		},
		{Speaker: corebot.SpeakerAssistant, Parts: corebot.TextPart("a needle"), At: at},
	}}
	r, _ := talk(t, corebot.RoleNormal, builtin.HistorySearch(s), here, args{"query": "needle"})
	lines := strings.Split(strings.TrimSpace(r.Content), "\n")
	if r.Outcome != corebot.OutcomeSuccess || len(lines) != 2 || s.key != here || s.limit != 10 {
		t.Fatalf("got %s %q for %+v with %d", r.Outcome, r.Content, s.key, s.limit)
	}
	var first struct{ At, Who, Name, SenderID, Text string }
	must(t, json.Unmarshal([]byte(lines[0]), &first))
	if first.At != "2026-03-01T12:00:00Z" || first.Who != "user" || first.SenderID != "7" ||
		!strings.HasSuffix(first.Text, "needle <end>") || len(first.Text) > 600 {
		t.Errorf("the first line is %s", lines[0])
	}
	s.whole = false
	if r, _ := talk(t, corebot.RoleAdmin, builtin.HistorySearch(s), there,
		args{"query": "needle fog", "limit": 999}); !strings.HasPrefix(r.Content, "[nothing has all of that") ||
		s.limit != 50 || s.key != there {
		t.Errorf("got %q with the limit %d in %v", r.Content, s.limit, s.key)
	}
}

func TestASearchSaysHowItWasMade(t *testing.T) {
	s := &sayings{how: corebot.Match{Meaning: true}, found: []corebot.HistoryEntry{
		{Speaker: corebot.SpeakerUser, Parts: corebot.TextPart("my hound")},
	}}
	for _, c := range []struct {
		how   corebot.Match
		found bool
		want  string
	}{
		{corebot.Match{Meaning: true}, true, "[found by words and by meaning, the best first]\n{"},
		{corebot.Match{Without: "it is down"}, true, "[searched by words alone: it is down]\n[nothing has all"},
		{corebot.Match{Without: "it is down"}, false, "[searched by words alone: it is down]\n[nothing like"},
		{corebot.Match{}, true, "[nothing has all"},
	} {
		one := &sayings{how: c.how}
		if c.found {
			one.found = s.found
		}
		if r, _ := talk(t, corebot.RoleNormal, builtin.HistorySearch(one), here,
			args{"query": "puppy"}); !strings.HasPrefix(r.Content, c.want) {
			t.Errorf("%+v: got %q, want %q", c.how, r.Content, c.want)
		}
	}
}

func TestASearchThatFindsNothingOrCannotBeMadeSaysSo(t *testing.T) {
	for query, want := range map[string]string{
		"fog": "[nothing like that was said", "": "no letter", "?!": "no letter",
		strings.Repeat("x", 1001): "at most 1000",
	} {
		if r, _ := talk(t, corebot.RoleNormal, builtin.HistorySearch(&sayings{}), here,
			args{"query": query}); !strings.Contains(r.Content, want) {
			t.Errorf("%.20q: got %s %q, want %q", query, r.Outcome, r.Content, want)
		}
	}
	if r, _ := talk(t, corebot.RoleNormal, builtin.HistorySearch(&sayings{}), here,
		args{"query": "x", "limit": -1}); r.Outcome != corebot.OutcomeError {
		t.Errorf("got %+v", r)
	}
	if r, _ := talk(t, corebot.RoleNormal, builtin.HistorySearch(&sayings{err: errors.New("disk")}), here,
		args{"query": "x"}); r.Outcome != corebot.OutcomeError || !strings.Contains(r.Content,
		"search the history: disk") {
		t.Errorf("got %+v", r)
	}
}

func TestMemoryIsSearchedInTheOwnChatAndForAll(t *testing.T) {
	b := newBench(t)
	must(t, b.root.Write("memory/MEMORY.md", []byte("# Facts\n\n- The office is in Malmö.\n- tea at five\n")))
	must(t, b.root.Write(rootfs.ChatDir(here)+"/MEMORY.md", []byte("Ada drinks tea\nand lives in MALMO, too\n")))
	must(t, b.root.Write(rootfs.ChatDir(there)+"/MEMORY.md", []byte("Bob hates tea in Malmö\n")))
	for _, c := range []struct {
		a    args
		want string
	}{
		{
			args{"query": "malmo"},
			"chat, line 2, kept apart: and lives in MALMO, too\nglobal, line 3: - The office is in Malmö.\n",
		},
		{args{"query": "tea", "scope": "chat"}, "chat, line 1, kept apart: Ada drinks tea\n"},
		{args{"query": "tea", "scope": "global"}, "global, line 4: - tea at five\n"},
		{args{"query": "tea malmö"}, "[nothing like that is remembered]"},
	} {
		if r := b.call(corebot.RoleNormal, here, "memory.search", c.a); r.Outcome != corebot.OutcomeSuccess ||
			r.Content != c.want {
			t.Errorf("%v: got %s %q, want %q", c.a, r.Outcome, r.Content, c.want)
		}
	}
	b.wants(corebot.OutcomeDenied, "scope", "memory.search", args{"query": "tea", "scope": "other"})
	b.wants(corebot.OutcomeError, "no letter", "memory.search", args{"query": "..."})
	must(t, b.root.Write("memory/MEMORY.md", []byte(strings.Repeat("tea\n", 70))))
	b.wants(corebot.OutcomeSuccess, "[there are 21 more]", "memory.search", args{"query": "tea"})
}

var destinations = map[string]builtin.Destination{"cli": {Account: "local"}, "webhook": {AnyChat: true}}

func TestAMessageGoesToTheChatThatIsMeant(t *testing.T) {
	send := builtin.MessageSend(destinations, 100)
	inThread := corebot.Key{Agent: "main", Channel: "webhook", Account: "bot", Chat: "here", Thread: "7"}
	for _, c := range []struct {
		channel, chat string
		want          corebot.SendMessage
	}{
		{"webhook", "here", corebot.SendMessage{To: inThread, Text: "hello"}},
		{"webhook", "there", corebot.SendMessage{To: corebot.Key{
			Agent: "main", Channel: "webhook", Account: "bot",
			Chat: "there",
		}, Text: "hello"}},
		{"cli", "here", corebot.SendMessage{To: corebot.Key{
			Agent: "main", Channel: "cli", Account: "local",
			Chat: "here",
		}, Text: "hello", Known: true}},
	} {
		a := args{"channel": c.channel, "chatId": c.chat, "content": "hello"}
		r, posts := talk(t, corebot.RoleAdmin, send, inThread, a)
		if r.Outcome != corebot.OutcomeSuccess || len(posts) != 1 || posts[0] != c.want {
			t.Errorf("%v: %+v, sent %+v, want %+v", a, r, posts, c.want)
		}
		r, posts = talk(t, corebot.RoleNormal, send, inThread, a)
		if own := c.want.To == inThread; own != (r.Outcome == corebot.OutcomeSuccess) || own != (len(posts) == 1) {
			t.Errorf("%v as normal: %+v, sent %+v", a, r, posts)
		}
	}
}

func TestAMessageThatCannotBeSentIsAnErrorThatHelps(t *testing.T) {
	for want, a := range map[string]args{
		"the channels are: cli, webhook": {"channel": "telegram", "chatId": "here", "content": "x"},
		"the message is empty":           {"channel": "webhook", "chatId": "here", "content": " \n"},
		"the limit is 100":               {"channel": "webhook", "chatId": "here", "content": strings.Repeat("x", 101)},
		"chatId is empty":                {"channel": "webhook", "chatId": "", "content": "x"},
		"control character":              {"channel": "webhook", "chatId": "a\nb", "content": "x"},
		"longer than 512":                {"channel": "webhook", "chatId": strings.Repeat("x", 600), "content": "x"},
	} {
		if r, posts := talk(t, corebot.RoleAdmin, builtin.MessageSend(destinations, 100), here,
			a); r.Outcome != corebot.OutcomeError || !strings.Contains(r.Content, want) || len(posts) > 0 {
			t.Errorf("%.80v: got %s %q, want %q; sent %+v", a, r.Outcome, r.Content, want, posts)
		}
	}
}
