package builtin

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/background"
	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/tools"
)

//go:embed shell_exec.md
var shellDoc string

// Command is a program to run for a conversation, without a shell.
type Command struct {
	Key     corebot.Key
	Argv    []string
	Timeout time.Duration // of waiting and running, together
}

// Ended is how a program ended.
type Ended struct {
	Output   string
	Dropped  int64  // bytes of output that were too many
	Exit     int    // the exit code; -1 if a signal ended it
	Signal   string // what ended it, if that was a signal
	TimedOut bool   // it was killed at its deadline
	DiskFull bool   // it was killed because the disk was full
	Took     time.Duration
}

// Runner runs programs where they can do no harm. An error means that the program did not run, or that ctx ended; when
// Run returns, nothing of the program is left.
type Runner interface {
	Run(ctx context.Context, c Command) (Ended, error)
}

// ShellExec is the name of the tool that runs programs.
const ShellExec = "shell.exec"

// shellSlack is how much later the call's own limit is than the program's, so that the model hears how far it came.
const shellSlack = 5 * time.Second

type shellArgs struct {
	Argv           []string `json:"argv" jsonschema:"the program and its arguments, one by one"`
	TimeoutSeconds int      `json:"timeoutSeconds,omitempty" jsonschema:"its limit; the longest allowed if left out"`
}

// Shell runs the programs that are allowed, each for at most longest.
func Shell(runner Runner, programs []string, longest time.Duration) tools.Tool {
	doc := shellDoc + fmt.Sprintf("\nPrograms: %s. The longest time is %v.\n", strings.Join(programs, ", "), longest)
	return tools.New(ShellExec, doc, tools.SideEffect|tools.Privileged,
		func(ctx context.Context, call tools.Call, a shellArgs) (string, error) {
			limit, err := a.timeout(longest)
			if err != nil {
				return "", tools.Own(err)
			}
			end, err := runner.Run(ctx, Command{Key: call.Key, Argv: a.Argv, Timeout: limit})
			if err != nil {
				return "", err
			}
			return end.text(limit), nil
		}, tools.Timeout[shellArgs](longest+shellSlack), tools.Names(shellNames),
		tools.Runs(func(_ tools.Call, a shellArgs) []string { return a.Argv }))
}

// shellNames are the directory in which programs work, and the files that arguments may mean. Programs find everything
// in their directory by themselves, under any name. An argument is taken as it is, and behind a "=". The files are
// shown to the approver, and a named link can lead elsewhere.
func shellNames(c tools.Call, a shellArgs) tools.Named {
	n := tools.Named{Dir: rootfs.FilesDir(c.Key)}
	for i, arg := range a.Argv {
		_, value, assigns := strings.Cut(arg, "=")
		for _, name := range []string{arg, value} {
			if i > 0 && name != "" && !path.IsAbs(name) {
				n.Paths = append(n.Paths, path.Join(n.Dir, name))
			}
			if !assigns {
				break
			}
		}
	}
	return n
}

func (a shellArgs) timeout(longest time.Duration) (time.Duration, error) {
	switch {
	case a.TimeoutSeconds == 0:
		return longest, nil
	case a.TimeoutSeconds < 0 || a.TimeoutSeconds > int(longest.Seconds()):
		return 0, fmt.Errorf("%w: timeoutSeconds %d: want 1 to %d", corebot.ErrInvalid, a.TimeoutSeconds,
			int(longest.Seconds()))
	}
	return time.Duration(a.TimeoutSeconds) * time.Second, nil
}

// how says in words how a program ended.
func (e Ended) how(limit time.Duration) string {
	took := e.Took.Round(time.Millisecond)
	switch {
	case e.DiskFull:
		return fmt.Sprintf("killed after %v: the disk is full", took)
	case e.TimedOut:
		return fmt.Sprintf("killed after %v: it took too long", limit)
	case e.Signal != "":
		return fmt.Sprintf("ended by a signal after %v: %s", took, e.Signal)
	}
	return fmt.Sprintf("exit code %d after %v", e.Exit, took)
}

// text is what a model reads of an end.
func (e Ended) text(limit time.Duration) string {
	head := "[" + e.how(limit) + "]"
	output := strings.ToValidUTF8(e.Output, "\uFFFD")
	switch {
	case e.Dropped > 0:
		output += fmt.Sprintf("\n[%d more bytes of output were dropped]", e.Dropped)
	case output == "":
		output = "[no output]"
	}
	return head + "\n" + output
}

//go:embed shell_sandbox.md
var sandboxDoc string

// SandboxCommand is any program, to be run for a conversation in a sandbox.
type SandboxCommand struct {
	Key        corebot.Key
	Argv       []string
	Dir        string // where it begins: relative to the chat's files, or a place of [Places]; empty: the chat's files
	Network    bool   // it reaches the domains of [Places]
	Write      bool   // it can change the directories of [Places] that are for writing; else it only reads them
	Timeout    time.Duration
	Background bool      // it takes no place of those that a turn waits for
	Output     io.Writer // takes the output as it comes; nil: Ended has it
}

// Sandbox runs programs where they reach nothing but the [Places]. An error means that the program did not run, or that
// ctx ended. When RunSandboxed returns, nothing of the program is left. visited names the hosts to which it went or was
// refused.
type Sandbox interface {
	RunSandboxed(ctx context.Context, c SandboxCommand) (end Ended, visited string, err error)
}

// Places are what a sandbox shows of the world beside the chat's files.
type Places struct {
	Read, Write []string // directories of the owner, by their absolute paths
	Domains     []string // that a network reaches; empty: there is no network
}

// text is what a model is told of the places.
func (p Places) text() string {
	var b strings.Builder
	list := func(what string, all []string) {
		if len(all) > 0 {
			fmt.Fprintf(&b, "%s: %s.\n", what, strings.Join(all, ", "))
		}
	}
	list("Directories of the owner that a program reads, and changes with write true", p.Write)
	list("Directories of the owner that a program reads", p.Read)
	list("Domains that a program reaches with network true", p.Domains)
	if len(p.Domains) == 0 {
		b.WriteString("No program has a network.\n")
	}
	return b.String()
}

type sandboxArgs struct {
	Argv           []string `json:"argv" jsonschema:"the program and its arguments, one by one"`
	Dir            string   `json:"dir,omitempty" jsonschema:"where it begins; the chat's files if left out"`
	Write          bool     `json:"write,omitempty" jsonschema:"whether it changes files in directories of the owner"`
	Network        bool     `json:"network,omitempty" jsonschema:"whether it needs the listed domains"`
	TimeoutSeconds int      `json:"timeoutSeconds,omitempty" jsonschema:"its limit; the longest allowed if left out"`
}

// contained says whether a call stays in the files of its chat: it has no network and writes no directory of the owner.
// A call that wants a network where there is none does not even run.
func (p Places) contained(network, write bool) bool {
	return (!network || len(p.Domains) == 0) && (!write || len(p.Write) == 0)
}

// traits are those of a tool that runs programs here. Data that such a program sends to a domain is out of the machine.
func (p Places) traits() tools.Traits {
	traits := tools.SideEffect | tools.Privileged | tools.Outside
	if len(p.Domains) > 0 {
		traits |= tools.Egress
	}
	return traits
}

// needs refuses a network where there is none.
func (p Places) needs(network bool) error {
	if network && len(p.Domains) == 0 {
		return corebot.WithHint(errors.New("programs have no network here: no domain is listed"),
			"the operator lists domains in tools.shell.domains")
	}
	return nil
}

// SandboxedShell runs any program in a sandbox, for at most longest.
func SandboxedShell(box Sandbox, places Places, longest time.Duration) tools.Tool {
	doc := sandboxDoc + fmt.Sprintf("\n%sThe longest time is %v.\n", places.text(), longest)
	return tools.New(ShellExec, doc, places.traits(),
		func(ctx context.Context, call tools.Call, a sandboxArgs) (string, error) {
			limit, err := shellArgs{TimeoutSeconds: a.TimeoutSeconds}.timeout(longest)
			if err == nil {
				err = places.needs(a.Network)
			}
			if err != nil {
				return "", err
			}
			end, visited, err := box.RunSandboxed(ctx, SandboxCommand{
				Key: call.Key, Argv: a.Argv, Dir: a.Dir, Network: a.Network, Write: a.Write, Timeout: limit,
			})
			if err != nil {
				return "", err
			}
			return end.text(limit) + networkLine(visited), nil
		}, tools.Timeout[sandboxArgs](longest+shellSlack),
		tools.Names(func(c tools.Call, a sandboxArgs) tools.Named { return sandboxNames(c, a.Argv, a.Dir) }),
		tools.Contained(func(_ tools.Call, a sandboxArgs) bool { return places.contained(a.Network, a.Write) }),
		tools.Runs(func(_ tools.Call, a sandboxArgs) []string { return a.Argv }))
}

// networkLine tells where a program went.
func networkLine(visited string) string {
	if visited == "" {
		return ""
	}
	return "\n[network: " + visited + "]"
}

// sandboxNames are the files of the chat that arguments may mean. An approval is bound to them. It is not bound to all
// that is in the directory, as for programs of a list: a sandbox holds a program whatever it finds there.
func sandboxNames(c tools.Call, argv []string, dir string) tools.Named {
	n := tools.Named{Guessed: true}
	at := path.Join(rootfs.FilesDir(c.Key), dir)
	if path.IsAbs(dir) {
		at = path.Clean(dir)
	}
	for i, arg := range argv {
		if i == 0 && !strings.Contains(arg, "/") || path.IsAbs(arg) || strings.Contains(arg, "://") {
			continue
		}
		if name := path.Join(at, arg); strings.HasPrefix(name, at+"/") {
			n.Paths = append(n.Paths, name)
		}
	}
	return n
}

//go:embed shell_start.md
var startDoc string

//go:embed shell_read.md
var readBackgroundDoc string

//go:embed shell_stop.md
var stopDoc string

// startWait is how long a start waits for a program that fails at once.
const startWait = time.Second

// maxReadWait is how long a reader may wait for more output.
const maxReadWait = 60 // seconds

type startArgs struct {
	Argv    []string `json:"argv" jsonschema:"the program and its arguments, one by one"`
	Dir     string   `json:"dir,omitempty" jsonschema:"where it begins; the chat's files if left out"`
	Write   bool     `json:"write,omitempty" jsonschema:"whether it changes files in directories of the owner"`
	Network bool     `json:"network,omitempty" jsonschema:"whether it needs the listed domains"`
}

type readBackgroundArgs struct {
	ID          string `json:"id,omitempty" jsonschema:"the program; left out: all programs of this chat are listed"`
	From        *int64 `json:"from,omitempty" jsonschema:"the place in its output; what is new if left out"`
	WaitSeconds int    `json:"waitSeconds,omitempty" jsonschema:"how long to wait for more; 60 at most"`
}

type stopArgs struct {
	ID string `json:"id" jsonschema:"the program, as shell.start named it"`
}

// BackgroundShell are the tools for programs that go on beside the turns of their chat, each for at most life.
func BackgroundShell(box Sandbox, places Places, set *background.Set, life time.Duration) []tools.Tool {
	b := backgroundShell{box, places, set, life}
	doc := startDoc + fmt.Sprintf("\n%sA program runs for at most %v.\n", places.text(), life)
	return []tools.Tool{
		tools.New("shell.start", doc, places.traits(), b.start,
			tools.Names(func(c tools.Call, a startArgs) tools.Named { return sandboxNames(c, a.Argv, a.Dir) }),
			tools.Contained(func(_ tools.Call, a startArgs) bool { return places.contained(a.Network, a.Write) }),
			tools.Runs(func(_ tools.Call, a startArgs) []string { return a.Argv })),
		tools.New("shell.read", readBackgroundDoc, tools.ReadOnly|tools.Privileged|tools.Outside, b.read,
			tools.Timeout[readBackgroundArgs](maxReadWait*time.Second+shellSlack)),
		tools.New("shell.stop", stopDoc, tools.Idempotent|tools.Privileged, b.stop,
			tools.Contained(func(tools.Call, stopArgs) bool { return true })),
	}
}

type backgroundShell struct {
	box    Sandbox
	places Places
	set    *background.Set
	life   time.Duration
}

func (b backgroundShell) start(ctx context.Context, call tools.Call, a startArgs) (string, error) {
	if err := b.places.needs(a.Network); err != nil {
		return "", err
	}
	command := SandboxCommand{
		Key: call.Key, Argv: a.Argv, Dir: a.Dir, Network: a.Network, Write: a.Write, Timeout: b.life,
		Background: true,
	}
	id, err := b.set.Start(call.Key, call.Principal, strings.Join(a.Argv, " "),
		func(ctx context.Context, out *background.Output) string {
			command := command
			command.Output = out
			end, visited, err := b.box.RunSandboxed(ctx, command)
			if err != nil {
				return "it did not run: " + corebot.Plainly(err.Error())
			}
			how := end.how(b.life)
			if visited != "" {
				how += "; network: " + visited
			}
			return how
		})
	if err != nil {
		return "", err
	}
	state, err := b.set.Wait(ctx, call.Key, id, startWait)
	if err != nil || state.Ended.IsZero() {
		return fmt.Sprintf("[program %s runs in the background]", id), err
	}
	return b.tell(ctx, call.Key, id, 0, 0)
}

func (b backgroundShell) read(ctx context.Context, call tools.Call, a readBackgroundArgs) (string, error) {
	if a.ID == "" {
		return listPrograms(b.set.List(call.Key)), nil
	}
	from := int64(-1)
	if a.From != nil {
		from = *a.From
	}
	if a.From != nil && from < 0 || a.WaitSeconds < 0 || a.WaitSeconds > maxReadWait {
		return "", fmt.Errorf("%w: from must not be negative, and waitSeconds is at most %d", corebot.ErrInvalid,
			maxReadWait)
	}
	return b.tell(ctx, call.Key, a.ID, from, time.Duration(a.WaitSeconds)*time.Second)
}

// tell is what a model reads of a program and its output.
func (b backgroundShell) tell(ctx context.Context, k corebot.Key, id string, from int64,
	wait time.Duration,
) (string, error) {
	state, text, err := b.set.Read(ctx, k, id, from, wait)
	if err != nil {
		return "", err
	}
	var s strings.Builder
	fmt.Fprintf(&s, "[%s]\n", stateLine(state))
	if text.Dropped > 0 {
		fmt.Fprintf(&s, "[%d bytes of output before are no longer kept]\n", text.Dropped)
	}
	if text.Text == "" {
		s.WriteString("[no new output]")
	}
	s.WriteString(strings.ToValidUTF8(text.Text, "\uFFFD"))
	fmt.Fprintf(&s, "\n[the next output is from %d on]", text.Next)
	return s.String(), nil
}

func (b backgroundShell) stop(_ context.Context, call tools.Call, a stopArgs) (string, error) {
	state, err := b.set.Stop(call.Key, a.ID)
	if err != nil {
		return "", err
	}
	return "[" + stateLine(state) + "]", nil
}

func stateLine(s background.State) string {
	if s.Ended.IsZero() {
		return fmt.Sprintf("program %s runs, since %v", s.ID, time.Since(s.Began).Round(time.Second))
	}
	return fmt.Sprintf("program %s has ended after %v: %s", s.ID, s.Ended.Sub(s.Began).Round(time.Millisecond), s.How)
}

// maxListed is how much of a command a list shows, in bytes.
const maxListed = 200

func listPrograms(all []background.State) string {
	if len(all) == 0 {
		return "[this chat has no programs in the background]"
	}
	var s strings.Builder
	for _, p := range all {
		what := strings.ToValidUTF8(p.What[:min(len(p.What), maxListed)], "")
		fmt.Fprintf(&s, "%s: %q\n", stateLine(p), what)
	}
	return s.String()
}
