package mail

import (
	"time"

	"github.com/emersion/go-imap/v2"
)

// A copy that never comes costs the tests this long, once for each mail that is looked for. The rest is how long a mail
// waits that the server did not give, and after how many bytes to one command a server is left.
func init() {
	arrives, firstWait, soon = 1500*time.Millisecond, 10*time.Millisecond, 20*time.Millisecond
	maxSaid = 256 << 10
}

// Secure has a channel treat its servers as servers elsewhere, with TLS from the first byte or by STARTTLS. A server of
// the tests is on this machine, where TLS is not required, and has not the ports that begin with TLS.
func (c *Channel) Secure(implicit bool) {
	for _, s := range []*server{&c.imap, &c.smtp} {
		s.loopback, s.implicit = false, implicit
	}
}

// Late has a channel have seen a copy that came so late.
func (c *Channel) Late(d time.Duration) { c.noteLate(d) }

// Waits is how long a copy may be on its way now.
func (c *Channel) Waits() time.Duration { return c.waits() }

// Arrives is how long the tests wait for a copy.
func Arrives() time.Duration { return arrives }

// Patience is how long a mail is asked for that the server does not give, until the test ends.
func Patience(d, long time.Duration) (back func()) {
	was, wasLong := patience, longPatience
	patience, longPatience = d, long
	return func() { patience, longPatience = was, wasLong }
}

// CheckPlace says whether a stored place can be read.
func CheckPlace(s string) error {
	_, err := parsePlace(s)
	return err
}

// UIDsOf are the first numbers of a search that are above one.
func UIDsOf(found imap.UIDSet, above imap.UID, most int) []imap.UID {
	return uidsOf(&imap.SearchData{All: found}, above, most)
}
