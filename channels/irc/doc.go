// Package irc connects Corebot to servers of IRC.
//
// It promises:
//
//   - A sender is the account that the server has put on the very message (IRCv3 account-tag). A nick decides nothing:
//     a sender without an account is a stranger without an id.
//   - A private chat is of an account. An answer goes to a nick only after the server has said that this nick is logged
//     in to that account.
//   - Each line of an answer is one send, at most 512 bytes with all that servers put before it. Its end is known: the
//     server has echoed the line, or has answered a PING behind it.
//   - Lines that were received and not stored are kept while nobody has room, also across connections.
//   - Lines are paced, and never more than one is under way. So a server has no reason to call it a flood.
//   - Notices, messages of bots and what a server plays again are not answered. CTCP is not answered.
//   - A text of a model can neither begin a command of IRC nor one of another bot.
//   - The password stands in no error and no line of the log. It is sent by TLS only, or to this machine.
//
// Limits: IRC delivers nothing again. Lines that come while Corebot is not connected are lost. So is a line that it has
// received and not stored when it is killed. A send that a crash cuts off may have been shown, and is made again. There
// are no edits, deletions, threads, buttons and files.
package irc
