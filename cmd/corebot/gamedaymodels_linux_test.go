package main

import (
	"net/http"
	"strings"
	"time"

	"github.com/corebot/corebot/agent/llm/llmtest"
)

// modelDays break the model and what it is asked.
func modelDays() []gameDay {
	return []gameDay{
		{
			name: "provider-down", quick: true, play: providerDown,
			alerts: []string{"CorebotModelFails", "CorebotDeadLetters"},
			repair: []step{
				{"CorebotModelFails", "Mend the key, the address or the account at the provider."},
				{"CorebotModelFails", "`corebot dlq replay --reason attempts`"},
			},
		},
		{
			name: "provider-slow", play: providerSlow,
			alerts: []string{"CorebotUnanswered", "CorebotTurnTooLong"},
			repair: []step{
				{"CorebotTurnTooLong", "`corebot status`"},
				{"CorebotTurnTooLong", "`/stop` in the chat ends the turn."},
				{"CorebotTurnTooLong", "Lower `llm.timeout`"},
				{"CorebotTurnTooLong", "`corebot config reload`"},
			},
		},
		{
			name: "wrong-key", quick: true, play: keyRefused,
			alerts: []string{"CorebotKeyRefused"},
			repair: []step{
				{"CorebotKeyRefused", "`corebot doctor`"},
				{"CorebotKeyRefused", "Put the new key into its file"},
				{"CorebotKeyRefused", "`corebot config reload`"},
				{"CorebotKeyRefused", "`corebot dlq replay --reason permanent`"},
			},
		},
	}
}

func away(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func providerDown(d *day) {
	d.configure(d.llm("") + dayBus)
	d.start()
	d.accepted(1, "hello")
	d.breaks(func() { d.serveModel(http.HandlerFunc(away)) })
	d.accepted(8, "hello")
	d.alert("CorebotModelFails", "CorebotDeadLetters")
	d.mends("Mend the key, the address or the account at the provider.", func() {
		d.answer(llmtest.Always(llmtest.Text("done")))
	})
	if out := d.runs("`corebot dlq replay --reason attempts`"); !strings.Contains(out, "replayed") {
		d.t.Errorf("the replay says %s", out)
	}
	d.noLetters()
}

// noLetters wants every letter answered.
func (d *day) noLetters() {
	d.t.Helper()
	d.until("no dead letters are left", seenWithin, func() bool {
		metrics := d.ask("/metrics")
		return strings.Contains(metrics, "corebot_dead_letters{") && metricSum(metrics, "corebot_dead_letters") == 0
	})
}

func providerSlow(d *day) {
	d.configure(d.llm("") + dayBus)
	d.start()
	d.breaks(func() { d.answer(llmtest.Always(llmtest.Text("").Stall(-1))) })
	d.accepted(3, "hello")
	d.alert("CorebotUnanswered", "CorebotTurnTooLong")
	d.runs("`corebot status`")
	d.mends("`/stop` in the chat ends the turn.", func() { d.say("chat0", "/stop") })
	d.mends("Lower `llm.timeout`", func() {
		d.configure(d.llm(", timeout: 1s, first_byte_timeout: 1s") + dayBus)
	})
	d.runs("`corebot config reload`")
	for i := range 3 { // a request that waits keeps the time with which it began
		d.say([]string{"chat0", "chat1", "chat2"}[i], "/stop")
	}
	d.accepted(1, "hello again")
	time.Sleep(2 * time.Second)
	d.answer(llmtest.Always(llmtest.Text("done")))
}

func keyRefused(d *day) {
	d.serveModel(llmtest.Keyed(dayKey, llmtest.Always(llmtest.Text("done"))))
	d.configure(strings.Replace(d.llm(""), "model: m", "model: "+llmtest.ModelID, 1) + dayBus)
	d.start()
	d.accepted(1, "hello")
	d.breaks(func() { d.write("key", "sk-a-key-that-was-revoked") })
	d.runsBefore("config", "reload")
	d.accepted(3, "hello")
	d.alert("CorebotKeyRefused")
	d.runs("`corebot doctor`")
	d.mends("Put the new key into its file", func() { d.write("key", dayKey) })
	d.runs("`corebot config reload`")
	d.runs("`corebot dlq replay --reason permanent`")
	d.noLetters()
}
