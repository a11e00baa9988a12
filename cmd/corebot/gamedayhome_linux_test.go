package main

import (
	"database/sql"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// homeDays break the home, the process and its clock.
func homeDays() []gameDay {
	return []gameDay{
		{
			name: "crash-loop", play: crashLoop,
			alerts: []string{"CorebotStartsAgainAndAgain"},
			repair: []step{
				{"CorebotStartsAgainAndAgain", "`corebot doctor`"},
				{"CorebotStartsAgainAndAgain", "`corebot dlq list --reason poison`"},
			},
		},
		{
			name: "home-permissions", play: homePermissions,
			alerts: []string{"CorebotDown"},
			repair: []step{{"CorebotDown", "`corebot doctor`"}, {"CorebotDown", "Run the mend that it names"}},
		},
		{
			name: "bad-settings", quick: true, play: badSettings,
			alerts: []string{"CorebotReloadFailed"},
			repair: []step{
				{"CorebotReloadFailed", "`corebot config check`"},
				{"CorebotReloadFailed", "Correct the file"},
				{"CorebotReloadFailed", "`corebot config reload`"},
			},
		},
		{
			name: "clock-jump", clock: true, play: clockJump,
			alerts: []string{"CorebotClockStepped"},
			repair: []step{
				{"CorebotClockStepped", "`corebot status`"},
				{"CorebotClockStepped", "Set the clock right"},
			},
		},
	}
}

// lockFor holds a database for writing.
func lockFor(t *testing.T, path string, length time.Duration) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(20000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // nothing was written
	db.SetMaxOpenConns(1)
	if _, err := db.Exec("BEGIN IMMEDIATE"); err != nil {
		return
	}
	time.Sleep(length)
	_, _ = db.Exec("ROLLBACK")
}

// crashLoop kills Corebot soon after each of its starts, as a system does that has too little memory.
func crashLoop(d *day) {
	d.configure(d.llm(""))
	d.start()
	d.accepted(3, "hello")
	d.breaks(func() {})
	killed := time.Now()
	d.alertWhile(func() {
		if time.Since(killed) > 3*time.Second && strings.HasPrefix(d.ask("/ready"), "ready") {
			d.super.kill()
			killed = time.Now()
		}
	}, "CorebotStartsAgainAndAgain")
	d.runs("`corebot doctor`")
	if out := d.runs("`corebot dlq list --reason poison`"); !strings.Contains(out, "no dead letters") {
		d.t.Errorf("the letters are %s", out)
	}
	d.ready()
}

func homePermissions(d *day) {
	d.configure(d.llm(""))
	d.start()
	d.accepted(1, "hello")
	d.breaks(func() {
		for _, dir := range []string{d.home, d.dir, filepath.Dir(d.dir)} { // those above keep others out
			if err := os.Chmod(dir, 0o777); err != nil { //nolint:gosec // this is the fault
				d.t.Fatal(err)
			}
		}
		d.super.kill()
	})
	d.alert("CorebotDown")
	for range 5 { // each look names one directory
		out := d.runs("`corebot doctor`")
		mend := regexp.MustCompile(`chmod [a-z0-7=+,-]+ [^\s"'` + "`" + `]+`).FindString(out)
		if mend == "" {
			break
		}
		d.mends("Run the mend that it names", func() { d.shell(mend) })
	}
	d.ready()
}

func badSettings(d *day) {
	d.configure(d.llm(""))
	d.start()
	d.breaks(func() {
		d.configure(d.llm("") + "log: {level: loud}\n")
		if out, err := d.tries("config", "reload"); err == nil {
			d.t.Errorf("bad settings are taken: %s", out)
		}
	})
	d.alert("CorebotReloadFailed")
	if out := d.runs("`corebot config check`"); !strings.Contains(out, "log.level") {
		d.t.Errorf("the check says %s", out)
	}
	d.mends("Correct the file", func() { d.configure(d.llm("")) })
	d.runs("`corebot config reload`")
}

// clockJump sets the clock ten days ahead, and right again.
func clockJump(d *day) {
	d.configure(d.llm("") + dayBus)
	d.start()
	d.accepted(2, "hello")
	d.breaks(func() { d.clockAhead(240 * time.Hour) })
	n := 0
	d.alertWhile(func() {
		if n++; n%20 == 0 {
			d.say("chat", "hello")
		}
	}, "CorebotClockStepped")
	d.runs("`corebot status`")
	d.mends("Set the clock right", func() { d.clockAhead(0) })
	d.accepted(2, "hello")
}
