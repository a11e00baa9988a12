package irc

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/corebot/corebot/channels"
)

// session is one registered connection.
type session struct {
	of     *Channel
	conn   net.Conn
	in     *bufio.Reader
	unbind func() bool
	id     string // of the connection: messages without an id of the server are named by it and their number
	caps   map[string]bool

	turn    chan struct{}    // has something while somebody asks
	checked map[string]found // who was behind a private chat; of who asks
	dead    chan struct{}    // closed when nothing more is read

	writing sync.Mutex
	mu      sync.Mutex
	nick    string
	account string // Corebot's own
	host    string // user@host as others see it; empty: not known
	userLen int
	hostLen int
	joined  map[string]bool
	removed map[string]bool // channels that somebody has removed Corebot from
	batches map[string]bool // batches of what is played again
	number  int
	asking  *asked
}

// asked is a question on its way, and what the server has said to it.
type asked struct {
	token string
	said  []line
	echo  string // the id of Corebot's own line
	done  chan struct{}
}

const (
	writeTime  = 20 * time.Second
	maxAnswers = 100 // lines that are kept of an answer
)

func (s *session) close() {
	s.unbind()
	_ = s.conn.Close() // it was used up
}

// write sends whole lines.
func (s *session) write(ctx context.Context, lines ...string) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	by := time.Now().Add(writeTime)
	if end, bounded := ctx.Deadline(); bounded && end.Before(by) {
		by = end
	}
	if err := s.conn.SetWriteDeadline(by); err != nil {
		return err
	}
	for _, l := range lines {
		if len(l) > maxLine-2 || strings.ContainsAny(l, "\r\n\x00") { // never: the texts were made to fit
			return fmt.Errorf("%w: a line of %d bytes is not sent", errLine, len(l))
		}
	}
	if _, err := s.conn.Write([]byte(strings.Join(lines, "\r\n") + "\r\n")); err != nil {
		return fmt.Errorf("write to the server: %w", err)
	}
	return nil
}

// learn reads what the server says of itself and of Corebot's own address.
func (s *session) learn(l line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.command == "396" {
		s.host = "" // it is another now
		return
	}
	for _, word := range l.params {
		name, value, _ := strings.Cut(word, "=")
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 || n > 200 {
			continue
		}
		switch name {
		case "USERLEN":
			s.userLen = n
		case "HOSTLEN":
			s.hostLen = n
		}
	}
}

// lengths of the two parts of an address where the server does not say.
const (
	usualUser = 12
	usualHost = 64
)

// overhead is how much of a line to a target is not its text: the end, the command, and what the server puts before it.
func (s *session) overhead(target string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	address := len(s.host)
	if address == 0 {
		address = max(s.userLen, usualUser) + len("@") + max(s.hostLen, usualHost)
	}
	return len(":!") + len(s.nick) + address + len(" PRIVMSG ") + len(target) + len(" :") + len("\r\n")
}

func (s *session) own(nick string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fold(nick) == fold(s.nick)
}

func (s *session) isIn(channel string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.joined[channel]
}

// read hears the server until the connection ends.
func (s *session) read(ctx context.Context, door channels.Door, heard chan<- channels.Incoming) error {
	defer close(s.dead)
	for {
		l, err := next(s.in)
		if err != nil {
			return fmt.Errorf("read from the server: %w", err)
		}
		door.Alive()
		if err := s.hear(ctx, door, heard, l); err != nil {
			return err
		}
	}
}

var errNoRoom = errors.New("nobody has room for what is said; Corebot leaves until there is room")

// hear handles one line.
func (s *session) hear(ctx context.Context, door channels.Door, heard chan<- channels.Incoming, l line) error {
	switch l.command {
	case "PING":
		return s.write(ctx, "PONG :"+l.last())
	case "ERROR", "465":
		return ended(l)
	case "BATCH":
		s.batch(l)
	case "NICK", "JOIN", "PART", "KICK":
		s.moved(l)
	case "INVITE":
		if s.own(l.param(0)) {
			s.invited(ctx, door, l)
		}
	case "PRIVMSG", "NOTICE":
		if s.own(l.source.nick) {
			s.echoed(l)
			return nil
		}
		in, means := s.of.reads(s, l)
		if !means {
			return nil
		}
		select {
		case heard <- in:
		default:
			s.of.keep(in)
			return errNoRoom
		}
	default:
		s.answered(l)
	}
	return nil
}

// batch notes which batches are of what the server plays again.
func (s *session) batch(l line) {
	ref, begins := strings.CutPrefix(l.param(0), "+")
	s.mu.Lock()
	defer s.mu.Unlock()
	if !begins {
		delete(s.batches, strings.TrimPrefix(ref, "-"))
		return
	}
	kind := fold(l.param(1))
	again := strings.Contains(kind, "chathistory") || strings.Contains(kind, "playback") || s.batches[l.tags["batch"]]
	if again && len(s.batches) < maxNames {
		s.batches[ref] = true
	}
}

func (s *session) again(l line) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.batches[l.tags["batch"]]
}

// moved notes where Corebot is and what it is called.
func (s *session) moved(l line) {
	who, channel := l.source.nick, fold(l.param(0))
	if l.command == "KICK" {
		who = l.param(1)
	}
	if !s.own(who) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch l.command {
	case "NICK":
		s.nick = l.param(0)
	case "JOIN":
		s.joined[channel] = true
		s.host = l.source.user + "@" + l.source.host
	default:
		delete(s.joined, channel)
		s.removed[channel] = true
		s.of.site.Log.Warn().Str("channel_of_irc", channel).Str("by", l.source.nick).Str("says", l.last()).
			Msg("Corebot is no longer in a channel")
	}
}

// echoed notes that the server has shown a line of Corebot.
func (s *session) echoed(l line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.source.host != "" {
		s.host = l.source.user + "@" + l.source.host
	}
	if s.asking != nil {
		s.asking.echo = l.tags["msgid"]
	}
}

// answered keeps what the server says to a question.
func (s *session) answered(l line) {
	if l.command == "396" || l.command == "005" {
		s.learn(l)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.asking
	if a == nil {
		return
	}
	if l.command == "PONG" && l.last() == a.token {
		s.asking = nil
		close(a.done)
		return
	}
	if l.command >= "200" && len(a.said) < maxAnswers {
		a.said = append(a.said, l)
	}
}

// errUnknown says that the connection ended before the server had answered.
var errUnknown = fmt.Errorf("the server did not answer; %w", channels.ErrMayBeShown)

// ask sends a line and a PING behind it. Servers answer in order: what comes before the PONG is the answer. The caller
// has the turn.
func (s *session) ask(ctx context.Context, command string) (*asked, error) {
	s.mu.Lock()
	s.number++
	a := &asked{token: fmt.Sprintf("%s-%d", s.id, s.number), done: make(chan struct{})}
	s.asking = a
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.asking = nil
		s.mu.Unlock()
	}()
	if err := s.write(ctx, command, "PING :"+a.token); err != nil {
		return nil, fmt.Errorf("%w: %w", errUnknown, err)
	}
	select {
	case <-a.done:
		return a, nil
	case <-s.dead:
		return nil, errUnknown
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", errUnknown, context.Cause(ctx))
	}
}

// take waits for the turn to ask.
func (s *session) take(ctx context.Context) bool {
	select {
	case s.turn <- struct{}{}:
		return true
	case <-ctx.Done():
	case <-s.dead:
	}
	return false
}

func (s *session) leave() { <-s.turn }
