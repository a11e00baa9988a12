package policy

import (
	"slices"
	"strings"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/internal/roots"
	"github.com/corebot/corebot/workspace"
)

// who is the set of principals that a rule lets through.
type who uint8

const (
	nobody           who = iota
	admins               // of the turn's conversation
	adminsThere          // admins also where the call acts
	adminsEverywhere     // for what all conversations share
	anyone
)

// has says whether the role of a request is enough.
func (w who) has(r Request) bool {
	switch w {
	case anyone:
		return true
	case admins:
		return r.Role == corebot.RoleAdmin
	case adminsThere:
		return r.Role == corebot.RoleAdmin && r.There == corebot.RoleAdmin
	case adminsEverywhere:
		return r.Role == corebot.RoleAdmin && r.Everywhere == corebot.RoleAdmin
	}
	return false
}

// rule is one row of the table. The first row that applies decides.
//
// A row with targeted set depends on the target of a call. Such rows only deny or restrict, and they stand before the
// rows that open their tool. So [Policy.Visible] can leave them out.
type rule struct {
	name      string // appears in the audit; never changes
	tool      string // a name, or a beginning and "*"
	when      func(Options, Request) bool
	on        string // the condition in words, for docs/policy.md; empty: always
	targeted  bool
	who       who
	grantable bool   // configuration may open it to others
	reason    string // shown to the caller when the rule denies
	opens     string // the setting by which an operator opens it; empty: a role does, if who is not nobody
}

// rules is the whole policy.
func rules() []rule {
	return slices.Concat(
		[]rule{
			{
				name: "role-unknown", tool: "*", when: roleUnknown, on: "the role is neither admin nor normal",
				who: nobody, reason: "the role is not known",
			},
			{
				name: "agent-tools", tool: "*", when: notOfAgent,
				on:  "a tool that the agent has not, by `agents[].tools`",
				who: nobody, reason: "this agent does not have the tool", opens: "`agents[].tools` in the settings",
			},
			{
				name: "job-tools", tool: "*", when: notOfJob,
				on:  "a tool that a child turn was not given by `agent.run`, also in what such a turn causes",
				who: nobody, reason: "this turn was not given the tool",
			},
		},
		touchedFiles(), programs(), memoryPages(), otherConversations(), ofClients(), keptForAdmins(),
		ownMessageOnly(), ownSessionOnly(), modelCommands(), pairCommand(), rulesCommand(), approvalCommands(),
		openToAll())
}

// noPlace is the reason for a path that is open to nobody, and for a path that is open to admins only. So a denied
// caller does not learn which directories are open.
const noPlace = "the path is neither in the workspace nor in a directory that tools.roots opens to you"

// touchedFiles are the rules for the paths that a call touches.
func touchedFiles() []rule {
	return []rule{
		{
			name: "path-unusable", tool: "*", when: pathUnusable,
			on:       "a path outside of the workspace and of every directory of `tools.roots`, or cannot be one",
			targeted: true, who: nobody, reason: noPlace,
			opens: "`tools.roots` in the settings, for a directory of yours",
		},
		{
			name: "path-missing", tool: "fs.*", when: pathMissing, on: "no path", targeted: true, who: nobody,
			reason: "the call does not say which path it touches",
		},
		{
			name: "path-missing", tool: "message.upload", when: pathMissing, on: "no path", targeted: true,
			who: nobody, reason: "the call does not say which file it sends",
		},
		{
			name: "root", tool: "*", when: openedToOthers,
			on: "a path in a directory of `tools.roots`, for everyone but admins everywhere", targeted: true,
			who:    nobody,
			reason: noPlace,
		},
		{
			name: "root-versions", tool: "*", when: versionedWrite,
			on:       "changing what a version control system keeps in a directory of `tools.roots`, such as `.git`",
			targeted: true, who: nobody,
			reason: "files of a version control system are changed by its programs only",
		},
		{
			name: "root-secret", tool: "*", when: secretPath,
			on: "a file or directory of `tools.roots` that by its name holds keys or passwords, such as `.env`, " +
				"`*.pem` or `.ssh`", targeted: true, who: nobody,
			reason: "by its name the file holds secrets",
		},
		{
			name: "root-read-only", tool: "*", when: readOnlyWrite,
			on: "changing a file in a directory of `tools.roots` with the mode `read`", targeted: true, who: nobody,
			reason: "tools.roots opens that directory for reading only", opens: "`mode: write` in `tools.roots`",
		},
		{
			name: "root", tool: "*", when: inOpened, on: "any other path in a directory of `tools.roots`",
			targeted: true, who: adminsEverywhere, reason: noPlace,
		},
		{
			name: "chat-files", tool: "*", when: chatFiles,
			on: "a path in the files of another conversation, or their " +
				"common directory", targeted: true, who: nobody,
			reason: "the files of another conversation are closed to this one",
		},
		{
			name: "chat-skills", tool: "*", when: othersSkills,
			on:       "a path in the skills that only other conversations have",
			targeted: true, who: nobody,
			reason: "the skills of another conversation are closed to this one",
		},
		{
			name: "protected-path", tool: "*", when: protectedWrite, on: "writing or deleting " + protectedText(),
			targeted: true, who: adminsEverywhere, reason: "only an admin everywhere may change this file",
		},
	}
}

// programs are the rules for the shell.
func programs() []rule {
	return []rule{
		{
			name: "shell-disabled", tool: "shell.*", when: shellDisabled, on: "`tools.shell.mode` is off",
			who: nobody, reason: "the shell is not enabled",
			opens: "`tools.shell.mode` in the settings, and a restart",
		},
		{
			name: "shell-background", tool: "shell.start", when: noSandbox, on: "`tools.shell.mode` is not sandbox",
			who: nobody, reason: "only a sandbox has programs in the background",
		},
		{
			name: "shell-background", tool: "shell.read", when: noSandbox, on: "`tools.shell.mode` is not sandbox",
			who: nobody, reason: "only a sandbox has programs in the background",
		},
		{
			name: "shell-background", tool: "shell.stop", when: noSandbox, on: "`tools.shell.mode` is not sandbox",
			who: nobody, reason: "only a sandbox has programs in the background",
		},
		{
			name: "shell-roots", tool: "shell.*", when: programsReachRoots,
			on:  "`tools.shell.mode` is sandbox, and `tools.roots` opens directories",
			who: adminsEverywhere,
			reason: "programs reach the directories of tools.roots: only an admin everywhere may run " +
				"them",
		},
		{name: "shell", tool: "shell.exec", who: admins, reason: "only an admin may run commands"},
		{name: "shell", tool: "shell.start", who: admins, reason: "only an admin may run commands"},
		{name: "shell", tool: "shell.read", who: admins, reason: "only an admin may run commands"},
		{name: "shell", tool: "shell.stop", who: admins, reason: "only an admin may run commands"},
	}
}

// memoryPages are the rules for the scopes of memory.
func memoryPages() []rule {
	return []rule{
		{
			name: "memory-of-others", tool: "memory.forget", when: othersMessage, on: "what other people said",
			targeted: true, who: admins, reason: "only an admin may have forgotten what other people said",
		},
		{
			name: "memory-scope", tool: "memory.*", when: scopeUnknown,
			on: "a scope other than agent (also called global), channel and chat", targeted: true, who: nobody,
			reason: "the memory scope must be agent, channel or chat",
		},
		{
			name: "memory-global", tool: "memory.write", when: globalScope, on: "the global memory", targeted: true,
			who: adminsEverywhere, reason: "only an admin everywhere may change the global memory",
		},
		{
			name: "memory-channel", tool: "memory.write", when: channelScope,
			on: "the memory that the conversations of an account of a channel share", targeted: true,
			who: adminsEverywhere, reason: "only an admin everywhere may change what conversations share",
		},
	}
}

// otherConversations are the rules for calls that act outside of the turn's conversation, or that make an admin.
func otherConversations() []rule {
	return []rule{
		{
			name: "message-other-chat", tool: "message.send", when: otherChat, on: "another conversation",
			targeted: true,
			who:      adminsThere, grantable: true, reason: "only an admin may send to another conversation",
		},
		{
			name: "tasks-other-chat", tool: "tasks.*", when: otherChat, on: "another conversation", targeted: true,
			who: adminsThere, grantable: true, reason: "only an admin may reach the tasks of another conversation",
		},
		{
			name: "tasks-of-others", tool: "tasks.update", when: othersMessage, on: "a task that somebody else made",
			targeted: true, who: admins, grantable: true, reason: "only who made the task, or an admin, may change it",
		},
		{
			name: "bootstrap-alone", tool: "chat.register", when: sharedBootstrap,
			on: "a bootstrap key, in a turn with text of several people", targeted: true, who: nobody,
			reason: "the turn has text of several people: send the bootstrap key in a message that is answered alone",
		},
		{
			name: "admin-by-key", tool: "chat.register", when: adminWithoutKey,
			on: "the role admin without a bootstrap key", targeted: true, who: nobody,
			reason: "chat.register makes an admin only with the bootstrap key; an admin gives roles with chat.set_role",
		},
		{
			name: "register-other-chat", tool: "chat.register", when: registersOther,
			on: "another conversation, without a bootstrap key", targeted: true, who: adminsThere, grantable: true,
			reason: "only an admin may register another conversation",
		},
	}
}

const skillsOfAdmins = "only an admin of this chat may choose its skills"

// keptForAdmins are the tools that only admins have.
func keptForAdmins() []rule {
	return []rule{
		{
			name: "own-role", tool: "chat.set_role", when: ownRole, on: "the role of somebody who has text in the turn",
			targeted: true, who: nobody, reason: "nobody may change his own role",
		},
		{
			name: "set-role-there", tool: "chat.set_role", when: roleElsewhere,
			on: "a role in another conversation, or everywhere", targeted: true, who: adminsThere, grantable: true,
			reason: "who is admin in one conversation may give roles in that one only",
		},
		{name: "set-role", tool: "chat.set_role", who: admins, grantable: true, reason: "only an admin may give roles"},
		{name: "skills-here", tool: "skills.enable", who: admins, grantable: true, reason: skillsOfAdmins},
		{name: "skills-here", tool: "skills.disable", who: admins, grantable: true, reason: skillsOfAdmins},
		{
			name: "mcp-reload", tool: "mcp.reload", who: adminsEverywhere, grantable: true,
			reason: "only an admin everywhere may reload the MCP servers",
		},
		{
			name: "dead-letters", tool: "bus.dead_letter.list", who: adminsEverywhere, grantable: true,
			reason: "only an admin everywhere may reach the dead letters",
		},
		{
			name: "dead-letters", tool: "bus.dead_letter.replay", who: adminsEverywhere, grantable: true,
			reason: "only an admin everywhere may reach the dead letters",
		},
		{
			name: "agents", tool: "agent.list", who: adminsEverywhere, grantable: true,
			reason: "only an admin everywhere may reach the other agents",
		},
		{
			name: "agents", tool: "agent.send", who: adminsEverywhere, grantable: true,
			reason: "only an admin everywhere may reach the other agents",
		},
		{
			name: "mcp-tools", tool: "mcp__*", who: adminsEverywhere, grantable: true,
			reason: "only an admin everywhere may use the tools of MCP servers",
		},
		{
			name: "privileged", tool: "*", when: privileged,
			on: "a tool that is marked as privileged and has no rule above", who: adminsEverywhere,
			reason: "only an admin everywhere may use this tool",
		},
	}
}

// ownMessageOnly are the rules for chat commands that act on a message. The sender of that message, or an admin, may
// give them. A command that acts on nothing, such as /help, is open to everybody who may talk.
func ownMessageOnly() []rule {
	var t []rule
	for _, command := range []string{
		"/stop", "/steer", "/retry", "/dead", "/drop", "/why", "/tasks", "/remind", "/undo", "/resume", "/unlink",
		"/memory",
	} {
		t = append(t,
			rule{
				name: "others-message", tool: command, when: othersMessage, on: "a message of another sender",
				targeted: true, who: admins, reason: "only the sender of the message or an admin may do that",
			},
			rule{name: "own-message", tool: command, who: anyone})
	}
	return t
}

// modelCommands are the rules for a /model, a /think and a /skills that choose. Another model can cost more, and reads
// the whole session. More thinking costs more, too. A skill is text that the model obeys.
func modelCommands() []rule {
	return []rule{
		{
			name: "model", tool: "/model", who: admins,
			reason: "only an admin of this chat can choose the model that answers",
		},
		{
			name: "think", tool: "/think", who: admins,
			reason: "only an admin of this chat can choose how much the model thinks",
		},
		{name: "skills-here", tool: "/skills", who: admins, reason: skillsOfAdmins},
	}
}

// rulePersonPairs denies a /pair that no person gave. It is stored in the audit; it never changes.
const rulePersonPairs = "pair-person"

// pairCommand are the rules for a /pair. It lets a sender in on a whole account, so an admin of one chat is not enough.
// Some text can have told a program, an agent or a task what to write, so only a person gives it.
func pairCommand() []rule {
	return []rule{
		{
			name: rulePersonPairs, tool: "/pair", when: notInteractive, who: nobody,
			on:     "a command that no person gave",
			reason: "only a person can let somebody in: in the terminal, in a chat, or with `corebot pair`",
		},
		{
			name: "pair", tool: "/pair", who: adminsEverywhere,
			reason: "only an admin everywhere can let somebody in",
		},
	}
}

// rulesCommand is the rule for /rules, which shows what others in the chat work on.
func rulesCommand() []rule {
	return []rule{{
		name: "approval-rules", tool: "/rules", who: admins,
		reason: "only an admin of this chat can see which approvals last, and revoke them",
	}}
}

// openToAll lists every tool that everybody may use, one by one. A new tool is denied until it is listed.
func openToAll() []rule {
	var t []rule
	for _, tool := range []string{
		"fs.read", "fs.write", "fs.edit", "fs.delete", "fs.mkdir", "fs.move", "fs.list", "fs.search",
		"memory.read", "memory.write", "memory.search", "memory.summary", "memory.facts", "memory.recall",
		"memory.forget", "history.search",
		"message.send", "message.upload", "chat.register",
		"chat.list", "history.read", "message.publish", "message.replies",
		"skills.list", "skills.read", "skills.enabled",
		"tasks.schedule", "tasks.list", "tasks.update", "wait.until", "wait.open", "wait.word", "agent.run",
		"web.fetch", "web.search",
	} {
		t = append(t, rule{name: "open", tool: tool, who: anyone})
	}
	return t
}

func protectedText() string { return "`" + strings.Join(workspace.Protected(), "`, `") + "`" }

func roleUnknown(_ Options, r Request) bool {
	return r.Role != corebot.RoleAdmin && r.Role != corebot.RoleNormal
}

// paths are all that a call touches; each is judged.
func (t Target) paths() (all []touched) {
	if t.Path != "" {
		all = append(all, touched{t.Path, t.Write})
	}
	if t.From != "" {
		all = append(all, touched{t.From, true})
	}
	return all
}

type touched struct {
	path  string
	write bool
}

// anyPlace says whether a rule holds for any of the places of a call.
func anyPlace(o Options, r Request, holds func(p roots.Place, write bool) bool) bool {
	return slices.ContainsFunc(r.Target.paths(), func(t touched) bool {
		p, err := o.Roots.Find(t.path)
		return err == nil && holds(p, t.write)
	})
}

func pathUnusable(o Options, r Request) bool {
	return slices.ContainsFunc(r.Target.paths(), func(t touched) bool {
		_, err := o.Roots.Find(t.path)
		return err != nil
	})
}

func inOpened(o Options, r Request) bool {
	return anyPlace(o, r, func(p roots.Place, _ bool) bool { return !p.InWorkspace() })
}

func openedToOthers(o Options, r Request) bool { return inOpened(o, r) && !adminsEverywhere.has(r) }

func versionedWrite(o Options, r Request) bool {
	return anyPlace(o, r, func(p roots.Place, write bool) bool {
		return write && !p.InWorkspace() && roots.Versioned(p.Path)
	})
}

func secretPath(o Options, r Request) bool {
	return anyPlace(o, r, func(p roots.Place, _ bool) bool { return !p.InWorkspace() && roots.Secret(p.Path) })
}

func readOnlyWrite(o Options, r Request) bool {
	return anyPlace(o, r, func(p roots.Place, write bool) bool { return write && !p.InWorkspace() && !p.Dir.Write })
}

func pathMissing(_ Options, r Request) bool { return r.Target.Path == "" }

// chatFiles matches the directory of all conversations too, because its listing would show who talks here.
func chatFiles(o Options, r Request) bool {
	return anyPlace(o, r, func(p roots.Place, _ bool) bool {
		return p.InWorkspace() && rootfs.Within(p.Path, rootfs.ChatsDir) && !rootfs.Within(p.Path,
			rootfs.ChatDir(r.Key))
	})
}

func othersSkills(o Options, r Request) bool {
	return anyPlace(o, r, func(p roots.Place, _ bool) bool {
		return p.InWorkspace() && rootfs.InScopedSkills(p.Path) && !rootfs.Within(p.Path, rootfs.ScopedSkills(r.Key)) &&
			!rootfs.Within(p.Path, rootfs.ScopedSkills(r.Key.Acts().InChannel()))
	})
}

func protectedWrite(o Options, r Request) bool {
	return anyPlace(o, r, func(p roots.Place, write bool) bool { return p.InWorkspace() && write && protected(p.Path) })
}

// protected says whether a path of the workspace is one that only admins everywhere change.
func protected(clean string) bool {
	return slices.ContainsFunc(workspace.Protected(), func(p string) bool { return rootfs.Within(clean, p) })
}

func shellDisabled(o Options, _ Request) bool { return !o.ShellEnabled }

func programsReachRoots(o Options, _ Request) bool { return o.Sandbox && len(o.Roots.Dirs()) > 0 }

func noSandbox(o Options, _ Request) bool { return !o.Sandbox }

func scopeUnknown(_ Options, r Request) bool {
	switch r.Target.Scope {
	case ScopeGlobal, ScopeAgent, ScopeChannel, ScopeChat:
		return false
	}
	return true
}

func globalScope(_ Options, r Request) bool { return r.Target.global() }

func channelScope(_ Options, r Request) bool { return r.Target.Scope == ScopeChannel }

// global says whether the target is the memory of all conversations.
func (t Target) global() bool { return t.Scope == ScopeGlobal || t.Scope == ScopeAgent }

// otherChat says whether a call acts on another conversation. A call that names no conversation counts as such.
func otherChat(_ Options, r Request) bool { return r.Target.Chat != r.Key }

// registersOther lets a bootstrap key pass for any chat. The right key makes an admin everywhere, and a wrong key has
// no effect.
func registersOther(o Options, r Request) bool { return otherChat(o, r) && !r.Target.Bootstrap }

func adminWithoutKey(_ Options, r Request) bool {
	return r.Target.Role == corebot.RoleAdmin && !r.Target.Bootstrap
}

// sharedBootstrap: a key must not make its sender an admin in a turn in which others have spoken. One of the others may
// have sent the key.
func sharedBootstrap(_ Options, r Request) bool { return r.Target.Bootstrap && len(r.Others) > 0 }

func ownRole(_ Options, r Request) bool {
	return r.Target.Sender == r.Principal || slices.Contains(r.Others, r.Target.Sender)
}

// roleElsewhere: the role holds in another conversation, or in more than the turn's conversation.
func roleElsewhere(o Options, r Request) bool { return r.Target.Everywhere || otherChat(o, r) }

func privileged(_ Options, r Request) bool { return r.Privileged }

// othersMessage counts all senders that a channel could not name as one sender, because nothing tells them apart.
func othersMessage(_ Options, r Request) bool { return r.Target.Sender != r.Principal }
