package slacktest

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// bot is an app that Slack's own library for JavaScript serves.
const bot = `const { App } = require('@slack/bolt');
const quiet = {unfurl_links: false, unfurl_media: false};
const app = new App({token: process.env.TOKEN, appToken: process.env.APP_TOKEN, socketMode: true,
  clientOptions: {slackApiUrl: process.env.API}});
app.message('grow', async ({message, client}) => { const channel = message.channel;
  const {ts} = await client.chat.postMessage({channel, text: '…', ...quiet});
  for (let n = 1; n <= 3; n++) await client.chat.update({channel, ts, text: 'x'.repeat(n)});
  await client.chat.update({channel, ts, text: 'grown'});
  const gone = await client.chat.postMessage({channel, text: 'to be deleted', ...quiet});
  await client.chat.delete({channel, ts: gone.ts});
  await client.chat.update({channel, ts: gone.ts, text: 'late'}).catch(e =>
    client.chat.postMessage({channel, text: 'refused ' + e.data.error, ...quiet})); });
app.message(async ({message, say}) => { if (!message.bot_id) await say({text: 'echo ' + message.text, ...quiet}); });
app.message('file', async ({message, client}) => { await client.files.uploadV2({channel_id: message.channel,
  file: Buffer.from('text'), filename: 'a.txt', title: 'A', blocks: [{type: 'section', block_id: 'b',
  text: {type: 'plain_text', text: 'the file'}}]}); });
app.action('corebot-0', async ({ack, action, client, body}) => { await ack();
  await client.chat.postMessage({channel: body.channel.id, text: 'pressed ' + action.value, ...quiet}); });
app.command('/corebot', async ({ack, command, client}) => { await ack();
  await client.chat.postMessage({channel: command.channel_id, text: 'command ' + command.text, ...quiet}); });
app.start().catch(e => { console.error(e); process.exit(1); });
`

// TestSlacksOwnLibraryTakesTheServerForSlack runs a bot of @slack/bolt against the server. NETWORK_CLIENTS names a
// directory whose node_modules have it: scripts/network-clients makes one.
func TestSlacksOwnLibraryTakesTheServerForSlack(t *testing.T) {
	dir := os.Getenv("NETWORK_CLIENTS")
	if dir == "" {
		t.Skip("scripts/network-clients runs this")
	}
	s := New()
	t.Cleanup(s.Close)
	command := exec.CommandContext(t.Context(), "node", "-e", bot)
	command.Dir = dir
	command.Env = append(os.Environ(), "NODE_PATH="+filepath.Join(dir, "node_modules"), "TOKEN="+Token,
		"APP_TOKEN="+AppToken, "API="+s.URL()+"/")
	command.Stderr, command.Stdout = os.Stderr, os.Stderr
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	until := func(what string, is func() bool) {
		t.Helper()
		for began := time.Now(); !is(); time.Sleep(5 * time.Millisecond) {
			if time.Since(began) > 30*time.Second {
				t.Fatalf("not after 30 s: %s; %q, %q", what, s.Texts(Direct), s.Complaints())
			}
		}
	}
	shows := func(text string) { until(text, func() bool { return slices.Contains(s.Texts(Direct), text) }) }
	until("the bot is connected", s.Connected)
	s.Say(Said{Text: "hello"})
	shows("echo hello")
	s.Press(Ann, Direct, s.Shown(Direct)[0], "/approve 7")
	shows("pressed /approve 7")
	s.Slash(Direct, "status")
	shows("command status")
	s.Say(Said{Text: "file"})
	shows("the file")
	if got := s.Uploads(Direct); !slices.Equal(got, []string{"a.txt: text"}) {
		t.Errorf("the files are %q", got)
	}
	s.Say(Said{Text: "grow"})
	shows("refused message_not_found")
	i := slices.IndexFunc(s.Shown(Direct), func(m Message) bool { return m.Text == "grown" })
	if i < 0 || !slices.Equal(s.Shown(Direct)[i].Edits, []string{"…", "x", "xx", "xxx"}) ||
		slices.Contains(s.Texts(Direct), "to be deleted") {
		t.Errorf("the chat shows %+v", s.Shown(Direct))
	}
	s.Disconnect("refresh_requested")
	until("the bot leaves", func() bool { return !s.Connected() })
	until("the bot comes back", s.Connected)
	s.Say(Said{Text: "again"})
	shows("echo again")
	for _, c := range s.Complaints() {
		t.Errorf("the server complains: %s", c)
	}
}
