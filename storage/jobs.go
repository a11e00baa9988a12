package storage

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/corebot/corebot"
)

// Jobs stores the work that turns have given to other turns. A job ends once, in the commit that ends its message. The
// same commit gives its result to the call that waits, and wakes the turn of that call when nothing more is waited for.
// A job in the background posts its result to the conversation instead, where the next turn knows it.
type Jobs struct {
	db *DB
	by corebot.AuditEvent
}

// NewJobs returns the jobs of a database, for changes by the operator.
func NewJobs(db *DB) *Jobs { return &Jobs{db, byOperator()} }

// As returns the jobs for changes by somebody else, as [DeadLetters.As] does.
func (j *Jobs) As(by corebot.AuditEvent) *Jobs { return &Jobs{j.db, by} }

const jobColumns = `SELECT j.id, j.kind, j.background, j.state, j.prompt, j.depth, j.parent_id,
	COALESCE(p.message_id, ''), j.life_id, m.message_id, l.agent, l.channel, l.account, l.chat, l.thread, m.sender,
	j.results, j.tokens, j.calls, j.used_tokens, j.used_calls,
	CASE WHEN m."end" = '' AND l.leased = 0 THEN COALESCE(NULLIF(l.waiting, ''), 'its turn') ELSE '' END, j.reason,
	j.created_at, j.ended_at
	FROM jobs j JOIN message_life m ON m.id = j.life_id JOIN lanes l ON l.id = m.lane_id
	LEFT JOIN message_life p ON p.id = j.parent_id `

var (
	jobByID    = &query{jobColumns + `WHERE j.id = ?`}
	jobOfLife  = &query{jobColumns + `WHERE j.life_id = ?`}
	openJobs   = &query{jobColumns + `WHERE j.state = 'open' AND j.id > ? ORDER BY j.id LIMIT ? + 0`}
	newestJobs = &query{jobColumns + `WHERE j.id < ? ORDER BY j.id DESC LIMIT ? + 0`}
	jobsOfChat = &query{jobColumns + `WHERE j.results = ? AND j.id < ? ORDER BY j.id DESC LIMIT ? + 0`}
	openOfChat = &query{jobColumns + `WHERE j.results = ? AND j.state = 'open' AND j.id > ? ORDER BY j.id LIMIT ? + 0`}
	openOfLife = &query{jobColumns + `WHERE j.parent_id = ? AND j.state = 'open' ORDER BY j.id`}

	insertJob = &query{`INSERT INTO jobs (id, kind, background, state, parent_id, life_id, results, sender, prompt,
		depth, tokens, calls, noted_at, created_at) VALUES (?, ?, ?, 'open', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`}
	endJob = &query{`UPDATE jobs SET state = ?, reason = ?, used_tokens = ?, used_calls = ?, ended_at = ?
		WHERE id = ?`}
	// The notes of a conversation keep their distance, whichever jobs they are of. A time ahead is of a clock that was
	// set back since.
	noteOfJob = &query{`UPDATE jobs SET notes = notes + 1, noted_at = ?1 WHERE life_id = ?2 AND background = 1
		AND state = 'open' AND notes < ?3 AND (noted_at <= ?4 OR noted_at > ?1)
		AND NOT EXISTS (SELECT 1 FROM jobs o WHERE o.results = jobs.results AND o.notes > 0 AND o.noted_at > ?4
			AND o.noted_at <= ?1) RETURNING id, notes, results`}
	// reopenJob gives the job of a dead letter back to the message that runs in its place. No call waits any more.
	reopenJob = &query{`UPDATE jobs SET state = 'open', background = 1, life_id = ?, reason = '', ended_at = 0
		WHERE life_id = ? AND state <> 'open' RETURNING id`}

	anyJob         = &query{`SELECT 1 FROM jobs WHERE parent_id = ? LIMIT 1`}
	countJobsOf    = &query{`SELECT COUNT(*) FROM jobs WHERE parent_id = ? AND state = 'open'`}
	countJobsOfRun = &query{`SELECT COUNT(*) FROM jobs j JOIN waits w ON w.id = j.id
		WHERE j.parent_id = ? AND w.run = ?`}
	countJobsBy = &query{`SELECT COUNT(*) FROM jobs WHERE sender = ? AND state = 'open'`}
	countJobs   = &query{`SELECT COUNT(*) FROM jobs WHERE state = 'open'`}
	usedByLife  = &query{`SELECT input_tokens + output_tokens, (SELECT COUNT(*) FROM execution_steps s
		WHERE s.life_id = m.id AND s.kind = 'model') FROM message_life m WHERE m.id = ?`}
	usedByJobs = &query{`SELECT COALESCE(SUM(CASE state WHEN 'open' THEN tokens ELSE used_tokens END), 0),
		COALESCE(SUM(CASE state WHEN 'open' THEN calls ELSE used_calls END), 0) FROM jobs WHERE parent_id = ?`}
	placeOfLife = &query{`SELECT q.lane_id, q.seq FROM message_queue q JOIN lanes l ON l.id = q.lane_id
		WHERE q.life_id = ?1 AND q.seq = (SELECT h.seq FROM message_queue h WHERE h.lane_id = q.lane_id
		AND h.seq > l.past ORDER BY h.seq LIMIT 1)`}
)

func scanJob(s scanner) (j corebot.Job, err error) {
	var results string
	k := &j.Key
	err = s.Scan(&j.ID, (*string)(&j.Kind), &j.Background, (*string)(&j.State), &j.Prompt, &j.Depth, &j.Parent.Life,
		&j.Parent.MessageID, &j.Life, &j.MessageID, &k.Agent, &k.Channel, &k.Account, &k.Chat, &k.Thread,
		&j.Principal.ID, &results, &j.Budget.Tokens, &j.Budget.Calls, &j.Used.Tokens, &j.Used.Calls, &j.Waits,
		&j.Reason, moment{&j.CreatedAt}, moment{&j.EndedAt})
	if j.Principal = senderIn(*k, j.Principal.ID); err == nil {
		j.Results, err = corebot.ParseKey(results)
	}
	return j, err
}

// jobsTx reads the jobs that a query finds.
func jobsTx(t *tx, q *query, args ...any) (all []corebot.Job, err error) {
	err = t.each(q, func(s scanner) error {
		j, err := scanJob(s)
		all = append(all, j)
		return err
	}, args...)
	return all, err
}

// oneJob reads the job that a query finds; the zero job: none.
func oneJob(t *tx, q *query, args ...any) (j corebot.Job, err error) {
	all, err := jobsTx(t, q, args...)
	if err == nil && len(all) > 0 {
		j = all[0]
	}
	return j, err
}

// beginJobTx stores a job with its wait, its message and the step of its call. It checks its rules before it writes.
func (l *Ledger) beginJobTx(t *tx, d corebot.Delivery, s corebot.Step, row stepRow, wait corebot.Pending,
	begins corebot.AuditEvent, stands *corebot.Pending,
) error {
	j, sender := *wait.Job, senderOf(d.Message.Key, storedSender(d.Message.Key, d.Message.Sender)).String()
	if err := jobFitsTx(t, d, j, sender, wait.Limits); err != nil {
		return err
	}
	id, err := insertWaitTx(t, d, s, wait, begins.Rule, sender)
	if err != nil {
		return err
	}
	m, err := d.Spawn(id, s.Position, j)
	if err != nil {
		return &corebot.Refused{Err: err}
	}
	packed := pack([]corebot.Message{m})
	packed[0].cause = d.Life
	r, err := publishTx(t, &packed[0], l.db.limits)
	switch {
	case err != nil:
		return err
	case noRoom(r.Err):
		return &corebot.Refused{Err: fmt.Errorf("begin a job: %w", r.Err)}
	case r.Err != nil:
		return r.Err
	}
	depth := 0
	if m.Child != nil {
		depth = m.Child.Depth
	}
	_, err = t.exec(insertJob, id, string(j.Kind), j.Background, d.Life, r.Life, j.Asks.Results().String(), sender,
		j.Shown(), depth, j.Budget.Tokens, j.Budget.Calls, t.now, t.now)
	if err != nil {
		return err
	}
	t.count(jobsTotal, d.Message.Key.Agent, "begun", "", 1)
	if err := recordWaitTx(t, d, s, row); err != nil {
		return err
	}
	begins.Event = "job.begin"
	if err := auditTx(t, []corebot.AuditEvent{begins}); err != nil {
		return err
	}
	if *stands, err = oneWait(t, waitByID, id); err != nil || !j.Background {
		return err
	}
	stands.State, stands.EndedAt = corebot.WaitMet, t.now // its call goes on at once
	stands.Word.Text = fmt.Sprintf("job %d works in the background. Its result comes into this chat as a message: do "+
		"not wait for it. /jobs lists jobs, and /stop %d stops this one.", id, id)
	return storeEndTx(t, *stands)
}

// jobFitsTx refuses a job over a limit, and a question to an agent that still works on an earlier one.
func jobFitsTx(t *tx, d corebot.Delivery, j corebot.NewJob, sender string, limits corebot.WaitLimits) error {
	if err := j.Validate(); err != nil {
		return &corebot.Refused{Err: err}
	}
	if j.Kind == corebot.JobRun && j.Asks.Depth >= corebot.MaxJobDepth {
		return &corebot.Refused{Err: corebot.WithHint(corebot.ErrTooDeep, "do this part yourself")}
	}
	for _, limit := range []struct {
		most  int
		of    string
		count *query
		args  []any
	}{
		{corebot.MaxJobsAtOnce, "this turn, at once,", countJobsOf, []any{d.Life}},
		{corebot.MaxJobs, "this message", countJobsOfRun, []any{d.Life, d.Run}},
		{limits.PerSender, "this person", countJobsBy, []any{sender}},
		{limits.Total, "all chats", countJobs, nil},
	} {
		var n int
		if _, err := t.one(limit.count, []any{&n}, limit.args...); err != nil {
			return err
		}
		if limit.most > 0 && n >= limit.most {
			err := fmt.Errorf("%w: %s has %d", corebot.ErrTooManyJobs, limit.of, n)
			return &corebot.Refused{Err: corebot.WithHint(err, "wait for those results, or do this part yourself")}
		}
	}
	if j.Kind != corebot.JobAsk {
		return nil
	}
	lane, err := findLaneTx(t, corebot.Inbound, corebot.AskedFrom(j.Asks.Key, j.Agent))
	if err == nil && lane.depth > 0 {
		err = &corebot.Refused{Err: stillAsked(j.Agent)}
	}
	return err
}

// jobEnd is how the message of a job has ended.
type jobEnd struct {
	run   int
	state corebot.JobState
	says  corebot.Word
	why   string // in words, of a job without a result
}

// endOf is how a claim's outcome ends a job.
func endOf(d *corebot.Delivery, o corebot.Outcome) jobEnd {
	e := jobEnd{run: d.Run, state: corebot.JobFailed, why: o.Plain}
	switch {
	case o.Verb == corebot.Done && o.End == corebot.EndAnswered && o.Says != nil:
		e.state, e.says = corebot.JobDone, *o.Says
	case o.Verb == corebot.Done && o.End == corebot.EndStopped:
		e.state, e.why = corebot.JobStopped, "it was stopped"
	case e.why == "":
		e.why = "its turn ended: " + o.Reason
	}
	return e
}

// endClaimedJobTx ends the job of a claim, if the claim's message is one.
func endClaimedJobTx(t *tx, d *corebot.Delivery, o corebot.Outcome) error {
	if c := d.Message.Key.Channel; d.Message.Direction != corebot.Inbound || c != corebot.JobChannel &&
		c != corebot.AgentChannel {
		return nil
	}
	return endJobTx(t, d.Life, d.Job(), endOf(d, o))
}

// reopenJobTx opens the job of a dead letter that runs again: as a replay, or as an edit, which is another message.
// Nobody waits for its result any more, so that the conversation gets it. The job has its number, so that people can
// find it and stop it.
func reopenJobTx(t *tx, dead, life int64, k corebot.Key) error {
	if k.Channel != corebot.JobChannel && k.Channel != corebot.AgentChannel {
		return nil
	}
	var id int64
	reopened, err := t.one(reopenJob, []any{&id}, life, dead)
	if reopened {
		t.count(jobsTotal, k.Agent, "begun", "", 1)
	}
	return err
}

// endJobTx ends the job of a life. A message from before jobs were opened again can belong to one that has ended.
func endJobTx(t *tx, life, number int64, e jobEnd) error {
	j, err := oneJob(t, jobOfLife, life)
	if err == nil && j.ID == 0 && number != 0 {
		j, err = oneJob(t, jobByID, number)
	}
	switch {
	case err != nil || j.ID == 0:
		return err
	case j.State != corebot.JobOpen || j.Life != life:
		return postJobTx(t, j, life, e)
	}
	if err := closeJobTx(t, &j, e); err != nil {
		return err
	}
	if j.Background {
		return postJobTx(t, j, life, e)
	}
	w, err := oneWait(t, waitByID, j.ID)
	if err != nil || w.State != corebot.WaitAwaited { // its call was given up meanwhile
		return err
	}
	w.State, w.Word = corebot.WaitMet, e.says
	if e.state != corebot.JobDone {
		w.State, w.Reason = corebot.WaitGivenUp, e.why
	}
	if err := storeEndTx(t, w); err != nil {
		return err
	}
	if more, err := stillWaitsTx(t, w.Life); err != nil || more { // the last one wakes the turn
		return err
	}
	return goOnTx(t, w.Life, corebot.AwaitingJob)
}

// closeJobTx stores how a job has ended, and what it has used.
func closeJobTx(t *tx, j *corebot.Job, e jobEnd) error {
	var own, below corebot.JobBudget
	if _, err := t.one(usedByLife, []any{&own.Tokens, &own.Calls}, j.Life); err != nil {
		return err
	}
	if _, err := t.one(usedByJobs, []any{&below.Tokens, &below.Calls}, j.Life); err != nil {
		return err
	}
	j.State, j.Reason, j.Used, j.EndedAt = e.state, e.why, own.Plus(below), t.now
	_, err := t.exec(endJob, string(j.State), j.Reason, j.Used.Tokens, j.Used.Calls, t.now, j.ID)
	if err != nil {
		return err
	}
	t.count(jobsTotal, j.Key.Agent, string(j.State), "", 1)
	by := corebot.AuditEvent{Key: j.Key.Acts(), Entry: corebot.EntryItself}
	return noteJobTx(t, by, "job.end", *j)
}

func noteJobTx(t *tx, by corebot.AuditEvent, event string, j corebot.Job) error {
	note := map[string]any{
		"id": j.ID, "kind": j.Kind, "messageId": j.MessageID, "chat": j.Results.String(), "state": j.State,
		"principal": j.Principal.String(),
	}
	if j.Reason != "" {
		note["reason"] = j.Reason
	}
	return changeTx(t, by, event, j.Key.Acts(), note)
}

// postJobTx tells the conversation how a job has ended, and enters that into its history.
func postJobTx(t *tx, j corebot.Job, life int64, e jobEnd) error {
	text := fmt.Sprintf("Job %d failed: %s", j.ID, e.why)
	switch e.state {
	case corebot.JobDone:
		text = fmt.Sprintf("Job %d has a result:\n\n%s", j.ID, e.says.Text)
	case corebot.JobStopped:
		text = fmt.Sprintf("Job %d was stopped.", j.ID)
	}
	m := corebot.Message{
		ID: corebot.JobResultID(j.ID, life, e.run), Direction: corebot.Outbound, Key: j.Results,
		Kind: corebot.KindReply, Parts: corebot.TextPart(text), // to nothing: its parent has its own answer
	}
	packed := pack([]corebot.Message{m})
	packed[0].cause = life
	r, err := publishTx(t, &packed[0], corebot.Limits{})
	switch {
	case err != nil:
		return err
	case r.Err != nil:
		return r.Err
	case r.Duplicate:
		return nil
	}
	// The turn that began the job can be in an earlier session. So the result says by itself whose words it can have.
	return sayTx(t, j.Results, m, storedSender(j.Results, j.Principal), e.says.Outside || j.Principal.ID == "")
}

// noteProgressTx tells the conversation of a job in the background that its turn goes on, once in a while.
func noteProgressTx(t *tx, d corebot.Delivery, s corebot.Step) error {
	if c := d.Message.Child; c == nil || !c.Background && d.Run == 1 || s.Kind != corebot.StepModel || s.Answer == nil {
		return nil
	}
	var id int64
	var note int
	var results string
	due, err := t.one(noteOfJob, []any{&id, &note, &results}, t.now, d.Life, corebot.MaxJobNotes,
		t.now.Add(-corebot.JobNoteEvery))
	if err != nil || !due {
		return err
	}
	to, err := corebot.ParseKey(results)
	if err != nil {
		return err
	}
	text := corebot.JobProgress(id, *s.Answer)
	told := corebot.TextNotice(to, corebot.JobNoteID(id, note), "", text, corebot.JobNotice(id))
	return noticeTx(t, &pack([]corebot.Message{told})[0], d.Life)
}

// stopJobTx stops the message of a job: see [Ledger.Stop]. The job ends when the message does.
func stopJobTx(t *tx, j corebot.Job, by corebot.AuditEvent) error {
	h := standing{life: j.Life}
	found, err := t.one(placeOfLife, []any{&h.lane, &h.seq}, j.Life)
	switch {
	case err != nil:
		return err
	case found:
		t.stopped = append(t.stopped, j.Life)
		return stopHeadTx(t, h, by)
	}
	if deferred, err := endDeferredTx(t, j.Life, corebot.EndStopped, "stop"); err != nil || deferred {
		return err
	}
	// its message was lost with a damaged part of the file, and nothing else would ever end it
	return endJobTx(t, j.Life, 0, jobEnd{run: 1, state: corebot.JobStopped, why: waitStopped})
}

// stopJobsTx stops all jobs of a message. Most messages have none.
func stopJobsTx(t *tx, life int64, by corebot.AuditEvent) error {
	var one int64
	if found, err := t.one(anyJob, []any{&one}, life); err != nil || !found {
		return err
	}
	all, err := jobsTx(t, openOfLife, life)
	for _, j := range all {
		err = errors.Join(err, stopJobTx(t, j, by))
	}
	return err
}

// OnStop has fn called after a commit that stops the message of a job. So a turn that runs ends at once. The writer
// calls fn and waits for it.
func (db *DB) OnStop(fn func(life int64)) { db.stops.Store(&fn) }

// Stop stops a job, and with it the jobs that its turn has begun. A job that has ended is [*corebot.NoLongerRuns]. An
// unknown number is [corebot.ErrNotFound].
func (j *Jobs) Stop(ctx context.Context, id int64) error {
	return j.db.write(ctx, "job.stop", func(t *tx) error { return j.stopTx(t, id) })
}

func (j *Jobs) stopTx(t *tx, id int64) error {
	found, err := oneJob(t, jobByID, id)
	switch {
	case err != nil:
		return err
	case found.ID == 0:
		return unknownJob(id)
	case found.State != corebot.JobOpen:
		return &corebot.NoLongerRuns{Was: found}
	}
	if err := noteJobTx(t, j.by, "job.stop", found); err != nil {
		return err
	}
	return stopJobTx(t, found, j.by)
}

func unknownJob(id int64) error { return fmt.Errorf("job %d: %w", id, corebot.ErrNotFound) }

// Command accepts a /stop of a job. One commit has its life, its effect on the job (id 0: none) and the notice. Command
// calls notice with the result: nil, or an error of [Jobs.Stop]. by goes to the audit, also when its outcome is denied.
// A duplicate changes nothing.
func (j *Jobs) Command(ctx context.Context, m corebot.Message, id int64, by corebot.AuditEvent,
	notice func(error) corebot.Message,
) (corebot.Receipt, error) {
	hands := j.As(by)
	return j.db.command(ctx, numbered{
		name: "job.stop", message: m, id: id, by: by, notice: notice,
		stands: func(t *tx) (bool, error) {
			found, err := oneJob(t, jobByID, id)
			return found.State == corebot.JobOpen, err
		},
		does: func(t *tx) error { return hands.stopTx(t, id) },
		tells: func(err error) bool {
			over := (*corebot.NoLongerRuns)(nil)
			return errors.As(err, &over)
		},
	})
}

// Page gives at most limit jobs behind a cursor, and the cursor behind them. Without all it gives the open jobs, oldest
// first. With all it gives every job, newest first. The zero Key is every conversation.
func (j *Jobs) Page(ctx context.Context, of corebot.Key, all bool, after string,
	limit int,
) (out []corebot.Job, next string, err error) {
	list, q, place := "jobs", openJobs, int64(0)
	if all {
		list, q, place = "all-jobs", newestJobs, math.MaxInt64
	}
	if err := behind(after, list, &place); err != nil {
		return nil, "", err
	}
	args := []any{place, limit}
	if of != (corebot.Key{}) {
		if q = openOfChat; all {
			q = jobsOfChat
		}
		args = append([]any{of.String()}, args...)
	}
	out, err = j.list(ctx, q, args...)
	return out, nextPage(out, limit, func(j corebot.Job) string { return cursor(list, j.ID) }), err
}

// Job returns a job in any state. An unknown number is [corebot.ErrNotFound].
func (j *Jobs) Job(ctx context.Context, id int64) (corebot.Job, error) {
	found, err := j.list(ctx, jobByID, id)
	if err == nil && len(found) == 0 {
		err = unknownJob(id)
	}
	if err != nil {
		return corebot.Job{}, err
	}
	return found[0], nil
}

func (j *Jobs) list(ctx context.Context, q *query, args ...any) (out []corebot.Job, err error) {
	err = j.db.reader.each(ctx, q, func(s scanner) error {
		found, err := scanJob(s)
		out = append(out, found)
		return err
	}, args...)
	return out, err
}
