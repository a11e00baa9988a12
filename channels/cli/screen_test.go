package cli

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/live"
)

// eventually waits for what bubbletea's own clock brings about; that clock is real.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

func startScreen(t *testing.T, ctx context.Context, door channels.Accepter,
	hub *live.Hub,
) (c *CLI, keys io.Writer, out *syncBuffer, end chan error) {
	t.Helper()
	r, w := io.Pipe()
	t.Cleanup(func() { _ = w.Close() })
	out, end = new(syncBuffer), make(chan error, 1)
	c, err := New(Options{In: r, Out: out, Interactive: true, NoColor: true, Watch: hub.Watch, ModelName: "a\x1bmodel"})
	if err != nil {
		t.Fatal(err)
	}
	go func() { end <- c.Run(ctx, door) }()
	return c, w, out, end
}

func TestAWholeChatOnAScreen(t *testing.T) {
	hub, door := new(live.Hub), &fakeDoor{}
	c, keys, out, end := startScreen(t, t.Context(), door, hub)
	if _, err := c.Send(t.Context(), reply("early", "", "sent before anything was drawn")); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); !strings.Contains(got, "a␛model · chat main") ||
		!strings.Contains(got, "sent before anything") {
		t.Errorf("the header or the reply is missing in %q", got)
	}
	_, _ = io.WriteString(keys, "\x1b[200~two\nlines\x1b[201~\r")
	eventually(t, "the message is accepted", func() bool { return len(door.seen()) == 1 })
	in := door.seen()[0]
	if in.Text() != "two\nlines" {
		t.Fatalf("accepted %q", in.Text())
	}
	hub.Publish(live.Event{Kind: live.Text, Key: testKey(), MessageID: in.ID, Text: "streaming"})
	eventually(t, "the stream is drawn", func() bool { return strings.Contains(out.String(), "streaming") })
	if _, err := c.Send(t.Context(), reply("r", in.ID, "the answer")); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "the answer") {
		t.Error("Send returned before the answer was written")
	}
	out.breakDown()
	if class := classOf(t, sendOnly(t.Context(), c, reply("broken", "", "x"))); class != corebot.Transient {
		t.Errorf("a reply that could not be written is %s", class)
	}
	_, _ = io.WriteString(keys, "\x04")
	if err := <-end; err != nil {
		t.Error(err)
	}
	if class := classOf(t, sendOnly(t.Context(), c, reply("after", "", "x"))); class != corebot.Cancelled {
		t.Errorf("a reply after the user left is %s", class)
	}
}

func TestTheEndOfTheContextEndsTheScreen(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	_, _, out, end := startScreen(t, ctx, &fakeDoor{}, new(live.Hub))
	eventually(t, "the input is drawn", func() bool {
		return strings.Contains(out.String(),
			strings.TrimSpace(promptMark))
	})
	cancel()
	if err := <-end; err != nil {
		t.Error(err)
	}
}

func TestATerminalOfAnotherCharacterSetIsToldSoAndOthersAreNot(t *testing.T) {
	for _, c := range []struct{ all, ctype, lang, want string }{
		{"", "", "", ""},
		{"", "", "C", ""},
		{"", "", "en_US.UTF-8", ""},
		{"", "", "en_US.utf8", ""},
		{"", "", "de_DE.ISO-8859-1@euro", "ISO-8859-1"},
		{"C.UTF-8", "", "de_DE.ISO-8859-1", ""},
		{"", "ru_RU.koi8-r", "en_US.UTF-8", "KOI8-R"},
	} {
		env := map[string]string{"LC_ALL": c.all, "LC_CTYPE": c.ctype, "LANG": c.lang}
		got := Charset(func(name string) string { return env[name] })
		if got != c.want {
			t.Errorf("%v is %q, want %q", env, got, c.want)
		}
		shown := header(Options{Chat: "main", Charset: got}, newStyles(true), 20)
		if strings.Contains(shown, "UTF-8") != (c.want != "") || c.want != "" &&
			!strings.Contains(strings.ReplaceAll(shown, "\n", ""), c.want) {
			t.Errorf("%v begins with\n%s", env, shown)
		}
		for line := range strings.Lines(shown) {
			if ansi.StringWidth(strings.TrimSuffix(line, "\n")) >= 20 {
				t.Errorf("a line is too wide for 20 columns: %q", line)
			}
		}
	}
}
