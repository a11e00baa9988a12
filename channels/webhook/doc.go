// Package webhook is the channel of programs: they post messages over HTTP and fetch, or are sent, the replies.
//
//	POST /webhook            {"id","chatId","senderId","senderName","content","deliverAt","metadata"}
//	                         → 202 {"id","status":"accepted"|"duplicate"}
//	GET  /webhook/outbound   ?chatId=…&after=CURSOR&limit=N&wait=SECONDS → {"chatId","messages":[…],"cursor"}
//	GET  /webhook/stream     ?chatId=…[&after=CURSOR] → server-sent events: delta, reset, tool, message
//	                         a message: {"id","inReplyTo","content","createdAt","cursor"}, and where there is any
//	                         "attachments", "notice", "approval", "actions"
//	     /mcp                what a [Guest] answers, behind the same credentials and limits
//
// It promises:
//
//   - 202 means on disk (G1). The answer to a POST is written after the door has returned. A caller that got no answer,
//     or one of the 5xx and 429, posts the same body again; its id makes that safe, and "duplicate" says that it was.
//   - Replies are kept, not handed over. They lie in the mailbox, in order, for its retention time; a cursor names a
//     place among them and reading takes nothing away. A reply enters the mailbox once, however often it is sent.
//     Without a callback it enters with the commit of its turn, and a long poll wakes when that commit is on disk.
//   - What a credential opens, it closes. New ones take effect at once: requests, long polls and streams that came with
//     one that is gone are refused or ended.
//   - Bounded. Headers, bodies, their times, pages, connections, long polls and streams have limits; over them a caller
//     is refused, by status or by a closed connection. A reader that does not read costs a connection and a few
//     kilobytes, for ten seconds at most, and nobody else waits for it.
//
// Deltas, resets and tools in a stream are what the live hub saw: a preview that may have gaps. The message event is
// the reply.
//
// Limits: the signature of Standard Webhooks covers id, time and body, but not the address. So a listener on the wire
// who copies a signed GET can read any chat until the timestamp is too old. Put TLS in front where the network is not
// trusted. Requests that are not even HTTP, or whose headers are too large, are answered by net/http in plain text.
package webhook
