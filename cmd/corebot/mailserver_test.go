package main

import (
	"fmt"
	"net"
	"net/smtp"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/corebot/corebot/internal/long"
	"github.com/corebot/corebot/storage/seedtest"
)

// postOffice is a real mail server: Debian's exim takes mails, and Dovecot shows them. Both run as root begins them, as
// they do on a mail host. Everybody has a Maildir, which the test reads.
type postOffice struct {
	t          *testing.T
	dir        string
	imap, smtp string
	servers    []*exec.Cmd
	letterbox  letterbox
}

const eximSettings = `primary_hostname = mx.test
domainlist local_domains = people.test : corebot.test
spool_directory = DIR/spool
log_file_path = DIR/log/%slog
pid_file_path = DIR/exim.pid
keep_environment =
tls_advertise_hosts =
smtp_accept_max = 200
smtp_accept_queue_per_connection = 0
auth_advertise_hosts = *
acl_smtp_rcpt = rcpt
acl_smtp_data = data
begin acl
rcpt:
  accept authenticated = *
  deny message = log in first
data:
  accept add_header = :at_start:${authresults {$primary_hostname}}
begin routers
people:
  driver = accept
  domains = +local_domains
  local_parts = lsearch;DIR/people
  transport = maildir
begin transports
maildir:
  driver = appendfile
  maildir_format
  directory = DIR/mail/$local_part_data
  create_directory
  directory_mode = 0700
  user = Debian-exim
  group = Debian-exim
begin retry
* * F,1h,1s
begin authenticators
plain:
  driver = plaintext
  public_name = PLAIN
  server_condition = ${if eq{$auth3}{secret}}
  server_set_id = $auth2
`

const dovecotSettings = `protocols = imap
listen = 127.0.0.1
base_dir = DIR/run
log_path = DIR/log/dovecot
ssl = no
disable_plaintext_auth = no
mail_location = maildir:DIR/mail/%n
mail_max_userip_connections = 100
first_valid_uid = 1
service imap-login {
  inet_listener imap {
    port = PORT
  }
  inet_listener imaps {
    port = 0
  }
}
passdb {
  driver = static
  args = password=secret
}
userdb {
  driver = static
  args = uid=Debian-exim gid=Debian-exim home=DIR/mail/%n
}
namespace inbox {
  inbox = yes
  mailbox Sent {
    special_use = \Sent
    auto = create
  }
}
`

func openPostOffice(t *testing.T, chats int) networkPlatform {
	for _, program := range []string{"exim4", "dovecot"} {
		if _, err := exec.LookPath(program); err != nil || os.Getuid() != 0 || long.Or(true, false) {
			t.Skip("scripts/networks installs " + program + ", and runs this as root")
		}
	}
	dir, err := os.MkdirTemp(seedtest.Disk(), "post") // its users are not root
	p := &postOffice{t: t, dir: dir, imap: freeAddr(t), smtp: freeAddr(t)}
	p.letterbox = letterbox{t: t, addr: p.smtp}
	p.must(err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	p.must(os.Chmod(dir, 0o755)) //nolint:gosec // the servers give up root
	people := "corebot: corebot\n"
	for chat := range chats {
		people += fmt.Sprintf("person%d: person%d\n", chat, chat)
	}
	_, port, _ := net.SplitHostPort(p.imap)
	fill := strings.NewReplacer("DIR", dir, "PORT", port)
	for name, text := range map[string]string{
		"people": people, "exim.conf": fill.Replace(eximSettings), "dovecot.conf": fill.Replace(dovecotSettings),
	} {
		p.must(os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644)) //nolint:gosec // the servers give up root
	}
	for _, name := range []string{"mail", "spool", "log"} {
		p.must(os.Mkdir(filepath.Join(dir, name), 0o700))
		p.must(exec.CommandContext(t.Context(), "chown", "Debian-exim", filepath.Join(dir, name)).Run())
	}
	t.Cleanup(p.stop)
	p.start()
	return p
}

func (p *postOffice) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// start runs both servers until they listen. Mails that wait in the spool are delivered at once.
func (p *postOffice) start() {
	p.t.Helper()
	_, port, _ := net.SplitHostPort(p.smtp)
	p.servers = []*exec.Cmd{
		groupOf("exim4", "-C", filepath.Join(p.dir, "exim.conf"), "-bdf", "-q1s", "-oX", "127.0.0.1."+port),
		groupOf("dovecot", "-F", "-c", filepath.Join(p.dir, "dovecot.conf")),
	}
	for _, s := range p.servers {
		log, err := os.OpenFile(filepath.Join(p.dir, "output"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		p.must(err)
		s.Stdout, s.Stderr = log, log
		p.must(s.Start())
		p.must(log.Close())
	}
	for _, addr := range []string{p.imap, p.smtp} {
		awaitListener(p.t, addr, filepath.Join(p.dir, "output"))
	}
}

// groupOf is a server whose helpers can be killed with it.
func groupOf(name string, args ...string) *exec.Cmd {
	c := exec.Command(name, args...) //nolint:noctx,gosec // stop; a server of the test
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return c
}

// stop kills the servers and all their helpers, as a crash of the machine does.
func (p *postOffice) stop() {
	for _, s := range p.servers {
		_ = syscall.Kill(-s.Process.Pid, syscall.SIGKILL)
		_ = s.Wait()
	}
}

func (p *postOffice) settings() string {
	return fmt.Sprintf("{address: corebot@corebot.test, password: secret, imap: %q, smtp: %q, authserv_id: mx.test, "+
		"hourly: 1000000, access: open}", p.imap, p.smtp)
}

func (p *postOffice) say(chat int, text string) {
	p.letterbox.post(mailPerson(chat), "corebot@corebot.test", mailRoot(chat), text)
}

// shown reads a person's Maildir. Mails are in the order in which the server has taken them: the name of a mail in its
// spool begins with the time.
func (p *postOffice) shown(chat int) (texts []string) {
	name, _, _ := strings.Cut(mailPerson(chat), "@")
	files, err := filepath.Glob(filepath.Join(p.dir, "mail", name, "new", "*"))
	p.must(err)
	taken := map[string]string{}
	var times []string
	for _, file := range files {
		raw, err := os.ReadFile(file)
		p.must(err)
		_, id, _ := strings.Cut(string(raw), "\n\tid ")
		if len(id) < 16 {
			p.t.Fatalf("%s has no name of the spool:\n%s", file, raw)
		}
		at := id[:6] + id[14:16] // seconds, then parts of one
		times = append(times, at)
		taken[at] = plainOf(p.t, raw)
	}
	if len(taken) != len(files) {
		p.t.Errorf("chat %d has %d mails of one moment", chat, len(files)-len(taken)+1)
	}
	slices.Sort(times)
	for _, at := range times {
		texts = append(texts, taken[at])
	}
	return texts
}

func (p *postOffice) away(meanwhile func()) {
	meanwhile()
	time.Sleep(50 * time.Millisecond)
	p.stop()
	time.Sleep(300 * time.Millisecond)
	p.start()
}

func (p *postOffice) lost() (n int, once bool) { return 0, true }
func (p *postOffice) complaints() []string     { return nil }

// awaitListener waits until a server takes connections.
func awaitListener(t *testing.T, addr, log string) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if conn, err := net.Dial("tcp", addr); err == nil { //nolint:noctx // loopback
			_ = conn.Close()
			return
		}
		if time.Since(began) > mailPatience {
			text, _ := os.ReadFile(log)
			t.Fatalf("nothing listens at %s:\n%s", addr, text)
		}
	}
}

// letterbox is how people send mails: each logs in with his address and the password "secret".
type letterbox struct {
	t    *testing.T
	addr string
	sent int
}

// post sends a mail. A person tries again until the server has taken it; the Message-ID stays the same.
func (l *letterbox) post(from, to, root, text string) {
	l.t.Helper()
	l.sent++
	raw := fmt.Sprintf("From: <%s>\r\nTo: <%s>\r\nSubject: A question\r\nMessage-ID: <said-%d@people.test>\r\n"+
		"References: %s\r\nDate: %s\r\n\r\n%s\r\n", from, to, l.sent, root, time.Now().Format(time.RFC1123Z), text)
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		err := smtp.SendMail(l.addr, smtp.PlainAuth("", from, "secret", "127.0.0.1"), from, []string{to}, []byte(raw))
		if err == nil {
			return
		}
		if time.Since(began) > mailPatience {
			l.t.Fatalf("%s cannot send a mail: %v", from, err)
		}
	}
}
