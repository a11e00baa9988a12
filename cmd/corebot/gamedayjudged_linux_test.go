package main

import (
	"bytes"
	"database/sql"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/corebot/corebot/agent/llm/llmtest"
)

// judgedDays fire the alerts of what Corebot itself judges from time to time, and of commits that fail.
func judgedDays() []gameDay {
	return []gameDay{
		{
			name: "objective-missed", clock: true, play: objectiveMissed,
			alerts: []string{"CorebotObjective", "CorebotObjectiveSlowly"},
			repair: []step{
				{"CorebotObjective", "`corebot dlq stats`"},
				{"CorebotObjective", "What the page of that alert says."},
				{"CorebotObjective", "The alarm ends five minutes after the cause."},
				{"CorebotObjectiveSlowly", "The alarm ends half an hour after the cause."},
			},
		},
		{
			name: "bad-disk", traces: true, play: badDisk,
			alerts: []string{"CorebotCommitsFail"},
			repair: []step{
				{"CorebotCommitsFail", "`corebot db backup --to DIR`"},
				{"CorebotCommitsFail", "`systemctl stop corebot`"},
				{"CorebotCommitsFail", "Replace the disk"},
				{"CorebotCommitsFail", "`corebot db restore DIR`"},
				{"CorebotCommitsFail", "`systemctl start corebot`"},
			},
		},
		{
			name: "audit-forged", play: auditForged,
			alerts: []string{"CorebotAuditBroken", "CorebotAuditNotVerified"},
			repair: []step{
				{"CorebotAuditBroken", "`corebot audit verify`"},
				{"CorebotAuditBroken", "`corebot db check`"},
				{"CorebotAuditBroken", "Keep a copy of the home as it is."},
				{"CorebotAuditBroken", "`corebot db restore --dry-run DIR`"},
				{"CorebotAuditBroken", "`systemctl stop corebot`"},
				{"CorebotAuditBroken", "`corebot db restore DIR`"},
				{"CorebotAuditBroken", "`systemctl start corebot`"},
			},
		},
	}
}

// onDatabase runs a statement on the database of the home, as another program can, and gives the number it returns.
func (d *day) onDatabase(statement string) (n int64) {
	d.t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(d.home, "data", "corebot.db")+"?_pragma=busy_timeout(20000)")
	if err != nil {
		d.t.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // each statement is a transaction of its own
	if err := db.QueryRowContext(d.t.Context(), statement).Scan(&n); err != nil {
		d.t.Fatalf("%s: %v", statement, err)
	}
	return n
}

// objectiveMissed lets a model refuse every message. The windows of the alarms are as shipped, five minutes and half an
// hour, so the clock is set ahead where an operator would wait for them.
func objectiveMissed(d *day) {
	d.configure(d.llm("") + "slo: {answered_within: 10s}\n")
	d.start()
	// a new database counts from its first look on, a minute after the start
	d.until("the objectives were looked at", goneWithin, func() bool {
		return d.onDatabase(`SELECT COUNT(*) FROM objective_cursors`) > 0
	})
	d.breaks(func() {
		d.answer(llmtest.Always(llmtest.Fail(400, "this model is retired")))
		d.accepted(10, "hello")
	})
	d.alert("CorebotObjective")
	if out := d.runs("`corebot dlq stats`"); !strings.Contains(out, "10") {
		d.t.Errorf("the dead letters are %s", out)
	}
	d.mends("What the page of that alert says.", func() { d.answer(llmtest.Always(llmtest.Text("done"))) })
	d.mends("The alarm ends five minutes after the cause.", func() { d.clockAhead(7 * time.Minute) })
	d.alert("CorebotObjectiveSlowly")
	d.mends("The alarm ends half an hour after the cause.", func() { d.clockAhead(40 * time.Minute) })
}

// auditForged changes an event of the audit trail in the database, as somebody with its file can.
func auditForged(d *day) {
	d.configure(d.llm("") + "audit: {verify_every: 2s}\n")
	d.start()
	d.runsBefore("admin", "grant", "webhook::ann")
	d.accepted(3, "hello")
	backup := filepath.Join(d.dir, "elsewhere")
	d.runsBefore("db", "backup", "--to", backup)
	by := d.verifiedBy()
	d.until("the trail is verified", goneWithin, func() bool { return d.verifiedBy() > by })
	d.breaks(func() {
		d.onDatabase(`UPDATE audit_events SET tool = tool || '.' WHERE id = 1 RETURNING id`)
	})
	d.alert("CorebotAuditBroken", "CorebotAuditNotVerified")
	if out := d.runs("`corebot audit verify`"); !strings.Contains(out, "event 1") {
		d.t.Errorf("audit verify says %s", out)
	}
	d.runs("`corebot db check`")
	d.mends("Keep a copy of the home as it is.", func() { d.shell("cp -a " + d.home + " " + d.dir + "/evidence") })
	d.runs("`corebot db restore --dry-run DIR`", "DIR", backup)
	d.runs("`systemctl stop corebot`")
	d.runs("`corebot db restore DIR`", "DIR", backup)
	d.runs("`systemctl start corebot`")
	d.ready()
	// a restart alone ends the alerts, too; the trail must hold
	by = d.verifiedBy()
	d.until("the trail is verified again", goneWithin, func() bool { return d.verifiedBy() > by })
}

func (d *day) verifiedBy() float64 {
	return metricSum(d.ask("/metrics"), "corebot_audit_verify_by_timestamp_seconds")
}

// badDisk has the disk of the database report an error for each sync. Other disks are well.
func badDisk(d *day) {
	d.configure(d.llm("") + dayBus)
	d.start()
	d.accepted(3, "hello")
	d.breaks(func() {
		d.super.mu.Lock()
		pid := strconv.Itoa(d.super.cmd.Process.Pid)
		d.super.mu.Unlock()
		db := filepath.Join(d.home, "data", "corebot.db")
		cmd := exec.CommandContext(d.t.Context(), "strace", "-f", "-qq", "-o", "/dev/null", "-p", pid,
			"-P", db, "-P", db+"-wal", "-e", "trace=fsync,fdatasync", "-e", "inject=fsync,fdatasync:error=EIO")
		if err := cmd.Start(); err != nil {
			d.t.Fatal(err)
		}
		d.t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
	})
	d.alertWhile(func() { d.say("chat", "hello") }, "CorebotCommitsFail")
	log, err := os.ReadFile(filepath.Join(d.dir, "log"))
	if err != nil || !bytes.Contains(log, []byte("a commit failed")) {
		d.t.Errorf("the log does not say that a commit failed: %v, %s", err, d.lastLog())
	}
	another := filepath.Join(d.dir, "another-disk")
	d.runs("`corebot db backup --to DIR`", "DIR", another)
	d.runs("`systemctl stop corebot`")
	d.mends("Replace the disk", func() {
		if err := os.Rename(filepath.Join(d.home, "data"), filepath.Join(d.dir, "old-disk")); err != nil {
			d.t.Fatal(err)
		}
	})
	d.runs("`corebot db restore DIR`", "DIR", another)
	d.runs("`systemctl start corebot`")
	d.ready()
}
