package operate

import (
	"context"
	"fmt"
	"time"

	"github.com/corebot/corebot"
)

// Replays keeps the replays of many dead letters.
type Replays interface {
	// BeginReplay begins one, or finds the open one of the same request. While another one is open, none begins.
	BeginReplay(ctx context.Context, f corebot.DeadLetterFilter, fresh bool, every time.Duration) (corebot.Replaying,
		error)
	// StepReplay makes one go on as far as it is due. A running Corebot does the same by itself.
	StepReplay(ctx context.Context, id int64) (corebot.Replaying, error)
	StopReplay(ctx context.Context, id int64) (corebot.Replaying, error)
	Replays(ctx context.Context, limit int) ([]corebot.Replaying, error)
}

// The operations on replays of many dead letters.
var (
	BeginReplay = changes("dlq.replay.begin", (*Service).BeginReplay)
	StepReplay  = changes("dlq.replay.step", (*Service).StepReplay)
	StopReplay  = changes("dlq.replay.stop", (*Service).StopReplay)
	ListReplays = reads("dlq.replays", (*Service).ListReplays)
)

// PacedReplay asks for a replay of all dead letters that a filter means, so many a second.
type PacedReplay struct {
	Filter corebot.DeadLetterFilter `json:"filter"`
	Fresh  bool                     `json:"fresh,omitempty"`
	Rate   float64                  `json:"rate"`
}

// The bounds of the rate of a replay, in messages a second.
const (
	MinReplayRate = 0.001
	MaxReplayRate = 1_000
)

// CheckReplayRate refuses a rate of messages a second that no replay has.
func CheckReplayRate(rate float64) error {
	if !(rate >= MinReplayRate && rate <= MaxReplayRate) { // also if the rate is not a number
		return fmt.Errorf("%w: a rate of %v messages a second: want %v to %v", corebot.ErrInvalid, rate, MinReplayRate,
			MaxReplayRate)
	}
	return nil
}

// BeginReplay begins a replay with a rate.
func (s *Service) BeginReplay(ctx context.Context, r PacedReplay) (corebot.Replaying, error) {
	if err := CheckReplayRate(r.Rate); err != nil {
		return corebot.Replaying{}, err
	}
	return s.stores.Replays.BeginReplay(ctx, r.Filter, r.Fresh, time.Duration(float64(time.Second)/r.Rate))
}

// StepReplay makes a replay go on.
func (s *Service) StepReplay(ctx context.Context, by ByID) (corebot.Replaying, error) {
	return s.stores.Replays.StepReplay(ctx, by.ID)
}

// StopReplay ends a replay. The letters that it has replayed stay replayed.
func (s *Service) StopReplay(ctx context.Context, by ByID) (corebot.Replaying, error) {
	r, err := s.stores.Replays.StopReplay(ctx, by.ID)
	if err != nil {
		err = corebot.WithHint(err, "`corebot dlq replays` shows them")
	}
	return r, err
}

// ListReplays lists the newest replays of many, newest first.
func (s *Service) ListReplays(ctx context.Context, p Part) (Page[corebot.Replaying], error) {
	found, err := s.stores.Replays.Replays(ctx, p.size())
	return pageOf(found, "", func(r corebot.Replaying) corebot.Replaying { return r }), err
}
