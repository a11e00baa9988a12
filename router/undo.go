package router

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/policy"
)

// Versions are the changes of files that can be undone.
type Versions interface {
	// Claim gives the changes of the newest message of a chat that has any, newest first. They are those of an /undo
	// from then on, which gets them again after a crash; life is its own.
	Claim(ctx context.Context, k corebot.Key, life int64) ([]corebot.FileVersion, error)
	// Release gives back what an /undo has claimed.
	Release(ctx context.Context, k corebot.Key, life int64) error
}

// Reverter puts files back. It says what it has done, also beside an error. An error that is about the files is shown
// to the chat.
type Reverter interface {
	Revert(ctx context.Context, d corebot.Delivery, all []corebot.FileVersion) (done []string, err error)
}

// shownChanges is how many changes an answer to /undo names.
const shownChanges = 20

// undo answers an /undo in its place in the lane: what an earlier turn changes is there when the /undo begins. If it is
// cut short, its next attempt goes on with the same changes.
func (r *Router) undo(ctx context.Context, d corebot.Delivery, c corebot.Command) corebot.Result {
	result, err := r.undone(ctx, d, c)
	if err != nil {
		o := r.queue.Verdict(d, err)
		if o.Verb == corebot.Dead {
			return r.deadLetter(ctx, d, o, err, nil)
		}
		return corebot.Result{Outcome: o}
	}
	return result
}

func (r *Router) undone(ctx context.Context, d corebot.Delivery, c corebot.Command) (corebot.Result, error) {
	says := func(text string, kind corebot.NoticeKind) corebot.Result {
		return corebot.Result{
			Outcome: corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered},
			Replies: []corebot.Message{notice(d, "undo", text, kind)},
		}
	}
	if c.Args != "" { // such as the name of a file: more would be undone than was meant
		return says("/undo takes nothing behind it: it undoes all changes of one message, the newest that "+
			"has changed files. Nothing was undone.", corebot.NoticeCommand), nil
	}
	k := d.Message.Key
	if r.opts.Versions == nil || r.opts.Reverter == nil {
		return says("Changes of files are not kept here: tools.versions is 0.", corebot.NoticeCommand), nil
	}
	all, err := r.opts.Versions.Claim(ctx, k, d.Life)
	if err != nil {
		return corebot.Result{}, fmt.Errorf("look for changes to undo: %w", err)
	}
	if len(all) == 0 {
		return says("There is no change of a file in this chat that can be undone.", corebot.NoticeCommand), nil
	}
	why, by, err := r.mayUndo(ctx, d, c, all)
	if err != nil {
		return corebot.Result{}, err
	}
	var done []string
	if why == "" {
		if done, err = r.opts.Reverter.Revert(ctx, d, all); err != nil {
			if ctx.Err() != nil {
				return corebot.Result{}, err
			}
			why = "Nothing more was undone: " + inChat(err) + "."
			if len(done) == 0 {
				why = "Nothing was undone: " + inChat(err) + "."
			}
		}
	}
	if why != "" {
		if err := r.opts.Versions.Release(ctx, k, d.Life); err != nil {
			return corebot.Result{}, fmt.Errorf("leave changes as they are: %w", err)
		}
		result := says(strings.Join(append(listed(done), why), "\n"), corebot.NoticeRefused)
		result.Outcome.End, result.Outcome.Reason, result.Command = corebot.EndRefused, "not undone", by
		return result, nil
	}
	// The audit names an /undo that found nothing to do: an attempt of it that a crash ended can have done everything.
	text := "The files are as they were before those changes already."
	if len(done) > 0 {
		text = fmt.Sprintf("Undone, of message %s:\n%s", all[0].MessageID, strings.Join(listed(done), "\n"))
	}
	result := says(text, corebot.NoticeCommand)
	by.Outcome = corebot.OutcomeSuccess
	result.Command = by
	return result, nil
}

// listed are the lines of an answer, the first of them.
func listed(done []string) []string {
	if more := len(done) - shownChanges; more > 0 {
		return append(done[:shownChanges:shownChanges], fmt.Sprintf("and %d more", more))
	}
	return done
}

// mayUndo says why a sender may not undo changes; empty: he may. They must be of his own messages, or he is an admin of
// the chat. With his role of now he must be allowed to change each of the files.
func (r *Router) mayUndo(ctx context.Context, d corebot.Delivery, c corebot.Command,
	all []corebot.FileVersion,
) (why string, by corebot.AuditEvent, err error) {
	m := d.Message
	for _, v := range all {
		var decision policy.Decision
		if decision, by, err = r.judge(ctx, m, c, v.Principal); err != nil || !decision.Allow {
			why = "Only the sender of message " + v.MessageID + ", or an admin, can undo what its turn has changed."
			return why, by, err
		}
	}
	here, err := r.roles.RoleOf(ctx, m.Sender, m.Key)
	if err != nil {
		return "", by, err
	}
	everywhere, err := r.roles.RoleOf(ctx, m.Sender, corebot.Key{})
	if err != nil {
		return "", by, err
	}
	for _, v := range all {
		decision := r.policy.Authorize(policy.Request{
			Tool: "fs.write", Role: here, There: here, Everywhere: everywhere, Principal: m.Sender, Key: m.Key,
			Target: policy.Target{Path: v.Path, From: v.From, Write: true}, Entry: m.Entry,
		})
		if !decision.Allow {
			by.Rule, by.Outcome = decision.Rule, corebot.OutcomeDenied
			return "You may not change a file of it: " + decision.Reason + ".", by, nil
		}
	}
	by.Args = changedPaths(all)
	return "", by, nil
}

// changedPaths are the arguments of an /undo in the audit: the paths that it changes, the first of them.
func changedPaths(all []corebot.FileVersion) string {
	var paths []string
	for _, v := range all[:min(len(all), shownChanges)] {
		paths = append(paths, v.Path)
	}
	text, err := json.Marshal(map[string]any{"message": all[0].MessageID, "paths": paths})
	if err != nil {
		return "{}"
	}
	return string(text)
}
