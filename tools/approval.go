package tools

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/policy"
)

// A call that policy keeps for an admin's word is bound to what it is: its tool, its arguments, the directory that it works in with everything in it, and
// the content of the files that it names. A program finds files by itself, under more names than anybody could list: so all that is there counts. Its step waits in the journal, the turn ends its claim, and whoever resumes the turn comes here again: with an
// approval, and with nothing changed, the call goes on to its intent and runs; everything else ends it as denied.
//
// Limits: the files are looked at right before the call runs, not while it does; files of the system, and directories elsewhere than where the call works,
// are bound by their names alone. Where a directory has more than can be compared, no call that works in it can be approved.

// maxBoundFile is the largest file that a call may name and wait for an approval: all of it is read twice.
const maxBoundFile = 64 << 20

// Contents tells what is in files and directories of the workspace.
type Contents interface {
	// Content is that of a file: "sha256:" and its hash, or [corebot.NoFile] or [corebot.NoContent].
	Content(path string) (string, error)
	// Directory stands for everything in a directory, at any depth: how many files there are, and a hash over all names and contents. A missing
	// directory is as an empty one; one with more than 1,000 entries or 64 MiB is an error with a hint.
	Directory(path string) (string, error)
	// Empty says whether there is nothing in a directory. A missing one is empty.
	Empty(path string) (bool, error)
}

// Approvers says whether anybody is known who may approve a call of a conversation.
type Approvers interface {
	CanApprove(ctx context.Context, k corebot.Key) (bool, error)
}

// Named is what a call names beside what it touches.
type Named struct {
	Dir   string   // in which it works, and may read and change everything; relative to the workspace; empty: none
	Paths []string // that may be files, relative to the workspace
}

// Names tells where a call works and which files it may read, from its arguments. An approval of the call is bound to all that is there. What the call
// returns is text from outside, whatever the traits of the tool, if there is anything in its directory before or after it ran, or any of its files is.
func Names[A any](named func(Call, A) Named) Option[A] {
	return func(s *spec[A]) { s.named = named }
}

// Trusted says of a tool with the trait Outside which calls of it return only what the operator wrote.
func Trusted[A any](trusted func(Call, A) bool) Option[A] {
	return func(s *spec[A]) { s.trusted = trusted }
}

// approve holds a call until an admin has approved it. done says that it has ended, as denied; the error is [*corebot.Awaits] while it waits.
func (j *job) approve(ctx context.Context, rule string, args bound) (r corebot.ToolResult, done bool, err error) {
	deny := func(rule, reason string) (corebot.ToolResult, bool, error) {
		j.event.Rule = rule
		r, err := j.finish(ctx, corebot.OutcomeDenied, "denied: "+reason)
		return r, true, err
	}
	someone := false
	if a := j.box.opts.Approvers; a != nil {
		if someone, err = a.CanApprove(ctx, j.call.Key); err != nil {
			return r, false, fmt.Errorf("look for who could approve a call: %w", err)
		}
	}
	if !someone {
		return deny(policy.RuleNobodyToApprove, "this call needs the approval of an admin, and there is none")
	}
	now, err := j.bind(args)
	if err != nil {
		j.tellChat(err)
		return deny(policy.RuleCannotBind, "this call needs the approval of an admin, who could not tell what it would do: "+explained(err))
	}
	a, err := j.ask(ctx, rule, now)
	if err != nil {
		return r, false, err
	}
	switch a.State {
	case corebot.ApprovalApproved:
		if drift := a.Bound.Drift(now); drift != "" {
			return deny(policy.RuleNotTheSame, fmt.Sprintf("an admin approved this call, but %s since; it was not run", drift))
		}
		return r, false, nil
	case corebot.ApprovalAwaited:
		return r, false, &corebot.Awaits{Approval: a}
	case corebot.ApprovalExpired:
		return deny(policy.RuleNotInTime, "this call needs the approval of an admin, and none came in time; it was not run")
	}
	return deny(policy.RuleNotApproved, "an admin said no to this call; it was not run")
}

// ask stores that the call waits, unless it does already, and gives how its approval stands.
func (j *job) ask(ctx context.Context, rule string, b corebot.Bound) (corebot.Approval, error) {
	e := j.event
	e.Event, e.Rule, e.Outcome = "approval.request", rule, corebot.OutcomeSuccess
	return j.step.Ask(ctx, corebot.Approval{
		Key: j.call.Key, Principal: j.call.Principal, Bound: b, Rule: rule, Taint: j.call.Taint, ExpiresAt: time.Now().Add(j.box.opts.Patience),
	}, e)
}

// tellChat has the chat hear why nobody is asked: what is to be done about it is for people, and a model need not pass it on.
func (j *job) tellChat(err error) {
	j.notice = corebot.Plainly(fmt.Sprintf("A call of %s was denied. It needs an approval, but nobody could tell what it would do: %s.", j.label, explained(err)))
}

// bind gathers what an approval is given for, as it is now. The directory comes last: a file in it that the call names is the better word for what has
// changed.
func (j *job) bind(args bound) (corebot.Bound, error) {
	named := args.named(j.call)
	if path := args.target(j.call).Path; path != "" {
		named.Paths = append([]string{path}, named.Paths...)
	}
	var files []corebot.NamedFile
	add := func(path string, content func(Contents, string) (string, error)) error {
		if j.box.opts.Contents == nil {
			return fmt.Errorf("what is in %s is not known", path)
		}
		is, err := content(j.box.opts.Contents, path)
		files = append(files, corebot.NamedFile{Path: path, Content: is})
		return err
	}
	for _, path := range slices.Compact(slices.Sorted(slices.Values(named.Paths))) {
		if path == named.Dir {
			continue
		}
		if err := add(path, Contents.Content); err != nil {
			return corebot.Bound{}, err
		}
	}
	if named.Dir != "" {
		if err := add(named.Dir, Contents.Directory); err != nil {
			return corebot.Bound{}, err
		}
	}
	return corebot.NewBound(j.raw, named.Dir, files)
}

// outside says whether what a call returns may be text that others than the operator wrote. It is asked before the call runs.
func (j *job) outside(t Tool, args bound) bool {
	if t.traits.Has(Outside) {
		return !args.trusted(j.call)
	}
	named := args.named(j.call)
	return j.anythingIn(named.Dir) || slices.ContainsFunc(named.Paths, func(path string) bool {
		if j.box.opts.Contents == nil {
			return true
		}
		content, err := j.box.opts.Contents.Content(path)
		return (err != nil || content != corebot.NoFile) && !policy.OperatorsText(policy.Target{Path: path})
	})
}

// anythingIn says whether a call that works in a directory finds something there. It is all others' text: tools and people of the chat put it there.
func (j *job) anythingIn(dir string) bool {
	if dir == "" {
		return false
	}
	if j.box.opts.Contents == nil {
		return true
	}
	empty, err := j.box.opts.Contents.Empty(dir)
	return err != nil || !empty
}

// Content implements [Contents] for the files of a workspace.
func (f *Files) Content(path string) (string, error) {
	if _, err := rootfs.Clean(path); err != nil { // not of the workspace: nothing is read there
		return corebot.NoFile, nil
	}
	sum, err := f.root.Hash(path, maxBoundFile)
	switch {
	case err == nil:
		return fmt.Sprintf("sha256:%x", sum), nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, rootfs.ErrNotDir):
		return corebot.NoFile, nil
	case errors.Is(err, rootfs.ErrNotRegular), errors.Is(err, rootfs.ErrEscape):
		return corebot.NoContent, nil
	}
	return "", err
}

var _ Contents = (*Files)(nil)
