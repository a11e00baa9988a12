package builtin

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/tools"
)

//go:embed chat_set_role.md
var chatSetRoleDoc string

type chatSetRoleArgs struct {
	SenderID string `json:"senderId" jsonschema:"the immutable id of a sender of this channel"`
	ChatID   string `json:"chatId,omitempty" jsonschema:"the role holds in this chat only; everywhere if left out"`
	Role     string `json:"role" jsonschema:"admin or normal"`
}

// ChatSetRole gives a sender of the caller's channel and account a role, in one chat or everywhere.
func ChatSetRole() tools.Tool {
	return tools.NewOwn("chat.set_role", chatSetRoleDoc, tools.Privileged, setRole,
		tools.Touches(func(c tools.Call, a chatSetRoleArgs) policy.Target {
			target := policy.Target{Sender: a.who(c), Role: corebot.Role(a.Role), Everywhere: a.ChatID == ""}
			if !target.Everywhere {
				target.Chat = chatOf(c, a.ChatID)
			}
			return target
		}))
}

// setRole prepares the effect of chat.set_role.
func setRole(_ context.Context, c tools.Call, a chatSetRoleArgs) (corebot.Effect, string, error) {
	role, err := corebot.ParseRole(a.Role)
	if err != nil {
		return nil, "", err
	}
	grant := corebot.GrantRole{Principal: a.who(c), Role: role}
	if err := grant.Principal.Validate(); err != nil {
		return nil, "", err
	}
	if a.ChatID == "" {
		return grant, fmt.Sprintf("%s is %s everywhere", a.SenderID, role), nil
	}
	grant.Chat = chatOf(c, a.ChatID)
	return grant, fmt.Sprintf("%s is %s in the chat %s", a.SenderID, role, a.ChatID), grant.Chat.Validate()
}

// who is the principal that a sender's id means. The channel and account are the caller's: an id of another could mean
// somebody else.
func (a chatSetRoleArgs) who(c tools.Call) corebot.Principal {
	return corebot.Principal{Channel: c.Principal.Channel, Account: c.Principal.Account, ID: a.SenderID}
}
