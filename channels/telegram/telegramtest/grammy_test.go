package telegramtest

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"
)

// bot is one that grammY serves: by long polls, or with HOOK at that port by a webhook, which loses one update.
const bot = `const { Bot, InlineKeyboard, InputFile, webhookCallback } = require('grammy');
const bot = new Bot(process.env.TOKEN, {client: {apiRoot: process.env.API}});
const quiet = {link_preview_options: {is_disabled: true}};
bot.command('start', c => c.reply('welcome', {...quiet,
  reply_markup: new InlineKeyboard().text('Approve', '/approve 7')}));
bot.command('file', async c => { const png = Buffer.from('89504e470d0a1a0a00', 'hex');
  await c.replyWithPhoto(new InputFile(png, 'cat.png'), {caption: 'a cat'});
  await c.replyWithDocument(new InputFile(Buffer.from('text'), 'a.txt'));
  await c.replyWithPhoto(new InputFile(Buffer.from('no image'), 'b.png')).catch(e => c.reply(e.description, quiet)); });
bot.on('message:text', async c => { await c.replyWithChatAction('typing');
  await c.reply('<b>echo</b> ' + c.message.text, {...quiet, parse_mode: 'HTML',
    message_thread_id: c.message.message_thread_id, reply_parameters: {message_id: c.message.message_id}}); });
bot.on('edited_message:text', c => c.reply('edited ' + c.editedMessage.text, quiet));
bot.on('callback_query:data', async c => { await c.answerCallbackQuery('taken');
  await c.reply('pressed ' + c.callbackQuery.data, quiet); });
bot.catch(e => { console.error(e); process.exit(1); });
let lost = 0;
const hook = async port => { const answer = webhookCallback(bot, 'http', {secretToken: 'grammy_secret-1'});
  await bot.init();
  const serve = (q, r) => lost++ ? answer(q, r) : r.writeHead(500).end();
  require('http').createServer(serve).listen(port, '127.0.0.1', () =>
    bot.api.setWebhook('http://127.0.0.1:' + port + '/', {secret_token: 'grammy_secret-1', max_connections: 1})); };
bot.api.setMyCommands([{command: 'start', description: 'Begin'}])
  .then(() => process.env.HOOK ? hook(+process.env.HOOK) : bot.start())
  .catch(e => { console.error(e); process.exit(1); });
`

// TestAnotherLibraryTakesTheServerForTelegram runs a bot of grammY against the server. NETWORK_CLIENTS names a
// directory whose node_modules have it: scripts/network-clients makes one.
func TestAnotherLibraryTakesTheServerForTelegram(t *testing.T) {
	t.Run("by polls", func(t *testing.T) { converse(t, "") })
	t.Run("by a webhook", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // loopback
		if err != nil {
			t.Fatal(err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		converse(t, strconv.Itoa(port))
	})
}

// converse plays a conversation with a bot of grammY that polls, or that listens at a port.
func converse(t *testing.T, hook string) {
	dir := os.Getenv("NETWORK_CLIENTS")
	if dir == "" {
		t.Skip("scripts/network-clients runs this")
	}
	s := New()
	t.Cleanup(s.Close)
	command := exec.CommandContext(t.Context(), "node", "-e", bot)
	command.Dir = dir
	command.Env = append(os.Environ(), "NODE_PATH="+filepath.Join(dir, "node_modules"), "TOKEN="+Token, "API="+s.URL(),
		"HOOK="+hook)
	command.Stderr, command.Stdout = os.Stderr, os.Stderr
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	ann := User{ID: 1001, FirstName: "Ann"}
	until := func(what string, is func() bool) {
		t.Helper()
		for began := time.Now(); !is(); time.Sleep(5 * time.Millisecond) {
			if time.Since(began) > 30*time.Second {
				t.Fatalf("not after 30 s: %s; %q, %q", what, s.Texts(ann.ID), s.Complaints())
			}
		}
	}
	shows := func(text string) { until(text, func() bool { return slices.Contains(s.Texts(ann.ID), text) }) }
	until("the bot receives", func() bool {
		address, _ := s.Webhook()
		return s.Polls() > 0 || address != ""
	})
	if got := s.Commands(); !slices.Equal(got, []string{"start"}) {
		t.Errorf("the commands are %q", got)
	}
	s.Say(Said{From: ann, Text: "/start"})
	shows("welcome")
	s.Press(ann, ann.ID, s.Shown(ann.ID)[0].ID, "/approve 7")
	shows("pressed /approve 7")
	id := s.Say(Said{From: ann, Text: "hello"})
	shows("echo hello")
	if last := s.Shown(ann.ID); last[len(last)-1].ReplyTo != id || s.Typing(ann.ID) == 0 {
		t.Errorf("the reply is %+v, and the chat has %d signs of typing", last[len(last)-1], s.Typing(ann.ID))
	}
	s.Edit(ann.ID, id, "hello you")
	shows("edited hello you")
	s.Say(Said{From: ann, Text: "/file"})
	shows("Bad Request: IMAGE_PROCESS_FAILED")
	if got := s.Uploads(ann.ID); !slices.Equal(got, []string{"cat.png: \x89PNG\r\n\x1a\n\x00", "a.txt: text"}) {
		t.Errorf("the files are %q", got)
	}
	confirmed := func() { until("all is confirmed", func() bool { return s.Waiting() == 0 }) }
	if hook == "" { // a bot that polls connects again; grammY makes no request again
		confirmed() // a chat shows a message before the bot has the answer to its request
		s.Cut()
	}
	s.Say(Said{From: ann, Text: "again"})
	shows("echo again")
	if hook != "" {
		confirmed()
		if s.Polls() != 0 || s.Posts() != 7 {
			t.Errorf("there were %d polls and %d posts", s.Polls(), s.Posts())
		}
	}
	for _, c := range s.Complaints() {
		t.Errorf("the server complains: %s", c)
	}
}
