package app

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/channeltest/line"
	"github.com/corebot/corebot/channels/cli"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/storage"
)

// The table of kinds is what code asks. An owner of a name, the package of its channel, may do as it likes.
func TestNoCodeComparesAChannelWithTheNameOfAKind(t *testing.T) {
	names := []string{}
	for _, k := range kinds(Networks()) {
		names = append(names, k.Name)
	}
	const root = "../.."
	read := 0
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		name := filepath.ToSlash(strings.TrimPrefix(file, root+string(filepath.Separator)))
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && file != root || d.Name() == "testdata"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		case isOwner(path.Dir(name)):
			return nil
		}
		read++
		for _, line := range comparisons(t, file, nil, names) {
			t.Errorf("%s:%d compares with the name of a channel: ask the description of its kind", name, line)
		}
		return nil
	})
	if err != nil || read < 500 {
		t.Fatalf("%d files were read: %v", read, err)
	}
}

// The root package has the names of channels that several packages need. These packages may compare with such a name.
var constants = map[string][]string{
	"TerminalChannel": nil,
	"ConsoleChannel":  {"internal/console", "router"}, // the channel itself, and where a fork opens
	"APIChannel":      {"internal/httpapi", "root"},   // the channel itself, and its tokens
	// No kind: nobody writes there. The store keeps the lanes of agents and of jobs.
	"AgentChannel": {"root", "storage"},
	"JobChannel":   {"root", "storage"},
}

// mayCompare says whether a package may compare with the name that a constant of the root package has.
func mayCompare(file, constant string) bool {
	dir, _ := filepath.Rel("../..", filepath.Dir(file))
	if dir == "." {
		dir = "root"
	}
	return slices.Contains(constants[constant], filepath.ToSlash(dir))
}

// isOwner says whether a folder is the package of a channel.
func isOwner(dir string) bool { return dir == "mcp/serve" || path.Dir(dir) == "channels" }

// comparisons lists the lines of a file that compare something called a channel with one of the names, or anything with
// a constant of a channel's package.
func comparisons(t *testing.T, file string, source any, names []string) (lines []int) {
	t.Helper()
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, file, source, 0)
	if err != nil {
		t.Fatal(err)
	}
	of := map[string]bool{} // the packages of channels that the file imports
	for _, i := range f.Imports {
		imported, _ := strconv.Unquote(i.Path.Value)
		if dir, ours := strings.CutPrefix(imported, "github.com/corebot/corebot/"); ours && isOwner(dir) {
			of[path.Base(dir)] = true
		}
	}
	constant := func(e ast.Expr) (is bool) {
		ast.Inspect(e, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Ident:
				_, named := constants[n.Name]
				is = is || named && !mayCompare(file, n.Name)
			case *ast.SelectorExpr:
				from, isName := n.X.(*ast.Ident)
				is = is || isName && of[from.Name] && (n.Sel.Name == "Channel" || n.Sel.Name == "Kind")
			}
			return true
		})
		return is
	}
	check := func(value, with ast.Expr) {
		text, isText := value.(*ast.BasicLit)
		literal := isText && slices.Contains(names, strings.Trim(text.Value, `"`))
		if constant(value) || literal && isOfChannels(with) {
			lines = append(lines, files.Position(value.Pos()).Line)
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			if n.Op == token.EQL || n.Op == token.NEQ {
				check(n.X, n.Y)
				check(n.Y, n.X)
			}
		case *ast.SwitchStmt:
			for _, c := range n.Body.List {
				for _, value := range c.(*ast.CaseClause).List {
					if n.Tag != nil {
						check(value, n.Tag)
					}
				}
			}
		case *ast.IndexExpr:
			check(n.Index, n.X)
		}
		return true
	})
	return lines
}

// isOfChannels says whether an expression is called a channel or a kind.
func isOfChannels(e ast.Expr) bool {
	if field, is := e.(*ast.SelectorExpr); is {
		e = field.Sel
	}
	name, is := e.(*ast.Ident)
	return is && regexp.MustCompile("(?i)channel|kind").MatchString(name.Name)
}

func TestAComparisonWithTheNameOfAKindIsFound(t *testing.T) {
	const before = `package p
import "github.com/corebot/corebot/channels/cli"
func f(k corebot.Key, channels map[string]int) bool {
`
	for code, found := range map[string]bool{
		`return k.Channel == "mcp"`:                             true,
		`return cli.Channel != k.Channel`:                       true,
		`return k.Channel == cli.Kind().Name`:                   true,
		`return k.Channel == corebot.TerminalChannel`:           true,
		`return k.Channel != corebot.ConsoleChannel`:            true,
		`return corebot.APIChannel == k.Channel`:                true,
		`switch k.Channel { case corebot.AgentChannel: }`:       true,
		`return k.Channel == corebot.JobChannel`:                true,
		`return ask(corebot.APIChannel)`:                        false,
		`switch k.Channel { case "x", "webhook": return true }`: true,
		`return channels["cli"] > 0`:                            true,
		`return "cli" == k.Channel`:                             true,
		`switch { case kind == "webhook": return true }`:        true,
		`return searchEngine == "mcp"`:                          false,
		`return k.Channel == other.Channel`:                     false,
		`return ask(cli.Channel, "mcp")`:                        false,
	} {
		lines := comparisons(t, "p.go", before+code+"\n}", []string{"cli", "mcp", "webhook"})
		if (len(lines) > 0) != found {
			t.Errorf("%s: found in lines %v", code, lines)
		}
	}
}

func TestOnlyTheTerminalAndTheConsoleAreTheOwnersChannels(t *testing.T) {
	owners := 0
	for _, k := range kinds([]channels.Network{line.Network()}) {
		if k.Owner {
			owners++
		}
	}
	if name := ownersChannel(); owners != 2 || !name.Is(corebot.TerminalChannel) || !name.Is(corebot.ConsoleChannel) ||
		name.Is("cli,console") || name.Is("webhook") {
		t.Errorf("%d kinds are the owner's; the channels are %q", owners, name)
	}
}

func TestWhatANetworkSaysOfItselfHoldsForItsMessages(t *testing.T) {
	n := line.Network()
	n.Taints, n.People, n.AnyChat = "what the line says", false, true
	home := t.TempDir()
	settings := "channels: {line: {work: {addr: \"127.0.0.1:1\", token: secret, access: open}}}\n"
	if err := os.WriteFile(filepath.Join(home, "corebot.yaml"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := LoadConfig(home, n)
	if err != nil {
		t.Fatal(err)
	}
	db, err := storage.Open(t.Context(), DataDir(home), storage.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	a := &App{config: c, networks: []channels.Network{n}}
	may, err := a.admissions(db)
	if rules := may.Accounts[channels.Account{Kind: "line", Name: "work"}]; err != nil || rules.People ||
		!may.Accounts[cli.Kind().Usual()].People {
		t.Errorf("who may talk: %+v, %v", may.Accounts, err)
	}
	if got := a.untrusted()["line"]; got != n.Taints {
		t.Errorf("a turn of its messages has read %q", got)
	}
	if to := a.destinations()["line"]; to.Account != "work" || !to.AnyChat || to.AgentOf("c") != corebot.DefaultAgent {
		t.Errorf("its destination is %+v", to)
	}
	for _, x := range a.accounts() {
		if x.kind.Name == "line" && (x.served(false) || !x.served(true)) {
			t.Error("another process than a daemon serves it")
		}
	}
}

func TestTheKindsAreWhatTheirChannelsPromise(t *testing.T) {
	c := config.Defaults()
	c.Webhook.Enabled = true
	a := &App{config: c}
	to := a.destinations()
	for _, k := range []struct {
		channel                          string
		people, daemon, anyAgent, anyone bool
	}{
		{"cli", true, false, true, false},
		{"mcp", false, false, true, false},
		{"webhook", true, true, false, true},
	} {
		at := slices.IndexFunc(a.accounts(), func(x account) bool { return x.Kind == k.channel })
		if at < 0 {
			t.Fatalf("there is no %s", k.channel)
		}
		x, d := a.accounts()[at], to[k.channel]
		if x.kind.People != k.people || x.served(false) == k.daemon || (d.AgentOf == nil) != k.anyAgent ||
			d.AnyChat != k.anyone || d.Account != x.Name {
			t.Errorf("%s is %+v, its destination %+v", x.Account, x.kind, d)
		}
		own := corebot.Principal{Channel: k.channel, Account: x.Name, ID: "1"}
		other := corebot.Principal{Channel: k.channel, Account: "other", ID: "1"}
		if sender, known := SenderLike(other); !known || sender != own || !CanSpeak(own) || CanSpeak(other) {
			t.Errorf("the sender like %s is %s", other, sender)
		}
	}
	c.Webhook.Enabled = false
	if _, is := (&App{config: c}).destinations()["webhook"]; is {
		t.Error("messages can be sent to a webhook that is switched off")
	}
	if limits(c.Bus).Owner != "cli,console" {
		t.Errorf("the limits know the owner on %q", limits(c.Bus).Owner)
	}
}

// A caller of the webhook can keep a chat for each of its people. A person who says /fork begins no chat of another
// one. The terminal and the console are the owner's alone.
func TestAForkAtTheWebhookIsNamedAfterItsChat(t *testing.T) {
	c := config.Defaults()
	c.Webhook.Enabled = true
	sessions := chatSessions{nil, &App{config: c}}
	for _, x := range []struct{ channel, chat, name, want string }{
		{"webhook", "mallory", "ann", "mallory~ann"},
		{"webhook", "mallory", "mallory~ann", "mallory~ann"},
		{"webhook", "mallory", "mallory-77", "mallory~77"}, // the name of a fork without one
		{"webhook", "mallory", "mallory", "mallory~mallory"},
		{"webhook", "mallory~x", "ann", "mallory~x~ann"},
		{"cli", "main", "pets", "pets"},
		{"console", "main", "pets", "pets"},
	} {
		k := corebot.Key{Agent: corebot.DefaultAgent, Channel: x.channel, Account: "local", Chat: x.chat}
		to, err := sessions.Named(k, x.name)
		if err != nil || to.Chat != x.want || to.InChannel() != k.InChannel() {
			t.Errorf("a fork of %s called %q is %s: %v", k, x.name, to, err)
		}
	}
	long := corebot.Key{Agent: "main", Channel: "webhook", Chat: strings.Repeat("x", corebot.MaxKeyField)}
	if to, err := sessions.Named(long, "ann"); !errors.Is(err, corebot.ErrInvalid) {
		t.Errorf("a fork of a chat with the longest name is %s: %v", to, err)
	}
	if to, err := sessions.Named(corebot.Key{Agent: "main", Channel: "telegram", Chat: "1"}, "ann"); !errors.Is(err,
		corebot.ErrInvalid) {
		t.Errorf("a fork on a network is %s: %v", to, err)
	}
}
