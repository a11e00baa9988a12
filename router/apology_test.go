package router_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/agent/llm/chain"
	"github.com/corebot/corebot/agent/llm/llmtest"
	"github.com/corebot/corebot/bus"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/router"
)

const delayedText = "The model provider limits how often it can be asked, so this answer takes longer. " +
	"The message keeps its place and is tried again by itself. /status tells when, and /stop ends it."

func grantAdmin(t *testing.T, k *apptest.Kit, who string) {
	t.Helper()
	if err := k.Grants.Grant(t.Context(), corebot.Grant{
		Principal: apptest.Person(who),
		Role:      corebot.RoleAdmin,
	}); err != nil {
		t.Fatal(err)
	}
}

func TestARefusedKeyIsToldInASentenceAndOnlyAnAdminReadsTheProvidersWords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model, _ := endpoint(t, llmtest.Always(llmtest.Fail(401,
			"Incorrect API key provided for org-bob\n\x1b[2J: sk-1234567890abcdefghij.")))
		k := apptest.New(t, apptest.Options{Model: model}).Start()
		grantAdmin(t, k, "root")
		k.Say("a", "m17", "hello")
		k.SayAs("root", "b", "m 18; id", "hello")
		pass(time.Second)
		k.WantTold("m17", "Sorry, I could not answer this message. The model provider refused the API key (401). "+
			"An operator can see more with `corebot why m17`. Send \"/retry m17\" to have it tried again.")
		k.WantTold("m 18; id", `Sorry, I could not answer this message. The model provider refused the API key (401). `+
			`The provider said: "Incorrect API key provided for org-bob \\u001b[2J: [redacted].". `+
			"Hint: the provider refuses the key: check llm.api_key or OPENAI_API_KEY. "+
			"An operator can see more with `corebot why 'm 18; id'`. Send \"/retry m 18; id\" to have it tried again.")
	})
}

// TestAnAdminReadsTheProvidersWordsWhereNobodyElseDoes: the rest of a group would read them, too.
func TestAnAdminReadsTheProvidersWordsWhereNobodyElseDoes(t *testing.T) {
	for name, c := range map[string]struct {
		first func(k *apptest.Kit) // what happened in the chat before
		o     router.Options
		told  bool
	}{
		"nobody else has spoken": {func(*apptest.Kit) {}, router.Options{}, true},
		"somebody was given up":  {func(k *apptest.Kit) { k.SayAs("ann", "a", "0", "hello") }, router.Options{}, false},
		"somebody was answered once": {func(k *apptest.Kit) {
			k.SayAs("ann", "a", "0", "answer")
			pass(time.Second)
			k.SayAs("root", "a", "n", "/new")
		}, router.Options{}, false},
		"somebody waits": {func(k *apptest.Kit) {
			k.SayAs("root", "a", "0", "slowly")
			k.SayAs("ann", "a", "w",
				"answer")
		}, router.Options{}, false},
		"in the admins' chat": {
			func(k *apptest.Kit) { k.SayAs("ann", "a", "0", "hello") },
			router.Options{AdminChat: apptest.Key("a")},
			true,
		},
		"on the owner's channel": {
			func(k *apptest.Kit) { k.SayAs("ann", "a", "0", "hello") }, router.Options{Owner: apptest.Channel}, true,
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			model, _ := endpoint(t, func(r llmtest.Request) llmtest.Answer {
				switch r.LastText() {
				case "answer":
					return llmtest.Text("yes")
				case "slowly":
					time.Sleep(time.Second)
				}
				return llmtest.Fail(401, "org-bob")
			})
			k := apptest.New(t, apptest.Options{Model: model, Router: c.o}).Start()
			grantAdmin(t, k, "root")
			c.first(k)
			pass(time.Millisecond)
			k.SayAs("root", "a", "1", "hello")
			pass(time.Minute)
			asked := "1"
			if name == "somebody waits" {
				asked = "0"
			}
			said := k.Told(asked)[0].Text()
			if told := strings.Contains(said, "org-bob"); told != c.told {
				t.Errorf("%s: the chat is told %q", name, said)
			}
			if !strings.Contains(said, "The model provider refused the API key (401).") ||
				!strings.Contains(said, "`corebot why "+asked+"`") {
				t.Errorf("%s: the chat is told %q", name, said)
			}
		})
	}
}

func TestNoApologyHasTheNameOfAClass(t *testing.T) {
	explained := func(class corebot.Class) error {
		return &corebot.Failure{Class: class, Err: &corebot.Explanation{
			Err:   errors.New("secret-host: it broke"),
			Plain: "The model provider failed (500).",
		}}
	}
	tooLong := &corebot.Failure{Class: corebot.Permanent, Err: fmt.Errorf("%w for the model", corebot.ErrTooLarge)}
	for name, c := range map[string]struct {
		err  error
		says string
	}{
		"attempts": {
			explained(corebot.Transient),
			"I tried it 3 times. The last time: The model provider failed (500).",
		},
		"permanent": {explained(corebot.Permanent), "The model provider failed (500)."},
		"nobody's": {
			errors.New("secret-host: it broke"),
			"I tried it 3 times. The last time: Something failed inside Corebot.",
		},
		"too long": {tooLong, "It is too long for the model, also with half of what was said before it. Begin a " +
			"new conversation with /new, or send a shorter message."},
		"of many": {fmt.Errorf("ask: %w", explained(corebot.Permanent)), "The model provider failed (500)."},
		"too many asks": {
			explained(corebot.RateLimited),
			"I tried it 3 times. The last time: The model provider failed (500).",
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			k := apptest.New(t, apptest.Options{
				Model: apptest.Always(apptest.Fails(c.err)), Bus: bus.Options{MaxAttempts: 3, LimitPatience: -1},
				Router: router.Options{Redact: func(s string) string {
					return strings.ReplaceAll(s, "secret-host",
						"***")
				}},
			}).Start()
			grantAdmin(t, k, "root")
			k.Say("a", "1", "hello")
			k.SayAs("root", "b", "2", "hello")
			pass(time.Hour)
			text := k.Told("1")[len(k.Told("1"))-1].Text()
			want := "Sorry, I could not answer this message. " + c.says +
				" An operator can see more with `corebot why 1`. Send \"/retry 1\" to have it tried again."
			if text != want {
				t.Errorf("%s: a sender is told %q, want %q", name, text, want)
			}
			if text = k.Told("2")[len(k.Told("2"))-1].Text(); strings.Contains(text, "secret-host") ||
				!strings.Contains(text, "The error: ") {
				t.Errorf("%s: an admin is told %q", name, text)
			}
		})
	}
}

func TestWhyTellsEachAttemptWithItsReasonAndTheModelThatAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model, _ := endpoint(t, func(r llmtest.Request) llmtest.Answer {
			switch r.N {
			case 1:
				return llmtest.Fail(500, "it fell over at 10.0.0.7")
			case 2:
				return llmtest.Fail(429, "org-bob has used 200 of 200")
			}
			return llmtest.Text("here")
		})
		k := apptest.New(t, apptest.Options{Model: model}).Start()
		k.Say("a", "1", "hello")
		pass(time.Minute)
		k.WantEnd("1", corebot.EndAnswered)
		k.Say("a", "w", "/why 1")
		wantTelling(t, k, "w", "Answered by the model "+llmtest.ModelID+".",
			"00:00:00  an attempt failed: The model provider failed (500)\n",
			"  an attempt met a rate limit and is not counted: The model provider limits how often it can be asked "+
				"(429)\n", "begun, attempt 2\n")
		for _, private := range []string{"10.0.0.7", "org-bob", "rate_limited", "retry"} {
			if text := k.Told("w")[0].Text(); strings.Contains(text, private) {
				t.Errorf("a sender reads %q in %q", private, text)
			}
		}
		grantAdmin(t, k, apptest.Sender) // nobody else reads the chat
		k.Say("a", "wr", "/why 1")
		wantTelling(t, k, "wr", "an attempt failed: The model provider failed (500): ask", "10.0.0.7",
			"an attempt met a rate limit and is not counted", "org-bob has used 200 of 200")
	})
}

// limitedUntil is a provider that answers 429 with "Retry-After: 1" until a moment.
func limitedUntil(end time.Time, status int) llmtest.Script {
	return func(llmtest.Request) llmtest.Answer {
		if time.Now().Before(end) {
			return llmtest.Fail(status, "slow down").Header("Retry-After", "1")
		}
		return llmtest.Text("now")
	}
}

func TestARateLimitOfHalfAnHourUsesUpNoAttemptAndTheChatIsToldOnce(t *testing.T) {
	for _, status := range []int{429, 529} {
		synctest.Test(t, func(t *testing.T) {
			model, srv := endpoint(t, limitedUntil(time.Now().Add(30*time.Minute), status))
			k := apptest.New(t, apptest.Options{Model: model}).Start()
			k.Say("a", "1", "hello")
			pass(7 * time.Second)
			if life := k.Life("1"); life.End != "" || life.Attempts > 1 {
				t.Fatalf("after 7 s: %+v", life)
			}
			pass(time.Hour)
			k.WantEnd("1", corebot.EndAnswered)
			k.WantTold("1", delayedText, "now")
			if n := len(srv.Requests()); n < 9 || n > 60 {
				t.Errorf("the provider was asked %d times", n)
			}
			if life := k.Life("1"); life.Attempts != 1 {
				t.Errorf("%d attempts are counted", life.Attempts)
			}
		})
	}
}

func TestARateLimitThatDoesNotPassEndsTheMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model, _ := endpoint(t, limitedUntil(time.Now().Add(1000*time.Hour), 429))
		k := apptest.New(t, apptest.Options{Model: model}).Start()
		k.Say("a", "1", "hello")
		pass(59 * time.Minute)
		if life := k.Life("1"); life.End != "" {
			t.Fatalf("after 59 minutes: %+v", life)
		}
		pass(2 * time.Hour)
		k.WantEnd("1", corebot.EndDead)
		told := k.Told("1")
		if len(told) != 2 || !strings.Contains(told[1].Text(),
			"I tried it 8 times. The last time: The model provider limits how often it can be asked (429).") {
			t.Errorf("the chat was told %+v", told)
		}
	})
}

func TestAShortRateLimitIsToldToNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model, _ := endpoint(t, limitedUntil(time.Now().Add(2*time.Second), 429))
		k := apptest.New(t, apptest.Options{Model: model}).Start()
		k.Say("a", "1", "hello")
		pass(time.Minute)
		k.WantTold("1", "now")
	})
}

func TestAChainOfLimitedModelsUsesUpNoAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := time.Now().Add(20 * time.Minute)
		one, _ := endpoint(t, limitedUntil(end, 429))
		two, _ := endpoint(t, limitedUntil(end, 529))
		model, err := chain.New([]chain.Provider{
			{Name: "one", Models: []llm.Model{one}},
			{Name: "two", Models: []llm.Model{two}},
		}, chain.Options{})
		if err != nil {
			t.Fatal(err)
		}
		k := apptest.New(t, apptest.Options{Model: model}).Start()
		k.Say("a", "1", "hello")
		pass(time.Hour)
		k.WantTold("1", delayedText, "now")
		if life := k.Life("1"); life.Attempts != 1 {
			t.Errorf("%d attempts are counted", life.Attempts)
		}
	})
}

func TestAStrangerToTheStoreIsNoAdmin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := apptest.New(t, apptest.Options{Brain: brain(func(context.Context,
			corebot.Delivery,
		) (corebot.Result, error) {
			return corebot.Result{}, &corebot.Failure{Class: corebot.Permanent, Err: errors.New("secret")}
		})}).Start()
		k.SayAs("", "a", "1", "hello")
		pass(time.Second)
		if text := k.Told("1")[0].Text(); strings.Contains(text, "secret") {
			t.Errorf("somebody without an id reads %q", text)
		}
	})
}
