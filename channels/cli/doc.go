// Package cli is the terminal channel: one chat, with the person in front of the terminal.
//
// It has two faces. On a terminal ([Options.Interactive]) it is a chat: several lines of input, a history of what was
// typed, the answer as it streams, the tools as they run. Everything finished is printed above the input and stays in
// the terminal's own scrollback. Otherwise it is plain: each line of input is one message, and each reply is printed as
// it comes.
//
// What holds in both:
//   - A message gets its id before it is handed to the door, and keeps it in every retry: typing once is one message.
//   - Messages are accepted in the order in which they were typed.
//   - What the door refused is shown with the reason and its hint. Interactive, the text is back in the input; plain,
//     Run ends with an error.
//   - Send returns after the message was written to the terminal, and a message that Send is given again is not shown
//     twice by the same run. Nothing is known of a terminal that takes bytes and does not show them.
//   - Text that came from elsewhere cannot drive the terminal: escapes and control characters are shown, not obeyed.
//
// Answers are laid out by [github.com/corebot/corebot/channels/cli/markdown]; while they stream they are shown as they
// are written.
//
// Limits: one line of plain input is at most 16 MiB. The preview of a streaming answer keeps the last 64 KiB; the
// answer itself comes by Send. Nothing can end a read of the terminal that blocks in the operating system. So in plain
// mode one goroutine can outlive Run until the next line or the end of the input.
package cli
