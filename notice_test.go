package corebot_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
)

// asked is a request of so many calls, each with so many bytes of arguments.
func asked(calls, size int) corebot.ApprovalRequest {
	a := corebot.ApprovalRequest{Approval: corebot.Approval{Request: 7, ExpiresAt: time.UnixMilli(1_700_000_000_000)}}
	for i := range calls {
		args := fmt.Sprintf(`{"n":%d,"text":"%s"}`, i, strings.Repeat("x", size))
		a.All = append(a.All, corebot.Approval{Bound: corebot.Bound{Tool: "fs.write", Args: json.RawMessage(args)}})
	}
	return a
}

func TestANoticeTravelsWithItsMessageAndMakesNoOtherMessageOfIt(t *testing.T) {
	m := wholeMessage()
	m.Kind = corebot.KindNotice
	plain, before := m.EncodeBody()
	about := asked(2, 10).NoticeOf()
	m.Notice = &about
	body, sum := m.EncodeBody()
	if sum != before {
		t.Error("a notice makes another message: an earlier version's message would be a conflict")
	}
	got := corebot.Message{Kind: m.Kind}
	if err := corebot.DecodeBody(body, sum[:], &got); err != nil || !reflect.DeepEqual(got, m) {
		t.Errorf("%v\ngot  %+v\nwant %+v", err, got, m)
	}
	got = corebot.Message{Kind: m.Kind}
	if err := corebot.DecodeBody(plain, sum[:], &got); err != nil || got.Notice != nil {
		t.Errorf("a message of an earlier version: %v, %+v", err, got.Notice)
	}
	for _, spoiled := range []string{
		string(body[:len(body)-1]), string(body) + "x", strings.Replace(string(body), `{"kind"`, `["kind"`, 1),
		"\x01" + string(body[1:]), "\x04" + string(body[1:]),
	} {
		if err := corebot.DecodeBody([]byte(spoiled), sum[:], &corebot.Message{Kind: m.Kind}); err == nil {
			t.Errorf("damage was not found in %q", spoiled)
		}
	}
}

func TestANoticeIsBoundedHoweverMuchIsAsked(t *testing.T) {
	for name, c := range map[string]struct{ calls, size, shown, more, whole int }{
		"one call":               {1, 100, 1, 0, 1},
		"a call without room":    {1, 10_000, 1, 0, 0},
		"calls that fill it":     {10, 3_000, 10, 0, 2},
		"more calls than it has": {40, 10, 32, 8, 32},
	} {
		t.Run(name, func(t *testing.T) {
			a := asked(c.calls, c.size)
			about := a.NoticeOf().Approval
			whole, size := 0, 0
			for i, call := range about.Calls {
				if size += len(call.Args); call.Args == string(a.All[i].Bound.Args) {
					whole++
				} else if call.Args != "" {
					t.Errorf("arguments are cut: %q", call.Args)
				}
			}
			if len(about.Calls) != c.shown || about.MoreCalls != c.more || whole != c.whole ||
				size > corebot.MaxNoticeArgs {
				t.Errorf("%d calls, %d more, %d whole, %d bytes", len(about.Calls), about.MoreCalls, whole, size)
			}
		})
	}
}

func TestCharactersThatNobodySeesAreSpelledInANotice(t *testing.T) {
	a := asked(1, 1)
	a.All[0].Bound.Args = json.RawMessage("{\"to\":\"mallory\u200b\"}")
	if got := a.NoticeOf().Approval.Calls[0].Args; got != `{"to":"mallory\u200b"}` {
		t.Errorf("the arguments are %s", got)
	}
}

// Programs read these names.
func TestANoticeAsJSON(t *testing.T) {
	about := asked(1, 1).NoticeOf()
	got, err := json.Marshal(about)
	if want := `{"kind":"approval","approval":{"id":7,"calls":[{"tool":"fs.write","arguments":` +
		`"{\"n\":0,\"text\":\"x\"}"}],"expiresAt":"2023-11-14T22:13:20Z"},"actions":[` +
		`{"name":"approve","label":"Approve","command":"/approve 7"},` +
		`{"name":"deny","label":"Deny","command":"/deny 7"},` +
		`{"name":"deny-stop","label":"Deny and stop","command":"/deny 7 stop"}]}`; err != nil || string(got) != want {
		t.Errorf("%v\ngot  %s\nwant %s", err, got, want)
	}
}
