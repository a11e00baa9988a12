package irctest

import (
	"fmt"
	"strings"
)

// act does what a registered client asks for.
func (c *client) act(name string, args []string) {
	switch name {
	case "JOIN":
		channel := strings.ToLower(args[0])
		if strings.Contains(c.of.modes[channel], "i") {
			c.send(":irc.test 473 %s %s :Cannot join channel (+i)", c.nick, args[0])
			return
		}
		c.joined[channel] = true
		c.send(":%s!%s@%s JOIN %s", c.nick, c.user, host, args[0])
	case "WHOIS":
		if p, is := c.of.people[strings.ToLower(args[0])]; is {
			c.send(":irc.test 311 %s %s ~%s %s * :a person", c.nick, p.Nick, p.Nick, p.host())
			if p.Account != "" {
				c.send(":irc.test 330 %s %s %s :is logged in as", c.nick, p.Nick, p.Account)
			}
		} else {
			c.send(":irc.test 401 %s %s :No such nick", c.nick, args[0])
		}
		c.send(":irc.test 318 %s %s :End of WHOIS", c.nick, args[0])
	case "PRIVMSG":
		c.privmsg(args[0], args[1])
	default:
		c.of.complain("%s %q", name, args)
	}
}

// looks are the codes that a channel with mode c refuses.
const looks = "\x02\x03\x0f\x11\x16\x1d\x1e\x1f"

func (c *client) privmsg(target, text string) {
	relayed := fmt.Sprintf(":%s!%s@%s PRIVMSG %s :%s\r\n", c.nick, c.user, host, target, text)
	if len(relayed) > 512 {
		c.of.complain("a line of %d bytes as others get it", len(relayed))
	}
	if strings.TrimSpace(text) == "" {
		c.of.complain("an empty line to %s", target)
	}
	place := strings.ToLower(target)
	_, person := c.of.people[place]
	modes := c.of.modes[place]
	switch channel := strings.HasPrefix(place, "#"); {
	case c.of.refuse > 0:
		c.of.refuse--
		c.send(":irc.test 263 %s PRIVMSG :Please wait a while and try again.", c.nick)
	case !channel && !person:
		c.send(":irc.test 401 %s %s :No such nick/channel", c.nick, target)
	case channel && !c.joined[place]:
		c.send(":irc.test 442 %s %s :You are not on that channel", c.nick, target)
	case strings.Contains(modes, "m"):
		c.send(":irc.test 404 %s %s :Cannot send to channel (+m)", c.nick, target)
	case strings.Contains(modes, "c") && strings.ContainsAny(text, looks):
		c.send(":irc.test 404 %s %s :Can't send colors to channel (+c is set)", c.nick, target)
	case strings.Contains(modes, "t"):
		c.send(":irc.test 439 %s %s :Target change too fast. Please wait 35 seconds.", c.nick, target)
	case c.of.silent:
	default:
		c.of.shown[place] = append(c.of.shown[place], text)
		if c.of.drop != nil && c.of.drop() {
			c.end()
			return
		}
		if c.caps["echo-message"] {
			c.of.said++
			c.send("@msgid=own-%d :%s!%s@%s PRIVMSG %s :%s", c.of.said, c.nick, c.user, host, target, text)
		}
	}
}

// end closes the connection for what the server says, and nothing that it has said before is lost: a connection that is
// closed with unread lines is reset.
func (c *client) end() {
	if half, can := c.conn.(interface{ CloseWrite() error }); can {
		_ = half.CloseWrite()
	}
	c.registered = false
	delete(c.of.conns, c)
}
