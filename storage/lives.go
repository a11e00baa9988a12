package storage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/corebot/corebot"
)

// Lives reads the lives of messages.
type Lives struct{ db *DB }

// NewLives are the lives of a database.
func NewLives(db *DB) *Lives { return &Lives{db} }

const lifeColumns = `SELECT m.id, l.direction, l.agent, l.channel, l.account, l.chat, l.thread, m.message_id, m.kind,
	m.checksum, m.sender, m.run,
	m."end", m.reason, m.last_error, m.attempts, m.attempt_log, m.input_tokens, m.output_tokens, m.cost, m.unpriced,
	m.model, m.estimated, m.published_at, m.deliver_at, m.claimed_at, m.ended_at,
	COALESCE(q.seq, 0), COALESCE((SELECT MIN(h.seq) FROM message_queue h WHERE h.lane_id = l.id AND h.seq > l.past), 0),
	l.leased, l.claimed_at, l.wake_at, l.waiting, l.held_for IS NOT NULL, l.attempts, COALESCE(m.cause_id, 0),
	COALESCE(c.message_id, ''),
	COALESCE(m.merged_id, 0), COALESCE(g.message_id, ''), COALESCE(p.reason, ''), COALESCE(p.due_at, 0)
	FROM message_life m JOIN lanes l ON l.id = m.lane_id LEFT JOIN message_queue q ON q.life_id = m.id
	AND q.seq > l.past
	LEFT JOIN message_parked p ON p.life_id = m.id LEFT JOIN message_life c ON c.id = m.cause_id
	LEFT JOIN message_life g ON g.id = m.merged_id `

var (
	livesByMessageID = &query{lifeColumns + `WHERE m.message_id = ? ORDER BY m.id LIMIT 20`}
	livesInChat      = &query{lifeColumns + `WHERE m.message_id = ? AND l.agent = ? AND l.channel = ?
		AND l.account = ? AND l.chat = ? AND l.thread = ? ORDER BY m.id LIMIT 20`}
	lifeByRow   = &query{lifeColumns + `WHERE m.id = ?`}
	livesOfLane = &query{lifeColumns + `WHERE q.life_id IS NOT NULL AND l.direction = 1 AND l.agent = ?
		AND l.channel = ? AND l.account = ? AND l.chat = ? AND l.thread = ? ORDER BY q.seq LIMIT ? + 0`}
	// The heads of lanes that have messages, those of the running turns first, then by how long they are due. The
	// inner selection reads the busy lanes and no message.
	livesAtHeads = &query{strings.Replace(lifeColumns, "SELECT ",
		"SELECT b.depth, b.lanes, b.running, b.messages, ", 1) +
		`JOIN (SELECT id, depth, leased, wake_at, COUNT(*) OVER () AS lanes, SUM(leased) OVER () AS running,
			SUM(depth) OVER () AS messages FROM lanes WHERE wake_at IS NOT NULL AND direction = 1
			AND ? IN ('', agent) ORDER BY leased DESC, wake_at, id LIMIT ? + 0) AS b ON b.id = m.lane_id
		WHERE m.id = (SELECT h.life_id FROM message_queue h WHERE h.lane_id = b.id AND h.seq > l.past
			ORDER BY h.seq LIMIT 1)
		ORDER BY b.leased DESC, b.wake_at, b.id`}
	livesByCause = &query{lifeColumns + `WHERE m.cause_id = ? ORDER BY m.id LIMIT 100`}
	// This query stands alone, so that an unreadable body hides nothing else of its message.
	bodyOfLife = &query{`SELECT COALESCE(m.body, q.body, p.body) FROM message_life m JOIN lanes l ON l.id = m.lane_id
		LEFT JOIN message_queue q ON q.life_id = m.id AND q.seq > l.past LEFT JOIN message_parked p ON p.life_id = m.id
		WHERE m.id = ?`}
)

// Find returns every message with this id, with its steps and the messages that it caused. Several chats can have used
// the id.
func (l *Lives) Find(ctx context.Context, messageID string) ([]corebot.Life, error) {
	return l.load(ctx, livesByMessageID, messageID)
}

// FindIn returns the messages of one chat with this id, in both directions.
func (l *Lives) FindIn(ctx context.Context, k corebot.Key, messageID string) ([]corebot.Life, error) {
	return l.load(ctx, livesInChat, append([]any{messageID}, keyArgs(k)...)...)
}

// Get returns the message of one life row, such as a dead letter.
func (l *Lives) Get(ctx context.Context, life int64) (corebot.Life, error) {
	found, err := l.load(ctx, lifeByRow, life)
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("message %d: %w", life, corebot.ErrNotFound)
	}
	if err != nil {
		return corebot.Life{}, err
	}
	return found[0], nil
}

// Waiting gives the messages of a chat that wait or run, in the order of the lane, at most limit. The first has its
// steps.
func (l *Lives) Waiting(ctx context.Context, k corebot.Key, limit int) ([]corebot.Life, error) {
	found, err := l.scan(ctx, livesOfLane, k.Agent, k.Channel, k.Account, k.Chat, k.Thread, limit)
	if err == nil && len(found) > 0 {
		err = l.steps(ctx, &found[0])
	}
	return found, err
}

// Heads tells what the lanes of an agent hold: counts of all, and at most limit with the messages at their fronts.
// Running turns come first, then those that are due for longest. An empty agent means all. With whole, each message has
// its content and its steps. Without, it takes one statement, however many lanes there are.
func (l *Lives) Heads(ctx context.Context, agent string, limit int, whole bool) (b corebot.BusyLanes, err error) {
	var sums [][]byte
	err = l.db.reader.each(ctx, livesAtHeads, func(s scanner) error {
		var front corebot.Front
		life, sum, err := scanLife(behindColumns{s, []any{&front.Messages, &b.Lanes, &b.Running, &b.Messages}})
		front.Life = life
		b.Fronts, sums = append(b.Fronts, front), append(sums, sum)
		return err
	}, agent, limit)
	if err != nil || !whole {
		return b, err
	}
	for i := range b.Fronts {
		if err := l.complete(ctx, &b.Fronts[i].Life, sums[i]); err != nil {
			return b, err
		}
		if err := l.steps(ctx, &b.Fronts[i].Life); err != nil {
			return b, err
		}
	}
	return b, nil
}

// behindColumns is a row of which the first columns are read into values of their own.
type behindColumns struct {
	scanner
	first []any
}

func (b behindColumns) Scan(rest ...any) error {
	return b.scanner.Scan(slices.Concat(b.first, rest)...)
}

// steps reads the journal of a message's run.
func (l *Lives) steps(ctx context.Context, life *corebot.Life) error {
	err := l.db.reader.each(ctx, selectSteps, func(s scanner) error {
		step, err := scanStep(s)
		life.Steps = append(life.Steps, step)
		return err
	}, life.ID, life.Run)
	if errors.Is(err, errStepDamaged) {
		life.LastError, err = err.Error(), nil
	}
	return err
}

func (l *Lives) load(ctx context.Context, q *query, args ...any) ([]corebot.Life, error) {
	lives, err := l.scan(ctx, q, args...)
	if err != nil {
		return nil, err
	}
	for i := range lives {
		life := &lives[i]
		if err := l.steps(ctx, life); err != nil {
			return nil, err
		}
		if life.Replies, err = l.scan(ctx, livesByCause, life.ID); err != nil {
			return nil, err
		}
	}
	return lives, nil
}

func (l *Lives) scan(ctx context.Context, q *query, args ...any) ([]corebot.Life, error) {
	var out []corebot.Life
	var sums [][]byte
	err := l.db.reader.each(ctx, q, func(s scanner) error {
		life, sum, err := scanLife(s)
		out, sums = append(out, life), append(sums, sum)
		return err
	}, args...)
	if err != nil {
		return nil, err
	}
	for i := range out {
		if err := l.complete(ctx, &out[i], sums[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// complete adds what stands in rows of its own: the content, and the job of the message.
func (l *Lives) complete(ctx context.Context, life *corebot.Life, sum []byte) error {
	if err := l.content(ctx, life, sum); err != nil {
		return err
	}
	return l.job(ctx, life)
}

// content reads the content of a message that waits or is dead. If it cannot be read, the reason stands in its place.
func (l *Lives) content(ctx context.Context, life *corebot.Life, sum []byte) error {
	if life.End != "" && life.End != corebot.EndDead {
		return nil
	}
	var body []byte
	_, err := l.db.reader.one(ctx, bodyOfLife, []any{&body}, life.ID)
	if ofSQLite(err) && ofTheFile(err) {
		life.LastError = classify(err).Error()
		return nil
	}
	if err != nil || body == nil {
		return err
	}
	m, err := unpack(body, life.Direction, life.Key, life.Kind, sum)
	if err != nil {
		life.LastError = err.Error()
		return nil
	}
	life.Message = &m
	return nil
}

// job reads which job a message is.
func (l *Lives) job(ctx context.Context, life *corebot.Life) error {
	c := life.Key.Channel
	if life.Direction != corebot.Inbound || c != corebot.JobChannel && c != corebot.AgentChannel {
		return nil
	}
	return l.db.reader.each(ctx, jobOfLife, func(s scanner) error {
		j, err := scanJob(s)
		life.Job = &corebot.OfJob{
			ID: j.ID, Kind: j.Kind, Background: j.Background, State: j.State, Reason: j.Reason, Parent: j.Parent,
		}
		return err
	}, life.ID)
}

// laneState is what the lane knows about a message that has not ended.
type laneState struct {
	seq, head int64
	leased    bool
	claimedAt int64
	wakeAt    *int64
	waiting   string
	held      bool // for the sake of others: then wakeAt says nothing
	attempts  int
	deferred  string // why the message is deferred; empty: it is not
	dueAt     time.Time
}

func scanLife(s scanner) (_ corebot.Life, checksum []byte, err error) {
	var life corebot.Life
	var lane laneState
	var direction int
	var kind, end, log string
	var sum []byte
	var cause, merged corebot.Origin
	k := &life.Key
	err = s.Scan(&life.ID, &direction, &k.Agent, &k.Channel, &k.Account, &k.Chat, &k.Thread, &life.MessageID, &kind,
		&sum, &life.Sender.ID, &life.Run,
		&end, &life.Reason, &life.LastError, &life.Attempts, &log, &life.Usage.InputTokens, &life.Usage.OutputTokens,
		(*int64)(&life.Cost), &life.UnpricedTokens, &life.Model, &life.Estimated,
		moment{&life.PublishedAt}, moment{&life.DeliverAt}, moment{&life.ClaimedAt}, moment{&life.EndedAt},
		&lane.seq, &lane.head, &lane.leased, &lane.claimedAt, &lane.wakeAt, &lane.waiting, &lane.held, &lane.attempts,
		&cause.Life, &cause.MessageID, &merged.Life, &merged.MessageID, &lane.deferred, moment{&lane.dueAt})
	if err != nil {
		return life, nil, err
	}
	life.Direction, life.Kind, life.End = corebot.Direction(direction), corebot.Kind(kind), corebot.End(end)
	life.Sender = senderIn(*k, life.Sender.ID)
	if cause.Life != 0 {
		life.Cause = &cause
	}
	if merged.Life != 0 {
		life.MergedInto = &merged
	}
	if log != "" {
		_ = json.Unmarshal([]byte(log), &life.AttemptLog) // it only informs people; see appendAttempt
	}
	lane.describe(&life)
	return life, sum, nil
}

// describe says what a message does at this moment.
func (l laneState) describe(life *corebot.Life) {
	switch {
	case life.End != "":
		life.State = string(life.End)
	case l.deferred != "":
		life.State, life.WakeAt = "deferred: "+l.deferred, l.dueAt
	case l.seq != l.head:
		life.State = "waiting behind others"
	case l.leased:
		life.State, life.ClaimedAt, life.Attempts = "running", fromMillis(l.claimedAt), l.attempts+1
	case l.held:
		life.State, life.Attempts = "waiting: "+corebot.HeldBack, l.attempts
	default:
		life.State, life.Attempts = "ready", l.attempts
		if l.waiting != "" {
			life.State = "waiting: " + l.waiting
		}
		if l.wakeAt != nil {
			life.WakeAt = fromMillis(*l.wakeAt)
		}
	}
}

var (
	// An inbound message and a control message of a chat can have the same id.
	lifeOfChat = &query{lifeColumns + `WHERE m.message_id = ? AND l.direction IN (1, 3)
		AND l.agent = ? AND l.channel = ? AND l.account = ? AND l.chat = ? AND l.thread = ? LIMIT 1`}
	newestWaiting = &query{`SELECT m.message_id FROM lanes l JOIN message_queue q ON q.lane_id = l.id
		AND q.seq > l.past JOIN message_life m ON m.id = q.life_id
		WHERE m.sender = ? AND l.direction = 1 AND l.agent = ? AND l.channel = ? AND l.account = ? AND l.chat = ?
		AND l.thread = ?
		ORDER BY q.seq DESC LIMIT 1`}
	newestSaid = &query{`SELECT h.message_id, h.at FROM chats c JOIN history h ON h.chat_id = c.id
		AND h.session = c.session
		WHERE h.sender = ? AND h.speaker = 'user' AND c.agent = ? AND c.channel = ? AND c.account = ? AND c.chat = ?
		AND c.thread = ?
		ORDER BY h.seq DESC, h.ordinal DESC LIMIT 1`}
	newestGivenUp = &query{`SELECT m.message_id, m.ended_at FROM message_life m JOIN lanes l ON l.id = m.lane_id
		WHERE m."end" = 'dead' AND m.sender = ? AND l.direction = 1 AND l.agent = ? AND l.channel = ? AND l.account = ?
		AND l.chat = ? AND l.thread = ?
		ORDER BY m.ended_at DESC LIMIT 1`}
)

// InChat returns the inbound message of a chat with this id, with its steps and replies. Without an id it is the
// asker's newest message. A waiting message comes first. Otherwise it is the latest of the dead letters and the turns
// of the session. If there is none, the error is [corebot.ErrNotFound].
func (l *Lives) InChat(ctx context.Context, k corebot.Key, messageID string,
	asker corebot.Principal,
) (corebot.Life, error) {
	what := fmt.Sprintf("message %q of this chat", messageID)
	if messageID == "" {
		what = "a message of yours in this chat"
		var err error
		if messageID, err = l.newestOf(ctx, k, storedSender(k, asker)); err != nil {
			return corebot.Life{}, err
		}
	}
	found, err := l.load(ctx, lifeOfChat, messageID, k.Agent, k.Channel, k.Account, k.Chat, k.Thread)
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("%s: %w", what, corebot.ErrNotFound)
	}
	if err != nil {
		return corebot.Life{}, err
	}
	return found[0], nil
}

// spokeInChat looks into the histories of a chat, and at messages outside of them: waiting messages and dead letters.
var spokeInChat = &query{`SELECT 1 FROM chats c JOIN history h ON h.chat_id = c.id
		WHERE c.agent = ?1 AND c.channel = ?2 AND c.account = ?3 AND c.chat = ?4 AND h.speaker = '` +
	string(corebot.SpeakerUser) + `' AND h.sender <> ?5
	UNION ALL SELECT 1 FROM lanes l JOIN message_life m ON m.lane_id = l.id AND m."end" = 'dead'
		WHERE l.direction = 1 AND l.agent = ?1 AND l.channel = ?2 AND l.account = ?3 AND l.chat = ?4 AND m.sender <> ?5
	UNION ALL SELECT 1 FROM lanes l JOIN message_queue q ON q.lane_id = l.id JOIN message_life m ON m.id = q.life_id
		WHERE l.direction = 1 AND l.agent = ?1 AND l.channel = ?2 AND l.account = ?3 AND l.chat = ?4 AND m.sender <> ?5
		LIMIT 1`}

// Shared says whether a principal other than p has spoken in a chat, in any thread and session of it. All senders that
// the channel could not name count as one.
func (l *Lives) Shared(ctx context.Context, k corebot.Key, p corebot.Principal) (shared bool, err error) {
	var one int64
	return l.db.reader.one(ctx, spokeInChat, []any{&one}, k.Agent, k.Channel, k.Account, k.Chat,
		storedSender(k, p))
}

// newestOf is the id of the newest message of a sender, as [storedSender] names it, in a chat; empty if there is none.
func (l *Lives) newestOf(ctx context.Context, k corebot.Key, sender string) (id string, err error) {
	asked := []any{sender, k.Agent, k.Channel, k.Account, k.Chat, k.Thread}
	waits, err := l.db.reader.one(ctx, newestWaiting, []any{&id}, asked...)
	if err != nil || waits {
		return id, err
	}
	var saidAt, deadAt int64
	if _, err := l.db.reader.one(ctx, newestSaid, []any{&id, &saidAt}, asked...); err != nil {
		return "", err
	}
	var dead string
	if _, err := l.db.reader.one(ctx, newestGivenUp, []any{&dead, &deadAt}, asked...); err != nil {
		return "", err
	}
	if deadAt > saidAt {
		id = dead
	}
	return id, nil
}
