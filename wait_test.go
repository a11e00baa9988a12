package corebot

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// spawned is a turn that asks, and a job that it begins.
func spawned() (Delivery, NewJob) {
	k := Key{Agent: "main", Channel: "test", Account: "work", Chat: "a:b", Thread: "c:d"}
	d := Delivery{Life: 7, Run: 1, Message: Message{ID: "m", Key: k, Sender: Principal{Channel: "test", ID: "ann"}}}
	return d, NewJob{Kind: JobRun, Tools: []string{"fs.read"}, Prompt: "x", Asks: d.Caller()}
}

func FuzzTheLaneOfAChildTurnNamesTheConversationInWhichItActs(f *testing.F) {
	f.Add("main", "webhook", "", "a", "")
	f.Add("main", "telegram", "work", "a:1:b", ":2:")
	f.Fuzz(func(t *testing.T, agent, channel, account, chat, thread string) {
		k := Key{Agent: agent, Channel: channel, Account: account, Chat: chat, Thread: thread}
		if k.Validate() != nil || strings.Contains(channel, ":") || channel == JobChannel {
			return // no conversation has such a key
		}
		lane := jobKey(k, 7)
		if lane == k || lane == jobKey(k, 8) || lane.Acts() != k || lane.Acts().Acts() != k {
			t.Errorf("the lane of %+v is %+v, and acts in %+v", k, lane, lane.Acts())
		}
	})
}

func TestAChildTurnKeepsWhatItCarriesThroughTheStore(t *testing.T) {
	d, j := spawned()
	d.Message.Relay = &Relay{Agent: "other", Hops: 2, Back: []Key{{Agent: "x", Channel: "test", Chat: "y"}}}
	d.Message.Trace = Trace{ID: [16]byte{1}, Span: [8]byte{2}, Sampled: true}
	j.Asks = d.Caller()
	j.Asks.Taint, j.Asks.Others, j.Asks.Overheard = "a page", []Principal{{Channel: "test", ID: "eve"}}, true
	m, err := d.Spawn(3, 0, j)
	if err != nil {
		t.Fatal(err)
	}
	body, sum := m.EncodeBody()
	got := Message{Direction: Inbound, Key: m.Key, Kind: m.Kind}
	err = DecodeBody(body, sum[:], &got)
	if err != nil || !reflect.DeepEqual(got.Child, m.Child) || got.Metadata != nil {
		t.Fatalf("%v: read %+v, stored %+v", err, got.Child, m.Child)
	}
	asks := j
	asks.Kind, asks.Agent = JobAsk, "third"
	if q, err := d.Spawn(4, 0, asks); err != nil || q.Trace != d.Message.Trace || got.Trace != d.Message.Trace {
		t.Errorf("the child's trace is %+v, the question's %+v (%v), the parent's %+v", got.Trace, q.Trace, err,
			d.Message.Trace)
	}
	child := Delivery{Life: 8, Run: 1, Message: got}
	c := child.Caller()
	if c.Key != d.Message.Key || c.Results() != d.Message.Relay.Back[0] || c.Depth != 1 || c.Taint != "a page" ||
		len(c.Others) != 1 || !c.Overheard || c.Entry.Interactive() || child.Job() != 3 {
		t.Errorf("the child acts as %+v", c)
	}
	if q, err := child.Question(0, c, "third", "x"); err != nil || q.Relay.Hops != 3 || len(q.Relay.Back) != 2 {
		t.Errorf("a question of the child: %+v, %v", q.Relay, err)
	}
}

// TestAChildTurnWithoutToolsHasNone: no list would mean all tools.
func TestAChildTurnWithoutToolsHasNone(t *testing.T) {
	d, j := spawned()
	j.Tools = nil
	m, err := d.Spawn(3, 0, j)
	if err != nil {
		t.Fatal(err)
	}
	body, sum := m.EncodeBody()
	got := Message{Direction: Inbound, Key: m.Key, Kind: m.Kind}
	if err := DecodeBody(body, sum[:], &got); err != nil || (Delivery{Message: got}).Caller().Tools == nil {
		t.Errorf("%v: the child has the tools %#v", err, got.Child.Tools)
	}
}

func TestAChildTurnIsNeverDeeperThanTheLimitAndItsLaneHasAName(t *testing.T) {
	d, j := spawned()
	j.Asks.Depth = MaxJobDepth
	if _, err := d.Spawn(3, 0, j); !errors.Is(err, ErrTooDeep) || HintOf(err) == "" {
		t.Errorf("one too deep: %v", err)
	}
	j.Asks.Depth, j.Asks.Key.Thread = 0, strings.Repeat("x", MaxKeyField)
	if _, err := d.Spawn(3, 0, j); !errors.Is(err, ErrInvalid) {
		t.Errorf("a lane without room for its name: %v", err)
	}
}

func TestABudgetIsNeverLessThanNothing(t *testing.T) {
	left := JobBudget{Tokens: 5, Calls: 5}.Less(JobBudget{Tokens: 6, Calls: 2})
	if left != (JobBudget{Calls: 3}) || left.Plus(JobBudget{Tokens: 1}) != (JobBudget{Tokens: 1, Calls: 3}) {
		t.Errorf("it is %+v", left)
	}
}

func FuzzAPromptIsShownInOneShortLine(f *testing.F) {
	f.Add("a\nb")
	f.Add(strings.Repeat("ä", maxJobShown))
	f.Fuzz(func(t *testing.T, prompt string) {
		shown := NewJob{Prompt: prompt}.Shown()
		if len(shown) > maxJobShown+len("…") || strings.Contains(shown, "\n") ||
			utf8.ValidString(prompt) && !utf8.ValidString(shown) {
			t.Errorf("%q is shown as %q", prompt, shown)
		}
	})
}

func FuzzANumberIsReadAsItIsSaid(f *testing.F) {
	for _, s := range []string{"7", "#7", "-1", "99999999999999999999", "+7", "0x7"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		job, err := ParseJobID(s)
		wait, failed := ParseWaitID(s)
		if job != wait || (err == nil) != (failed == nil) || (err == nil) != (job > 0) ||
			err != nil && !errors.Is(err, ErrInvalid) {
			t.Fatalf("%q is job %d, %v, and wait %d, %v", s, job, err, wait, failed)
		}
		if again, _ := ParseJobID(fmt.Sprint("#", job)); job > 0 && again != job {
			t.Fatalf("job %d is read as %d", job, again)
		}
	})
}

func TestAJobIsNamedByItsNumber(t *testing.T) {
	for s, want := range map[string]int64{"7": 7, "#7": 7, "0": 0, "-1": 0, "x": 0, "": 0} {
		if id, err := ParseJobID(s); id != want || (err == nil) != (want > 0) {
			t.Errorf("%q is %d, %v", s, id, err)
		}
	}
	over := NoLongerRuns{Job{ID: 7, State: JobDone, EndedAt: time.Now()}}
	if text := over.Error(); text != "job 7 has ended: it is done" {
		t.Error(text)
	}
}
