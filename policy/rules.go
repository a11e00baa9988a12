package policy

import (
	"slices"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/rootfs"
)

// who a rule lets through.
type who uint8

const (
	nobody      who = iota
	admins          // of the turn's conversation
	adminsThere     // who are admin in what the call acts on as well
	anyone
)

// rule is one row of the table. The first row that applies decides.
//
// Rows with targeted set look at what a call touches. They only ever take away, and stand before the rows that open their tool,
// so that [Policy.Visible] may leave them out.
type rule struct {
	name      string // appears in the audit; never changes
	tool      string // a name, or a beginning and "*"
	when      func(Options, Request) bool
	targeted  bool
	who       who
	grantable bool   // configuration may open it to everyone
	reason    string // said when it denies
}

// rules is the whole policy.
func rules() []rule {
	t := []rule{
		{name: "role-unknown", tool: "*", when: roleUnknown, who: nobody, reason: "the role is not known"},

		{name: "path-unusable", tool: "*", when: pathUnusable, targeted: true, who: nobody, reason: "the path is not one of the workspace"},
		{name: "path-missing", tool: "fs.*", when: pathMissing, targeted: true, who: nobody, reason: "the call does not say which path it touches"},
		{name: "chat-files", tool: "*", when: chatFiles, targeted: true, who: nobody, reason: "the files of another conversation are closed to this one"},
		{name: "protected-path", tool: "*", when: protectedWrite, targeted: true, who: admins, reason: "only an admin may change this file"},

		{name: "shell-disabled", tool: "shell.*", when: shellDisabled, who: nobody, reason: "the shell is not enabled"},
		{name: "shell", tool: "shell.exec", who: admins, reason: "only an admin may run commands"},

		{name: "memory-scope", tool: "memory.*", when: scopeUnknown, targeted: true, who: nobody, reason: "the memory scope must be global or chat"},
		{name: "memory-global", tool: "memory.write", when: globalScope, targeted: true, who: admins, reason: "only an admin may change the global memory"},

		{name: "message-other-chat", tool: "message.send", when: otherChat, targeted: true, who: adminsThere, grantable: true, reason: "only an admin may send to another conversation"},
		{name: "bootstrap-alone", tool: "chat.register", when: sharedBootstrap, targeted: true, who: nobody, reason: "the turn has text of several people: send the bootstrap key in a message that is answered alone"},
		{name: "admin-by-key", tool: "chat.register", when: adminWithoutKey, targeted: true, who: nobody, reason: "chat.register makes an admin only with the bootstrap key; an admin gives roles with chat.set_role"},
		{name: "register-other-chat", tool: "chat.register", when: registersOther, targeted: true, who: adminsThere, grantable: true, reason: "only an admin may register another conversation"},
		{name: "tasks-other-chat", tool: "tasks.*", when: otherChat, targeted: true, who: adminsThere, grantable: true, reason: "only an admin may reach the tasks of another conversation"},
	}
	t = append(t, keptForAdmins()...)
	t = append(t, ownMessageOnly()...)
	return append(t, openToAll()...)
}

// keptForAdmins are tools that are an admin's as a whole.
func keptForAdmins() []rule {
	return []rule{
		{name: "own-role", tool: "chat.set_role", when: ownRole, targeted: true, who: nobody, reason: "nobody may change his own role"},
		{name: "set-role-there", tool: "chat.set_role", when: roleElsewhere, targeted: true, who: adminsThere, grantable: true, reason: "who is admin in one conversation may give roles in that one only"},
		{name: "set-role", tool: "chat.set_role", who: admins, grantable: true, reason: "only an admin may give roles"},
		{name: "mcp-reload", tool: "mcp.reload", who: admins, grantable: true, reason: "only an admin may reload the MCP servers"},
		{name: "dead-letters", tool: "bus.dead_letter.*", who: admins, grantable: true, reason: "only an admin may reach the dead letters"},
		{name: "mcp-tools", tool: "mcp__*", who: admins, grantable: true, reason: "only an admin may use the tools of MCP servers"},
		{name: "skills-enable", tool: "skills.enable", who: admins, reason: "only an admin may enable skills"},
		{name: "skills-disable", tool: "skills.disable", who: admins, reason: "only an admin may disable skills"},
		{name: "privileged", tool: "*", when: privileged, who: admins, grantable: true, reason: "only an admin may use this tool"},
	}
}

// ownMessageOnly are chat commands that belong to who sent the message, or an admin.
func ownMessageOnly() []rule {
	var t []rule
	for _, command := range []string{"/stop", "/steer", "/new", "/retry", "/why"} {
		t = append(t,
			rule{name: "others-message", tool: command, when: othersMessage, targeted: true, who: admins, reason: "only the sender of the message or an admin may do that"},
			rule{name: "own-message", tool: command, who: anyone})
	}
	return t
}

// openToAll names every tool that is left to everyone, one by one: a tool that is added is denied until it stands here.
func openToAll() []rule {
	var t []rule
	for _, tool := range []string{
		"fs.read", "fs.write", "fs.edit", "fs.list",
		"memory.read", "memory.write", "memory.search", "history.search",
		"message.send", "chat.register",
		"tasks.schedule", "tasks.list", "tasks.update",
		"skills.list", "skills.read", "skills.enabled",
		"web.fetch", "web.search",
	} {
		t = append(t, rule{name: "open", tool: tool, who: anyone})
	}
	return t
}

// protectedPaths are what admins alone may change: they are instructions to the agent.
func protectedPaths() []string {
	return []string{"IDENTITY.md", "USER.md", "TOOLS.md", "memory", "skills"}
}

func roleUnknown(_ Options, r Request) bool {
	return r.Role != corebot.RoleAdmin && r.Role != corebot.RoleNormal
}

func pathUnusable(_ Options, r Request) bool {
	if r.Target.Path == "" {
		return false
	}
	_, err := rootfs.Clean(r.Target.Path)
	return err != nil
}

func pathMissing(_ Options, r Request) bool { return r.Target.Path == "" }

// chatFiles catches the directory of all conversations too: its listing would tell who talks here.
func chatFiles(_ Options, r Request) bool {
	path, err := rootfs.Clean(r.Target.Path)
	return err == nil && rootfs.Within(path, rootfs.ChatsDir) && !rootfs.Within(path, rootfs.ChatDir(r.Key))
}

func protectedWrite(_ Options, r Request) bool {
	path, err := rootfs.Clean(r.Target.Path)
	return err == nil && r.Target.Write && slices.ContainsFunc(protectedPaths(), func(p string) bool { return rootfs.Within(path, p) })
}

func shellDisabled(o Options, _ Request) bool { return !o.ShellEnabled }

func scopeUnknown(_ Options, r Request) bool {
	return r.Target.Scope != ScopeGlobal && r.Target.Scope != ScopeChat
}

func globalScope(_ Options, r Request) bool { return r.Target.Scope == ScopeGlobal }

// otherChat takes a call that names no conversation for one that means another.
func otherChat(_ Options, r Request) bool { return r.Target.Chat != r.Key }

// registersOther lets a bootstrap key pass, whatever the chat: who has the right one is admin everywhere, and no other has any effect.
func registersOther(o Options, r Request) bool { return otherChat(o, r) && !r.Target.Bootstrap }

func adminWithoutKey(_ Options, r Request) bool {
	return r.Target.Role == corebot.RoleAdmin && !r.Target.Bootstrap
}

// sharedBootstrap: a key must not make somebody admin in whose turn another has spoken it.
func sharedBootstrap(_ Options, r Request) bool { return r.Target.Bootstrap && len(r.Others) > 0 }

func ownRole(_ Options, r Request) bool {
	return r.Target.Sender == r.Principal || slices.Contains(r.Others, r.Target.Sender)
}

// roleElsewhere: the role holds in more than the turn's conversation, or in another.
func roleElsewhere(o Options, r Request) bool { return r.Target.Everywhere || otherChat(o, r) }

func privileged(_ Options, r Request) bool { return r.Privileged }

// othersMessage takes senders that a channel could not name for one sender: nothing tells them apart.
func othersMessage(_ Options, r Request) bool { return r.Target.Sender != r.Principal }
