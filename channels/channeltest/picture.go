package channeltest

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/memory"
	"github.com/corebot/corebot/channels/channeltest/platform"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/internal/roots"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/tools"
	"github.com/corebot/corebot/tools/builtin"
)

var update = flag.Bool("update", false, "write the pictures of docs/channels.md anew")

// Seen is a message of Corebot, as the programs of a platform show it.
type Seen struct {
	Above   string // the message that it answers, where the platform shows that
	Text    string
	Buttons [][]string // the labels, row by row
}

// Sitter is a channel whose conversation is a picture in docs/channels.md.
type Sitter struct {
	Subject
	Ann, Corebot string // how the platform names them
	Asks         string // the begin of what Ann says to Corebot, as she writes it
	Lines        int    // how many lines of the request the picture has
	Look         func() []Seen
	Typing       func() int // how often typing was shown; nil: the platform has none
	// Press has Ann press the first button of the newest message. nil: she writes the command.
	Press func()
	// Slashes says that Ann writes commands with a slash: no program of the platform keeps it for itself.
	Slashes bool
}

const (
	asksFor   = "Look into the build, please, and note what you find."
	approves  = "!approve 1"
	requested = "/deny 1 stop also ends the answer." // the end of a request
	answers   = "The test waited for a port that was taken. I have written notes/build.md."
	thinks    = 6 * time.Second
)

// Picture has Ann ask for something that waits for her approval, and holds what the platform shows against the first
// picture of the section in docs/channels.md. It writes the picture with -update.
func Picture(t *testing.T, heading string, sitter func(t *testing.T) Sitter) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 11, 3, 12, 0, 0, 0, time.UTC)))
		platform.InMemory(t)
		s := sitter(t)
		r := &rig{Subject: s.Subject, t: t, dir: t.TempDir()}
		r.model = apptest.Script(apptest.After(thinks, apptest.Asks(apptest.Call("a", "fs.write",
			`{"path":"notes/build.md","content":"port 8080 was taken"}`))),
			apptest.After(thinks, apptest.Text(answers)))
		r.alter = r.mayWrite
		if r.ID == nil {
			r.ID = func(id string) string { return id }
		}
		r.start()
		defer func() { r.stop() }()
		synctest.Wait() // typing is shown of the turns that begin once it listens
		hold(t, heading, r.drawn(s))
	})
}

// mayWrite gives a Corebot a workspace of its own. Each write into it waits for an approval.
func (r *rig) mayWrite(o *apptest.Options) {
	dir := r.t.TempDir()
	root, err := rootfs.New(dir)
	r.must(err)
	r.t.Cleanup(func() { root.Close() })
	workspace, err := os.OpenRoot(dir)
	r.must(err)
	r.t.Cleanup(func() { workspace.Close() })
	disk := roots.NewDisk(o.Policy.Roots)
	r.t.Cleanup(func() { disk.Close() })
	reach := roots.NewReach(root, disk)
	o.Box.Contents, err = tools.NewFiles(reach, workspace, nil)
	r.must(err)
	pages, err := memory.New(root, memory.Options{})
	r.must(err)
	o.Tools = builtin.Workspace(reach, pages, nil)
	o.Policy.Approvals = policy.Approvals{Always: []string{"fs.write"}}
}

// drawn plays the conversation, and gives its picture.
func (r *rig) drawn(s Sitter) string {
	r.t.Helper()
	p := easel{s: s, wide: max(len(s.Ann), len(s.Corebot)) + 2}
	r.say("q", asksFor)
	p.line(s.Ann, s.Asks+asksFor)
	r.within(time.Minute, "the question is stored", func() bool { return len(r.inbound("q")) == 1 })
	r.must(r.kit.Grants.Grant(r.t.Context(), corebot.Grant{
		Principal: r.inbound("q")[0].Sender, Role: corebot.RoleAdmin,
	}))
	ends := func(words string) func() bool {
		return func() bool {
			all := s.Look()
			return len(all) > 0 && strings.HasSuffix(all[len(all)-1].Text, words)
		}
	}
	r.within(comesBack, "the request", ends(requested))
	if s.Typing != nil && s.Typing() > 0 {
		p.line("", s.Corebot+" is typing…")
	}
	p.draw(s.Lines)
	if s.Press != nil {
		s.Press()
		all := s.Look()
		p.line(s.Ann, "presses "+all[len(all)-1].Buttons[0][0])
	} else {
		word := approves
		if s.Slashes {
			word = "/" + word[1:]
		}
		r.say("d", word)
		p.line(s.Ann, s.Asks+word)
	}
	r.within(comesBack, "the answer", ends(answers))
	p.draw(0)
	return p.b.String()
}

// easel draws what is seen, in two columns.
type easel struct {
	s    Sitter
	wide int
	seen int
	b    strings.Builder
}

func (p *easel) line(who, text string) {
	p.b.WriteString(strings.TrimRight(fmt.Sprintf("%-*s%s", p.wide, who, text), " ") + "\n")
}

// draw draws what is new: so many lines of its text and then a sign that there is more; 0: all.
func (p *easel) draw(most int) {
	all := p.s.Look()
	drawn := 0
	for _, m := range all[p.seen:] {
		who := p.s.Corebot
		text := strings.Split(m.Text, "\n")
		if most > 0 && drawn+len(text) > most {
			text = text[:most-drawn]
		}
		drawn += len(text)
		if m.Above != "" {
			text = append([]string{"┌ " + m.Above}, text...)
		}
		for _, line := range text {
			p.line(who, line)
			who = ""
		}
		if most == 0 {
			continue
		}
		if len(m.Buttons) > 0 {
			p.line("", "…")
		}
		for _, row := range m.Buttons {
			p.line("", "[ "+strings.Join(row, " ]  [ ")+" ]")
		}
	}
	if most > 0 && len(all[len(all)-1].Buttons) == 0 {
		p.line("", "…")
	}
	p.seen = len(all)
}

// hold compares a picture with the first one of a section, or writes it there.
func hold(t *testing.T, heading, picture string) {
	t.Helper()
	const page, mark = "../../docs/channels.md", "\n### A conversation\n\n```\n"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, section, is := strings.Cut(string(text), "\n## "+heading+"\n")
	above, conversation, has := strings.Cut(section, mark)
	old, behind, closed := strings.Cut(conversation, "```\n")
	if !is || !has || !closed || strings.Contains(above, "\n## ") {
		t.Fatalf("the section %s of docs/channels.md has no picture", heading)
	}
	if old == picture {
		return
	}
	if !*update {
		t.Errorf("%s shows a conversation otherwise than docs/channels.md: "+
			"go test -p 1 ./channels/... -run PictureOfAnApproval -update\n%s", heading, picture)
		return
	}
	text = []byte(before + "\n## " + heading + "\n" + above + mark + picture + "```\n" + behind)
	if err := os.WriteFile(page, text, 0o644); err != nil { //nolint:gosec // a page of the docs
		t.Fatal(err)
	}
}
