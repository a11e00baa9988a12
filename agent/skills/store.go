package skills

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/rootfs"
)

// Options of a [Store]. Zero means the default.
type Options struct {
	Env     func(name string) bool // whether a variable is set; those of this process that are not empty
	Allowed func(name string) bool // whether the agent has the skill; it has all
	Tool    func(name string) bool // whether there is a tool; all are taken to be there
	Log     zerolog.Logger         // the zero logger is silent
}

// Store reads the skills of a workspace. It is safe for use by several goroutines.
type Store struct {
	root   *rootfs.Root
	dir    string
	dirs   *rootfs.Dirs
	opts   Options
	parsed *rootfs.Derived[Skill]

	listed   atomic.Uint64        // which listing of the directories was cleared up after
	prompted atomic.Pointer[held] // nil: no turn has asked yet
	told     atomic.Pointer[told] // in a turn whose narrowest skills these are; nil: nothing that holds for others
	renewals *atomic.Uint64       // of the skills of all scopes
	watching watching

	saying sync.Mutex
	said   []string // what was last wrong, and is not said again

	scoping sync.Mutex
	scoped  map[string]*Store // by directory: skills of chats and accounts
}

// New reads skills below a root. Nothing is read yet.
func New(root *rootfs.Root, o Options) (*Store, error) {
	if root == nil {
		return nil, fmt.Errorf("%w: skills want a directory", corebot.ErrInvalid)
	}
	if o.Env == nil {
		o.Env = func(name string) bool { return os.Getenv(name) != "" }
	}
	if o.Allowed == nil {
		o.Allowed = func(string) bool { return true }
	}
	if o.Tool == nil {
		o.Tool = func(string) bool { return true }
	}
	return newStore(root, Dir, o, new(atomic.Uint64)), nil
}

func newStore(root *rootfs.Root, dir string, o Options, renewals *atomic.Uint64) *Store {
	return &Store{
		root: root, dir: dir, dirs: rootfs.NewDirs(root, dir, MaxSkills), opts: o,
		parsed: rootfs.NewDerived(root, parsed), renewals: renewals, scoped: map[string]*Store{},
	}
}

func (s *Store) path(name string) string { return s.dir + "/" + name + "/" + FileName }

// parsed is a skill without its name. Only a page that belongs into every prompt is kept, if it has room there.
func parsed(_ string, data []byte) (s Skill) {
	var page string
	if s.FrontMatter, page, s.Err = Parse(data); s.Always && len(page) <= MaxAlways {
		s.page = page
	}
	s.pageBytes = len(page)
	return s
}

// All gives the skills as they are now: a workspace without a directory for them has none. Directories without a page
// are none either. An error is about that directory itself; those of its skills are theirs.
func (s *Store) All() (Found, error) {
	seen, err := s.look()
	return seen.found, err
}

// sight is what one look at the skills found, and what tells whether the next would find the same.
type sight struct {
	found     Found
	listing   uint64        // of the directories
	aside     bool          // there are skills of chats or accounts among them
	pages     []rootfs.Seen // of each directory, also of one that has none
	requiring []Skill
}

// look looks at each skill, and parses those that changed.
func (s *Store) look() (seen sight, err error) {
	names, more, listing, err := s.dirs.Names()
	seen.listing, seen.aside = listing, err == nil && s.dirs.Aside()
	if errors.Is(err, fs.ErrNotExist) {
		s.forgetBut(nil)
		return seen, nil
	}
	if err != nil {
		return seen, corebot.WithHint(fmt.Errorf("read the skills: %w", err),
			"it is a directory of the workspace, and no link")
	}
	if s.listed.Swap(listing) != listing {
		s.forgetBut(names)
	}
	seen.found.More = more
	for _, name := range names {
		if !s.opts.Allowed(name) {
			continue
		}
		skill, page, err := s.parsed.Look(s.path(name), MaxFile)
		seen.pages = append(seen.pages, page)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		skill = s.judged(name, skill, err)
		seen.found.Skills = append(seen.found.Skills, skill)
		if !skill.Requires.None() {
			seen.requiring = append(seen.requiring, skill)
		}
	}
	return seen, nil
}

// still says whether a look would find the same again, at the cost of one call of the system for each skill. It says no
// where it cannot know that: of a page that was written just now, or that cannot be read.
func (s *Store) still(seen sight) bool {
	_, _, listing, err := s.dirs.Names()
	if err != nil || listing != seen.listing {
		return false
	}
	for _, page := range seen.pages {
		if !s.root.Still(page) {
			return false
		}
	}
	return s.met(seen.requiring)
}

// met says whether skills miss what they missed.
func (s *Store) met(requiring []Skill) bool {
	return !slices.ContainsFunc(requiring, func(skill Skill) bool {
		return !skill.Missing.equal(skill.Requires.without(s.opts.Env, s.opts.Tool))
	})
}

// forgetBut frees what is known of skills that are gone.
func (s *Store) forgetBut(names []string) {
	here := make(map[string]bool, len(names))
	for _, name := range names {
		here[s.path(name)] = true
	}
	s.parsed.Keep(func(path string) bool { return here[path] })
}

// judged is a skill under the name of its directory, with what is missing for it or wrong with it.
func (s *Store) judged(name string, skill Skill, err error) Skill {
	switch {
	case err != nil:
		skill.Err = err
	case skill.Err == nil && skill.Name != name:
		skill.Err = corebot.WithHint(fmt.Errorf("%w: it is called %q and its directory %q", corebot.ErrInvalid,
			skill.Name, clip(name)), "the two must be the same")
	}
	if skill.Err != nil {
		return Skill{FrontMatter: FrontMatter{Name: name}, Err: fmt.Errorf("skill %s: %w", clip(name), skill.Err)}
	}
	skill.Missing = skill.Requires.without(s.opts.Env, s.opts.Tool)
	return skill
}

// Read gives one skill and its page, as they are now. A missing skill is [corebot.ErrNotFound]. A mistake in the page
// is the error; an unmet requirement is not.
func (s *Store) Read(name string) (skill Skill, page string, err error) {
	if !regexp.MustCompile(skillName).MatchString(name) || !s.opts.Allowed(name) {
		return Skill{}, "", notFound(name)
	}
	data, err := s.root.ReadFile(s.path(name), MaxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return Skill{}, "", notFound(name)
	}
	if err == nil {
		skill.FrontMatter, page, skill.Err = Parse(data)
	}
	skill = s.judged(name, skill, err)
	if skill.Err != nil {
		return Skill{}, "", skill.Err
	}
	return skill, page, nil
}

func notFound(name string) error {
	return corebot.WithHint(fmt.Errorf("skill %q: %w", clip(name), corebot.ErrNotFound),
		"list the skills to see which there are")
}
