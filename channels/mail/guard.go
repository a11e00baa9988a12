package mail

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/corebot/corebot/internal/lazy"
)

// guard reads what an IMAP server says before the library does, because the library trusts servers in two ways. It
// reads a parenthesis among the capabilities for ever, and no end of the connection stops it. It also keeps lines,
// lists and most literals in memory without a limit.
//
// A literal of a fetched mail is read in pieces by Corebot, so it has no limit here, and nothing in it is looked at.
type guard struct {
	net.Conn
	said atomic.Int64 // bytes since Corebot wrote last, without the literals of mails

	line    int    // bytes of the line so far
	head    []byte // the begin of the line
	tail    []byte // the end of the line so far
	quoted  bool   // the line is within a quoted string
	escaped bool   // the byte before was the backslash of a quoted string
	caps    bool   // the line is among the capabilities
	literal int64  // bytes of a literal that are still to come
	counted bool   // the library keeps them in memory
	err     error  // ends the connection
}

// maxSaid is how many bytes a server may say to one command: a search can find half a million mails. Tests have less.
var maxSaid int64 = 8 << 20

const (
	maxGuarded  = 32      // bytes that are kept of the begin of a line, and of its end
	readsAtOnce = 4 << 10 // bytes
)

// errServer is the error of a server with which Corebot does not talk on.
var errServer = errors.New("the mail server says what no mail server says")

func (g *guard) Write(b []byte) (int, error) {
	g.said.Store(0)
	return g.Conn.Write(b)
}

// Read gives what the server says, up to the first byte that the library must not see.
func (g *guard) Read(b []byte) (int, error) {
	if g.err != nil {
		return 0, g.err
	}
	n, err := g.Conn.Read(b[:min(len(b), readsAtOnce)])
	for i := 0; i < n; {
		if in := min(g.literal, int64(n-i)); in > 0 {
			if g.literal -= in; g.counted {
				g.count(in)
			}
			i += int(in)
		} else {
			g.hear(b[i])
			i++
		}
		if g.err != nil {
			return 0, g.err
		}
	}
	return n, err
}

func (g *guard) count(n int64) {
	if g.said.Add(n) > maxSaid {
		g.err = fmt.Errorf("%w: more than %d bytes to one command", errServer, maxSaid)
	}
}

var (
	announces = lazy.Regexp(`(?i)^\* CAPABILITY$|\[CAPABILITY$`)
	literals  = lazy.Regexp(`(?i)^\* ([0-9]+ FETCH|LIST) `) // lines that can have literals
	begins    = lazy.Regexp(`\{([0-9]{1,18})\}\r?$`)
	ofMail    = lazy.Regexp(`[]>] \{[0-9]+\}\r?$`) // a literal behind BODY[…] or BODY[…]<…>
)

// hear looks at a byte of a line.
func (g *guard) hear(c byte) {
	g.count(1)
	if c == '\n' {
		g.ends()
		return
	}
	if g.line++; g.line <= maxGuarded {
		g.head = append(g.head, c)
	}
	if len(g.tail) == maxGuarded {
		g.tail = append(g.tail[:0], g.tail[1:]...)
	}
	g.tail = append(g.tail, c)
	switch {
	case g.escaped:
		g.escaped = false
	case c == '"':
		g.quoted = !g.quoted
	case c == '\\':
		g.escaped = g.quoted
	case c == ']':
		g.caps = false
	case c == '(' && g.caps:
		g.err = fmt.Errorf("%w: a parenthesis among its capabilities", errServer)
	case c == 'Y' || c == 'y':
		at := g.tail
		if g.line <= maxGuarded {
			at = g.head
		}
		g.caps = g.caps || announces().Match(at)
	}
}

// ends looks at a line at its end. A literal follows in the same line.
func (g *guard) ends() {
	has := literals().Match(g.head)
	if has && g.quoted {
		g.err = fmt.Errorf("%w: a quoted string of several lines", errServer)
		return
	}
	if size := begins().FindSubmatch(g.tail); has && size != nil {
		g.literal, _ = strconv.ParseInt(string(size[1]), 10, 64) // 18 digits fit
		g.counted = !ofMail().Match(g.tail)
		g.tail = g.tail[:0]
		return
	}
	g.line, g.head, g.tail, g.quoted, g.escaped, g.caps = 0, g.head[:0], g.tail[:0], false, false, false
}

// maxAnswers is how many bytes a server that sends may say on one connection. Its certificates count, too.
const maxAnswers = 1 << 20

// brief is a connection to a server that sends. The library keeps an answer in memory without a limit.
type brief struct {
	net.Conn
	said int
}

func (b *brief) Read(into []byte) (int, error) {
	if b.said > maxAnswers {
		return 0, fmt.Errorf("%w: more than %d bytes of answers", errServer, maxAnswers)
	}
	n, err := b.Conn.Read(into)
	b.said += n
	return n, err
}

// greeted is a connection whose server has greeted before TLS began. The library hears a greeting all the same.
type greeted struct {
	net.Conn
	in io.Reader
}

func newGreeted(conn net.Conn) greeted {
	return greeted{conn, io.MultiReader(strings.NewReader("* OK\r\n"), conn)}
}

func (g greeted) Read(b []byte) (int, error) { return g.in.Read(b) }

// startTLS begins TLS before the library reads a byte: on a connection that begins in the clear a guard would see
// nothing but ciphers. The words of the server before that are read once, within
// limits.
func (s server) startTLS(conn net.Conn) (net.Conn, error) {
	if err := conn.SetDeadline(time.Now().Add(dialTime)); err != nil {
		return nil, err
	}
	in := bufio.NewReaderSize(conn, readsAtOnce)
	said := func() (string, error) {
		text, err := in.ReadSlice('\n')
		return strings.ToUpper(strings.TrimSpace(string(text))), err
	}
	line, err := said()
	if err == nil && !strings.HasPrefix(line, "* OK") {
		return nil, fmt.Errorf("%w: %s greets with %.60q", unsafe, s.addr, line)
	}
	if err == nil {
		_, err = io.WriteString(conn, "S1 STARTTLS\r\n")
	}
	const most = 20 // lines that the server says before it answers
	for range most {
		if line, err = said(); err != nil || strings.HasPrefix(line, "S1 ") {
			break
		}
	}
	switch {
	case err != nil:
		return nil, s.untrusted(err, "imap")
	case !strings.HasPrefix(line, "S1 OK"):
		return nil, fmt.Errorf("%w: %s: it says %.60q", unsafe, s.addr, line)
	case in.Buffered() > 0: // somebody in between could have written it
		return nil, s.untrusted(errors.New("the server goes on in the clear"), "imap")
	}
	secure := tls.Client(conn, s.tls())
	if err := secure.Handshake(); err != nil {
		return nil, s.untrusted(err, "imap")
	}
	return secure, conn.SetDeadline(time.Time{})
}
