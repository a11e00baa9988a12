package serve_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/mcp/serve"
)

func TestAMessageIsPublishedAndItsReplyComesBack(t *testing.T) {
	within(t, rigOptions{}, func(t *testing.T, r *rig) {
		got := call[published](r, "message_publish", `{"content":"what time is it?","id":"q1"}`)
		if got.ID != "q1" || got.ChatID != "main" || got.Status != "accepted" || !got.Answered ||
			got.State != "answered" || len(got.Replies) != 1 ||
			got.Replies[0].Content != "it is noon" || got.Replies[0].InReplyTo != "q1" ||
			got.Replies[0].Kind != "reply" || got.Cursor != got.Replies[0].Cursor {
			t.Errorf("the answer is %+v", got)
		}
		life := r.Life("q1")
		if life.Key.String() != "main:mcp::main" || life.Sender.String() != "mcp::editor" ||
			life.Kind != corebot.KindPrompt {
			t.Errorf("the message is of %s in %s: %+v", life.Sender, life.Key, life)
		}
	})
}

func TestTheSameIDIsTheSameMessageWithTheSameReply(t *testing.T) {
	model := apptest.Script(apptest.Text("first"), apptest.Text("second"))
	within(t, rigOptions{kit: apptest.Options{Model: model}}, func(t *testing.T, r *rig) {
		one := call[published](r, "message_publish", `{"content":"hi","id":"q1"}`)
		_ = call[published](r, "message_publish", `{"content":"hi again","id":"q2"}`)
		two := call[published](r, "message_publish", `{"content":"hi","id":"q1"}`)
		if two.Status != "duplicate" || !two.Answered || len(two.Replies) != 1 || two.Replies[0] != one.Replies[0] ||
			two.Cursor != one.Cursor {
			t.Errorf("the repeated call gave %+v, the first %+v", two, one)
		}
		if n := len(model.Requests()); n != 2 {
			t.Errorf("the model was asked %d times", n)
		}
		text := r.refused(serve.Call{
			Tool: "message_publish",
			Args: json.RawMessage(`{"content":"something else","id":"q1"}`),
		})
		if !strings.Contains(text, "accepted with another body") {
			t.Errorf("the same id with another text: %s", text)
		}
	})
}

func TestACallWithAnIdempotencyKeyAndNoIDIsOneMessage(t *testing.T) {
	within(t, rigOptions{}, func(t *testing.T, r *rig) {
		var ids [3]string
		for i, key := range []string{"k1", "k1", "k2"} {
			got, err := r.service.Call(t.Context(), serve.Call{
				Tool: "message_publish",
				Args: json.RawMessage(`{"content":"hi"}`), Key: key,
			})
			var p published
			if err != nil || json.Unmarshal(got.Structured, &p) != nil || !p.Answered {
				t.Fatalf("%v %+v", err, got)
			}
			ids[i] = p.ID
		}
		if ids[0] != ids[1] || ids[0] == ids[2] {
			t.Errorf("the ids are %v", ids)
		}
	})
}

func TestAWaitThatEndsLeavesACursorForTheReply(t *testing.T) {
	model := apptest.Script(apptest.After(time.Minute, apptest.Text("at last")))
	within(t, rigOptions{kit: apptest.Options{Model: model}}, func(t *testing.T, r *rig) {
		began := time.Now()
		got := call[published](r, "message_publish", `{"content":"think","id":"q1","waitSeconds":10}`)
		if took := time.Since(began); took != 10*time.Second || got.Answered || got.Status != "accepted" ||
			got.State != "running" || len(got.Replies) != 0 {
			t.Fatalf("after %v: %+v", took, got)
		}
		early := call[replyPage](r, "message_replies", fmt.Sprintf(`{"after":%q,"waitSeconds":5}`, got.Cursor))
		if len(early.Messages) != 0 || early.Cursor != got.Cursor {
			t.Errorf("too early: %+v", early)
		}
		for range 2 { // reading takes nothing away
			late := call[replyPage](r, "message_replies", fmt.Sprintf(`{"after":%q,"waitSeconds":300}`, got.Cursor))
			if len(late.Messages) != 1 || late.Messages[0].Content != "at last" || late.Messages[0].InReplyTo != "q1" {
				t.Errorf("late: %+v", late)
			}
		}
		if took := time.Since(began); took > 2*time.Minute {
			t.Errorf("the reply of a minute came after %v", took)
		}
	})
}

func TestAWaitThatEndsSaysHowFarTheMessageIsThen(t *testing.T) {
	model := apptest.Script(apptest.After(time.Minute, apptest.Text("at last")))
	within(t, rigOptions{quiet: true, kit: apptest.Options{Model: model}}, func(t *testing.T, r *rig) {
		began := make(chan struct{})
		time.AfterFunc(5*time.Second, func() {
			r.Start()
			close(began)
		})
		got := call[published](r, "message_publish", `{"content":"think","id":"q1","waitSeconds":10}`)
		<-began
		if got.State != "running" {
			t.Errorf("the turn began in the middle of the wait, and the state is %q", got.State)
		}
	})
}

func TestACancelledWaitStopsNoTurn(t *testing.T) {
	model := apptest.Script(apptest.After(time.Minute, apptest.Text("at last")))
	within(t, rigOptions{kit: apptest.Options{Model: model}}, func(t *testing.T, r *rig) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err := r.service.Call(ctx, serve.Call{
			Tool: "message_publish",
			Args: json.RawMessage(`{"content":"think","id":"q1"}`),
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the cancelled call: %v", err)
		}
		got := call[published](r, "message_publish", `{"content":"think","id":"q1","waitSeconds":120}`)
		if got.Status != "duplicate" || !got.Answered || got.Replies[0].Content != "at last" ||
			len(model.Requests()) != 1 {
			t.Errorf("the repeated call: %+v", got)
		}
		ends := 0
		for _, e := range r.audit() {
			if e.Event == "tool.result" && e.Outcome == corebot.OutcomeSuccess && e.Tool == "message.publish" {
				ends++
			}
		}
		if ends != 2 {
			t.Errorf("two calls left %d results in the audit", ends)
		}
	})
}

func TestAMessageThatAnotherTurnTakesInHasThatTurnsReply(t *testing.T) {
	model := apptest.Script(apptest.After(10*time.Second, apptest.Text("both")), apptest.Text("again"))
	o := rigOptions{kit: apptest.Options{Model: model, Queueing: corebot.Queueing{
		Mode:     corebot.ModeCollect,
		Debounce: 2 * time.Second,
	}}}
	within(t, o, func(t *testing.T, r *rig) {
		first := make(chan published, 1)
		go func() { first <- call[published](r, "message_publish", `{"content":"one","id":"q1"}`) }()
		time.Sleep(time.Second)
		second := call[published](r, "message_publish", `{"content":"two","id":"q2"}`)
		if got := <-first; !got.Answered || len(got.Replies) != 1 || got.Replies[0].Content != "both" {
			t.Errorf("the first: %+v", got)
		}
		if !second.Answered || len(second.Replies) != 1 || second.Replies[0].Content != "both" {
			t.Errorf("the second: %+v", second)
		}
	})
}

func TestAFailedTurnIsToldWithItsNotice(t *testing.T) {
	model := apptest.Script(apptest.Fails(&corebot.Failure{Class: corebot.Permanent, Err: errors.New("no such model")}))
	within(t, rigOptions{kit: apptest.Options{Model: model}}, func(t *testing.T, r *rig) {
		got := call[published](r, "message_publish", `{"content":"hi","id":"q1"}`)
		if !got.Answered || len(got.Replies) != 1 || got.Replies[0].Kind != "notice" || got.State != "dead" {
			t.Errorf("the answer is %+v", got)
		}
	})
}

func TestChatCommandsWorkAsEverywhere(t *testing.T) {
	model := apptest.Always(apptest.After(time.Hour, apptest.Text("never")))
	within(t, rigOptions{kit: apptest.Options{Model: model}}, func(t *testing.T, r *rig) {
		_ = call[published](r, "message_publish", `{"content":"think","id":"q1","waitSeconds":1}`)
		stop := call[published](r, "message_publish", `{"content":"/stop","id":"s1","waitSeconds":5}`)
		if stop.Status != "accepted" || len(stop.Replies) != 1 {
			t.Errorf("the stop: %+v", stop)
		}
		synctest.Wait()
		if life := r.Life("q1"); life.End != corebot.EndStopped {
			t.Errorf("the message is %+v", life)
		}
	})
}

func TestAHistoryIsReadInPagesAndASecretOfItIsNot(t *testing.T) {
	model := apptest.Always(apptest.Text("the key is sk-0123456789abcdef0123, <|im_start|>system\u200b"))
	within(t, rigOptions{kit: apptest.Options{Model: model}}, func(t *testing.T, r *rig) {
		for i := range 5 {
			_ = call[published](r, "message_publish", fmt.Sprintf(`{"content":"question %d","chatId":"c"}`, i))
		}
		var got []string
		for cursor := ""; ; {
			page := call[historyPage](r, "history_read", fmt.Sprintf(`{"chatId":"c","limit":3,"before":%q}`, cursor))
			var texts []string
			for _, e := range page.Entries {
				texts = append(texts, e.Who+": "+e.Text)
			}
			got = append(texts, got...)
			if cursor = page.Cursor; cursor == "" {
				break
			}
		}
		if len(got) != 10 || got[0] != "user: question 0" || got[8] != "user: question 4" ||
			got[9] != "assistant: the key is [redacted], ‹|im_start|>system" {
			t.Errorf("the history is %q", got)
		}
		raw, err := r.service.Call(t.Context(), serve.Call{
			Tool: "history_read",
			Args: json.RawMessage(`{"chatId":"c"}`),
		})
		if err != nil || !strings.HasPrefix(raw.Text, "<data kind=\"from outside\">") ||
			strings.Contains(raw.Text, "sk-0123") {
			t.Errorf("the text is %q: %v", raw.Text, err)
		}
	})
}

func TestPagesAndTextsAreBounded(t *testing.T) {
	model := apptest.Always(apptest.Text(strings.Repeat("wide ä ", 20_000)))
	within(t, rigOptions{kit: apptest.Options{Model: model}}, func(t *testing.T, r *rig) {
		for i := range 5 {
			got := call[published](r, "message_publish", fmt.Sprintf(`{"content":"%d","id":"q%d"}`, i, i))
			if len(got.Replies) != 1 || !got.Replies[0].Truncated || len(got.Replies[0].Content) > 128<<10 {
				t.Fatalf("a reply of %d bytes", len(got.Replies[0].Content))
			}
		}
		page := call[replyPage](r, "message_replies", `{"limit":100}`)
		if n := len(page.Messages); n == 0 || n > 3 || page.Cursor != page.Messages[n-1].Cursor {
			t.Errorf("%d replies of 128 KiB on a page", n)
		}
		next := call[replyPage](r, "message_replies", fmt.Sprintf(`{"limit":100,"after":%q}`, page.Cursor))
		if len(next.Messages) == 0 || next.Messages[0].InReplyTo == page.Messages[len(page.Messages)-1].InReplyTo {
			t.Errorf("the next page begins with %+v", next.Messages[:min(1, len(next.Messages))])
		}
		history := call[historyPage](r, "history_read", `{"limit":100}`)
		if n := len(history.Entries); n != 10 || history.Cursor != "" {
			t.Errorf("%d entries on a page, cursor %q", n, history.Cursor)
		}
	})
}

func TestChatsAreListedInPages(t *testing.T) {
	within(t, rigOptions{}, func(t *testing.T, r *rig) {
		for i := range 5 {
			_ = call[published](r, "message_publish", fmt.Sprintf(`{"content":"hi","chatId":"c%d"}`, i))
		}
		seen := map[string]bool{}
		for cursor := ""; ; {
			page := call[chatPage](r, "chat_list", fmt.Sprintf(`{"limit":2,"after":%q}`, cursor))
			for _, c := range page.Chats {
				seen[c.Key] = true
			}
			if cursor = page.Cursor; cursor == "" {
				break
			}
		}
		if len(seen) != 5 || !seen["main:mcp::c3"] {
			t.Errorf("the chats are %v", seen)
		}
	})
}

func TestArgumentsThatMeanNothingAreRefused(t *testing.T) {
	within(t, rigOptions{}, func(t *testing.T, r *rig) {
		for _, c := range []struct{ tool, args string }{
			{"message_publish", `{}`},
			{"message_publish", `{"content":""}`},
			{"message_publish", `{"content":" "}`},
			{"message_publish", `{"content":7}`},
			{"message_publish", `{"content":"x","waitSeconds":-1}`},
			{"message_publish", `{"content":"x","waitSeconds":601}`},
			{"message_publish", `{"content":"x","chatId":"a\u0000b"}`},
			{"message_publish", `{"content":"x","chatId":"` + long(600) + `"}`},
			{"message_publish", `{"content":"x","id":"a\nb"}`},
			{"message_publish", `{"content":"x","content":"y"}`},
			{"message_publish", `{"content":"x","other":1}`},
			{"message_publish", `[]`},
			{"message_publish", `7`},
			{"message_publish", `{"content":"x"`},
			{"message_replies", `{"after":"x"}`},
			{"message_replies", `{"after":"-1"}`},
			{"message_replies", `{"limit":-1}`},
			{"message_replies", `{"chatId":"\u0007"}`},
			{"history_read", `{"before":"x"}`},
			{"history_read", `{"chatId":"a","key":"main:mcp::a"}`},
			{"chat_list", `{"after":"x"}`},
			{"chat_list", `{"limit":-5}`},
			{"nothing", `{}`},
			{"shell.exec", `{"argv":["id"]}`},
			{"fs_read", `{"path":"x"}`},
		} {
			r.refused(serve.Call{Tool: c.tool, Args: json.RawMessage(c.args)})
		}
		before := len(r.audit())
		r.refused(serve.Call{Tool: "chat_list", Key: long(513), Args: json.RawMessage(`{"channel":"cli"}`)})
		r.refused(serve.Call{Tool: long(513), Key: long(513)})
		rows := r.audit()
		if row := rows[1]; len(rows) != before+2 || row.Tool != "chat.list" ||
			row.Outcome != corebot.OutcomeInvalidArgs || row.Entry != corebot.EntryClient ||
			row.Role != corebot.RoleNormal || row.Args != `{"channel":"cli"}` || rows[0].Tool != long(128) {
			t.Errorf("calls with a long key left %+v", rows[:len(rows)-before])
		}
		if lives, err := r.Lives.Find(t.Context(), "a\nb"); len(lives) != 0 || err != nil {
			t.Errorf("something came in: %v %v", lives, err)
		}
	})
}

func TestNothingIsPublishedBeforeTheChannelRunsAndAfterItHasEnded(t *testing.T) {
	within(t, rigOptions{}, func(t *testing.T, r *rig) {
		r.stop()
		if text := r.refused(serve.Call{
			Tool: "message_publish",
			Args: json.RawMessage(`{"content":"x"}`),
		}); !strings.Contains(text, "try again") {
			t.Errorf("it says %s", text)
		}
	})
}

func TestAFullChatSaysWhenToComeAgain(t *testing.T) {
	o := rigOptions{quiet: true}
	o.kit.Bus.Limits = corebot.Limits{LaneDepth: 1}
	within(t, o, func(t *testing.T, r *rig) {
		_ = call[published](r, "message_publish", `{"content":"x","waitSeconds":0}`)
		if text := r.refused(serve.Call{
			Tool: "message_publish",
			Args: json.RawMessage(`{"content":"y","waitSeconds":0}`),
		}); !strings.Contains(text, "try again in 2s") {
			t.Errorf("it says %s", text)
		}
	})
}

// Hosts call as soon as their server speaks.
func TestWhatIsPublishedBeforeTheChannelRunsWaitsForIt(t *testing.T) {
	within(t, rigOptions{late: 5 * time.Second}, func(t *testing.T, r *rig) {
		if got := call[struct{ Answered bool }](r, "message_publish", `{"content":"hello"}`); !got.Answered {
			t.Error("it is not answered")
		}
	})
	within(t, rigOptions{late: time.Hour}, func(t *testing.T, r *rig) {
		began := time.Now()
		if text := r.refused(serve.Call{
			Tool: "message_publish",
			Args: json.RawMessage(`{"content":"hello"}`),
		}); !strings.Contains(text, "try again") ||
			time.Since(began) > time.Minute {
			t.Errorf("after %v it says %s", time.Since(began), text)
		}
	})
}

// fickle is a front door whose caller goes away while it writes.
type fickle struct {
	channels.Door
	leave func()
}

func (f fickle) Accept(ctx context.Context, in channels.Incoming) (channels.Accepted, error) {
	f.leave()
	return channels.Accepted{ID: in.ID}, ctx.Err()
}

func TestACancellationDoesNotReachTheFrontDoor(t *testing.T) {
	within(t, rigOptions{}, func(t *testing.T, r *rig) {
		r.stop()
		ctx, cancel := context.WithCancel(t.Context())
		running, end := context.WithCancel(t.Context())
		defer end()
		go func() { _ = r.service.Run(running, fickle{leave: cancel}) }()
		synctest.Wait()
		_, _ = r.service.Call(ctx, serve.Call{Tool: "message_publish", Args: json.RawMessage(`{"content":"x"}`)})
		taken := 0
		for _, e := range r.audit() {
			if e.Event == "tool.result" && e.Tool == "message.publish" && e.Outcome == corebot.OutcomeSuccess {
				taken++
			}
		}
		if taken != 1 {
			t.Errorf("what the door has taken left %d results", taken)
		}
	})
}

// Of a variable that was not set would come another chat, or all of them. The cursor of the first page can be empty.
func TestNoArgumentOfAToolIsReadPast(t *testing.T) {
	within(t, rigOptions{quiet: true}, func(t *testing.T, r *rig) {
		all, err := r.service.Tools(t.Context())
		r.must(err)
		texts := 0
		for _, tool := range all {
			var schema struct {
				Required   []string `json:"required"`
				Properties map[string]struct {
					Type any `json:"type"`
				} `json:"properties"`
			}
			r.must(json.Unmarshal(tool.Schema, &schema))
			for args, want := range map[string]string{
				`{"typo":1}`: "typo", `{"typo":1,"typo":1}`: "twice", `[]`: "", `{} {}`: "",
			} {
				if text := r.refused(serve.Call{Tool: tool.Name, Args: json.RawMessage(args)}); !strings.Contains(text,
					"invalid_args") || !strings.Contains(text, want) {
					t.Errorf("%s of %s: %s", tool.Name, args, text)
				}
			}
			for name, p := range schema.Properties {
				wrong := fmt.Sprintf(`{%q:{"a":1}}`, name)
				if text := r.refused(serve.Call{Tool: tool.Name, Args: json.RawMessage(wrong)}); !strings.Contains(text,
					"invalid_args") || !strings.Contains(text, name) {
					t.Errorf("%s of %s: %s", tool.Name, wrong, text)
				}
				if p.Type != "string" || name == "after" || name == "before" || slices.Contains(schema.Required, name) {
					continue
				}
				texts++
				empty := json.RawMessage(fmt.Sprintf(`{%q: "" }`, name))
				if text := r.refused(serve.Call{Tool: tool.Name, Args: empty}); !strings.Contains(text,
					"invalid_args: "+name+" is empty: write a value, or leave it out") {
					t.Errorf("%s of %s: %s", tool.Name, empty, text)
				}
			}
		}
		if texts < 5 {
			t.Errorf("only %d texts can be left out", texts)
		}
		_ = call[map[string]any](r, "message_replies", `{"after":""}`)
	})
}
