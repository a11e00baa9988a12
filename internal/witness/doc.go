// Package witness publishes heads of the audit trail outside of the database, so that whoever can write the database
// cannot write the past anew unnoticed.
//
// Guarantees:
//
//   - A published head is signed with a key of the home (ed25519). A line that was changed, or that another key has
//     signed, is not taken.
//   - A head is published only if the trail goes on from the head before it. A trail that was written anew is not
//     signed.
//   - A line of the file is synced before it counts as published. A line that a power cut has cut is found, and the
//     next one begins on a line of its own.
//
// Limits: whoever can read the key can sign, so a key that others can read is not used. A writer of the file can take
// lines out of it; a file on another machine, the log or the webhook keeps them out of reach. Events after the last
// published head can be written anew until the next one.
package witness
