package discordtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// script is a bot that discord.js serves.
const script = `const { Client, GatewayIntentBits, Partials, Events, ButtonBuilder, ActionRowBuilder, ButtonStyle } =
  require('discord.js');
const client = new Client({
  intents: [GatewayIntentBits.Guilds, GatewayIntentBits.GuildMessages, GatewayIntentBits.DirectMessages,
    GatewayIntentBits.MessageContent],
  partials: [Partials.Channel, Partials.Message], rest: {api: process.env.API, version: '10'},
  allowedMentions: {parse: []}});
const row = () => new ActionRowBuilder().addComponents(
  new ButtonBuilder().setCustomId('/approve 7').setLabel('Approve').setStyle(ButtonStyle.Secondary));
client.on(Events.MessageCreate, async m => { if (m.author.bot) return;
  await m.channel.sendTyping();
  if (m.content === 'grow') {
    const draft = await m.channel.send({content: '…', flags: 4});
    for (let n = 1; n <= 7; n++) await draft.edit({content: 'x'.repeat(n), flags: 4});
    await draft.edit({content: 'grown', flags: 4, components: [row()]});
    const gone = await m.channel.send({content: 'to be deleted', flags: 4});
    await gone.delete();
    await gone.edit({content: 'late', flags: 4}).catch(e => m.channel.send({content: 'refused ' + e.code, flags: 4}));
    return; }
  if (m.content === 'file') {
    const sent = await m.channel.send({content: 'here', files: [{attachment: Buffer.from('text'), name: 'a b.txt'}],
      flags: 4});
    await m.channel.send({content: 'sent ' + sent.attachments.first().size, flags: 4}); }
  await m.reply({content: 'echo ' + m.content, components: [row()], flags: 4}); });
client.on(Events.MessageUpdate, async (was, m) => { if (m.author.bot) return;
  await m.channel.send({content: 'edited ' + m.content, flags: 4}); });
client.on(Events.InteractionCreate, async i => {
  if (i.isButton()) { await i.deferUpdate(); await i.channel.send({content: 'pressed ' + i.customId, flags: 4}); } });
client.on(Events.Error, e => console.error(e));
client.login(process.env.TOKEN).catch(e => { console.error(e); process.exit(1); });
`

// TestAnotherLibraryTakesTheServerForDiscord runs a bot of discord.js against the server. NETWORK_CLIENTS names a
// directory whose node_modules have it: scripts/network-clients makes one.
func TestAnotherLibraryTakesTheServerForDiscord(t *testing.T) {
	dir := os.Getenv("NETWORK_CLIENTS")
	if dir == "" {
		t.Skip("scripts/network-clients runs this")
	}
	s := New()
	s.EditsIn = time.Second
	t.Cleanup(s.Close)
	command := exec.CommandContext(t.Context(), "node", "-e", script)
	command.Dir = dir
	command.Env = append(os.Environ(), "NODE_PATH="+filepath.Join(dir, "node_modules"), "TOKEN="+Token,
		"API="+s.HTTP.URL+"/api")
	command.Stderr, command.Stdout = os.Stderr, os.Stderr
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	ann := User{ID: "400000000000001001", Name: "ann"}
	chat := s.Know(ann)
	until := func(what string, is func() bool) {
		t.Helper()
		for began := time.Now(); !is(); time.Sleep(5 * time.Millisecond) {
			if time.Since(began) > 30*time.Second {
				t.Fatalf("not after 30 s: %s; %q, %q", what, s.Texts(chat), s.Complaints())
			}
		}
	}
	shows := func(text string) {
		t.Helper()
		until(text, func() bool { return slices.Contains(s.Texts(chat), text) })
	}
	until("the bot is connected", func() bool { return s.Connected() > 0 })
	id := s.Say(Said{From: ann, Text: "hello"})
	shows("echo hello")
	s.Press(ann, chat, s.Shown(chat)[0].ID, "/approve 7")
	shows("pressed /approve 7")
	s.Edit(chat, id, "hello you")
	shows("edited hello you")
	s.Say(Said{From: ann, Text: "file"})
	shows("sent 4")
	if got := s.Uploads(chat); !slices.Equal(got, []string{"a b.txt: text"}) {
		t.Errorf("the files are %q", got)
	}
	s.Say(Said{From: ann, Text: "grow"})
	shows("refused 10008")
	i := slices.IndexFunc(s.Shown(chat), func(m Shown) bool { return m.Text == "grown" })
	if i < 0 || len(s.Shown(chat)[i].Edits) != 8 || len(s.Shown(chat)[i].Buttons) != 1 ||
		slices.Contains(s.Texts(chat), "to be deleted") {
		t.Errorf("the chat shows %+v", s.Shown(chat))
	}
	if n := len(s.Calls("edit")); n != 9 {
		t.Errorf("%d edits were asked for, want 9: the library follows the budget", n)
	}
	begun := s.Begun()
	s.Reconnect()
	until("the bot leaves", func() bool { return s.Connected() == 0 })
	s.Say(Said{From: ann, Text: "meanwhile"}) // the session goes on, and has it
	shows("echo meanwhile")
	if n := s.Begun(); n != begun {
		t.Errorf("%d sessions were begun", n)
	}
	s.Forget()
	s.Cut()
	until("the bot begins another session", func() bool { return s.Begun() > begun && s.Connected() > 0 })
	s.Say(Said{From: ann, Text: "again"})
	shows("echo again")
	for _, c := range s.Complaints() {
		t.Errorf("the server complains: %s", c)
	}
}
