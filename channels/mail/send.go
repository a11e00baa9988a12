package mail

import (
	"context"
	"errors"
	"fmt"
	"net/smtp"
	"net/textproto"
	"strings"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
)

// unsent is how long a message waits that could not be sent for a reason that is not its own.
const unsent = 15 * time.Second

// Send gives one mail to the server.
func (c *Channel) Send(ctx context.Context, o channels.Outbound) (channels.Receipt, error) {
	to, err := recipient(o.Key.Chat)
	if err != nil {
		return channels.Receipt{}, &corebot.Failure{Class: corebot.Permanent, Err: err}
	}
	l := c.letter(o, to, c.subjectFor(ctx, o))
	if len(corebot.Attachments(o.Parts)) > 0 {
		select {
		case c.letters <- struct{}{}:
			defer func() { <-c.letters }()
		case <-ctx.Done():
			return channels.Receipt{}, &corebot.Failure{
				Class: corebot.Cancelled, RetryAfter: unsent, Err: errors.New("other mails with files are being sent"),
			}
		}
	}
	if err := c.enclose(ctx, o, &l); err != nil {
		return channels.Receipt{}, err
	}
	text, err := c.post(ctx, to, l)
	if f := (*corebot.Failure)(nil); len(l.files) > 0 && errors.As(err, &f) && f.Class == corebot.Permanent {
		c.site.Log.Warn().Err(err).Msg("the server refuses a mail with files, which is sent without them")
		text, err = c.post(ctx, to, l.without(f.Err)) // under the same Message-ID
	}
	c.noteAbsent(l.id, err != nil && !errors.Is(err, channels.ErrMayBeShown))
	if err != nil {
		return channels.Receipt{}, err
	}
	if c.settings.SentCopy == copyAppend {
		if err := c.file(ctx, text); err != nil {
			c.site.Log.Warn().Err(err).Msg("a mail was sent, and could not be filed in the folder of sent mails")
		}
	}
	return channels.Receipt{IDs: []string{l.id}}, nil
}

// ShowsFiles implements [channels.Files].
func (c *Channel) ShowsFiles() {}

// post gives a letter to the server, and gives the mail that it was.
func (c *Channel) post(ctx context.Context, to address, l letter) ([]byte, error) {
	text, err := l.write(c.own)
	if err != nil {
		return nil, fmt.Errorf("write the mail: %w", err)
	}
	return text, c.deliver(ctx, to, text)
}

// noteAbsent remembers whether a mail that was tried was surely not taken. Earlier tries were not either: Send is only
// called for a mail that was never tried, or that [Channel.Delivered] has not found.
func (c *Channel) noteAbsent(id string, sure bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.absent) >= 10_000 {
		clear(c.absent)
	}
	if delete(c.absent, id); sure {
		c.absent[id] = struct{}{}
	}
}

func (c *Channel) isAbsent(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, is := c.absent[id]
	return is
}

// recipient is the address of a chat.
func recipient(chat string) (address, error) {
	to, ok := parseAddress(strings.TrimPrefix(chat, strangers))
	if !ok {
		return to, corebot.WithHint(fmt.Errorf("%w: chat %q is no mail address", corebot.ErrInvalid, chat),
			"`corebot chats list` shows the chats that have written")
	}
	return to, nil
}

// submit logs in to the server that sends. The connection ends with ctx.
func (c *Channel) submit(ctx context.Context) (*smtp.Client, error) {
	conn, err := c.smtp.dial(ctx)
	if err != nil {
		return nil, outOfReach(corebot.WithHint(err,
			channels.TLSHint(err, "look at the network, and at channels.mail.ACCOUNT.smtp")))
	}
	context.AfterFunc(ctx, func() { _ = conn.Close() })
	out, err := smtp.NewClient(&brief{Conn: conn}, c.smtp.host)
	if err != nil {
		_ = conn.Close()
		return nil, outOfReach(fmt.Errorf("greet %s: %w", c.smtp.addr, err))
	}
	if err := c.logIn(out); err != nil {
		_ = out.Close()
		return nil, outOfReach(err)
	}
	return out, nil
}

// logIn begins TLS and logs in. Without TLS a password goes to this machine only.
func (c *Channel) logIn(out *smtp.Client) error {
	if err := out.Hello(c.own.domain); err != nil {
		return fmt.Errorf("greet %s: %w", c.smtp.addr, err)
	}
	if !c.smtp.implicit && !c.smtp.loopback {
		if offered, _ := out.Extension("STARTTLS"); !offered {
			return fmt.Errorf("%w: %s", unsafe, c.smtp.addr)
		}
		if err := out.StartTLS(c.smtp.tls()); err != nil {
			return c.smtp.untrusted(err, "smtp")
		}
	}
	err := out.Auth(login{c.settings.User, c.settings.Password})
	if no := (*textproto.Error)(nil); errors.As(err, &no) {
		return fmt.Errorf("%w; it says: %.300s", refused, clean(no.Msg))
	}
	if err != nil {
		return fmt.Errorf("log in to %s: %w", c.smtp.addr, err)
	}
	return nil
}

// login is AUTH PLAIN. Whether the connection is safe was decided before.
type login struct{ user, password string }

func (l login) Start(*smtp.ServerInfo) (string, []byte, error) {
	return "PLAIN", []byte("\x00" + l.user + "\x00" + l.password), nil
}

func (l login) Next(_ []byte, more bool) ([]byte, error) {
	if more {
		return nil, errors.New("the server asks for more than a password")
	}
	return nil, nil
}

// outOfReach is a failure before anything was sent: the message waits and uses up no attempt.
func outOfReach(err error) error {
	return &corebot.Failure{Class: corebot.Cancelled, RetryAfter: unsent, Err: err}
}

// deliver sends a text to one recipient. A copy for the account itself is a second recipient of the same send, so that
// the server takes both or none.
func (c *Channel) deliver(ctx context.Context, to address, text []byte) error {
	out, err := c.submit(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }()
	if err := out.Mail(c.own.String()); err != nil {
		return said("MAIL FROM", err)
	}
	if err := out.Rcpt(to.String()); err != nil {
		return said("RCPT TO", err)
	}
	if c.settings.SentCopy == copySelf && to != c.own {
		if err := out.Rcpt(c.own.String()); err != nil {
			return outOfReach(corebot.WithHint(fmt.Errorf("the server takes no copy for the account itself: %w", err),
				"set channels.mail.ACCOUNT.sent_copy to append"))
		}
	}
	body, err := out.Data()
	if err != nil {
		return said("DATA", err)
	}
	if _, err := body.Write(text); err != nil { // without its last line the server takes nothing
		return outOfReach(fmt.Errorf("send the mail: %w", err))
	}
	if err := body.Close(); err != nil {
		return said("the mail", err)
	}
	_ = out.Quit() // the mail is taken, whatever becomes of the connection
	return nil
}

// said is what an answer of the server means for a message. No answer behind the last line of a mail leaves its end
// unknown; before it, nothing was sent.
func said(to string, err error) error {
	no := (*textproto.Error)(nil)
	if !errors.As(err, &no) {
		if to != "the mail" {
			return outOfReach(fmt.Errorf("the mail server did not answer %s: %w", to, err))
		}
		err = fmt.Errorf("the mail server did not answer; %w: %w", channels.ErrMayBeShown, err)
		return &corebot.Failure{Err: err}
	}
	err = fmt.Errorf("the mail server refused %s: %.500s (%d)", to, clean(no.Msg), no.Code)
	switch {
	case no.Code == 552 || no.Code == 523:
		return &corebot.Failure{Class: corebot.Permanent, Err: fmt.Errorf("%w: %w", corebot.ErrTooLarge, err)}
	case no.Code >= 500:
		return &corebot.Failure{Class: corebot.Permanent, Err: err}
	}
	return &corebot.Failure{Class: corebot.RateLimited, Err: err} // patience without a gate: it is of one recipient
}
