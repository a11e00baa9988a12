package policy

// ClientChannel is the channel of MCP clients. Its chats all belong to the one principal that they act for.
const ClientChannel = "mcp"

// ofClients close what an MCP client has no business with. Its own chats are open to it by the rules that are open to all.
func ofClients() []rule {
	return []rule{
		{name: "chats-elsewhere", tool: "chat.list", when: notAClientsOwn, on: "the chats of another channel than the MCP client's", targeted: true, who: adminsEverywhere, grantable: true, reason: "only an admin everywhere may list the chats of other channels"},
		{name: "history-elsewhere", tool: "history.read", when: notAClientsOwn, on: "a chat of another channel than the MCP client's", targeted: true, who: adminsThere, grantable: true, reason: "only an admin may read the history of a chat on another channel"},
		{name: "publish-elsewhere", tool: "message.publish", when: notAClientsOwn, on: "a chat of another channel than the MCP client's", targeted: true, who: nobody, reason: "an MCP client has a channel of its own, and publishes there"},
		{name: "publish-elsewhere", tool: "message.replies", when: notAClientsOwn, on: "a chat of another channel than the MCP client's", targeted: true, who: nobody, reason: "an MCP client has a channel of its own, and publishes there"},
		{name: "status", tool: "status.read", who: adminsEverywhere, grantable: true, reason: "only an admin everywhere may read the status"},
	}
}

// notAClientsOwn takes every conversation for another's but the request's own and, on the channel of MCP clients, those of its account.
func notAClientsOwn(o Options, r Request) bool {
	own, on := r.Key, r.Target.Chat
	client := own.Channel == ClientChannel && on.Channel == ClientChannel && on.Account == own.Account && on.Agent == own.Agent
	return r.Target.Everywhere || !client && otherChat(o, r)
}
