package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
)

// pigeon are the settings of an account of a network in these tests.
type pigeon struct {
	Token  string        `mapstructure:"token" secret:"yes" doc:"of the loft"`
	APIURL string        `mapstructure:"api_url" doc:"where the loft is"`
	Every  time.Duration `mapstructure:"every" min:"1s" doc:"between two looks at the loft"`
	Birds  []string      `mapstructure:"birds" doc:"that fly for it"`
	Retry  pigeonRetry   `mapstructure:"retry"`
}

type pigeonRetry struct {
	Times int `mapstructure:"times" min:"0" doc:"how often a lost bird is sent again"`
}

func (p pigeon) Validate() error {
	if p.Token == "" {
		return corebot.WithHint(errors.New("it has no token"), "set token to file:pigeon.token")
	}
	return nil
}

func pigeons() Network {
	return Network{Kind: "pigeon", Standard: pigeon{Every: time.Minute, Retry: pigeonRetry{Times: 3}}}
}

func TestEveryAccountOfANetworkHasSettingsOfItsOwn(t *testing.T) {
	clean(t)
	t.Setenv("LOFT", "s3cret-of-the-loft")
	home := homeWith(t, "corebot.yaml", `
channels:
  on_ambiguous: hold
  pigeon:
    Work:
      token: env:LOFT
      every: 5s
      birds: [ada, bob]
      retry: {times: 1}
      access: open
      groups: all
    home-2: {token: file:token, allowlist: ["pigeon:home-2:ada", "main:pigeon:home-2:roof"]}
`)
	write(t, filepath.Join(home, "token"), "s3cret-at-home\n", 0o600)
	c, err := Load(home, pigeons())
	if err != nil {
		t.Fatal(err)
	}
	list := c.Accounts.List()
	if len(list) != 2 || list[0].Name != "home-2" || list[1].Name != "work" || c.Channels.OnAmbiguous != "hold" {
		t.Fatalf("the accounts are %+v", list)
	}
	want := []pigeon{
		{Token: "s3cret-at-home", Every: time.Minute, Retry: pigeonRetry{Times: 3}},
		{
			Token: "s3cret-of-the-loft", Every: 5 * time.Second, Birds: []string{"ada", "bob"},
			Retry: pigeonRetry{Times: 1},
		},
	}
	for i, a := range list {
		var got pigeon
		if err := a.Decode(&got); err != nil || fmt.Sprint(got) != fmt.Sprint(want[i]) {
			t.Errorf("%s: %+v, %v", a.Name, got, err)
		}
	}
	if a := list[0].Common; a.Rule != "allowlist" || a.Groups != "mention" || len(a.Allowlist.Values()) != 2 {
		t.Errorf("what stands nowhere is %+v", a)
	}
	if a := list[1].Common; a.Rule != "open" || a.Groups != "all" {
		t.Errorf("what was set is %+v", a)
	}
	if text := fmt.Sprintf("%v %+v", c, c.Accounts); strings.Contains(text, "s3cret") {
		t.Error("the settings print a secret")
	}
	for _, secret := range []string{"s3cret-at-home", "s3cret-of-the-loft"} {
		if !slices.Contains(c.Secrets(), secret) {
			t.Errorf("%s is not known as a secret", secret)
		}
	}
}

func TestAccountsAreExplainedKeyByKeyWithoutTheirSecrets(t *testing.T) {
	clean(t)
	home := homeWith(t, "corebot.yaml", "channels: {pigeon: {main: {token: file:token, every: 2s}}}")
	write(t, filepath.Join(home, "token"), "s3cret", 0o600)
	e, err := Explain(home, pigeons())
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]string{}
	for _, v := range e.Values {
		shown[strings.TrimPrefix(v.Key, "channels.pigeon.main.")] = fmt.Sprint(v.Value, " ", v.From, " ", v.Reference)
	}
	for key, want := range map[string]string{
		"token": "*** file file:token", "every": "2s file ", "retry.times": "3 default ",
		"access": "allowlist default ", "groups": "mention default ",
	} {
		if shown[key] != want {
			t.Errorf("%s is shown as %q, want %q", key, shown[key], want)
		}
	}
}

func TestAMistakeInAnAccountIsAnErrorThatNamesItAndAWayOut(t *testing.T) {
	for text, want := range map[string]struct{ err, hint string }{
		"heron: {main: {token: x}}": {`unknown key "channels.heron"`, "there is no such network; there are pigeon"},

		"pigoen: {main: {token: x}}": {`unknown key "channels.pigoen"`, `did you mean "channels.pigeon"?`},

		"pigeon: text": {`"channels.pigeon" has a section for each account`, `"channels.pigeon.main"`},

		"pigeon: {main: text}": {"channels.pigeon.main is not a section", "settings below it"},

		"pigeon: {token: x}": {"channels.pigeon.token is not a section", `such as "channels.pigeon.main.token"`},

		"pigeon: {my_bot: {token: x}}": {`"channels.pigeon.my_bot" is not the name of an account`, "lower-case"},

		"pigeon: {main: {token: x}, MAIN: {token: y}}": {"channels.pigeon.main is there twice", "keep one"},

		"pigeon: {main: {tokne: x}}": {`channels.pigeon.main: unknown key "tokne"`, `did you mean "token"?`},

		"pigeon: {main: {retry: {tmies: 1}}}": {`channels.pigeon.main: unknown key "retry.tmies"`, `"retry.times"`},

		"pigeon: {main: {token: x, every: 5}}":       {"channels.pigeon.main.every is not a duration", "15m"},
		"pigeon: {main: {token: x, every: 1ms}}":     {"channels.pigeon.main.every is 1ms", "at least 1s"},
		"pigeon: {main: {token: x, groups: some}}":   {"channels.pigeon.main.groups", "mention"},
		"pigeon: {main: {token: x, access: nobody}}": {"channels.pigeon.main.access", "allowlist"},

		"pigeon: {main: {}}": {"channels.pigeon.main: it has no token", "file:pigeon.token"},

		"pigeon: {main: {token: env:NOT_THERE}}": {"channels.pigeon.main.token: env:NOT_THERE", "set NOT_THERE"},

		`pigeon: {main: {token: "a\nb"}}`: {"channels.pigeon.main.token has a control character", "one line"},

		"pigeon: {main: {token: x, allowlist: [you]}}":   {"channels.pigeon.main.allowlist", "pigeon"},
		"pigeon: {main: {token: x, allowlist: [a:b:c]}}": {"channels.pigeon.main.allowlist", "pigeon"},
		`pigeon: {main: {token: x, allowlist: ["pigeon:work:ada"]}}`: {
			`"pigeon:work:ada" is of the account "work"`, "that account",
		},
		`pigeon: {main: {token: x, access: open, allowlist: ["*"]}}`: {
			"channels.pigeon.main.allowlist is set, and channels.pigeon.main.access is open", "allowlist",
		},
	} {
		clean(t)
		_, err := Load(homeWith(t, "corebot.yaml", "channels: {"+text+"}"), pigeons())
		if err == nil || !strings.Contains(err.Error(), want.err) || !strings.Contains(corebot.HintOf(err), want.hint) {
			t.Errorf("%s: %v (hint %q), want %q (%q)", text, err, corebot.HintOf(err), want.err, want.hint)
		}
	}
}

func TestAnAccountOfANetworkThatThisVersionHasNotIsRefused(t *testing.T) {
	clean(t)
	if _, err := Load(homeWith(t, "corebot.yaml", "channels: {pigeon: {main: {token: x}}}")); err == nil {
		t.Error("it was taken")
	}
}

func TestAChangedAccountNeedsARestart(t *testing.T) {
	clean(t)
	read := func(text string) Config {
		c, err := Load(homeWith(t, "corebot.yaml", text), pigeons())
		if err != nil {
			t.Fatal(err)
		}
		c.Home = ""
		return c
	}
	one := read("channels: {pigeon: {a: {token: x}, b: {token: x}, c: {token: x}}}")
	if one != read("channels: {pigeon: {a: {token: x}, b: {token: x}, c: {token: x}}}") {
		t.Error("the same settings differ")
	}
	two := read("channels: {pigeon: {a: {token: x}, b: {token: y}, d: {token: x}}}")
	_, restart := Diff(one, two)
	if want := []string{"channels.pigeon.b", "channels.pigeon.c", "channels.pigeon.d"}; !slices.Equal(restart, want) {
		t.Errorf("a restart is needed for %q, want %q", restart, want)
	}
}

func TestAMemoryOfMessagesIsLongerThanNetworksGiveThemAgain(t *testing.T) {
	clean(t)
	birds := pigeons()
	birds.Redelivers = 24 * time.Hour
	const account = "\nchannels: {pigeon: {main: {token: x}}}"
	for text, refused := range map[string]bool{
		"bus: {dedupe_ttl: 23h}" + account:                             true,
		"bus: {dedupe_ttl: 24h}" + account:                             false,
		"bus: {dedupe_ttl: 1h}\nretention: {messages: 0s}" + account:   false,
		"bus: {dedupe_ttl: 1h}\nretention: {messages: 240h}":           false,
		"bus: {dedupe_ttl: 1h}\nretention: {messages: 240h}" + account: true,
	} {
		_, err := Load(homeWith(t, "corebot.yaml", text), birds)
		if (err != nil) != refused || refused && (!strings.Contains(err.Error(), "bus.dedupe_ttl is ") ||
			!strings.Contains(corebot.HintOf(err), "at least 24h")) {
			t.Errorf("%s: %v, hint: %s", text, err, corebot.HintOf(err))
		}
	}
}

func TestTheSchemaKnowsTheAccountsOfNetworks(t *testing.T) {
	raw, err := json.Marshal(Schema(pigeons()))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"pigeon":{"description":"accounts by name`, `"token":{"description":"of the loft; may be file:PATH or ` +
			`env:NAME"`,
		`"times":{`, `"groups":{`,
	} {
		if !strings.Contains(string(raw), want) {
			t.Errorf("the schema has no %s", want)
		}
	}
	if without, _ := json.Marshal(Schema()); strings.Contains(string(without), "pigeon") {
		t.Error("a schema without networks has some")
	}
}

func TestANetworkOutsideOfItsSectionIsSaidToBelongThere(t *testing.T) {
	clean(t)
	_, err := Load(homeWith(t, "corebot.yaml", "pigeon: {token: x}"), pigeons())
	if want := "the settings of a network are under channels.pigeon.main"; corebot.HintOf(err) != want {
		t.Errorf("%v\nhint %s", err, corebot.HintOf(err))
	}
}
