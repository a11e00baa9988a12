package policy

import (
	"path"
	"slices"
	"strings"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/addresses"
)

// An approval for a session, or for always, is stored as a binding. A binding answers the question of [NeedsApproval]
// for later calls, after the role has been asked. The turn decides what a binding can carry. In a clean turn nobody but
// the principal and the operator had a say, so a whole tool can be bound. In a tainted turn the model can obey somebody
// else. Then nothing bound can carry text of the model's choice out of the machine. The one exception is the path of an
// address at a bound origin.

// Subject is what a binding can name of a call.
type Subject struct {
	Tool       string
	Definition string // of an MCP tool: the fingerprint of what its server says of it now
	Args       string // JSON without white space
	Target     Target
	Argv       []string // of a tool that runs programs
	Egress     bool     // the call can carry data out of the machine
	GoesTo     []string // addresses that take all that the call carries out
	Unvouched  bool     // nobody stands for what the server says of the tool
	Shared     bool     // others than the principal have text in the turn, or it has no principal who can be told apart
	Overheard  bool     // others than the principal read what the turn answers
}

// longestBound is how long the path of an address can be that a tainted turn goes to because its origin is bound.
const longestBound = 128

// longestArgs is how long arguments can be that are bound as they are.
const longestArgs = 8 << 10

// Bind gives what an approval of a call would let run if it lasted. Why says in words that nothing can be bound.
func (p *Policy) Bind(w Weight, s Subject) (b corebot.Binding, why string) {
	if why := p.unbindable(w, s); why != "" {
		return b, why
	}
	b = corebot.Binding{Tool: s.Tool, Definition: s.Definition, Tainted: w.Tainted}
	switch {
	case s.Target.Path != "":
		b.Kind, b.Path = corebot.BindPath, p.around(s.Target.Path)
		if !p.below(b.Path, s.Target) {
			return corebot.Binding{}, "it takes a file from one directory to another"
		}
	case len(s.Argv) > 0:
		b.Kind, b.Program = corebot.BindProgram, profile(s.Argv, !w.Tainted)
		b.Program.Contained = w.Contained
		if w.Tainted && s.Egress {
			return corebot.Binding{},
				"a program that reaches the network is approved one by one after text from outside"
		}
	case s.Egress && w.Reads && len(s.GoesTo) == 1 && addresses.Origin(s.GoesTo[0]) != "" &&
		(!w.Tainted || addresses.IsPlain(s.GoesTo[0], longestBound)):
		b.Kind, b.Origin = corebot.BindDomain, addresses.Origin(s.GoesTo[0])
	case s.Definition != "" && !w.Tainted:
		b.Kind = corebot.BindTool
	case s.Definition == "" && !s.Egress:
		return corebot.Binding{}, "it names no file, no program, no address and no tool of an MCP server"
	case len(s.Args) > longestArgs:
		return corebot.Binding{}, "its arguments are too long"
	default:
		b.Kind, b.Args = corebot.BindCall, s.Args
	}
	return b, ""
}

// Answers says whether a binding answers the question about a call. It judges anew what can be bound, whatever is
// stored.
func (p *Policy) Answers(b corebot.Binding, w Weight, s Subject) bool {
	if b.Tool != s.Tool || b.Definition != s.Definition || w.Tainted && !b.Tainted || p.unbindable(w, s) != "" {
		return false
	}
	switch b.Kind {
	case corebot.BindTool:
		return s.Definition != "" && !w.Tainted
	case corebot.BindCall:
		return b.Args != "" && b.Args == s.Args
	case corebot.BindPath:
		return s.Target.Path != "" && p.below(b.Path, s.Target)
	case corebot.BindProgram:
		return b.Program.Covers(s.Argv) && (w.Contained || !b.Program.Contained) &&
			(!w.Tainted || !b.Program.More && !s.Egress)
	case corebot.BindDomain:
		return len(s.GoesTo) > 0 && !slices.ContainsFunc(s.GoesTo, func(to string) bool {
			return b.Origin == "" || addresses.Origin(to) != b.Origin ||
				w.Tainted && (!w.Reads || !addresses.IsPlain(to, longestBound))
		})
	}
	return false
}

// unbindable says why a call is approved once only, whatever it does; empty: it need not be.
func (p *Policy) unbindable(w Weight, s Subject) string {
	isProtected := func(t touched) bool {
		at, err := p.opts.Roots.Find(t.path)
		return err != nil || at.InWorkspace() && protected(at.Path)
	}
	switch {
	case s.Shared:
		return "others have text in this turn"
	case w.Tainted && s.Overheard:
		return "others read what is answered here, and the turn has read text from outside"
	case s.Target.Role != "" || s.Target.Bootstrap || strings.HasPrefix(s.Tool, "chat."):
		return "roles are given one by one"
	case s.Target.global() || s.Target.Scope == ScopeChannel || slices.ContainsFunc(s.Target.paths(), isProtected):
		return "protected files and the global memory are approved one by one"
	case s.Target.Everywhere || s.Target.Chat != (corebot.Key{}):
		return "calls that act on a chat are approved one by one"
	case s.Unvouched:
		return "nobody has approved what its server says of the tool: `corebot mcp show` prints that"
	}
	return ""
}

// around is the directory of a file with a slash at its end. A file at the top of the workspace stands for itself: the
// whole workspace is too much for one answer. An open directory stands for itself as well: what is around it is not
// open.
func (p *Policy) around(file string) string {
	at, err := p.opts.Roots.Find(file)
	if err != nil {
		return ""
	}
	dir := path.Dir(at.String())
	if at.Path == "." || dir == "." || dir == "/" {
		return at.String()
	}
	return dir + "/"
}

// below says whether all that a call touches is a bound file, or is below a bound directory.
func (p *Policy) below(bound string, t Target) bool {
	return bound != "" && !slices.ContainsFunc(t.paths(), func(t touched) bool {
		at, err := p.opts.Roots.Find(t.path)
		file := at.String()
		return err != nil || file != bound && !(strings.HasSuffix(bound, "/") && strings.HasPrefix(file, bound))
	})
}

// withVerbs are programs whose first argument says what they do.
var withVerbs = []string{
	"git", "go", "npm", "pnpm", "yarn", "cargo", "pip", "uv", "docker", "podman", "kubectl", "helm", "systemctl", "apt",
	"brew", "gh",
}

// profile is the program with all its arguments. With wide it is a known program with its verb, and any arguments
// behind that.
func profile(argv []string, wide bool) corebot.Profile {
	if wide && len(argv) > 1 && slices.Contains(withVerbs, argv[0]) && isVerb(argv[1]) {
		return corebot.Profile{Argv: slices.Clone(argv[:2]), More: true}
	}
	return corebot.Profile{Argv: slices.Clone(argv)}
}

// isVerb says whether an argument is a plain word, and no option, path or expression.
func isVerb(arg string) bool {
	return arg != "" && arg[0] != '-' && !strings.ContainsFunc(arg, func(r rune) bool {
		return r != '-' && (r < 'a' || r > 'z')
	})
}
