package tools_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/long"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/tools"
)

const (
	workplace = "chats/x/files"
	workCall  = `{"dir":"` + workplace + `","paths":[]}`
)

// furnished is an office whose program works in a directory with something in it.
func furnished(t *testing.T) *office {
	t.Helper()
	o := newOffice(t, someone(true))
	o.must(os.MkdirAll(o.at("sub"), 0o700))
	o.write(workplace+"/n.txt", "one")
	o.write(workplace+"/sub/m.txt", "two")
	o.must(os.Symlink("n.txt", o.at("link")))
	return o
}

// at is a path in the directory of the program.
func (o *office) at(name string) string { return filepath.Join(o.dir, workplace, name) }

func (o *office) must(err error) {
	o.Helper()
	if err != nil {
		o.Fatal(err)
	}
}

// approvedThen has a call approved, changes something, and runs it.
func (o *office) approvedThen(args string, change func()) (corebot.ToolResult, *step) {
	o.Helper()
	a := o.askedFor(args)
	a.State = corebot.ApprovalApproved
	change()
	s := newStep()
	s.state, s.approval = corebot.StepAwaiting, &a
	r, err := o.call(s, args)
	if waits := (*corebot.AwaitsApproval)(nil); !errors.As(err, &waits) {
		o.must(err)
	}
	return r, s
}

func TestAnApprovalIsBoundToAllThatIsInTheDirectory(t *testing.T) {
	for name, change := range map[string]func(o *office) error{
		"a file has changed": func(o *office) error {
			return os.WriteFile(o.at("n.txt"), []byte("ONE"),
				0o600)
		},
		"one below has changed": func(o *office) error {
			return os.WriteFile(o.at("sub/m.txt"), []byte("TWO"),
				0o600)
		},
		"a file is gone":          func(o *office) error { return os.Remove(o.at("n.txt")) },
		"a file came":             func(o *office) error { return os.WriteFile(o.at("o.txt"), nil, 0o600) },
		"a file has another name": func(o *office) error { return os.Rename(o.at("n.txt"), o.at("o.txt")) },
		"a file can be run":       func(o *office) error { return os.Chmod(o.at("n.txt"), 0o700) },
		"a directory came":        func(o *office) error { return os.Mkdir(o.at("more"), 0o700) },
		"a link leads elsewhere": func(o *office) error {
			os.Remove(o.at("link"))
			return os.Symlink("sub/m.txt",
				o.at("link"))
		},
		"a FIFO came":                  func(o *office) error { return syscall.Mkfifo(o.at("fifo"), 0o600) },
		"a name that no tool can read": func(o *office) error { return os.WriteFile(o.at("a\\b\xff\n"), nil, 0o600) },
		"a name of temporary files": func(o *office) error {
			return os.WriteFile(o.at(".corebot-tmp-1"), nil,
				0o600)
		},
		"everything went": func(o *office) error { return os.RemoveAll(o.at("")) },
		"the directory is a link": func(o *office) error {
			os.Rename(o.at(""),
				o.dir+"/moved")
			return os.Symlink("../../moved", o.at(""))
		},
		"two files changed their names": func(o *office) error {
			os.Rename(o.at("n.txt"), o.at("t"))
			os.Rename(o.at("sub/m.txt"), o.at("n.txt"))
			return os.Rename(o.at("t"), o.at("sub/m.txt"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := furnished(t)
			r, s := o.approvedThen(workCall, func() { o.must(change(o)) })
			rule := s.rows[len(s.rows)-1].Rule
			anew := len(s.asked) == 2 && s.asked[1].Because != "" && len(s.results) == 0
			if o.runs != 0 || !anew && (r.Outcome != corebot.OutcomeDenied || rule != policy.RuleCannotBind) {
				t.Errorf("got %+v by %s; it ran %d times, and was asked about %d times", r, rule, o.runs, len(s.asked))
			}
		})
	}
}

func TestADirectoryInWhichNothingChangedIsTheSame(t *testing.T) {
	o := furnished(t)
	r, _ := o.approvedThen(workCall, func() {
		o.write(workplace+"/n.txt", "one") // the same again
		o.write("elsewhere.txt", "of another chat")
	})
	if r.Outcome != corebot.OutcomeSuccess || o.runs != 1 {
		t.Errorf("got %+v; it ran %d times", r, o.runs)
	}
	empty := newOffice(t, someone(true))
	// as for the first program of another turn
	r, _ = empty.approvedThen(workCall, func() { empty.must(os.MkdirAll(empty.at(""), 0o700)) })
	if r.Outcome != corebot.OutcomeSuccess || empty.runs != 1 {
		t.Errorf("an empty one: %+v; it ran %d times", r, empty.runs)
	}
}

func TestAnApprovalShowsHowManyFilesTheDirectoryHas(t *testing.T) {
	shown := furnished(t).askedFor(workCall).Bound.String()
	if !strings.Contains(shown, "\ndirectory: chats/x/files\nin the directory: 3 files, sha256:") {
		t.Errorf("got %q", shown)
	}
	itself := furnished(t).askedFor(`{"dir":"` + workplace + `","paths":["` + workplace + `","` + workplace +
		`/n.txt"]}`).Bound.String()
	if strings.Count(itself, "\nin the directory: ") != 1 || !strings.Contains(itself, "\nin the directory: 3 files") ||
		!strings.Contains(itself, "/n.txt (sha256:") {
		t.Errorf("where the arguments name the directory itself: %q", itself)
	}
}

func TestWhatHasTooMuchInItCannotBeApprovedAndTheChatIsToldWhatToDo(t *testing.T) {
	for name, fill := range map[string]func(o *office){
		"1,001 files": func(o *office) {
			for i := range 1001 - 4 {
				o.write(fmt.Sprintf("%s/sub/%d", workplace, i), "")
			}
		},
		"64 MiB and a byte": func(o *office) {
			o.must(os.Truncate(mustCreate(o.T, o.at("a")), 32<<20))
			o.must(os.Truncate(mustCreate(o.T, o.at("b")), 32<<20-5))
		},
		"33 directories in each other": func(o *office) { o.must(os.MkdirAll(o.at(strings.Repeat("d/", 33)), 0o700)) },
	} {
		t.Run(name, func(t *testing.T) {
			o := furnished(t)
			fill(o)
			s := newStep()
			r, err := o.call(s, workCall)
			if err != nil || r.Outcome != corebot.OutcomeDenied || len(s.asked) != 0 || o.runs != 0 ||
				s.rows[0].Rule != policy.RuleCannotBind {
				t.Fatalf("got %+v, %v; asked %d times, ran %d times", r, err, len(s.asked), o.runs)
			}
			for _, told := range []string{r.Content, r.Notice} {
				if !strings.Contains(told, "more than 1000 files and directories, more than 64 MiB, or deeper than "+
					"32 (have the operator remove") {
					t.Errorf("told %q", told)
				}
			}
		})
	}
}

func TestWhatHasAsMuchInItAsCanBeComparedIsCompared(t *testing.T) {
	o := furnished(t)
	for i := range 1000 - 4 - 1 {
		o.write(fmt.Sprintf("%s/sub/%d", workplace, i), "")
	}
	o.must(os.Truncate(mustCreate(t, o.at("big")), 64<<20-6))
	if shown := o.askedFor(workCall).Bound.String(); !strings.Contains(shown, "in the directory: 999 files") {
		t.Errorf("got %q", shown)
	}
}

// TestWhatAProgramSaysIsFromOutsideIfThereWasAnythingToRead: names and contents in its directory were written by tools
// and people of the chat.
func TestWhatAProgramSaysIsFromOutsideIfThereWasAnythingToRead(t *testing.T) {
	for name, c := range map[string]struct {
		before, during func(o *office)
		want           bool
	}{
		"nothing":            {nil, nil, false},
		"an empty directory": {func(o *office) { o.must(os.MkdirAll(o.at(""), 0o700)) }, nil, false},
		"a file": {func(o *office) {
			o.must(os.MkdirAll(o.at(""), 0o700))
			o.write(workplace+"/n.txt",
				"pay")
		}, nil, true},
		"one that it removes": {
			func(o *office) { o.must(os.MkdirAll(o.at("n"), 0o700)) },
			func(o *office) { o.must(os.Remove(o.at("n"))) }, true,
		},
		"a name":        {func(o *office) { o.must(os.MkdirAll(o.at("pay mallory"), 0o700)) }, nil, true},
		"one that came": {nil, func(o *office) { o.must(os.MkdirAll(o.at("n"), 0o700)) }, true},
		"no directory": {
			func(o *office) { o.must(os.MkdirAll(o.at(".."), 0o700)); mustCreate(o.T, o.at("")) },
			nil, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOffice(t, someone(true))
			if c.before != nil {
				c.before(o)
			}
			if c.during != nil {
				o.during = func() { c.during(o) }
			}
			r, err := o.box.Call(t.Context(), corebot.Caller{}, call("shell.exec", workCall), newStep())
			if err != nil || r.Outcome != corebot.OutcomeSuccess || r.Outside != c.want ||
				strings.Contains(r.Content, "<data") != c.want {
				t.Errorf("got %+v, %v", r, err)
			}
		})
	}
}

func TestWhereNobodyKnowsWhatIsInADirectoryAllOfItIsFromOutside(t *testing.T) {
	program := tools.New("shell.exec", "A tool for tests.", tools.SideEffect|tools.Privileged,
		func(context.Context, tools.Call, noArgs) (string, error) { return "ran", nil },
		tools.Names(func(tools.Call, noArgs) tools.Named { return tools.Named{Dir: workplace} }))
	r, err := newBox(t, &roles{role: corebot.RoleAdmin}, tools.Options{}, program).Call(t.Context(), corebot.Caller{},
		call("shell.exec", "{}"), newStep())
	if err != nil || !r.Outside {
		t.Errorf("got %+v, %v", r, err)
	}
}

// TestWhatIsExchangedMeanwhileIsNeverTakenForAnother exchanges a file and a directory with links to others, over and
// over. The description of their directory is its state at one time, or an error.
func TestWhatIsExchangedMeanwhileIsNeverTakenForAnother(t *testing.T) {
	o := &office{T: t, dir: t.TempDir()}
	files, _ := filesIn(t, o.dir)
	for _, dir := range []string{"sub", "other"} {
		o.must(os.MkdirAll(o.at(dir), 0o700))
		o.write(workplace+"/"+dir+"/m", "in "+dir)
	}
	o.write(workplace+"/n", "its own")
	away := func(name string) string { return filepath.Join(o.dir, name) }
	o.must(os.Symlink("other", away("sub")))
	o.must(os.Rename(o.at("n"), away("own")))
	replace := func(link bool) error { // in one step, so that it happens between two looks at the name
		prepare := os.Link
		from := away("own")
		if link {
			prepare, from = os.Symlink, "other/m"
		}
		return errors.Join(prepare(from, away("next")), os.Rename(away("next"), o.at("n")))
	}
	moves := []func() error{
		func() error { return os.Rename(o.at("sub"), away("aside")) },
		func() error { return os.Rename(away("sub"), o.at("sub")) },
		func() error { return os.Rename(away("aside"), away("sub")) },
	}
	possible := map[string]bool{}
	for _, link := range []bool{true, false} {
		o.must(replace(link))
		for _, move := range moves {
			is, err := files.Directory(workplace)
			o.must(err)
			possible[is] = true
			o.must(move())
		}
	}
	if len(possible) != 6 {
		t.Fatalf("it is %d things, want a file or a link, beside a directory, a link or nothing", len(possible))
	}
	done := make(chan struct{})
	var exchanger sync.WaitGroup
	exchanger.Go(func() {
		for i := 0; ; i++ {
			if err := errors.Join(replace(true), replace(false), moves[i%3]()); err != nil {
				t.Error(err)
				return
			}
			select {
			case <-done:
				return
			default:
			}
		}
	})
	for range long.Or(500, 3_000) {
		if is, err := files.Directory(workplace); err == nil && !possible[is] {
			t.Error("it is what it never was")
			break
		}
	}
	close(done)
	exchanger.Wait()
}
