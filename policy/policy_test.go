package policy_test

import (
	"path"
	"strings"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/internal/roots"
	"github.com/corebot/corebot/policy"
)

var (
	here   = corebot.Key{Agent: "main", Channel: "webhook", Chat: "here"}
	there  = corebot.Key{Agent: "main", Channel: "webhook", Chat: "there"}
	ann    = corebot.Principal{Channel: "webhook", ID: "ann"}
	bob    = corebot.Principal{Channel: "webhook", ID: "bob"}
	own    = policy.Target{Chat: here, Sender: ann}
	others = policy.Target{Chat: there, Sender: bob}

	bobHere = policy.Target{Chat: here, Sender: bob, Role: corebot.RoleAdmin}
	bobAll  = policy.Target{Everywhere: true, Sender: bob, Role: corebot.RoleAdmin}
	byKey   = policy.Target{Chat: there, Role: corebot.RoleAdmin, Bootstrap: true}
	keyless = policy.Target{Chat: here, Role: corebot.RoleAdmin}
)

func reading(p string) policy.Target { return policy.Target{Path: p} }
func writing(p string) policy.Target { return policy.Target{Path: p, Write: true} }
func scope(s string) policy.Target   { return policy.Target{Scope: s} }

func moving(from, to string) policy.Target {
	return policy.Target{Path: to, From: from, Write: true}
}

// opened has two directories of the operator.
func opened(t *testing.T) policy.Options {
	t.Helper()
	list, err := roots.NewList("/home/me", []roots.Dir{{Path: "~/project", Write: true}, {Path: "/srv/docs"}})
	if err != nil {
		t.Fatal(err)
	}
	return policy.Options{Roots: list, Grants: grants("*=normal")}
}

func newPolicy(t testing.TB, o policy.Options) *policy.Policy {
	t.Helper()
	p, err := policy.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func request(tool string, role corebot.Role, target policy.Target) policy.Request {
	return policy.Request{
		Tool: tool, Role: role, There: role, Everywhere: role, Principal: ann, Key: here,
		Target: target,
	}
}

// A child turn acts in the conversation of its parent, so it reads the skills of that conversation and of its account.
func TestAChildTurnReadsTheSkillsOfItsConversationAlone(t *testing.T) {
	p := newPolicy(t, policy.Options{})
	child := corebot.Key{
		Agent: here.Agent, Channel: corebot.JobChannel, Account: here.Channel + ":" + here.Account, Chat: here.Chat,
		Thread: "7:",
	}
	if child.Acts() != here {
		t.Fatalf("the child acts in %+v", child.Acts())
	}
	elsewhere := there
	elsewhere.Channel += "2"
	for of, rule := range map[corebot.Key]string{
		here: "open", here.InChannel(): "open", there: "chat-skills", elsewhere.InChannel(): "chat-skills",
	} {
		r := request("fs.read", corebot.RoleNormal, reading(rootfs.ScopedSkills(of)+"/x/SKILL.md"))
		r.Key = child
		if got := p.Authorize(r); got.Rule != rule {
			t.Errorf("a child turn of %s that reads the skills of %s meets %q, want %q", here, of, got.Rule, rule)
		}
	}
}

func TestEveryRuleForEveryRole(t *testing.T) {
	plain := policy.Options{}
	shell, sandbox := policy.Options{ShellEnabled: true}, policy.Options{ShellEnabled: true, Sandbox: true}
	granted := policy.Options{Grants: grants("mcp__files__*=normal", "mcp.reload=normal", "message.send=webhook::ann",
		"chat.*=normal", "bus.*=admin")}
	all := policy.Options{ShellEnabled: true, Grants: grants("*=normal")}
	shouted := "./S\u212aILLS//" + strings.ToUpper(rootfs.ScopedSkills(there)[len("skills/"):])
	mine, theirs := rootfs.ChatDir(here)+"/x", rootfs.ChatDir(there)+"/x"
	for _, c := range []struct {
		opts          policy.Options
		tool          string
		target        policy.Target
		rule          string
		normal, admin bool
	}{
		{plain, "fs.read", reading("notes.md"), "open", true, true},
		{plain, "fs.read", reading("IDENTITY.md"), "open", true, true},
		{plain, "fs.list", reading("."), "open", true, true},
		{plain, "fs.write", writing("notes.md"), "open", true, true},
		{plain, "fs.write", writing("memoryx"), "open", true, true},
		{plain, "fs.write", writing("sub/IDENTITY.md"), "open", true, true},
		{plain, "fs.read", policy.Target{}, "path-missing", false, false},
		{plain, "fs.read", reading("../x"), "path-unusable", false, false},
		{plain, "fs.read", reading("/etc/passwd"), "path-unusable", false, false},
		{plain, "fs.write", writing("a\x00b"), "path-unusable", false, false},

		{plain, "fs.write", writing("IDENTITY.md"), "protected-path", false, true},
		{plain, "fs.edit", writing("./identity.MD"), "protected-path", false, true},
		{plain, "fs.edit", writing("USER.md"), "protected-path", false, true},
		{plain, "fs.write", writing("TOOLS.md"), "protected-path", false, true},
		{plain, "fs.write", writing("./memory//x"), "protected-path", false, true},
		{plain, "fs.edit", writing("MEMORY/x"), "protected-path", false, true},
		{plain, "fs.write", writing("s\u212aill\u017f/x/SKILL.md"), "protected-path", false, true},
		{all, "fs.write", writing("skills"), "protected-path", false, true},
		{all, "fs.edit", writing(theirs), "chat-files", false, false},

		{plain, "fs.read", reading(mine), "open", true, true},
		{plain, "fs.edit", writing(mine), "open", true, true},
		{plain, "fs.read", reading(theirs), "chat-files", false, false},
		{plain, "fs.write", writing(theirs), "chat-files", false, false},
		{plain, "fs.edit", writing("./CHATS//" + strings.TrimPrefix(theirs, "chats/")), "chat-files", false, false},
		{plain, "fs.read", reading(rootfs.ChatDir(here) + "2/x"), "chat-files", false, false},
		{plain, "fs.list", reading("chats"), "chat-files", false, false},

		{plain, "fs.read", reading(rootfs.ScopedSkills(here) + "/x/SKILL.md"), "open", true, true},
		{plain, "fs.read", reading(rootfs.ScopedSkills(here.InChannel()) + "/x/SKILL.md"), "open", true, true},
		{plain, "fs.write", writing(rootfs.ScopedSkills(here) + "/x/SKILL.md"), "protected-path", false, true},
		{plain, "fs.read", reading(rootfs.ScopedSkills(there) + "/x/SKILL.md"), "chat-skills", false, false},
		{plain, "fs.list", reading(rootfs.ScopedSkills(there)), "chat-skills", false, false},
		{all, "fs.write", writing(rootfs.ScopedSkills(there) + "/x"), "chat-skills", false, false},
		{plain, "fs.read", reading(shouted), "chat-skills", false, false},
		{plain, "fs.read", reading(rootfs.ScopedSkills(here) + "2/x"), "chat-skills", false, false},
		{plain, "fs.move", moving(rootfs.ScopedSkills(there), mine), "chat-skills", false, false},

		{opened(t), "fs.read", reading("/home/me/project/main.go"), "root", false, true},
		{opened(t), "fs.list", reading("~/project"), "root", false, true},
		{opened(t), "fs.read", reading("/home/me/project/.env"), "root-secret", false, false},
		{opened(t), "fs.search", reading("/home/me/project/a/.SSH/x"), "root-secret", false, false},
		{opened(t), "fs.read", reading("/home/me/project/.git/HEAD"), "root", false, true},
		{opened(t), "fs.read", reading("/home/me/projects/x"), "path-unusable", false, false},
		{opened(t), "fs.read", reading("/home/me/project/../x"), "path-unusable", false, false},
		{opened(t), "fs.read", reading("/home/me"), "path-unusable", false, false},
		{opened(t), "fs.write", writing("/home/me/project/main.go"), "root", false, true},
		{opened(t), "fs.write", writing("/home/me/project/.git/hooks/pre-commit"), "root-versions", false, false},
		{opened(t), "fs.delete", writing("/home/me/project/lib/.GIT"), "root-versions", false, false},
		{opened(t), "fs.write", writing("/srv/docs/x"), "root-read-only", false, false},
		{opened(t), "fs.read", reading("/srv/docs/x"), "root", false, true},
		{opened(t), "fs.write", writing("IDENTITY.md"), "protected-path", false, true},
		{opened(t), "fs.move", moving("/home/me/project/a", "/home/me/project/b"), "root", false, true},
		{opened(t), "fs.move", moving("/srv/docs/a", "/home/me/project/b"), "root-read-only", false, false},
		{opened(t), "fs.move", moving("/home/me/project/.env", "seen"), "root-secret", false, false},
		{opened(t), "fs.move", moving("a", "/home/me/project/.git/config"), "root-versions", false, false},
		{opened(t), "fs.move", moving(theirs, mine), "chat-files", false, false},
		{opened(t), "fs.move", moving(mine, theirs), "chat-files", false, false},
		{opened(t), "fs.move", moving("memory/MEMORY.md", mine), "protected-path", false, true},
		{opened(t), "fs.move", moving("../x", mine), "path-unusable", false, false},
		{plain, "fs.move", moving("a", "b"), "open", true, true},
		{plain, "fs.read", reading("~/x"), "path-unusable", false, false},

		{plain, "shell.exec", own, "shell-disabled", false, false},
		{shell, "shell.exec", own, "shell", false, true},
		{all, "shell.exec", own, "shell", false, true},
		{granted, "shell.exec", own, "shell-disabled", false, false},
		{sandbox, "shell.exec", own, "shell", false, true},
		{policy.Options{Sandbox: true}, "shell.start", own, "shell-disabled", false, false},
		{shell, "shell.start", own, "shell-background", false, false},
		{shell, "shell.read", own, "shell-background", false, false},
		{shell, "shell.stop", own, "shell-background", false, false},
		{sandbox, "shell.start", own, "shell", false, true},
		{sandbox, "shell.read", own, "shell", false, true},
		{sandbox, "shell.stop", own, "shell", false, true},

		{plain, "memory.read", scope("global"), "open", true, true},
		{plain, "memory.read", scope("chat"), "open", true, true},
		{plain, "memory.read", scope("Global"), "memory-scope", false, false},
		{plain, "memory.write", scope(""), "memory-scope", false, false},
		{plain, "memory.write", scope("chat"), "open", true, true},
		{plain, "memory.write", scope("global"), "memory-global", false, true},
		{all, "memory.write", scope("global"), "memory-global", false, true},
		{plain, "memory.search", scope("chat"), "open", true, true},

		{plain, "message.send", own, "open", true, true},
		{plain, "message.send", others, "message-other-chat", false, true},
		{plain, "message.send", policy.Target{}, "message-other-chat", false, true},
		{granted, "message.send", others, "message-other-chat", true, true},
		{plain, "chat.register", own, "open", true, true},
		{plain, "chat.register", others, "register-other-chat", false, true},
		{plain, "chat.register", byKey, "open", true, true},
		{plain, "chat.register", keyless, "admin-by-key", false, false},
		{granted, "chat.register", others, "register-other-chat", true, true},
		{granted, "chat.register", keyless, "admin-by-key", false, false},
		{plain, "chat.set_role", bobHere, "set-role", false, true},
		{granted, "chat.set_role", bobHere, "set-role", true, true},
		{plain, "chat.set_role", bobAll, "set-role-there", false, true},
		{granted, "chat.set_role", bobAll, "set-role-there", true, true},
		{plain, "chat.set_role", others, "set-role-there", false, true},
		{plain, "chat.set_role", own, "own-role", false, false},
		{granted, "chat.set_role", own, "own-role", false, false},
		{plain, "mcp.reload", own, "mcp-reload", false, true},
		{granted, "mcp.reload", own, "mcp-reload", true, true},
		{plain, "bus.dead_letter.list", own, "dead-letters", false, true},
		{plain, "bus.dead_letter.replay", own, "dead-letters", false, true},
		{granted, "bus.dead_letter.list", own, "dead-letters", false, true},
		{all, "bus.dead_letter.list", own, "dead-letters", true, true},
		{plain, "bus.dead_letter.drop", own, "default", false, false},
		{plain, "mcp__files__read", own, "mcp-tools", false, true},
		{granted, "mcp__files__read", own, "mcp-tools", true, true},
		{granted, "mcp__other__read", own, "mcp-tools", false, true},
		{plain, "skills.read", own, "open", true, true},
		{plain, "web.fetch", own, "open", true, true},
		{plain, "history.search", own, "open", true, true},

		{plain, "/stop", own, "own-message", true, true},
		{plain, "/stop", others, "others-message", false, true},
		{plain, "/steer", others, "others-message", false, true},
		{plain, "/retry", others, "others-message", false, true},
		{plain, "/new", own, "own-session", true, true},
		{plain, "/new", others, "session-of-others", false, true},
		{plain, "/reset", own, "own-session", true, true},
		{all, "/reset", others, "session-of-others", false, true},

		{plain, "fs.chmod", writing("x"), "default", false, false},
		{plain, "FS.read", reading("x"), "default", false, false},
		{plain, "shell.other", own, "shell-disabled", false, false},
		{shell, "shell.other", own, "default", false, false},
		{plain, "", own, "default", false, false},
	} {
		p := newPolicy(t, c.opts)
		for role, want := range map[corebot.Role]bool{corebot.RoleNormal: c.normal, corebot.RoleAdmin: c.admin} {
			got := p.Authorize(request(c.tool, role, c.target))
			rule := c.rule
			if role == corebot.RoleNormal && strings.HasPrefix(rule, "root-") {
				rule = "root" // others do not learn what is there
			}
			if got.Allow != want || got.Rule != rule {
				t.Errorf("%s of %+v as %s: got %+v, want %v by %s", c.tool, c.target, role, got, want, rule)
			}
			if open := c.rule == "open" || c.rule == "own-message" ||
				c.rule == "own-session"; got.Privileged != (got.Allow && !open) {
				t.Errorf("%s of %+v as %s: privileged is %v", c.tool, c.target, role, got.Privileged)
			}
			if got.Allow == (got.Reason != "") {
				t.Errorf("%s as %s: reason %q beside allow=%v", c.tool, role, got.Reason, got.Allow)
			}
			if got.Allow && !p.Visible(policy.Request{Tool: c.tool, Role: role, Everywhere: role, Principal: ann}) {
				t.Errorf("%s as %s is allowed but not visible", c.tool, role)
			}
		}
		for _, role := range []corebot.Role{"", "Admin", "root"} {
			if got := p.Authorize(request(c.tool, role, c.target)); got.Allow || got.Rule != "role-unknown" {
				t.Errorf("%s as %q: got %+v", c.tool, role, got)
			}
		}
	}
}

func TestAnAdminOfOneConversationIsNobodyInAnother(t *testing.T) {
	p := newPolicy(t, policy.Options{})
	for _, c := range []struct {
		tool   string
		target policy.Target
		rule   string
	}{
		{"message.send", others, "message-other-chat"},
		{"chat.register", others, "register-other-chat"},
		{"chat.set_role", others, "set-role-there"},
		{"chat.set_role", bobAll, "set-role-there"},
	} {
		for _, role := range []corebot.Role{"", corebot.RoleNormal, "Admin"} {
			r := request(c.tool, corebot.RoleAdmin, c.target)
			r.There = role
			if got := p.Authorize(r); got.Allow || got.Rule != c.rule {
				t.Errorf("%s with the role %q there: got %+v", c.tool, role, got)
			}
			// a normal turn does not borrow from another conversation
			r.Role, r.There = corebot.RoleNormal, corebot.RoleAdmin
			if got := p.Authorize(r); got.Allow {
				t.Errorf("%s by who is admin there only: got %+v", c.tool, got)
			}
		}
	}
	r := request("chat.set_role", corebot.RoleAdmin, bobHere)
	r.There = ""
	if got := p.Authorize(r); !got.Allow {
		t.Errorf("a role in his own conversation: got %+v", got)
	}
}

func TestATurnOfSeveralPeopleGivesNoneOfThemARole(t *testing.T) {
	p := newPolicy(t, policy.Options{})
	for rule, r := range map[string]policy.Request{
		"own-role":        request("chat.set_role", corebot.RoleAdmin, bobHere),
		"bootstrap-alone": request("chat.register", corebot.RoleNormal, byKey),
	} {
		if got := p.Authorize(r); !got.Allow {
			t.Errorf("%s alone: got %+v", r.Tool, got)
		}
		r.Others = []corebot.Principal{bob}
		if got := p.Authorize(r); got.Allow || got.Rule != rule {
			t.Errorf("%s with text of another: got %+v, want %s", r.Tool, got, rule)
		}
	}
}

// A tool that acts on all conversations needs an admin everywhere. An admin of one conversation is not offered the
// tool.
func TestAnAdminOfOneConversationReachesNothingThatAllShare(t *testing.T) {
	p := newPolicy(t, policy.Options{})
	for _, c := range []struct {
		tool    string
		target  policy.Target
		rule    string
		offered bool
	}{
		{"fs.write", writing("USER.md"), "protected-path", true},
		{"fs.edit", writing("skills/x/SKILL.md"), "protected-path", true},
		{"memory.write", scope(policy.ScopeGlobal), "memory-global", true},
		{"bus.dead_letter.list", own, "dead-letters", false},
		{"bus.dead_letter.replay", own, "dead-letters", false},
		{"mcp.reload", own, "mcp-reload", false},
		{"mcp__files__read", own, "mcp-tools", false},
	} {
		r := request(c.tool, corebot.RoleAdmin, c.target)
		r.There, r.Everywhere = corebot.RoleNormal, corebot.RoleNormal
		if got := p.Authorize(r); got.Allow || got.Rule != c.rule || p.Visible(r) != c.offered {
			t.Errorf("%s of %+v: %+v, offered %v", c.tool, c.target, got, p.Visible(r))
		}
	}
}

func TestAToolThatNoTargetOpensIsNotVisible(t *testing.T) {
	p := newPolicy(t, policy.Options{})
	for _, tool := range []string{"shell.exec", "mcp__x__y", "chat.set_role", "bus.dead_letter.list", "nothing.known"} {
		if p.Visible(request(tool, corebot.RoleNormal, policy.Target{})) {
			t.Errorf("%s is visible to a normal principal", tool)
		}
	}
	if p.Visible(request("shell.exec", corebot.RoleAdmin, policy.Target{})) {
		t.Error("the shell is visible though it is not enabled")
	}
	for _, tool := range []string{"fs.write", "memory.write", "message.send"} {
		if !p.Visible(request(tool, corebot.RoleNormal, policy.Target{})) {
			t.Errorf("%s is hidden from a normal principal", tool)
		}
	}
	if p.Visible(request("fs.read", "", policy.Target{})) {
		t.Error("a tool is visible to no role at all")
	}
}

func TestAToolThatCallsItselfPrivilegedIsTheAdmins(t *testing.T) {
	p := newPolicy(t, policy.Options{})
	r := request("web.fetch", corebot.RoleNormal, own)
	r.Privileged = true
	if got := p.Authorize(r); got.Allow || got.Rule != "privileged" || p.Visible(r) {
		t.Errorf("got %+v", got)
	}
	r.Role, r.There = corebot.RoleAdmin, corebot.RoleAdmin // of one conversation
	if got := p.Authorize(r); got.Allow || got.Rule != "privileged" || p.Visible(r) {
		t.Errorf("for an admin of one conversation: %+v", got)
	}
}

// FuzzNoSpellingOpensAClosedPath compares the rules with an independent reading of the path: what path.Clean makes of
// it, without case.
func FuzzNoSpellingOpensAClosedPath(f *testing.F) {
	for _, s := range []string{
		"./memory//x", "MEMORY/x", "a/../memory/x", "chats/./x", "skills/", "s\u212aills/x",
		"memory\x00", "\\memory", "IDENTITY.md/", "chats/main:webhook::here/../x",
	} {
		f.Add(s)
	}
	p := newPolicy(f, policy.Options{})
	f.Fuzz(func(t *testing.T, in string) {
		if !p.Authorize(request("fs.write", corebot.RoleNormal, writing(in))).Allow {
			return
		}
		clean := path.Clean(in)
		first, rest, _ := strings.Cut(clean, "/")
		for _, closed := range []string{"identity.md", "user.md", "tools.md", "memory", "skills", ".."} {
			if strings.EqualFold(first, closed) {
				t.Errorf("writing %q was allowed", in)
			}
		}
		second, _, _ := strings.Cut(rest, "/")
		if strings.EqualFold(first, "chats") && !strings.EqualFold("chats/"+second, rootfs.ChatDir(here)) ||
			path.IsAbs(clean) {
			t.Errorf("writing %q was allowed", in)
		}
	})
}

// TestADenialNamesWhatWouldOpenIt: the role, the grant or the setting, and nothing where nothing opens it.
func TestADenialNamesWhatWouldOpenIt(t *testing.T) {
	p, err := policy.New(policy.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ann := corebot.Principal{Channel: "cli", Account: "local", ID: "7"}
	for _, c := range []struct {
		tool   string
		target policy.Target
		who    corebot.Principal
		others []corebot.Principal
		want   string
	}{
		{tool: "shell.exec", who: ann, want: "`tools.shell.mode` in the settings, and a restart"},
		{
			tool: "memory.write", target: policy.Target{Scope: policy.ScopeGlobal}, who: ann,
			want: "`corebot admin grant cli:local:7`",
		},
		{
			tool: "mcp__mail__read", who: ann,
			want: "`corebot admin grant cli:local:7`, or mcp__mail__read=cli:local:7 in `tools.grants`",
		},
		{tool: "mcp__mail__read", who: ann, others: []corebot.Principal{{Channel: "cli", ID: "8"}}},
		{tool: "mcp__mail__read"},
		{
			tool: "fs.read", target: policy.Target{Path: "/etc/hosts"}, who: ann,
			want: "`tools.roots` in the settings, for a directory of yours",
		},
		{tool: "fs.read", who: ann},
	} {
		d := p.Authorize(policy.Request{
			Tool: c.tool, Role: corebot.RoleNormal, Principal: c.who, Others: c.others, Target: c.target,
		})
		if d.Allow || d.Reason == "" || d.Opens != c.want {
			t.Errorf("%s: %+v, want %q", c.tool, d, c.want)
		}
	}
}

// TestProgramsThatReachTheDirectoriesOfTheOwnerAreForAdminsEverywhere: the owner of one chat has no other way to them.
func TestProgramsThatReachTheDirectoriesOfTheOwnerAreForAdminsEverywhere(t *testing.T) {
	o := opened(t)
	o.ShellEnabled, o.Sandbox = true, true
	host := opened(t)
	host.ShellEnabled = true
	for _, tool := range []string{"shell.exec", "shell.start", "shell.read", "shell.stop"} {
		r := request(tool, corebot.RoleAdmin, own)
		r.Everywhere = corebot.RoleNormal
		if d := newPolicy(t, o).Authorize(r); d.Allow || d.Rule != "shell-roots" {
			t.Errorf("%s of an admin of one chat: %+v", tool, d)
		}
		r.Everywhere = corebot.RoleAdmin
		if d := newPolicy(t, o).Authorize(r); !d.Allow || !d.Beyond {
			t.Errorf("%s of an admin everywhere: %+v", tool, d)
		}
	}
	r := request("shell.exec", corebot.RoleAdmin, own)
	r.Everywhere = corebot.RoleNormal
	if d := newPolicy(t, host).Authorize(r); !d.Allow {
		t.Errorf("programs of a list reach no such directory: %+v", d)
	}
}
