package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corebot/corebot/internal/long"
)

// ircd is a real server of IRC, if its program is on the PATH, with people on connections of their own. It has no
// services: everybody is a stranger there.
type ircd struct {
	t       *testing.T
	command []string
	dir     string
	addr    string
	process *exec.Cmd
	people  []*ircUser
}

const ngircdSettings = `[Global]
Name = irc.test
Info = a test
Listen = 127.0.0.1
Ports = PORT
[Limits]
MaxConnectionsIP = 0
MaxPenaltyTime = 0
[Options]
Ident = no
PAM = no
DNS = no
`

const inspircdSettings = `<server name="irc.test" description="a test" network="test">
<admin name="test" nick="test" email="test@irc.test">
<bind address="127.0.0.1" port="PORT" type="clients">
<connect name="all" allow="*" timeout="60" pingfreq="120" softsendq="131072" recvq="65536" hardsendq="1048576"
 threshold="1000000" commandrate="100000000" fakelag="no" localmax="1000" globalmax="1000" resolvehostnames="no"
 useident="no">
<pid file="DIR/pid">
<log method="file" target="DIR/log" level="default" type="* -USERINPUT -USEROUTPUT">
<module name="cap"><module name="ircv3"><module name="ircv3_accounttag"><module name="ircv3_echomessage">
<module name="ircv3_servertime"><module name="ircv3_msgid"><module name="ircv3_batch"><module name="botmode">
<module name="services_account">
`

func openNgircd(t *testing.T, chats int) networkPlatform {
	return openIrcd(t, chats, ngircdSettings, "ngircd", "-n", "-f", "FILE")
}

func openInspircd(t *testing.T, chats int) networkPlatform {
	return openIrcd(t, chats, inspircdSettings, "inspircd", "--runasroot", "--nofork", "--config=FILE")
}

func openIrcd(t *testing.T, chats int, settings string, command ...string) networkPlatform {
	path, err := exec.LookPath(command[0])
	if err != nil || long.Or(true, false) {
		t.Skip("scripts/networks installs " + command[0] + ", and runs this")
	}
	d := &ircd{t: t, dir: t.TempDir(), addr: freeAddr(t)}
	_, port, _ := net.SplitHostPort(d.addr)
	file := filepath.Join(d.dir, "conf")
	settings = strings.NewReplacer("PORT", port, "DIR", d.dir).Replace(settings)
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, word := range command[1:] {
		d.command = append(d.command, strings.ReplaceAll(word, "FILE", file))
	}
	d.command = append([]string{path}, d.command...)
	d.start()
	t.Cleanup(d.stop)
	for chat := range chats {
		u := &ircUser{d: d, nick: fmt.Sprint("person", chat)}
		u.connect()
		d.people = append(d.people, u)
	}
	return d
}

// start runs the server until it listens.
func (d *ircd) start() {
	d.t.Helper()
	log, err := os.OpenFile(filepath.Join(d.dir, "output"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		d.t.Fatal(err)
	}
	defer log.Close()                                        //nolint:errcheck // the process has it
	d.process = exec.Command(d.command[0], d.command[1:]...) //nolint:noctx,gosec // stop; a server of the test
	d.process.Dir, d.process.Stdout, d.process.Stderr = d.dir, log, log
	if err := d.process.Start(); err != nil {
		d.t.Fatal(err)
	}
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if conn, err := net.Dial("tcp", d.addr); err == nil { //nolint:noctx // loopback
			_ = conn.Close()
			return
		}
		if time.Since(began) > siegePatience {
			text, _ := os.ReadFile(filepath.Join(d.dir, "output"))
			d.t.Fatalf("the server does not listen:\n%s", text)
		}
	}
}

// stop kills the server, as a crash does.
func (d *ircd) stop() {
	_ = d.process.Process.Kill()
	_ = d.process.Wait()
}

func (d *ircd) settings() string          { return ircSettings(d.addr) }
func (d *ircd) say(chat int, text string) { d.people[chat].say(text) }
func (d *ircd) chatLike(chat int) string  { return fmt.Sprintf("person%d!%%", chat) }
func (d *ircd) lost() (n int, once bool)  { return 0, false }
func (d *ircd) complaints() []string      { return nil }

func (d *ircd) shown(chat int) []string {
	u := d.people[chat]
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.shown)
}

func (d *ircd) away(meanwhile func()) {
	d.stop()
	meanwhile()
	time.Sleep(300 * time.Millisecond)
	d.start()
	for _, u := range d.people {
		u.connect()
	}
}

// ircUser is a person with a program for IRC, who reads what the bot says, and sees whether it is there.
type ircUser struct {
	d      *ircd
	nick   string
	conn   net.Conn
	mu     sync.Mutex
	shown  []string
	absent bool
	answer chan struct{}
}

func (u *ircUser) connect() {
	u.d.t.Helper()
	if u.conn != nil {
		_ = u.conn.Close()
	}
	conn, err := net.Dial("tcp", u.d.addr) //nolint:noctx // loopback
	if err != nil {
		u.d.t.Fatal(err)
	}
	u.d.t.Cleanup(func() { _ = conn.Close() })
	u.conn, u.answer = conn, make(chan struct{}, 1000)
	greeted := make(chan struct{})
	go u.read(conn, u.answer, greeted)
	u.send("NICK " + u.nick + "\r\nUSER " + u.nick + " 0 * :a person")
	select {
	case <-greeted:
	case <-time.After(siegePatience):
		u.d.t.Fatal("the server does not greet a person")
	}
}

func (u *ircUser) send(line string) {
	if _, err := u.conn.Write([]byte(line + "\r\n")); err != nil {
		u.d.t.Error(err)
	}
}

func (u *ircUser) read(conn net.Conn, answer, greeted chan struct{}) {
	in := bufio.NewScanner(conn)
	for in.Scan() {
		words := strings.SplitN(in.Text(), " ", 4)
		switch {
		case words[0] == "PING":
			_, _ = conn.Write([]byte("PONG " + words[1] + "\r\n"))
		case len(words) < 3:
		case words[1] == "001":
			close(greeted)
		case words[1] == "PONG":
			answer <- struct{}{}
		case words[1] == "401":
			u.mu.Lock()
			u.absent = true
			u.mu.Unlock()
		case words[1] == "PRIVMSG" && strings.HasPrefix(words[0], ":corebot"):
			u.mu.Lock()
			u.shown = append(u.shown, strings.TrimPrefix(strings.TrimPrefix(words[3], ":"), "\x0f"))
			u.mu.Unlock()
		}
	}
}

// say writes until the server knows the bot: a person sees that it is away.
func (u *ircUser) say(text string) {
	u.d.t.Helper()
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		u.mu.Lock()
		u.absent = false
		u.mu.Unlock()
		u.send("PRIVMSG corebot :" + text + "\r\nPING :x")
		select {
		case <-u.answer:
		case <-time.After(siegePatience):
			u.d.t.Fatal("the server does not answer a person")
		}
		u.mu.Lock()
		absent := u.absent
		u.mu.Unlock()
		if !absent {
			return
		}
		if time.Since(began) > siegePatience {
			u.d.t.Fatal("the bot does not come")
		}
	}
}
