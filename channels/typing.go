package channels

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/live"
)

const (
	// A quick answer is there before anybody looks: nothing is shown of it.
	typingAfter = 500 * time.Millisecond
	// typingMost bounds how long an answer is shown to be made: the word that it ended can be missed.
	typingMost = 15 * time.Minute
	typingCall = 5 * time.Second
)

// Turns tells of the turns that begin and end.
type Turns interface {
	WatchTurns() (events <-chan live.Event, stop func())
}

// Type shows in the chats of each [Typer] that an answer is being made, until ctx ends. Of turns that nobody in the
// chat asked for, such as those of tasks, it shows nothing.
func (s *Supervisor) Type(ctx context.Context, turns Turns) error {
	typers := map[Account]*watched{}
	for _, e := range s.entries {
		if _, types := e.Channel.(Typer); types {
			typers[e.Account] = e
		}
	}
	if len(typers) == 0 {
		<-ctx.Done()
		return nil
	}
	events, stop := turns.WatchTurns()
	defer stop()
	var showing sync.WaitGroup
	defer showing.Wait()
	ends := map[corebot.Key]context.CancelFunc{}
	for {
		var e live.Event
		select {
		case <-ctx.Done():
			return nil // which ends all that is shown
		case e = <-events:
		}
		w := typers[AccountOf(e.Key)]
		if w == nil || strings.HasPrefix(e.MessageID, corebot.OwnIDs) {
			continue
		}
		if end := ends[e.Key]; end != nil {
			end()
			delete(ends, e.Key)
		}
		if e.Kind == live.TurnStarted {
			shown, end := context.WithTimeout(ctx, typingMost)
			ends[e.Key] = end
			showing.Go(func() {
				defer end()
				s.show(shown, w, e.Key)
			})
		}
	}
}

// show keeps one chat told until ctx ends, or the platform refuses.
func (s *Supervisor) show(ctx context.Context, w *watched, k corebot.Key) {
	timer := time.NewTimer(typingAfter)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if !w.gate.opens(k.Chat, time.Now()).IsZero() {
			return
		}
		call, done := context.WithTimeout(ctx, typingCall)
		again, err := w.Channel.(Typer).Typing(call, k)
		done()
		if err != nil {
			w.gate.refused(k.Chat, err, time.Now())
			if ctx.Err() == nil {
				s.log.Debug().Err(err).Str("chat", k.String()).Msg("typing is not shown")
			}
			return
		}
		timer.Reset(max(again, time.Second))
	}
}
