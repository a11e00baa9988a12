package skills_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/skills"
)

// index is the prompt without what stands above the index.
func (b bench) index() string {
	b.Helper()
	lead, rest, found := strings.Cut(b.store.Prompt(), "\n\n")
	if !found || !strings.Contains(lead, "skills.read") {
		b.Fatalf("the prompt begins with %q", lead)
	}
	return rest
}

func TestThePromptHasTheIndexAndThePagesThatAreAlwaysThere(t *testing.T) {
	b := newBench(t)
	b.skill(t, "tea", "Makes tea.\n  Use it when cold.")
	b.write(t, "manners", "---\nname: manners\ndescription: How to speak.\nalways: true\n---\n\nBe kind.\n\n")
	b.write(t, "haste", "---\nname: haste\ndescription: How to hurry.\nalways: true\n---\nDo not.")
	want := "- haste: How to hurry.\n- manners: How to speak.\n- tea: Makes tea. Use it when cold.\n\n## Skill " +
		"haste\n\nDo not.\n\n## Skill manners\n\nBe kind.\n"
	for range 3 {
		if got := b.index(); got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
	if b.log.Len() > 0 {
		t.Errorf("the log has %s", b.log)
	}
}

func TestAChangeIsInTheNextPrompt(t *testing.T) {
	b := newBench(t)
	b.write(t, "manners", "---\nname: manners\ndescription: How to speak.\nalways: true\n---\nBe kind.")
	for _, step := range []struct {
		change func()
		want   string
	}{
		{func() {}, "- manners: How to speak.\n\n## Skill manners\n\nBe kind.\n"},
		{func() {
			b.write(t, "manners", "---\nname: manners\ndescription: How to speak.\nalways: true\n---\nBe just.")
		}, "- manners: How to speak.\n\n## Skill manners\n\nBe just.\n"},
		{
			func() { b.skill(t, "tea", "Makes tea.") },
			"- manners: How to speak.\n- tea: Makes tea.\n\n## Skill manners\n\nBe just.\n",
		},
		{func() { must(t, os.RemoveAll(b.path("manners"))) }, "- tea: Makes tea.\n"},
		{
			func() { must(t, os.Rename(b.path("tea"), b.path("coffee"))); b.skill(t, "coffee", "Makes coffee.") },
			"- coffee: Makes coffee.\n",
		},
	} {
		step.change()
		b.store.Renew()
		if got := b.index(); got != step.want {
			t.Errorf("got  %q\nwant %q", got, step.want)
		}
	}
}

func TestAnIndexThatIsTooLongIsCutAndSaysByHowMuch(t *testing.T) {
	b := newBench(t)
	for i := range 40 {
		b.skill(t, fmt.Sprintf("s%02d", i), strings.Repeat("x", 400))
	}
	index := b.index()
	lines := strings.SplitAfter(strings.TrimSuffix(index, "\n"), "\n")
	last := lines[len(lines)-1]
	if len(index) > skills.MaxIndex || len(index) < skills.MaxIndex-500 ||
		last != fmt.Sprintf("- (%d more have no room here: skills.list has them all)", 40-len(lines)+1) {
		t.Errorf("%d bytes, and the last line is %q", len(index), last)
	}
	b.index()
	if n := strings.Count(b.log.String(), "has no room for"); n != 1 {
		t.Errorf("it is logged %d times: %s", n, b.log)
	}
}

func TestAnIndexOfExactlyTheLimitIsWhole(t *testing.T) {
	for over, cut := range map[int]bool{0: false, 1: true} {
		b := newBench(t)
		left := skills.MaxIndex + over
		for i := 0; left > 0; i++ {
			name := fmt.Sprintf("s%02d", i)
			description := min(1000, left-len("- : \n")-len(name))
			if rest := left - 1000 - len("- : \n") - len(name); rest > 0 && rest < 100 {
				description -= 100 // so that the last has room for a description
			}
			b.skill(t, name, strings.Repeat("x", description))
			left -= description + len("- : \n") + len(name)
		}
		if got := strings.Contains(b.index(), "have no room"); got != cut {
			t.Errorf("%d bytes over the limit: cut %v", over, got)
		}
	}
}

func TestPagesThatAreAlwaysThereHaveALimitTogether(t *testing.T) {
	b := newBench(t)
	always := func(name string, size int) {
		b.write(t, name, page("name: "+name, "description: x", "always: true")+strings.Repeat("x", size))
	}
	always("a", 20<<10)
	always("b", 20<<10)
	always("c", 10<<10)
	always("d", skills.MaxAlways+1)
	for range 2 {
		index := b.index()
		if !strings.HasPrefix(index, "- a: x\n- b: x\n- c: x\n- d: x\n\n## Skill a\n") ||
			strings.Count(index, "## Skill ") != 2 || !strings.Contains(index, "## Skill c\n") ||
			len(index) > skills.MaxAlways+200 {
			t.Errorf("%d bytes: %.100q", len(index), index)
		}
	}
	for _, name := range []string{"b", "d"} {
		if n := strings.Count(b.log.String(), "the page of the skill "+name+" is not in every prompt"); n != 1 {
			t.Errorf("that %s has no room is logged %d times", name, n)
		}
	}
	always("b", 1<<10) // now it has room, and when it has none again that is news
	b.index()
	always("b", 20<<10)
	b.index()
	if n := strings.Count(b.log.String(), "skill b is not"); n != 2 {
		t.Errorf("it is logged %d times: %s", n, b.log)
	}
}

func TestWhatIsWrongWithASkillIsLoggedOnce(t *testing.T) {
	b := newBench(t)
	b.write(t, "bad", "no front matter")
	b.store.Prompt()
	b.store.Prompt()
	if log := b.log.String(); strings.Count(log, "\n") != 1 || !strings.Contains(log,
		"skill bad: invalid: it does not begin with front matter (the first line is ---") {
		t.Errorf("the log has %s", log)
	}
}

// BenchmarkTurn: what a turn spends on as many skills as there may be, none of them changed. A look that still holds is
// what most turns have, and a chat can have skills of its own beside those of its agent and its account. The first turn
// of a second looks. The turn after a word of a command looks at each skill, as all turns do where nothing is watched.
func BenchmarkTurn(b *testing.B) {
	chat := corebot.Key{Agent: "main", Channel: "test", Account: "work", Chat: "c"}
	for _, n := range []int{0, 10, skills.MaxSkills} {
		for _, c := range []struct {
			name   string
			scopes []string
			looks  string
		}{
			{"held", []string{skills.Dir}, ""},
			{"looks", []string{skills.Dir}, "again"},
			{"renewed", []string{skills.Dir}, "at each"},
			{"held,own", []string{skills.Dir, skills.DirOf(chat.InChannel()), skills.DirOf(chat)}, ""},
			{"looks,own", []string{skills.Dir, skills.DirOf(chat.InChannel()), skills.DirOf(chat)}, "again"},
			{"renewed,own", []string{skills.Dir, skills.DirOf(chat.InChannel()), skills.DirOf(chat)}, "at each"},
		} {
			b.Run(fmt.Sprintf("skills=%d/%s", n, c.name), func(b *testing.B) {
				bench := newBench(b)
				for _, dir := range c.scopes {
					must(b, os.MkdirAll(filepath.Join(bench.dir, filepath.FromSlash(dir)), 0o700))
					for i := range n {
						bench.write(b, fmt.Sprintf("../%s/s%03d", dir, i), page(fmt.Sprintf("name: s%03d", i),
							"description: Does the work of the kind "+fmt.Sprint(i)+".",
							"tools: [web.search]")+strings.Repeat("text ", 1000))
					}
				}
				waitUntilSettled()
				turn := func() { bench.store.Prompt(); bench.store.Here(chat, nil, "hello") }
				turn()
				begun := processorTime(b)
				for b.Loop() {
					switch c.looks {
					case "again":
						bench.store.Age(time.Second)
					case "at each":
						bench.store.Renew()
					}
					turn()
				}
				b.ReportMetric(float64(processorTime(b)-begun)/float64(b.N), "cpu-ns/op")
			})
		}
	}
}

// processorTime is what this process has used until now: unlike the time on the wall, other processes change it little.
func processorTime(t testing.TB) int64 {
	t.Helper()
	var used syscall.Rusage
	must(t, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return used.Utime.Nano() + used.Stime.Nano()
}

// waitUntilSettled: what was changed just now is read again each time, since it could change once more without a sign
// of it.
func waitUntilSettled() { time.Sleep(2100 * time.Millisecond) }

func TestATurnIsToldOfSkillsThatItsMessageOrItsChatCallsFor(t *testing.T) {
	b := newBench(t)
	b.skill(t, "plain", "Always there.")
	b.skill(t, "tea", "Makes tea.\ntrigger: keyword\nkeywords: [Tea, hot water]")
	b.skill(t, "vault", "Opens the vault.\ntrigger: manual")
	const told, off = "skills for this message, beside those of the index:\n", "skills that are switched off in this " +
		"chat, do not use them: "
	if index := b.store.Prompt(); !strings.Contains(index, "- plain: ") || strings.Contains(index, "tea") ||
		strings.Contains(index, "vault") {
		t.Errorf("the index is %q", index)
	}
	for _, c := range []struct {
		choices       corebot.SkillChoices
		message, want string
	}{
		{nil, "hello", ""},
		{nil, "a cup of TEA, please", told + "- tea: Makes tea."},
		{corebot.SkillChoices{"tea": false}, "tea", off + "tea"},
		{corebot.SkillChoices{"vault": true}, "hello", told + "- vault: Opens the vault."},
		{corebot.SkillChoices{"plain": false, "gone": true}, "hello", off + "plain"},
	} {
		if got := b.store.Here(corebot.Key{Agent: "main"}, c.choices, c.message); got != c.want {
			t.Errorf("%v, %q: %q, want %q", c.choices, c.message, got, c.want)
		}
	}
}
