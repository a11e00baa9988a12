package corebot

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// TaskKind says how the due times of a task are written. The values are stored; they never change.
type TaskKind string

const (
	TaskOnce     TaskKind = "once"     // one moment
	TaskInterval TaskKind = "interval" // again and again, after the same time
	TaskDaily    TaskKind = "daily"    // every day at one time of the wall clock
	TaskCron     TaskKind = "cron"     // at the times of a cron expression with five fields
	// TaskHeartbeat is due again and again within hours of the day. The settings make it, and its prompt is a page.
	TaskHeartbeat TaskKind = "heartbeat"
)

// TaskContext says what the turn of a due task knows of its chat. The values are stored; they never change.
type TaskContext string

const (
	TaskInChat   TaskContext = "group"    // the turn is one of the chat: it sees the chat's history and adds to it
	TaskIsolated TaskContext = "isolated" // the turn has a session of its own; only its reply comes into the chat
)

// TaskState is the state of a task. The values are stored; they never change.
type TaskState string

const (
	TaskActive TaskState = "active"
	TaskPaused TaskState = "paused"
	TaskDone   TaskState = "done" // it has no due time any more
)

// TaskStates are all states of a task.
func TaskStates() []TaskState { return []TaskState{TaskActive, TaskPaused, TaskDone} }

// Schedule says when a task is due: its kind, the kind's text, and the zone of the wall clock in which to read it.
type Schedule struct {
	Kind     TaskKind
	Spec     string // "2026-12-24T18:00", "90m", "08:30", "30 8 * * 1-5" or "30m 08:00-22:00"
	TimeZone string // an IANA name; empty: UTC
}

// Task is a prompt that is due at set times. Each due time becomes one inbound message of its chat, which runs as the
// task's creator, with the role that the creator has at that moment.
type Task struct {
	ID       int64
	Name     string
	Key      Key // the conversation in which it runs and answers
	Schedule Schedule
	Prompt   string
	Data     string // words of others that come with the prompt: the model sees them as metadata of the message
	Context  TaskContext
	State    TaskState
	Creator  Principal
	From     Key         // the conversation in which it was made
	Others   []Principal // who had also spoken to the turn that made it: the lowest role of all counts
	Taint    string      // [Caller.Taint] of the turn that made it; empty: none
	Group    bool        // a message of a group made it
	// Overheard says that others than the creator read what it answers: see [Caller.Overheard].
	Overheard bool
	Tools     []string // [Caller.Within] of the turn that made it
	Chain     int      // tasks in a row, each made by a run of the one before; 1: a person made it
	Reason    string   // why it is paused, or has ended; empty: somebody did it
	// Origin tells the event file of which the task was made from every other; empty: none. Of a task that is due once
	// it has more than the name of the file, because a later file of that name is another event.
	Origin string

	CreatedAt time.Time
	Anchor    time.Time // from where its intervals count
	NextRun   time.Time // zero: none
	LastRun   time.Time // the due time of the newest run; zero: it has not run
	LastEnd   string    // how the newest run ended; empty: it waits or runs, or there was none
	Failures  int       // runs in a row that failed
	Version   int64     // counts the changes
	Damaged   error     // the stored task cannot be read whole; only its number and its version count
}

// ReadableBy says whether a chat's answer to a principal may hold the prompt. Nobody in the chat has seen the prompt of
// a task that was made elsewhere, such as by the operator. Only its maker reads it, and only where no others read the
// chat.
func (t Task) ReadableBy(p Principal, others bool) bool {
	return t.From == t.Key || !others && p == t.Creator && p.ID != ""
}

// File is the name of the event file of which the task was made; empty: none.
func (t Task) File() string {
	if at := strings.LastIndexByte(t.Origin, ':'); at >= 0 && t.Schedule.Kind == TaskOnce {
		return t.Origin[:at]
	}
	return t.Origin
}

// MaxTaskChain is how many tasks can follow one another, each made by a run of the one before. So no task goes on for
// ever by making another.
const MaxTaskChain = 4

// Limits of what a task consists of.
const (
	MaxTaskName   = 100      // bytes
	MaxTaskPrompt = 16 << 10 // bytes
	MaxTaskData   = 16 << 10 // bytes
	MaxTaskSpec   = 200      // bytes
	MaxTaskOrigin = 400      // bytes
)

// Validate refuses a task that cannot be stored or shown. Whether its times can ever come is the scheduler's question.
func (t Task) Validate() error {
	switch {
	case strings.TrimSpace(t.Prompt) == "":
		return fmt.Errorf("%w: the prompt is empty", ErrInvalid)
	case len(t.Prompt) > MaxTaskPrompt:
		return fmt.Errorf("%w: the prompt has %d bytes, the limit is %d", ErrTooLarge, len(t.Prompt), MaxTaskPrompt)
	case len(t.Data) > MaxTaskData:
		return fmt.Errorf("%w: the data has %d bytes, the limit is %d", ErrTooLarge, len(t.Data), MaxTaskData)
	case len(t.Schedule.Spec) > MaxTaskSpec:
		return fmt.Errorf("%w: the time has %d bytes, the limit is %d", ErrTooLarge, len(t.Schedule.Spec), MaxTaskSpec)
	case len(t.Name) > MaxTaskName:
		return fmt.Errorf("%w: the name has %d bytes, the limit is %d", ErrTooLarge, len(t.Name), MaxTaskName)
	case len(t.Origin) > MaxTaskOrigin:
		return fmt.Errorf("%w: the name of its file has %d bytes, the limit is %d", ErrTooLarge, len(t.Origin),
			MaxTaskOrigin)
	case !utf8.ValidString(t.Prompt), !utf8.ValidString(t.Data):
		return fmt.Errorf("%w: the prompt is not valid UTF-8", ErrInvalid)
	case t.Key.Channel == AgentChannel || t.Key.Channel == JobChannel:
		return WithHint(fmt.Errorf("%w: in a conversation between agents nobody reads a task's answer", ErrInvalid),
			"make the task in the chat of the person who asks for it")
	case t.Context != TaskInChat && t.Context != TaskIsolated:
		return fmt.Errorf("%w: context %q: want %s or %s", ErrInvalid, t.Context, TaskInChat, TaskIsolated)
	}
	if err := validateName(t.Name); err != nil {
		return fmt.Errorf("%w: name %v", ErrInvalid, err)
	}
	return t.Key.Validate()
}

// TaskRun is one due time of a task and what became of it.
type TaskRun struct {
	Task        int64
	Due         time.Time
	PublishedAt time.Time
	Life        int64     // the message; 0: none was published
	EndedAt     time.Time // zero: it waits or runs
	Outcome     string    // [End] of the message, or "missed"; empty: it waits or runs
	Error       string    // why it failed, for operators
	MessageID   string    // of the same message, while its life is kept
	Tokens      int64
	Cost        Money
}

// RunMissed is the outcome of a due time that passed while Corebot did not run, too long ago to catch up.
const RunMissed = "missed"

// Errand is what the message of a due task carries beside its text. It is stored with the message, so that a replay,
// an edit and a restart keep it. No sender can write one.
type Errand struct {
	Task     int64       `json:"task"`
	Name     string      `json:"name,omitempty"`
	Due      time.Time   `json:"due"`
	From     Key         `json:"from"`
	Chain    int         `json:"chain"`
	Isolated bool        `json:"isolated,omitempty"`
	Taint    string      `json:"taint,omitempty"`
	Others   []Principal `json:"others,omitempty"`
	// Group and Overheard are those of the task.
	Group     bool     `json:"group,omitempty"`
	Overheard bool     `json:"overheard,omitempty"`
	Heartbeat bool     `json:"heartbeat,omitempty"` // the answer [Calm] is not posted
	Tools     []string `json:"tools,omitzero"`      // [Task.Tools]
}

var (
	// ErrTooManyTasks refuses a task beyond a limit.
	ErrTooManyTasks = fmt.Errorf("%w: too many tasks", ErrInvalid)
	// ErrChatHasTooMany is [ErrTooManyTasks] by the limit of the task's chat. Another chat can have room.
	ErrChatHasTooMany = fmt.Errorf("%w", ErrTooManyTasks)
)

// TaskLimits bound the tasks that are not done. A limit of zero means none.
type TaskLimits struct {
	PerChat    int
	PerCreator int
	Total      int
}

// TaskFilter selects tasks. A zero field selects all.
type TaskFilter struct {
	Key     Key // exactly this conversation
	Agent   string
	Creator Principal
	State   TaskState
}

// TaskAction is a change of a task.
type TaskAction string

const (
	TaskPause  TaskAction = "pause"
	TaskResume TaskAction = "resume"
	TaskRemove TaskAction = "remove"
	TaskRunNow TaskAction = "run" // once, now, beside its due times
)

// Firing is a due time as a scheduler has read it from the store.
type Firing struct {
	Task   Task
	Due    time.Time // the due time that is published
	Next   time.Time // the due time after it; zero: the task is done
	Skip   bool      // nothing is to do: it is neither published nor noted
	Missed bool      // the due time is too long ago: it is noted and not published
	Fault  string    // the task can not run: it is paused for this reason
	Tell   Key       // the conversation that is told of the fault; zero: none
}

// Verdict says whether a task may run at a moment.
type Verdict struct {
	Fault string // why it must not run until somebody resumes it; empty: it may run
	Tell  Key    // the conversation that is told of the fault; zero: none
	Skip  string // why there is nothing to do at this due time; empty: there is
	// Prompt is of a heartbeat: what stands in its page. Empty: the prompt of the task.
	Prompt string
	Wait   bool // this process cannot run it, and another one can: it stays due
}

// taskMessages is the kind of the ids of messages of due tasks: see [OwnID].
const taskMessages = "task"

// IsolatedRuns matches, as an SQL GLOB, the ids of messages of isolated tasks, and no other id.
const IsolatedRuns = OwnIDs + taskMessages + "/*/isolated"

// runID is the id of the message of a due time. The id of an isolated task's message says so.
func (t Task) runID(due time.Time) string {
	if t.Context == TaskIsolated {
		return OwnID(taskMessages, t.ID, due.Unix(), "isolated")
	}
	return OwnID(taskMessages, t.ID, due.Unix())
}

// RunOfTask reads the id of the message of a due time.
func RunOfTask(messageID string) (task int64, due time.Time, ok bool) {
	parts, ok := ownParts(taskMessages, messageID)
	if !ok || len(parts) < 2 {
		return 0, due, false
	}
	task, err := strconv.ParseInt(parts[0], 10, 64)
	unix, bad := strconv.ParseInt(parts[1], 10, 64)
	return task, time.Unix(unix, 0).UTC(), err == nil && bad == nil
}

// Message is the message of a due time. Its id is the same however often the due time is looked at, so that it is
// published once.
func (t Task) Message(due time.Time) Message {
	m := Message{
		ID: t.runID(due), Direction: Inbound, Key: t.Key, Kind: KindPrompt, Sender: t.Creator,
		SenderName: "scheduled task", Parts: TextPart(t.Prompt),
		Errand: &Errand{
			Task: t.ID, Name: t.Name, Due: due.UTC(), From: t.From, Chain: t.Chain, Isolated: t.Context == TaskIsolated,
			Taint: t.Taint, Others: slices.Clone(t.Others), Group: t.Group, Overheard: t.Overheard,
			Heartbeat: t.Schedule.Kind == TaskHeartbeat, Tools: slices.Clone(t.Tools),
		},
	}
	if t.Data != "" {
		m.Metadata = Texts(map[string]string{"data": t.Data})
	}
	return m
}

// Calm is the answer of a heartbeat by which nobody needs to be told anything.
const Calm = "HEARTBEAT_OK"

// WithoutCalm is the answer of a heartbeat without [Calm] at its beginning and its end. It is empty if the answer says
// nothing else. Models put the word into emphasis, code and sentences of their own.
func WithoutCalm(answer string) string {
	mark := func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune("*_`\"'.!", r) }
	for {
		rest := strings.TrimSpace(answer)
		if bare := strings.TrimFunc(rest, mark); bare == Calm || bare == "" {
			return ""
		}
		head, first := strings.CutPrefix(strings.TrimLeftFunc(rest, mark), Calm)
		if first && (head == "" || !wordRune(rune(head[0]))) {
			answer = strings.TrimLeftFunc(head, mark)
			continue
		}
		tail, last := strings.CutSuffix(strings.TrimRightFunc(rest, mark), Calm)
		if !last || tail != "" && wordRune(rune(tail[len(tail)-1])) {
			return rest
		}
		answer = strings.TrimRight(tail, "*_` \n\t")
	}
}

func wordRune(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' || r > unicode.MaxASCII
}

// HeartbeatTasks is what the page of heartbeats says beside headings, comments and empty points of a list. It is empty
// if the page asks for nothing.
func HeartbeatTasks(page string) string {
	for {
		before, rest, open := strings.Cut(page, "<!--")
		if !open {
			break
		}
		_, after, _ := strings.Cut(rest, "-->")
		page = before + after
	}
	lines := slices.DeleteFunc(strings.Split(page, "\n"), func(line string) bool {
		return strings.HasPrefix(strings.TrimSpace(line), "#") || strings.Trim(line, " \t\r-*+[]") == ""
	})
	if len(lines) == 0 {
		return ""
	}
	return strings.TrimSpace(page)
}
