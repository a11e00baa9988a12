//go:build matrixcrypto

package sealed

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"maunium.net/go/mautrix"

	"github.com/corebot/corebot/channels/matrix/matrixtest"
)

// post passes on the keys of a test.
type post struct {
	*matrixtest.Post
	t   *testing.T
	url string
}

func newPost(t *testing.T) *post {
	p := matrixtest.NewPost(t)
	return &post{p, t, p.URL}
}

// keys takes what has come for a device.
func (p *post) keys(k *Keeper) (all Keys) {
	all.ToDevice.Events = p.Keys(k.self.User, k.self.Device)
	return all
}

func (p *post) keeper(path, user, device string) *Keeper {
	p.t.Helper()
	k := New(Config{Path: path, Homeserver: p.url, Token: user + " " + device, Log: zerolog.Nop()})
	p.must(k.Begin(p.t.Context(), Self{user, device}))
	p.t.Cleanup(func() { _ = k.Close() })
	p.must(k.Learn(p.t.Context(), room, []byte(`{"algorithm":"m.megolm.v1.aes-sha2"}`)))
	return k
}

func (p *post) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

const (
	room = "!room:test"
	ann  = "@ann:test"
	bot  = "@bot:test"
)

func (p *post) pair() (a, b *Keeper, file string) {
	file = filepath.Join(p.t.TempDir(), "b.keys")
	return p.keeper(filepath.Join(p.t.TempDir(), "a.keys"), ann, "A"), p.keeper(file, bot, "B"), file
}

func (p *post) say(k *Keeper, id, text string, people ...string) Event {
	p.t.Helper()
	content, err := k.Seal(p.t.Context(), room, append(people, ann, bot), "m.room.message", map[string]any{
		"msgtype": "m.text", "body": text,
	})
	p.must(err)
	if strings.Contains(string(content), text) {
		p.t.Fatalf("it is not encrypted: %s", content)
	}
	return Event{Room: room, ID: id, Sender: k.self.User, Sent: 5, Content: content}
}

func (p *post) reads(k *Keeper, e Event, want string) {
	p.t.Helper()
	o, err := k.Open(p.t.Context(), e)
	if err != nil || o.Type != "m.room.message" || !strings.Contains(string(o.Content), `"`+want+`"`) {
		p.t.Errorf("it reads %s %s, %v", o.Type, o.Content, err)
	}
}

func (p *post) refuses(k *Keeper, e Event, want error) {
	p.t.Helper()
	if o, err := k.Open(p.t.Context(), e); !errors.Is(err, want) {
		p.t.Errorf("it reads %s, %v; want %v", o.Content, err, want)
	}
}

func TestWhatWasTakenInIsReadAfterACrash(t *testing.T) {
	p := newPost(t)
	a, b, file := p.pair()
	first, second := p.say(a, "$1", "hello"), p.say(a, "$2", "again")
	p.must(b.Take(t.Context(), p.keys(b)))
	crashed := p.keeper(file, bot, "B") // the first was not closed: a crash leaves it so
	p.reads(crashed, first, "hello")
	p.reads(crashed, second, "again")
	p.reads(crashed, first, "hello") // the same event comes again
	answer := p.say(crashed, "$3", "yes")
	p.must(a.Take(t.Context(), p.keys(a)))
	p.reads(a, answer, "yes")
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file of keys: %v, %v", info.Mode(), err)
	}
}

func TestKeysThatComeTwiceAreTakenOnce(t *testing.T) {
	p := newPost(t)
	a, b, _ := p.pair()
	said := p.say(a, "$1", "hello")
	keys := p.keys(b)
	for range 3 {
		p.must(b.Take(t.Context(), keys))
	}
	p.reads(b, said, "hello")
}

func TestAMessageWithoutItsKeyWaitsOnTheDisk(t *testing.T) {
	p := newPost(t)
	a, b, file := p.pair()
	said := p.say(a, "$1", "hello")
	p.refuses(b, said, ErrNoKey)
	p.must(b.Wait(t.Context(), said))
	p.must(b.Wait(t.Context(), said))
	b = p.keeper(file, bot, "B")
	p.must(b.Take(t.Context(), p.keys(b)))
	due, err := b.Due(t.Context())
	if err != nil || len(due) != 1 || due[0].ID != "$1" {
		t.Fatalf("these wait: %v, %v", due, err)
	}
	p.reads(b, due[0].Event, "hello")
	if again, err := b.Due(t.Context()); len(again) != 0 || err != nil {
		t.Errorf("without a new key %v are tried again, %v", again, err)
	}
	p.must(b.Drop(t.Context(), room, "$1"))
	b.fresh = true
	if due, err := b.Due(t.Context()); len(due) != 0 || err != nil {
		t.Errorf("these wait still: %v, %v", due, err)
	}
}

func TestTooManyThatWaitPushTheOldestOut(t *testing.T) {
	p := newPost(t)
	_, b, _ := p.pair()
	for i := range maxWaiting + 3 {
		p.must(b.Wait(t.Context(), Event{Room: room, ID: fmt.Sprint("$", i), Content: json.RawMessage("{}")}))
	}
	due, err := b.Due(t.Context())
	if err != nil || len(due) != maxWaiting || due[0].ID != "$3" {
		t.Errorf("%d wait, the first is %v, %v", len(due), due[0].ID, err)
	}
}

func TestAHomeserverCannotPutWordsIntoAMouth(t *testing.T) {
	p := newPost(t)
	a, b, _ := p.pair()
	p.keeper(filepath.Join(t.TempDir(), "m.keys"), "@mallory:test", "M")
	said := p.say(a, "$1", "yes")
	p.must(b.Take(t.Context(), p.keys(b)))
	other := said
	other.Sender = "@mallory:test"
	p.refuses(b, other, ErrNoKey) // it waits for a device of Mallory that has said it
	other = said
	other.Room = "!other:test"
	p.refuses(b, other, ErrNoKey)
	p.reads(b, said, "yes")
	other = said
	other.ID = "$2"
	p.refuses(b, other, ErrUnreadable) // said once, shown twice
	other = said
	other.Content = json.RawMessage(strings.Replace(string(said.Content), `"ciphertext":"AwgA`,
		`"ciphertext":"AwgB`, 1))
	p.refuses(b, other, ErrUnreadable)
	other.Content = json.RawMessage(`{"algorithm":"rot13","ciphertext":"uryyb"}`)
	p.refuses(b, other, ErrUnreadable)
}

func TestWhoComesOrGoesReadsWhatIsSaidMeanwhileOnly(t *testing.T) {
	p := newPost(t)
	a, b, _ := p.pair()
	before := p.say(a, "$1", "before")
	eve := p.keeper(filepath.Join(t.TempDir(), "e.keys"), "@eve:test", "E")
	during := p.say(a, "$2", "during", "@eve:test")
	after := p.say(a, "$3", "after")
	p.must(eve.Take(t.Context(), p.keys(eve)))
	p.must(b.Take(t.Context(), p.keys(b)))
	p.refuses(eve, before, ErrNoKey)
	p.reads(eve, during, "during")
	p.refuses(eve, after, ErrNoKey)
	for id, e := range map[string]Event{"before": before, "during": during, "after": after} {
		p.reads(b, e, id)
	}
}

func TestANewDeviceReadsOnceItIsKnown(t *testing.T) {
	p := newPost(t)
	a, _, _ := p.pair()
	p.say(a, "$1", "before")
	phone := p.keeper(filepath.Join(t.TempDir(), "phone.keys"), bot, "PHONE")
	var changed Keys
	changed.Devices.Changed = []string{bot}
	p.must(a.Take(t.Context(), changed))
	after := p.say(a, "$2", "after")
	p.must(phone.Take(t.Context(), p.keys(phone)))
	p.reads(phone, after, "after")
}

func TestAFileOfKeysThatIsLostIsNotReplaced(t *testing.T) {
	p := newPost(t)
	p.pair()
	k := New(Config{
		Path: filepath.Join(t.TempDir(), "new.keys"), Homeserver: p.url, Token: bot + " B", Log: zerolog.Nop(),
	})
	if err := k.Begin(t.Context(), Self{bot, "B"}); !errors.Is(err, ErrOtherDevice) {
		t.Errorf("a new file for the same device: %v", err)
	}
}

func TestADeviceThatIsKnownBeginsWithoutTheHomeserver(t *testing.T) {
	p := newPost(t)
	_, b, file := p.pair()
	p.must(b.Close())
	for path, begins := range map[string]bool{file: true, filepath.Join(t.TempDir(), "new.keys"): false} {
		k := New(Config{Path: path, Homeserver: "http://127.0.0.1:1", Token: bot + " B", Log: zerolog.Nop()})
		if err := k.Begin(t.Context(), Self{bot, "B"}); (err == nil) != begins {
			t.Errorf("it begins with %v", err)
		}
		p.must(k.Close())
	}
}

func TestNothingLeavesAfterTheFileHasFailed(t *testing.T) {
	p := newPost(t)
	a, b, _ := p.pair()
	p.say(b, "$1", "before")
	p.must(b.Take(t.Context(), p.keys(b)))
	p.must(b.end(t.Context(), room))
	if _, err := b.db.RawDB.Exec("PRAGMA query_only = 1"); err != nil {
		t.Fatal(err)
	}
	p.keys(a)
	if sealed, err := b.Seal(t.Context(), room, []string{ann, bot}, "m.room.message", map[string]any{}); err == nil {
		t.Errorf("it gives %s", sealed)
	}
	if left := p.keys(a).ToDevice.Events; len(left) > 0 {
		t.Errorf("keys have left: %s", left)
	}
	if _, err := b.mach.Client.QueryKeys(t.Context(), &mautrix.ReqQueryKeys{}); !errors.Is(err, b.store.err()) {
		t.Errorf("a request leaves: %v", err)
	}
	p.must(b.Begin(t.Context(), Self{bot, "B"}))
	said := p.say(b, "$2", "after")
	p.must(a.Take(t.Context(), p.keys(a)))
	p.reads(a, said, "after")
}

func TestARoomWithAnotherAlgorithmIsNotWrittenTo(t *testing.T) {
	p := newPost(t)
	_, b, _ := p.pair()
	p.must(b.Learn(t.Context(), "!odd:test", []byte(`{"algorithm":"rot13"}`)))
	p.must(b.Learn(t.Context(), "!odd:test", []byte(`{"algorithm":"m.megolm.v1.aes-sha2"}`)))
	if _, err := b.Seal(t.Context(), "!odd:test", []string{ann}, "m.room.message", nil); !errors.Is(err, ErrUnsuited) {
		t.Errorf("it says %v", err)
	}
	if is, err := b.Encrypted(t.Context(), "!odd:test"); !is || err != nil {
		t.Errorf("the room is encrypted: %v, %v", is, err)
	}
}
