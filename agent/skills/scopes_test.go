package skills_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/skills"
	"github.com/corebot/corebot/internal/long"
)

// alike are keys that differ in one field, in case, in escapes, in a letter of another script, or in where a colon is.
func alike() []corebot.Key {
	k := corebot.Key{Agent: "main", Channel: "test", Account: "work", Chat: "c"}
	with := func(change func(*corebot.Key)) corebot.Key {
		other := k
		change(&other)
		return other
	}
	return []corebot.Key{
		k,
		with(func(k *corebot.Key) { k.Agent = "helper" }),
		with(func(k *corebot.Key) { k.Channel = "test2" }),
		with(func(k *corebot.Key) { k.Channel = "Test" }),
		with(func(k *corebot.Key) { k.Account = "" }),
		with(func(k *corebot.Key) { k.Account = "work:c" }),
		with(func(k *corebot.Key) { k.Chat = "C" }),
		with(func(k *corebot.Key) { k.Chat = "с" }), // Cyrillic
		with(func(k *corebot.Key) { k.Chat = "c:7" }),
		with(func(k *corebot.Key) { k.Chat = "c%3A7" }),
		with(func(k *corebot.Key) { k.Chat = "../@" + k.Chat }),
		with(func(k *corebot.Key) { k.Chat = "main:test:work:c" }),
		with(func(k *corebot.Key) { k.Chat = strings.Repeat("x", 500) }),
		with(func(k *corebot.Key) { k.Chat = strings.Repeat("x", 499) + "y" }),
		// what another agent is asked from there
		with(func(k *corebot.Key) { k.Channel, k.Chat = "agent", k.String() }),
	}
}

// scoped writes a skill that only a chat, or only an account, has.
func (b bench) scoped(k corebot.Key, name string, lines ...string) {
	b.Helper()
	dir := filepath.Join(b.dir, filepath.FromSlash(skills.DirOf(k)), name)
	must(b, os.MkdirAll(dir, 0o700))
	text := page(append([]string{"name: " + name}, lines...)...) + "do " + lines[0]
	must(b, os.WriteFile(filepath.Join(dir, skills.FileName), []byte(text), 0o600))
	b.store.Renew()
}

// Each chat has a skill of its own under one name. It is told of its own alone: in the list, by reading, and in its
// turns. The common index has none of them.
func TestASkillOfOneChatReachesNoChatThatLooksLikeIt(t *testing.T) {
	b := newBench(t)
	b.skill(t, "common", "For all.")
	for i, k := range alike() {
		b.scoped(k, "secret", fmt.Sprintf("description: secret%dend", i))
	}
	stranger := corebot.Key{Agent: "main", Channel: "test", Account: "work", Chat: "stranger"}
	if strings.Contains(b.store.Prompt(), "secret") {
		t.Errorf("the common index is %q", b.store.Prompt())
	}
	all := append(alike(), stranger)
	for i, k := range all {
		found, err := b.store.AllFor(k)
		must(t, err)
		told := b.store.Here(k, nil, "the secret")
		var names, texts []string
		for _, s := range found.Skills {
			names, texts = append(names, s.Name), append(texts, s.Description)
		}
		_, text, err := b.store.ReadFor(k, "secret")
		if k == stranger {
			if err == nil || told != "" || !slices.Equal(names, []string{"common"}) {
				t.Errorf("the stranger has %q, is told %q and reads %q", names, told, text)
			}
			continue
		}
		own := fmt.Sprintf("secret%dend", i)
		joined := strings.Join(texts, " ") + told + text
		if err != nil || strings.Count(joined, "secret") != 3+strings.Count(joined, "- secret:") ||
			strings.Count(joined, own) != 3 || !slices.Equal(names, []string{"common", "secret"}) {
			t.Errorf("%s has %q, is told %q and reads %q: %v", k, texts, told, text, err)
		}
	}
}

// A thread and a child turn have the skills of their chat. Of one name the chat's counts, then the account's, then the
// agent's, also where it cannot be used: a wrong skill is not replaced by another.
func TestTheNarrowestSkillOfANameCounts(t *testing.T) {
	b := newBench(t)
	chat := corebot.Key{Agent: "main", Channel: "test", Account: "work", Chat: "c"}
	thread, beside, elsewhere := chat, chat, chat
	thread.Thread, beside.Chat, elsewhere.Account = "7", "d", "home"
	child := corebot.Key{Agent: "main", Channel: corebot.JobChannel, Account: "test:work", Chat: "c", Thread: "1:"}
	childBeside, childElsewhere := child, child
	childBeside.Chat, childElsewhere.Account = "d", "test:home"
	b.skill(t, "tea", "of the agent")
	b.skill(t, "milk", "of the agent")
	b.scoped(chat.InChannel(), "tea", "description: of the account")
	b.scoped(chat, "tea", "description: of the chat")
	b.scoped(chat, "milk", "description: of the chat", "nonsense")
	for k, want := range map[corebot.Key]string{
		chat: "of the chat", thread: "of the chat", child: "of the chat", beside: "of the account",
		childBeside: "of the account", childElsewhere: "of the agent",
		elsewhere: "of the agent", {Agent: "main"}: "of the agent",
	} {
		skill, _, err := b.store.ReadFor(k, "tea")
		if err != nil || skill.Description != want {
			t.Errorf("%s reads %q: %v, want %q", k, skill.Description, err, want)
		}
		if told := b.store.Here(k, nil, ""); strings.Contains(told, "- tea: "+want) == (want == "of the agent") {
			t.Errorf("%s is told %q", k, told)
		}
		off := corebot.SkillChoices{"tea": false}
		if told := b.store.Here(k, off, ""); strings.Contains(told, "- tea") || strings.Count(told, " tea") != 1 {
			t.Errorf("with tea off %s is told %q", k, told)
		}
	}
	if _, _, err := b.store.ReadFor(chat, "milk"); err == nil {
		t.Error("the chat's skill is wrong, and another one is read in its place")
	}
	// The directories of scopes take no place among the skills of the agent.
	for i := range skills.MaxSkills - 2 {
		b.skill(t, fmt.Sprintf("s%03d", i), "x")
	}
	if found, err := b.store.All(); err != nil || found.More != 0 || len(found.Skills) != skills.MaxSkills {
		t.Errorf("%d skills, and %d more: %v", len(found.Skills), found.More, err)
	}
	// The next turn sees which skills are gone and which are new.
	must(t, os.RemoveAll(filepath.Join(b.dir, filepath.FromSlash(skills.DirOf(chat)))))
	if skill, _, err := b.store.ReadFor(chat, "tea"); err != nil || skill.Description != "of the account" {
		t.Errorf("then the chat reads %q: %v", skill.Description, err)
	}
	b.scoped(elsewhere, "tea", "description: new")
	if told := b.store.Here(elsewhere, nil, ""); !strings.Contains(told, "- tea: new") {
		t.Errorf("the other is told %q", told)
	}
}

// A list that was told is kept for the next one. A store that kept nothing tells the same, in any order of changes,
// messages and switches.
func TestWhatIsKeptOfATurnIsWhatANewStoreTells(t *testing.T) {
	b, chance := newBench(t), rand.New(rand.NewPCG(22, 1))
	chat := corebot.Key{Agent: "main", Channel: "test", Account: "work", Chat: "c"}
	other := chat
	other.Chat = "d"
	places := []corebot.Key{chat, other, chat.InChannel()}
	triggers := [][]string{{}, {}, {"trigger: keyword", "keywords: [rain]"}, {"trigger: manual"}}
	name := func() string { return fmt.Sprint("s", chance.IntN(3)) }
	said, empty := map[string]bool{}, 0
	turns := long.Or(80, 400)
	for i := range turns {
		lines := append([]string{fmt.Sprint("description: It is of turn ", i)}, triggers[chance.IntN(len(triggers))]...)
		place := places[chance.IntN(len(places))]
		switch chance.IntN(8) {
		case 0:
			b.scoped(place, name(), lines...)
		case 1:
			b.skill(t, name(), fmt.Sprint("It is of turn ", i), lines[1:]...)
		case 2:
			must(t, os.RemoveAll(filepath.Join(b.dir, filepath.FromSlash(skills.DirOf(place)), name())))
			b.store.Renew()
		}
		var choices corebot.SkillChoices
		if chance.IntN(3) == 0 {
			choices = corebot.SkillChoices{name(): chance.IntN(2) == 0}
		}
		k, message := places[chance.IntN(2)], []string{"sun", "rain"}[chance.IntN(2)]
		b.store.Prompt()
		got := b.store.Here(k, choices, message)
		fresh := newBenchIn(t, b.dir).store
		fresh.Prompt()
		if want := fresh.Here(k, choices, message); got != want {
			t.Fatalf("%d: %s is told %q, and a new store tells %q", i, k, got, want)
		}
		if said[got] = true; got == "" {
			empty++
		}
	}
	if len(said) < turns/20 || empty > turns/2 {
		t.Errorf("%d different things were said, and %d times nothing", len(said), empty)
	}
}
