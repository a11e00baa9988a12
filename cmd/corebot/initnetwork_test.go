package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corebot/corebot/channels/discord/discordtest"
	"github.com/corebot/corebot/channels/mail/mailtest"
	"github.com/corebot/corebot/channels/matrix/matrixtest"
	"github.com/corebot/corebot/channels/telegram/telegramtest"
	"github.com/corebot/corebot/internal/long"
)

// startInitAtNetworks answers what comes before the networks.
func startInitAtNetworks(t *testing.T, columns uint16, answer string) (*service, *screen) {
	t.Helper()
	s, c := startInit(t, columns)
	c.answer(0, "Which model answers", "offline")
	c.answer(0, "What may it do", "")
	c.answer(0, "HTTP", "")
	c.answer(0, "Which chat network", answer)
	return s, c
}

const refusedToken = "4242:AAtoken_that_the_platform_has_revoked"

func TestANewcomerJoinsAChatNetworkWithATokenThatIsTestedAtOnce(t *testing.T) {
	t.Parallel()
	for name, columns := range map[string]uint16{"wide": 100, "twenty columns": 20} {
		t.Run(name, func(t *testing.T) {
			platform := telegramtest.New()
			defer platform.Close()
			s, c := startInitAtNetworks(t, columns, "telegram")
			c.answer(0, "[https:", platform.URL())
			c.await(0, "Token of")
			mark := c.mark()
			c.press(refusedToken + "\r") // the address is right, the token is not
			c.await(mark, "401")
			c.answer(mark, "What now", "")
			c.answer(mark, "Address", "") // which stays
			c.await(mark, "Token of")
			mark = c.mark()
			c.press(telegramtest.Token + "\r")
			c.await(mark, "@corebot_bot")
			c.answer(mark, "Which other", "") // of the chat networks
			if code := c.ends(); code != 0 {
				t.Fatalf("it ended with %d:\n%s", code, c.seen())
			}
			if seen := c.seen(); strings.Contains(seen, "AAtest") || strings.Contains(seen, "AAtoken") {
				t.Errorf("a token is shown:\n%s", seen)
			}
			path := filepath.Join(s.home, "telegram.main.token")
			token, err := os.ReadFile(path)
			info, statErr := os.Stat(path)
			if err != nil || statErr != nil || string(token) != telegramtest.Token+"\n" || info.Mode().Perm() != 0o600 {
				t.Errorf("the file of the token: %v, %v, %v", err, statErr, info.Mode())
			}
			want := "channels:\n  telegram:\n    main:\n      api_url: \"" + platform.URL() +
				"\"\n      token: \"file:telegram.main.token\"\n      access: \"pairing\"\n"
			if text := s.settings(); !strings.Contains(text, want) || strings.Contains(text, "AAtest") {
				t.Errorf("the settings:\n%s", text)
			}
			if got := s.output("channels", "check", "telegram"); !strings.Contains(got, "known as @corebot_bot") {
				t.Errorf("then a check says %s", got)
			}
		})
	}
}

func TestOnOtherNetworksAWrongSecretIsRefusedAndTheOtherAnswersStay(t *testing.T) {
	long.Only(t, "TestInitTriesBothTokensOfSlack")
	t.Parallel()
	discord, matrix, post := discordtest.New(), matrixtest.New(), mailtest.New()
	t.Cleanup(discord.Close)
	t.Cleanup(matrix.Close)
	t.Cleanup(post.Close)
	for name, k := range map[string]struct {
		questions                  [][2]string // with their answers
		secret, wrong, right, says string
	}{
		"discord": {
			[][2]string{{"Address of the HTTP API", discord.URL()}},
			"Token of the bot",
			discordtest.Token + "x", discordtest.Token, "401",
		},
		"matrix": {
			[][2]string{{"Address of the homeserver", matrix.URL()}},
			"Access token", "wrong-token", matrixtest.Token,
			"is unknown to the homeserver",
		},
		"mail": {
			[][2]string{
				{"Mail address of Corebot", mailtest.Address},
				{"Server of the mailbox", post.IMAP()},
				{"Server that sends", post.SMTP()},
				{"Name of the receiving server", mailtest.AuthServID},
			}, "Password of the mailbox", "wrong", mailtest.Password, "password",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, c := startInitAtNetworks(t, 100, name)
			for _, q := range k.questions {
				c.answer(0, q[0], q[1])
			}
			c.await(0, k.secret)
			mark := c.mark()
			c.press(k.wrong + "\r")
			c.await(mark, k.says)
			c.answer(mark, "What now", "")
			for _, q := range k.questions {
				c.answer(mark, q[0], "") // which stays
			}
			c.await(mark, k.secret)
			mark = c.mark()
			c.press(k.right + "\r")
			c.answer(mark, "Which other", "")
			if code := c.ends(); code != 0 {
				t.Fatalf("it ended with %d:\n%s", code, c.seen())
			}
			if seen := c.seen(); strings.Contains(seen, k.right) {
				t.Errorf("the secret is shown:\n%s", seen)
			}
			if got := s.output("channels", "check", name); !strings.Contains(got, name+":main") ||
				!strings.Contains(got, " ok ") {
				t.Errorf("then a check says %s", got)
			}
		})
	}
}

// TestANetworkThatDoesNotConnectIsLeftOutOrKept: whoever sets a home up loses none of the other answers by it.
func TestANetworkThatDoesNotConnectIsLeftOutOrKept(t *testing.T) {
	long.Only(t, "TestANewcomerJoinsAChatNetworkWithATokenThatIsTestedAtOnce")
	t.Parallel()
	const nowhere = "http://127.0.0.1:1"
	for name, k := range map[string]struct {
		answer func(*screen)
		kept   bool
	}{
		"nothing is typed for the token": {answer: func(c *screen) {
			c.answer(0, "Address", "")
			c.answer(0, "Token of", "")
			c.await(0, "telegram is left out")
		}},
		"nonsense as the token cannot be kept": {answer: func(c *screen) {
			c.answer(0, "Address", nowhere)
			c.answer(0, "Token of", "my token")
			c.await(0, "has not the form of a bot's token")
			c.answer(0, "What now", "keep")
			c.answer(0, "is neither a number from 1 to 2", "leave")
		}},
		"nonsense as the address": {answer: func(c *screen) {
			c.answer(0, "Address", "telegram.org")
			c.answer(0, "Token of", telegramtest.Token)
			c.await(0, "is no address of a server")
			c.answer(0, "What now", "leave")
		}},
		"without a network": {answer: func(c *screen) {
			c.answer(0, "Address", nowhere)
			c.answer(0, "Token of", telegramtest.Token)
			c.await(0, "cannot be reached")
			c.answer(0, "What now", "leave")
		}},
		"kept without a network": {kept: true, answer: func(c *screen) {
			c.answer(0, "Address", nowhere)
			c.answer(0, "Token of", telegramtest.Token)
			c.await(0, "cannot be reached")
			c.answer(0, "What now", "keep")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, c := startInitAtNetworks(t, 80, "telegram")
			k.answer(c)
			c.answer(0, "Which other", "") // of the chat networks
			if k.kept {
				c.await(0, "(not tested)")
			}
			if code := c.ends(); code != 0 {
				t.Fatalf("it ended with %d:\n%s", code, c.seen())
			}
			if strings.Contains(c.seen(), "AAtest") {
				t.Errorf("the token is shown:\n%s", c.seen())
			}
			_, err := os.Stat(filepath.Join(s.home, "telegram.main.token"))
			if text := s.settings(); strings.Contains(text, "telegram") != k.kept || os.IsNotExist(err) == k.kept ||
				!strings.Contains(text, "offline: true") {
				t.Errorf("the token: %v; the settings:\n%s", err, text)
			}
			s.output("config", "check")
		})
	}
}

func TestAnInterruptAtTheTokenOfANetworkChangesNothing(t *testing.T) {
	t.Parallel()
	s, c := startInitAtNetworks(t, 80, "telegram")
	c.answer(0, "Address", "")
	c.await(0, "Token of")
	c.press(telegramtest.Token + ctrlC)
	if code := c.ends(); code != 1 || !strings.Contains(c.seen(), "nothing was changed") {
		t.Errorf("it ended with %d:\n%s", code, c.seen())
	}
	if _, err := os.Stat(s.home); !os.IsNotExist(err) {
		t.Errorf("there is a home: %v", err)
	}
}

func TestInAHomeWithAnAccountTheAnswersTakeThePlaceOfItsSettings(t *testing.T) {
	t.Parallel()
	platform := telegramtest.New()
	defer platform.Close()
	s, c := startInit(t, 80)
	c.await(0, "Number or name") // before that no program hears the key
	c.press(ctrlC)
	c.ends()
	text := "channels:\n  telegram:\n    main:\n      # mine\n      token: " + refusedToken + " # of my bot\n" +
		"      api_url: " + platform.URL() + " # near\n      access: open\nllm:\n  offline: true\n"
	for _, err := range []error{
		os.Mkdir(s.home, 0o700), os.WriteFile(filepath.Join(s.home, "corebot.yaml"), []byte(text), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	cmd := s.command(t.Context(), "init")
	c = startScreen(t, cmd, 80, 40)
	c.answer(0, "Which model answers", "offline")
	c.answer(0, "What may it do", "")
	c.answer(0, "HTTP", "")
	c.answer(0, "Which chat network", "telegram")
	c.answer(0, "Address of the Bot API ["+platform.URL()+"]", "")
	c.answer(0, "Token of", telegramtest.Token)
	c.answer(0, "Which other", "") // of the chat networks
	c.answer(0, "Write it?", "")
	if code := c.ends(); code != 0 {
		t.Fatalf("it ended with %d:\n%s", code, c.seen())
	}
	want := strings.ReplaceAll(text, refusedToken, `"file:telegram.main.token"`)
	if got := s.settings(); got != want {
		t.Errorf("the settings:\n%s", got)
	}
}
