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

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm/llmtest"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/long"
)

var (
	networkMessages = long.Int("network.messages", 24, 160, "how many messages a bot gets while it is killed")
	networkChats    = long.Int("network.chats", 4, 8, "in how many chats")
	networkKills    = long.Int("network.kills", 1, 4, "how often the program is killed meanwhile")
	networkCuts     = long.Int("network.cuts", 1, 1, "how often the platform is out of reach meanwhile")
	networkOutage   = flag.Duration("network.outage", 0, "for how much longer it is then out of reach")
)

// network is a kind of platform with a bot on it. Its line in networks is all that the test needs of another kind.
type network struct {
	name string // of the test
	kind string // of channel
	// history says that what people write before the account connects for the first time is not for it.
	history bool
	// forgets says that the platform keeps nothing for an account that is not there. People write when the account is
	// there. A message is lost if the program dies before it has stored it, as if nobody had said it.
	forgets bool
	streams bool // answers are made slowly, and are shown while they grow
	open    func(t *testing.T, chats int) networkPlatform
}

// patience is how long a test waits for what the bot does there.
func (n network) patience() time.Duration {
	if n.kind == "mail" {
		return mailPatience
	}
	return channels.Unsent + siegePatience // a question that a busy machine did not answer in time is asked again then
}

// shortNetworks are those of the short form. The first keeps messages for a bot that is away, shows answers while they
// grow, and can tell what it shows. The second does nothing of that.
var shortNetworks = []string{"matrix", "irc"}

// networkPlatform is where people write to the bot, each in a chat of his own. It refuses and loses some sends of the
// bot.
type networkPlatform interface {
	settings() string // of the account, as one line of YAML
	say(chat int, text string)
	shown(chat int) []string // what the bot has said there
	away(meanwhile func())   // is out of reach for a moment, in which people write, if they can
	// lost is how many answers to sends the platform has lost. once says that the platform can tell what it shows. Then
	// no reply is shown twice.
	lost() (n int, once bool)
	complaints() []string
}

// growing is a platform whose messages can be edited. It has the texts of all edits.
type growing interface{ edits() []string }

// forgetful is a platform that forgets. It names the chats as the database has them, as a pattern of SQL.
type forgetful interface{ chatLike(chat int) string }

// tardy is a server that gives what people write right before it is killed only a while after its start, behind what
// they write later. Nobody can answer such a message in its place.
type tardy interface {
	late(text string) bool
	order(chat int) []string // what people have said, in the order in which the server shows it
}

// besieged is a bot on a platform, whose program is killed again and again.
type besieged struct {
	*siege
	network
	platform networkPlatform
	said     [][]string // what people have said, chat by chat
	sure     []int      // how many of these the program had stored when everything was last settled
	gone     int        // how much of it the platform has forgotten with a killed program
	looks    *sql.DB    // the database while somebody looks at it again and again
}

// TestKilledAtAnyMomentABotAnswersEachMessageOnceAndInOrder kills the released program at random moments, while people
// write to its bot. The platform meanwhile refuses sends for their rate, loses answers, and is out of reach for a while
// (guarantees G1 to G3, on every network).
func TestKilledAtAnyMomentABotAnswersEachMessageOnceAndInOrder(t *testing.T) {
	long.Only(t, "TestKilledAtAnyStepATurnGivesOneReplyAndRepeatsNoSideEffect")
	t.Parallel()
	for _, n := range networks {
		if !long.Or(slices.Contains(shortNetworks, n.name), true) {
			continue
		}
		t.Run(n.name, func(t *testing.T) {
			t.Parallel()
			besiege(t, n).lay()
		})
	}
}

// lay kills the program while people write, and looks at all that was said.
func (b *besieged) lay() {
	perCycle := networkMessages() / (networkKills() + 1)
	for cycle := range networkKills() {
		b.begin()
		if cycle == 0 && b.history {
			b.await("it receives", func() bool {
				n, err := b.rows("FROM channel_cursors")
				return err == nil && n > 0
			})
		}
		b.say(perCycle)
		if cycle%2 == 0 { // a message that is at work in three crashes in a row is poison by design
			b.settled()
			b.say(networkChats())
			time.Sleep(rand.N(100 * time.Millisecond))
		} else {
			time.Sleep(rand.N(400 * time.Millisecond))
		}
		switch {
		case cycle >= networkCuts():
		case b.forgets:
			b.settled()
			b.platform.away(func() { time.Sleep(*networkOutage) })
			running := fmt.Sprintf(`{"kind":%q,"account":"main","state":"running"`, b.kind)
			b.await("it is back", func() bool { return strings.Contains(b.ask("/status"), running) })
			b.say(len(b.said))
		default:
			b.say(len(b.said)) // the last of these may be answered while nobody can be told
			b.platform.away(b.writeOn)
		}
		b.kill()
		b.output("db", "check")
		b.forget()
	}
	b.begin()
	b.say(networkMessages() - b.count())
	b.settled()
	if b.streams {
		b.await("no draft is open", func() bool {
			n, err := b.rows("FROM drafts")
			return err == nil && n == 0
		})
	}
	b.terminate()
	b.output("db", "check")
	b.judge()
}

// writeOn has people write in an outage: at its beginning and, if it is long, each twelfth of it.
func (b *besieged) writeOn() {
	b.say(len(b.said))
	if *networkOutage == 0 {
		return
	}
	for range 12 {
		time.Sleep(*networkOutage / 12)
		b.say(len(b.said))
	}
}

// thought is what a model thinks. No chat sees it.
const thought = "what nobody may see"

func besiege(t *testing.T, n network) *besieged {
	t.Helper()
	return besiegeWith(t, n, func(r llmtest.Request) llmtest.Answer {
		said := lastUser(r) // its last line; above it a mail has its subject
		a := llmtest.Text("answer to " + said[strings.LastIndexByte(said, '\n')+1:]).
			After(rand.N(30 * time.Millisecond))
		if n.streams {
			a = a.Thinking(thought).Pieces(3).Every(rand.N(20 * time.Millisecond))
		}
		return a
	})
}

func besiegeWith(t *testing.T, n network, script llmtest.Script) *besieged {
	t.Helper()
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		llmtest.New(script).ServeHTTP(w, r) // a new one each time: it would keep every request
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
			url: "http://" + observability, bears: n.patience(),
		},
		network: n, platform: n.open(t, networkChats()), said: make([][]string, networkChats()),
		sure: make([]int, networkChats()),
	}
	t.Cleanup(b.kill)
	b.output("init")
	settings, err := os.OpenFile(filepath.Join(b.home, "corebot.yaml"), os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = fmt.Fprintf(settings, "\nchannels:\n  %s:\n    main: %s\n", n.kind, b.platform.settings())
	}
	if err == nil {
		err = settings.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// say has people write n messages, to one chat after the other.
func (b *besieged) say(n int) {
	for range n {
		total := b.count()
		chat := total % len(b.said)
		text := fmt.Sprintf("message %d", total)
		b.platform.say(chat, text)
		b.said[chat] = append(b.said[chat], text)
	}
}

// forget takes out what a platform that forgets has shown to the killed program, and the program has not stored. Each
// chat keeps a beginning of what was said there: with a message everything behind it is lost, and nothing before it.
func (b *besieged) forget() {
	b.t.Helper()
	if !b.forgets {
		return
	}
	for i, said := range b.said {
		n, err := b.rows(`FROM message_life m JOIN lanes l ON l.id = m.lane_id
			WHERE l.direction = ? AND l.channel = ? AND l.chat LIKE ?`, corebot.Inbound, b.kind,
			b.platform.(forgetful).chatLike(i))
		if err != nil || n > len(said) || n < b.sure[i] {
			b.t.Fatalf("chat %d has %d of %d messages, at least %d were stored, %v", i, n, len(said), b.sure[i], err)
		}
		b.gone += len(said) - n
		b.said[i] = said[:n]
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
	db, err := b.database()
	if err != nil {
		b.t.Fatal(err)
	}
	b.looks = db // each opening reads the whole schema
	b.await("everything is answered and sent", func() bool {
		// in this order: what comes between the two looks would be missed in the queue
		n, err := b.lives(corebot.Inbound)
		return err == nil && n == b.count() && strings.Contains(b.ask("/status"), `"queue":{}`)
	})
	for i, said := range b.said {
		b.sure[i] = len(said)
	}
	b.looks = nil
	if err := db.Close(); err != nil {
		b.t.Fatal(err)
	}
}

// lives counts the messages of a direction that Corebot knows, however often each came or was sent.
func (b *besieged) lives(d corebot.Direction) (n int, err error) {
	return b.rows(`FROM message_life m JOIN lanes l ON l.id = m.lane_id WHERE l.direction = ? AND l.channel = ?`, d,
		b.kind)
}

func (b *besieged) database() (*sql.DB, error) {
	return sql.Open("sqlite", "file:"+filepath.Join(b.home, "data", "corebot.db")+"?mode=ro")
}

// rows counts rows of the database.
func (b *besieged) rows(from string, args ...any) (n int, err error) {
	if b.looks != nil {
		err = b.looks.QueryRow("SELECT COUNT(*) "+from, args...).Scan(&n)
		return n, err
	}
	db, err := b.database()
	if err != nil {
		return 0, err
	}
	err = db.QueryRow("SELECT COUNT(*) "+from, args...).Scan(&n)
	return n, errors.Join(err, db.Close())
}

// unseen says whether a chat shows fewer answers than it will.
func (b *besieged) unseen() bool {
	for i, said := range b.said {
		if len(slices.Compact(slices.Clone(b.platform.shown(i)))) < len(said) {
			return true
		}
	}
	return false
}

// inPlace says whether a chat shows each answer once and in order. The answer to a late message can stand anywhere.
func (b *besieged) inPlace(once, want []string) bool {
	p, is := b.platform.(tardy)
	if !is {
		return slices.Equal(once, want)
	}
	rest := func(texts []string) []string {
		return slices.DeleteFunc(slices.Clone(texts), func(text string) bool {
			return p.late(strings.TrimPrefix(text, "answer to "))
		})
	}
	return slices.Equal(rest(once), rest(want)) &&
		slices.Equal(slices.Sorted(slices.Values(once)), slices.Sorted(slices.Values(want)))
}

// judge compares what the chats show with what was said in them. A send whose end a crash or a lost answer has hidden
// is made again: then a chat shows the same reply twice in a row.
func (b *besieged) judge() {
	b.t.Helper()
	// a real server shows an answer a moment after it has taken it
	for deadline := time.Now().Add(patience); time.Now().Before(deadline) && b.unseen(); {
		time.Sleep(10 * time.Millisecond)
	}
	copies, late, wrong := 0, 0, "none"
	for i, said := range b.said {
		var want []string
		for _, text := range said {
			want = append(want, "answer to "+text)
		}
		texts := b.platform.shown(i)
		once := slices.Compact(slices.Clone(texts))
		copies += len(texts) - len(once)
		if p, is := b.platform.(tardy); is && !slices.Equal(p.order(i), said) {
			late++
			b.t.Logf("chat %d has the messages in another order: %q", i, p.order(i))
		}
		if !b.inPlace(once, want) {
			wrong = "yes"
			b.t.Errorf("chat %d shows\n%q and not\n%q", i, texts, want)
		}
	}
	if n, err := b.lives(corebot.Outbound); err != nil || n != b.count() {
		b.t.Errorf("%d messages have %d replies, %v", b.count(), n, err)
		wrong = "yes"
	}
	lost, once := b.platform.lost()
	most := lost + networkKills()*len(b.said)
	if once {
		most = 0
	}
	if copies > most {
		b.t.Errorf("%d replies are shown twice, at most %d can be", copies, most)
	}
	wrongs := b.platform.complaints()
	if p, edits := b.platform.(growing); edits && b.streams {
		wrongs = append(wrongs, grown(p.edits())...)
	}
	early := 0
	for _, c := range wrongs {
		// A program that is killed before it has stored that the platform asks to wait does not know of it.
		if strings.Contains(c, "was to be left alone") && early < networkKills() {
			early++
			continue
		}
		b.t.Errorf("the platform complains: %s", c)
	}
	b.tell(fmt.Sprintf(`bot killed              on %s, %d times, and cut off from its platform %d times
messages                %d in %d chats
lost or out of order    %v
turns doubled           %v
forgotten by platform   %d, which the killed program had not stored
shown late by platform  messages in %d chats, behind what was said later
sends of unknown end    %d answers of the platform lost, and those of the kills
replies shown again     %d, each right behind itself
`, b.t.Name()[strings.LastIndex(b.t.Name(), "/")+1:], networkKills(), networkCuts(), b.count(), len(b.said), wrong,
		wrong, b.gone, late, lost, copies))
}
