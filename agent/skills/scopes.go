package skills

import (
	"errors"
	"strings"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/sorted"
)

// maxScoped bounds how many chats and accounts with skills of their own are known at once. Beyond that all are read
// again.
const maxScoped = 512

// In gives the skills that only a chat has, or only the chats of an account of a channel: see [DirOf].
func (s *Store) In(k corebot.Key) *Store {
	dir := DirOf(k)
	if dir == s.dir {
		return s
	}
	s.scoping.Lock()
	defer s.scoping.Unlock()
	in, known := s.scoped[dir]
	if !known {
		if len(s.scoped) >= maxScoped {
			clear(s.scoped)
		}
		in = newStore(s.root, dir, s.opts, s.renewals)
		s.scoped[dir] = in
	}
	return in
}

// own are the stores of the skills that a chat has beside those of its agent as they are now, the narrowest first.
func (s *Store) own(k corebot.Key) []*Store {
	if _, _, _, err := s.dirs.Names(); err != nil || !s.dirs.Aside() {
		return nil
	}
	return s.among(k)
}

// among is own for a workspace in which somebody has skills of his own.
func (s *Store) among(k corebot.Key) (all []*Store) {
	if k == k.OfAgent() {
		return nil
	}
	k = k.Acts()
	for _, of := range []corebot.Key{k, k.InChannel()} {
		if !s.root.Missing(DirOf(of)) {
			all = append(all, s.In(of))
		}
	}
	return all
}

// AllFor gives the skills that a chat has: its own, those of its account, and those of its agent. Of one name the
// narrowest counts, also if it cannot be used.
func (s *Store) AllFor(k corebot.Key) (Found, error) {
	found, err := s.All()
	own := s.own(k)
	if err != nil || len(own) == 0 {
		return found, err
	}
	all := map[string]Skill{}
	for _, skill := range found.Skills {
		all[skill.Name] = skill
	}
	for i := len(own) - 1; i >= 0; i-- {
		narrower, err := own[i].All()
		if err != nil {
			return found, err
		}
		found.More += narrower.More
		for _, skill := range narrower.Skills {
			all[skill.Name] = skill
		}
	}
	found.Skills = nil
	for _, skill := range all {
		found.Skills = append(found.Skills, skill)
	}
	sorted.By(found.Skills, func(a, b Skill) int { return strings.Compare(a.Name, b.Name) })
	return found, nil
}

// ReadFor is Read for a chat: of one name the narrowest skill counts.
func (s *Store) ReadFor(k corebot.Key, name string) (Skill, string, error) {
	for _, own := range s.own(k) {
		if skill, page, err := own.Read(name); !errors.Is(err, corebot.ErrNotFound) {
			return skill, page, err
		}
	}
	return s.Read(name)
}
