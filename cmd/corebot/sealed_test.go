//go:build matrixcrypto

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"maunium.net/go/mautrix"
	"maunium.net/go/mautrix/crypto"
	mxevent "maunium.net/go/mautrix/event"
	"maunium.net/go/mautrix/id"
)

func init() {
	programTags = "matrixcrypto,goolm"
	networks = append(networks, network{name: "sealed", kind: "matrix", history: true, streams: true, open: openSealed})
}

// secretRooms is Dendrite with encrypted rooms.
type secretRooms struct {
	*dendrite
	keys  []*reader
	texts map[id.EventID]string // what people have said
}

// reader is a person with a program that encrypts.
type reader struct {
	client *mautrix.Client
	mach   *crypto.OlmMachine
	room   id.RoomID
	bot    id.UserID
	read   map[string]string // what events say
}

func openSealed(t *testing.T, chats int) networkPlatform {
	s := &secretRooms{dendrite: openDendrite(t, 0).(*dendrite), texts: map[id.EventID]string{}}
	bot := id.UserID("@corebot:localhost")
	s.token = s.login("corebot")
	for chat := range chats {
		name := fmt.Sprint("person", chat)
		s.user(name)
		token := s.login(name)
		var made struct {
			Room string `json:"room_id"`
		}
		s.call(token, http.MethodPost, "createRoom", map[string]any{
			"is_direct": true, "invite": []id.UserID{bot}, "initial_state": []any{map[string]any{
				"type": "m.room.encryption", "state_key": "",
				"content": map[string]any{"algorithm": "m.megolm.v1.aes-sha2"},
			}},
		}, &made)
		s.call(s.token, http.MethodPost, "join/"+url.PathEscape(made.Room), map[string]any{}, nil)
		s.people, s.rooms = append(s.people, token), append(s.rooms, made.Room)
		s.keys = append(s.keys, s.person(token, id.RoomID(made.Room), bot))
	}
	return s
}

// login gives somebody a device of his own: those that Dendrite registers by the secret are all called the same.
func (s *secretRooms) login(name string) string {
	var in struct {
		Token string `json:"access_token"`
	}
	s.call("", http.MethodPost, "login", map[string]any{
		"type": "m.login.password", "identifier": map[string]any{"type": "m.id.user", "user": name},
		"password": "the password of " + name,
	}, &in)
	return in.Token
}

// person starts the program of somebody.
func (s *secretRooms) person(token string, room id.RoomID, bot id.UserID) *reader {
	client, err := mautrix.NewClient("http://"+s.addr, "", token)
	s.must(err)
	who, err := client.Whoami(s.t.Context())
	s.must(err)
	client.UserID, client.DeviceID = who.UserID, who.DeviceID
	state := mautrix.NewMemoryStateStore()
	client.StateStore = state
	mach := crypto.NewOlmMachine(client, nil, crypto.NewMemoryStore(nil), state.(crypto.StateStore))
	mach.DisableRatchetTracking = true
	s.must(mach.Load(s.t.Context()))
	s.must(mach.ShareKeys(s.t.Context(), -1))
	syncer := &hasty{mautrix.NewDefaultSyncer()}
	client.Syncer = syncer
	syncer.OnSync(mach.ProcessSyncResponse)
	syncer.OnEventType(mxevent.StateMember, mach.HandleMemberEvent)
	syncer.OnEvent(client.StateStoreSyncHandler)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = client.SyncWithContext(ctx)
	}()
	s.t.Cleanup(func() { cancel(); <-ended })
	return &reader{client: client, mach: mach, room: room, bot: bot, read: map[string]string{}}
}

// hasty tries a sync again soon.
type hasty struct{ *mautrix.DefaultSyncer }

func (*hasty) OnFailedSync(*mautrix.RespSync, error) (time.Duration, error) {
	return 50 * time.Millisecond, nil
}

func (s *secretRooms) say(chat int, text string) {
	s.t.Helper()
	p := s.keys[chat]
	ctx, cancel := context.WithTimeout(context.Background(), siegePatience)
	defer cancel()
	for { // people's programs find the keys of the bot when they make the room
		found, err := p.knows(ctx)
		if found {
			break
		}
		if ctx.Err() != nil {
			s.t.Fatalf("the bot has published no keys: %v", err)
		}
		time.Sleep(50 * time.Millisecond)
	}
	content := &mxevent.MessageEventContent{MsgType: mxevent.MsgText, Body: text}
	whole, err := p.mach.EncryptMegolmEvent(ctx, p.room, mxevent.EventMessage, content)
	if crypto.IsShareError(err) {
		for err := errors.New(""); err != nil; time.Sleep(50 * time.Millisecond) {
			if err = p.mach.ShareGroupSession(ctx, p.room, []id.UserID{p.client.UserID, p.bot}); ctx.Err() != nil {
				s.t.Fatal(err)
			}
		}
		whole, err = p.mach.EncryptMegolmEvent(ctx, p.room, mxevent.EventMessage, content)
	}
	s.must(err)
	for transaction := fmt.Sprint(s.said.Add(1)); ; time.Sleep(50 * time.Millisecond) {
		sent, err := p.client.SendMessageEvent(ctx, p.room, mxevent.EventEncrypted, whole,
			mautrix.ReqSendEvent{TransactionID: transaction})
		if err == nil {
			s.spoke(text)
			s.texts[sent.EventID] = text
			return
		}
		if !errors.As(err, new(mautrix.HTTPError)) || ctx.Err() != nil { // Dendrite has errors while it begins
			s.t.Fatal(err)
		}
	}
}

func (p *reader) knows(ctx context.Context) (bool, error) {
	devices, err := p.mach.CryptoStore.GetDevices(ctx, p.bot)
	if err == nil && len(devices) == 0 {
		if _, err = p.mach.FetchKeys(ctx, []id.UserID{p.bot}, true); err == nil {
			devices, err = p.mach.CryptoStore.GetDevices(ctx, p.bot)
		}
	}
	return len(devices) > 0, err
}

// shown reads the whole history of a room, as the program of the person shows it: without edits, whose texts stand in
// their places, and without what was taken back.
func (s *secretRooms) shown(chat int) (texts []string) {
	p, from, edited := s.keys[chat], "", map[id.EventID]string{}
	var edits, heard []string
	for {
		page := p.page(s.t, from)
		for _, e := range page.Chunk {
			if e.Sender != p.bot || e.StateKey != nil || e.Type == mxevent.EventRedaction ||
				e.Unsigned.RedactedBecause != nil {
				if text, is := s.texts[e.ID]; is {
					heard = append([]string{text}, heard...)
				}
				continue
			}
			text := "NOT ENCRYPTED: " + e.ID.String()
			if e.RoomID = p.room; e.Type == mxevent.EventEncrypted {
				_ = e.Content.ParseRaw(e.Type) // clear says so
				text = p.clear(e)
			}
			if of := e.Content.AsEncrypted().RelatesTo; of != nil && of.Type == mxevent.RelReplace {
				edits = append(edits, text)
				if _, later := edited[of.EventID]; !later {
					edited[of.EventID] = text
				}
				continue
			}
			if last, is := edited[e.ID]; is {
				text = last
			}
			texts = append([]string{text}, texts...)
		}
		if page.End == "" || len(page.Chunk) == 0 {
			s.edits[chat], s.heard[chat] = edits, heard
			return texts
		}
		from = page.End
	}
}

// page asks for a part of the history. Dendrite refuses some while it works.
func (p *reader) page(t *testing.T, from string) *mautrix.RespMessages {
	t.Helper()
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		page, err := p.client.Messages(t.Context(), p.room, from, "", mautrix.DirectionBackward, nil, 100)
		if err == nil {
			return page
		}
		if time.Since(began) > siegePatience {
			t.Fatal(err)
		}
	}
}

// clear is what an event says. The key comes by the next sync.
func (p *reader) clear(e *mxevent.Event) string {
	if text, is := p.read[e.ID.String()]; is {
		return text
	}
	if err := e.Content.ParseRaw(e.Type); err != nil && !errors.Is(err, mxevent.ErrContentAlreadyParsed) {
		return "UNREADABLE: " + err.Error()
	}
	ctx, cancel := context.WithTimeout(context.Background(), siegePatience)
	defer cancel()
	for {
		opened, err := p.mach.DecryptMegolmEvent(ctx, e)
		switch {
		case err == nil:
			message := opened.Content.AsMessage()
			text := message.Body
			if message.NewContent != nil {
				text = message.NewContent.Body
			}
			p.read[e.ID.String()] = text
			return text
		case !errors.Is(err, crypto.ErrNoSessionFound) || ctx.Err() != nil:
			return "UNREADABLE: " + err.Error()
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (s *secretRooms) complaints() (all []string) {
	for chat := range s.keys {
		for _, text := range s.shown(chat) {
			if strings.HasPrefix(text, "NOT ENCRYPTED") || strings.HasPrefix(text, "UNREADABLE") {
				all = append(all, text)
			}
		}
	}
	return append(all, s.dendrite.complaints()...)
}
