package router

import (
	"context"
	"fmt"
	"strings"
	"unicode"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
)

// deadLetter ends a message as a dead letter. One notice tells the chat why, and what to do. err is the error of the
// last attempt; nil: the outcome says everything. The attempt's usage is counted like any other.
func (r *Router) deadLetter(ctx context.Context, d corebot.Delivery, o corebot.Outcome, err error,
	spent []corebot.ModelUsage,
) corebot.Result {
	text := []string{"Sorry, I could not answer this message.", whyGivenUp(d, o)}
	if err != nil && r.mayReadErrors(ctx, d.Message) {
		text = append(text, r.forAdmins(o, err)...)
	}
	if d.Damaged == nil { // a retry of a damaged message would fail in the same way
		id := d.Message.ID
		text = append(text, fmt.Sprintf("An operator can see more with `corebot why %s`.", shellWord(id)),
			fmt.Sprintf("Send \"/retry %s\" to have it tried again.", id))
	}
	var actions []corebot.Action
	if d.Damaged == nil {
		actions = []corebot.Action{corebot.RetryAction(d.Message.ID)}
	}
	told := notice(d, "gave-up", strings.Join(text, " "), corebot.NoticeGaveUp, actions...)
	cause := ""
	if d.Damaged == nil && told.Key == d.Message.Key && r.opts.Groups != nil && r.opts.Groups(told.Key.Channel) {
		cause = whyGivenUp(d, o)
	}
	begins := d.Opens() && d.Damaged == nil // nobody knows whether the sender of a damaged message may begin a session
	return corebot.Result{Outcome: o, Spent: spent, NewSession: begins, Replies: []corebot.Message{told}, Cause: cause}
}

// ToldTogether is the notice about several dead letters of one cause in a chat.
func ToldTogether(n corebot.DeadNotice) corebot.Message {
	text, why := fmt.Sprintf("%d more messages could not be answered", n.Count), n.Cause
	if n.Count == 1 {
		text = "1 more message could not be answered"
	}
	if why == "" {
		why = "there are several reasons."
	}
	return corebot.TextNotice(n.Key, n.RunID+"/together", n.Last, fmt.Sprintf("%s: %s /dead lists them. Send "+
		"\"/retry all\" to have them tried again.", text, why), corebot.Notice{
		Kind:    corebot.NoticeGaveUp,
		Actions: []corebot.Action{{Name: "retry-all", Label: "Try all again", Command: "/retry " + allLetters}},
	})
}

// unstored makes a message a dead letter at once because the database will never store its turn's result. If the notice
// cannot be stored either, the chat can still learn the reason by /why.
func (r *Router) unstored(ctx context.Context, d corebot.Delivery, done corebot.Result,
	cause error,
) (corebot.Result, error) {
	o := corebot.Outcome{Verb: corebot.Dead, Reason: corebot.ReasonUnstored, Error: clip(cause.Error(), maxErrorKept)}
	result := toItsCall(d, r.deadLetter(ctx, d, o, cause, done.Spent))
	result.NewSession = result.NewSession && done.Outcome.End != corebot.EndRefused
	_, err := r.commit(ctx, d, result, corebot.Claim{})
	if corebot.Unstorable(err) {
		result.Replies = nil
		_, err = r.commit(ctx, d, result, corebot.Claim{})
	}
	return result, err
}

// maxErrorKept bounds the error that a dead letter keeps, in bytes.
const maxErrorKept = 2_000

// whyGivenUp says why a message became a dead letter, in words for everybody.
func whyGivenUp(d corebot.Delivery, o corebot.Outcome) string {
	why := o.Plain
	if why == "" {
		why = corebot.FaultInside.Say()
	}
	switch {
	case d.Damaged != nil:
		return corebot.FaultDamaged.Say(d.Message.ID)
	case o.Reason == corebot.ReasonUnstored:
		return corebot.FaultUnstored.Say()
	case o.Reason == corebot.ReasonPoison:
		return corebot.FaultPoison.Say(d.Lost)
	case o.Reason == corebot.ReasonTooLong:
		return corebot.FaultTooLongForAll.Say()
	case o.Reason == corebot.ReasonAttempts:
		return corebot.FaultAttempts.Say(d.Attempt, why)
	}
	return why
}

// mayReadErrors says whether a chat may read the texts of providers and errors, which can name accounts and machines.
// An admin's message must have caused them. The chat is the admins' chat, a chat on the owner's channel, or one in
// which nobody else has spoken.
func (r *Router) mayReadErrors(ctx context.Context, m corebot.Message) bool {
	ctx = context.WithoutCancel(ctx)
	who, k := m.Sender, m.Key
	role, err := r.roles.RoleOf(ctx, who, k)
	shared := k != r.opts.AdminChat && !r.opts.Owner.Is(k.Channel)
	if err == nil && role == corebot.RoleAdmin && shared {
		shared, err = r.lives.Shared(ctx, k, who)
	}
	if err != nil {
		zerolog.Ctx(ctx).Warn().Err(err).Msg("who reads the chat is taken for normal")
	}
	return err == nil && role == corebot.RoleAdmin && !shared
}

// maxErrorShown bounds the error that an admin reads in a chat, in bytes.
const maxErrorShown = 300

// forAdmins returns the provider's own words, or else the error, with its hint.
func (r *Router) forAdmins(o corebot.Outcome, err error) []string {
	var text []string
	switch e := corebot.ExplanationOf(err); {
	case e.Words != "":
		text = append(text, fmt.Sprintf("The provider said: %q.", r.opts.Redact(e.Words)))
	case o.Error != "":
		text = append(text, fmt.Sprintf("The error: %q.", clip(r.opts.Redact(visible(o.Error)), maxErrorShown)))
	}
	if hint := corebot.HintOf(err); hint != "" && o.Reason != corebot.ReasonTooLong {
		text = append(text, "Hint: "+strings.TrimSuffix(r.opts.Redact(visible(hint)), ".")+".")
	}
	return text
}

// visible makes a text one line and writes out the characters that a person cannot see.
func visible(s string) string { return corebot.Plainly(strings.Join(strings.Fields(s), " ")) }

// clip cuts a text to at most n bytes, at a whole character.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

// shellWord quotes an id for a command line that an operator can copy. The id comes from the message's sender, so it
// can contain anything.
func shellWord(s string) string {
	plain := func(r rune) bool {
		return r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r) ||
			strings.ContainsRune("-_./:@+,", r))
	}
	if !strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }) && !strings.HasPrefix(s, "-") {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
