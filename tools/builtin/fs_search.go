package builtin

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/internal/roots"
	"github.com/corebot/corebot/internal/runes"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/tools"
)

//go:embed fs_search.md
var searchDoc string

// Limits of one search. Its answer stays below what a box shows, so that the answer does not become an artifact.
const (
	searchPattern = 1000    // bytes of the expression
	searchMatches = 200     // lines that are shown
	searchLine    = 200     // bytes of one of them
	searchFile    = 1 << 20 // bytes of a file
)

// searchLimits bound the work of one search.
type searchLimits struct {
	entries int   // files and directories that are looked at
	bytes   int64 // of all files
	time    time.Duration
}

var defaultSearch = searchLimits{entries: 10_000, bytes: 128 << 20, time: 10 * time.Second}

type searchArgs struct {
	Pattern string `json:"pattern" jsonschema:"the regular expression"`
	Path    string `json:"path,omitempty" jsonschema:"a file or directory; the whole workspace if left out"`
	Name    string `json:"name,omitempty" jsonschema:"only files whose name fits this pattern, such as *.md"`
}

// at is the file or directory that is meant.
func (a searchArgs) at() string {
	if a.Path == "" {
		return "."
	}
	return a.Path
}

// none says that nothing matches.
func (a searchArgs) none() string { return fmt.Sprintf("[nothing in %s matches]\n", a.at()) }

// Search finds lines by a regular expression, whose time is linear in what it reads.
func Search(reach *roots.Reach) tools.Tool { return searchWithin(reach, defaultSearch) }

func searchWithin(reach *roots.Reach, limits searchLimits) tools.Tool {
	return tools.New("fs.search", searchDoc, tools.ReadOnly|tools.Outside,
		func(ctx context.Context, _ tools.Call, a searchArgs) (string, error) {
			s, err := newSearch(reach, limits, a)
			if err != nil {
				return "", tools.Own(err)
			}
			ctx, cancel := context.WithTimeoutCause(ctx, limits.time, errSearchEnds)
			defer cancel()
			return s.run(ctx, a)
		}, tools.Touches(func(_ tools.Call, a searchArgs) policy.Target { return reads(a.at()) }),
		tools.OwnWords(func(_ tools.Call, a searchArgs) []string { return []string{a.none()} }),
		tools.Trusted(func(_ tools.Call, a searchArgs) bool { return policy.OperatorsText(reads(a.at())) }))
}

// errSearchEnds ends a search that has reached one of its limits. The matches until then are shown.
var errSearchEnds = errors.New("the search has reached a limit")

// search is one search under way.
type search struct {
	root    *rootfs.Root
	place   roots.Place // where it begins
	limits  searchLimits
	pattern *regexp.Regexp
	name    string

	out                           strings.Builder
	matches, looked, binary, long int
	read                          int64
	limit                         string // the one that ended it
}

func newSearch(reach *roots.Reach, limits searchLimits, a searchArgs) (*search, error) {
	if len(a.Pattern) > searchPattern {
		return nil, fmt.Errorf("the expression has %d bytes, the limit is %d", len(a.Pattern), searchPattern)
	}
	pattern, err := regexp.Compile(a.Pattern)
	if err != nil {
		return nil, corebot.WithHint(fmt.Errorf("search for %q: %w", a.Pattern, err),
			`write RE2 syntax; \Q...\E searches for the text between them as it is`)
	}
	if _, err := path.Match(a.Name, ""); err != nil {
		return nil, fmt.Errorf("search in files called %q: %w", a.Name, err)
	}
	root, p, err := reach.At(a.at())
	return &search{root: root, place: p, limits: limits, pattern: pattern, name: a.Name}, err
}

func (s *search) run(ctx context.Context, a searchArgs) (string, error) {
	err := s.directory(ctx, s.place.Path)
	if errors.Is(err, rootfs.ErrNotDir) {
		s.name = "" // a file that is named is meant
		err = s.file(ctx, s.place.Path)
	}
	if err != nil && !errors.Is(err, errSearchEnds) {
		return "", s.place.Explain(err)
	}
	if err != nil && s.limit == "" {
		s.limit = s.limits.time.String()
	}
	return s.said(a), nil
}

// directory searches all that is below a directory, in the order of names.
func (s *search) directory(ctx context.Context, dir string) error {
	if err := s.look(ctx); err != nil {
		return err
	}
	entries, more, err := s.root.List(dir, "", s.limits.entries)
	if err != nil {
		return err
	}
	for _, e := range entries {
		at := path.Join(dir, e.Name)
		switch {
		case s.closed(at, e):
			continue
		case e.Dir:
			err = s.directory(ctx, at)
		default:
			err = s.file(ctx, at)
		}
		if err != nil && (ctx.Err() != nil || !passing(err)) {
			return err
		}
	}
	if more > 0 {
		return s.full()
	}
	return nil
}

// look counts one more file or directory.
func (s *search) look(ctx context.Context) error {
	if s.looked++; s.looked > s.limits.entries {
		return s.full()
	}
	return context.Cause(ctx)
}

func (s *search) full() error {
	s.limit = fmt.Sprintf("%d files and directories", s.limits.entries)
	return errSearchEnds
}

// passing says whether a search goes on behind an entry: it has vanished, or is none that can be read.
func passing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, rootfs.ErrNotRegular) ||
		errors.Is(err, rootfs.ErrEscape) || errors.Is(err, rootfs.ErrBadName) || errors.Is(err, rootfs.ErrNotDir)
}

// closed says whether a search that began above an entry passes over it. Policy has judged where the search begins, and
// nothing below. So the files and the skills of conversations are left out, as a conversation's own are searched by
// their path. In the operator's directories, what policy closes by its name is left out.
func (s *search) closed(at string, e rootfs.Entry) bool {
	if !s.place.InWorkspace() && roots.Secret(at) {
		return true
	}
	return e.Dir && (e.Name == ".git" || e.Name == "node_modules" ||
		s.place.InWorkspace() && (rootfs.Fold(at) == rootfs.ChatsDir || rootfs.InScopedSkills(at)))
}

// file searches one file.
func (s *search) file(ctx context.Context, at string) error {
	if err := s.look(ctx); err != nil {
		return err
	}
	if fits, _ := path.Match(s.name, path.Base(at)); s.name != "" && !fits {
		return nil
	}
	c, err := s.root.ReadChunk(at, 0, searchFile)
	if err != nil {
		return err
	}
	if s.read += int64(len(c.Data)); s.read > s.limits.bytes {
		s.limit = fmt.Sprintf("%d bytes", s.limits.bytes)
		return errSearchEnds
	}
	text, skipped := wholeRunes(c.Data)
	if skipped > 0 || !isText(text) {
		s.binary++
		return nil
	}
	if c.Size > int64(len(c.Data)) {
		s.long++
	}
	return s.lines(at, text)
}

// lines shows the lines of a file that match.
func (s *search) lines(at string, text []byte) error {
	number := 0
	for line := range bytes.Lines(text) {
		number++
		line = bytes.TrimRight(line, "\r\n")
		found := s.pattern.FindIndex(line)
		if found == nil {
			continue
		}
		if s.matches == searchMatches {
			s.limit = fmt.Sprintf("%d matches", searchMatches)
			return errSearchEnds
		}
		s.matches++
		fmt.Fprintf(&s.out, "%s:%d: %s\n", s.shown(at), number, around(line, found[0]))
	}
	return nil
}

// shown is the path of a file as another call can name it.
func (s *search) shown(at string) string { return roots.Place{Dir: s.place.Dir, Path: at}.String() }

// around is a line, or the part of a long one in which the match begins.
func around(line []byte, match int) string {
	if len(line) <= searchLine {
		return string(line)
	}
	begin := max(0, min(match-searchLine/4, len(line)-searchLine))
	end := min(len(line), begin+searchLine)
	part, _ := wholeRunes(line[begin:end])
	text := string(runes.Whole(part))
	if begin > 0 {
		text = "…" + text
	}
	if end < len(line) {
		text += "…"
	}
	return text
}

// said is what was found, with notes on what was left out.
func (s *search) said(a searchArgs) string {
	if s.matches == 0 {
		s.out.WriteString(a.none())
	}
	if s.limit != "" {
		fmt.Fprintf(&s.out, "[the search ended at its limit of %s; name a narrower path or name]\n", s.limit)
	}
	if s.binary > 0 {
		fmt.Fprintf(&s.out, "[binary files that were left out: %d]\n", s.binary)
	}
	if s.long > 0 {
		fmt.Fprintf(&s.out, "[files of which only the first MiB was searched: %d]\n", s.long)
	}
	return s.out.String()
}
