package channels_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/apptest"
)

// gallery is a platform that shows each file as a message of its own.
type gallery struct{ *platform }

func (gallery) ShowsFiles()             {}
func (gallery) FilesApart()             {}
func (gallery) MaxMessageBytes() int    { return 9 }
func (g gallery) shown() (all []string) { return shownOf(g.sent) }

// shownOf are texts, and the names of files.
func shownOf(sent []channels.Outbound) (all []string) {
	for _, o := range sent {
		if p, is := o.File(); is {
			all = append(all, "file "+p.Name+" behind "+o.Before)
		} else {
			all = append(all, o.Text())
		}
	}
	return all
}

func file(name string) corebot.Part {
	return corebot.Part{Type: corebot.PartFile, Name: name, MediaType: "text/plain", Hash: "ab" + name}
}

func (o *outbox) enqueueParts(t *testing.T, id string, parts ...corebot.Part) {
	t.Helper()
	if _, err := o.Bus.Publish(t.Context(), corebot.Message{
		ID: id, Direction: corebot.Outbound, Key: apptest.Key("a"), Kind: corebot.KindReply, Parts: parts,
	}); err != nil {
		t.Fatal(err)
	}
}

func TestFilesFollowTheTextOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, g := newOutbox(t, "", ""), gallery{&platform{}}
		o.enqueueParts(t, "1", append(corebot.TextPart("one one. two."), file("x"), file("y"))...)
		o.enqueueParts(t, "2", file("z"))
		o.run(t, g)
		pass(time.Second)
		want := []string{
			"one one.", "two.", "file x behind one one. two.", "file y behind one one. two.", "file z behind ",
		}
		if got := g.shown(); !slices.Equal(got, want) {
			t.Errorf("the chat has %q", got)
		}
		var keys []string
		for _, m := range g.sent {
			keys = append(keys, m.IdempotencyKey)
		}
		if want := []string{"1/1/0-9", "1/1/9-13", "1/1/13-14", "1/1/14-15", "2/1/0-1"}; !slices.Equal(keys, want) {
			t.Errorf("the pieces have the keys %q", keys)
		}
	})
}

func TestAfterACrashAMessageGoesOnAtTheFileThatIsNotShown(t *testing.T) {
	for _, shown := range []int{1, 2, 3} { // pieces before the crash
		t.Run(fmt.Sprint(shown), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				first := newOutbox(t, dir, "")
				hang := make(chan struct{})
				g := gallery{&platform{}}
				g.send = func(context.Context, channels.Outbound) error {
					if len(g.sent) == shown {
						<-hang
						return errors.New("gone")
					}
					return nil
				}
				first.enqueueParts(t, "1", append(corebot.TextPart("text"), file("x"), file("y"), file("z"))...)
				stop := first.run(t, g)
				pass(time.Second)
				go func() { // the store dies first
					time.Sleep(time.Second)
					close(hang)
				}()
				first.Crash()
				stop()

				second, h := newOutbox(t, dir, ""), gallery{&platform{}}
				second.run(t, h)
				pass(time.Second)
				want := []string{"text", "file x behind text", "file y behind text", "file z behind text"}
				if got := append(g.shown(), h.shown()...); !slices.Equal(got, want) {
					t.Errorf("the chat has %q", got)
				}
			})
		})
	}
}

// A platform that refuses a file for good loses neither the text nor the other files.
func TestARefusedFileIsNamedInItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, g := newOutbox(t, "", ""), gallery{&platform{}}
		failures := 2
		g.send = func(_ context.Context, m channels.Outbound) error {
			if p, is := m.File(); is && p.Name == "x" {
				return &corebot.Failure{Class: corebot.Permanent, Err: errors.New("it is too large")}
			} else if is && failures > 0 { // which passes
				failures--
				return &corebot.Failure{Err: errors.New("a gateway timeout")}
			}
			return nil
		}
		o.enqueueParts(t, "1", append(corebot.TextPart("text"), file("x"), file("y"))...)
		o.run(t, g)
		pass(time.Minute)
		named := `[file "x" (text/plain) could not be sent here: it is too large]`
		want := []string{"text", named, "file y behind text"}
		if got := g.shown(); !slices.Equal(got, want) || g.sent[1].Kind != corebot.KindNotice {
			t.Errorf("the chat has %q", got)
		}
		if life := o.life(t, "1"); life.End != corebot.EndSent {
			t.Errorf("it ended %q: %s", life.End, life.LastError)
		}
	})
}

func TestAChannelWithoutFilesNamesThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, p := newOutbox(t, "", ""), &platform{}
		captioned := file("x")
		captioned.Text = "the caption"
		o.enqueueParts(t, "1", append(corebot.TextPart("text"), captioned)...)
		o.run(t, p)
		pass(time.Second)
		if got := strings.Join(p.texts("a"), "|"); got != "text\n[file \"x\" (text/plain) cannot be shown here] "+
			"the caption" {
			t.Errorf("the chat has %q", got)
		}
	})
}
