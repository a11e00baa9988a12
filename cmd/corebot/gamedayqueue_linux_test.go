package main

import (
	"fmt"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"github.com/corebot/corebot/agent/llm/llmtest"
)

// queueDays bring more, or worse, than the queue is made for.
func queueDays() []gameDay {
	return []gameDay{
		{
			name: "poison-message", quick: true, play: poisonMessage,
			alerts: []string{"CorebotPoison"},
			repair: []step{
				{"CorebotPoison", "`corebot dlq list --reason poison`"},
				{"CorebotPoison", "`corebot dlq show ID`"},
				{"CorebotPoison", "`corebot dlq drop ID`"},
			},
		},
		{
			name: "dead-letter-flood", play: deadLetterFlood,
			alerts: []string{"CorebotDeadLetters"},
			repair: []step{
				{"CorebotDeadLetters", "`corebot dlq stats --by cause`"},
				{"CorebotDeadLetters", "Mend the cause first."},
				{"CorebotDeadLetters", "`corebot dlq replay --reason REASON --dry-run`"},
				{"CorebotDeadLetters", "`corebot dlq replay --reason REASON --rate 1`"},
			},
		},
		{
			name: "webhook-flood", play: webhookFlood,
			alerts: []string{"CorebotFull", "CorebotStrangers"},
			repair: []step{
				{"CorebotFull", "`corebot chats list`"},
				{"CorebotFull", "`corebot chats set KEY --access deny`"},
				{"CorebotStrangers", "`corebot audit --since 1h`"},
				{"CorebotStrangers", "a network limit in front of the listener."},
			},
		},
		{
			name: "task-storm", play: taskStorm,
			alerts: []string{"CorebotTasksNotOnTime"},
			repair: []step{
				{"CorebotTasksNotOnTime", "`corebot tasks list`"},
				{"CorebotTasksNotOnTime", "`corebot tasks pause ID`"},
			},
		},
	}
}

func (d *day) runsBefore(args ...string) string {
	d.t.Helper()
	out, err := d.tries(args...)
	if err != nil {
		d.t.Fatalf("corebot %v: %v\n%s", args, err, out)
	}
	return out
}

func (d *day) tries(args ...string) (string, error) {
	cmd := exec.CommandContext(d.t.Context(), d.binary, args...)
	cmd.Env = d.env()
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// poisonMessage is a message at which Corebot dies each time.
func poisonMessage(d *day) {
	d.configure(d.llm("") + dayBus)
	d.answer(func(r llmtest.Request) llmtest.Answer {
		if strings.Contains(lastUser(r), "poison") {
			d.super.kill()
		}
		return llmtest.Text("done")
	})
	d.start()
	d.accepted(2, "hello")
	d.breaks(func() { d.say("bad", "poison") })
	d.alert("CorebotPoison")
	list := d.runs("`corebot dlq list --reason poison`")
	id := regexp.MustCompile(`(?m)^(\d+) `).FindStringSubmatch(list)
	if id == nil {
		d.t.Fatalf("the list is %s", list)
	}
	if out := d.runs("`corebot dlq show ID`", "ID", id[1]); !strings.Contains(out, "poison") {
		d.t.Errorf("the letter is %s", out)
	}
	d.runs("`corebot dlq drop ID`", "ID", id[1])
	d.noLetters()
}

func deadLetterFlood(d *day) {
	d.configure(d.llm("") + dayBus)
	d.start()
	d.accepted(1, "hello")
	d.breaks(func() { d.answer(llmtest.Always(llmtest.Fail(http.StatusBadRequest, "no such model"))) })
	d.accepted(12, "hello")
	d.alert("CorebotDeadLetters")
	if out := d.runs("`corebot dlq stats --by cause`"); !strings.Contains(out, "12") {
		d.t.Errorf("the causes are %s", out)
	}
	d.mends("Mend the cause first.", func() { d.answer(llmtest.Always(llmtest.Text("done"))) })
	d.runs("`corebot dlq replay --reason REASON --dry-run`", "REASON", "permanent")
	d.runs("`corebot dlq replay --reason REASON --rate 1`", "REASON", "permanent")
	d.noLetters()
}

// webhookFlood is one chat with more than the queue takes. The chat is shut, and its sender goes on for a while.
func webhookFlood(d *day) {
	d.configure(d.llm("") + "bus: {lane_depth: 20}\n")
	d.answer(llmtest.Always(llmtest.Text("done").After(100 * time.Millisecond)))
	d.start()
	d.accepted(1, "hello")
	flood := func() {
		for range 20 {
			d.say("flooded", "hello")
		}
	}
	d.breaks(flood)
	d.alertWhile(flood, "CorebotFull")
	list := d.runs("`corebot chats list`")
	key := regexp.MustCompile(`main:webhook::flooded`).FindString(list)
	if key == "" {
		d.t.Fatalf("the chats are %s", list)
	}
	d.runs("`corebot chats set KEY --access deny`", "KEY", key)
	if status := d.say("flooded", "hello"); status != http.StatusForbidden {
		d.t.Errorf("a message to the chat that was shut: %d", status)
	}
	d.alertWhile(flood, "CorebotStrangers")
	d.runs("`corebot audit --since 1h`")
	d.mends("a network limit in front of the listener.", func() {})
}

// taskStorm is many tasks of one chat at once, more than its queue takes.
func taskStorm(d *day) {
	d.configure(d.llm("") + "bus: {lane_depth: 3}\n")
	d.start()
	d.accepted(1, "hello")
	d.breaks(func() {
		d.answer(llmtest.Always(llmtest.Text("done").After(5 * time.Second)))
		for n := range 12 {
			d.runsBefore("tasks", "add", "--chat", "main:webhook::chat0", "--name", fmt.Sprint("storm", n),
				"--every", "1m", "work")
		}
	})
	list := d.runsBefore("tasks", "list")
	ids := regexp.MustCompile(`(?m)^(\d+) `).FindAllStringSubmatch(list, -1)
	if len(ids) != 12 {
		d.t.Fatalf("the tasks are %s", list)
	}
	d.alert("CorebotTasksNotOnTime")
	d.runs("`corebot tasks list`")
	for _, id := range ids {
		d.runs("`corebot tasks pause ID`", "ID", id[1])
	}
	d.answer(llmtest.Always(llmtest.Text("done")))
}
