package mail_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"
	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/mail"
	"github.com/corebot/corebot/channels/mail/mailtest"
)

// porter is a door that keeps what comes in.
type porter struct {
	mu     sync.Mutex
	cursor corebot.Cursor
	all    []channels.Incoming
	seen   map[string]bool // by chat and id
	given  int             // messages, with those that came again
	alive  int
	fail   error
}

func (p *porter) Accept(context.Context, channels.Incoming) (channels.Accepted, error) {
	return channels.Accepted{}, errors.New("mail comes in batches")
}

func (p *porter) Cursor(context.Context) (corebot.Cursor, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cursor, nil
}

func (p *porter) AcceptBatch(_ context.Context, batch []channels.Incoming,
	c corebot.Cursor,
) (channels.AcceptedBatch, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fail != nil {
		return channels.AcceptedBatch{}, p.fail
	}
	if c.Moves != p.cursor.Moves {
		return channels.AcceptedBatch{}, corebot.ErrCursorMoved
	}
	for _, in := range batch {
		p.given++
		if name := in.Chat + " " + in.Thread + " " + in.ID; !p.seen[name] {
			p.seen[name] = true
			p.all = append(p.all, in)
		}
	}
	p.cursor = corebot.Cursor{Position: c.Position, Moves: c.Moves + 1}
	return channels.AcceptedBatch{Messages: make([]channels.BatchResult, len(batch)), Cursor: p.cursor}, nil
}

func (p *porter) Admit(context.Context, channels.Incoming) error { return nil }

func (p *porter) Alive() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.alive++
}

func (p *porter) texts() (all []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, in := range p.all {
		all = append(all, in.Text())
	}
	return all
}

func (p *porter) position() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cursor.Position
}

func newPorter() *porter { return &porter{seen: map[string]bool{}} }

// run receives until the test calls what it returns.
func run(t *testing.T, c channels.Channel, p *porter) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx, p) }()
	stop = sync.OnceValue(func() error {
		cancel()
		select {
		case err := <-ended:
			return err
		case <-time.After(10 * time.Second):
			t.Error("it has not ended")
			return nil
		}
	})
	t.Cleanup(func() { _ = stop() })
	return stop
}

func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for began := time.Now(); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Since(began) > 10*time.Second {
			t.Fatalf("never: %s", what)
		}
	}
}

func TestOldMailIsLeftAloneAndNewMailComesWhileTheServerIdles(t *testing.T) {
	s, p := platform(t), newPorter()
	s.Say(mailtest.Said{Text: "from before"})
	stop := run(t, open(t, settings(s, func(x *mail.Settings) { x.Poll = 10 * time.Minute })), p)
	s.Awaited()
	s.Say(mailtest.Said{Text: "one"})
	until(t, "one is there", func() bool { return slices.Equal(p.texts(), []string{"one"}) })
	until(t, "it is flagged, and the old one is not", func() bool { _, unseen := s.Count("INBOX"); return unseen == 1 })
	if err := stop(); err != nil {
		t.Error(err)
	}
	s.Say(mailtest.Said{Text: "two"})
	run(t, open(t, settings(s)), p)
	until(t, "two is there", func() bool { return slices.Equal(p.texts(), []string{"one", "two"}) })
	if p.given != 2 {
		t.Errorf("%d were given", p.given)
	}
}

func TestAServerThatTellsNothingIsAskedAllTheSame(t *testing.T) {
	s, p := platform(t), newPorter()
	run(t, open(t, settings(s, func(x *mail.Settings) { x.Poll = time.Second })), p)
	until(t, "it looks twice without news", func() bool { p.mu.Lock(); defer p.mu.Unlock(); return p.alive >= 3 })
}

func TestAFolderThatIsNumberedAnewIsReadAgainAndNothingIsAnsweredTwice(t *testing.T) {
	s, p := platform(t), newPorter()
	s.Say(mailtest.Said{Text: "from before", At: time.Now().Add(-time.Hour)})
	stop := run(t, open(t, settings(s)), p)
	s.Awaited()
	for i := range 3 {
		s.Say(mailtest.Said{Text: fmt.Sprint(i)})
	}
	until(t, "all are there", func() bool { return len(p.texts()) == 3 })
	_ = stop()
	s.Say(mailtest.Said{Text: "in between"})
	s.Say(mailtest.Said{Text: "long ago, and filed here today", At: time.Now().Add(-50 * time.Hour)})
	s.Renumber()
	run(t, open(t, settings(s)), p)
	until(t, "the new one is there", func() bool { return slices.Contains(p.texts(), "in between") })
	s.Say(mailtest.Said{Text: "after"})
	until(t, "so are later ones", func() bool { return slices.Contains(p.texts(), "after") })
	if got := p.texts(); len(got) != 5 {
		t.Errorf("%q", got)
	}
}

// The number of a mail in its folder falls when somebody deletes an earlier mail. Its UID does not.
func TestMailsThatSomebodyDeletesNeitherHideNorRepeatOthers(t *testing.T) {
	s, p := platform(t), newPorter()
	s.Say(mailtest.Said{Text: "from before"})
	stop := run(t, open(t, settings(s)), p)
	s.Awaited()
	var want []string
	says := func(text string) {
		t.Helper()
		s.Say(mailtest.Said{Text: text})
		want = append(want, text)
	}
	comes := func() {
		t.Helper()
		until(t, fmt.Sprintf("%q has come in", want), func() bool { return slices.Equal(p.texts(), want) })
	}
	says("one")
	says("two")
	comes()
	deleteMails(t, s, 2) // beside Corebot, which waits for mail
	says("three")
	comes()
	_ = stop()
	deleteMails(t, s, 2) // none is left
	says("four")
	stop = run(t, open(t, settings(s)), p)
	comes()
	_ = stop()
	says("five")
	deleteMails(t, s, 1)
	run(t, open(t, settings(s)), p)
	comes()
	if p.given != len(want) {
		t.Errorf("%d were given", p.given)
	}
}

// deleteMails deletes the first mails of the folder of new mail, as a person does in another mail program.
func deleteMails(t *testing.T, s *mailtest.Server, n uint32) {
	t.Helper()
	c, err := imapclient.DialInsecure(s.IMAP(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if err := c.Login(mailtest.Address, mailtest.Password).Wait(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Select("INBOX", nil).Wait(); err != nil {
		t.Fatal(err)
	}
	var first imap.SeqSet
	first.AddRange(1, n)
	deleted := &imap.StoreFlags{Op: imap.StoreFlagsAdd, Flags: []imap.Flag{imap.FlagDeleted}}
	if err := c.Store(first, deleted, nil).Close(); err != nil {
		t.Fatal(err)
	}
	if err := c.Expunge().Close(); err != nil {
		t.Fatal(err)
	}
}

func TestTheCursorStaysUntilTheMailsAreStored(t *testing.T) {
	s, p := platform(t), newPorter()
	stop := run(t, open(t, settings(s)), p)
	s.Awaited()
	_ = stop()
	was := p.cursor
	p.fail = errors.New("the disk is gone")
	s.Say(mailtest.Said{Text: "one"})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := open(t, settings(s)).Run(ctx, p); err == nil || !strings.Contains(err.Error(), "the disk is gone") {
		t.Fatalf("it ended with %v", err)
	}
	if _, unseen := s.Count("INBOX"); unseen != 1 || p.cursor != was {
		t.Errorf("%d are not flagged, the cursor is %v", unseen, p.cursor)
	}
	p.fail = nil
	run(t, open(t, settings(s)), p)
	until(t, "it comes in", func() bool { return slices.Equal(p.texts(), []string{"one"}) })
}

func TestPoisonDoesNotHoldUpWhatIsBehindIt(t *testing.T) {
	s, p := platform(t), newPorter()
	run(t, open(t, settings(s)), p)
	s.Awaited()
	for _, raw := range []string{
		"", "\r\n", "no header", "From: a@b, c@d\r\n\r\nx", "Content-Type: multipart/mixed; boundary=\"\r\n\r\n--",
		strings.Repeat("x", 3<<20),
	} {
		s.Deliver([]byte(raw), time.Now())
	}
	s.Say(mailtest.Said{Text: "behind"})
	until(t, "the good one is there", func() bool { return slices.Equal(p.texts(), []string{"behind"}) })
}

func TestAMailThatTheServerRefusesForAMomentComesInAndHoldsUpNoOther(t *testing.T) {
	for name, refusal := range map[string]error{
		"a refusal": mailtest.No(""), "a bug": mailtest.No(imap.ResponseCodeServerBug),
		"an absent part": mailtest.No(imap.ResponseCodeUnavailable), "a broken connection": mailtest.ErrCut,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, p := platform(t), newPorter()
			var good atomic.Bool
			s.RefuseFetch(func(uid imap.UID) error {
				if uid == 2 && !good.Load() {
					return refusal
				}
				return nil
			})
			c := open(t, settings(s, func(x *mail.Settings) { x.Poll = time.Second }))
			runAgain(t, c, p)
			s.Awaited()
			for i := range 5 {
				s.Say(mailtest.Said{Text: fmt.Sprint(i + 1)})
			}
			until(t, "the others are there", func() bool { return len(p.texts()) == 4 })
			time.Sleep(50 * time.Millisecond) // it is not given up
			if got := p.texts(); slices.Contains(got, "2") {
				t.Fatalf("%q came in", got)
			}
			good.Store(true)
			until(t, "it is there", func() bool { return len(p.texts()) == 5 })
			until(t, "the cursor is behind all", func() bool { return strings.Contains(p.position(), "/5/") })
			if p.given != 5 {
				t.Errorf("%d were given", p.given)
			}
		})
	}
}

func TestAMailThatTheServerNeverGivesIsLeftOutInTheEndAndTheLogSaysSo(t *testing.T) {
	t.Cleanup(mail.Patience(50*time.Millisecond, time.Hour))
	for name, refusal := range map[string]error{"a refusal": mailtest.No(""), "a broken connection": mailtest.ErrCut} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, p := platform(t), newPorter()
			s.RefuseFetch(func(uid imap.UID) error {
				if uid == 1 {
					return refusal
				}
				return nil
			})
			var log lines
			made, err := mail.New(settings(s, func(x *mail.Settings) { x.Poll = time.Second }), channels.Site{
				Account: account, Log: zerolog.New(&log).Level(zerolog.ErrorLevel),
			})
			if err != nil {
				t.Fatal(err)
			}
			runAgain(t, made, p)
			s.Awaited()
			s.Say(mailtest.Said{Text: "poison"})
			s.Say(mailtest.Said{Text: "good"})
			for began := time.Now(); !strings.Contains(p.position(), "/2/"); time.Sleep(10 * time.Millisecond) {
				if time.Since(began) > time.Minute {
					t.Fatalf("the cursor is at %q", p.position())
				}
			}
			if got := log.String(); !strings.Contains(got, `"uid":1`) || !slices.Equal(p.texts(), []string{"good"}) {
				t.Errorf("the log says %q, and %q came in", got, p.texts())
			}
		})
	}
}

// runAgain runs a channel until the test ends, as the supervisor does.
func runAgain(t *testing.T, c channels.Channel, p *porter) {
	t.Helper()
	var running sync.WaitGroup
	running.Go(func() {
		for t.Context().Err() == nil {
			_ = c.Run(t.Context(), p)
		}
	})
	t.Cleanup(running.Wait)
}

// lines is a log.
type lines struct {
	mu sync.Mutex
	strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Builder.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Builder.String()
}

func TestCheckSaysWhatItHasFoundAndWhatIsWrong(t *testing.T) {
	s := platform(t)
	says, err := open(t, settings(s)).Check(t.Context())
	if err != nil || says != mailtest.Address+", with 0 mails in INBOX" {
		t.Errorf("%q %v", says, err)
	}
	s.Say(mailtest.Said{Text: "x"})
	if says, err := open(t, settings(s)).Check(t.Context()); err != nil || !strings.Contains(says,
		"was checked by authserv_id") {
		t.Errorf("%q %v", says, err)
	}
	for wrong, change := range map[string]func(*mail.Settings){
		"refuses user and password": func(x *mail.Settings) { x.Password = "wrong-password" },
		"open the folder":           func(x *mail.Settings) { x.Folder = "Nowhere" },
		"connect to":                func(x *mail.Settings) { x.IMAP = "127.0.0.1:1" },
		"connect to 127.0.0.1:2":    func(x *mail.Settings) { x.SMTP = "127.0.0.1:2" },
	} {
		_, err := open(t, settings(s, change)).Check(t.Context())
		if err == nil || !strings.Contains(err.Error(), wrong) || strings.Contains(err.Error(), "-password") {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}

func TestSettingsThatCannotWorkAreRefused(t *testing.T) {
	s := platform(t)
	for wrong, change := range map[string]func(*mail.Settings){
		"address":              func(x *mail.Settings) { x.Address = "Bot <bot@corebot.test>" },
		"password":             func(x *mail.Settings) { x.Password = "" },
		"imap":                 func(x *mail.Settings) { x.IMAP = "imap.example.org" },
		"smtp":                 func(x *mail.Settings) { x.SMTP = "smtp.example.org:port" },
		"authserv_id is empty": func(x *mail.Settings) { x.AuthServID = "" },
		"authserv_id \"a b\"":  func(x *mail.Settings) { x.AuthServID = "a b" },
		"folder":               func(x *mail.Settings) { x.Folder = "a\r\nb" },
		"poll":                 func(x *mail.Settings) { x.Poll = time.Hour },
	} {
		if err := settings(s, change).Validate(); err == nil || !strings.HasPrefix(err.Error(), wrong) {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}

func TestAMailThatBreaksTheConnectionHoldsUpNoFolderThatIsNumberedAnew(t *testing.T) {
	s, p := platform(t), newPorter()
	c := open(t, settings(s, func(x *mail.Settings) { x.Poll = time.Second }))
	runAgain(t, c, p)
	s.Awaited()
	for i := range 5 {
		s.Say(mailtest.Said{Text: fmt.Sprint(i + 1)})
	}
	until(t, "all are there", func() bool { return len(p.texts()) == 5 })
	s.RefuseFetch(func(uid imap.UID) error {
		if uid == 2 {
			return mailtest.ErrCut
		}
		return nil
	})
	s.Renumber()
	s.Say(mailtest.Said{Text: "new"})
	until(t, "what came since is there", func() bool { return len(p.texts()) == 6 })
}
