package router_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/storage"
)

// newBureau is a Corebot whose tools can be bound: a program, tools of an MCP server, pages, and files. Its admin is
// root. It asks about writing files and searching in tainted turns, too.
func newBureau(t *testing.T, o apptest.Options) *bureau {
	t.Helper()
	o.Policy.Approvals.Tainted = append(o.Policy.Approvals.Tainted, "fs.write", "web.search")
	return setUp(t, o, 0)
}

// does has root's turn obey a script in a chat, and gives how its message stands then.
func (d *bureau) does(chat, id, script string) string {
	d.say(d.counter, "root", chat, id, "task "+id+" do: "+script)
	pass(time.Second)
	return d.Life(id).State
}

// answers has somebody give a command, and gives what he is told.
func (d *bureau) answers(who, chat, id, command string) string {
	d.SayAs(who, chat, id, command)
	pass(time.Second)
	var told []string
	for _, m := range d.Told(id) {
		told = append(told, m.Text())
	}
	return strings.Join(told, "\n")
}

const waits = "waiting: approval"

// TestAnApprovalForTheSessionLastsUntilTheSessionEnds, and counts for nothing else.
func TestAnApprovalForTheSessionLastsUntilTheSessionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newBureau(t, apptest.Options{})
		taint := "mcp__mail__list x; "
		if state := d.does("a", "1", taint+"fs.write notes/a.md"); state != waits {
			t.Fatalf("it is %s", state)
		}
		asked := d.Told("1")[0]
		if text := asked.Text(); !strings.Contains(text, "fs.write of any file below notes, with any content, also in "+
			"turns that have read text from outside") || !strings.Contains(text, "/approve 1 session") {
			t.Errorf("the request says\n%s", text)
		}
		if told := d.answers("root", "a", "2", "/approve 1 session"); !strings.Contains(told, "in this session") {
			t.Errorf("told %q", told)
		}
		d.WantEnd("1", corebot.EndAnswered)
		for id, c := range map[string]struct{ chat, script, state string }{
			"same":   {"a", taint + "fs.write notes/a.md", ""},
			"below":  {"a", taint + "fs.write notes/deep/b.md; fs.write notes/c.md", ""},
			"clean":  {"b", "fs.write notes/a.md", ""},
			"chat":   {"c", taint + "fs.write notes/a.md", waits},
			"beside": {"a", taint + "fs.write notesx/a.md", waits},
		} {
			if state := d.does(c.chat, id, c.script); (state == waits) != (c.state == waits) {
				t.Errorf("%s is %s", id, state)
			}
			d.answers("root", c.chat, id+"x", "/stop")
		}
		d.does("a", "up", taint+"fs.write notes/../other.md")
		if d.ran["fs.write notes/../other.md"] > 0 {
			t.Error("a way out of the directory was written")
		}
		d.answers("root", "a", "s", "/stop")
		d.answers("root", "a", "new", "/new")
		if state := d.does("a", "after", taint+"fs.write notes/a.md"); state != waits {
			t.Errorf("in the next session it is %s", state)
		}
		if told := d.answers("root", "a", "l", "/rules"); !strings.Contains(told, "No approval lasts") {
			t.Errorf("told %q", told)
		}
	})
}

// TestATurnThatBeginsASessionHasNothingOfTheOneBefore, and what is granted in it is the new session's.
func TestATurnThatBeginsASessionHasNothingOfTheOneBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newBureau(t, apptest.Options{})
		d.does("a", "1", "mcp__mail__list x; shell.exec make all")
		d.answers("root", "a", "2", "/approve 1 session")
		d.scripts["fresh"] = "mcp__mail__list x; shell.exec make all"
		d.SayAs("root", "a", "3", "/new fresh")
		pass(time.Second)
		if state := d.Life("3").State; state != waits {
			t.Fatalf("in the first turn of a session it is %s", state)
		}
		d.answers("root", "a", "4", "/approve 2 session")
		d.WantEnd("3", corebot.EndAnswered)
		if state := d.does("a", "5", "mcp__mail__list x; shell.exec make all"); state == waits {
			t.Errorf("in the same session it is %s", state)
		}
	})
}

// TestAnApprovalForAlwaysLastsUntilSomebodyRevokesIt, across sessions and restarts, and the audit names the rule.
func TestAnApprovalForAlwaysLastsUntilSomebodyRevokesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newBureau(t, apptest.Options{})
		script := "mcp__mail__list x; shell.exec make all"
		d.does("a", "1", script)
		d.answers("root", "a", "2", "/approve 1 always")
		d.answers("root", "a", "new", "/new")
		if state := d.does("a", "3", script); state == waits {
			t.Fatalf("after /new it is %s", state)
		}
		if d.ran["shell.exec make all"] != 2 {
			t.Errorf("it ran %v", d.ran)
		}
		rows, err := storage.NewAudit(d.DB).List(t.Context(), corebot.AuditFilter{Tool: "shell.exec", Decisions: true})
		must(t, err)
		if rows[0].Rule != "approval-rule 1" || rows[1].Rule != "approval-rule 1" || rows[1].Event != "tool.decision" {
			t.Errorf("the audit says %+v", rows[:2])
		}
		for _, other := range []string{
			"shell.exec make", "shell.exec make all more", "shell.exec make allx", "shell.exec sh all", "mcp.reload x",
		} {
			if state := d.does("a", other, "mcp__mail__list x; "+other); state != waits {
				t.Errorf("%s is %s", other, state)
			}
			d.answers("root", "a", "no "+other, "/stop")
		}
		told := d.answers("root", "a", "l", "/rules")
		if !strings.Contains(told, "1: shell.exec of make all: exactly this program with these arguments") ||
			!strings.Contains(told, "always") {
			t.Errorf("told %q", told)
		}
		if told := d.answers("bob", "a", "r0", "/rules revoke 1"); !strings.Contains(told, "Only an admin") {
			t.Errorf("bob is told %q", told)
		}
		if told := d.answers("root", "b", "r1", "/rules revoke 1"); !strings.Contains(told, "no rule 1") {
			t.Errorf("in another chat told %q", told)
		}
		if told := d.answers("root", "a", "r2", "/rules revoke 1"); !strings.Contains(told, "Rule 1 is revoked") {
			t.Errorf("told %q", told)
		}
		if told := d.answers("root", "a", "r3", "/rules revoke 1"); !strings.Contains(told, "no rule 1") {
			t.Errorf("revoked twice: told %q", told)
		}
		if state := d.does("a", "4", script); state != waits {
			t.Errorf("after the end of the rule it is %s", state)
		}
	})
}

// TestARuleIsOfOnePrincipalAndOfWhoMadeIt: another admin's calls ask, and so does everybody once its maker is no admin.
func TestARuleIsOfOnePrincipalAndOfWhoMadeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newBureau(t, apptest.Options{})
		d.admin(t, "boss", corebot.Key{})
		script := "mcp__mail__list x; shell.exec make all"
		d.does("a", "1", script)
		d.answers("boss", "a", "2", "/approve 1 always")
		if state := d.does("a", "3", script); state == waits {
			t.Fatalf("root's is %s", state)
		}
		d.say(d.counter, "boss", "a", "4", "mine do: "+script)
		pass(time.Second)
		if state := d.Life("4").State; state != waits {
			t.Errorf("another admin's is %s", state)
		}
		d.answers("boss", "a", "5", "/deny 2 stop")
		d.answers("root", "a", "new", "/new") // boss has spoken in the session
		must(t, d.Grants.Revoke(t.Context(), apptest.Person("boss"), corebot.Key{}))
		if state := d.does("a", "6", script); state != waits {
			t.Fatalf("of a maker who is no admin it is %s", state)
		}
		if text := d.Told("6")[0].Text(); !strings.Contains(text, "Rule 1 does not answer for this call any more") {
			t.Errorf("the request says\n%s", text)
		}
	})
}

// TestARuleReachesNoFurtherThanItsRequest: not another principal, no turn outside of the session, not beyond the chat.
func TestARuleReachesNoFurtherThanItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newBureau(t, apptest.Options{})
		script := "mcp__mail__list x; mcp__mail__send late"
		d.does("a", "1", script)
		d.answers("root", "a", "2", "/approve 1 session")
		for name, c := range map[string]struct {
			who  corebot.Caller
			want int
		}{
			"its turns":       {corebot.Caller{Key: apptest.Key("a"), Principal: apptest.Person("root")}, 1},
			"of another":      {corebot.Caller{Key: apptest.Key("a"), Principal: apptest.Person("bob")}, 0},
			"in another chat": {corebot.Caller{Key: apptest.Key("b"), Principal: apptest.Person("root")}, 0},
			"apart": {corebot.Caller{
				Key: apptest.Key("a"), Principal: apptest.Person("root"),
				Apart: true,
			}, 0},
			"of a next session": {corebot.Caller{
				Key: apptest.Key("a"), Principal: apptest.Person("root"),
				Opens: true,
			}, 0},
		} {
			if found, err := d.Approvals.Standing(t.Context(), c.who); err != nil || len(found) != c.want {
				t.Errorf("%s: %+v, %v", name, found, err)
			}
		}
		if state := d.does("a", "3", script); state == waits {
			t.Fatalf("it is %s", state)
		}
		d.Alter("UPDATE approval_rules SET beyond = 0")
		if state := d.does("a", "4", script); state != waits {
			t.Errorf("beyond the chat it is %s", state)
		}
	})
}

// TestARuleEndsWithTheDefinitionOfItsTool, and the request that is asked instead says so.
func TestARuleEndsWithTheDefinitionOfItsTool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newBureau(t, apptest.Options{})
		script := "mcp__mail__list x; mcp__mail__send late"
		d.does("a", "1", script)
		d.answers("root", "a", "2", "/approve 1 always")
		d.WantEnd("1", corebot.EndAnswered)
		if state := d.does("a", "3", script); state == waits {
			t.Fatalf("it is %s", state)
		}
		if state := d.does("a", "4", "mcp__mail__list x; mcp__mail__send other"); state != waits {
			t.Errorf("other arguments of a tainted turn are %s", state)
		}
		d.answers("root", "a", "5", "/stop")
		next := "print-2"
		d.print.Store(&next)
		if state := d.does("a", "6", "mcp__mail__send late"); state != waits {
			t.Fatalf("described anew it is %s", state)
		}
		if text := d.Told("6")[0].Text(); !strings.Contains(text, "what the MCP server says of the tool has changed") ||
			!strings.Contains(text, "approved only once: nobody has approved") {
			t.Errorf("the request says\n%s", text)
		}
	})
}

// TestWhatCannotBeBoundStaysOpen: roles, protected files, and calls that name nothing.
func TestWhatCannotBeBoundStaysOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newBureau(t, apptest.Options{})
		for id, c := range map[string]struct{ script, why string }{
			"reload":    {"mcp.reload x", "names no file, no program"},
			"protected": {"fs.write IDENTITY.md", "protected files"},
			"search":    {"web.search x", "names no file, no program"},
		} {
			chat := "chat " + id
			if state := d.does(chat, id, "mcp__mail__list x; "+c.script); state != waits {
				t.Fatalf("%s is %s", id, state)
			}
			open, err := d.Approvals.Awaited(t.Context(), 1)
			must(t, err)
			number := open[0].Usage()
			number = strings.Fields(number)[1]
			for _, n := range d.Told(id)[0].Notice.Actions {
				if strings.HasPrefix(n.Name, "approve-") {
					t.Errorf("%s offers %s", id, n.Command)
				}
			}
			for _, lasting := range []string{"session", "always"} {
				told := d.answers("root", chat, id+lasting, "/approve "+number+" "+lasting)
				if !strings.Contains(told, "approved only once") || !strings.Contains(told, c.why) ||
					!strings.Contains(told, "still open: /approve "+number) {
					t.Errorf("%s is told %q", id, told)
				}
			}
			if told := d.answers("root", chat, id+"once", "/approve "+number+" once"); !strings.Contains(told,
				"Approved") {
				t.Errorf("%s is told %q", id, told)
			}
			d.WantEnd(id, corebot.EndAnswered)
		}
	})
}

// TestARuleWidensNoRole: who has lost the role makes no call, whatever is stored.
func TestARuleWidensNoRole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newBureau(t, apptest.Options{})
		d.admin(t, "boss", corebot.Key{})
		d.admin(t, "ann", corebot.Key{})
		d.say(d.counter, "ann", "a", "1", "first do: mcp__mail__list x; shell.exec make all")
		pass(time.Second)
		d.answers("boss", "a", "2", "/approve 1 always")
		d.WantEnd("1", corebot.EndAnswered)
		must(t, d.Grants.Revoke(t.Context(), apptest.Person("ann"), corebot.Key{}))
		d.say(d.counter, "ann", "a", "3", "again do: shell.exec make all")
		pass(time.Second)
		d.WantEnd("3", corebot.EndAnswered)
		if d.ran["shell.exec make all"] != 1 {
			t.Errorf("it ran %d times", d.ran["shell.exec make all"])
		}
	})
}

// TestNoProgramBinds: each entry without a person is denied with the new words too.
func TestNobodyButAPersonBinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newBureau(t, apptest.Options{})
		d.does("a", "1", "mcp__mail__list x; shell.exec make all")
		for _, command := range []string{"/approve 1 session", "/approve 1 always", "/approve 1 once"} {
			d.PostAs("root", "a", command, command)
			pass(time.Second)
			told := d.Told(command)
			if len(told) != 1 || !strings.Contains(told[0].Text(), "Only a person can approve") {
				t.Errorf("%s is told %+v", command, told)
			}
		}
		if found, err := d.Approvals.RulesOf(t.Context(), apptest.Key("a"), 10); err != nil || len(found) > 0 {
			t.Errorf("there are %+v, %v", found, err)
		}
	})
}
