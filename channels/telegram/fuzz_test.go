package telegram_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/channeltest"
	"github.com/corebot/corebot/channels/telegram"
	"github.com/corebot/corebot/channels/telegram/telegramtest"
)

// answered is a channel whose platform gives every request one answer.
func answered(tb testing.TB) (*telegram.Channel, *channeltest.Answers) {
	tb.Helper()
	a := channeltest.NewAnswers(tb)
	c, err := telegram.New(telegram.Settings{Token: telegramtest.Token, APIURL: a.URL, Poll: 1},
		channels.Site{Account: account, Log: zerolog.Nop()})
	if err != nil {
		tb.Fatal(err)
	}
	return c.(*telegram.Channel), a
}

func words(text string) channels.Outbound {
	return channels.Outbound{
		Key:  corebot.Key{Agent: "main", Channel: "telegram", Account: "main", Chat: "7"},
		Kind: corebot.KindReply, IdempotencyKey: "r", Parts: corebot.TextPart(text),
	}
}

// FuzzAnswer has the platform answer a send with anything: it is told apart what was shown, what waits and what is
// over.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{
		`{"ok":true,"result":{"message_id":5}}`, `{"ok":true}`, `{"ok":true,"result":null}`, `{"ok":true,"result":[]}`,
		`{"ok":true,"result":{"message_id":"5"}}`, `{"ok":true,"result":{"message_id":-9223372036854775808}}`,
		`{"ok":false,"error_code":429,"description":"x","parameters":{"retry_after":1e300}}`,
		`{"ok":false,"error_code":429,"description":"x","parameters":{"retry_after":-1}}`,
		`{"ok":false,"error_code":400,"description":"can't parse entities"}`,
		`{"ok":false,"error_code":400,"description":"message is too long"}`,
		`{"ok":false,"error_code":400,"description":"x","parameters":{"migrate_to_chat_id":-100}}`,
		`{"ok":false,"error_code":409,"description":"webhook"}`, `{"ok":false}`, `null`, `<html>`, ``,
		`{"ok":false,"description":"` + strings.Repeat("ä", 2000) + `"}`,
	} {
		f.Add(200, seed)
		f.Add(400, seed)
		f.Add(502, seed)
	}
	c, a := answered(f)
	f.Fuzz(func(t *testing.T, status int, body string) {
		a.Say(status, nil, body)
		receipt, err := c.Send(t.Context(), words("**hello**"))
		channeltest.RequireBearable(t, err, telegramtest.Token)
		if err != nil {
			if len(receipt.IDs) > 0 || receipt.Reached > 0 {
				t.Errorf("a send that failed with %v has the receipt %+v", err, receipt)
			}
		} else if len(receipt.IDs) > 1 || receipt.Reached != len("**hello**") {
			t.Errorf("the receipt is %+v", receipt)
		}
		if n := a.Asked(); n > 8 {
			t.Errorf("one send has made %d requests", n)
		}
		_, err = c.Edit(t.Context(), "5", words("hello"))
		channeltest.RequireBearable(t, err, telegramtest.Token)
		channeltest.RequireBearable(t, c.Erase(t.Context(), words("").Key, "5"), telegramtest.Token)
		_, err = c.Typing(t.Context(), words("").Key)
		channeltest.RequireBearable(t, err, telegramtest.Token)
		_, err = c.Check(t.Context())
		channeltest.RequireBearable(t, err, telegramtest.Token)
	})
}

// TestASendWhoseAnswerCannotBeReadIsOfUnknownEnd: the platform has said that it was done. Without that the message
// would be shown again every few seconds for ever.
func TestASendWhoseAnswerCannotBeReadIsOfUnknownEnd(t *testing.T) {
	c, a := answered(t)
	for _, body := range []string{
		`{"ok":true}`, `{"ok":true,"result":"?"}`, `{"ok":true,"result":{"message_id":"x"}}`,
	} {
		a.Say(200, nil, body)
		_, err := c.Send(t.Context(), words("hello"))
		f := (*corebot.Failure)(nil)
		if !errors.Is(err, channels.ErrMayBeShown) || !errors.As(err, &f) || f.Class == corebot.Cancelled {
			t.Errorf("%s is %v", body, err)
		}
	}
}

// FuzzPlace reads any stored position: a poll behind it asks for a number or not at all, and what is stored next can be
// read again.
func FuzzPlace(f *testing.F) {
	for _, seed := range []string{
		"", "7", "7 https://a.org/x", " https://a.org/x", "x", "-1", "9223372036854775808", "7  a  b",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		offset, text := telegram.PlaceOf(s)
		if again, same := telegram.PlaceOf(text); again != offset || same != text {
			t.Errorf("%q is stored as %q and %q", s, text, same)
		}
		if strings.Contains(offset, " ") {
			t.Errorf("the offset is %q", offset)
		}
	})
}

// FuzzFile has the platform say anything of where a file is: Corebot asks for nothing that is not below the address of
// files, where its token may go.
func FuzzFile(f *testing.F) {
	for _, path := range []string{
		"photos/a.jpg", "../../x", "/etc/passwd", "a/../../b", "a/../", "..", "%2e%2e/x", "a\x00b", "a?b#c",
		"http://127.0.0.1/x",
		"http://127.0.0.1/x",
		"\u202egpj.exe", strings.Repeat("a/", 3000),
	} {
		quoted, _ := json.Marshal(path)
		f.Add(`{"ok":true,"result":{"file_path":` + string(quoted) + `}}`)
	}
	f.Add(`{"ok":true,"result":{}}`)
	c, a := answered(f)
	f.Fuzz(func(t *testing.T, body string) {
		a.Say(200, nil, body)
		content, err := c.OpenFile(t.Context(), "x")
		channeltest.RequireBearable(t, err, telegramtest.Token)
		if err == nil {
			_ = content.Close()
		}
		path, of := a.Path(), "/bot"+telegramtest.Token+"/getFile"
		below, in := strings.CutPrefix(path, "/file/bot"+telegramtest.Token+"/")
		if path != of && (!in || slices.Contains(strings.Split(below, "/"), "..")) {
			t.Errorf("%.300q has Corebot ask for %.300q", body, path)
		}
	})
}
