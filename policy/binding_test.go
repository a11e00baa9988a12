package policy_test

import (
	"strings"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/roots"
	"github.com/corebot/corebot/policy"
)

// bindable are calls of each kind, as they stand in a request.
func bindable() map[corebot.BindingKind]policy.Subject {
	return map[corebot.BindingKind]policy.Subject{
		corebot.BindPath: {Tool: "fs.write", Target: policy.Target{Path: "notes/a.md", Write: true}},
		corebot.BindProgram: {
			Tool: "shell.exec", Argv: []string{"git", "push", "origin"}, Args: `{"argv":["git","push","origin"]}`,
		},
		corebot.BindDomain: {
			Tool: "web.fetch", Egress: true, GoesTo: []string{"https://docs.example/a"},
			Args: `{"url":"https://docs.example/a"}`,
		},
		corebot.BindTool: {Tool: "mcp__mail__send", Definition: "print", Args: `{"to":"bob"}`},
	}
}

// rules is a policy beside whose workspace a project is open.
func rules(t *testing.T) *policy.Policy {
	t.Helper()
	list, err := roots.NewList("/home/me", []roots.Dir{{Path: "~/project", Write: true}})
	if err != nil {
		t.Fatal(err)
	}
	p, err := policy.New(policy.Options{Roots: list})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func weight(tainted bool) policy.Weight {
	return policy.Weight{Tainted: tainted, Reads: true, CarriesOut: true}
}

// TestWhatAnApprovalBinds: in a clean turn a whole tool or a program's verb, in a tainted one the very call.
func TestWhatAnApprovalBinds(t *testing.T) {
	for kind, s := range bindable() {
		b, why := rules(t).Bind(weight(false), s)
		if b.Kind != kind || why != "" || b.Tainted || !rules(t).Answers(b, weight(false), s) ||
			rules(t).Answers(b, weight(true), s) {
			t.Errorf("%s: in a clean turn it binds %+v, %q", kind, b, why)
		}
		b, why = rules(t).Bind(weight(true), s)
		if kind == corebot.BindTool {
			kind = corebot.BindCall
		}
		if b.Kind != kind || why != "" || !b.Tainted || !rules(t).Answers(b, weight(true), s) ||
			!rules(t).Answers(b, weight(false), s) {
			t.Errorf("%s: in a tainted turn it binds %+v, %q", kind, b, why)
		}
	}
	clean, _ := rules(t).Bind(weight(false), bindable()[corebot.BindProgram])
	tainted, _ := rules(t).Bind(weight(true), bindable()[corebot.BindProgram])
	if clean.Program.String() != "git push …" || tainted.Program.String() != "git push origin" {
		t.Errorf("of a program it binds %s, in a tainted turn %s", clean.Program, tainted.Program)
	}
	for path, want := range map[string]string{
		"a.md": "a.md", "notes/a.md": "notes/", "./notes/deep/a.md": "notes/deep/", "chats/x/files/a": "chats/x/files/",
		"~/project/main.go": "/home/me/project/", "/home/me/project/pkg/a.go": "/home/me/project/pkg/",
	} {
		s := policy.Subject{Tool: "fs.write", Target: policy.Target{Path: path}}
		if b, why := rules(t).Bind(weight(false), s); b.Path != want {
			t.Errorf("of %s it binds %q, %q", path, b.Path, why)
		}
	}
}

// TestWhatIsNeverBound, in whatever turn, whatever is stored.
func TestWhatIsNeverBound(t *testing.T) {
	there := corebot.Key{Agent: "main", Channel: "x", Chat: "y"}
	for why, c := range map[string]struct {
		w policy.Weight
		s policy.Subject
	}{
		"roles":     {s: policy.Subject{Tool: "chat.set_role", Target: policy.Target{Role: corebot.RoleAdmin}}},
		"roles are": {s: policy.Subject{Tool: "chat.register", Definition: "print"}},
		"protected": {s: policy.Subject{Tool: "fs.write", Target: policy.Target{Path: "IDENTITY.md", Write: true}}},
		"protected files": {s: policy.Subject{
			Tool: "fs.write", Target: policy.Target{Path: "./memory/memory.md", Write: true},
		}},
		"global memory": {s: policy.Subject{Tool: "memory.write", Target: policy.Target{Scope: policy.ScopeGlobal}}},
		"act on a chat": {s: policy.Subject{Tool: "message.send", Target: policy.Target{Chat: there}}},
		"others have":   {s: policy.Subject{Tool: "shell.exec", Argv: []string{"ls"}, Shared: true}},
		"others read": {
			w: policy.Weight{Tainted: true}, s: policy.Subject{
				Tool: "shell.exec", Argv: []string{"ls"},
				Overheard: true,
			},
		},
		"nobody has approved": {s: policy.Subject{Tool: "mcp__a__b", Definition: "print", Unvouched: true}},
		"reaches the network": {
			w: policy.Weight{Tainted: true}, s: policy.Subject{
				Tool: "shell.exec", Argv: []string{"curl"},
				Egress: true,
			},
		},
		"names no file": {s: policy.Subject{Tool: "mcp.reload"}},
		"one directory to another": {s: policy.Subject{
			Tool: "fs.move", Target: policy.Target{Path: "a/b", From: "c/d", Write: true},
		}},
		"too long": {w: policy.Weight{Tainted: true}, s: policy.Subject{
			Tool: "mcp__a__b", Definition: "print", Args: strings.Repeat("x", 9<<10),
		}},
	} {
		b, got := rules(t).Bind(c.w, c.s)
		if b.Kind != "" || !strings.Contains(got, why) {
			t.Errorf("%s: it binds %+v, %q", why, b, got)
		}
		for _, b := range []corebot.Binding{
			{Kind: corebot.BindTool, Tool: c.s.Tool, Definition: c.s.Definition, Tainted: true},
			{Kind: corebot.BindPath, Tool: c.s.Tool, Path: c.s.Target.Path, Tainted: true},
			{
				Kind: corebot.BindProgram, Tool: c.s.Tool, Tainted: true,
				Program: corebot.Profile{Argv: c.s.Argv},
			},
		} {
			if why != "too long" && rules(t).Answers(b, c.w, c.s) {
				t.Errorf("%s: a stored %+v answers", why, b)
			}
		}
	}
}

// TestABoundDirectoryNeverReachesAroundWhatIsOpen binds an open directory itself. Its siblings can be open, too.
func TestABoundDirectoryNeverReachesAroundWhatIsOpen(t *testing.T) {
	for path, want := range map[string]string{
		"/home/me/project":        "/home/me/project",
		"~/project/":              "/home/me/project",
		"/home/me/project/a.go":   "/home/me/project/",
		"/home/me/project/pkg/a":  "/home/me/project/pkg/",
		"notes/a.md":              "notes/",
		"notes.md":                "notes.md",
		".":                       ".",
		"/home/me/project/pkg/..": "",
	} {
		s := policy.Subject{Tool: "fs.list", Target: policy.Target{Path: path}}
		if b, why := rules(t).Bind(policy.Weight{}, s); b.Path != want {
			t.Errorf("%s binds %q (%s), want %q", path, b.Path, why, want)
		}
	}
}

// TestNoCallRidesOnABindingOfAnother tries the calls that are nearly what was bound.
func TestNoCallRidesOnABindingOfAnother(t *testing.T) {
	file := func(path string) policy.Subject {
		return policy.Subject{Tool: "fs.write", Target: policy.Target{Path: path, Write: true}}
	}
	program := func(argv ...string) policy.Subject { return policy.Subject{Tool: "shell.exec", Argv: argv} }
	page := func(url string) policy.Subject {
		return policy.Subject{Tool: "web.fetch", Egress: true, GoesTo: []string{url}, Args: `{"url":"` + url + `"}`}
	}
	below := corebot.Binding{Kind: corebot.BindPath, Tool: "fs.write", Path: "notes/", Tainted: true}
	exact := corebot.Binding{Kind: corebot.BindPath, Tool: "fs.write", Path: "notes", Tainted: true}
	whole := corebot.Binding{Kind: corebot.BindPath, Tool: "fs.write", Path: "memory/", Tainted: true}
	git := corebot.Binding{Kind: corebot.BindProgram, Tool: "shell.exec", Program: corebot.Profile{
		Argv: []string{"git", "push"}, More: true,
	}}
	docs := corebot.Binding{Kind: corebot.BindDomain, Tool: "web.fetch", Origin: "https://docs.example", Tainted: true}
	call := corebot.Binding{
		Kind: corebot.BindCall, Tool: "mcp__a__b", Definition: "print", Args: `{"to":"bob"}`, Tainted: true,
	}
	mail := policy.Subject{Tool: "mcp__a__b", Definition: "print", Args: `{"to":"bob"}`}
	other, moved, args := mail, mail, mail
	other.Tool, moved.Definition, args.Args = "mcp__a__c", "print-2", `{"to":"eve"}`
	reader := file("notes/a")
	reader.Tool = "fs.delete"
	project := corebot.Binding{Kind: corebot.BindPath, Tool: "fs.write", Path: "/home/me/project/", Tainted: true}
	moves := corebot.Binding{Kind: corebot.BindPath, Tool: "fs.move", Path: "notes/", Tainted: true}
	move := func(from, to string) policy.Subject {
		return policy.Subject{Tool: "fs.move", Target: policy.Target{Path: to, From: from, Write: true}}
	}
	for _, c := range []struct {
		b       corebot.Binding
		s       policy.Subject
		tainted bool
		want    bool
	}{
		{below, file("notes/a"), true, true},
		{below, file("notes/deep/a"), true, true},
		{below, file("notes"), true, false},
		{below, file("notesx/a"), true, false},
		{below, file("Notes/a"), true, false},
		{below, file("notes/../a"), true, false},
		{below, file("/notes/a"), true, false},
		{below, reader, true, false},
		{exact, file("notes/a"), true, false},
		{project, file("~/project/a.go"), true, true},
		{project, file("/home/me/project/pkg/a.go"), true, true},
		{project, file("/home/me/projects/a.go"), true, false},
		{project, file("/home/me/project/../a.go"), true, false},
		{project, file("home/me/project/a.go"), true, false},
		{moves, move("notes/a", "notes/b"), true, true},
		{moves, move("secret/a", "notes/b"), true, false},
		{moves, move("notes/a", "public/b"), true, false},
		{whole, file("memory/MEMORY.md"), true, false},
		{corebot.Binding{Kind: corebot.BindPath, Tool: "fs.write", Tainted: true}, file("a"), true, false},
		{git, program("git", "push", "--force"), false, true},
		{git, program("git", "push"), true, false},
		{
			corebot.Binding{Kind: git.Kind, Tool: git.Tool, Program: git.Program, Tainted: true},
			program("git", "push", "x"),
			true, false,
		},
		{git, program("git"), false, false},
		{git, program("git", "pull"), false, false},
		{git, program("/tmp/git", "push"), false, false},
		{corebot.Binding{Kind: corebot.BindProgram, Tool: "shell.exec"}, program(), false, false},
		{docs, page("https://docs.example/b/c"), true, true},
		{docs, page("HTTPS://Docs.example:443/b#x"), true, true},
		{docs, page("https://docs.example/?d=secret"), true, false},
		{docs, page("https://docs.example/?d=secret"), false, true},
		{docs, page("https://docs.example/" + strings.Repeat("x", 200)), true, false},
		{docs, page("http://docs.example/b"), true, false},
		{docs, page("https://docs.example:444/b"), true, false},
		{docs, page("https://evil.docs.example/b"), true, false},
		{docs, page("https://docs.example.evil/b"), true, false},
		{docs, page("https://docs.example@evil.example/b"), true, false},
		{docs, page("https://user@docs.example/b"), true, false},
		{docs, page("https://docs.example./b"), true, false},
		{docs, page("docs.example/b"), true, false},
		{docs, policy.Subject{Tool: "web.fetch", Egress: true}, true, false},
		{corebot.Binding{Kind: corebot.BindDomain, Tool: "web.fetch", Tainted: true}, page("x"), true, false},
		{call, mail, true, true},
		{call, other, true, false},
		{call, moved, true, false},
		{call, args, true, false},
		{
			corebot.Binding{Kind: corebot.BindCall, Tool: "mcp__a__b", Tainted: true},
			policy.Subject{Tool: "mcp__a__b"},
			true, false,
		},
		{
			corebot.Binding{Kind: corebot.BindTool, Tool: "mcp__a__b", Definition: "print", Tainted: true},
			mail, true,
			false,
		},
		{corebot.Binding{Kind: "all", Tool: "mcp__a__b", Definition: "print", Tainted: true}, mail, false, false},
	} {
		if got := rules(t).Answers(c.b, weight(c.tainted), c.s); got != c.want {
			t.Errorf("%+v answers for %+v (tainted: %v): %v", c.b, c.s, c.tainted, got)
		}
	}
	held := weight(true)
	held.Reads = false // such a call changes something at the other end
	if rules(t).Answers(docs, held, page("https://docs.example/b")) {
		t.Error("a domain answers for a call that changes something")
	}
}

// TestARuleForAProgramThatStaysInItsChatLetsNoOtherRun: the same program with a network, or with a directory to write,
// is asked about again. A rule for such a program lets the contained one run.
func TestARuleForAProgramThatStaysInItsChatLetsNoOtherRun(t *testing.T) {
	s := bindable()[corebot.BindProgram]
	for _, tainted := range []bool{false, true} {
		inside, outside := policy.Weight{Tainted: tainted, Contained: true}, policy.Weight{Tainted: tainted}
		narrow, _ := rules(t).Bind(inside, s)
		wide, _ := rules(t).Bind(outside, s)
		if p := rules(t); !p.Answers(narrow, inside, s) || p.Answers(narrow, outside, s) ||
			!p.Answers(wide, inside, s) || !p.Answers(wide, outside, s) {
			t.Errorf("tainted %v: they are %+v and %+v", tainted, narrow, wide)
		}
		if !strings.Contains(narrow.String(), "no network") || strings.Contains(wide.String(), "no network") {
			t.Errorf("they are shown as %q and %q", narrow, wide)
		}
	}
}
