package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm/llmtest"
	"github.com/corebot/corebot/channels/discord/discordtest"
	"github.com/corebot/corebot/internal/long"
)

// sharesFiles is a platform that shows files, and can tell what it shows.
type sharesFiles interface{ uploads(chat int) []string }

func (p *matrixPlatform) uploads(chat int) []string { return p.Uploads(matrixRoom(chat)) }
func (p *slackPlatform) uploads(chat int) []string  { return p.Uploads(slackChat(chat)) }
func (p *discordPlatform) uploads(chat int) []string {
	return p.Uploads(discordtest.DirectOf(discordPerson(chat)))
}

// filePieces are the places around the pieces of a reply with a text and two files.
var filePieces = []string{"send.before#2", "send.after#2", "send.before#3", "send.after#3", "send.after#1"}

// TestKilledBetweenTheFilesOfAReplyEachIsShownOnce kills the program between the pieces of a reply with two files,
// before and after each send. On a platform that can tell what it shows, everything is there once, and in order.
func TestKilledBetweenTheFilesOfAReplyEachIsShownOnce(t *testing.T) {
	long.Only(t, "TestKilledAtAnyStepATurnGivesOneReplyAndRepeatsNoSideEffect")
	t.Parallel()
	for _, n := range networks {
		if !slices.Contains(long.Or([]string{"discord"}, []string{"matrix", "discord", "slack"}), n.name) {
			continue
		}
		for _, point := range long.Or(filePieces[1:2], filePieces) {
			t.Run(n.name+" "+point, func(t *testing.T) {
				t.Parallel()
				sendsFiles(t, n, point)
			})
		}
	}
}

func sendsFiles(t *testing.T, n network, point string) {
	b := besiegeWith(t, n, func(r llmtest.Request) llmtest.Answer {
		if last := r.Messages[len(r.Messages)-1]; last.Role == "tool" {
			return llmtest.Text("here they are")
		}
		return llmtest.ToolCalls(
			llmtest.Call{ID: "1", Name: "message_upload", Args: `{"path":"a.txt"}`},
			llmtest.Call{ID: "2", Name: "message_upload", Args: `{"path":"b.txt"}`})
	})
	for _, name := range []string{"a.txt", "b.txt"} {
		if err := os.WriteFile(filepath.Join(b.home, "workspace", name), []byte("of "+name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b.env = append(b.env, "COREBOT_FAULT="+point)
	b.begin()
	b.await("it receives", func() bool {
		n, err := b.rows("FROM channel_cursors")
		return err == nil && n > 0
	})
	b.platform.say(0, "send me both")
	b.wantKilled()
	b.env = b.env[:len(b.env)-1]
	b.begin()
	b.await("everything is sent", func() bool {
		n, err := b.lives(corebot.Outbound)
		return err == nil && n == 1 && strings.Contains(b.ask("/status"), `"queue":{}`)
	})
	b.terminate()
	b.output("db", "check")
	files := b.platform.(sharesFiles).uploads(0)
	if !slices.Equal(files, []string{"a.txt: of a.txt", "b.txt: of b.txt"}) {
		t.Errorf("the chat shows the files %q", files)
	}
	if got := strings.Count(fmt.Sprint(b.platform.shown(0)), "here they are"); got != 1 {
		t.Errorf("the chat shows %q", b.platform.shown(0))
	}
	for _, c := range b.platform.complaints() {
		t.Errorf("the platform complains: %s", c)
	}
}
