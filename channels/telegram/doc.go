// Package telegram connects Corebot to bots of Telegram by the Bot API, with long polls or a webhook.
//
// It promises:
//
//   - An update is confirmed after the commit that stored it. The offset of the next poll is the account's receive
//     cursor, which is stored in the same commit. So a crash loses no message and repeats none.
//   - With a webhook an update is answered with 200 after the commit that stored it. The offset stays meanwhile, so a
//     change to polls gets what was never answered.
//   - What the platform shows is one message for each piece of a reply, at most 4,096 UTF-16 units of text. Styles that
//     go on over a cut go on in the next piece.
//   - If the platform refuses the markup of a piece, exactly this piece is sent again as plain text.
//   - A topic of a forum is a thread: what belongs to it stays in it.
//   - A press of a button is a message of the presser, whose text is the command of the button. It is answered after
//     the commit that stored it.
//   - Messages of bots are context at most. A forwarded message is never a command, and taints its turn.
//   - The token stands in no error and in no line of the log.
//
// Limits: Telegram knows no idempotency key. A send whose answer is lost may have been shown: it is counted as
// ambiguous. Deletions are not told to bots, and reactions not fully: see decision 159. Telegram keeps updates for 24
// hours. A bot gets files of up to 20 MB, and sends files of up to 50 MB.
package telegram
