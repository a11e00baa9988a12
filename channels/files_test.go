package channels_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/internal/filestore"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/storage"
)

// desk keeps files as a running Corebot does.
type desk struct {
	*filestore.Store
	refs *storage.Attached
}

func (d desk) Had(ctx context.Context, k corebot.Key, id string) (bool, error) {
	return d.refs.Had(ctx, k, id)
}

// withFiles is an open door that keeps files of at most 10 bytes.
func withFiles(t *testing.T, rule policy.AccessRule) (*apptest.Kit, *channels.FrontDoor, desk) {
	t.Helper()
	k := apptest.New(t, apptest.Options{})
	refs := storage.NewAttached(k.DB)
	d := desk{filestore.New(t.TempDir(), refs, filestore.Options{
		FileBytes: 10, ChatBytes: 100, TotalBytes: 1000,
	}), refs}
	access, err := policy.NewAccess(rule, corebot.Allowlist{})
	if err != nil {
		t.Fatal(err)
	}
	return k, doorOf(t, k, channels.AccountRules{Access: access}, channels.DoorOptions{Files: d}), d
}

// sends is a message with a text and a file that fetch gets.
func sends(id string, fetch func(ctx context.Context) (io.ReadCloser, error)) channels.Incoming {
	in := incoming(id, "look")
	in.Parts = append(in.Parts, corebot.Part{Type: corebot.PartFile, Name: "../a.txt"})
	in.Files = []channels.Attached{{Fetch: fetch}}
	return in
}

func gives(content io.Reader) func(context.Context) (io.ReadCloser, error) {
	return func(context.Context) (io.ReadCloser, error) { return io.NopCloser(content), nil }
}

func acceptFile(t *testing.T, k *apptest.Kit, d *channels.FrontDoor, in channels.Incoming) corebot.Part {
	t.Helper()
	if _, err := d.Accept(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	for _, m := range k.Claim().Message.Parts {
		if m.Type != corebot.PartText {
			return m
		}
	}
	return corebot.Part{}
}

func TestAFileIsFetchedBeforeItsMessageIsAcceptedAndNotAgain(t *testing.T) {
	k, door, files := withFiles(t, policy.AccessOpen)
	var fetched atomic.Int64
	in := sends("1", func(context.Context) (io.ReadCloser, error) {
		fetched.Add(1)
		return io.NopCloser(strings.NewReader("content")), nil
	})
	for _, duplicate := range []bool{false, true, true} {
		if a, err := door.Accept(t.Context(), in); err != nil || a.Duplicate != duplicate {
			t.Fatalf("%+v, %v", a, err)
		}
	}
	batch, err := door.AcceptBatch(t.Context(), channels.Account{Kind: apptest.Channel, Name: "acc"},
		[]channels.Incoming{in}, corebot.Cursor{Position: "1"})
	if err != nil || !batch.Messages[0].Duplicate || fetched.Load() != 1 {
		t.Errorf("%+v, %v; fetched %d times", batch, err, fetched.Load())
	}
	m := k.Claim().Message
	p := m.Parts[1]
	f, ref, err := files.Open(t.Context(), m.Key, p.Hash)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // only read
	text, err := io.ReadAll(f)
	if string(text) != "content" || err != nil || ref.MessageID != "1" || p.Name != "a.txt" {
		t.Errorf("%q, %v, %+v, %+v", text, err, ref, p)
	}
}

// A part that a platform does not give is no reason to lose its message.
func TestWhatCannotBeFetchedIsAPartThatSaysSo(t *testing.T) {
	for name, c := range map[string]struct {
		fetch func(ctx context.Context) (io.ReadCloser, error)
		says  string
	}{
		"no answer": {
			func(context.Context) (io.ReadCloser, error) { return nil, errors.New("secret token") },
			"could not be fetched",
		},
		"cut off": {
			gives(io.MultiReader(strings.NewReader("x"), iotest.ErrReader(io.ErrUnexpectedEOF))),
			"could not be fetched",
		},
		"too large": {gives(strings.NewReader("eleven byte")), "larger than a file may be"},
		"stalled": {
			func(ctx context.Context) (io.ReadCloser, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}, "could not be fetched",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k, door, _ := withFiles(t, policy.AccessOpen)
				began := time.Now()
				p := acceptFile(t, k, door, sends("1", c.fetch))
				if p.Hash != "" || !strings.Contains(p.Text, c.says) || strings.Contains(p.Text, "secret") {
					t.Errorf("%+v", p)
				}
				if took := time.Since(began); took > 40*time.Second {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

func TestASecondTryGetsAFileThatTheFirstDidNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, door, _ := withFiles(t, policy.AccessOpen)
		tries := 0
		p := acceptFile(t, k, door, sends("1", func(context.Context) (io.ReadCloser, error) {
			if tries++; tries == 1 {
				return nil, errors.New("not yet")
			}
			return io.NopCloser(strings.NewReader("x")), nil
		}))
		if p.Hash == "" || tries != 2 {
			t.Errorf("%+v after %d tries", p, tries)
		}
	})
}

func TestAStopWhileAFileIsFetchedLeavesTheMessageToThePlatform(t *testing.T) {
	k, door, _ := withFiles(t, policy.AccessOpen)
	ctx, stop := context.WithCancel(t.Context())
	_, err := door.Accept(ctx, sends("1", func(ctx context.Context) (io.ReadCloser, error) {
		stop()
		return nil, ctx.Err()
	}))
	if err == nil || stored(t, k, "1") != 0 {
		t.Errorf("accepted: %v", err)
	}
}

func TestNothingIsFetchedForASenderWhoMayNotTalk(t *testing.T) {
	_, door, _ := withFiles(t, policy.AccessAllowlist)
	_, err := door.Accept(t.Context(), sends("1", func(context.Context) (io.ReadCloser, error) {
		t.Error("it was fetched")
		return nil, errors.New("no")
	}))
	if !errors.Is(err, channels.ErrNotAdmitted) {
		t.Error(err)
	}
}

// A hash from outside would name what another chat has.
func TestAHashThatComesFromOutsideIsDropped(t *testing.T) {
	k, door, files := withFiles(t, policy.AccessOpen)
	_, ref, err := files.Keep(t.Context(), corebot.Key{
		Agent: "main", Channel: apptest.Channel, Account: "acc", Chat: "other",
	}, "m", corebot.Part{}, strings.NewReader("secret"))
	if err != nil {
		t.Fatal(err)
	}
	in := incoming("1", "look")
	in.Parts = append(in.Parts, corebot.Part{Type: corebot.PartImage, Hash: ref.Hash})
	if p := acceptFile(t, k, door, in); p.Hash != "" {
		t.Errorf("%+v", p)
	}
}

// The text of a command can go, and with it a part.
func TestAFileBelongsToItsPartWhateverBecomesOfTheText(t *testing.T) {
	k, door, _ := withFiles(t, policy.AccessOpen)
	in := sends("1", gives(strings.NewReader("x")))
	in.Parts[0].Text = "/new"
	if p := acceptFile(t, k, door, in); p.Hash == "" {
		t.Errorf("%+v", p)
	}
}

// Nobody asked for the files of chatter: they take half of the room, and are small.
func TestChatterLeavesRoomForFilesThatAreSentToTheBot(t *testing.T) {
	k := apptest.New(t, apptest.Options{})
	refs := storage.NewAttached(k.DB)
	files := desk{filestore.New(t.TempDir(), refs, filestore.Options{
		FileBytes: 2 * filestore.MaxHeard, ChatBytes: 100, TotalBytes: 1000,
	}), refs}
	access, err := policy.NewAccess(policy.AccessOpen, corebot.Allowlist{})
	if err != nil {
		t.Fatal(err)
	}
	door := doorOf(t, k, channels.AccountRules{Access: access, Groups: channels.GroupsMention},
		channels.DoorOptions{Files: files})
	keeps := func(content string, mentioned bool) bool {
		t.Helper()
		in := sends(content[:1], gives(strings.NewReader(content)))
		in.Envelope = corebot.Envelope{Group: true, Mentioned: mentioned}
		if _, err := door.Accept(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		all, err := refs.Contents(t.Context(), "", 100)
		if err != nil {
			t.Fatal(err)
		}
		hash := fmt.Sprintf("%x", sha256.Sum256([]byte(content)))
		return slices.ContainsFunc(all, func(f corebot.AttachedFile) bool { return f.Hash == hash })
	}
	for _, letter := range []string{"a", "b", "c", "d", "e"} {
		if !keeps(strings.Repeat(letter, 10), false) {
			t.Errorf("the file of %s was not kept", letter)
		}
	}
	if keeps("full", false) || keeps(strings.Repeat("l", filestore.MaxHeard+1), false) {
		t.Error("chatter takes more than half of the room, or a large file")
	}
	if !keeps(strings.Repeat("x", 50), true) {
		t.Error("what was sent to the bot was not kept")
	}
}

func TestADownloadWaitsAsLongAsThePlatformAsks(t *testing.T) {
	for name, c := range map[string]struct {
		asks, took time.Duration
		tries      int
	}{
		"a short wait":                      {30 * time.Second, 30 * time.Second, 2},
		"longer than its messages can wait": {time.Hour, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k, door, _ := withFiles(t, policy.AccessOpen)
				tries, began := 0, time.Now()
				p := acceptFile(t, k, door, sends("1", func(context.Context) (io.ReadCloser, error) {
					if tries++; time.Since(began) < c.asks {
						return nil, &corebot.Failure{
							Class: corebot.RateLimited, RetryAfter: c.asks, Err: errors.New("too many requests"),
						}
					}
					return io.NopCloser(strings.NewReader("x")), nil
				}))
				if took := time.Since(began); tries != c.tries || took != c.took || (p.Hash != "") != (c.tries == 2) {
					t.Errorf("%d tries in %v, %+v", tries, took, p)
				}
			})
		})
	}
}

func TestNamesThatSendersChooseAreFitToBeShownWhateverBecomesOfTheFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, door, _ := withFiles(t, policy.AccessOpen)
		in := sends("1", func(context.Context) (io.ReadCloser, error) { return nil, errors.New("no") })
		in.Parts[1].Name = "../../etc/\u202efdp.exe"
		if p := acceptFile(t, k, door, in); strings.ContainsAny(p.Name, "/\u202e") || p.Name == "" {
			t.Errorf("the name is %q", p.Name)
		}
	})
}

// Only a platform that gives nothing for a while is given up.
func TestASlowFileIsFetchedWholeWhileBytesCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, door, _ := withFiles(t, policy.AccessOpen)
		heard := make(chan struct{}, 100)
		slow := &drops{left: 10, each: func() {
			time.Sleep(10 * time.Second)
			heard <- struct{}{}
		}}
		in := sends("1", gives(slow))
		began := time.Now()
		if _, err := door.Accept(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		if len(heard) < 5 || time.Since(began) < 50*time.Second {
			t.Errorf("%d pieces in %v: a byte each 10 s is no stall", len(heard), time.Since(began))
		}
	})
}

// drops gives one byte at a time.
type drops struct {
	left int
	each func()
}

func (d *drops) Read(b []byte) (int, error) {
	if d.left == 0 {
		return 0, io.EOF
	}
	d.each()
	d.left--
	b[0] = 'x'
	return 1, nil
}
