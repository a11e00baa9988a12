package builtin

import (
	"context"
	_ "embed"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/corebot/corebot"
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
				return "", err
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

// text is what a model reads of an end.
func (e Ended) text(limit time.Duration) string {
	head := fmt.Sprintf("[exit code %d after %v]", e.Exit, e.Took.Round(time.Millisecond))
	switch {
	case e.TimedOut:
		head = fmt.Sprintf("[killed after %v: it took too long]", limit)
	case e.Signal != "":
		head = fmt.Sprintf("[ended by a signal after %v: %s]", e.Took.Round(time.Millisecond), e.Signal)
	}
	output := strings.ToValidUTF8(e.Output, "\uFFFD")
	switch {
	case e.Dropped > 0:
		output += fmt.Sprintf("\n[%d more bytes of output were dropped]", e.Dropped)
	case output == "":
		output = "[no output]"
	}
	return head + "\n" + output
}
