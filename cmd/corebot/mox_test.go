package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/smtp"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot/internal/long"
)

// mox is a real mail server in one program: https://github.com/mjl-/mox, if it is on the PATH. It checks senders by SPF
// and DKIM. People hand in their mails as another server would.
type mox struct {
	t          *testing.T
	dir        string
	imap, smtp string
	mx         string // takes the mails of people
	server     *exec.Cmd
	said       int
	last       time.Time
}

// moxPause is how far apart mails of people are: mox takes 300 connections in a minute from one place, and a mail with
// its answer is four.
const moxPause = 850 * time.Millisecond

func openMox(t *testing.T, chats int) networkPlatform {
	if _, err := exec.LookPath("mox"); err != nil || long.Or(true, false) {
		t.Skip("scripts/networks builds mox, and runs this")
	}
	m := &mox{t: t, dir: filepath.Join(t.TempDir(), "mox"), imap: freeAddr(t), smtp: freeAddr(t), mx: freeAddr(t)}
	m.run("localserve", "-initonly", "-dir", m.dir, "-ip", "127.0.0.1")
	m.edit("mox.conf", func(s string) string {
		ports := map[string]string{"1025": m.mx, "1143": m.imap, "1587": m.smtp}
		for _, other := range []string{"1080", "1081", "1443", "1465", "1993"} {
			ports[other] = freeAddr(t)
		}
		for was, is := range ports {
			_, port, _ := net.SplitHostPort(is)
			s = strings.ReplaceAll(s, "Port: "+was+"\n", "Port: "+port+"\n")
		}
		return strings.ReplaceAll(s, "traceauth", "error")
	})
	m.edit("domains.conf", func(s string) string {
		limits := "\t\tMaxOutgoingMessagesPerDay: 1000000\n\t\tMaxFirstTimeRecipientsPerDay: 1000000\n"
		people := "\tpeople:\n\t\tDomain: localhost\n\t\tNoFirstTimeSenderDelay: true\n\t\tDestinations:\n"
		for chat := range chats {
			people += fmt.Sprintf("\t\t\tperson%d@localhost: nil\n", chat)
		}
		before, behind, found := strings.Cut(s, "\n\t\tJunkFilter:")
		_, behind, ends := strings.Cut(behind, "\n\t\tNoFirstTimeSenderDelay: true\n")
		if !found || !ends {
			t.Fatalf("another domains.conf:\n%s", s)
		}
		return before + "\n\t\tNoFirstTimeSenderDelay: true\n" + limits + people + behind
	})
	m.start()
	t.Cleanup(m.stop)
	return m
}

// run runs a command of mox.
func (m *mox) run(args ...string) string {
	m.t.Helper()
	out, err := exec.CommandContext(m.t.Context(), "mox", args...).CombinedOutput() //nolint:gosec // a test
	if err != nil {
		m.t.Fatalf("mox %q: %v\n%s", args, err, out)
	}
	return string(out)
}

func (m *mox) edit(name string, change func(string) string) {
	m.t.Helper()
	path := filepath.Join(m.dir, name)
	text, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, []byte(change(string(text))), 0o600)
	}
	if err != nil {
		m.t.Fatal(err)
	}
}

// start runs the server. It delivers at once what waits in its queue: by itself it waits for minutes with a mail that
// was on its way when it died.
func (m *mox) start() {
	m.t.Helper()
	log, err := os.OpenFile(m.dir+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		m.t.Fatal(err)
	}
	m.server = groupOf("mox", "localserve", "-dir", m.dir)
	m.server.Stdout, m.server.Stderr = log, log
	if err := m.server.Start(); err != nil {
		m.t.Fatal(err)
	}
	_ = log.Close()
	for _, addr := range []string{m.imap, m.smtp, m.mx} {
		awaitListener(m.t, addr, m.dir+".log")
	}
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) { // it takes commands later than mails
		out, err := m.scheduled()
		if err == nil {
			return
		}
		if time.Since(began) > patience {
			m.t.Fatalf("the server takes no commands: %v\n%s", err, out)
		}
	}
}

func (m *mox) flush() {
	m.t.Helper()
	if out, err := m.scheduled(); err != nil {
		m.t.Fatalf("mox queue schedule: %v\n%s", err, out)
	}
}

// scheduled has all that waits in the queue be delivered now.
func (m *mox) scheduled() ([]byte, error) {
	return exec.CommandContext(m.t.Context(), "mox", "-config", filepath.Join(m.dir, "mox.conf"),
		"queue", "schedule", "-now", "0s").CombinedOutput()
}

// stop kills the server, as a crash does.
func (m *mox) stop() {
	_ = m.server.Process.Kill()
	_ = m.server.Wait()
}

func (m *mox) settings() string {
	return fmt.Sprintf("{address: mox@localhost, password: moxmoxmox, imap: %q, smtp: %q, authserv_id: localhost, "+
		"hourly: 1000000, access: open}", m.imap, m.smtp)
}

func (m *mox) say(chat int, text string) {
	m.t.Helper()
	time.Sleep(time.Until(m.last.Add(moxPause)))
	m.last = time.Now()
	m.said++
	from := fmt.Sprintf("person%d@localhost", chat)
	raw := fmt.Sprintf("From: <%s>\r\nTo: <mox@localhost>\r\nSubject: A question\r\nReferences: %s\r\n"+
		"Message-ID: <said-%d@people.test>\r\nDate: %s\r\n\r\n%s\r\n",
		from, mailRoot(chat), m.said, time.Now().Format(time.RFC1123Z), text)
	for began := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		err := m.hand(from, raw)
		if err == nil {
			return
		}
		if time.Since(began) > mailPatience {
			m.t.Fatalf("%s cannot send a mail: %v", from, err)
		}
	}
}

// hand gives a mail for the bot to the server.
func (m *mox) hand(from, raw string) error {
	c, err := smtp.Dial(m.mx)
	if err != nil {
		return err
	}
	defer c.Close() //nolint:errcheck // what counts is the answer to the mail
	if err := errors.Join(c.Mail(from), c.Rcpt("mox@localhost")); err != nil {
		return err
	}
	w, err := c.Data()
	if err == nil {
		_, err = io.WriteString(w, raw)
	}
	if err == nil {
		err = w.Close()
	}
	return err
}

// shown reads the mails of a person, in the order in which the server has delivered them. A server that dies between
// two steps of its own queue delivers one mail twice, the second time some mails later. Each mail that Corebot hands in
// has a time and a number of its own, so two files with the same bytes are one mail.
func (m *mox) shown(chat int) (texts []string) {
	m.t.Helper()
	for began := time.Now(); ; time.Sleep(5 * time.Second) {
		waits := m.run("-config", filepath.Join(m.dir, "mox.conf"), "queue", "list")
		if strings.Contains(waits, "(none)") {
			break
		}
		if m.flush(); time.Since(began) > mailPatience {
			m.t.Fatalf("the queue of the server does not empty:\n%s", waits)
		}
	}
	files := m.files(filepath.Join("accounts", "people", "msg"))
	number := func(file string) int { n, _ := strconv.Atoi(filepath.Base(file)); return n }
	slices.SortFunc(files, func(a, b string) int { return number(a) - number(b) })
	seen := map[[sha256.Size]byte]bool{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			m.t.Fatal(err)
		}
		if sum := sha256.Sum256(raw); seen[sum] {
			continue
		} else {
			seen[sum] = true
		}
		if strings.Contains(string(raw), fmt.Sprintf("\r\nTo: person%d@localhost\r\n", chat)) {
			texts = append(texts, plainOf(m.t, raw))
		}
	}
	return texts
}

// files are the mails below a directory: their names are numbers.
func (m *mox) files(dir string) (found []string) {
	_ = filepath.WalkDir(filepath.Join(m.dir, dir), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			if _, err := strconv.Atoi(d.Name()); err == nil {
				found = append(found, path)
			}
		}
		return nil
	})
	return found
}

func (m *mox) away(meanwhile func()) {
	meanwhile()
	time.Sleep(50 * time.Millisecond)
	m.stop()
	time.Sleep(300 * time.Millisecond)
	m.start()
}

func (m *mox) lost() (n int, once bool) { return 0, true }
func (m *mox) complaints() []string     { return nil }
