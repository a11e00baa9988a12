package channels

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/corebot/corebot"
)

// Settler is the bus as a [Reporter] needs it.
type Settler interface {
	Queue
	Settled(d corebot.Delivery, o corebot.Outcome)
}

// Committer ends a claim together with messages that it causes, in one commit.
type Committer interface {
	Commit(ctx context.Context, d corebot.Delivery, r corebot.Result) error
}

// Reporter is the bus as the outbox sees it, with one addition. The commit that makes a reply a dead letter also
// reports it to a chat. A lost notice is reported to nobody, so no notice begets another. Within an hour only the first
// few reports are made, because a platform that is down would flood the chat.
type Reporter struct {
	Settler
	commit Committer
	to     corebot.Key

	mu    sync.Mutex
	since time.Time // when the hour began
	made  int       // reports in it
}

const (
	reportsAnHour = 20
	reportedError = 500 // bytes of the last error that a report shows
)

// NewReporter reports to the conversation of a key.
func NewReporter(s Settler, c Committer, to corebot.Key) (*Reporter, error) {
	if err := to.Validate(); err != nil {
		return nil, fmt.Errorf("the chat for reports: %w", err)
	}
	return &Reporter{Settler: s, commit: c, to: to}, nil
}

// Settle implements [Queue].
func (r *Reporter) Settle(ctx context.Context, d corebot.Delivery, o corebot.Outcome) error {
	if o.Verb != corebot.Dead || d.Message.Kind == corebot.KindNotice {
		return r.Settler.Settle(ctx, d, o)
	}
	left, ok := r.take(time.Now())
	if !ok {
		return r.Settler.Settle(ctx, d, o)
	}
	err := r.commit.Commit(ctx, d, corebot.Result{Outcome: o, Replies: []corebot.Message{r.report(d, o, left)}})
	switch {
	case err == nil:
		r.Settled(d, o)
	case errors.Is(err, corebot.ErrConflict): // somebody gave a message this very id: no reason to hold up the chat
		return r.Settler.Settle(ctx, d, o)
	}
	return err
}

// take counts a report and says how many more the hour has room for.
func (r *Reporter) take(now time.Time) (left int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.since) >= time.Hour {
		r.since, r.made = now, 0
	}
	if r.made >= reportsAnHour {
		return 0, false
	}
	r.made++
	return reportsAnHour - r.made, true
}

// report is the notice about a reply. It has the life in its id: other chats may have messages of the same id.
func (r *Reporter) report(d corebot.Delivery, o corebot.Outcome, left int) corebot.Message {
	k := d.Message.Key
	text := fmt.Sprintf("A reply could not be delivered to chat %s on %s. %s. It is kept as dead letter %d: "+
		"\"corebot dlq show %d\" shows it, \"corebot dlq replay %d\" sends it again.",
		corebot.Plainly(k.Chat), k.Channel, whyGivenUp(d, o), d.Life, d.Life, d.Life)
	if left == 0 {
		text += " Further ones within this hour are not reported here; \"corebot dlq list --direction outbound\" has " +
			"them all."
	}
	return corebot.TextNotice(r.to, corebot.OwnID("undelivered", d.Life, d.Run), "", text,
		corebot.Notice{Kind: corebot.NoticeUndelivered})
}

// whyGivenUp says in words why a reply is given up: what its last attempt met, and how many there were if more could
// have helped.
func whyGivenUp(d corebot.Delivery, o corebot.Outcome) string {
	met := clip(corebot.Plainly(strings.TrimSuffix(strings.Join(strings.Fields(o.Error), " "), ".")), reportedError)
	switch {
	case d.Damaged != nil:
		return "What is stored of it cannot be read any more"
	case met == "":
		return "The channel did not say why"
	case o.Reason == corebot.ReasonAttempts:
		return fmt.Sprintf("Corebot tried it %d times, and the last time: %s", d.Attempt, met)
	}
	return "The last attempt said: " + met
}

// clip is at most n bytes of a text, whole characters.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
