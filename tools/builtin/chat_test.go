package builtin_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/tools"
	"github.com/corebot/corebot/tools/builtin"
)

// scoped are roles by conversation; the zero key is everywhere.
type scoped map[corebot.Key]corebot.Role

func (s scoped) RoleOf(_ context.Context, _ corebot.Principal, k corebot.Key) (corebot.Role, error) {
	if r, ok := s[k]; ok {
		return r, nil
	}
	return corebot.RoleNormal, nil
}

var (
	ann        = corebot.Principal{Channel: "webhook", ID: "ann"}
	everywhere = scoped{here: corebot.RoleAdmin, there: corebot.RoleAdmin, {}: corebot.RoleAdmin}
	hereOnly   = scoped{here: corebot.RoleAdmin}
)

// chatCall makes a call of a chat tool as ann and gives its result and the effect that it asked for.
func chatCall(t *testing.T, roles tools.Roles, tool, arguments string) (corebot.ToolResult, corebot.Effect) {
	t.Helper()
	registry, err := tools.NewRegistry(builtin.ChatRegister(), builtin.ChatSetRole())
	must(t, err)
	p, err := policy.New(policy.Options{})
	must(t, err)
	box, err := tools.NewBox(registry, p, roles, tools.Options{})
	must(t, err)
	j := &applied{}
	r, err := box.Call(t.Context(), corebot.Caller{Key: here, Principal: ann},
		corebot.ToolCall{Tool: tool, Args: []byte(arguments)}, j)
	must(t, err)
	if (len(j.effects) == 1) != (r.Outcome == corebot.OutcomeSuccess) {
		t.Errorf("%s %s: %s with the effects %+v", tool, arguments, r.Outcome, j.effects)
	}
	if len(j.effects) == 0 {
		return r, nil
	}
	return r, j.effects[0]
}

func TestAChatIsRegisteredByWhoIsInItAndAnotherByAnAdmin(t *testing.T) {
	for _, c := range []struct {
		roles   scoped
		args    string
		outcome corebot.AuditOutcome
		want    corebot.Effect
	}{
		{nil, `{}`, corebot.OutcomeSuccess, corebot.RegisterChat{Chat: here}},
		{nil, `{"chatId":"here"}`, corebot.OutcomeSuccess, corebot.RegisterChat{Chat: here}},
		{nil, `{"chatId":"here","role":"normal"}`, corebot.OutcomeSuccess, corebot.RegisterChat{Chat: here}},
		{nil, `{"chatId":"there"}`, corebot.OutcomeDenied, nil},
		{hereOnly, `{"chatId":"there"}`, corebot.OutcomeDenied, nil},
		{everywhere, `{"chatId":"there"}`, corebot.OutcomeSuccess, corebot.RegisterChat{Chat: there}},
		{everywhere, `{"role":"admin"}`, corebot.OutcomeDenied, nil},
		{nil, `{"role":"admin"}`, corebot.OutcomeDenied, nil},
		{nil, `{"role":"root"}`, corebot.OutcomeError, nil},
		{nil, `{"bootstrapKey":"0123456789abcdef"}`, corebot.OutcomeError, nil},
		{everywhere, `{"chatId":"a\u0007"}`, corebot.OutcomeDenied, nil},
		{nil, `{"chatId":7}`, corebot.OutcomeInvalidArgs, nil},
		{nil, `{"bootstrapkey":"x"}`, corebot.OutcomeInvalidArgs, nil},
	} {
		r, effect := chatCall(t, c.roles, "chat.register", c.args)
		if r.Outcome != c.outcome || effect != c.want {
			t.Errorf("%v %s: %+v with %+v", c.roles, c.args, r, effect)
		}
	}
}

func TestABootstrapKeyTravelsAsItsHashWhateverTheChat(t *testing.T) {
	for _, chat := range []corebot.Key{here, there} {
		r, effect := chatCall(t, scoped{}, "chat.register", `{"chatId":"`+chat.Chat+
			`","role":"admin","bootstrapKey":"0123456789abcdef"}`)
		want := corebot.BecomeFirstAdmin{Bootstrap: corebot.HashKey("0123456789abcdef"), Chat: chat}
		if effect != want || strings.Contains(r.Content, "0123456789abcdef") {
			t.Errorf("%s: %+v, %+v", chat, r, effect)
		}
	}
}

func TestARoleIsGivenWhereItsGiverIsAdmin(t *testing.T) {
	bob := corebot.Principal{Channel: "webhook", ID: "bob"}
	for _, c := range []struct {
		roles   scoped
		args    string
		outcome corebot.AuditOutcome
		want    corebot.Effect
	}{
		{nil, `{"senderId":"bob","chatId":"here","role":"admin"}`, corebot.OutcomeDenied, nil},
		{
			hereOnly, `{"senderId":"bob","chatId":"here","role":"admin"}`, corebot.OutcomeSuccess,
			corebot.GrantRole{Principal: bob, Role: corebot.RoleAdmin, Chat: here},
		},
		{
			hereOnly, `{"senderId":"bob","chatId":"here","role":"normal"}`, corebot.OutcomeSuccess,
			corebot.GrantRole{Principal: bob, Role: corebot.RoleNormal, Chat: here},
		},
		{hereOnly, `{"senderId":"bob","chatId":"there","role":"admin"}`, corebot.OutcomeDenied, nil},
		{hereOnly, `{"senderId":"bob","role":"admin"}`, corebot.OutcomeDenied, nil},
		{
			everywhere, `{"senderId":"bob","chatId":"there","role":"admin"}`, corebot.OutcomeSuccess,
			corebot.GrantRole{Principal: bob, Role: corebot.RoleAdmin, Chat: there},
		},
		{
			everywhere, `{"senderId":"bob","role":"admin"}`, corebot.OutcomeSuccess,
			corebot.GrantRole{Principal: bob, Role: corebot.RoleAdmin},
		},
		{everywhere, `{"senderId":"ann","role":"normal"}`, corebot.OutcomeDenied, nil},
		{everywhere, `{"senderId":"ann","chatId":"there","role":"admin"}`, corebot.OutcomeDenied, nil},
		{everywhere, `{"senderId":"","role":"admin"}`, corebot.OutcomeError, nil},
		{everywhere, `{"senderId":"b\n","role":"admin"}`, corebot.OutcomeError, nil},
		{everywhere, `{"senderId":"bob","role":"Admin"}`, corebot.OutcomeError, nil},
		{everywhere, `{"senderId":"bob"}`, corebot.OutcomeInvalidArgs, nil},
		{everywhere, `{"role":"admin"}`, corebot.OutcomeInvalidArgs, nil},
	} {
		r, effect := chatCall(t, c.roles, "chat.set_role", c.args)
		if r.Outcome != c.outcome || effect != c.want {
			t.Errorf("%v %s: %+v with %+v", c.roles, c.args, r, effect)
		}
	}
}

// A whole turn: the role is given, used, taken away by somebody else meanwhile, and missed with the very next call.
func TestAGrantAndARevokeHoldFromTheNextCallOnInsideARunningTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		alice, room := apptest.Person(apptest.Sender), apptest.Key("room")
		var k *apptest.Kit
		asks := func(change func() error, args string) apptest.Reply {
			return func(ctx context.Context, r llm.Request, onText func(string)) (corebot.Answer, error) {
				must(t, change())
				return apptest.Asks(apptest.Call("c", "chat.set_role", args))(ctx, r, onText)
			}
		}
		bob := `{"senderId":"bob","role":"admin"}`
		k = apptest.New(t, apptest.Options{
			Tools: []tools.Tool{builtin.ChatRegister(), builtin.ChatSetRole()},
			Model: apptest.Script(
				asks(func() error { return nil }, bob),
				asks(func() error {
					return k.Grants.Grant(t.Context(), corebot.Grant{Principal: alice, Role: corebot.RoleAdmin})
				}, bob),
				asks(func() error { return k.Grants.Revoke(t.Context(), alice, corebot.Key{}) },
					`{"senderId":"eve","role":"admin"}`),
				apptest.Text("done"),
			),
		}).Start()
		k.Say("room", "m", "make bob admin")
		synctest.Wait()
		k.WantEnd("m", corebot.EndAnswered)
		var outcomes []string
		for _, e := range k.Said("room") {
			if e.Speaker == corebot.SpeakerTool {
				word, _, _ := strings.Cut(e.Text(), " ")
				outcomes = append(outcomes, word)
			}
		}
		if got := strings.Join(outcomes, " "); got != "denied: bob denied:" {
			t.Errorf("the calls ended %q", got)
		}
		if role, err := k.Grants.RoleOf(t.Context(), corebot.Principal{Channel: apptest.Channel, ID: "bob"},
			room); err != nil || role != corebot.RoleAdmin {
			t.Errorf("bob is %s, %v", role, err)
		}
	})
}
