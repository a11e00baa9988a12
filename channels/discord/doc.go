// Package discord connects Corebot to bots of Discord: it receives by the gateway, and sends by the HTTP API.
//
// It promises:
//
//   - The session and the sequence of the gateway are the account's receive cursor, stored in the commit of the
//     messages. A heartbeat names the stored sequence, never a later one. So a crash loses no message.
//   - When the platform has forgotten the session, Corebot fetches what was said meanwhile, channel by channel.
//   - The first connection answers nothing that was said before.
//   - A reply is shown once. Each piece has a nonce that follows from the reply, and the platform enforces it for some
//     minutes. Before a send of unknown end is made again, Corebot looks for the piece in the channel.
//   - A thread is a conversation of its own: what belongs to it stays in it.
//   - A press of a button and a slash command are messages of their sender. They are acknowledged after the commit.
//   - Messages of bots and webhooks are context at most. Forwarded text is no command.
//   - A message of the bot notifies nobody by its words.
//   - The token stands in no error and no line of the log. It is sent over TLS only, or to this machine.
//
// Limits: An edit or a deletion in the time of a forgotten session is not told. One
// connection serves the bot: a bot in so many servers that it needs shards is refused.
package discord
