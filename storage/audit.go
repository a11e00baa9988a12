package storage

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"math"
	"os"
	"slices"
	"strconv"
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
		duration_ms, step_id)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`}
	// The id is the order of writing. An empty filter field matches everything.
	selectAudit = &query{`SELECT id, at, event, tool, agent, channel, account, chat, thread, sender, role, entry,
		outcome, rule, args, duration_ms, step_id
		FROM audit_events
		WHERE id < ? AND at >= ? AND at < ? AND ? IN ('', channel) AND ? IN ('', chat) AND ? IN ('', agent)
		AND (? = '' OR account = ? AND thread = ?)
		AND ? IN ('', sender) AND ? IN ('', tool) AND ? IN ('', outcome)
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
		f.Key.Account, f.Key.Thread, f.Sender, f.Tool, string(f.Outcome), f.Decisions, limit)
	return out, err
}

// scanEvent scans an event, behind other columns of a row.
func scanEvent(s scanner, before ...any) (e corebot.AuditEvent, err error) {
	var role, outcome string
	var took int64
	k := &e.Key
	err = s.Scan(append(before, &e.ID, moment{&e.At}, &e.Event, &e.Tool, &k.Agent, &k.Channel, &k.Account, &k.Chat,
		&k.Thread, &e.Principal.ID,
		&role, (*string)(&e.Entry), &outcome, &e.Rule, &e.Args, &took, &e.StepID)...)
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

// toolResult is the event of an ended call. Events that are copied from another event keep its label.
const toolResult = "tool.result"

// auditTx writes events in the transaction of their change.
func auditTx(t *tx, events []corebot.AuditEvent) error {
	for _, e := range events {
		e.At = t.now
		next, k := t.audit.follow(&e), e.Key
		_, err := t.exec(insertAudit, next.id, next.hash, t.now, e.Event, e.Tool, k.Agent, k.Channel, k.Account, k.Chat,
			k.Thread, auditedSender(&e),
			string(e.Role), string(e.Entry), string(e.Outcome), e.Rule, e.Args, e.Duration.Milliseconds(), e.StepID)
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

// follow computes the place of the next event.
func (l link) follow(e *corebot.AuditEvent) link {
	next := link{id: l.id + 1}
	h := digest{sha256.New()}
	h.text("corebot audit 1")
	h.text(string(l.hash))
	h.number(next.id)
	h.number(e.At.UnixMilli())
	k := e.Key
	for _, field := range []string{
		e.Event, e.Tool, k.Agent, k.Channel, k.Account, k.Chat, k.Thread, auditedSender(e), string(e.Role),
		string(e.Entry), string(e.Outcome), e.Rule, e.Args, e.StepID,
	} {
		h.text(field)
	}
	h.number(e.Duration.Milliseconds())
	next.hash = h.Sum(nil)
	return next
}

// digest hashes texts with their lengths and numbers at a fixed width, so that no field can run into the next.
type digest struct{ hash.Hash }

func (d digest) number(n int64) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(n))
	_, _ = d.Write(b[:])
}

func (d digest) text(s string) {
	d.number(int64(len(s)))
	_, _ = d.Write([]byte(s))
}

// selectChain is one statement, so it reads one state of the database even beside a writer.
var selectChain = &query{`SELECT c.past, c.hash,
	COALESCE((SELECT seq FROM sqlite_sequence WHERE name = 'audit_events'), 0), e.id IS NOT NULL, COALESCE(e.hash, x''),
	COALESCE(e.id, 0), COALESCE(e.at, 0), COALESCE(e.event, ''), COALESCE(e.tool, ''), COALESCE(e.agent, ''),
	COALESCE(e.channel, ''), COALESCE(e.account, ''),
	COALESCE(e.chat, ''), COALESCE(e.thread, ''), COALESCE(e.sender, ''), COALESCE(e.role, ''), COALESCE(e.entry, ''),
	COALESCE(e.outcome, ''), COALESCE(e.rule, ''),
	COALESCE(e.args, ''), COALESCE(e.duration_ms, 0), COALESCE(e.step_id, '')
	FROM audit_chain c LEFT JOIN audit_events e ON e.id > c.past WHERE c.id = 1 ORDER BY e.id`}

// verification is a check on its way along the chain.
type verification struct {
	corebot.AuditChain
	noted *corebot.AuditHead
	at    link
	found bool // the noted head
}

// Verify follows the chain from its beginning to its head. If the chain does not fit together, or the noted head is not
// a part of it, the error is a [*corebot.BrokenChain]. noted may be nil. The check takes about 11 µs for each event.
func (a *Audit) Verify(ctx context.Context, noted *corebot.AuditHead) (corebot.AuditChain, error) {
	v := verification{noted: noted}
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
			v.begin(past)
		}
		if !is {
			return nil
		}
		return v.step(&e, stored)
	})
	if err == nil && !began {
		err = &corebot.BrokenChain{Why: "where it begins is not known"}
	}
	if err == nil {
		err = v.end(numbers)
	}
	return v.AuditChain, err
}

func (v *verification) begin(past link) {
	v.at, v.Past = past, past.id
	v.meet()
}

// step checks one event against its stored hash.
func (v *verification) step(e *corebot.AuditEvent, stored []byte) error {
	if e.ID != v.at.id+1 {
		return &corebot.BrokenChain{Event: v.at.id + 1, Why: fmt.Sprintf("events %d to %d are missing", v.at.id+1,
			e.ID-1)}
	}
	next := v.at.follow(e)
	if !slices.Equal(next.hash, stored) {
		return &corebot.BrokenChain{Event: e.ID, Why: "it, or what was before it, is not what was written"}
	}
	v.at = next
	v.Events++
	if v.meet() {
		return nil
	}
	return &corebot.BrokenChain{Event: e.ID, Why: "it is another one than the head that was noted"}
}

// meet says whether the event at the place of the noted head has the noted hash. At every other place it is true.
func (v *verification) meet() bool {
	v.Head = corebot.AuditHead{Event: v.at.id, Hash: hex.EncodeToString(v.at.hash)}
	if v.noted == nil || v.noted.Event != v.at.id {
		return true
	}
	v.found = *v.noted == v.Head
	return v.found
}

// end checks that no event is missing behind the last one. numbers is the highest number that was ever given.
func (v *verification) end(numbers int64) error {
	switch {
	case numbers > v.at.id:
		return &corebot.BrokenChain{Event: v.at.id + 1, Why: fmt.Sprintf("events %d to %d are missing at its end",
			v.at.id+1, numbers)}
	case v.noted == nil || v.found:
		return nil
	case v.noted.Event <= v.Past:
		return &corebot.BrokenChain{
			Event: v.noted.Event,
			Why: fmt.Sprintf("the head that was noted is not there any more: the trail begins behind event %d",
				v.Past),
		}
	}
	return &corebot.BrokenChain{
		Event: v.noted.Event,
		Why:   "the head that was noted is not there: the trail ends before it",
	}
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
