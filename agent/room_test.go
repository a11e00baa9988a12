package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/storage"
)

func TestATurnStaysWithinTheContextHoweverMuchItsToolsReturn(t *testing.T) {
	n := 0
	model := apptest.Always(func(ctx context.Context, r llm.Request, onText func(string)) (corebot.Answer, error) {
		if len(r.Tools) == 0 {
			return apptest.Text("done")(ctx, r, onText)
		}
		n++
		return apptest.Asks(call("a", search, fmt.Sprint("first ", n)),
			call("b", search, fmt.Sprint("second ", n)))(ctx, r, onText)
	})
	b := newBench(t, apptest.Options{Model: model, Agent: agent.Options{
		ContextTokens: 3_000, OutputTokens: 500,
		MaxIterations: 10,
	}})
	b.more = strings.Repeat(" word", 700)
	if _, err := b.turn(t, "go"); err != nil {
		t.Fatal(err)
	}
	wantLastWord(t, model, 10)
	for i, r := range model.Requests() {
		if got := tokens(r); got > 2_500 {
			t.Errorf("request %d has %d tokens", i, got)
		}
		if !slices.ContainsFunc(r.Messages, func(m llm.Message) bool { return m.Text == "go" }) {
			t.Errorf("request %d has lost what the user said", i)
		}
		if i == 0 {
			continue
		}
		rs := results(r)
		for j, name := range []string{"first", "second"} {
			if want := fmt.Sprintf("%c: web.search of %s %d word", 'a'+j, name, i); !strings.HasPrefix(rs[len(rs)-2+j],
				want) || strings.Contains(rs[len(rs)-2+j], "left out") {
				t.Errorf("request %d: a result of the last answer is %.60q, want all of %q", i, rs[len(rs)-2+j], want)
			}
		}
	}
}

// Each request begins like the one before it: providers cache prompts by their beginning.
func TestTheRequestsOfAChatBeginAlike(t *testing.T) {
	b := newBench(t, apptest.Options{
		Model: apptest.Always(scriptedSearch()),
		Notes: &apptest.Notes{IdentityText: "I am Corebot.", Global: "The sky is blue."},
	})
	for i := range 6 {
		b.answers(t, fmt.Sprint(i), []string{"hello", "search it"}[i%2])
	}
	all := b.model.Requests()
	for i := 1; i < len(all); i++ {
		before, now := all[i-1], all[i]
		if !reflect.DeepEqual(before.Tools, now.Tools) || len(now.Tools) != 2 || now.Tools[0].Name != fetch ||
			now.Tools[1].Name != search {
			t.Fatalf("request %d offers %+v behind %+v", i, now.Tools, before.Tools)
		}
		same := len(before.Messages) // within a turn: all of it
		if now.Messages[len(now.Messages)-1].Role == llm.User {
			same = len(history(before)) + 1 // with the next turn: without what only that turn should know
			for before.Messages[same-1].Role != llm.System && !strings.HasPrefix(before.Messages[same].Text,
				"<data kind=\"situation\">") {
				same--
			}
		}
		if same < 1 || !reflect.DeepEqual(before.Messages[:same], now.Messages[:same]) {
			t.Fatalf("request %d differs from the one before it within the first %d messages", i, same)
		}
	}
}

func TestTheSummaryKeepsTheBeginningOfRequestsStable(t *testing.T) {
	model := summarized(apptest.Text("- short"), numbered())
	b := newBench(t, apptest.Options{Model: model, Agent: small})
	b.chatOn(t, 1, 30)
	var heads []string
	for _, r := range model.Requests() {
		if !summarizing(r) {
			heads = append(heads, r.Messages[1].Text)
		}
	}
	heads = slices.Compact(heads)
	if changes := len(heads) - 1; changes > len(summaries(model))+1 {
		t.Errorf("the beginning changed %d times with %d summaries", changes, len(summaries(model)))
	}
}

// tooLong finds every request too long that has more than so many tokens.
func tooLong(most int) *apptest.Model {
	return apptest.Always(func(ctx context.Context, r llm.Request, onText func(string)) (corebot.Answer, error) {
		if tokens(r) > most {
			return corebot.Answer{}, &corebot.Failure{
				Class: corebot.Permanent,
				Err:   fmt.Errorf("the provider: %w", llm.ErrContextTooLong),
			}
		}
		return apptest.Text("fine")(ctx, r, onText)
	})
}

func TestAPromptThatAProviderFindsTooLongIsHalvedOnce(t *testing.T) {
	o := agent.Options{ContextTokens: 4_000, OutputTokens: 200}
	model := tooLong(1_200)
	b := newBench(t, apptest.Options{Model: model, Agent: o})
	for i := 1; i <= 30; i++ {
		before := len(model.Requests())
		b.answers(t, fmt.Sprint(i), say40(i))
		if n := len(model.Requests()) - before; n > 3 {
			t.Fatalf("message %d took %d calls: want at most one that is too long, a summary, and one that is half "+
				"as long", i, n)
		}
	}
	if s := b.summary(t); s.Through == 0 {
		t.Error("what was too long is not summarised")
	}
}

func TestAPromptThatStaysTooLongFailsForGoodAfterTwoCalls(t *testing.T) {
	for name, c := range map[string]struct {
		off   bool
		calls int
	}{
		"with a summary in between": {false, 3},
		"without":                   {true, 2},
	} {
		t.Run(name, func(t *testing.T) {
			o := agent.Options{ContextTokens: 4_000, OutputTokens: 200, Compaction: agent.Compaction{Off: c.off}}
			most := 100_000
			model := apptest.Always(func(ctx context.Context, r llm.Request,
				onText func(string),
			) (corebot.Answer, error) {
				return tooLong(most).Complete(ctx, r, onText)
			})
			b := newBench(t, apptest.Options{Model: model, Agent: o})
			b.chatOn(t, 1, 20)
			most = 0
			before := len(model.Requests())
			_, err := b.turn2(t, "21", "and now?")
			f := (*corebot.Failure)(nil)
			if !errors.As(err, &f) || f.Class != corebot.Permanent || !errors.Is(err, corebot.ErrTooLarge) ||
				!errors.Is(err, llm.ErrContextTooLong) {
				t.Fatalf("the turn ended with %v", err)
			}
			if !strings.Contains(corebot.HintOf(err), "/new") {
				t.Errorf("the hint is %q", corebot.HintOf(err))
			}
			if n := len(model.Requests()) - before; n != c.calls {
				t.Errorf("the model was asked %d times, want %d", n, c.calls)
			}
		})
	}
}

// turn2 is turn for another message than the first.
func (b *bench) turn2(t *testing.T, id, text string) (corebot.Result, error) {
	t.Helper()
	b.Say("a", id, text)
	return b.Agent.Turn(t.Context(), b.Claim())
}

func TestATurnIsHalvedOnceAlsoWhenALaterPromptOfItIsTooLong(t *testing.T) {
	n := 0
	model := apptest.Always(func(ctx context.Context, r llm.Request, onText func(string)) (corebot.Answer, error) {
		if n++; n == 22 {
			return apptest.Asks(call("c", search, "it"))(ctx, r, onText)
		}
		return tooLong(map[bool]int{true: 100_000}[n <= 20]).Complete(ctx, r, onText)
	})
	b := newBench(t, apptest.Options{Model: model, Agent: agent.Options{
		ContextTokens: 4_000, OutputTokens: 200,
		Compaction: agent.Compaction{Off: true},
	}})
	b.chatOn(t, 1, 20)
	b.Say("a", "21", "go")
	if _, err := b.Agent.Turn(t.Context(), b.Claim()); !errors.Is(err, corebot.ErrTooLarge) {
		t.Fatalf("the turn ended with %v", err)
	}
	if n != 23 || b.runs[search] != 1 {
		t.Errorf("after 20 calls there were %d: want one that is too long, one that asks for a tool, and one that is "+
			"too long again", n-20)
	}
}

// A turn decides once which part of the history it shows. Tool results push old turns out, and cost no summary in the
// middle.
func TestResultsOfToolsCauseNoSummaryInTheMiddleOfATurn(t *testing.T) {
	asked := 0
	model := summarized(apptest.Text("- short"), func(ctx context.Context, r llm.Request,
		onText func(string),
	) (corebot.Answer, error) {
		if last := r.Messages[len(r.Messages)-1]; last.Text == "search" || asked%4 > 0 {
			if asked++; asked%4 > 0 {
				return apptest.Asks(call("c", search, fmt.Sprint(asked)))(ctx, r, onText)
			}
		}
		return apptest.Text("fine")(ctx, r, onText)
	})
	b := newBench(t, apptest.Options{Model: model, Agent: agent.Options{ContextTokens: 3_000, OutputTokens: 500}})
	b.chatOn(t, 1, 20)
	if len(summaries(model)) > 0 {
		t.Fatal("there is a summary already")
	}
	b.more = strings.Repeat(" word", 1_500)
	first := len(model.Requests())
	b.answers(t, "21", "search")
	all := model.Requests()[first:]
	if len(all) != 4 || len(summaries(model)) > 0 {
		t.Fatalf("the turn took %d calls, of which %d for summaries", len(all), len(summaries(model)))
	}
	if before, after := len(past(all[0])), len(past(all[3])); before < 20 || after >= before {
		t.Errorf("%d messages of the past became %d: results were to push them out", before, after)
	}
}

// past is what a request shows of earlier turns.
func past(r llm.Request) []llm.Message {
	for i, m := range r.Messages {
		if strings.HasPrefix(m.Text, "<data kind=\"situation\">") {
			return r.Messages[1:i]
		}
	}
	return nil
}

func TestAPromptOfOneMessageThatIsTooLongIsNotSentTwice(t *testing.T) {
	b := newBench(t, apptest.Options{Model: tooLong(100)})
	if _, err := b.turn(t, strings.Repeat("word ", 500)); !errors.Is(err, corebot.ErrTooLarge) {
		t.Fatalf("the turn ended with %v", err)
	}
	if n := len(b.model.Requests()); n != 1 {
		t.Errorf("the model was asked %d times for the same", n)
	}
}

func TestTheChatIsToldThatItsMessageIsTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, apptest.Options{Model: tooLong(10)})
		b.Start()
		b.Say("a", "1", "hello")
		synctest.Wait()
		b.WantEnd("1", corebot.EndDead)
		if told := b.Told("1"); len(told) != 1 || !strings.Contains(told[0].Text(), "too long for the model") {
			t.Errorf("the chat was told %+v", told)
		}
	})
}

// A turn of many rows is not lost: what was asked and answered is there, and as much of its tools as has room.
func TestATurnOfManyRowsIsStillThere(t *testing.T) {
	for name, o := range map[string]agent.Options{
		"in a small context": {ContextTokens: 2_000, OutputTokens: 200},
		"in a large context": {ContextTokens: 100_000, OutputTokens: 200},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, apptest.Options{Model: apptest.Always(apptest.Text("fine")), Agent: o})
			b.Say("a", "1", "do much")
			d := b.Claim()
			entries := []corebot.HistoryEntry{{Speaker: corebot.SpeakerUser, Parts: corebot.TextPart("do much")}}
			for i := range 599 {
				id := fmt.Sprint(i)
				entries = append(entries,
					corebot.HistoryEntry{Speaker: corebot.SpeakerAssistant, Calls: []corebot.ToolCall{call(id, search,
						id)}},
					corebot.HistoryEntry{
						Speaker: corebot.SpeakerTool, CallID: id,
						Parts: corebot.TextPart(strings.Repeat("word ", 500)),
					})
			}
			entries = append(entries, corebot.HistoryEntry{
				Speaker: corebot.SpeakerAssistant,
				Parts:   corebot.TextPart("much is done"),
			})
			done := corebot.Result{
				Outcome: corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered},
				History: entries,
			}
			if err := b.Ledger.Commit(t.Context(), d, done); err != nil {
				t.Fatal(err)
			}
			b.answers(t, "2", "and then?")
			h := history(b.model.Last())
			if len(h) < 3 || h[0].Text != "do much" || h[len(h)-1].Text != "much is done" {
				t.Fatalf("%d messages are shown: %+v", len(h), h)
			}
			if long := len(h) > 1_000; long != (o.ContextTokens == 100_000) {
				t.Errorf("%d messages are shown", len(h))
			}
			if n := tokens(b.model.Last()); n > o.ContextTokens-200 {
				t.Errorf("the request has %d tokens", n)
			}
		})
	}
}

func TestAPauseBeginsANewSessionWithTheTurnThatFollowsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, apptest.Options{
			Model: apptest.Always(numbered()),
			Agent: agent.Options{SessionIdle: time.Hour},
		})
		b.answers(t, "1", "hello")
		time.Sleep(59 * time.Minute)
		b.answers(t, "2", "still there?")
		if h := history(b.model.Last()); len(h) != 2 {
			t.Fatalf("before the hour is over %d messages are shown", len(h))
		}
		time.Sleep(26 * time.Hour)
		b.Say("a", "3", "good morning")
		d := b.Claim()
		for range 2 { // the first attempt is lost
			r, err := b.Agent.Turn(t.Context(), d)
			if err != nil || !r.BeginsSession {
				t.Fatalf("the turn begins a session: %v, %v", r.BeginsSession, err)
			}
			messages := b.model.Last().Messages
			if h := history(b.model.Last()); len(h) != 0 || !strings.Contains(messages[len(messages)-2].Text,
				"begins a new conversation: nothing was said for 26h0m0s") {
				t.Fatalf("the turn is shown %+v", messages)
			}
			if len(b.Said("a")) != 4 {
				t.Fatal("the session ended before its turn was committed")
			}
			if time.Sleep(time.Minute); d.Attempt == 2 { // the same decision, however late
				if err := b.Ledger.Commit(t.Context(), d, r); err != nil {
					t.Fatal(err)
				}
			}
			d.Attempt++
		}
		if got := b.Transcript("a"); len(got) != 2 || got[0] != "user: good morning" {
			t.Errorf("the session is %q", got)
		}
		b.answers(t, "4", "and now?")
		if h := history(b.model.Last()); len(h) != 2 || h[0].Text != "good morning" {
			t.Errorf("the turn after it is shown %+v", h)
		}
	})
}

func TestTheFirstTurnOfASessionIsShownThePagesAsTheyAreNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		notes := &apptest.Notes{}
		b := newBench(t, apptest.Options{
			Model: apptest.Always(numbered()), Notes: notes, Agent: agent.Options{SessionIdle: time.Hour},
		})
		for i, want := range []int64{1, 1, 1, 2, 2} {
			if i == 3 {
				time.Sleep(2 * time.Hour)
			}
			if b.answers(t, fmt.Sprint(i), "hello"); notes.Renewals.Load() != want {
				t.Errorf("after turn %d the pages were renewed %d times, want %d", i, notes.Renewals.Load(), want)
			}
		}
	})
}

func TestWithoutALimitNoPauseEndsASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, apptest.Options{Model: apptest.Always(numbered())})
		b.answers(t, "1", "hello")
		time.Sleep(1_000 * time.Hour)
		b.answers(t, "2", "hello again")
		if h := history(b.model.Last()); len(h) != 2 {
			t.Errorf("%d messages are shown", len(h))
		}
	})
}

func TestWhatAProviderWantsBackGoesBackAsLongAsTheTurnLasts(t *testing.T) {
	thought := &corebot.Opaque{Source: "scripted", Data: json.RawMessage(`"sealed"`)}
	b := newBench(t, apptest.Options{}, func(context.Context, llm.Request, func(string)) (corebot.Answer, error) {
		return corebot.Answer{Calls: []corebot.ToolCall{call("c", search, "it")}, Opaque: thought}, nil
	}, apptest.Text("done"), apptest.Text("hello"))
	b.answers(t, "1", "go")
	var found bool
	for _, m := range b.model.Last().Messages {
		found = found || reflect.DeepEqual(m.Opaque, thought)
	}
	if !found {
		t.Error("it is not in the next request of the turn")
	}
	b.answers(t, "2", "and now?")
	for _, m := range b.model.Last().Messages {
		if m.Opaque != nil {
			t.Error("it is in the next turn")
		}
	}
}

func TestContextWindowsAreKnownByFamily(t *testing.T) {
	for name, want := range map[string]int{
		"gpt-4o-mini": 128_000, "openai/gpt-4o": 128_000, "openrouter/openai/gpt-4.1-nano": 1_047_576, "gpt-4": 8_192,
		"gpt-4-0613":             8_192,
		"gpt-4-turbo-2024-04-09": 128_000, "gpt-3.5-turbo": 16_385, "ft:gpt-4o-mini:someone": 128_000,
		"o1-mini-2024-09-12": 128_000, "o3": 200_000,
		"claude-sonnet-4-5": 200_000, "Claude-3-Haiku": 200_000,
		"": 0, "llama3.1": 0, "gpt-40": 0, "mistral-large": 0, "offline": 0, "myclaude": 0,
	} {
		got, ok := agent.ContextWindow(name)
		if got != want || ok != (want > 0) {
			t.Errorf("%s has %d, known: %v; want %d", name, got, ok, want)
		}
	}
}

func TestAModelThinksAsMuchAsTheSessionAsksFor(t *testing.T) {
	b := newBench(t, apptest.Options{Agent: agent.Options{Voice: llm.Voice{Think: corebot.ThinkLow}}},
		apptest.Text("one"), apptest.Text("two"), apptest.Text("three"))
	want := func(id, text string, think corebot.Thinking) {
		t.Helper()
		b.answers(t, id, text)
		if got := b.model.Last().Voice.Think; got != think {
			t.Errorf("message %s: the model was asked to think %q, want %q", id, got, think)
		}
	}
	want("1", "hello", corebot.ThinkLow)
	if err := storage.NewChats(b.DB).SetThinking(t.Context(), apptest.Key("a"), corebot.ThinkHigh); err != nil {
		t.Fatal(err)
	}
	want("2", "hello", corebot.ThinkHigh)
	want("3", "/new hello", corebot.ThinkLow)
}
