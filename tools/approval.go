package tools

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/policy"
)

// An approval of a call is bound to the call's tool, its arguments, its working directory with all content, and the
// content of the files that it names. A program finds files by itself, under more names than anybody could list, so the
// whole directory counts. The step of the call waits in the journal, and the turn ends its claim. A resumed turn comes
// here again. With an approval, and nothing changed, the call goes on to its intent and runs. If anything has changed
// since the approval, the call needs a new one. In every other case the call ends as denied.
//
// Limits: the files are looked at right before the call runs; one that the call itself changes is looked at again under
// the lock of its write. Files of the system, and directories elsewhere than where the call works, are bound by their
// names alone. Where a directory has more than can be compared, no call that works in it can be approved.

// maxBoundFile is the largest file that a call may name and wait for an approval: all of it is read twice.
const maxBoundFile = 64 << 20

// Contents tells what is in files and directories of the workspace, and of those that are open beside it.
type Contents interface {
	// Clean is the one spelling of a path, whether or not there is something.
	Clean(path string) (string, error)
	// Read gives a whole file of at most limit bytes; a larger one is [rootfs.ErrTooLarge], a missing one
	// fs.ErrNotExist.
	Read(path string, limit int64) ([]byte, error)
	// Content is that of a file: "sha256:" and its hash, or [corebot.NoFile] or [corebot.NoContent].
	Content(path string) (string, error)
	// Directory stands for everything in a directory, at any depth: how many files there are, and a hash over all names
	// and contents. A missing directory is as an empty one; one with more than 1,000 entries or 64 MiB is an error with
	// a hint.
	Directory(path string) (string, error)
	// Empty says whether there is nothing in a directory. A missing one is empty.
	Empty(path string) (bool, error)
}

// Approvers says whether anybody is known who may approve a call of a conversation, or one that reaches beyond it.
type Approvers interface {
	CanApprove(ctx context.Context, k corebot.Key, beyond bool) (bool, error)
}

// Named is what a call names beside what it touches.
type Named struct {
	Dir   string   // in which it works, and may read and change everything; relative to the workspace; empty: none
	Paths []string // that may be files, relative to the workspace
	// Guessed says that a path at which nothing is names nothing: an argument of a program is seldom a file.
	Guessed bool
}

// Names tells where a call works and which files it may read, from its arguments. An approval of the call is bound to
// all that is there. The call's result is untrusted if its directory has anything in it before or after it ran, or if
// any of its files is untrusted. The traits of the tool do not change that.
func Names[A any](named func(Call, A) Named) Option[A] {
	return func(s *spec) { s.named = untyped(named) }
}

// Trusted says of a tool with the trait Outside which calls of it return only what the operator wrote.
func Trusted[A any](trusted func(Call, A) bool) Option[A] {
	return func(s *spec) { s.trusted = untyped(trusted) }
}

// decided asks for an approval of an allowed call where policy wants one. It denies a call whose answer has an earlier
// call that an admin denied, or that nobody approved in time. The flag done says that the call has ended, as denied.
func (j *job) decided(ctx context.Context, tool Tool, args bound,
	d policy.Decision,
) (r corebot.ToolResult, done bool, err error) {
	switch j.step.InAnswer().Denied {
	case policy.RuleNotApproved:
		return j.deny(ctx, policy.RuleNotApproved,
			"an admin said no to an earlier call of this answer, and the rest of the answer was not run")
	case policy.RuleNotInTime:
		return j.deny(ctx, policy.RuleNotInTime,
			"an earlier call of this answer was not approved in time, and the rest of the answer was not run")
	}
	rule := j.box.policy.NeedsApproval(tool.name, d, j.weigh(tool, args))
	if j.step.InAnswer().Denied == policy.RuleDetached {
		return j.behindDetached(ctx, rule, tool, args)
	}
	if j.step.State() == corebot.StepAwaiting { // people were asked about this very call
		return j.approve(ctx, rule, tool, args, "")
	}
	if rule == "" {
		return r, false, nil
	}
	stored, found, lapsed, err := j.ruled(ctx, tool, args)
	if err != nil {
		return r, false, err
	}
	if found {
		j.event.Rule = stored.AuditName()
		return r, false, nil
	}
	return j.approve(ctx, rule, tool, args, lapsed)
}

// weigh says what counts of a call. In a tainted turn it notes whether the call follows a link.
func (j *job) weigh(t Tool, args bound) policy.Weight {
	w := policy.Weight{
		Tainted: j.call.Taint != "",
		Reads:   t.traits.Has(ReadOnly) && !t.traits.Has(Unapproved) && !args.changed && !j.call.Overheard,

		Contained: args.contained(j.call) && !j.call.Overheard,
	}
	if w.Tainted && t.traits.Has(Egress) && !w.Contained {
		w.CarriesOut, j.follows = j.carriesOut(args.goes(j.call))
	}
	return w
}

// carriesOut says whether a call that goes to addresses can carry data out by them, and whether it follows a link.
func (j *job) carriesOut(to []string) (out, follows bool) {
	known := j.step.InAnswer().Addresses
	for _, address := range to {
		if known == nil {
			return true, false
		}
		ok, link := known.Knows(address)
		if !ok {
			return true, false
		}
		follows = follows || link
	}
	return len(to) == 0, follows
}

// deny ends a call as denied by a rule of approvals.
func (j *job) deny(ctx context.Context, rule, reason string) (corebot.ToolResult, bool, error) {
	j.event.Rule = rule
	r, err := j.finish(ctx, corebot.OutcomeDenied, "denied: "+reason)
	return r, true, err
}

// maxRounds is how often a call is asked about that changes each time after it was approved.
const maxRounds = 3

// approve holds a call until an admin has approved it. done says that it has ended, as denied; the error is
// [*corebot.AwaitsApproval] while it waits. One that is no longer what was approved is asked about anew.
func (j *job) approve(ctx context.Context, rule string, tool Tool, args bound,
	lapsed string,
) (r corebot.ToolResult, done bool, err error) {
	someone, err := j.someone(ctx)
	if err != nil {
		return r, false, err
	}
	if !someone {
		j.howToAllow = "`corebot admin grant PRINCIPAL`, which makes an admin who can approve"
		return j.deny(ctx, policy.RuleNobodyToApprove, "this call needs the approval of an admin, and there is none")
	}
	f := newForecast()
	now, err := j.bind(args, f)
	if err != nil {
		j.tellChat(err)
		return j.deny(ctx, policy.RuleCannotBind,
			"this call needs the approval of an admin, who could not tell what it would do: "+explained(err))
	}
	// Also a call that waits already looks ahead: in a replay nothing of its answer was asked about.
	own := j.wanted(0, rule, tool, args, now, f)
	own.Approval.Lapsed = lapsed
	a, err := j.ask(ctx, own, f, !j.step.InAnswer().Asked)
	switch {
	case errors.Is(err, corebot.ErrNotAsked):
		return j.deny(ctx, policy.RuleNotAsked,
			"this call needs the approval of an admin, who was asked about other calls of this answer; make it again")
	case errors.Is(err, corebot.ErrAskedEnough):
		return j.deny(ctx, policy.RuleAskedEnough, fmt.Sprintf("this call needs the approval of an admin, and %d "+
			"requests of this message were refused already; answer with what you have", corebot.MaxRefusals))
	case errors.Is(err, corebot.ErrAskedBefore):
		return j.deny(ctx, policy.RuleDetached, "this call needs the approval of an admin, and another call of this "+
			"message waits for one; no second one is asked for, so answer with what you have")
	case err != nil:
		return r, false, err
	}
	if a.Detached() && a.MessageID != j.call.MessageID { // this turn has asked, and another one runs the call
		return j.withoutCall(ctx, a.Approval)
	}
	switch a.State {
	case corebot.ApprovalApproved:
		if drift := a.Bound.Drift(now); drift != "" {
			return j.askAnew(ctx, a.Approval, drift, tool, args, now)
		}
		change := j.fileChange(args)
		if tool.attach { // the file that it reads is what an admin has seen
			change.Path = args.target(j.call).Path
		}
		j.call.Approved = j.changedFile(change.Path, now).Content
		j.call.ApprovedFrom = j.changedFile(change.From, now).Content
		return r, false, nil
	case corebot.ApprovalAwaited:
		return r, false, &corebot.AwaitsApproval{Asked: a}
	case corebot.ApprovalExpired:
		j.tellsDeclaration(a.Approval)
		j.deniesRest = policy.RuleNotInTime
		return j.deny(ctx, j.deniesRest, "this call needs the approval of an admin, and none came in time, or its "+
			"sender wrote again first; it was not run")
	}
	j.tellsDeclaration(a.Approval)
	j.deniesRest = policy.RuleNotApproved
	return j.deny(ctx, j.deniesRest, "an admin said no to this call; it was not run")
}

// askAnew asks about a call, and those behind it, that has changed since it was approved. A call that never stays the
// same is denied in the end.
func (j *job) askAnew(ctx context.Context, was corebot.Approval, drift string, tool Tool, args bound,
	now corebot.Bound,
) (r corebot.ToolResult, done bool, err error) {
	if was.Round+1 >= maxRounds {
		j.tell(fmt.Sprintf("A call of %s was not run: %s after it was approved, for the %dth time.", j.label, drift,
			maxRounds))
		return j.deny(ctx, policy.RuleNotTheSame,
			fmt.Sprintf("an admin approved this call, but %s since, again and again; it was not run", drift))
	}
	f := newForecast()
	anew := j.wanted(0, was.Rule, tool, args, now, f)
	anew.Approval.Round, anew.Approval.Because = was.Round+1, drift
	a, err := j.ask(ctx, anew, f, true)
	if err != nil {
		return r, false, err
	}
	return r, false, &corebot.AwaitsApproval{Asked: a}
}

// someone says whether anybody is known who may approve the call.
func (j *job) someone(ctx context.Context) (bool, error) {
	if j.box.opts.Approvers == nil {
		return false, nil
	}
	known, err := j.box.opts.Approvers.CanApprove(ctx, j.call.Key, j.beyond)
	if err != nil {
		return false, fmt.Errorf("look for who could approve a call: %w", err)
	}
	return known, nil
}

// ask stores that the call waits, with the calls behind it that will, unless it does already, and gives how its
// approval stands.
func (j *job) ask(ctx context.Context, own corebot.NewApproval, f *forecast,
	foresee bool,
) (corebot.ApprovalRequest, error) {
	asks := []corebot.NewApproval{own}
	if foresee {
		behind, err := j.foresee(ctx, f)
		if err != nil {
			return corebot.ApprovalRequest{}, err
		}
		asks = append(asks, behind...)
	}
	beyond := slices.ContainsFunc(asks, func(a corebot.NewApproval) bool { return a.Approval.Beyond })
	for i := range asks { // they are approved together
		asks[i].Approval.Beyond = beyond
	}
	return j.step.Ask(ctx, asks)
}

// wanted is what is asked for a call.
func (j *job) wanted(position int, rule string, tool Tool, args bound, b corebot.Bound,
	f *forecast,
) corebot.NewApproval {
	e := j.event
	e.Event, e.Rule = "approval.request", rule // without an outcome: nothing has run
	a := corebot.Approval{
		Key: j.call.Key, Principal: j.call.Principal, Position: position, Bound: b, Rule: rule, Taint: j.call.Taint,
		Beyond:    j.beyond,
		ExpiresAt: time.Now().Add(j.box.opts.Patience),
	}
	if file := j.changedFile(j.fileChange(args).Path, b); file.Path != "" {
		a.Change = j.change(args, file, f)
	}
	w := j.weigh(tool, args)
	a.Binding, a.Unbound = j.box.policy.Bind(w, j.subject(tool, args))
	a.Declarable = j.declarable(rule, tool, args, w)
	return corebot.NewApproval{
		Event: e, Approval: a, Opens: j.call.Opens, Apart: j.call.Apart,
		AnswerAfter: j.answerAfter(),
	}
}

// foresee finds the calls behind this one that will need an approval as well, so that an admin decides once. A call
// that cannot run, or that nobody could approve, is left out: its own turn says why.
//
// A file that an earlier call changes is shown, and bound, as that call would leave it.
func (j *job) foresee(ctx context.Context, f *forecast) (asks []corebot.NewApproval, err error) {
	for i, call := range j.step.InAnswer().Behind {
		later := j.box.newJob(j.call.Caller, j.event.Role, call, j.step)
		tool, ok := j.box.registry.find(call.Tool)
		if !ok {
			continue
		}
		later.label, later.event.Tool = tool.name, tool.name
		args, err := tool.bind(call.Args)
		if err != nil || args.able(later.call) != nil {
			continue
		}
		d, err := later.judge(ctx, tool, args)
		if err != nil {
			return nil, err
		}
		rule := j.box.policy.NeedsApproval(tool.name, d, later.weigh(tool, args))
		if !d.Allow {
			continue
		}
		ruled, lapsed := false, ""
		if rule != "" {
			if _, ruled, lapsed, err = later.ruled(ctx, tool, args); err != nil {
				return nil, err
			}
		}
		if rule == "" || ruled {
			later.passes(args, f)
			continue
		}
		known, err := later.someone(ctx)
		if err != nil {
			return nil, err
		}
		if b, err := later.bind(args, f); known && err == nil {
			ask := later.wanted(i+1, rule, tool, args, b, f)
			ask.Approval.Lapsed = lapsed
			asks = append(asks, ask)
		}
	}
	return asks, nil
}

// fileChange is the change of a file that a call makes. A directory that is made has no content to be bound.
func (j *job) fileChange(args bound) Change {
	if c := args.change(j.call); !c.Dir {
		return c
	}
	return Change{}
}

// passes notes what a call that nobody is asked about will make of its file.
func (j *job) passes(args bound, f *forecast) {
	change := j.fileChange(args)
	path, err := j.clean(change.Path)
	if change.Path == "" || err != nil {
		return
	}
	if v := j.before(path, f); v.why != nil {
		return
	}
	if all, _, err := j.after(change, path, f); err == nil {
		maps.Copy(f.files, all)
	}
}

// tellChat has the chat hear why nobody is asked: what is to be done about it is for people, and a model need not pass
// it on.
func (j *job) tellChat(err error) {
	j.tell(fmt.Sprintf("A call of %s was denied. It needs an approval, but nobody could tell what it would do: %s.",
		j.label, explained(err)))
}

func (j *job) tell(text string) { j.notice = corebot.Plainly(text) }

// bind gathers what an approval is given for, as it is now. The directory comes last: a file in it that the call names
// is the better word for what has changed.
func (j *job) bind(args bound, f *forecast) (corebot.Bound, error) {
	named := args.named(j.call)
	target, change := args.target(j.call), j.fileChange(args)
	paths := append([]string{target.Path, target.From, change.Path, change.From}, named.Paths...)
	for i, path := range paths { // a file is bound once, however it is spelled
		if clean, err := j.clean(path); err == nil {
			paths[i] = clean
		}
	}
	var files []corebot.NamedFile
	add := func(path string, content func(Contents, string) (string, error)) error {
		if j.box.opts.Contents == nil {
			return fmt.Errorf("what is in %s is not known", path)
		}
		is, err := content(j.box.opts.Contents, path)
		if err == nil && named.Guessed && is == corebot.NoFile && slices.Contains(named.Paths, path) {
			return nil
		}
		files = append(files, corebot.NamedFile{Path: path, Content: is})
		return err
	}
	for _, path := range slices.Compact(slices.Sorted(slices.Values(paths))) {
		if path == "" || path == named.Dir {
			continue
		}
		err := add(path, func(c Contents, path string) (string, error) {
			if content, known := f.content(path); known {
				return content, nil
			}
			return c.Content(path)
		})
		if err != nil {
			return corebot.Bound{}, err
		}
	}
	if named.Dir != "" {
		if err := add(named.Dir, Contents.Directory); err != nil {
			return corebot.Bound{}, err
		}
	}
	b, err := corebot.NewBound(j.raw, named.Dir, files)
	b.Definition = args.definition
	return b, err
}

// clean is the one spelling of a path.
func (j *job) clean(path string) (string, error) {
	if j.box.opts.Contents == nil {
		return rootfs.Clean(path)
	}
	return j.box.opts.Contents.Clean(path)
}

// changedFile is a file that a call changes, as it is bound.
func (j *job) changedFile(named string, b corebot.Bound) corebot.NamedFile {
	path, err := j.clean(named)
	if err != nil {
		return corebot.NamedFile{}
	}
	for _, f := range b.Files {
		if f.Path == path {
			return f
		}
	}
	return corebot.NamedFile{}
}

// outside says whether what a call returns may be text that others than the operator wrote. It is asked before the call
// runs.
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

// anythingIn says whether a call that works in a directory finds something there. It is all others' text: tools and
// people of the chat put it there.
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

// Clean implements [Contents].
func (f *Files) Clean(path string) (string, error) {
	p, err := f.reach.Find(path)
	return p.String(), err
}

// Read implements [Contents].
func (f *Files) Read(path string, limit int64) ([]byte, error) {
	root, p, err := f.reach.At(path)
	if err != nil {
		return nil, err
	}
	return root.ReadFile(p.Path, limit)
}

// Content implements [Contents].
func (f *Files) Content(path string) (string, error) {
	if _, err := f.reach.Find(path); err != nil { // nothing is read there
		return corebot.NoFile, nil
	}
	root, p, err := f.reach.At(path)
	if err != nil {
		return "", err
	}
	sum, err := root.Hash(p.Path, maxBoundFile)
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
