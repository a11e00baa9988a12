package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/corebot/corebot"
)

// DeadLetters keeps the messages that were given up. Every change of one leaves an audit event in its commit.
type DeadLetters interface {
	// Page gives dead letters behind a cursor, newest first, and the cursor behind them.
	Page(ctx context.Context, f corebot.DeadLetterFilter, after string, limit int) (found []corebot.DeadLetter,
		next string, err error)
	Count(ctx context.Context, f corebot.DeadLetterFilter, by corebot.DeadBy) (corebot.DeadCounts, error)
	Replay(ctx context.Context, id int64, fresh bool) error
	ReplayAll(ctx context.Context, f corebot.DeadLetterFilter, fresh bool) (corebot.Replayed, error)
	Edit(ctx context.Context, id int64, newID, text string) error
	Drop(ctx context.Context, id int64) error
	Purge(ctx context.Context, f corebot.DeadLetterFilter) (int, error)
	GiveUp(ctx context.Context, lane int64) (corebot.Origin, error)
}

// The operations on dead letters.
var (
	ListDeadLetters   = reads("dlq.list", (*Service).ListDeadLetters)
	ShowDeadLetter    = reads("dlq.show", (*Service).ShowDeadLetter)
	FindDeadLetters   = reads("dlq.find", (*Service).FindDeadLetters)
	CountDeadLetters  = walks("dlq.stats", (*Service).CountDeadLetters)
	ReplayDeadLetters = changes("dlq.replay", (*Service).ReplayDeadLetters)
	EditDeadLetter    = changes("dlq.edit", (*Service).EditDeadLetter)
	DropDeadLetters   = changes("dlq.drop", (*Service).DropDeadLetters)
	PurgeDeadLetters  = changes("dlq.purge", (*Service).PurgeDeadLetters)
	GiveUpHead        = changes("dlq.give-up", (*Service).GiveUpHead)
)

type (
	// DeadLetterQuery asks for a part of the dead letters that a filter means. The filter's own limit does not count.
	DeadLetterQuery struct {
		Filter corebot.DeadLetterFilter `json:"filter,omitzero"`
		Part
	}
	// DeadLetter is one row of the list: the contract's JSON.
	DeadLetter struct {
		ID        int64     `json:"id"`
		Direction string    `json:"direction"`
		Channel   string    `json:"channel"`
		ChatID    string    `json:"chatId"`
		MessageID string    `json:"messageId"`
		Reason    string    `json:"reason"`
		Attempts  int       `json:"attempts"`
		LastError string    `json:"lastError"`
		CreatedAt time.Time `json:"createdAt"`
		DeadAt    time.Time `json:"deadAt"`
		Agent     string    `json:"agent,omitempty"` // of another agent than main
	}
	// DeadCountQuery asks for the numbers of the dead letters that a filter means.
	DeadCountQuery struct {
		Filter corebot.DeadLetterFilter `json:"filter,omitzero"`
		By     corebot.DeadBy           `json:"by,omitempty"` // empty: by reason
	}
	// ByID names one row.
	ByID struct {
		ID int64 `json:"id"`
	}
	// ByMessage names the messages with an id. Several chats can have used it.
	ByMessage struct {
		MessageID string      `json:"messageId"`
		Key       corebot.Key `json:"key,omitzero"` // only of this chat; zero: of all
	}
	// Found are the numbers of rows.
	Found struct {
		IDs []int64 `json:"ids"`
	}
	// Replay puts dead letters back into the queue: those that are named, or all that the filter means.
	Replay struct {
		IDs    []int64                   `json:"ids,omitempty"`
		Filter *corebot.DeadLetterFilter `json:"filter,omitempty"`
		Fresh  bool                      `json:"fresh"`
	}
	// Edit replays a dead letter with another text, under a new id. Its files stay.
	Edit struct {
		ID    int64  `json:"id"`
		NewID string `json:"newId"`
		Text  string `json:"text"`
	}
	// Drop gives dead letters up for good.
	Drop struct {
		IDs []int64 `json:"ids"`
	}
	// Purge drops all dead letters that the filter means.
	Purge struct {
		Filter corebot.DeadLetterFilter `json:"filter"`
	}
	// GiveUp has a lane that is set aside go on without its next message, which cannot be read.
	GiveUp struct {
		Lane int64 `json:"lane"`
	}
)

// ListDeadLetters lists dead letters, newest first.
func (s *Service) ListDeadLetters(ctx context.Context, q DeadLetterQuery) (Page[DeadLetter], error) {
	if err := q.Filter.Validate(); err != nil {
		return Page[DeadLetter]{}, err
	}
	found, next, err := s.stores.DeadLetters.Page(ctx, q.Filter, q.After, q.size())
	return pageOf(found, next, newDeadLetter), err
}

// CountDeadLetters counts the dead letters that a filter means, in groups.
func (s *Service) CountDeadLetters(ctx context.Context, q DeadCountQuery) (corebot.DeadCounts, error) {
	ways := []corebot.DeadBy{
		corebot.DeadByReason, corebot.DeadByCause, corebot.DeadByChat, corebot.DeadByAgent, corebot.DeadByChannel,
	}
	q.By = cmp.Or(q.By, corebot.DeadByReason)
	if !slices.Contains(ways, q.By) {
		return corebot.DeadCounts{}, fmt.Errorf("%w: dead letters are counted by %q, and not by %q", corebot.ErrInvalid,
			ways, clip(string(q.By)))
	}
	if err := q.Filter.Validate(); err != nil {
		return corebot.DeadCounts{}, err
	}
	all, err := s.stores.DeadLetters.Count(ctx, q.Filter, q.By)
	if all.Groups == nil {
		all.Groups = []corebot.DeadCount{}
	}
	return all, err
}

func newDeadLetter(l corebot.DeadLetter) DeadLetter {
	return DeadLetter{
		l.ID, l.Direction.String(), l.Key.Channel, l.Key.Chat, l.MessageID, l.Reason, l.Attempts, l.LastError,
		l.CreatedAt, l.DeadAt, otherAgent(l.Key),
	}
}

// ShowDeadLetter gives the life of a dead letter, with its content. A message that is not dead is
// [corebot.ErrNotFound].
func (s *Service) ShowDeadLetter(ctx context.Context, by ByID) (Life, error) {
	life, err := s.stores.Lives.Get(ctx, by.ID)
	if err != nil {
		return Life{}, corebot.WithHint(err, "`corebot dlq list` shows the ids")
	}
	if life.End != corebot.EndDead {
		return Life{}, notDead(strconv.FormatInt(by.ID, 10), life)
	}
	return newLife(life), nil
}

// notDead says of a message that is no dead letter how it stands, and where to read more.
func notDead(name string, life corebot.Life) error {
	text := life.State
	if !life.EndedAt.IsZero() {
		text += " since " + life.EndedAt.Local().Format("2006-01-02 15:04:05 MST")
	}
	if life.Run > 1 {
		text += fmt.Sprintf(", in run %d after a replay", life.Run)
	}
	return corebot.WithHint(fmt.Errorf("dead letter %s: %w: the message is %s", name, corebot.ErrNotFound, text),
		"there is nothing to replay or drop; `corebot why "+life.MessageID+"` tells its whole life")
}

// eachLetter is [each] for dead letters. Where there is none with an id, the error says what became of the message.
func (s *Service) eachLetter(ctx context.Context, ids []int64, change func(int64) error) (Done, error) {
	return each(ids, func(id int64) error {
		err := change(id)
		if errors.Is(err, corebot.ErrNotFound) {
			if life, e := s.stores.Lives.Get(ctx, id); e == nil && life.End != corebot.EndDead {
				return notDead(strconv.FormatInt(id, 10), life)
			}
		}
		return err
	})
}

// FindDeadLetters finds the dead letters of the messages with an id; there can be none. If there are messages with that
// id and none is dead, the error is [corebot.ErrNotFound] and says how the first of them stands.
func (s *Service) FindDeadLetters(ctx context.Context, by ByMessage) (Found, error) {
	lives, err := s.stores.Lives.Find(ctx, by.MessageID)
	found := Found{IDs: []int64{}}
	for _, life := range lives {
		if life.End == corebot.EndDead {
			found.IDs = append(found.IDs, life.ID)
		}
	}
	if len(lives) > 0 && len(found.IDs) == 0 {
		return found, notDead(strconv.Quote(by.MessageID), lives[0])
	}
	return found, err
}

// ReplayDeadLetters puts dead letters back into the queue. Named letters are replayed one by one, and the first that
// fails ends it. Of those that a filter means, letters without room in the queue stay dead and are counted.
func (s *Service) ReplayDeadLetters(ctx context.Context, r Replay) (Done, error) {
	if r.Filter == nil {
		return s.eachLetter(ctx, r.IDs, func(id int64) error { return s.stores.DeadLetters.Replay(ctx, id, r.Fresh) })
	}
	replayed, err := s.stores.DeadLetters.ReplayAll(ctx, *r.Filter, r.Fresh)
	done := Done{Changed: replayed.Done, Left: replayed.Left}
	if replayed.Why != nil {
		done.Why = replayed.Why.Error()
	}
	return done, err
}

// EditDeadLetter replays a dead letter with another text, under a new id. Its files stay.
func (s *Service) EditDeadLetter(ctx context.Context, e Edit) (Done, error) {
	return s.eachLetter(ctx, []int64{e.ID},
		func(id int64) error { return s.stores.DeadLetters.Edit(ctx, id, e.NewID, e.Text) })
}

// DropDeadLetters gives dead letters up for good.
func (s *Service) DropDeadLetters(ctx context.Context, d Drop) (Done, error) {
	return s.eachLetter(ctx, d.IDs, func(id int64) error { return s.stores.DeadLetters.Drop(ctx, id) })
}

// PurgeDeadLetters drops all dead letters that a filter means.
func (s *Service) PurgeDeadLetters(ctx context.Context, p Purge) (Done, error) {
	if err := p.Filter.Validate(); err != nil {
		return Done{}, err
	}
	n, err := s.stores.DeadLetters.Purge(ctx, p.Filter)
	return Done{Changed: n}, err
}

// GiveUpHead has a lane that is set aside go on without its next message, and names the message if that can be read.
func (s *Service) GiveUpHead(ctx context.Context, g GiveUp) (corebot.Origin, error) {
	return s.stores.DeadLetters.GiveUp(ctx, g.Lane)
}

// DeadWords say in words which dead letters are meant, as people write them. An empty word says nothing.
type DeadWords struct {
	Direction              string // inbound or outbound
	Agent, Channel, Sender string
	Reason                 string
	Text, Error            string        // what stands in the content, or in the last error
	Before, After          string        // when they were given up: a day or a moment
	OlderThan, NewerThan   time.Duration // likewise: for how long they have been dead
}

// Filter is the filter that the words mean at a moment. Its errors begin with the
// name of a word as the flags of `corebot dlq` have it.
func (w DeadWords) Filter(now time.Time) (f corebot.DeadLetterFilter, err error) {
	f = corebot.DeadLetterFilter{
		Agent: w.Agent, Channel: w.Channel, Sender: w.Sender, Reason: w.Reason, Text: w.Text, Error: w.Error,
	}
	switch w.Direction {
	case "":
	case corebot.Inbound.String():
		f.Direction = corebot.Inbound
	case corebot.Outbound.String():
		f.Direction = corebot.Outbound
	default:
		return f, fmt.Errorf("%w: direction %q: want inbound or outbound", corebot.ErrInvalid, clip(w.Direction))
	}
	if f.Before, err = Moment("before", w.Before, "older-than", w.OlderThan, now); err != nil {
		return f, err
	}
	if f.After, err = Moment("after", w.After, "newer-than", w.NewerThan, now); err != nil {
		return f, err
	}
	if !f.Before.IsZero() && !f.After.IsZero() && !f.After.Before(f.Before) {
		return f, fmt.Errorf("%w: nothing was given up after %s and before %s", corebot.ErrInvalid,
			f.After.Format(time.RFC3339), f.Before.Format(time.RFC3339))
	}
	return f, f.Validate()
}

// Moment reads two words that mean the same: a time, or how long ago.
func Moment(at, text, ago string, d time.Duration, now time.Time) (time.Time, error) {
	switch {
	case d < 0:
		return time.Time{}, fmt.Errorf("%w: %s %v: want a time that has passed", corebot.ErrInvalid, ago, d)
	case d > 0 && text != "":
		return time.Time{}, fmt.Errorf("%w: %s says the same as %s: give one of them", corebot.ErrInvalid, at, ago)
	case d > 0:
		return whole(now.Add(-d)), nil
	case text == "":
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly, "2006-01-02T15:04", time.DateTime} {
		if t, err := time.ParseInLocation(layout, text, time.Local); err == nil && t.Year() >= 1970 {
			return whole(t), nil
		}
	}
	return time.Time{}, fmt.Errorf("%w: %s %q: want a day such as 2006-01-02, or a moment such as "+
		"2006-01-02T15:04:05Z", corebot.ErrInvalid, at, clip(text))
}

// whole is a moment in whole milliseconds, as moments are stored. A fraction would be lost on the way to a store.
func whole(t time.Time) time.Time { return t.Round(0).Truncate(time.Millisecond) }
