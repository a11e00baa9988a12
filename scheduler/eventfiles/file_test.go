package eventfiles

import (
	"testing"
	"time"

	"github.com/corebot/corebot"
)

// FuzzAnEventFileIsATaskOrRefused reads any bytes as an event file. A task that is made can be stored and is due.
func FuzzAnEventFileIsATaskOrRefused(f *testing.F) {
	for _, seed := range []string{
		`{"type":"immediate","chat":"c","text":"a","data":"b","name":"n","context":"isolated"}`,
		`{"type":"one-shot","chat":"c","text":"a","at":"2999-01-01T00:00","timezone":"Europe/Berlin"}`,
		`{"type":"periodic","chat":"c","text":"a","schedule":"30 2 29 2 *"}`,
		`{"type":"periodic","chat":"c","text":"a","schedule":"@every 1h"}`, `{`, ``, `[]`, `{"type":1}`,
		"\xef\xbb\xbf{}",
	} {
		f.Add([]byte(seed))
	}
	now := time.Date(2026, 3, 29, 1, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, raw []byte) {
		e, err := parse(raw)
		if err != nil {
			return
		}
		task, err := e.task("stem", now.Add(-time.Hour), now, "UTC")
		if err != nil {
			return
		}
		if task.NextRun.IsZero() || task.NextRun.Before(now.Add(-time.Hour)) {
			t.Errorf("it is due at %s", task.NextRun)
		}
		task.Key = corebot.Key{Agent: "main", Channel: "webhook", Chat: "c"}
		if err := task.Validate(); err == nil {
			if m := task.Message(task.NextRun); m.Text() != task.Prompt || (e.data != "") != (m.Errand.Taint != "") {
				t.Errorf("its message is %+v", m)
			}
		}
	})
}
