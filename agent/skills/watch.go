package skills

import (
	"sync/atomic"

	"github.com/corebot/corebot/internal/rootfs"
)

const (
	// fewWatched is the number of skills below which a look at each of them costs less than a watch is worth.
	fewWatched = 32
	// lookedAt is how many watched skills of an agent a look takes all the same. The next look takes the next ones. It
	// takes half as many of the skills of a chat or of an account, because a turn looks at all three.
	lookedAt = 32
)

// watching has the system note changes of the skills, so that a turn need not look at each. The system does not note a
// write through mapped memory, and nothing of a second name of a page. The looks at a part of the skills find that.
type watching struct {
	listing atomic.Uint64 // the directories are watched as of this listing; 0: they are not
	next    atomic.Uint64 // the first skill of the next look
}

// noted is since when the system notes the changes of a listing. The zero mark: it does not.
type noted struct {
	mark    rootfs.Mark
	listing uint64
	others  uint64 // what others may have changed in a way that the system does not note
}

func (s *Store) others() uint64 { return s.root.Foreign() + s.renewals.Load() }

// note has the directories watched, if they are many, and gives the present moment.
func (s *Store) note() noted {
	others := s.others()
	names, _, listing, err := s.dirs.Names()
	if err != nil || len(names) < fewWatched {
		return noted{listing: listing}
	}
	if s.watching.listing.Load() != listing {
		dirs := []string{s.dir}
		for _, name := range names {
			dirs = append(dirs, s.dir+"/"+name)
		}
		if !s.root.Watch(dirs) {
			return noted{listing: listing}
		}
		s.watching.listing.Store(listing)
	}
	return noted{s.root.Mark(), listing, others}
}

// quiet says that the skills are still those of a held prompt. The system noted no change, nobody told of one, and a
// part of the skills was looked at.
func (s *Store) quiet(last *held) bool {
	if last.mark == (rootfs.Mark{}) || last.others != s.others() || last.mark != s.root.Mark() {
		return false
	}
	if _, _, listing, err := s.dirs.Names(); err != nil || listing != last.sight.listing {
		return false
	}
	pages := last.pages
	part := lookedAt
	if s.dir != Dir {
		part /= 2
	}
	from := int(s.watching.next.Add(uint64(part)) % uint64(max(len(pages), 1)))
	for i := range min(part, len(pages)) {
		if !s.root.Still(pages[(from+i)%len(pages)]) {
			return false
		}
	}
	return s.met(last.requiring)
}
