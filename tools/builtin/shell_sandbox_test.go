package builtin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/background"
	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/tools"
	"github.com/corebot/corebot/tools/builtin"
)

// sandboxed is a sandbox whose programs print a line and end, or run until they are ended.
type sandboxed struct {
	err     error
	goesOn  bool
	visited string
	seen    []builtin.SandboxCommand
}

func (s *sandboxed) RunSandboxed(ctx context.Context, c builtin.SandboxCommand) (builtin.Ended, string, error) {
	s.seen = append(s.seen, c)
	if s.err != nil {
		return builtin.Ended{}, "", s.err
	}
	if c.Output != nil {
		_, _ = io.WriteString(c.Output, "hello\n")
	}
	if s.goesOn {
		<-ctx.Done()
		return builtin.Ended{Signal: "killed", Exit: -1}, "", context.Cause(ctx)
	}
	return builtin.Ended{Output: "hi\n", Took: time.Millisecond}, s.visited, nil
}

// rig are the tools of a sandbox, for somebody of a role.
type sandboxRig struct {
	*tools.Box
	set *background.Set
	by  corebot.Caller
}

func sandboxTools(t *testing.T, s *sandboxed, places builtin.Places) sandboxRig {
	t.Helper()
	set, err := background.New(background.Limits{PerChat: 2, Total: 4, Life: time.Hour, Output: 1000})
	must(t, err)
	t.Cleanup(func() { set.Close() })
	all := append(builtin.BackgroundShell(s, places, set, time.Hour),
		builtin.SandboxedShell(s, places, time.Minute))
	registry, err := tools.NewRegistry(all...)
	must(t, err)
	rules, err := policy.New(policy.Options{ShellEnabled: true, Sandbox: true})
	must(t, err)
	box, err := tools.NewBox(registry, rules, roleOf(corebot.RoleAdmin), tools.Options{
		Approvers: anybody{},
		Contents:  none{},
	})
	must(t, err)
	return sandboxRig{box, set, corebot.Caller{Key: here}}
}

// anybody can approve everything.
type anybody struct{}

func (anybody) CanApprove(context.Context, corebot.Key, bool) (bool, error) { return true, nil }

// none are the contents of a workspace in which nothing is but a file y of the chat.
type none struct{ tools.Contents }

func (none) Clean(path string) (string, error) { return rootfs.Clean(path) }
func (none) Content(name string) (string, error) {
	if name == path.Join(rootfs.FilesDir(here), "y") {
		return "sha256:00", nil
	}
	return corebot.NoFile, nil
}

func (none) Directory(string) (string, error) {
	return "", errors.New("a directory was looked through")
}

func (r sandboxRig) call(t *testing.T, tool, args string) corebot.ToolResult {
	t.Helper()
	result, err := r.Call(t.Context(), r.by, corebot.ToolCall{Tool: tool, Args: json.RawMessage(args)}, step{})
	must(t, err)
	return result
}

func TestASandboxIsToldWhatToRunAndItsOutputIsOthersText(t *testing.T) {
	s := &sandboxed{visited: "example.com:443"}
	r := sandboxTools(t, s, builtin.Places{Domains: []string{"example.com"}})
	end := r.call(t, "shell.exec", `{"argv":["make","x"],"dir":"src","network":true,"write":true,"timeoutSeconds":5}`)
	want := builtin.SandboxCommand{
		Key: here, Argv: []string{"make", "x"}, Dir: "src", Network: true, Write: true,
		Timeout: 5 * time.Second,
	}
	if end.Outcome != corebot.OutcomeSuccess || !end.Outside || len(s.seen) != 1 ||
		fmt.Sprint(s.seen[0]) != fmt.Sprint(want) ||
		!strings.Contains(end.Content, "[exit code 0 after 1ms]\nhi\n\n[network: example.com:443]") {
		t.Errorf("%+v, ran %+v", end, s.seen)
	}
}

func TestWithoutDomainsThereIsNoNetwork(t *testing.T) {
	s := &sandboxed{}
	r := sandboxTools(t, s, builtin.Places{})
	r.by.Taint = "a page" // and nobody is asked about what cannot run
	for _, tool := range []string{"shell.exec", "shell.start"} {
		if end := r.call(t, tool, `{"argv":["curl"],"network":true}`); end.Outcome != corebot.OutcomeError ||
			!strings.Contains(end.Content, "tools.shell.domains") || len(s.seen) != 0 {
			t.Errorf("%s: %+v, ran %+v", tool, end, s.seen)
		}
	}
}

// TestInATaintedTurnOnlyWhatStaysInTheChatRunsWithoutAnApproval, of a program that runs and of one in the background.
func TestInATaintedTurnOnlyWhatStaysInTheChatRunsWithoutAnApproval(t *testing.T) {
	for _, c := range []struct {
		places  builtin.Places
		network bool
		write   bool
		waits   bool
	}{
		{builtin.Places{}, false, false, false},
		{builtin.Places{}, false, true, false},
		{builtin.Places{Read: []string{"/src"}}, false, true, false},
		{builtin.Places{Domains: []string{"a.example"}}, false, false, false},
		{builtin.Places{Domains: []string{"a.example"}}, true, false, true},
		{builtin.Places{Write: []string{"/src"}}, false, false, false},
		{builtin.Places{Write: []string{"/src"}}, false, true, true},
	} {
		for _, tool := range []string{"shell.exec", "shell.start"} {
			for _, tainted := range []bool{false, true} {
				s := &sandboxed{}
				r := sandboxTools(t, s, c.places)
				if tainted {
					r.by.Taint = "a page"
				}
				_, err := r.Call(t.Context(), r.by, corebot.ToolCall{
					Tool: tool, Args: json.RawMessage(fmt.Sprintf(
						`{"argv":["x","-m","10","y"],"network":%v,"write":%v}`, c.network, c.write)),
				}, asks{})
				waits := errors.As(err, new(*corebot.AwaitsApproval))
				if waits != (c.waits && tainted) || waits == (len(s.seen) > 0) {
					t.Errorf("%s, %+v, tainted %v: %v, ran %+v", tool, c, tainted, err, s.seen)
				}
			}
		}
	}
}

// asks is a step whose calls wait. Of their arguments only those are bound at which a file is.
type asks struct{ step }

func (asks) Ask(_ context.Context, all []corebot.NewApproval) (corebot.ApprovalRequest, error) {
	for _, a := range all {
		files := a.Approval.Bound.Files
		if len(files) != 1 || files[0].Path != path.Join(rootfs.FilesDir(here), "y") {
			return corebot.ApprovalRequest{}, fmt.Errorf("an approval is bound to %v", files)
		}
	}
	return corebot.ApprovalRequest{Approval: corebot.Approval{State: corebot.ApprovalAwaited}}, nil
}

var programID = regexp.MustCompile(`p-[a-z0-9]{8}`)

func TestAProgramInTheBackgroundIsReadAndStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sandboxed{goesOn: true}
		r := sandboxTools(t, s, builtin.Places{})
		end := r.call(t, "shell.start", `{"argv":["serve","--port","80"]}`)
		id := programID.FindString(end.Content)
		if end.Outcome != corebot.OutcomeSuccess || !strings.Contains(end.Content, "runs in the background") ||
			id == "" {
			t.Fatalf("%+v", end)
		}
		for _, c := range []struct{ tool, args, says string }{
			{"shell.read", `{"id":"` + id + `"}`, "runs, since 1s]\nhello\n\n[the next output is from 6 on]"},
			{"shell.read", `{"id":"` + id + `"}`, "[no new output]\n[the next output is from 6 on]"},
			{"shell.read", `{"id":"` + id + `","from":2}`, "]\nllo\n"},
			{"shell.read", `{"id":"` + id + `","from":-1}`, "from must not be negative"},
			{"shell.read", `{"id":"` + id + `","waitSeconds":61}`, "waitSeconds is at most 60"},
			{"shell.read", `{}`, "program " + id + " runs, since 1s: \"serve --port 80\""},
			{
				"shell.read", `{"id":"p-00000000"}`,
				"no such program in the background: \"p-00000000\"; a program ends when " +
					"Corebot stops",
			},
			{"shell.stop", `{"id":"p-00000000"}`, "no such program"},
			{"shell.stop", `{"id":"` + id + `"}`, "has ended after 1"},
			{"shell.stop", `{"id":"` + id + `"}`, "it was stopped]"},
			{"shell.read", `{"id":"` + id + `","waitSeconds":60}`, "it was stopped]\n[no new output]"},
		} {
			if end := r.call(t, c.tool, c.args); !strings.Contains(end.Content, c.says) {
				t.Errorf("%s %s: %q, want %q", c.tool, c.args, end.Content, c.says)
			}
		}
		if len(s.seen) != 1 || !s.seen[0].Background || s.seen[0].Timeout != time.Hour {
			t.Errorf("ran %+v", s.seen)
		}
	})
}

func TestAProgramThatEndsAtOnceIsToldSo(t *testing.T) {
	r := sandboxTools(t, &sandboxed{}, builtin.Places{})
	if end := r.call(t, "shell.start", `{"argv":["true"]}`); !strings.Contains(end.Content, "has ended after") ||
		!strings.Contains(end.Content, "exit code 0 after 1ms]\nhello\n") || !end.Outside {
		t.Errorf("%+v", end)
	}
	r = sandboxTools(t, &sandboxed{err: errors.New("no room")}, builtin.Places{})
	if end := r.call(t, "shell.start", `{"argv":["true"]}`); !strings.Contains(end.Content, "it did not run: no room") {
		t.Errorf("%+v", end)
	}
}

// TestAReadOfTheBackgroundRunsInATaintedTurnAndSoDoesAStop: neither changes more than the chat's own program.
func TestAReadOfTheBackgroundRunsInATaintedTurnAndSoDoesAStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := sandboxTools(t, &sandboxed{goesOn: true}, builtin.Places{Write: []string{"/src"}, Domains: []string{"*"}})
		id := programID.FindString(r.call(t, "shell.start", `{"argv":["x"]}`).Content)
		r.by.Taint = "a page"
		for _, call := range [][2]string{{"shell.read", `{"id":"` + id + `"}`}, {"shell.stop", `{"id":"` + id + `"}`}} {
			if end := r.call(t, call[0], call[1]); end.Outcome != corebot.OutcomeSuccess {
				t.Errorf("%v: %+v", call, end)
			}
		}
	})
}

func TestTheDescriptionOfASandboxNamesItsPlaces(t *testing.T) {
	r := sandboxTools(t, &sandboxed{}, builtin.Places{
		Read: []string{"/ro"}, Write: []string{"/rw"}, Domains: []string{"proxy.golang.org"},
	})
	offered, err := r.Offer(t.Context(), r.by)
	must(t, err)
	for _, tool := range offered {
		names := slices.Contains([]string{"shell.exec", "shell.start"}, tool.Name)
		for _, place := range []string{"/ro", "/rw", "proxy.golang.org"} {
			if names && !strings.Contains(tool.Description, place) {
				t.Errorf("%s does not name %s: %s", tool.Name, place, tool.Description)
			}
		}
	}
	if len(offered) != 4 {
		t.Errorf("%d tools are offered", len(offered))
	}
}
