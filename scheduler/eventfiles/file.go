package eventfiles

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/strictjson"
	"github.com/corebot/corebot/scheduler"
)

// The types of event files.
const (
	immediate = "immediate"
	oneShot   = "one-shot"
	periodic  = "periodic"
)

// MaxFile is how many bytes an event file can have.
const MaxFile = 64 << 10

// levels is how deep arrays and objects can stand inside one another: an event file is one object of texts.
const levels = 1

// event is what stands in a file.
type event struct {
	typ, chat, text, data, at, schedule, zone, name, context string
}

// errFile refuses what a file says.
var errFile = fmt.Errorf("%w event file", corebot.ErrInvalid)

// parse reads a file. The error is [errFile] or one of [strictjson.Error], and says what to write instead.
func parse(raw []byte) (e event, err error) {
	if err := strictjson.Check(raw, levels, strictjson.Rules{}); err != nil {
		return e, fmt.Errorf("%w: it must be one JSON object of texts: %w", errFile, err)
	}
	fields := map[string]*string{
		"type": &e.typ, "chat": &e.chat, "text": &e.text, "data": &e.data, "at": &e.at, "schedule": &e.schedule,
		"timezone": &e.zone, "name": &e.name, "context": &e.context,
	}
	given := map[string]json.RawMessage{}
	if err := json.Unmarshal(raw, &given); err != nil {
		return e, fmt.Errorf("%w: it must be one JSON object of texts", errFile)
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		field := fields[name]
		if field == nil {
			return e, corebot.WithHint(fmt.Errorf("%w: there is no field %q", errFile, name),
				"the fields are "+strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
		}
		if err := json.Unmarshal(given[name], field); err != nil || bytes.Equal(given[name], []byte("null")) {
			return e, fmt.Errorf("%w: %s must be a text", errFile, name)
		}
	}
	return e, e.check()
}

// check refuses fields that contradict the type.
func (e event) check() error {
	for _, c := range []struct {
		wrong      bool
		what, hint string
	}{
		{e.typ == "", "it has no type", "write immediate, one-shot or periodic"},
		{
			e.typ != immediate && e.typ != oneShot && e.typ != periodic, fmt.Sprintf("there is no type %q", e.typ),
			"write immediate, one-shot or periodic",
		},
		{e.chat == "", "it has no chat", "`corebot chats list` shows the keys"},
		{strings.TrimSpace(e.text) == "", "it has no text", "say in text what the agent is to do"},
		{e.typ == oneShot && e.at == "", "a one-shot event has no at", "write a time such as 2026-12-24T18:00"},
		{e.typ != oneShot && e.at != "", "only a one-shot event has at", "write one-shot, or leave at out"},
		{
			e.typ == periodic && e.schedule == "", "a periodic event has no schedule",
			"write a cron expression of five fields, such as 0 9 * * 1-5",
		},
		{
			e.typ != periodic && e.schedule != "", "only a periodic event has a schedule",
			"write periodic, or leave schedule out",
		},
	} {
		if c.wrong {
			return corebot.WithHint(fmt.Errorf("%w: %s", errFile, c.what), c.hint)
		}
	}
	return nil
}

// task makes the task of an event. A one-shot event can have become due since its file was written, while Corebot did
// not run. The times of a periodic event count from now on.
func (e event) task(stem string, written, now time.Time, zone string) (t corebot.Task, err error) {
	t = corebot.Task{
		Name: cmp.Or(e.name, stem), Prompt: e.text, Data: e.data, Context: cmp.Or(corebot.TaskContext(e.context),
			corebot.TaskInChat), Chain: 1, Anchor: now,
		Schedule: corebot.Schedule{Kind: corebot.TaskOnce, Spec: e.at, TimeZone: cmp.Or(e.zone, zone)},
	}
	if e.data != "" {
		t.Taint = "the data of an event"
	}
	if e.name == "" && (len(t.Name) > corebot.MaxTaskName || !printable(t.Name)) {
		t.Name = ""
	}
	switch e.typ {
	case immediate:
		t.NextRun = now.Truncate(time.Second)
		t.Anchor = t.NextRun.Add(-time.Second)
		t.Schedule.Spec = t.NextRun.UTC().Format(time.RFC3339)
	case oneShot:
		if written.Before(now) {
			t.Anchor = written
		}
	case periodic:
		t.Schedule.Kind, t.Schedule.Spec = corebot.TaskCron, e.schedule
	}
	rule, err := scheduler.Parse(t.Schedule, t.Anchor)
	if err != nil {
		return t, err
	}
	if e.typ != immediate {
		t.NextRun, _ = rule.Next(t.Anchor)
	}
	return t, nil
}

// printable says whether a text can be the name of a task.
func printable(s string) bool {
	return corebot.Task{Name: s, Prompt: "x", Context: corebot.TaskInChat, Key: corebot.Key{
		Agent: corebot.DefaultAgent, Channel: "x", Chat: "x",
	}}.Validate() == nil
}

// halfWritten says whether the error of a file can go away by itself, because the rest of it is still to be written.
func halfWritten(err error) bool {
	var e *strictjson.Error
	return errors.As(err, &e) && e.What == strictjson.Cut
}
