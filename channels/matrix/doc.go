// Package matrix connects Corebot to accounts of Matrix by the client-server API, with long polls.
//
// It promises:
//
//   - The position of a sync is the account's receive cursor, stored in the commit of the messages. Corebot fetches the
//     messages that a sync leaves out of a room before the position moves. So a crash or an outage loses no message.
//
//   - The first sync answers nothing that was said before. In a room that the account was invited into, what was said
//     since the invitation counts.
//
//   - A reply is shown once. Its pieces are transactions whose ids are of the reply. Before a send of unknown end is
//     made again, Corebot looks for it in the room: a homeserver that was started anew has forgotten transactions. A
//     message that comes a second time all the same is taken back.
//
//   - A thread is a conversation of its own: what belongs to it stays in it.
//
//   - Invitations are followed by the rule of access. A display name decides nothing.
//
//   - The account's own messages, notices (m.notice) and messages of another Corebot are context at most.
//
//   - A message of the account rings nobody's phone by its words.
//
//   - The token stands in no error and no line of the log. It is sent over https only, or to this machine.
//
//   - With the build tag matrixcrypto, encrypted rooms are read and written to, with their files: see package sealed. A
//     message whose key is missing waits for a day. Later ones of its sender wait behind it for ten seconds at most. A
//     message that is not encrypted is not read in such a room, nor is a file.
//
// Limits: Without that tag encrypted rooms cannot be read; the room is told so once. A message in a thread that was
// taken back before a restart is not cancelled after it: the homeserver has forgotten the thread.
package matrix
