// Package sdnotify tells systemd how a service of the type "notify" is doing.
//
// systemd names a datagram socket in NOTIFY_SOCKET, and in WATCHDOG_USEC how often it wants to hear that the service is
// alive. Without these variables nothing is told. A program that the service starts must not speak for it: [New] takes
// the variables out of the environment.
package sdnotify

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// Notifier tells systemd. A nil Notifier tells nobody.
type Notifier struct {
	addr  *net.UnixAddr
	every time.Duration
}

// New reads what systemd wants, and hides it from the programs that this one starts. Without systemd it is nil.
func New() *Notifier {
	socket, usec, pid := os.Getenv("NOTIFY_SOCKET"), os.Getenv("WATCHDOG_USEC"), os.Getenv("WATCHDOG_PID")
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} {
		_ = os.Unsetenv(name) // fails for no such name
	}
	if !strings.HasPrefix(socket, "/") && !strings.HasPrefix(socket, "@") {
		return nil
	}
	n := &Notifier{addr: &net.UnixAddr{Name: socket, Net: "unixgram"}}
	if limit, err := strconv.ParseInt(usec, 10, 64); err == nil && limit > 0 &&
		(pid == "" || pid == strconv.Itoa(os.Getpid())) {
		n.every = time.Duration(limit) * time.Microsecond / 2 // as sd_watchdog_enabled(3) recommends
	}
	return n
}

// Every is how often systemd wants a sign of life; 0: it wants none.
func (n *Notifier) Every() time.Duration {
	if n == nil {
		return 0
	}
	return n.every
}

// Ready says that the service has started.
func (n *Notifier) Ready() error { return n.tell("READY=1") }

// Stopping says that the service ends.
func (n *Notifier) Stopping() error { return n.tell("STOPPING=1") }

// Alive is a sign of life. Without one in time systemd kills the service and starts it anew.
func (n *Notifier) Alive() error { return n.tell("WATCHDOG=1") }

// Status has `systemctl status` show a line.
func (n *Notifier) Status(text string) error {
	return n.tell("STATUS=" + strings.ReplaceAll(text, "\n", "; "))
}

// writeTime bounds one message. systemd reads its socket at once; a full one must not hold up the service.
const writeTime = time.Second

func (n *Notifier) tell(state string) error {
	if n == nil {
		return nil
	}
	conn, err := net.DialUnix(n.addr.Net, nil, n.addr)
	if err != nil {
		return fmt.Errorf("reach systemd: %w", err)
	}
	defer conn.Close() //nolint:errcheck // the datagram is sent or not
	if err := conn.SetWriteDeadline(time.Now().Add(writeTime)); err != nil {
		return fmt.Errorf("tell systemd: %w", err)
	}
	if _, err := conn.Write([]byte(state)); err != nil {
		return fmt.Errorf("tell systemd: %w", err)
	}
	return nil
}
