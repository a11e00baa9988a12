package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/internal/addresses"
	"github.com/corebot/corebot/internal/fault"
	"github.com/corebot/corebot/internal/live"
	"github.com/corebot/corebot/internal/outside"
)

// maxCalls is how many tool calls of one answer run; the rest are refused to the model.
const maxCalls = 64

// turn is the state of one turn.
type turn struct {
	*Agent
	tools    Toolset // in the place of the agent's
	delivery corebot.Delivery
	who      corebot.Caller
	deadline time.Time

	system        llm.Message
	past          past            // the session before this turn
	beginsSession bool            // the session before this turn is over
	shown         [][]llm.Message // what is shown of the past
	messages      []llm.Message   // of this turn, growing: see [view]
	offered       []llm.Tool
	said          []corebot.HistoryEntry // what the turn adds to the history

	*meter
	room      int              // tokens of the context that are left for the prompt
	settled   bool             // what is shown of the past is decided
	halved    bool             // the provider has said that the prompt is too long
	asksFor   string           // the model that the session asks for; empty: the configured one
	thinks    corebot.Thinking // as the session asks for it; empty: as configured
	skills    corebot.SkillChoices
	spent     []corebot.ModelUsage // by calls that no step counts
	own       corebot.JobBudget    // what the turn has used itself
	given     corebot.JobBudget    // what its jobs take out of its budget
	position  int                  // of the next step in the journal
	calls     answerCalls          // of the answer whose calls run
	addresses addresses.Turn       // to which the turn may go after it has read text from outside
	repeats   repeats

	streamed  strings.Builder  // what the model has said so far in the call that runs
	heldBack  []corebot.Merged // merged, and not yet shown to the model
	mergedIDs []string         // the ids of the merged messages
	detached  int64            // the request without whose calls the answer comes
	learned   bool             // facts were looked for in what the next summary takes in
	notice    string           // what Corebot tells the chat beside the answer
	shortened bool             // the tools have not their whole prose in the prompt
	attached  []corebot.Part   // files for the reply
	cramped   int64            // the session whose chat is to be told that the context is small; 0: it is not
}

// prepare gathers what the prompt is made of.
func (t *turn) prepare(ctx context.Context) (err error) {
	if t.offered, err = t.tools.Offer(ctx, t.who); err != nil {
		return fmt.Errorf("offer tools: %w", err)
	}
	t.taintBySender()
	t.taintByTools()
	undelivered, err := t.recall(ctx)
	if err != nil {
		return err
	}
	if len(t.past.turns) == 0 { // after /new a person expects what the pages say now
		t.notes.Renew()
	}
	if t.system, err = t.systemPrompt(ctx); err != nil {
		return err
	}
	t.filePast(ctx)
	open, err := t.openRoots(ctx)
	if err != nil {
		return err
	}
	t.taintByPast()
	m := t.delivery.Message
	if m.Parts, err = t.transcribe(ctx, m.Parts); err != nil {
		return err
	}
	t.messages = []llm.Message{
		{Role: llm.User, Text: t.situation(ctx, undelivered, open)},
		{
			Role: llm.User, About: about(m.Sender, m.SenderName, m.Metadata), Text: outside.Text(m.Text()),
			Parts: t.filed(ctx, m.Parts),
		},
	}
	t.say(corebot.HistoryEntry{
		Speaker: corebot.SpeakerUser, Sender: m.Sender, Name: m.SenderName, Parts: m.Parts, Metadata: m.Metadata.Kept(),
		Outside: m.Envelope.Forwarded || m.Relay != nil && (m.Relay.Taint != "" || len(m.Relay.Others) > 0) ||
			m.Errand != nil && (m.Errand.Taint != "" || len(m.Errand.Others) > 0),
	})
	return nil
}

// say adds an entry to the history that the turn will leave.
func (t *turn) say(e corebot.HistoryEntry) {
	e.MessageID, e.At = t.delivery.Message.ID, time.Now()
	e.Outside = e.Outside || e.Speaker == corebot.SpeakerAssistant && t.who.Taint != ""
	t.said = append(t.said, e)
}

// leaves is the history that the turn leaves in the chat. Of an isolated task it is the prompt and the answer.
func (t *turn) leaves() []corebot.HistoryEntry {
	// a stopped one: its prompt is of another principal than the chat's, and would taint the chat
	if t.alone() || t.delivery.Message.Child != nil {
		return nil
	}
	if e := t.delivery.Message.Errand; e == nil || !e.Isolated {
		return t.said
	}
	return slices.DeleteFunc(t.said, func(e corebot.HistoryEntry) bool {
		return e.Speaker == corebot.SpeakerTool || len(e.Calls) > 0
	})
}

// converse goes back and forth between the model and the tools until there is a final answer.
func (t *turn) converse(ctx context.Context) (corebot.Answer, error) {
	for round := range t.opts.MaxIterations {
		if t.exhausted() {
			break
		}
		if x := t.delivery.Message.Detached; x != nil && round == 0 {
			if err := t.runDetached(ctx, x); err != nil {
				return corebot.Answer{}, err
			}
			continue
		}
		if err := t.mergeSteers(ctx, round > 0 || t.delivery.Merges); err != nil {
			return corebot.Answer{}, err
		}
		answer, err := t.ask(ctx)
		if err != nil || len(answer.Calls) == 0 {
			return answer, err
		}
		if err := t.runCalls(ctx, answer); err != nil {
			return answer, err
		}
		if t.repeats.stuck() || time.Now().After(t.deadline) {
			break
		}
	}
	return t.lastWord(ctx)
}

// lastWord gives the model one call without tools to say what it has. It is never journaled; steps that are left in the
// journal, of an attempt that had a higher limit, are no answer to it.
func (t *turn) lastWord(ctx context.Context) (corebot.Answer, error) {
	if err := t.replaySteers(ctx); err != nil {
		return corebot.Answer{}, err
	}
	t.messages = append(t.messages, llm.Message{Role: llm.User, Text: lastWordText})
	answer, err := t.complete(ctx, nil) // of its answer only the text counts
	if err == nil {
		t.spend(answer)
	}
	return answer, err
}

const lastWordText = "[corebot] No more tool calls are possible in this turn. Answer now with what you have, and say " +
	"what is missing."

// ask takes the next model answer, from the journal if it is there. One that asks for tools is journaled before they
// run; the final one rides in the turn's commit.
func (t *turn) ask(ctx context.Context) (corebot.Answer, error) {
	t.skipSummaries()
	if s, ok := t.nextRecorded(corebot.StepModel); ok {
		t.addAnswer(*s.Answer)
		return *s.Answer, nil
	}
	started := time.Now()
	answer, err := t.complete(ctx, t.offered)
	if err != nil {
		return corebot.Answer{}, err
	}
	if len(answer.Calls) == 0 {
		t.spend(answer)
		return answer, nil
	}
	answer.Taint = t.who.Taint
	step := corebot.Step{
		Position: t.position, Kind: corebot.StepModel, State: corebot.StepDone, Answer: &answer,
		StartedAt: started, EndedAt: time.Now(),
	}
	if err := t.journal.Record(ctx, t.delivery, step); err != nil {
		return corebot.Answer{}, fmt.Errorf("journal the model's answer: %w", err)
	}
	t.position++
	t.addAnswer(answer)
	return answer, nil
}

// complete asks the model, with as much of the context as it has room for. A provider that says that it was too much
// all the same is asked once more, with half of it.
func (t *turn) complete(ctx context.Context, offered []llm.Tool) (corebot.Answer, error) {
	if ctx.Err() != nil {
		return corebot.Answer{}, context.Cause(ctx)
	}
	offered = t.sized(offered)
	if err := t.makeRoom(ctx, offered); err != nil {
		return corebot.Answer{}, err
	}
	r := t.request(offered)
	answer, err := t.call(ctx, r)
	if !errors.Is(err, llm.ErrContextTooLong) {
		return answer, err
	}
	shorter, err := t.halve(ctx, r, err)
	if err != nil {
		return answer, err
	}
	if answer, err = t.call(ctx, shorter); errors.Is(err, llm.ErrContextTooLong) {
		err = tooLong(err)
	}
	return answer, err
}

// call makes one call of the model, streaming its text to whoever watches. All that watch have it from here, so here
// secrets are taken out of it.
func (t *turn) call(ctx context.Context, r llm.Request) (corebot.Answer, error) {
	event := live.Event{Key: t.delivery.Message.Key, MessageID: t.who.MessageID}
	publish := func(kind live.EventKind, text string) {
		event.Kind, event.Text = kind, text
		t.publish(event)
	}
	t.streamed.Reset()
	shown := t.opts.Redactor.Stream()
	show := func(text string) {
		if text != "" {
			publish(live.Text, text)
		}
	}
	r.OnReset = func() {
		t.streamed.Reset()
		shown.Reset()
		publish(live.TextReset, "")
	}
	fault.Point("model", "before")
	answer, err := t.asks(ctx, r, func(text string) {
		t.streamed.WriteString(text)
		show(shown.Add(text))
	})
	if stopped := errors.Is(context.Cause(ctx), corebot.ErrStopped); !stopped && (err != nil || len(answer.Calls) > 0) {
		publish(live.TextReset, "")
	} else {
		show(shown.End()) // of a stopped answer, what was streamed is what there is
	}
	if err != nil {
		t.spend(answer)
		if cause := context.Cause(ctx); cause != nil {
			return answer, cause
		}
		return answer, err // which says by itself what was asked of whom
	}
	t.streamed.Reset()
	fault.Point("model", "after")
	return answer, nil
}

// spend notes what a call used that no step of the journal will count. Of a call that was cut off it is an estimate,
// or what the provider told.
func (t *turn) spend(a corebot.Answer) {
	t.spent = append(t.spent, a.Failed...)
	if a.Usage != (corebot.Usage{}) {
		t.spent = append(t.spent, corebot.ModelUsage{Model: cmp.Or(a.Model, t.modelName()), Usage: a.Usage})
	}
}

// addAnswer adds an answer that asks for tools to the context and the history.
func (t *turn) addAnswer(a corebot.Answer) {
	if a.Taint != "" {
		t.taint(a.Taint)
	}
	t.used(a, 1)
	t.messages = append(t.messages, llm.Message{
		Role: llm.Assistant, Text: outside.Text(a.Text), Calls: a.Calls,
		Opaque: a.Opaque,
	})
	t.say(corebot.HistoryEntry{Speaker: corebot.SpeakerAssistant, Parts: corebot.TextPart(a.Text), Calls: a.Calls})
}

// runCalls runs the calls of one answer in order. Each gets exactly one result. The model decided on all of them before
// it read any of their results. So each call is judged by the taint of the answer, as the journal has it.
func (t *turn) runCalls(ctx context.Context, answer corebot.Answer) error {
	return t.runAll(ctx, answer.Calls, answerCalls{first: t.position, taint: answer.Taint})
}

func (t *turn) runAll(ctx context.Context, calls []corebot.ToolCall, of answerCalls) error {
	t.calls = of
	var waits error // of the first call that waits for a job: those behind it begin theirs, too
	for i, call := range calls {
		if waits != nil && !beginsJob(call) {
			return waits
		}
		interjected, err := t.interjected(ctx)
		if err != nil {
			return err
		}
		if interjected {
			t.skip(calls[i:])
			return nil
		}
		result, err := t.runCall(ctx, call, i, calls[i+1:min(len(calls), max(maxCalls, i+1))])
		if job := (*corebot.Waiting)(nil); errors.As(err, &job) && job.Call.Kind == corebot.WaitJob {
			t.given, waits = t.given.Plus(job.Call.Cost), cmp.Or(waits, err)
			continue
		}
		if err != nil {
			return err
		}
		t.calls.denied = cmp.Or(t.calls.denied, result.Denies)
		t.answered(call, result)
		t.repeats.note(call, result)
	}
	return waits
}

func (t *turn) answered(call corebot.ToolCall, result corebot.ToolResult) {
	t.messages = append(t.messages, llm.Message{Role: llm.ToolRole, Text: result.Content, CallID: call.ID})
	t.say(corebot.HistoryEntry{
		Speaker: corebot.SpeakerTool, Parts: corebot.TextPart(result.Content), CallID: call.ID,
		Outside: result.Outside,
	})
	if result.Outside {
		t.taint("a result of " + call.Tool)
	}
	if result.Later != 0 {
		t.detached = result.Later
	}
	if result.Job != nil {
		t.given = t.given.Plus(*result.Job)
	}
	if p := result.Attach; p != nil && t.attaches() > 0 && !slices.Contains(t.attached, *p) {
		t.attached = append(t.attached, *p)
	}
	t.addresses.Offer(strings.Fields(result.Links))
	if result.Follows {
		t.addresses.Follow()
	}
	t.notice = cmp.Or(t.notice, result.Notice) // the first is enough: a model could make many
}

// answerCalls is what the calls of one answer have in common.
type answerCalls struct {
	first  int               // the position of the first of them
	taint  string            // what had tainted the turn when the model made the answer
	asked  bool              // this walk has asked for approvals, or found them asked for
	denied string            // the rule by which one was denied, and with it the rest
	begin  corebot.StepState // of a call without a step
}

func (t *turn) runCall(ctx context.Context, call corebot.ToolCall, i int,
	behind []corebot.ToolCall,
) (corebot.ToolResult, error) {
	if i >= maxCalls {
		return notRun("an answer may have %d tool calls", maxCalls), nil
	}
	handle := &step{turn: t, position: t.position, call: call, behind: behind}
	switch s, ok := t.nextRecorded(corebot.StepTool); {
	case ok && s.State == corebot.StepDone:
		return *s.Result, nil
	case ctx.Err() != nil:
		return corebot.ToolResult{}, context.Cause(ctx)
	case ok:
		handle.state, handle.startedAt = s.State, s.StartedAt
	case time.Now().After(t.deadline):
		return notRun("the time of this turn is up"), nil
	default:
		handle.state = t.calls.begin
		t.position++
	}
	event := live.Event{
		Kind: live.ToolStarted, Key: t.delivery.Message.Key, MessageID: t.who.MessageID, Tool: call.Tool,
		Text: string(call.Args), Position: handle.position,
	}
	t.publish(event)
	result, err := t.tools.Call(ctx, t.caller(), call, handle)
	event.Kind, event.Text = live.ToolEnded, string(result.Outcome)
	if waits(err) || result.Later != 0 {
		event.Text = live.Waiting
	} else if result.Outcome == corebot.OutcomeDenied {
		event.Note = strings.TrimPrefix(result.Content, "denied: ")
		if result.Opens != "" {
			event.Note += ". To open it: " + result.Opens
		}
	}
	t.publish(event)
	if err != nil {
		return result, fmt.Errorf("run %s: %w", call.Tool, err)
	}
	return result, nil
}

// waits says whether an error only means that the call waits, for an approval or for something else.
func waits(err error) bool {
	approval, other := (*corebot.AwaitsApproval)(nil), (*corebot.Waiting)(nil)
	return errors.As(err, &approval) || errors.As(err, &other)
}

// notRun is the result of a call that is not made. It takes no place in the journal.
func notRun(why string, args ...any) corebot.ToolResult {
	return corebot.ToolResult{Outcome: corebot.OutcomeError, Content: "not run: " + fmt.Sprintf(why, args...)}
}

// settleOpenCalls gives every call that a /stop left open a result, so that the history pairs them all. The results of
// an answer stand right behind it, in the order of its calls; ids tell nothing, since some models use one again in
// every answer.
func (t *turn) settleOpenCalls() {
	last := len(t.said) - 1
	for last > 0 && len(t.said[last].Calls) == 0 {
		last--
	}
	answered := len(t.said) - 1 - last
	for _, c := range t.said[last].Calls[min(answered, len(t.said[last].Calls)):] {
		t.say(corebot.HistoryEntry{
			Speaker: corebot.SpeakerTool,
			Parts:   corebot.TextPart("stopped by the user; it may or may not have taken effect"), CallID: c.ID,
		})
	}
}
