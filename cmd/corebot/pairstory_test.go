package main

import (
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/corebot/corebot/channels/telegram/telegramtest"
)

// telegrams are the platforms of stories, by their addresses.
var telegrams sync.Map

// telegram NAME starts a Telegram of the story's own, and puts its address into a variable.
func telegram(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: telegram NAME")
	}
	s := telegramtest.New()
	ts.Defer(s.Close)
	telegrams.Store(s.URL(), s)
	ts.Setenv(args[0], s.URL())
}

// person is a platform of the story, and the number of somebody there.
func person(ts *testscript.TestScript, url, number string) (*telegramtest.Server, int64) {
	s, known := telegrams.Load(url)
	id, err := strconv.ParseInt(number, 10, 64)
	if !known || err != nil {
		ts.Fatalf("%s of %s: want an address that the command telegram gave, and a number", number, url)
	}
	return s.(*telegramtest.Server), id
}

// tells is the command says ADDRESS NUMBER TEXT...: it has a person write to the bot, one message for each text.
func tells(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: says ADDRESS NUMBER TEXT...")
	}
	s, id := person(ts, args[0], args[1])
	for _, text := range args[2:] {
		s.Say(telegramtest.Said{From: telegramtest.User{ID: id, FirstName: "P" + args[1]}, Text: text})
	}
}

// told ADDRESS NUMBER REGEXP [NAME] waits until the bot has told a person something, and puts what the first group of
// the expression has matched into a variable. "! told" says that the person was told no such thing.
func told(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 3 || len(args) > 4 {
		ts.Fatalf("usage: told ADDRESS NUMBER REGEXP [NAME]")
	}
	s, id := person(ts, args[0], args[1])
	want := regexp.MustCompile(args[2])
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		all := strings.Join(s.Texts(id), "\n")
		found := want.FindStringSubmatch(all)
		switch {
		case neg && found != nil:
			ts.Fatalf("%d was told %q", id, found[0])
		case neg:
			return
		case found != nil:
			if len(args) == 4 {
				ts.Setenv(args[3], found[1])
			}
			return
		case time.Now().After(deadline):
			ts.Fatalf("%d was told nothing like %s:\n%s", id, want, all)
		}
	}
}
