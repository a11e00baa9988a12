package cli

import (
	"context"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
)

// startPlain runs a plain session over the input; replies are the test's to send.
func startPlain(t *testing.T, in io.Reader,
	door channels.Accepter,
) (c *CLI, out, complaints *syncBuffer, end chan error) {
	t.Helper()
	out, complaints, end = new(syncBuffer), new(syncBuffer), make(chan error, 1)
	c, err := New(Options{In: in, Out: out, Err: complaints, UserID: "1000", UserName: "ann"})
	if err != nil {
		t.Fatal(err)
	}
	go func() { end <- c.Run(t.Context(), door) }()
	return c, out, complaints, end
}

func send(t *testing.T, c *CLI, m channels.Outbound) {
	t.Helper()
	if _, err := c.Send(t.Context(), m); err != nil {
		t.Fatalf("send %s: %v", m.ID, err)
	}
}

func TestEachPlainLineIsOneMessageAndRunWaitsForEveryAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		door := &fakeDoor{}
		c, out, _, end := startPlain(t, strings.NewReader("one\n\n/tool x {}\r\nlast"), door)
		synctest.Wait()
		in := door.seen()
		if len(in) != 3 || in[0].Text() != "one" || in[1].Text() != "/tool x {}" || in[2].Text() != "last" {
			t.Fatalf("accepted %+v", in)
		}
		if m := in[0]; m.Channel != "cli" || m.Account != "local" || m.Chat != "main" || m.SenderID != "1000" ||
			m.SenderName != "ann" {
			t.Errorf("accepted as %+v", m)
		}
		send(t, c, reply("r1", in[0].ID, "first"))
		send(t, c, reply("r3", in[2].ID, "third\x1b[2J"))
		synctest.Wait()
		select {
		case err := <-end:
			t.Fatalf("Run ended before every answer was here: %v", err)
		default:
		}
		notice := reply("n2", in[1].ID, "no such tool")
		notice.Kind = corebot.KindNotice
		send(t, c, notice)
		if err := <-end; err != nil {
			t.Error(err)
		}
		if got := out.String(); got != "first\nthird␛[2J\nno such tool\n" {
			t.Errorf("printed %q", got)
		}
	})
}

func TestARefusedLineIsReportedAndTheOthersGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		door := &fakeDoor{answer: func(_ int, m channels.Incoming) error {
			if strings.Contains(m.Text(), "\xff") {
				return corebot.WithHint(corebot.ErrInvalid, "send UTF-8")
			}
			return nil
		}}
		c, _, complaints, end := startPlain(t, strings.NewReader("bad \xff\ngood\n"), door)
		synctest.Wait()
		in := door.seen()
		send(t, c, reply("r", in[1].ID, "fine"))
		if err := <-end; !errors.Is(err, corebot.ErrInvalid) {
			t.Errorf("Run returned %v", err)
		}
		if got := complaints.String(); got != "invalid (send UTF-8)\n" {
			t.Errorf("complained %q", got)
		}
	})
}

func TestALostCommitIsRetriedUnderTheSameID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		door := &fakeDoor{answer: func(attempt int, _ channels.Incoming) error {
			return []error{corebot.ErrCommitUnknown, &corebot.Failure{
				Class: corebot.Transient,
				Err:   errors.New("busy"),
			}, nil}[attempt-1]
		}}
		c, _, _, end := startPlain(t, strings.NewReader("hello\n"), door)
		time.Sleep(time.Minute)
		in := door.seen()
		if len(in) != 3 || in[0].ID != in[1].ID || in[1].ID != in[2].ID {
			t.Fatalf("attempts %+v", in)
		}
		send(t, c, reply("r", in[0].ID, "hi"))
		if err := <-end; err != nil {
			t.Error(err)
		}
	})
}

func TestARetryEndsAfterSomeAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		door := &fakeDoor{answer: func(int, channels.Incoming) error { return corebot.ErrCommitUnknown }}
		_, _, _, end := startPlain(t, strings.NewReader("hello\n"), door)
		if err := <-end; !errors.Is(err, corebot.ErrCommitUnknown) {
			t.Errorf("Run returned %v", err)
		}
		if n := len(door.seen()); n != acceptAttempts {
			t.Errorf("%d attempts", n)
		}
	})
}

func TestAFullLaneHoldsThePipeBackInsteadOfLosingLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const full = 50
		door := &fakeDoor{answer: func(attempt int, _ channels.Incoming) error {
			if attempt <= full {
				return corebot.ErrLaneFull
			}
			return nil
		}}
		c, _, complaints, end := startPlain(t, strings.NewReader("patience\n"), door)
		time.Sleep(time.Hour)
		in := door.seen()
		if len(in) != full+1 {
			t.Fatalf("%d attempts", len(in))
		}
		send(t, c, reply("r", in[full].ID, "at last"))
		if err := <-end; err != nil {
			t.Error(err)
		}
		if got := complaints.String(); strings.Count(got, "waiting:") != 1 {
			t.Errorf("complained %q", got)
		}
	})
}

func TestWaitingIsToldOnceInASessionAndOnceInEachEpisode(t *testing.T) {
	for name, c := range map[string]struct {
		tell func(attempt int) bool // what the door says of its refusals
		want int
	}{
		"another session was told":  {func(int) bool { return false }, 1},
		"this one was":              {func(attempt int) bool { return attempt == 1 }, 1},
		"a second episode comes up": {func(attempt int) bool { return attempt == 1 || attempt == 7 }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				door := &fakeDoor{answer: func(attempt int, _ channels.Incoming) error {
					if attempt%3 == 0 { // each line is refused twice
						return nil
					}
					return &corebot.Busy{Err: corebot.ErrDiskFull, RetryAfter: time.Second, Tell: c.tell(attempt)}
				}}
				_, _, complaints, end := startPlain(t, strings.NewReader("1\n2\n3\n4\n"), door)
				time.Sleep(time.Hour)
				if n := len(door.seen()); n != 12 {
					t.Fatalf("%d attempts", n)
				}
				if got := complaints.String(); strings.Count(got, "waiting:") != c.want {
					t.Errorf("complained %q", got)
				}
				select {
				case err := <-end:
					t.Errorf("it ended before its answers came: %v", err)
				default:
				}
			})
		})
	}
}

func TestAnAnswerThatOvertakesItsAcceptCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c *CLI
		door := &fakeDoor{answer: func(_ int, m channels.Incoming) error {
			return sendOnly(t.Context(), c, reply("r", m.ID, "quick"))
		}}
		r, w := io.Pipe()
		c, _, _, end := startPlain(t, r, door)
		_, _ = io.WriteString(w, "q\n")
		_ = w.Close()
		if err := <-end; err != nil {
			t.Error(err)
		}
	})
}

func TestLeavingPlainModeByCommandOrContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		door := &fakeDoor{}
		_, _, _, end := startPlain(t, strings.NewReader("/quit\nnever read\n"), door)
		if err := <-end; err != nil || len(door.seen()) != 0 {
			t.Errorf("Run returned %v after %+v", err, door.seen())
		}

		c, err := New(Options{In: strings.NewReader("unanswered\n"), Out: io.Discard, Err: io.Discard})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := c.Run(ctx, door); !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
			t.Errorf("Run with an unanswered message returned %v", err)
		}
	})
}

func TestAReplyIsPrintedOnceAndAnOldOneSaysWhatItAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		c, out, complaints, end := startPlain(t, r, &fakeDoor{})
		for range 2 {
			send(t, c, reply("old", "last-week", "yes"))
		}
		_ = w.Close()
		<-end
		if out.String() != "yes\n" || !strings.Contains(complaints.String(), "earlier message last-week") {
			t.Errorf("printed %q, complained %q", out.String(), complaints.String())
		}
	})
}

func TestSendWaitsForRunAndIsTurnedAwayAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := new(syncBuffer)
		r, w := io.Pipe()
		c, err := New(Options{In: r, Out: out, Err: io.Discard})
		if err != nil {
			t.Fatal(err)
		}
		sent := make(chan error, 1)
		go func() { sent <- sendOnly(t.Context(), c, reply("early", "", "hello")) }()
		synctest.Wait()
		if out.String() != "" {
			t.Fatal("written before Run")
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if class := classOf(t, sendOnly(short, c, reply("late", "", "x"))); class != corebot.Cancelled {
			t.Errorf("a Send whose context ended is %s", class)
		}
		end := make(chan error, 1)
		go func() { end <- c.Run(t.Context(), &fakeDoor{}) }()
		if err := <-sent; err != nil || out.String() != "hello\n" {
			t.Errorf("sent %q: %v", out.String(), err)
		}
		other := reply("r", "", "x")
		other.Key.Chat = "elsewhere"
		if class := classOf(t, sendOnly(t.Context(), c, other)); class != corebot.Cancelled {
			t.Errorf("a reply to a chat that is not open is %s", class)
		}
		out.breakDown()
		if class := classOf(t, sendOnly(t.Context(), c, reply("broken", "", "x"))); class != corebot.Transient {
			t.Errorf("a reply that could not be written is %s", class)
		}
		_ = w.Close()
		<-end
		if class := classOf(t, sendOnly(t.Context(), c, reply("after", "", "x"))); class != corebot.Cancelled {
			t.Errorf("a reply after the user left is %s", class)
		}
	})
}

func TestALineOverTheLimitIsSkippedWhole(t *testing.T) {
	r := newLineReader(strings.NewReader("12345\r\n123456\n\nend"), 5)
	for i, want := range []string{"12345", "", "", "end"} {
		got, err := r.next()
		if tooLarge := errors.Is(err, corebot.ErrTooLarge); tooLarge != (i == 1) || err != nil && !tooLarge ||
			got != want {
			t.Errorf("line %d is %q, %v", i, got, err)
		}
	}
	if _, err := r.next(); !errors.Is(err, io.EOF) {
		t.Errorf("the end is %v", err)
	}
}

func TestALineOverTheLimitIsNotKeptInMemory(t *testing.T) {
	const size = 16 << 20
	r := newLineReader(io.LimitReader(endless{}, size), 1<<10)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := r.next(); !errors.Is(err, corebot.ErrTooLarge) {
		t.Fatalf("read %v", err)
	}
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > size/4 {
		t.Errorf("%d bytes were allocated for a line of %d", used, size)
	}
}

// endless is a line without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func FuzzLineReader(f *testing.F) {
	f.Add("a\nb\r\n\nccccccccc\n\r\n", uint16(3))
	f.Fuzz(func(t *testing.T, s string, size uint16) {
		limit := 1 + int(size)
		r := newLineReader(strings.NewReader(s), limit)
		want := strings.Split(strings.TrimSuffix(s, "\n"), "\n")
		if s == "" {
			want = nil
		}
		for i, line := range want {
			got, err := r.next()
			line = strings.TrimSuffix(line, "\r")
			if len(line) > limit {
				if !errors.Is(err, corebot.ErrTooLarge) {
					t.Fatalf("line %d of %d bytes: %v", i, len(line), err)
				}
			} else if err != nil || got != line {
				t.Fatalf("line %d is %q, %v, want %q", i, got, err, line)
			}
		}
		if _, err := r.next(); !errors.Is(err, io.EOF) {
			t.Fatalf("after the last line: %v", err)
		}
	})
}

func TestBadOptionsAreErrors(t *testing.T) {
	in, out := strings.NewReader(""), io.Discard
	for name, o := range map[string]Options{
		"no input": {Out: out, Err: out}, "no output": {In: in, Err: out}, "nowhere to complain": {In: in, Out: out},
		"bad chat": {In: in, Out: out, Err: out, Chat: "a\x00b"},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
