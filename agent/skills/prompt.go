package skills

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/corebot/corebot"
)

// lead stands above the index.
const lead = "Each skill is a page of instructions for one kind of work. Before work that one of these describes, " +
	"read its page with skills.read.\n\n"

// prompted is what the prompt says of the skills that a look found.
type prompted struct {
	sight
	err     error // why there was nothing to see
	text    string
	waiting bool // a skill waits for its keyword, or to be switched on
}

// holds is how long a look at the skills is good for the prompts of turns.
const holds = time.Second

// held is a prompt, and when the skills were last looked at for it.
type held struct {
	*prompted
	at      time.Time
	changes uint64 // as of when the look began
	noted
}

// Prompt is what the system prompt says of the skills: an index of those that can be used, and the pages of those that
// are always there. Without any it is empty. It is as of a second ago at most, and as of now after a change through the
// store's root and after [Store.Renew]. It never fails: what cannot be read is left out, and logged when it was not the
// last time.
func (s *Store) Prompt() string { return s.glance().text }

// glance is the prompt for the skills as they were within the last second. It asks each time for the tools and
// variables that they require: those come and go without a change of any file.
func (s *Store) glance() *prompted {
	changes, now := s.changes(), time.Now()
	if last := s.prompted.Load(); last != nil && last.changes == changes && now.Sub(last.at) < holds &&
		s.met(last.requiring) {
		return last.prompted
	}
	return s.now()
}

// now is the prompt for the skills as they are now.
func (s *Store) now() *prompted {
	changes, at := s.changes(), time.Now()
	last := s.prompted.Load()
	if last != nil && s.quiet(last) {
		s.prompted.Store(&held{last.prompted, at, changes, last.noted})
		return last.prompted
	}
	n := s.note() // before the look, so that no change falls between them
	if last != nil && s.still(last.sight) {
		s.prompted.Store(&held{last.prompted, at, changes, n})
		return last.prompted
	}
	seen, err := s.look()
	next := &prompted{sight: seen, err: err}
	next.text = s.describe(next)
	if seen.listing != n.listing {
		n = noted{} // other directories are watched
	}
	if err == nil {
		s.prompted.Store(&held{next, at, changes, n})
	}
	return next
}

// Renew has the next prompt look at the skills of all scopes: somebody has changed them, and not through the root.
func (s *Store) Renew() { s.renewals.Add(1) }

// changes is another number when a look does not hold any more. Both parts of it only grow.
func (s *Store) changes() uint64 { return s.root.Changes() + s.renewals.Load() }

// describe puts the text together, and says what is wrong.
func (s *Store) describe(p *prompted) string {
	var wrong []string
	if p.err != nil {
		wrong = append(wrong, p.err.Error())
	}
	if more := p.found.oversight(); more != "" {
		wrong = append(wrong, more)
	}
	var usable []Skill
	for _, skill := range p.found.Skills {
		switch {
		case skill.Err != nil:
			wrong = append(wrong, withHint(skill.Err))
		case skill.Usable() && skill.Trigger == Auto:
			usable = append(usable, skill)
		case skill.Usable():
			p.waiting = true
		}
	}
	index, shown := indexOf(usable)
	if shown < len(usable) {
		wrong = append(wrong, fmt.Sprintf("the index of the skills in the prompt has no room for %d of %d: the limit "+
			"is %d bytes", len(usable)-shown, len(usable), MaxIndex))
	}
	pages, without := alwaysOf(usable)
	for _, name := range without {
		wrong = append(wrong, fmt.Sprintf("the page of the skill %s is not in every prompt: all such pages together "+
			"have %d bytes at most", name, MaxAlways))
	}
	s.say(wrong)
	if len(usable) == 0 {
		return ""
	}
	return lead + index + pages
}

// Here is what a turn is told of the skills beside [Store.Prompt]: which skills are there in its chat or for its
// message, and which were switched off. Mostly it is empty.
func (s *Store) Here(k corebot.Key, choices corebot.SkillChoices, message string) string {
	var stores []*Store
	if s.glance().aside { // where nobody has skills of his own, it costs nothing
		stores = s.among(k)
	}
	if len(choices) > 0 || s.triggers() { // the index has the others of the agent
		stores = append(stores, s)
	}
	if len(stores) == 0 {
		return ""
	}
	var seen [scopes]*prompted
	plain := len(choices) == 0 // the same is said whatever the message is
	for i, store := range stores {
		seen[i] = store.glance()
		plain = plain && !seen[i].waiting
	}
	if last := stores[0].told.Load(); plain && last != nil && last.seen == seen {
		return last.text
	}
	text := s.here(stores, seen, choices, strings.ToLower(message))
	if plain {
		stores[0].told.Store(&told{seen, text})
	}
	return text
}

// scopes is how many stores a chat has skills of at most: its own, those of its account and those of its agent.
const scopes = 3

// told is what a turn was told. Hundreds of skills would otherwise be joined anew in each turn.
type told struct {
	seen [scopes]*prompted
	text string
}

// here puts together what [Store.Here] says. The message is in small letters.
func (s *Store) here(stores []*Store, seen [scopes]*prompted, choices corebot.SkillChoices, message string) string {
	var here, off []Skill
	told := map[string]bool{}
	for i, store := range stores {
		for _, skill := range seen[i].found.Skills { // without any, the prompt says why
			if told[skill.Name] {
				continue // a narrower one has the name
			}
			if store != s {
				told[skill.Name] = true
			}
			on, chosen := choices[skill.Name]
			switch {
			case !skill.Usable():
			case chosen && !on:
				off = append(off, skill)
			case skill.Trigger == Auto && store != s, skill.Trigger != Auto && (on || skill.called(message)):
				here = append(here, skill)
			}
		}
	}
	var b strings.Builder
	if len(here) > 0 {
		index, _ := indexOf(here)
		fmt.Fprintf(&b, "skills for this message, beside those of the index:\n%s", index)
	}
	for i, skill := range off {
		if i == 0 {
			b.WriteString("skills that are switched off in this chat, do not use them:")
		}
		b.WriteString(" " + skill.Name)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// called says whether a message, in small letters, has a keyword of the skill.
func (s Skill) called(message string) bool {
	return s.Trigger == Keyword && slices.ContainsFunc(s.Keywords, func(word string) bool {
		return strings.Contains(message, strings.ToLower(word))
	})
}

// triggers says whether any skill is not always in the index, as the last prompt found it.
func (s *Store) triggers() bool {
	last := s.prompted.Load()
	return last != nil && last.waiting
}

// say logs what is wrong, each thing once as long as it stays so.
func (s *Store) say(wrong []string) {
	s.saying.Lock()
	defer s.saying.Unlock()
	for _, what := range wrong {
		if !slices.Contains(s.said, what) {
			s.opts.Log.Warn().Msg(what)
		}
	}
	s.said = wrong
}

// Wrong lists what is wrong with the skills that prompts should have, as they are now.
func (s *Store) Wrong() []string {
	s.now()
	s.saying.Lock()
	defer s.saying.Unlock()
	return slices.Clone(s.said)
}

func withHint(err error) string {
	if hint := corebot.HintOf(err); hint != "" {
		return fmt.Sprintf("%v (%s)", err, hint)
	}
	return err.Error()
}

// indexOf is a line for each skill, as many as have room, and how many those are.
func indexOf(usable []Skill) (index string, shown int) {
	const cut = "- (%d more have no room here: skills.list has them all)\n"
	reserve := len(fmt.Sprintf(cut, len(usable))) // for the line that says what was cut
	var b strings.Builder
	for i, skill := range usable {
		room := MaxIndex - b.Len()
		if i < len(usable)-1 {
			room -= reserve
		}
		if len("- : \n")+len(skill.Name)+len(skill.Description) > room {
			fmt.Fprintf(&b, cut, len(usable)-i)
			return b.String(), i
		}
		for _, part := range []string{"- ", skill.Name, ": ", skill.Description, "\n"} {
			b.WriteString(part)
		}
	}
	return b.String(), len(usable)
}

// alwaysOf are the pages that are always there, as many as have room; without names the others.
func alwaysOf(usable []Skill) (pages string, without []string) {
	var b strings.Builder
	for _, skill := range usable {
		if !skill.Always {
			continue
		}
		page := fmt.Sprintf("\n## Skill %s\n\n%s\n", skill.Name, strings.TrimSpace(skill.page))
		if skill.pageBytes > MaxAlways || b.Len()+len(page) > MaxAlways {
			without = append(without, skill.Name)
			continue
		}
		b.WriteString(page)
	}
	return b.String(), without
}
