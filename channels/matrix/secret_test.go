//go:build matrixcrypto

package matrix

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/matrix/matrixtest"
	"github.com/corebot/corebot/channels/matrix/sealed"
)

const secretRoom = "!room:test"

var rule = []byte(`{"algorithm":"m.megolm.v1.aes-sha2"}`)

// secretHome is a homeserver with an encrypted room, the account there, and a person with a program that encrypts.
type secretHome struct {
	*matrixtest.Server
	t    *testing.T
	post *matrixtest.Post
	dir  string
	c    *Channel
	ann  *sealed.Keeper
	me   self
	down atomic.Bool // the homeserver does not say which devices there are
}

func newSecretHome(t *testing.T) *secretHome {
	h := &secretHome{Server: matrixtest.New(), t: t, post: matrixtest.NewPost(t), dir: t.TempDir()}
	t.Cleanup(h.Close)
	h.Room(secretRoom)
	rest, err := url.Parse(h.URL())
	h.must(err)
	others := httputil.NewSingleHostReverseProxy(rest)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h.down.Load() && strings.Contains(r.URL.Path, "/keys/query") {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		if strings.Contains(r.URL.Path, "/keys/") || strings.Contains(r.URL.Path, "/sendToDevice/") {
			r.Header.Set("Authorization", "Bearer "+matrixtest.Bot+" DEVICE")
			h.post.ServeHTTP(w, r)
			return
		}
		others.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	settings := Settings{Homeserver: front.URL, Token: matrixtest.Token, Hourly: 9, Poll: time.Second}
	made, err := New(settings, channels.Site{
		Account: channels.Account{Kind: "matrix", Name: "main"}, Log: zerolog.Nop(), Dir: h.dir,
		Files: oneFile{filepath.Join(h.dir, "file")},
	})
	h.must(err)
	h.c = made.(*Channel)
	t.Cleanup(func() { _ = h.c.keeper.Close() })
	h.me, err = h.c.me(t.Context())
	h.must(err)
	h.must(h.c.openKeys(t.Context(), h.me))
	h.ann = sealed.New(sealed.Config{
		Path: filepath.Join(h.dir, "ann"), Homeserver: h.post.URL, Token: matrixtest.Ann + " A", Log: zerolog.Nop(),
	})
	t.Cleanup(func() { _ = h.ann.Close() })
	h.must(h.ann.Begin(t.Context(), sealed.Self{User: matrixtest.Ann, Device: "A"}))
	h.must(h.ann.Learn(t.Context(), secretRoom, rule))
	return h
}

func (h *secretHome) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// says makes the event of something that Ann says.
func (h *secretHome) says(id, kind string, content any) event {
	h.t.Helper()
	text, err := h.ann.Seal(h.t.Context(), secretRoom, []string{matrixtest.Ann, matrixtest.Bot}, kind, content)
	h.must(err)
	return event{ID: id, Type: typeEncrypted, Sender: matrixtest.Ann, Sent: 1e12, Content: text}
}

func (h *secretHome) saysText(id, text string) event {
	return h.says(id, typeMessage, map[string]any{"msgtype": "m.text", "body": text})
}

// arrive hands the account the keys that have come.
func (h *secretHome) arrive() {
	h.t.Helper()
	var k sealed.Keys
	k.ToDevice.Events = h.post.Keys(matrixtest.Bot, "DEVICE")
	h.must(h.c.keeper.Take(h.t.Context(), k))
}

func (h *secretHome) reads(events ...event) []said {
	h.t.Helper()
	all, err := h.c.read(h.t.Context(), h.me, secretRoom, events, map[string]string{matrixtest.Ann: "Ann"})
	h.must(err)
	return all
}

// back lets what waits have waited for longer, and starts the account anew.
func (h *secretHome) back(by time.Duration) {
	h.t.Helper()
	h.must(h.c.keeper.Close())
	db, err := sql.Open("sqlite", filepath.Join(h.dir, "matrix.main.keys"))
	h.must(err)
	_, err = db.Exec("UPDATE corebot_waiting SET since = since - ?", by.Milliseconds()+1)
	h.must(err)
	h.must(db.Close())
	h.must(h.c.openKeys(h.t.Context(), h.me))
}

// oneDoor notes what was given to it.
type oneDoor struct {
	channels.Door
	given []channels.Incoming
	err   error
}

func (d *oneDoor) AcceptBatch(_ context.Context, batch []channels.Incoming, c corebot.Cursor) (
	channels.AcceptedBatch, error,
) {
	if d.err != nil {
		return channels.AcceptedBatch{Cursor: c}, d.err
	}
	d.given = append(d.given, batch...)
	return channels.AcceptedBatch{Messages: make([]channels.BatchResult, len(batch)), Cursor: c}, nil
}

// oneFile is a store of files with one file.
type oneFile struct{ path string }

func (f oneFile) Open(context.Context, corebot.Key, string) (*os.File, corebot.AttachedFile, error) {
	content, err := os.ReadFile(f.path)
	if err != nil {
		return nil, corebot.AttachedFile{}, err
	}
	file, err := os.Open(f.path)
	return file, corebot.AttachedFile{Size: int64(len(content))}, err
}

func TestWhatIsSaidInAnEncryptedRoomIsAMessage(t *testing.T) {
	h := newSecretHome(t)
	one := h.saysText("$1", "hello")
	edit := h.says("$2", typeMessage, map[string]any{
		"msgtype": "m.text", "body": "* bye", "m.new_content": map[string]any{"msgtype": "m.text", "body": "bye"},
		"m.relates_to": map[string]any{"rel_type": "m.replace", "event_id": "$1"},
	})
	h.arrive()
	all := h.reads(one, edit)
	if len(all) != 2 || all[0].Text() != "hello" || !all[0].Interactive || all[1].Text() != "bye" ||
		all[1].EditOf != "$1" {
		t.Errorf("it reads %+v", all)
	}
}

func TestAThreadThatIsNamedOnlyBesideTheCiphertextCounts(t *testing.T) {
	h := newSecretHome(t)
	one := h.saysText("$1", "hello")
	var body map[string]any
	h.must(json.Unmarshal(one.Content, &body))
	body["m.relates_to"] = map[string]any{"rel_type": relThread, "event_id": "$root"}
	text, err := json.Marshal(body)
	h.must(err)
	one.Content = text
	h.arrive()
	if all := h.reads(one); len(all) != 1 || all[0].Thread != "$root" || all[0].Text() != "hello" {
		t.Errorf("it reads %+v", all)
	}
}

func TestNobodyTakesBackOrReplacesARoomByAnEncryptedMessage(t *testing.T) {
	h := newSecretHome(t)
	redacts := h.says("$1", typeRedaction, map[string]any{"redacts": "$0"})
	stone := h.says("$2", typeTombstone, map[string]any{})
	h.arrive()
	if all := h.reads(redacts, stone); len(all) != 0 {
		t.Errorf("it reads %+v", all)
	}
}

func TestAMessageThatIsNotEncryptedIsNotReadInAnEncryptedRoom(t *testing.T) {
	h := newSecretHome(t)
	plain := event{
		ID: "$1", Type: typeMessage, Sender: matrixtest.Ann,
		Content: []byte(`{"msgtype":"m.text","body":"/approve 1"}`),
	}
	if all := h.reads(plain); len(all) != 1 || all[0].Text() != "/approve 1" {
		t.Fatalf("before the room is encrypted it reads %+v", all)
	}
	empty := ""
	begins := event{ID: "$2", Type: typeEncryption, StateKey: &empty, Sender: matrixtest.Ann, Content: rule}
	all := h.reads(begins, plain)
	if len(all) != 1 || all[0].Tell != tellPlain || all[0].Text() != "" {
		t.Errorf("it reads %+v", all)
	}
}

func TestAMessageIsAnsweredWhenItsKeyComesAndTheRoomIsToldMeanwhile(t *testing.T) {
	h, door := newSecretHome(t), &oneDoor{}
	if all := h.reads(h.saysText("$1", "hello")); len(all) != 0 {
		t.Fatalf("without its key it reads %+v", all)
	}
	late := func(want ...string) {
		t.Helper()
		if _, err := h.c.late(t.Context(), door, h.me, place{}); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, in := range door.given {
			got = append(got, in.ID+" "+in.SenderID+" "+in.Text()+in.Tell)
		}
		if door.given = nil; strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("the door is given %q, want %q", got, want)
		}
	}
	late()
	h.back(keylessTell)
	late("$1 " + matrixtest.Ann + " " + tellKeyless)
	h.back(keylessTell)
	late()
	h.arrive()
	door.err = errors.New("no")
	if _, err := h.c.late(t.Context(), door, h.me, place{}); err == nil {
		t.Error("an error of the door is not said")
	}
	door.err = nil
	h.back(keylessTell)
	late("$1 " + matrixtest.Ann + " hello")
	h.back(keylessTell)
	late()
}

func TestAMessageThatIsTakenBackWaitsNoLonger(t *testing.T) {
	h, door := newSecretHome(t), &oneDoor{}
	h.reads(h.saysText("$1", "hello"), h.saysText("$2", "taken back"))
	h.reads(event{ID: "$3", Type: typeRedaction, Sender: matrixtest.Ann, Redacts: "$2"})
	h.arrive()
	_, err := h.c.late(t.Context(), door, h.me, place{})
	if err != nil || len(door.given) != 1 || door.given[0].Text() != "hello" {
		t.Errorf("the door is given %+v, %v", door.given, err)
	}
}

func TestAMessageWhoseKeyNeverComesIsGivenUp(t *testing.T) {
	h, door := newSecretHome(t), &oneDoor{}
	h.reads(h.saysText("$1", "hello"))
	h.back(keylessMost)
	for range 2 {
		if _, err := h.c.late(t.Context(), door, h.me, place{}); err != nil || len(door.given) > 0 {
			t.Errorf("the door is given %+v, %v", door.given, err)
		}
	}
	h.arrive()
	if due, err := h.c.keeper.Due(t.Context()); len(due) > 0 || err != nil {
		t.Errorf("these wait: %v, %v", due, err)
	}
}

func TestAnAnswerInAnEncryptedRoomIsEncryptedAndFoundAgain(t *testing.T) {
	h := newSecretHome(t)
	h.must(h.c.keeper.Learn(t.Context(), secretRoom, rule))
	o := channels.Outbound{
		ID: "r", IdempotencyKey: "r",
		Key:  corebot.Key{Agent: "a", Channel: "matrix", Account: "main", Chat: secretRoom},
		Kind: corebot.KindReply, Parts: corebot.TextPart("a secret answer"),
	}
	sent, err := h.c.Send(t.Context(), o)
	h.must(err)
	calls := h.Calls("send")
	if len(calls) != 1 || calls[0].Body["ciphertext"] == nil || calls[0].Body["body"] != nil {
		t.Fatalf("the homeserver gets %+v", calls)
	}
	again, shown, err := h.c.Delivered(t.Context(), o)
	if err != nil || !shown || len(again.IDs) != 1 || again.IDs[0] != sent.IDs[0] {
		t.Errorf("it finds %+v, %v, %v", again, shown, err)
	}
}

// A homeserver that is killed breaks off each request for a second or two. A reply must lose no
// attempts by it.
func TestAQuestionBeforeAnEncryptedSendWaitsForAHomeserverThatBreaksOff(t *testing.T) {
	for _, name := range []string{"joined_members", "state"} {
		h := newSecretHome(t)
		if name != "state" {
			h.must(h.c.keeper.Learn(t.Context(), secretRoom, rule))
		}
		h.Faults(func(c matrixtest.Call) matrixtest.Fault { return matrixtest.Fault{Drop: c.Name == name} })
		_, err := h.c.Send(t.Context(), channels.Outbound{
			ID: "r", IdempotencyKey: "r", Kind: corebot.KindReply, Parts: corebot.TextPart("a secret answer"),
			Key: corebot.Key{Agent: "a", Channel: "matrix", Account: "main", Chat: secretRoom},
		})
		f := (*corebot.Failure)(nil)
		if !errors.As(err, &f) || f.Class != corebot.RateLimited || errors.Is(err, channels.ErrMayBeShown) {
			t.Errorf("%s: it fails with %v", name, err)
		}
	}
}

func TestAnEditInAnEncryptedRoomIsEncryptedAndNamesItsMessageInTheClear(t *testing.T) {
	h := newSecretHome(t)
	h.must(h.c.keeper.Learn(t.Context(), secretRoom, rule))
	o := channels.Outbound{
		ID: "r", IdempotencyKey: "r", Kind: corebot.KindReply, Parts: corebot.TextPart("…"),
		Key: corebot.Key{Agent: "a", Channel: "matrix", Account: "main", Chat: secretRoom},
	}
	sent, err := h.c.Send(t.Context(), o)
	h.must(err)
	o.Parts = corebot.TextPart("a secret answer")
	_, err = h.c.Edit(t.Context(), sent.IDs[0], o)
	h.must(err)
	calls := h.Calls("send")
	if len(calls) != 2 {
		t.Fatalf("the homeserver gets %+v", calls)
	}
	body := calls[1].Body
	relates, _ := body["m.relates_to"].(map[string]any)
	if body["ciphertext"] == nil || body["m.new_content"] != nil || body["body"] != nil ||
		relates["rel_type"] != relReplace || relates["event_id"] != sent.IDs[0] {
		t.Errorf("the homeserver gets %+v", body)
	}
}

// comes hands the account an answer with the keys that have come, and with events.
func (h *secretHome) comes(door channels.Door, events ...event) {
	h.t.Helper()
	var all []any
	for _, e := range events {
		all = append(all, map[string]any{
			"event_id": e.ID, "type": e.Type, "sender": e.Sender, "origin_server_ts": e.Sent, "content": e.Content,
		})
	}
	text, err := json.Marshal(map[string]any{
		"next_batch": "s2", "to_device": map[string]any{"events": h.post.Keys(matrixtest.Bot, "DEVICE")},
		"rooms": map[string]any{"join": map[string]any{secretRoom: map[string]any{
			"timeline": map[string]any{"events": all},
		}}},
	})
	h.must(err)
	var a answer
	h.must(json.Unmarshal(text, &a))
	_, err = h.c.takeAll(h.t.Context(), door, h.me, place{since: "s1"}, a)
	h.must(err)
}

func (d *oneDoor) texts() (all []string) {
	for _, in := range d.given {
		all = append(all, in.Text()+in.Tell)
	}
	return all
}

// The key of a message can come in the answer that has later messages, which can be read at once.
func TestAMessageWhoseKeyComesLateStandsBeforeThoseThatCameWithTheKey(t *testing.T) {
	h, door := newSecretHome(t), &oneDoor{}
	first, second := h.saysText("$1", "first"), h.saysText("$2", "second")
	if all := h.reads(first); len(all) != 0 {
		t.Fatalf("without its key it reads %+v", all)
	}
	h.back(11 * time.Second) // nothing is held up behind it any more
	h.comes(door, second)
	if got := door.texts(); !slices.Equal(got, []string{"first", "second"}) {
		t.Errorf("the door is given %q", got)
	}
}

// A homeserver that is killed does not say of which device a message is. A moment later it does, and newer messages
// could be read before the one that waits.
func TestMessagesStayInOrderBehindOneWhoseDeviceCouldNotBeAskedFor(t *testing.T) {
	h, door := newSecretHome(t), &oneDoor{}
	first, second, third := h.saysText("$1", "first"), h.saysText("$2", "second"), h.saysText("$3", "third")
	h.down.Store(true)
	h.comes(door, first)
	h.down.Store(false)
	h.comes(door, second)
	if got := door.texts(); len(got) > 0 {
		t.Errorf("the door is given %q", got)
	}
	h.back(0)
	h.comes(door, third)
	if got := door.texts(); !slices.Equal(got, []string{"first", "second", "third"}) {
		t.Errorf("the door is given %q", got)
	}
}

// Somebody whose message can never be read does not hold up the others, nor himself for long.
func TestAMessageWithoutAKeyHoldsUpItsSenderOnlyAndNotForLong(t *testing.T) {
	h, door := newSecretHome(t), &oneDoor{}
	lost := h.saysText("$1", "lost")
	h.post.Keys(matrixtest.Bot, "DEVICE")
	h.must(h.ann.Close())
	h.must(h.ann.Begin(t.Context(), sealed.Self{User: matrixtest.Ann, Device: "A"})) // its next session is another
	next, other := h.saysText("$2", "next"), h.saysText("$3", "other")
	h.comes(door, lost, next)
	if got := door.texts(); len(got) > 0 {
		t.Errorf("the door is given %q", got)
	}
	other.Sender = "@eve:test"
	if held, err := h.c.keeper.Held(t.Context(), sealedOf(secretRoom, other, "")); held || err != nil {
		t.Errorf("somebody else is held up: %v, %v", held, err)
	}
	h.back(11 * time.Second)
	h.comes(door)
	if got := door.texts(); !slices.Equal(got, []string{"next"}) {
		t.Errorf("the door is given %q", got)
	}
}
