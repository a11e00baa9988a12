// Package skills reads the skills of a workspace: directories of skills/ with a SKILL.md, each a page of instructions
// for one kind of work. The system prompt has an index of them, and a model reads the page that it needs.
//
// A SKILL.md begins with front matter, YAML between two lines of "---", and goes on in Markdown:
//
//	---
//	name: web-research
//	description: Searches the web and quotes its sources. Use it for questions about what is new.
//	always: false
//	requires:
//	  - env: [BRAVE_API_KEY]
//	  - tools: [web.search, web.fetch]
//	tools: [web.search, web.fetch]
//	trigger: keyword
//	keywords: [search the web, look up]
//	---
//
//	# How to search ...
//
// This is the public Agent Skills format with five keys of Corebot's own. The key always puts the whole page into
// every prompt. The key requires lists variables and tools; without them the skill is left out. The key tools lists the
// tools that the page speaks of, and grants nothing. The key trigger says when the skill stands in the index: auto
// always, manual never, keyword in turns whose message has one of its keywords. A chat can switch a skill on or off,
// whatever its trigger. Keys of other programs (license, metadata, allowed-tools, ...) are passed over.
//
// Guarantees:
//   - One bad skill takes no other away, and fails no turn: it is listed with what is wrong with it.
//   - Files are only read, through [rootfs.Root]: a link, FIFO, device or file with a second name is refused, never
//     followed or waited for.
//   - Reading a file takes time and memory in proportion to its size, whatever the file holds. Anchors, aliases, tags
//     and deep nesting of YAML are refused unread.
//   - A change that was made through the store's root is seen by the next turn, and any other within a second, or after
//     [Store.Renew]. Only what changed is parsed again, and a prompt is built anew only after a change. Of watched
//     skills a write through mapped memory is seen by the eighth look at the latest.
//   - A look holds for a second, for all turns together. It costs one call of the system for each skill. On Linux 32
//     skills or more are watched, and a look costs 34 calls however many they are.
//   - [Store.All], [Store.Read] and the like give the skills as they are now.
//   - For the same skills the prompt's text is the same byte for byte.
//   - No value of the environment is read beyond whether there is one, and none is shown.
//
// Skills have three scopes: the chats of an agent, the chats of an account of a channel, and one chat. Of skills with
// one name the narrowest counts. A chat is told of its own skills beside the index, which is the same for all chats.
//
// Limits: [MaxSkills], [MaxFile], [MaxFrontMatter], [MaxIndex] and [MaxAlways], each with what happens at it. The pages
// are as trusted as who may write the workspace's skills/, which is admins: they stand in the system role.
package skills

import (
	"fmt"
	"slices"
	"strings"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/rootfs"
)

// Dir is where the skills of a workspace are.
const Dir = rootfs.SkillsDir

// FileName is the page of a skill, in its directory.
const FileName = "SKILL.md"

const (
	// MaxSkills is how many directories are looked at, the first by name; how many there are besides is said.
	MaxSkills = 256
	// MaxFile is the largest page, in bytes, front matter included. A larger one is an error of its skill.
	MaxFile = 256 << 10
	// MaxFrontMatter is the longest front matter, in bytes. A longer one is an error of its skill.
	MaxFrontMatter = 16 << 10
	// MaxIndex bounds the index in the prompt, in bytes. Without room the last names are left out first, and a line
	// says how many.
	MaxIndex = 8 << 10
	// MaxAlways bounds the pages in the prompt, in bytes. Pages without room, in the order of names, are in the index
	// only.
	MaxAlways = 32 << 10
)

// Path is where the page of a skill is that all chats of the agent have.
func Path(name string) string { return Dir + "/" + name + "/" + FileName }

// DirOf is where the skills are that only a chat has, or only the chats of an account of a channel. For the key of an
// agent it is [Dir].
func DirOf(k corebot.Key) string {
	if k == k.OfAgent() {
		return Dir
	}
	return rootfs.ScopedSkills(k)
}

// FrontMatter is what a skill says of itself.
type FrontMatter struct {
	Name        string // that of its directory: 1 to 64 of a-z, 0-9 and -, not first a -
	Description string // what it does, and when to use it: one line of 1 to 1024 characters
	Always      bool   // its page is in every prompt
	Requires    Needs
	Tools       []string // which tools its page speaks of; a hint, never a grant
	Trigger     Trigger
	Keywords    []string // of a [Keyword] skill; upper and lower case are the same
}

// Trigger says in which turns a model is told of a skill. The values are those of the front matter.
type Trigger string

// The triggers.
const (
	Auto    Trigger = ""        // in each turn; the front matter says auto, or nothing
	Manual  Trigger = "manual"  // where it was switched on, and to whoever asks for it by name
	Keyword Trigger = "keyword" // where it was switched on, and where the message has a keyword
)

// Needs are things that a skill cannot do without, each named once.
type Needs struct {
	Env   []string // variables of Corebot's environment that must be set and not empty
	Tools []string // tools that Corebot must have
}

// None says that nothing is needed.
func (n Needs) None() bool { return len(n.Env) == 0 && len(n.Tools) == 0 }

// List names what is needed, for whoever runs Corebot.
func (n Needs) List() []string {
	all := []string{}
	for _, name := range n.Env {
		all = append(all, "env "+name)
	}
	for _, name := range n.Tools {
		all = append(all, "tool "+name)
	}
	return all
}

func (n Needs) equal(m Needs) bool {
	return slices.Equal(n.Env, m.Env) && slices.Equal(n.Tools, m.Tools)
}

func (n Needs) String() string { return strings.Join(n.List(), ", ") }

// without is what is left of the needs when those that are there are taken away.
func (n Needs) without(env, tool func(name string) bool) Needs {
	return Needs{
		Env:   slices.DeleteFunc(slices.Clone(n.Env), env),
		Tools: slices.DeleteFunc(slices.Clone(n.Tools), tool),
	}
}

// Skill is one directory of skills/, as it was found.
type Skill struct {
	FrontMatter       // only the name, which is the directory's, if there is an error
	Missing     Needs // what it requires and is not there
	Err         error // why it cannot be used; often with a hint
	page        string
	pageBytes   int
}

// Usable says whether a model may be shown it.
func (s Skill) Usable() bool { return s.Err == nil && s.Missing.None() }

// Found are the skills of a workspace.
type Found struct {
	Skills []Skill // sorted by name
	More   int     // directories beyond the first [MaxSkills], which are not looked at
}

// oversight says that there is more than is looked at; empty: there is not.
func (f Found) oversight() string {
	if f.More == 0 {
		return ""
	}
	return fmt.Sprintf("%s has %d directories, and only the first %d are looked at", Dir, MaxSkills+f.More, MaxSkills)
}
