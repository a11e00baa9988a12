// Package mail connects Corebot to a mailbox: it reads by IMAP and answers by SMTP.
//
// It promises:
//
// - The place of the next fetch, (UIDVALIDITY, UID), is stored in the commit of the mails. A flag in the mailbox
// never
//
//	  decides what is new. So a crash loses no mail and answers none twice.
//	- A sender is who he says only if the receiving server has checked it. Its topmost Authentication-Results decide,
//	  and only under the configured name. Everybody else is a stranger: see [Settings.Unverified].
//	- A chat is the verified address of the correspondent. A thread is the mail that began the conversation.
//
// - Mails of programs are never answered: auto-replies, bounces, lists, and Corebot's own. A chat has a largest
// number
//
//	  of answers in an hour, so that a program that hides what it is cannot loop.
//	- A reply goes to the verified address alone. Its Message-ID follows from the id of the reply, and nobody else can
//	  make it. By this Message-ID a send of unknown end is looked for in the mailbox before it is made again.
//	- A mail that cannot be read holds up none behind it. Time and memory are bounded for every mail.
//	- The password stands in no error and in no line of the log.
//
// Limits: the first [maxMail] bytes of a mail are read. An attachment that does not end in them is named, and its bytes
// are not kept. A server that files its own copies, or rewrites a Message-ID, cannot be asked exactly: see
// [Settings.SentCopy].
package mail
