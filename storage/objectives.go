package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/corebot/corebot"
)

// ObjectiveOptions say which messages are good.
type ObjectiveOptions struct {
	// Answered is how long an answer can take, and Delivered how long a reply can take to its channel. Zero: such
	// messages are not counted.
	Answered, Delivered time.Duration
	// Unpushed are the channels whose replies wait until somebody opens a terminal. Nobody can say how long that should
	// take.
	Unpushed []string
}

// Objectives counts, minute by minute, what became of messages and tasks. A message is counted once its time is over,
// whether it has ended or not: where nothing is answered any more, nothing ends.
//
// What waits for a person, for a time or for a limit is neither good nor bad. So is a message that its sender took
// back, stopped or replaced.
type Objectives struct {
	db   *DB
	opts ObjectiveOptions
}

// NewObjectives are the objectives of a database.
func NewObjectives(db *DB, o ObjectiveOptions) *Objectives { return &Objectives{db, o} }

// keptMinutes is how long the counts of a minute are kept: the longest window.
const keptMinutes = 6 * 60

// countedLives is how many lives one operation looks at.
const countedLives = 1_000

var (
	addMinute = &query{`INSERT INTO objective_minutes (objective, minute, good, bad) VALUES (?, ?, ?, ?)
		ON CONFLICT (objective, minute) DO UPDATE SET good = good + excluded.good, bad = bad + excluded.bad`}
	dropMinutes = &query{`DELETE FROM objective_minutes WHERE objective = ?1 AND (minute <= ?2 OR minute > ?3)`}
	sumMinutes  = &query{`SELECT objective, SUM(good), SUM(bad) FROM objective_minutes
		WHERE minute > ? AND minute <= ? GROUP BY objective`}

	objectiveCursor = &query{`SELECT life_id FROM objective_cursors WHERE objective = ?`}
	setCursor       = &query{`INSERT INTO objective_cursors (objective, life_id) VALUES (?, ?)
		ON CONFLICT (objective) DO UPDATE SET life_id = excluded.life_id`}
	newestLife = &query{`SELECT COALESCE(MAX(id), 0) FROM message_life`}
	livesSince = &query{`SELECT m.id, m.message_id, l.direction, l.channel, m.kind,
		m.cause_id IS NOT NULL OR m.deliver_at > 0, m.published_at, m.ended_at, m."end", l.waiting,
		l.held_for IS NOT NULL OR p.life_id IS NOT NULL
		FROM message_life m JOIN lanes l ON l.id = m.lane_id LEFT JOIN message_parked p ON p.life_id = m.id
		WHERE m.id > ? ORDER BY m.id LIMIT ? + 0`}
	hasWaited = &query{`SELECT 1 WHERE EXISTS (SELECT 1 FROM approvals WHERE life_id = ?1)
		OR EXISTS (SELECT 1 FROM approvals WHERE asked_life = ?1 AND asked_life <> 0)
		OR EXISTS (SELECT 1 FROM waits WHERE life_id = ?1)`}

	selectAlarms = &query{`SELECT objective, severity, since, told_at, told, post FROM objective_alarms`}
	putAlarm     = &query{`INSERT INTO objective_alarms (objective, severity, since, told_at, told, post)
		VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (objective, severity) DO UPDATE SET since = excluded.since,
		told_at = excluded.told_at, told = excluded.told, post = excluded.post`}
	posted = &query{`UPDATE objective_alarms SET post = '' WHERE objective = ? AND severity = ? AND post = ?`}
)

// Add counts events of this minute.
func (o *Objectives) Add(ctx context.Context, of map[corebot.Objective]corebot.Kept) error {
	return o.db.write(ctx, "objectives.add", func(t *tx) error {
		for objective, n := range of {
			if err := keptTx(t, objective, t.now, n); err != nil {
				return err
			}
		}
		return nil
	})
}

// keptTx counts events of one minute, and forgets minutes that are too old or that a clock set back has left behind.
func keptTx(t *tx, objective corebot.Objective, at time.Time, n corebot.Kept) error {
	now := minuteOf(t.now)
	if n.All() == 0 || minuteOf(at) <= now-keptMinutes {
		return nil
	}
	if _, err := t.exec(dropMinutes, string(objective), now-keptMinutes, now); err != nil {
		return err
	}
	_, err := t.exec(addMinute, string(objective), min(minuteOf(at), now), n.Good, n.Bad)
	return err
}

func minuteOf(at time.Time) int64 { return at.Unix() / 60 }

// Sums gives the counts of each objective in the last minutes, the present one included.
func (o *Objectives) Sums(ctx context.Context, last time.Duration) (map[corebot.Objective]corebot.Kept, error) {
	now, sums := minuteOf(time.Now()), map[corebot.Objective]corebot.Kept{}
	err := o.db.reader.each(ctx, sumMinutes, func(s scanner) error {
		var objective string
		var k corebot.Kept
		err := s.Scan(&objective, &k.Good, &k.Bad)
		sums[corebot.Objective(objective)] = k
		return err
	}, now-int64(last/time.Minute), now)
	return sums, err
}

// Count counts the messages whose time is over since the last call. The first call of a database counts nothing: older
// messages say nothing about now. An objective that fails keeps no other from being counted.
func (o *Objectives) Count(ctx context.Context) error {
	var errs []error
	for _, c := range []struct {
		objective corebot.Objective
		within    time.Duration
		judge     func(context.Context, countedLife, time.Duration) (judgement, error)
	}{
		{corebot.ObjectiveAnswered, o.opts.Answered, o.answered},
		{corebot.ObjectiveDelivered, o.opts.Delivered, o.delivered},
	} {
		if c.within == 0 {
			continue
		}
		for more := true; more; {
			var err error
			if more, err = o.count(ctx, c.objective, c.within, c.judge); err != nil {
				errs = append(errs, fmt.Errorf("count for the objective %s: %w", c.objective, err))
			}
		}
	}
	return errors.Join(errs...)
}

// count counts the next messages of one objective, and says whether there can be more.
func (o *Objectives) count(ctx context.Context, objective corebot.Objective, within time.Duration,
	judge func(context.Context, countedLife, time.Duration) (judgement, error),
) (more bool, err error) {
	var from, last int64
	known, err := o.db.reader.one(ctx, objectiveCursor, []any{&from}, string(objective))
	if err == nil && !known {
		_, err = o.db.reader.one(ctx, newestLife, []any{&last})
	}
	if err != nil {
		return false, err
	}
	minutes := map[time.Time]corebot.Kept{}
	if known {
		if last, minutes, more, err = o.judged(ctx, from, within, judge); err != nil {
			return false, err
		}
	}
	if known && last == from {
		return false, nil
	}
	return more, o.db.write(ctx, "objectives.count", func(t *tx) error {
		for at, n := range minutes {
			if err := keptTx(t, objective, at, n); err != nil {
				return err
			}
		}
		_, err := t.exec(setCursor, string(objective), last)
		return err
	})
}

// judged looks at the messages behind a place whose time is over, by the minute in which it was over. last is the last
// of them.
func (o *Objectives) judged(ctx context.Context, from int64, within time.Duration,
	judge func(context.Context, countedLife, time.Duration) (judgement, error),
) (last int64, minutes map[time.Time]corebot.Kept, more bool, err error) {
	lives, from, more, err := o.livesSince(ctx, from)
	if err != nil {
		return 0, nil, false, err
	}
	last, minutes = from, map[time.Time]corebot.Kept{}
	now := time.Now()
	for _, life := range lives {
		if life.published.After(now) { // before the clock was set back; its time says nothing
			last = life.id
			continue
		}
		due := life.published.Add(within)
		if due.After(now) {
			return last, minutes, false, nil // its time is not over, and neither is that of later ones
		}
		v, err := judge(ctx, life, within)
		if err != nil {
			return 0, nil, false, err
		}
		minute := due.Truncate(time.Minute)
		switch v {
		case isGood:
			minutes[minute] = minutes[minute].Plus(corebot.Kept{Good: 1})
		case isBad:
			minutes[minute] = minutes[minute].Plus(corebot.Kept{Bad: 1})
		}
		last = life.id
	}
	return last, minutes, more, nil
}

// countedLife is what the objectives ask of a message.
type countedLife struct {
	id               int64
	messageID        string
	direction        corebot.Direction
	channel          string
	kind             corebot.Kind
	ofCorebot        bool // another message caused it, or it came with a time of its own
	published, ended time.Time
	end              corebot.End
	waiting          string // for what the head of its lane waits
	held             bool   // for the sake of others, or by a limit
}

// livesSince reads the lives behind a place. It passes over lives that a damaged page holds, and returns the place
// behind them: otherwise one such page would end all counting.
func (o *Objectives) livesSince(ctx context.Context, from int64) (lives []countedLife, behind int64, more bool,
	err error,
) {
	for passed := range countedLives {
		err = o.db.reader.each(ctx, livesSince, func(s scanner) error {
			l, err := scanCounted(s)
			if err == nil {
				lives = append(lives, l)
			}
			return err
		}, from, countedLives)
		if !isDamage(err) {
			return lives, from, len(lives) == countedLives, err
		}
		if len(lives) > 0 { // those before the damage
			return lives, from, true, nil
		}
		var newest int64
		if _, e := o.db.reader.one(ctx, newestLife, []any{&newest}); e != nil || from >= newest {
			return nil, from, false, cmp.Or(e, err)
		}
		if passed == 0 {
			o.db.log.Warn().Err(err).Int64("id", from+1).Msg("a message that cannot be read counts for no objective")
		}
		from++
	}
	return nil, from, true, nil
}

func scanCounted(s scanner) (l countedLife, err error) {
	var direction int
	var kind, end string
	err = s.Scan(&l.id, &l.messageID, &direction, &l.channel, &kind, &l.ofCorebot, moment{&l.published},
		moment{&l.ended}, &end, &l.waiting, &l.held)
	l.direction, l.kind, l.end = corebot.Direction(direction), corebot.Kind(kind), corebot.End(end)
	return l, err
}

type judgement int

const (
	isNeither judgement = iota
	isGood
	isBad
)

// inTime judges a message that has ended well, or not at all.
func (l countedLife) inTime(within time.Duration) judgement {
	if l.ended.IsZero() || l.ended.Sub(l.published) > within {
		return isBad
	}
	return isGood
}

// patient are the reasons of a waiting lane that say nothing against Corebot.
var patient = []string{
	corebot.AwaitingApproval, corebot.AwaitingTime, corebot.AwaitingWord, corebot.AwaitingJob, corebot.NotNow,
	corebot.Throttled, corebot.Collecting,
}

// answered judges a message that somebody has sent. A late answer that waited for a decision or for a time is neither.
func (o *Objectives) answered(ctx context.Context, l countedLife, within time.Duration) (judgement, error) {
	asks := l.direction == corebot.Inbound && (l.kind == corebot.KindPrompt || l.kind == corebot.KindOpening)
	switch {
	case !asks || l.ofCorebot:
		return isNeither, nil
	case l.end == corebot.EndDead:
		return isBad, nil
	case l.end == "" && (l.held || slices.Contains(patient, l.waiting)):
		return isNeither, nil
	case l.end != "" && l.end != corebot.EndAnswered:
		return isNeither, nil
	}
	v := l.inTime(within)
	if v != isBad {
		return v, nil
	}
	var one int
	waited, err := o.db.reader.one(ctx, hasWaited, []any{&one}, l.id)
	if waited {
		v = isNeither
	}
	return v, err
}

// ownNotices begins the ids of the notices of alarms.
var ownNotices = corebot.OwnID(corebot.ObjectiveNotices, "")

// delivered judges a reply or a notice. A notice of an alarm does not count. If nothing reaches the chat of admins,
// each alarm would cause the next one.
func (o *Objectives) delivered(_ context.Context, l countedLife, within time.Duration) (judgement, error) {
	switch {
	case l.direction != corebot.Outbound || slices.Contains(o.opts.Unpushed, l.channel),
		strings.HasPrefix(l.messageID, ownNotices):
		return isNeither, nil
	case l.end == corebot.EndDead:
		return isBad, nil
	case l.end == "" && slices.Contains(patient, l.waiting):
		return isNeither, nil
	case l.end != "" && l.end != corebot.EndSent:
		return isNeither, nil
	}
	return l.inTime(within), nil
}

// Alarms are the alarms that have ever sounded.
func (o *Objectives) Alarms(ctx context.Context) (all []corebot.Alarm, err error) {
	err = o.db.reader.each(ctx, selectAlarms, func(s scanner) error {
		var a corebot.Alarm
		var objective string
		err := s.Scan(&objective, &a.Severity, moment{&a.Since}, moment{&a.ToldAt}, &a.Told, &a.Post)
		a.Objective = corebot.Objective(objective)
		all = append(all, a)
		return err
	})
	return all, err
}

// Change stores an alarm. notice is what a chat is told of it in the same commit; nil: nothing.
func (o *Objectives) Change(ctx context.Context, a corebot.Alarm, notice *corebot.Message) error {
	return o.db.write(ctx, "objectives.alarm", func(t *tx) error {
		if _, err := t.exec(putAlarm, string(a.Objective), a.Severity, a.Since, a.ToldAt, a.Told, a.Post); err != nil {
			return err
		}
		if notice == nil {
			return nil
		}
		return noticeTx(t, &pack([]corebot.Message{*notice})[0], 0)
	})
}

// Posted notes that a post of an alarm was taken. If the alarm has changed meanwhile, its new post stays.
func (o *Objectives) Posted(ctx context.Context, a corebot.Alarm) error {
	return o.db.write(ctx, "objectives.posted", func(t *tx) error {
		_, err := t.exec(posted, string(a.Objective), a.Severity, a.Post)
		return err
	})
}
