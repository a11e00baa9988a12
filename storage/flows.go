package storage

import (
	"fmt"
	"maps"
	"math"
	"strings"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/sorted"
)

// flows tracks the principals for fair claims: each has lanes that run, and lanes that are held back to let others go
// first. The writer owns it. It follows the writer's transactions: the changes of a failed transaction are undone.
type flows struct {
	running map[int64]corebot.Principal    // leased lanes, by the principal of their head
	of      map[corebot.Principal]flow     // principals with a running or held lane
	stalled map[corebot.Principal]bool     // principals with held lanes and none in line
	inLine  map[int64]corebot.Principal    // lanes in line, by their principal
	looked  time.Time                      // when the lines were last checked
	served  [2]map[corebot.Principal]int64 // when a principal's latest turn began; the older of two halves is dropped
	waiting waiting
	spoken  rates[speaker] // commands without effect
	begun   rates[speaker] // turns of new messages
	undo    []func()
}

// speaker is a sender in a chat. All senders without an id in a chat are one speaker.
type speaker struct {
	chat   corebot.Key
	sender string
}

// flow is one principal.
type flow struct {
	running int       // running turns
	held    int       // lanes held back
	next    int64     // the principal's lane in line, while others are held back; 0: none
	since   time.Time // when that lane was put in line
}

func newFlows() *flows {
	f := &flows{
		running: map[int64]corebot.Principal{}, of: map[corebot.Principal]flow{}, stalled: map[corebot.Principal]bool{},
		inLine:  map[int64]corebot.Principal{},
		waiting: waiting{of: map[corebot.Principal]share{}},
	}
	f.waiting.undo = &f.undo
	f.spoken, f.begun = newRates[speaker](&f.undo), newRates[speaker](&f.undo)
	return f
}

// keep takes over from earlier flows what the database does not have.
func (f *flows) keep(earlier *flows) {
	f.spoken, f.begun = earlier.spoken, earlier.begun
	f.spoken.undo, f.begun.undo = &f.undo, &f.undo
}

var runningLanes = &query{`SELECT l.id, l.channel, l.account, m.sender FROM lanes l
	JOIN message_queue q ON q.lane_id = l.id AND q.seq = (SELECT MIN(h.seq) FROM message_queue h WHERE h.lane_id = l.id
	AND h.seq > l.past)
	JOIN message_life m ON m.id = q.life_id WHERE l.pool = ? AND l.leased = 1 AND l.wake_at > ?`}

// loadFlows rebuilds the flows from the running turns in the database. Nothing is held back then. A turn with an
// unreadable message has no known principal, so for a while some principals can have more turns than their share.
func loadFlows(c *prepared, now time.Time) (*flows, error) {
	f := newFlows()
	if _, err := c.exec(releaseHeld, now); err != nil {
		return nil, err
	}
	_ = c.each(runningLanes, func(s scanner) error {
		l := &claimed{}
		err := s.Scan(&l.lane, &l.sender.Channel, &l.sender.Account, &l.sender.ID)
		f.lease(l)
		return err
	}, string(corebot.InboundPool), now)
	f.commit()
	return f, nil
}

// commit makes the changes of a transaction final; rollback undoes them.
func (f *flows) commit() { f.undo = f.undo[:0] }

func (f *flows) rollback() {
	for i := len(f.undo) - 1; i >= 0; i-- {
		f.undo[i]()
	}
	f.commit()
}

func (f *flows) change(p corebot.Principal, by func(*flow)) {
	was := f.of[p]
	now := was
	by(&now)
	f.undo = append(f.undo, func() { f.put(p, was) })
	f.put(p, now)
}

func (f *flows) put(p corebot.Principal, now flow) {
	delete(f.inLine, f.of[p].next)
	if now.next != 0 {
		f.inLine[now.next] = p
	}
	if now.running == 0 && now.held == 0 && now.next == 0 {
		delete(f.of, p)
	} else {
		f.of[p] = now
	}
	if now.held > 0 && now.next == 0 {
		f.stalled[p] = true
	} else {
		delete(f.stalled, p)
	}
}

// maxServed bounds the principals whose latest turn is remembered.
const maxServed = 4_096

// serve notes that a turn of a principal begins.
func (f *flows) serve(p corebot.Principal, now int64) {
	if f.served[0] == nil || len(f.served[0]) >= maxServed/2 {
		f.served[0], f.served[1] = map[corebot.Principal]int64{}, f.served[0]
	}
	f.served[0][p] = now
}

// overtakes says whether a lane was ready before its principal's latest turn began. Waiting principals come before such
// a lane.
func (f *flows) overtakes(c *claimed) bool {
	at, ok := f.served[0][c.sender]
	if !ok {
		at, ok = f.served[1][c.sender]
	}
	return ok && c.dueSince <= at
}

// lease notes that a turn of a principal runs.
func (f *flows) lease(c *claimed) {
	f.release(c.lane)
	f.running[c.lane] = c.sender
	f.undo = append(f.undo, func() { delete(f.running, c.lane) })
	f.change(c.sender, func(v *flow) {
		v.running++
		if v.next == c.lane {
			v.next = 0
		}
		if c.held {
			v.held--
		}
	})
}

// release notes that the turn of a lane has ended. It says whether this can make room for others.
func (f *flows) release(lane int64) (room bool) {
	p, ok := f.running[lane]
	if !ok {
		return false
	}
	delete(f.running, lane)
	f.undo = append(f.undo, func() { f.running[lane] = p })
	f.change(p, func(v *flow) { v.running-- })
	return len(f.stalled) > 0
}

// room says whether a principal can have one more turn beside the turns that are about to begin. A principal can have
// as many turns as are left for others, and always one. So a principal alone gets half of all turns, and the next one
// gets half of the rest. A late sender nearly always finds a free turn.
func (f *flows) room(p corebot.Principal, his, all, turns int) bool {
	running := f.of[p].running + his
	return running == 0 || running < turns-len(f.running)-all
}

// lineTime is how long a lane stays in line for its principal before another lane is put beside it. A lane that cannot
// be claimed, such as a damaged one, must not keep the others back.
const lineTime = 10 * time.Second

// lookThrough finds, from time to time, the principals whose lane in line was not claimed for long.
func (f *flows) lookThrough(now time.Time) {
	if now.Sub(f.looked) < lineTime && !now.Before(f.looked) {
		return
	}
	f.looked = now
	for p, v := range f.of {
		if v.held > 0 && v.next != 0 && now.Sub(v.since) >= lineTime {
			f.change(p, func(v *flow) { v.next = 0 })
		}
	}
}

// maxRates bounds the keys of one [rates].
const maxRates = 20_000

// rates remembers from when a key is free again, by [nextFree]. It is in memory and follows the writer's transactions
// as [flows] does. Beyond [maxRates] keys it forgets the keys that were unused for longest; a forgotten key is free.
type rates[K comparable] struct {
	young, aged map[K]int64 // unix milliseconds
	undo        *[]func()
}

func newRates[K comparable](undo *[]func()) rates[K] {
	return rates[K]{young: map[K]int64{}, undo: undo}
}

// freeAt is when a key is free, in unix milliseconds.
func (r *rates[K]) freeAt(k K) int64 {
	if at, ok := r.young[k]; ok {
		return at
	}
	return r.aged[k]
}

// take uses a key once.
func (r *rates[K]) take(k K, now time.Time, rate corebot.Rate) {
	was := r.freeAt(k)
	*r.undo = append(*r.undo, func() { r.put(k, was) })
	r.put(k, nextFree(was, now, rate))
}

func (r *rates[K]) put(k K, at int64) {
	if _, ok := r.young[k]; !ok && len(r.young) >= maxRates/2 {
		r.young, r.aged = map[K]int64{}, r.young
	}
	r.young[k] = at
}

// shift moves the times when the wall clock was stepped back, so that no key is free too late.
func (r *rates[K]) shift(step time.Duration) {
	for _, m := range []map[K]int64{r.young, r.aged} {
		for k := range maps.Keys(m) {
			m[k] += step.Milliseconds()
		}
	}
}

// A sender has a rate of turns over all chats. The rate refuses nothing; a turn that is too early waits. If a sender's
// rate is used up, his lanes are held back, like the lanes of a sender with enough turns. Each time the rate allows a
// turn, one lane is put in line. So thousands of lanes can wait without a claim that looks at them. Where a sender has
// no id, the chat is the principal, and its lane waits by itself.
//
// The rate is kept in memory. A new process reads from the lives when the latest turns began.

// senderAlone is a sender, whatever the chat.
func senderAlone(p corebot.Principal) speaker {
	return speaker{corebot.Key{Channel: p.Channel, Account: p.Account}, p.ID}
}

// speaker is the sender for whose rate a claimed message counts.
func (c *claimed) speaker() speaker {
	if c.sender.ID == "" {
		return speaker{chat: c.key}
	}
	return senderAlone(c.sender)
}

// countsForRate says whether the rate can delay the turn of a head: only a new turn is delayed, and a stopped message
// is not.
func (c *claimed) countsForRate() bool { return !c.hasBegun() && c.stopSeq < c.seq }

// begin notes that a turn of a sender begins.
func (f *flows) begin(c *claimed, now time.Time, opts corebot.ClaimOptions) {
	if opts.Sender.Every > 0 && c.countsForRate() && !opts.Owner.Is(c.key.Channel) {
		f.begun.take(c.speaker(), now, opts.Sender)
	}
}

// allowed is when the rate of a sender allows one more turn, beside the turns that are about to begin.
func (f *flows) allowed(s speaker, besides int, now time.Time, opts corebot.ClaimOptions) int64 {
	if opts.Sender.Every <= 0 || opts.Owner.Is(s.chat.Channel) {
		return 0
	}
	at := f.begun.freeAt(s)
	for range besides {
		at = nextFree(at, now, opts.Sender)
	}
	return at
}

// nextAllowed is when the rate next allows a turn for a sender with held lanes. Senders who have enough turns already
// do not count.
func (f *flows) nextAllowed(now time.Time, opts corebot.ClaimOptions) int64 {
	next := int64(math.MaxInt64)
	if opts.Turns == 0 || opts.Sender.Every <= 0 {
		return next
	}
	for who := range f.stalled {
		if f.room(who, 0, 0, opts.Turns) {
			next = min(next, f.allowed(senderAlone(who), 0, now, opts))
		}
	}
	return next
}

// recalledLives bounds the newest messages from which a new process learns the rates.
const recalledLives = 20_000

var (
	throttleLane = &query{`UPDATE lanes SET wake_at = ?, held_for = NULL, waiting = '` + corebot.Throttled +
		`' WHERE id = ?`}
	latestTurns = &query{`SELECT l.agent, l.channel, l.account, l.chat, l.thread, m.sender, m.claimed_at
		FROM (SELECT lane_id, sender, claimed_at, "end" FROM message_life ORDER BY id DESC LIMIT ? + 0) m
		JOIN lanes l ON l.id = m.lane_id
		WHERE l.direction = ? AND m.claimed_at > ? AND m."end" <> '` + string(corebot.EndMerged) + `'`}
)

// recall learns once, from the lives, how fast senders were before this process. It skips unreadable lives; then some
// senders can have their burst again.
func (w *writer) recall(opts corebot.ClaimOptions) {
	rate := opts.Sender
	if w.recalled || opts.Turns == 0 || rate.Every <= 0 || w.ready() != nil {
		return
	}
	w.recalled = true
	type turn struct {
		whose speaker
		at    int64
	}
	var turns []turn
	now := w.db.clock.now()
	err := w.conn.each(latestTurns, func(s scanner) error {
		var c claimed
		var at int64
		k := &c.key
		err := s.Scan(&k.Agent, &k.Channel, &k.Account, &k.Chat, &k.Thread, &c.sender.ID, &at)
		c.sender.Channel, c.sender.Account = k.Channel, k.Account
		turns = append(turns, turn{c.speaker(), at})
		return err
	}, recalledLives, int64(corebot.Inbound), now.Add(-time.Duration(rate.Burst)*rate.Every))
	if err != nil {
		w.forgetPages()
		w.db.log.Warn().Err(classify(err)).Msg("how fast senders were before could not be read: their rates begin anew")
	}
	sorted.By(turns, func(a, b turn) int { return int(a.at - b.at) })
	for _, t := range turns {
		w.flows.begun.take(t.whose, time.UnixMilli(min(t.at, now.UnixMilli())), rate)
	}
	w.flows.commit()
}

// waiting counts the waiting messages of each sender. It is in memory and follows the writer's transactions as [flows]
// does. It knows the messages that were accepted since the process began. Messages that waited before count only for
// the limits of all messages. The limits of their senders held when they were accepted.
type waiting struct {
	first int64 // the last life that it does not know
	of    map[corebot.Principal]share
	undo  *[]func()
}

// share is the waiting messages of one sender.
type share struct{ messages, bytes int64 }

var senderOfLife = &query{
	`SELECT l.channel, l.account, m.sender FROM message_life m JOIN lanes l ON l.id = m.lane_id WHERE m.id = ?`,
}

// storedSender is what the database has as the sender of a message of a chat: the id, since channel and account are the
// chat's. In a conversation between agents they are not, and it is the whole principal.
func storedSender(k corebot.Key, p corebot.Principal) string {
	switch {
	case k.Channel == corebot.AgentChannel:
		return p.String()
	case p.ID != "" && (p.Channel != k.Channel || p.Account != k.Account):
		return elsewhere + p.String()
	}
	return p.ID
}

// elsewhere begins the stored sender of another channel than the conversation's, such as the maker of a task. No
// sender's id has a control character.
const elsewhere = "\x1f"

// senderIn is the sender that [storedSender] stored.
func senderIn(k corebot.Key, stored string) corebot.Principal {
	if whole, foreign := strings.CutPrefix(stored, elsewhere); foreign || k.Channel == corebot.AgentChannel {
		if p, err := corebot.ParsePrincipal(whole); err == nil {
			return p
		}
	}
	return corebot.Principal{Channel: k.Channel, Account: k.Account, ID: stored}
}

// senderOf is the principal whose limits a message of a chat counts for, by its stored sender. All senders of a
// channel's account without an id are one principal. A question between agents counts for the principal whose turn
// asked, beside what he sends himself.
func senderOf(k corebot.Key, stored string) corebot.Principal { return senderIn(k, stored) }

// add counts a message that begins to wait. A negative number counts a message that no longer waits.
func (w *waiting) add(p corebot.Principal, life, messages int64, bytes int) {
	was, known := w.of[p]
	if life <= w.first || messages < 0 && !known {
		return
	}
	*w.undo = append(*w.undo, func() { w.put(p, was) })
	w.put(p, share{was.messages + messages, was.bytes + messages*int64(bytes)})
}

// begins counts a new message, where senders have limits.
func (w *waiting) begins(p *parcel, life int64, lim corebot.Limits) {
	if p.Direction == corebot.Inbound && (lim.SenderDepth > 0 || lim.SenderBytes > 0) {
		w.add(senderOf(p.Key, storedSender(p.Key, p.Sender)), life, 1, len(p.body))
	}
}

func (w *waiting) put(p corebot.Principal, l share) {
	if l.messages <= 0 {
		delete(w.of, p)
	} else {
		w.of[p] = l
	}
}

// addLife counts a message that is known only by its life.
func (w *waiting) addLife(t *tx, life, messages int64, bytes int) error {
	if life <= w.first {
		return nil
	}
	var p corebot.Principal
	found, err := t.one(senderOfLife, []any{&p.Channel, &p.Account, &p.ID}, life)
	if found {
		k := corebot.Key{Channel: p.Channel, Account: p.Account}
		w.add(senderOf(k, p.ID), life, messages, bytes)
	}
	return err
}

// over says whether a sender has too many waiting messages for one more.
func (w *waiting) over(p *parcel, lim corebot.Limits) error {
	if p.Direction != corebot.Inbound || lim.Owner.Is(p.Key.Channel) {
		return nil
	}
	now := w.of[senderOf(p.Key, storedSender(p.Key, p.Sender))]
	if lim.SenderDepth > 0 && now.messages >= lim.SenderDepth {
		return fmt.Errorf("%w: %d of %d", corebot.ErrSenderFull, now.messages, lim.SenderDepth)
	}
	if lim.SenderBytes > 0 && now.messages > 0 && now.bytes+int64(len(p.body)) > lim.SenderBytes {
		return fmt.Errorf("%w: %d of %d bytes", corebot.ErrSenderFull, now.bytes, lim.SenderBytes)
	}
	return nil
}

// overGrowth is [waiting.over] for a message that waits already and grows.
func (w *waiting) overGrowth(p *parcel, lim corebot.Limits, growth int64) error {
	now := w.of[senderOf(p.Key, storedSender(p.Key, p.Sender))]
	if lim.SenderBytes > 0 && !lim.Owner.Is(p.Key.Channel) && now.bytes+growth > lim.SenderBytes {
		return fmt.Errorf("%w: %d of %d bytes", corebot.ErrSenderFull, now.bytes, lim.SenderBytes)
	}
	return nil
}
