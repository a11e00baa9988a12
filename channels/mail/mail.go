package mail

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/lazy"
)

// Settings are what an account needs, under channels.mail.ACCOUNT.
type Settings struct {
	Address    string        `mapstructure:"address" doc:"the address of Corebot"`
	User       string        `mapstructure:"user" doc:"the name to log in with; empty: the address"`
	Password   string        `mapstructure:"password" secret:"yes" doc:"the password, or an app password"`
	IMAP       string        `mapstructure:"imap" doc:"the server that keeps the mailbox, HOST:PORT"`
	SMTP       string        `mapstructure:"smtp" doc:"the server that takes mails to send, HOST:PORT"`
	AuthServID string        `mapstructure:"authserv_id" doc:"the name of the server in Authentication-Results"`
	Unverified string        `mapstructure:"unverified" oneof:"refuse,stranger" doc:"unverified mail"`
	Folder     string        `mapstructure:"folder" doc:"the folder to read"`
	Sent       string        `mapstructure:"sent" doc:"the folder of sent mails; empty: that of the server"`
	SentCopy   string        `mapstructure:"sent_copy" oneof:"self,server,append" doc:"who files what is sent"`
	Hourly     int           `mapstructure:"hourly" min:"1" doc:"how many mails of one person are answered in an hour"`
	Poll       time.Duration `mapstructure:"poll" min:"1s" doc:"how often to look for mail; at most 15m"`
}

// Values of [Settings.SentCopy] and [Settings.Unverified].
const (
	copySelf   = "self"   // a second recipient of the same send: the account itself
	copyServer = "server" // the server files what it sends
	copyAppend = "append" // Corebot files it after the send

	unverifiedRefuse   = "refuse"
	unverifiedStranger = "stranger"
)

const maxPoll = 15 * time.Minute

func standard() Settings {
	return Settings{
		Unverified: unverifiedRefuse, Folder: "INBOX", SentCopy: copySelf, Hourly: 60, Poll: time.Minute,
	}
}

// authservIDs are names that a server can have in Authentication-Results.
var authservIDs = lazy.Regexp(`^[A-Za-z0-9._-]{1,255}$`)

// Validate refuses settings that cannot work.
func (s Settings) Validate() error {
	if _, ok := parseAddress(s.Address); !ok {
		return corebot.WithHint(fmt.Errorf("address %q is no address of a mailbox", s.Address),
			"write one such as corebot@example.org, without a name and without angle brackets")
	}
	if s.Password == "" {
		return corebot.WithHint(errors.New("password is empty"),
			"keep the password in a file of its own, and set password to file:mail.password")
	}
	for _, server := range []struct{ key, value, example string }{
		{"imap", s.IMAP, "imap.example.org:993"}, {"smtp", s.SMTP, "smtp.example.org:465"},
	} {
		if _, err := parseServer(server.value); err != nil {
			return corebot.WithHint(fmt.Errorf("%s %q is no address of a server", server.key, server.value),
				"write one such as "+server.example)
		}
	}
	switch {
	case s.AuthServID == "" && s.Unverified != unverifiedStranger:
		return corebot.WithHint(errors.New("authserv_id is empty, so no sender could be verified"), authservHint)
	case s.AuthServID != "" && !authservIDs().MatchString(s.AuthServID):
		return corebot.WithHint(fmt.Errorf("authserv_id %q is no name of a server", s.AuthServID), authservHint)
	case s.Folder == "" || strings.ContainsAny(s.Folder+s.Sent, "\r\n\x00*%"):
		return fmt.Errorf("folder %q and sent %q must be names of folders", s.Folder, s.Sent)
	case s.Poll > maxPoll:
		return corebot.WithHint(fmt.Errorf("poll is %v", s.Poll), "15m is the most: servers end silent connections")
	}
	return nil
}

const authservHint = "open the source of a mail in the mailbox: the first word behind Authentication-Results is " +
	"the name"

// Network describes mail for the list of networks in package internal/app.
func Network() channels.Network {
	return channels.NewNetwork(channels.Kind{
		Name: "mail", People: true, Redelivers: rereads, About: "a mailbox, by IMAP and SMTP",
		Questions: []channels.Question{
			{Key: "address", Text: "Mail address of Corebot"},
			{Key: "imap", Text: "Server of the mailbox, by IMAP", Hint: "HOST:PORT, such as imap.example.org:993."},
			{Key: "smtp", Text: "Server that sends, by SMTP", Hint: "HOST:PORT, such as smtp.example.org:465."},
			{
				Key: "authserv_id", Text: "Name of the receiving server in Authentication-Results",
				Hint: "Open the source of a mail in the mailbox: it is the first word behind Authentication-Results.",
			},
			{Key: "password", Text: "Password of the mailbox", Hint: "Many providers want an app password here."},
		},
	}, standard(), New)
}

// Channel is one mailbox.
type Channel struct {
	settings Settings
	site     channels.Site
	own      address
	names    names
	imap     server
	smtp     server
	desk     desk
	hourly   channels.Hourly
	skipped  skipped
	// letters has a place for each letter with files that is in memory: see [Channel.enclose].
	letters chan struct{}

	mu       sync.Mutex
	subjects map[string]string   // of mails of late, by their id
	absent   map[string]struct{} // ids of mails that were tried, and that the server has surely not taken
	come     map[string]struct{} // ids of own mails whose copy was received of late
	looked   map[string]time.Time
	late     lateness // of the latest copy of late
	stuck    stuck
}

var (
	_ channels.Periodic   = (*Channel)(nil)
	_ channels.Checker    = (*Channel)(nil)
	_ channels.Reconciler = (*Channel)(nil)
)

// New makes the channel of an account. It connects to nothing.
func New(s Settings, site channels.Site) (channels.Channel, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	if s.User == "" {
		s.User = s.Address
	}
	c := &Channel{
		settings: s, site: site, subjects: map[string]string{}, absent: map[string]struct{}{},
		come: map[string]struct{}{}, looked: map[string]time.Time{},
	}
	c.own, _ = parseAddress(s.Address)
	c.names = newNames(c.own, s.Password)
	c.imap, _ = parseServer(s.IMAP)
	c.smtp, _ = parseServer(s.SMTP)
	c.hourly.Most = s.Hourly
	c.desk.turn, c.letters = make(chan struct{}, 1), make(chan struct{}, lettersAtOnce)
	return c, nil
}

// slack is how long the server has for an answer.
const slack = 30 * time.Second

// Period implements [channels.Periodic].
func (c *Channel) Period() time.Duration { return c.settings.Poll + slack }

// Check implements [channels.Checker].
func (c *Channel) Check(ctx context.Context) (string, error) {
	m, err := c.login(ctx)
	if err != nil {
		return "", err
	}
	defer m.close()
	box, err := m.Select(c.settings.Folder, readOnly).Wait()
	if err != nil {
		return "", fmt.Errorf("open the folder %q: %w", c.settings.Folder, err)
	}
	out, err := c.submit(ctx)
	if err != nil {
		return "", err
	}
	_ = out.Quit()
	says := fmt.Sprintf("%s, with %d mails in %s", c.settings.Address, box.NumMessages, c.settings.Folder)
	return says + c.checkNames(m, box.NumMessages), nil
}

// checkNames says whether the newest mail was checked under the name of the settings. Without it, nobody is verified.
func (c *Channel) checkNames(m *mailbox, last uint32) string {
	if last == 0 || c.settings.AuthServID == "" {
		return ""
	}
	text, err := m.headOf(last)
	if err != nil {
		return ""
	}
	switch found, ok := topmost(text); {
	case !ok:
		return "; the newest mail has no Authentication-Results"
	case !strings.EqualFold(found.id, c.settings.AuthServID):
		return fmt.Sprintf("; the newest mail was checked by %q and not by authserv_id", found.id)
	}
	return "; the newest mail was checked by authserv_id"
}

// remember keeps the subject of a mail for its answer.
func (c *Channel) remember(id, subject string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.subjects) >= 1000 {
		clear(c.subjects)
	}
	c.subjects[id] = subject
}

func (c *Channel) subject(id string) (string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, known := c.subjects[id]
	return s, known
}

// noteCome remembers that the copy of an own mail was received: so the server has taken the mail.
func (c *Channel) noteCome(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.come) >= 10_000 {
		clear(c.come)
	}
	c.come[id] = struct{}{}
}

func (c *Channel) hasCome(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, has := c.come[id]
	return has
}
