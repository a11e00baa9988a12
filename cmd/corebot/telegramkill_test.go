package main

import (
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot/agent/llm/llmtest"
	"github.com/corebot/corebot/channels/telegram/telegramtest"
)

var (
	telegramMessages = flag.Int("telegram.messages", 160, "how many messages the bot gets while it is killed")
	telegramChats    = flag.Int("telegram.chats", 8, "in how many chats")
	telegramKills    = flag.Int("telegram.kills", 4, "how often the program is killed meanwhile")
	telegramCuts     = flag.Int("telegram.cuts", 1, "how often the platform is out of reach meanwhile")
)

// besieged is a bot on a platform, whose program is killed again and again.
type besieged struct {
	*siege
	platform *telegramtest.Server
	said     [][]string // what people have said, chat by chat
	lost     int        // answers of the platform that never came
}

// TestKilledAtAnyMomentABotAnswersEachMessageOnceAndInOrder kills the released program at random moments, while people
// write to its bot. The platform meanwhile refuses sends for their rate, loses answers, and is out of reach for a while
// (guarantees G1 to G3, on a network).
func TestKilledAtAnyMomentABotAnswersEachMessageOnceAndInOrder(t *testing.T) {
	t.Parallel()
	b := besiege(t)
	perCycle := *telegramMessages / (*telegramKills + 1)
	for cycle := range *telegramKills {
		b.begin()
		b.say(perCycle)
		if cycle%2 == 0 { // a message that is at work in three crashes in a row is poison by design
			b.settled()
			b.say(*telegramChats)
			time.Sleep(rand.N(100 * time.Millisecond))
		} else {
			time.Sleep(rand.N(400 * time.Millisecond))
		}
		if cycle < *telegramCuts {
			b.cut()
		}
		b.kill()
		b.output("db", "check")
	}
	b.begin()
	b.say(*telegramMessages - b.count())
	b.settled()
	b.terminate()
	b.output("db", "check")
	b.judge()
}

func besiege(t *testing.T) *besieged {
	t.Helper()
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		llmtest.New(func(r llmtest.Request) llmtest.Answer {
			return llmtest.Text("answer to " + lastUser(r)).After(rand.N(30 * time.Millisecond))
		}).ServeHTTP(w, r) // a new one each time: it would keep every request
	}))
	t.Cleanup(model.Close)
	observability := freeAddr(t)
	b := &besieged{
		siege: &siege{
			service: &service{
				t: t, binary: realProgram(t), home: filepath.Join(t.TempDir(), "home"), addr: freeAddr(t),
				env: []string{
					"COREBOT_LLM_OFFLINE=false", "OPENAI_BASE_URL=" + model.URL + "/v1", "OPENAI_MODEL=scripted",
					"OPENAI_API_KEY=none", "COREBOT_OBSERVABILITY_ADDR=" + observability,
					"COREBOT_BUS_BACKOFF_BASE=10ms",
				},
			},
			url: "http://" + observability,
		},
		platform: telegramtest.New(), said: make([][]string, *telegramChats),
	}
	t.Cleanup(b.platform.Close)
	t.Cleanup(b.kill)
	b.output("init")
	settings, err := os.OpenFile(filepath.Join(b.home, "corebot.yaml"), os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = fmt.Fprintf(settings, "\nchannels:\n  telegram:\n    main: {token: %q, api_url: %q, access: open}\n",
			telegramtest.Token, b.platform.URL())
	}
	if err == nil {
		err = settings.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	sends := 0
	b.platform.Faults(func(c telegramtest.Call) telegramtest.Fault {
		if c.Method != "sendMessage" {
			return telegramtest.Fault{}
		}
		switch sends++; {
		case sends%47 == 0:
			b.lost++
			return telegramtest.Fault{DropAfter: true}
		case sends%61 == 0:
			return telegramtest.Flood(0.2)
		}
		return telegramtest.Fault{}
	})
	return b
}

// say has people write n messages, to one chat after the other.
func (b *besieged) say(n int) {
	for range n {
		total := b.count()
		chat := total % len(b.said)
		text := fmt.Sprintf("message %d", total)
		b.platform.Say(telegramtest.Said{From: telegramtest.User{ID: int64(5000 + chat), FirstName: "P"}, Text: text})
		b.said[chat] = append(b.said[chat], text)
	}
}

func (b *besieged) count() (n int) {
	for _, chat := range b.said {
		n += len(chat)
	}
	return n
}

// settled waits until everything that was said is answered and sent.
func (b *besieged) settled() {
	b.t.Helper()
	b.await("everything is answered and sent", func() bool {
		return b.platform.Waiting() == 0 && strings.Contains(b.ask("/status"), `"queue":{}`)
	})
}

// cut takes the platform out of reach for a moment.
func (b *besieged) cut() {
	b.platform.Silence(true)
	b.platform.Cut()
	b.say(len(b.said))
	time.Sleep(300 * time.Millisecond)
	b.platform.Silence(false)
}

// replies counts those that Corebot has made, however often each was sent.
func (b *besieged) replies() (n int, err error) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(b.home, "data", "corebot.db")+"?mode=ro")
	if err != nil {
		return 0, err
	}
	err = db.QueryRow(`SELECT COUNT(*) FROM message_life m JOIN lanes l ON l.id = m.lane_id
		WHERE l.direction = 2 AND l.channel = 'telegram'`).Scan(&n)
	return n, errors.Join(err, db.Close())
}

// judge compares what the chats show with what was said in them. A send whose end a crash or a lost answer has hidden
// is made again: then a chat shows the same reply twice in a row.
func (b *besieged) judge() {
	b.t.Helper()
	copies, wrong := 0, "none"
	for i, said := range b.said {
		var want []string
		for _, text := range said {
			want = append(want, "answer to "+text)
		}
		texts := b.platform.Texts(int64(5000 + i))
		once := slices.Compact(slices.Clone(texts))
		copies += len(texts) - len(once)
		if !slices.Equal(once, want) {
			wrong = "yes"
			b.t.Errorf("chat %d shows\n%q and not\n%q", i, texts, want)
		}
	}
	if n, err := b.replies(); err != nil || n != b.count() {
		b.t.Errorf("%d messages have %d replies, %v", b.count(), n, err)
		wrong = "yes"
	}
	if most := b.lost + *telegramKills*len(b.said); copies > most {
		b.t.Errorf("%d replies are shown twice, at most %d had an unknown end", copies, most)
	}
	for _, c := range b.platform.Complaints() {
		b.t.Errorf("the platform complains: %s", c)
	}
	b.tell(fmt.Sprintf(`bot killed              %d times, and cut off from its platform %d times
messages                %d in %d chats
lost or out of order    %v
turns doubled           %v
sends of unknown end    %d answers of the platform lost, and those of the kills
replies shown again     %d, each right behind itself
`, *telegramKills, *telegramCuts, b.count(), len(b.said), wrong, wrong, b.lost, copies))
}
