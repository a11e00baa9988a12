package storage

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/corebot/corebot"
)

// Audit reads the audit trail. Its events are written in the commits of the changes and steps that they describe.
type Audit struct{ db *DB }

// NewAudit is the audit trail of a database.
func NewAudit(db *DB) *Audit { return &Audit{db} }

var (
	insertAudit = &query{`INSERT INTO audit_events
		(id, hash, at, event, tool, agent, channel, account, chat, thread, sender, role, entry, outcome, rule, args,
		duration_ms, step_id, args_salt, args_sum)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`}
	// The id is the order of writing. An empty filter field matches everything.
	selectAudit = &query{`SELECT id, at, event, tool, agent, channel, account, chat, thread, sender, role, entry,
		outcome, rule, args, duration_ms, step_id, args_salt, args_sum
		FROM audit_events
		WHERE id < ? AND at >= ? AND at < ? AND ? IN ('', channel) AND ? IN ('', chat) AND ? IN ('', agent)
		AND (? = '' OR account = ? AND thread = ?)
		AND ? IN ('', sender) AND (? IN ('', tool, event) OR ? = event) AND ? IN ('', outcome)
		AND (? = 1 OR event <> 'tool.decision')
		ORDER BY id DESC LIMIT ? + 0`}
)

// List returns events, newest first.
func (a *Audit) List(ctx context.Context, f corebot.AuditFilter) ([]corebot.AuditEvent, error) {
	limit := 100
	if f.Limit > 0 {
		limit = f.Limit
	}
	return a.list(ctx, f, math.MaxInt64, limit)
}

// Page gives the events behind a cursor, newest first, at most limit of them, and the cursor behind them.
func (a *Audit) Page(ctx context.Context, f corebot.AuditFilter, after string,
	limit int,
) ([]corebot.AuditEvent, string, error) {
	place := int64(math.MaxInt64)
	if err := behind(after, "audit", &place); err != nil {
		return nil, "", err
	}
	found, err := a.list(ctx, f, place, limit)
	return found, nextPage(found, limit, func(e corebot.AuditEvent) string { return cursor("audit", e.ID) }), err
}

// list gives the events in front of an id, newest first.
func (a *Audit) list(ctx context.Context, f corebot.AuditFilter, place int64,
	limit int,
) (out []corebot.AuditEvent, err error) {
	until := int64(1 << 62)
	if !f.Until.IsZero() {
		until = f.Until.UnixMilli()
	}
	err = a.db.reader.each(ctx, selectAudit, func(s scanner) error {
		e, err := scanEvent(s)
		out = append(out, e)
		return err
	}, place, f.Since, until, cmp.Or(f.Key.Channel, f.Channel), cmp.Or(f.Key.Chat, f.Chat),
		cmp.Or(f.Key.Agent, f.Agent), f.Key.Agent,
		f.Key.Account, f.Key.Thread, f.Sender, f.Tool, f.Change, string(f.Outcome), f.Decisions, limit)
	return out, err
}

// scanEvent scans an event, behind other columns of a row.
func scanEvent(s scanner, before ...any) (e corebot.AuditEvent, err error) {
	var role, outcome string
	var took int64
	k := &e.Key
	err = s.Scan(append(before, &e.ID, moment{&e.At}, &e.Event, &e.Tool, &k.Agent, &k.Channel, &k.Account, &k.Chat,
		&k.Thread, &e.Principal.ID,
		&role, (*string)(&e.Entry), &outcome, &e.Rule, &e.Args, &took, &e.StepID, &e.Seal.Salt, &e.Seal.Sum)...)
	switch {
	case e.Entry != corebot.EntryOperator:
		e.Principal = senderIn(*k, e.Principal.ID)
	case e.Principal.ID != "": // the key is the chat that the change is about
		e.Principal.Channel, e.Principal.Account = corebot.TerminalChannel, corebot.TerminalAccount
	default:
		e.Principal.Channel, e.Principal.Account = k.Channel, k.Account
	}
	e.Role, e.Outcome, e.Duration = corebot.Role(role), corebot.AuditOutcome(outcome),
		time.Duration(took)*time.Millisecond
	return e, err
}

// sealSalt is the length of the salt of a seal: nobody can try out all.
const sealSalt = 16

// toolResult is the event of an ended call. Events that are copied from another event keep its label.
const toolResult = "tool.result"

// auditTx writes events in the transaction of their change.
func auditTx(t *tx, events []corebot.AuditEvent) error {
	for _, e := range events {
		e.At = t.now
		salt := make([]byte, sealSalt)
		_, _ = rand.Read(salt) // never fails
		e.Seal = corebot.SealArgs(salt, e.Args)
		next, k := t.audit.follow(&e), e.Key
		_, err := t.exec(insertAudit, next.id, next.hash, t.now, e.Event, e.Tool, k.Agent, k.Channel, k.Account, k.Chat,
			k.Thread, auditedSender(&e),
			string(e.Role), string(e.Entry), string(e.Outcome), e.Rule, e.Args, e.Duration.Milliseconds(), e.StepID,
			e.Seal.Salt, e.Seal.Sum)
		if err != nil {
			return err
		}
		t.audit = next
		if e.Event == toolResult && e.Label != "" {
			t.count(toolsTotal, k.Agent, string(e.Outcome), "", 1)
		}
	}
	return nil
}

// The audit trail is a hash chain. Each event has a SHA-256 over itself and the hash before it. So a changed, added or
// deleted event changes every hash behind it. An attacker who can write the file can compute a whole new chain. Only
// a head that was noted elsewhere before shows this.
//
// Retention cuts the chain only at its old end, and keeps the last hash before the cut. The numbers of events have no
// gaps: the numbers of a transaction that is rolled back are used again.

var (
	newestAudit     = &query{`SELECT id, hash FROM audit_events ORDER BY id DESC LIMIT 1`}
	selectAuditPast = &query{`SELECT past, hash FROM audit_chain WHERE id = 1`}
	// The highest number that was ever given. It shows that events are missing at the end, even after others have
	// followed.
	selectAuditNumber = &query{`SELECT seq FROM sqlite_sequence WHERE name = 'audit_events'`}
)

// restoreEvent is the event of a restored backup. It is stored; it never changes.
const restoreEvent = "db.restore"

var (
	auditRecords = &query{`SELECT hash, id, at, event, tool, agent, channel, account, chat, thread, sender, role, entry,
		outcome, rule, args, duration_ms, step_id, args_salt, args_sum FROM audit_events WHERE id > ?
		ORDER BY id LIMIT ? + 0`}
	timeOfAudit   = &query{`SELECT at FROM audit_events WHERE id = ?`}
	hashOfAudit   = &query{`SELECT hash FROM audit_events WHERE id = ?`}
	restoresSince = &query{`SELECT id, at FROM audit_events WHERE at >= ? AND event = ? ORDER BY id`}
)

// link is an event's place in the chain.
type link struct {
	id   int64
	hash []byte // empty before the first event
}

func readHead(c *prepared) (head link, err error) {
	scan := func(id *int64, hash *[]byte) func(scanner) error {
		return func(s scanner) error { return s.Scan(id, hash) }
	}
	var last link
	if err := errors.Join(c.each(selectAuditPast, scan(&head.id, &head.hash)),
		c.each(newestAudit, scan(&last.id, &last.hash))); err != nil {
		return head, err
	}
	if last.id > head.id {
		head = last
	}
	return head, c.each(selectAuditNumber, func(s scanner) error {
		var number int64
		err := s.Scan(&number)
		head.id = max(head.id, number)
		return err
	})
}

// auditedSender is what is stored, and hashed, as the principal of an event. The operator is no sender of the chat that
// a change is about.
func auditedSender(e *corebot.AuditEvent) string {
	if e.Entry == corebot.EntryOperator {
		return e.Principal.ID
	}
	return storedSender(e.Key, e.Principal)
}

// recordOf is an event as it is stored and hashed, but for its id and its hash.
func recordOf(e *corebot.AuditEvent) corebot.AuditRecord {
	k := e.Key
	return corebot.AuditRecord{
		ID: e.ID, At: e.At.UnixMilli(), Event: e.Event, Tool: e.Tool, Agent: k.Agent, Channel: k.Channel,
		Account: k.Account, Chat: k.Chat, Thread: k.Thread, Sender: auditedSender(e), Role: string(e.Role),
		Entry: string(e.Entry), Outcome: string(e.Outcome), Rule: e.Rule, Args: e.Args, StepID: e.StepID,
		DurationMS: e.Duration.Milliseconds(),
		ArgsSalt:   hex.EncodeToString(e.Seal.Salt), ArgsSum: hex.EncodeToString(e.Seal.Sum),
	}
}

// follow computes the place of the next event.
func (l link) follow(e *corebot.AuditEvent) link {
	r := recordOf(e)
	r.ID = l.id + 1
	return link{r.ID, r.Sum(l.hash)}
}

// selectChain is one statement, so it reads one state of the database even beside a writer.
var selectChain = &query{`SELECT c.past, c.hash,
	COALESCE((SELECT seq FROM sqlite_sequence WHERE name = 'audit_events'), 0), e.id IS NOT NULL, COALESCE(e.hash, x''),
	COALESCE(e.id, 0), COALESCE(e.at, 0), COALESCE(e.event, ''), COALESCE(e.tool, ''), COALESCE(e.agent, ''),
	COALESCE(e.channel, ''), COALESCE(e.account, ''),
	COALESCE(e.chat, ''), COALESCE(e.thread, ''), COALESCE(e.sender, ''), COALESCE(e.role, ''), COALESCE(e.entry, ''),
	COALESCE(e.outcome, ''), COALESCE(e.rule, ''),
	COALESCE(e.args, ''), COALESCE(e.duration_ms, 0), COALESCE(e.step_id, ''), COALESCE(e.args_salt, x''),
	COALESCE(e.args_sum, x'')
	FROM audit_chain c LEFT JOIN audit_events e ON e.id > c.past WHERE c.id = 1 ORDER BY e.id`}

// selectChainPart reads some events of the chain behind a place, as [selectChain] does.
var selectChainPart = &query{strings.Replace(selectChain.sql, "audit_events e ON e.id > c.past",
	`(SELECT * FROM audit_events WHERE id > MAX(?, (SELECT past FROM audit_chain WHERE id = 1)) ORDER BY id LIMIT ?) e`+
		` ON e.id > c.past`, 1)}

// VerifyPart goes on with a walk along the chain, for at most so many events, and says whether it has reached the head.
// If retention has deleted the place where the walk stands, the walk begins anew behind the deleted events.
func (a *Audit) VerifyPart(ctx context.Context, walk *corebot.AuditWalk, most int) (done bool, err error) {
	at := int64(0)
	if walk.Begun() {
		at = walk.Chain.Head.Event
	}
	numbers, read, looked := int64(0), 0, false
	err = a.db.reader.whole(ctx, selectChainPart, func(s scanner) error {
		var past link
		var stored []byte
		var is bool
		e, err := scanEvent(s, &past.id, &past.hash, &numbers, &is, &stored)
		if err != nil {
			return err
		}
		if looked = true; !walk.Begun() || past.id > walk.Chain.Head.Event {
			*walk = corebot.AuditWalk{}
			walk.Begin(past.id, past.hash, nil)
		}
		if !is {
			return nil
		}
		read++
		r := recordOf(&e)
		r.Hash = hex.EncodeToString(stored)
		return walk.Step(r)
	}, at, most)
	if err == nil && !looked {
		err = &corebot.BrokenChain{Why: "where it begins is not known"}
	}
	if err != nil || read == most {
		return false, err
	}
	if at := walk.Chain.Head.Event; numbers > at {
		return false, &corebot.BrokenChain{Event: at + 1, Why: fmt.Sprintf("events %d to %d are missing at its end",
			at+1, numbers)}
	}
	return true, nil
}

// Tell sends a notice about the trail. One that was sent before is not sent again.
func (a *Audit) Tell(ctx context.Context, notice corebot.Message) error {
	return a.db.write(ctx, "audit.tell", func(t *tx) error {
		return noticeTx(t, &pack([]corebot.Message{notice})[0], 0)
	})
}

// Verify follows the chain from its beginning to its head. If the chain does not fit together, or is not the one of
// which heads were published, the error is a [*corebot.BrokenChain]. It names the first head that does not hold, in the
// order of heads. The check takes about 11 µs for each event.
func (a *Audit) Verify(ctx context.Context, q corebot.AuditProof) (corebot.AuditChain, error) {
	var walk corebot.AuditWalk
	var restores []restored
	numbers, began := int64(0), false
	err := a.db.reader.whole(ctx, selectChain, func(s scanner) error {
		var past link
		var stored []byte
		var is bool
		e, err := scanEvent(s, &past.id, &past.hash, &numbers, &is, &stored)
		if err != nil {
			return err
		}
		if !began {
			began = true
			walk.Begin(past.id, past.hash, q.Heads)
		}
		if !is {
			return nil
		}
		if e.Event == restoreEvent {
			restores = append(restores, restored{e.ID, e.At})
		}
		r := recordOf(&e)
		r.Hash = hex.EncodeToString(stored)
		return walk.Step(r)
	})
	if err == nil && !began {
		err = &corebot.BrokenChain{Why: "where it begins is not known"}
	}
	if at := walk.Chain.Head.Event; err == nil && numbers > at {
		err = &corebot.BrokenChain{Event: at + 1, Why: fmt.Sprintf("events %d to %d are missing at its end", at+1,
			numbers)}
	}
	if err == nil && len(q.Heads) > 0 {
		err = a.prove(ctx, &walk, q, restores)
	}
	return walk.Chain, err
}

// restored is the event of a restored backup.
type restored struct {
	id int64
	at time.Time
}

// prove holds the chain to the published heads.
func (a *Audit) prove(ctx context.Context, walk *corebot.AuditWalk, q corebot.AuditProof, restores []restored) error {
	var id string
	if _, err := a.db.reader.one(ctx, storeRow, []any{&id, new(int64), new(int64), new(int64)}); err != nil {
		return err
	}
	others, chain := 0, &walk.Chain
	for _, h := range q.Heads {
		switch {
		case h.Database != "" && h.Database != id:
			others++
		case walk.Has(h.AuditHead):
			chain.Held++
		case h.Event < chain.Past && (q.Kept <= 0 || !h.EventAt.After(time.Now().Add(-q.Kept))) && !h.EventAt.IsZero():
			chain.Older++
		default:
			if !leftBehind(h, q.Restored, restores) {
				return notHeld(h, chain, restores)
			}
			chain.LeftBehind++
		}
	}
	chain.OtherDatabases = others
	if others == len(q.Heads) {
		return &corebot.BrokenChain{Event: chain.Head.Event, Why: "no head is of this database: it is another one"}
	}
	return nil
}

// leftBehind says whether a head is of events that a restored backup did not have. allowed are the restores that the
// operator knows.
func leftBehind(h corebot.PublishedHead, allowed []int64, restores []restored) bool {
	return slices.ContainsFunc(restores, func(r restored) bool {
		return slices.Contains(allowed, r.id) && r.id <= h.Event && !h.At.After(r.at)
	})
}

// notHeld says why a head does not hold.
func notHeld(h corebot.PublishedHead, chain *corebot.AuditChain, restores []restored) error {
	head := "the head that was noted"
	if !h.At.IsZero() {
		head = "the head that was published " + h.At.UTC().Format(time.RFC3339)
	}
	broken := &corebot.BrokenChain{Event: h.Event}
	switch {
	case h.Event <= chain.Past:
		broken.Why = fmt.Sprintf("%s is not there any more: the trail begins behind event %d", head, chain.Past)
	case h.Event > chain.Head.Event:
		broken.Why = head + " is not there: the trail ends before it"
	default:
		broken.Why = "it is another one than " + head
	}
	for _, r := range restores {
		if r.id <= h.Event && !h.At.After(r.at) {
			return corebot.WithHint(broken, fmt.Sprintf("event %d says that a backup was restored at %s: if you "+
				"restored it, say --restored %d", r.id, r.at.UTC().Format(time.RFC3339), r.id))
		}
	}
	return broken
}

// Records gives the events behind an id in their order, as they are stored and hashed, and the hash before the first.
func (a *Audit) Records(ctx context.Context, after int64, limit int) (all []corebot.AuditRecord, err error) {
	err = a.db.reader.each(ctx, auditRecords, func(s scanner) error {
		var stored []byte
		e, err := scanEvent(s, &stored)
		r := recordOf(&e)
		r.Hash = hex.EncodeToString(stored)
		all = append(all, r)
		return err
	}, after, limit)
	return all, err
}

// Head is the newest event of the trail as it is published, and where the chain begins.
func (a *Audit) Head(ctx context.Context) (h corebot.PublishedHead, err error) {
	err = a.db.reader.view(ctx, func(c *prepared) error {
		head, err := readHead(c)
		if err != nil {
			return err
		}
		h.Event, h.Hash = head.id, hex.EncodeToString(head.hash)
		return errors.Join(
			c.each(storeRow, func(s scanner) error { return s.Scan(&h.Database, new(int64), new(int64), new(int64)) }),
			c.each(timeOfAudit, func(s scanner) error { return s.Scan(moment{&h.EventAt}) }, head.id))
	})
	return h, err
}

// Follows says whether the trail goes on from a head that was published. Its event has the hash then, or retention has
// deleted it, or a backup was restored since. Otherwise somebody has written the trail anew: a [*corebot.BrokenChain].
func (a *Audit) Follows(ctx context.Context, h corebot.PublishedHead) error {
	return a.db.reader.view(ctx, func(c *prepared) error {
		var past link
		var hash []byte
		err := errors.Join(
			c.each(selectAuditPast, func(s scanner) error { return s.Scan(&past.id, &past.hash) }),
			c.each(hashOfAudit, func(s scanner) error { return s.Scan(&hash) }, h.Event))
		if h.Event == past.id {
			hash = past.hash
		}
		if err != nil || h.Event < past.id || hex.EncodeToString(hash) == h.Hash {
			return err
		}
		var known []int64
		var restores []restored
		err = c.each(restoresSince, func(s scanner) error {
			var r restored
			err := s.Scan(&r.id, moment{&r.at})
			restores, known = append(restores, r), append(known, r.id)
			return err
		}, h.At, restoreEvent)
		head, headErr := readHead(c)
		if err != nil || headErr != nil || leftBehind(h, known, restores) {
			return errors.Join(err, headErr)
		}
		return notHeld(h, &corebot.AuditChain{Past: past.id, Head: corebot.AuditHead{Event: head.id}}, nil)
	})
}

// NoteKey writes into the trail that a new key signs its heads from now on.
func (a *Audit) NoteKey(ctx context.Context, id string) error {
	return a.db.write(ctx, "audit.key", func(t *tx) error {
		return changeTx(t, byOperator(), "audit.key", homeItself, map[string]any{"key": id})
	})
}

// byOperator begins the audit event of a change by a command on the machine. Its sender is the user of this process,
// because the control socket is open only to this user and root.
func byOperator() corebot.AuditEvent {
	return corebot.AuditEvent{Entry: corebot.EntryOperator, Principal: corebot.Principal{ID: strconv.Itoa(os.Getuid())}}
}

// maker spells who makes a change.
func maker(by corebot.AuditEvent) string {
	if by.Entry == corebot.EntryOperator {
		return string(corebot.EntryOperator)
	}
	return by.Principal.String()
}

// changeTx writes the audit event of a change in the commit of the change. by says who made the change and where. An
// operator's change has the conversation that it is about.
func changeTx(t *tx, by corebot.AuditEvent, event string, about corebot.Key, note map[string]any) error {
	args, err := json.Marshal(note)
	if err != nil {
		return fmt.Errorf("encode the audit note of %s: %w", event, err)
	}
	by.Key = cmp.Or(by.Key, about)
	by.Event, by.Outcome, by.Args = event, corebot.OutcomeSuccess, string(args)
	return auditTx(t, []corebot.AuditEvent{by})
}
