package corebot

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// WaitKind says what a tool call waits for. The values are stored; they never change.
type WaitKind string

const (
	WaitTime WaitKind = "time"     // a moment of the wall clock
	WaitSpan WaitKind = "duration" // the end of a length of time
	WaitWord WaitKind = "word"     // a word from outside of the turn
	WaitJob  WaitKind = "job"      // the end of a [Job]
)

// WaitState is how a [Pending] stands. The values are stored; they never change.
type WaitState string

const (
	WaitOpen    WaitState = "open"    // a word can come, and no call waits for it yet
	WaitAwaited WaitState = "waiting" // a call waits
	WaitMet     WaitState = "over"    // it has come
	WaitExpired WaitState = "expired" // no word came in time
	WaitGivenUp WaitState = "ended"   // the wait was given up: see [Pending.Reason]
)

// Pending is what a tool call waits for: a wait, in the words of people. The step of the call stays in the journal, the
// message keeps its place in its lane, and no worker is held. A wait ends once.
type Pending struct {
	ID        int64 // people say it
	Kind      WaitKind
	For       string // what it is good for, in the model's words
	State     WaitState
	Life      int64  // of the message whose turn waits
	MessageID string // of the same message
	Key       Key
	Results   Key       // the conversation of the turn's results
	Principal Principal // who acts
	Rule      string    // by which the call was allowed, as the audit names it
	Secret    KeyHash   // of the key that lets a program give the word; zero: no key does
	Until     time.Time // when the wait is over, or expires
	Word      Word      // that ended it
	Reason    string    // why it was given up, in words
	CreatedAt time.Time
	EndedAt   time.Time // zero: it has not ended
	By        string    // who ended it: a principal's spelling, "operator", or who [ByKey] is; empty: nobody did

	Limits WaitLimits // for the begin of the wait; not stored
	Job    *NewJob    // of [WaitJob]: the job that begins with the wait; not stored here
	Cost   JobBudget  // of [WaitJob]: what the job may use, or has used, of the budget of the turn
}

// Waits says whether a call of the wait, or a later one, can still get what it waits for.
func (w Pending) Waits() bool { return w.State == WaitOpen || w.State == WaitAwaited }

// Word is what comes from outside of a turn that waits.
type Word struct {
	Text    string // may be empty
	Outside bool   // others than the operator and the turn's principal can have written it
}

// Bounds of a wait.
const (
	MaxWord    = 16 << 10 // bytes of a word
	MaxWaitFor = 300      // bytes of [Pending.For]
	MaxWaits   = 16       // waits of one message
)

// ByKey stands for the program that gave a word by its key.
const ByKey = "key"

// WaitLimits bound the waits that have not ended. A limit of zero means none.
type WaitLimits struct {
	PerSender int
	Total     int
}

// Validate refuses a word that cannot be stored or shown.
func (w Word) Validate() error {
	if len(w.Text) > MaxWord {
		return fmt.Errorf("%w: the word has %d bytes, the limit is %d", ErrTooLarge, len(w.Text), MaxWord)
	}
	if !utf8.ValidString(w.Text) {
		return fmt.Errorf("%w: the word is not valid UTF-8", ErrInvalid)
	}
	return nil
}

// Validate refuses a wait that cannot be stored or shown.
func (w Pending) Validate() error {
	if len(w.For) > MaxWaitFor {
		return fmt.Errorf("%w: what the wait is for has %d bytes, the limit is %d", ErrTooLarge, len(w.For), MaxWaitFor)
	}
	if !utf8.ValidString(w.For) {
		return fmt.Errorf("%w: what the wait is for is not valid UTF-8", ErrInvalid)
	}
	return nil
}

// Reasons of a lane whose head waits for what [Pending] says. The message keeps its place and holds no worker.
const (
	AwaitingTime = "a time"
	AwaitingWord = "a word"
	AwaitingJob  = "a job"
)

// Awaiting is the reason of the lane.
func (w Pending) Awaiting() string {
	switch w.Kind {
	case WaitWord:
		return AwaitingWord
	case WaitJob:
		return AwaitingJob
	}
	return AwaitingTime
}

// ErrWrongKey refuses a word whose key is not that of the wait.
var ErrWrongKey = errors.New("the key is not that of the wait")

// ErrNoWord refuses a word for a call that waits for a [Job].
var ErrNoWord = fmt.Errorf("%w: the call waits for a job, and not for a word", ErrInvalid)

// ErrTooManyWaits refuses a wait beyond a limit.
var ErrTooManyWaits = fmt.Errorf("%w: too many waits", ErrInvalid)

// Waiting ends the claim of a turn of which a call waits. It is no failure.
type Waiting struct{ Call Pending }

func (e *Waiting) Error() string {
	w := e.Call
	return fmt.Sprintf("wait %d for %s lasts until %s", w.ID, w.Awaiting(), w.Until.UTC().Format(time.RFC3339))
}

// NoLongerWaits refuses a word for a wait that has ended.
type NoLongerWaits struct{ Was Pending }

func (e *NoLongerWaits) Error() string {
	w := e.Was
	switch {
	case w.State == WaitExpired:
		return fmt.Sprintf("wait %d has expired: no word came in time", w.ID)
	case w.State == WaitGivenUp:
		return fmt.Sprintf("wait %d was given up: %s", w.ID, w.Reason)
	case w.By == "":
		return fmt.Sprintf("wait %d is over already", w.ID)
	}
	return fmt.Sprintf("wait %d is over already, by %s", w.ID, w.By)
}

// ParseWaitID reads the number of a wait as people write it, with or without a "#".
func ParseWaitID(s string) (int64, error) { return writtenNumber("wait", s) }

// JobKind says who works on a [Job]. The values are stored; they never change.
type JobKind string

const (
	JobRun JobKind = "run" // a child turn of the same agent
	JobAsk JobKind = "ask" // another agent, which was asked
)

// JobState is how a [Job] stands. The values are stored; they never change.
type JobState string

const (
	JobOpen    JobState = "open"    // its message has not ended
	JobDone    JobState = "done"    // it has a result
	JobFailed  JobState = "failed"  // its message was refused or became a dead letter
	JobStopped JobState = "stopped" // somebody stopped it, or nobody waits for it any more
)

// Job is work that a turn has given to another turn. The other turn has a message and a lane of its own. The job has
// the number of the call's wait. It ends once, in the commit that ends its message.
type Job struct {
	ID         int64 // people say it
	Kind       JobKind
	Background bool // no call waits: the result comes to the conversation as a message
	State      JobState
	Prompt     string // the beginning of it
	Depth      int    // child turns above it, itself included; 0 of a question to another agent
	Parent     Origin // the message whose turn began it
	Life       int64  // of its own message
	MessageID  string // of the same message
	Key        Key    // the lane of the same message
	Results    Key    // the conversation with whoever began
	Principal  Principal
	Budget     JobBudget // out of its parent's
	Used       JobBudget // once it has ended, with what its own child turns used
	Waits      string    // why its message does not run now; empty: it runs, or has ended
	Reason     string    // why it has no result, in words
	CreatedAt  time.Time
	EndedAt    time.Time // zero: it has not ended
}

// OfJob says which job a message is.
type OfJob struct {
	ID         int64    `json:"id"`
	Kind       JobKind  `json:"kind"`
	Background bool     `json:"background,omitempty"`
	State      JobState `json:"state"`
	Reason     string   `json:"reason,omitempty"`
	Parent     Origin   `json:"parent"` // its id is empty once retention has deleted it
}

// String names the job: "job 7 (a child turn in the background)".
func (o OfJob) String() string {
	what := "a child turn"
	if o.Kind == JobAsk {
		what = "a question to another agent"
	}
	if o.Background {
		what += " in the background"
	}
	return fmt.Sprintf("job %d (%s)", o.ID, what)
}

// Outcome says how the job stands, and why it has no result.
func (o OfJob) Outcome() string {
	if o.Reason == "" || o.State == JobStopped {
		return string(o.State)
	}
	return string(o.State) + ": " + o.Reason
}

// JobBudget is what a turn and its child turns can use. In a [NewJob] zero means the usual share.
type JobBudget struct {
	Tokens int64 `json:"tokens,omitempty"` // of input and output
	Calls  int   `json:"calls,omitempty"`  // of the model, with tools
}

// Less is the budget without what was used.
func (b JobBudget) Less(used JobBudget) JobBudget {
	return JobBudget{Tokens: max(b.Tokens-used.Tokens, 0), Calls: max(b.Calls-used.Calls, 0)}
}

// Plus adds two budgets.
func (b JobBudget) Plus(c JobBudget) JobBudget {
	return JobBudget{Tokens: b.Tokens + c.Tokens, Calls: b.Calls + c.Calls}
}

// NewJob is a job that a call begins.
type NewJob struct {
	Kind       JobKind
	Background bool
	Agent      string   // of [JobAsk]: who is asked
	Tools      []string // of [JobRun]: the child turn has no others
	Prompt     string
	Budget     JobBudget
	Asks       Caller // on whose behalf the turn asks, with its taint
}

// Bounds of jobs.
const (
	MaxJobDepth   = 4        // child turns inside one another
	MaxJobsAtOnce = 8        // open jobs of one turn
	MaxJobs       = 64       // jobs of one message
	MaxJobPrompt  = 64 << 10 // bytes of a prompt
	MaxJobResult  = 48 << 10 // bytes of a result
	maxJobShown   = 300      // bytes of [Job.Prompt]
)

// Errors of a job that cannot begin.
var (
	ErrTooDeep     = fmt.Errorf("%w: child turns are %d deep at most", ErrInvalid, MaxJobDepth)
	ErrTooManyJobs = fmt.Errorf("%w: too many jobs", ErrInvalid)
	ErrOverBudget  = fmt.Errorf("%w: the budget of this turn has not so much left", ErrInvalid)
)

// Validate refuses a job that cannot be stored or shown.
func (j NewJob) Validate() error {
	switch {
	case strings.TrimSpace(j.Prompt) == "":
		return WithHint(fmt.Errorf("%w: the prompt is empty", ErrInvalid), "say in it what is to be done")
	case len(j.Prompt) > MaxJobPrompt:
		return fmt.Errorf("%w: the prompt has %d bytes, the limit is %d", ErrTooLarge, len(j.Prompt), MaxJobPrompt)
	case !utf8.ValidString(j.Prompt):
		return fmt.Errorf("%w: the prompt is not valid UTF-8", ErrInvalid)
	case j.Budget.Tokens < 0 || j.Budget.Calls < 0:
		return fmt.Errorf("%w: a budget of %d tokens and %d calls", ErrInvalid, j.Budget.Tokens, j.Budget.Calls)
	}
	return nil
}

// Shown is the part of the prompt that lists show.
func (j NewJob) Shown() string {
	text := strings.Join(strings.Fields(j.Prompt), " ")
	if len(text) <= maxJobShown {
		return text
	}
	text = text[:maxJobShown]
	for !utf8.ValidString(text) {
		text = text[:len(text)-1]
	}
	return text + "…"
}

// Child is what the message of a child turn carries beside its text. It is stored with the message, so that a replay,
// an edit and a restart keep it. No sender can write one.
type Child struct {
	Job        int64       `json:"job"`
	Background bool        `json:"background,omitempty"`
	Depth      int         `json:"depth"`
	Tools      []string    `json:"tools"`           // the turn has no others
	Whole      bool        `json:"whole,omitempty"` // nobody has chosen among the tools of the turn above
	Budget     JobBudget   `json:"budget"`
	From       Key         `json:"from"`             // the conversation with whoever began
	Hops       int         `json:"hops,omitempty"`   // [Relay.Hops] of the turn above
	Back       []Key       `json:"back,omitempty"`   // [Relay.Back] likewise
	Taint      string      `json:"taint,omitempty"`  // [Caller.Taint] of the turn that asks
	Others     []Principal `json:"others,omitempty"` // [Caller.Others] likewise
	Group      bool        `json:"group,omitempty"`
	Overheard  bool        `json:"overheard,omitempty"`
	Chain      int         `json:"chain,omitempty"`
}

// JobChannel is the channel of the lanes of child turns. No network is behind it, and no sender writes there.
const JobChannel = "job"

// jobKey is the lane of a child turn that acts in a conversation. [Key.Acts] reads it.
func jobKey(acts Key, id int64) Key {
	return Key{
		Agent: acts.Agent, Channel: JobChannel, Account: acts.Channel + ":" + acts.Account, Chat: acts.Chat,
		Thread: strconv.FormatInt(id, 10) + ":" + acts.Thread,
	}
}

// Acts is the conversation in which the turns of a lane act: that of their roles, files and memory. It is the lane's
// own, except for a child turn, which acts in the conversation of its parent.
func (k Key) Acts() Key {
	if k.Channel != JobChannel {
		return k
	}
	channel, account, ok := strings.Cut(k.Account, ":")
	_, thread, numbered := strings.Cut(k.Thread, ":")
	if !ok || !numbered {
		return k
	}
	return Key{Agent: k.Agent, Channel: channel, Account: account, Chat: k.Chat, Thread: thread}
}

// jobMessages is the kind in the ids of the messages of jobs: see [OwnID].
const jobMessages = "job"

// Spawn is the message of a new job with a number, from the step at a position. It speaks for the caller, with his role
// of each moment, and has the taint of the turn.
func (d Delivery) Spawn(id int64, position int, j NewJob) (Message, error) {
	c := j.Asks
	if j.Kind == JobAsk {
		m, err := d.Question(position, c, j.Agent, j.Prompt)
		if err == nil {
			m.Relay.Job, m.Trace = id, d.Message.Trace
		}
		return m, err
	}
	child := Child{
		Job: id, Background: j.Background, Depth: c.Depth + 1, Tools: slices.Clone(j.Tools), Budget: j.Budget,
		From: c.Results(), Taint: c.Taint, Others: slices.Clone(c.Others), Group: c.Group, Overheard: c.Overheard,
		Chain: c.Chain, Whole: !c.Narrow && len(j.Tools) == len(c.Offered),
	}
	if child.Depth > MaxJobDepth {
		return Message{}, WithHint(ErrTooDeep, "do this part yourself")
	}
	if was := d.Message.Relay; was != nil {
		child.Hops, child.Back = was.Hops, slices.Clone(was.Back)
	}
	if was := d.Message.Child; was != nil {
		child.Hops, child.Back = was.Hops, slices.Clone(was.Back)
	}
	m := Message{
		ID: OwnID(jobMessages, id), Direction: Inbound, Key: jobKey(c.Key, id), Kind: KindPrompt, Sender: c.Principal,
		SenderName: "agent " + c.Key.Agent, Parts: TextPart(j.Prompt), Child: &child,
		Trace: d.Message.Trace,
	}
	return m, m.Validate(0)
}

// JobResultID is the id of the message that brings the result of a job without a call that waits.
func JobResultID(job, life int64, run int) string { return OwnID(jobMessages, job, life, run) }

// JobNoteID is the id of a progress note.
func JobNoteID(job int64, note int) string { return OwnID(jobMessages, job, "note", note) }

// Job is the number of the job that the delivery's turn works on; 0: none.
func (d Delivery) Job() int64 {
	switch m := d.Message; {
	case m.Child != nil:
		return m.Child.Job
	case m.Relay != nil:
		return m.Relay.Job
	}
	return 0
}

// Progress notes of a job in the background.
const (
	JobNoteEvery = 30 * time.Second // between two notes
	MaxJobNotes  = 20               // of one job
)

// JobProgress is a progress note: what the turn of a job is about to do.
func JobProgress(id int64, a Answer) string {
	var calls []string
	for _, c := range a.Calls {
		if name := Plainly(c.Tool); !slices.Contains(calls, name) && len(calls) < 5 {
			calls = append(calls, name)
		}
	}
	text := fmt.Sprintf("Job %d works: it calls %s.", id, strings.Join(calls, ", "))
	if said := (NewJob{Prompt: a.Text}).Shown(); said != "" {
		text += " It says: " + said
	}
	return text
}

// JobNotice is what a notice about a job says as data.
func JobNotice(id int64) Notice {
	return Notice{Kind: NoticeJob, Actions: []Action{StopJobAction(id)}}
}

// StopJobAction ends a job.
func StopJobAction(id int64) Action {
	return Action{Name: "stop-job", Label: "Stop the job", Command: "/stop " + strconv.FormatInt(id, 10)}
}

// NoLongerRuns refuses to stop a job that has ended.
type NoLongerRuns struct{ Was Job }

func (e *NoLongerRuns) Error() string {
	return fmt.Sprintf("job %d has ended: it is %s", e.Was.ID, e.Was.State)
}

// ParseJobID reads the number of a job as people write it, with or without a "#".
func ParseJobID(s string) (int64, error) { return writtenNumber("job", s) }
