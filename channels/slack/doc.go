// Package slack connects Corebot to apps of Slack by socket mode and the Web API.
//
// It promises:
//
//   - An envelope is acknowledged after the commit that stored its message. Slack's retries are duplicates, however
//     late they come: a message is named by its place in its channel.
//   - Corebot fetches what people said while it was not connected, at the next connection, channel by channel and
//     thread by thread, before it reads the socket. It does not answer what they said before the first connection.
//   - A reply is shown once. Each piece has a mark in its metadata. Before a send of unknown end is made again, Corebot
//     looks for the mark in the channel.
//   - A thread is a conversation of its own: what belongs to it stays in it.
//   - A press of a button is a message of the presser, whose text is the command of the button.
//   - Messages of apps are context at most. The words of a model ring nobody's phone and open no address.
//   - Somebody of another workspace is named with it, so that no two people have one id.
//   - The tokens stand in no error and no line of the log. They are sent over https only, or to this machine.
//
// Limits: Slack shows no typing of apps. Replies in a thread whose beginning is
// older than two days are not fetched after an outage.
package slack
