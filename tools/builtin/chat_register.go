package builtin

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/tools"
)

//go:embed chat_register.md
var chatRegisterDoc string

type chatRegisterArgs struct {
	ChatID       string `json:"chatId,omitempty" jsonschema:"a chat's id in this channel; this chat if it is left out"`
	Role         string `json:"role,omitempty" jsonschema:"normal (the default), or admin together with bootstrapKey"`
	BootstrapKey string `json:"bootstrapKey,omitempty" jsonschema:"the key that makes the first admin"`
}

// ChatRegister marks a chat as registered. With the bootstrap key it makes the first admin as well; the key is tried in
// the commit of the call's outcome, and only its hash gets there.
func ChatRegister() tools.Tool {
	return tools.NewOwn("chat.register", chatRegisterDoc, 0, registerChat,
		tools.Touches(func(c tools.Call, a chatRegisterArgs) policy.Target {
			role := corebot.Role(a.Role)
			return policy.Target{Chat: chatOf(c, a.ChatID), Role: role, Bootstrap: role == corebot.RoleAdmin &&
				a.BootstrapKey != ""}
		}))
}

// registerChat prepares the effect of chat.register.
func registerChat(_ context.Context, c tools.Call, a chatRegisterArgs) (corebot.Effect, string, error) {
	role, err := corebot.ParseRole(cmp.Or(a.Role, string(corebot.RoleNormal)))
	if err != nil {
		return nil, "", err
	}
	chat := chatOf(c, a.ChatID)
	if err := chat.Validate(); err != nil {
		return nil, "", err
	}
	text := fmt.Sprintf("the chat %s is registered", chat.Chat)
	switch {
	case role == corebot.RoleAdmin:
		return corebot.BecomeFirstAdmin{Bootstrap: corebot.HashKey(a.BootstrapKey), Chat: chat},
			text + ", and who sent the message is admin everywhere", nil
	case a.BootstrapKey != "":
		return nil, "", fmt.Errorf("%w: a bootstrapKey makes an admin: it goes with the role admin", corebot.ErrInvalid)
	}
	return corebot.RegisterChat{Chat: chat}, text, nil
}

// chatOf is the chat of the caller's channel that has an id; the caller's own if there is none, or if it is the own id.
func chatOf(c tools.Call, id string) corebot.Key {
	if id == "" || id == c.Key.Chat {
		return c.Key
	}
	k := c.Key
	k.Chat, k.Thread = id, ""
	return k
}
