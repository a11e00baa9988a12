package mail

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"strings"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/lazy"
)

// names make the Message-IDs of an account. An id has two parts: what it is derived from, and a mark of the account's
// own secret over this and the recipient. So nobody can guess the id of a mail that was not sent yet, and a bounce can
// be told from a forged one.
type names struct {
	key    []byte
	domain string
}

func newNames(own address, password string) names {
	key := sha256.Sum256([]byte("corebot message ids\x00" + own.String() + "\x00" + password))
	return names{key[:], own.domain}
}

var letters = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// of is the Message-ID of a send to a chat.
func (n names) of(key corebot.Key, idempotency string) string {
	h := hmac.New(sha256.New, n.key)
	for _, part := range []string{key.String(), idempotency} {
		h.Write([]byte(part))
		h.Write([]byte{0})
	}
	base := letters.EncodeToString(h.Sum(nil)[:16])
	return "<corebot." + base + "." + n.mark(base, key.Chat) + "@" + n.domain + ">"
}

func (n names) mark(base, recipient string) string {
	h := hmac.New(sha256.New, n.key)
	h.Write([]byte("mark\x00" + base + "\x00" + recipient))
	return letters.EncodeToString(h.Sum(nil)[:10])
}

var ownIDs = lazy.Regexp(`^<corebot\.([a-z2-7]{26})\.([a-z2-7]{16})@[^>]+>$`)

// sentTo says whether Corebot has made the Message-ID, for a mail to this recipient.
func (n names) sentTo(id, recipient string) bool {
	m := ownIDs().FindStringSubmatch(id)
	return m != nil && hmac.Equal([]byte(m[2]), []byte(n.mark(m[1], recipient)))
}

// messageIDs are ids that Corebot takes as they are. Others are replaced by their hash.
var messageIDs = lazy.Regexp(`<[!-;=?-~]{1,250}>`)

// idsIn are the Message-IDs in a field, in order. No more than max are looked for.
func idsIn(field string, max int) []string { return messageIDs().FindAllString(field, max) }

// hashed is an id for what has none that can be used.
func hashed(text []byte) string {
	sum := sha256.Sum256(text)
	return "<sha256." + letters.EncodeToString(sum[:20]) + ">"
}

// isMessageID says whether an id names a mail on the network, and not only in Corebot.
func isMessageID(id string) bool {
	return messageIDs().FindString(id) == id && id != "" && !strings.HasPrefix(id, "<sha256.")
}
