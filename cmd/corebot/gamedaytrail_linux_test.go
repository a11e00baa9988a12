package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// trailDays break what is kept for later: backups and the audit trail.
func trailDays() []gameDay {
	return []gameDay{
		{
			name: "audit-unpublished", play: auditUnpublished,
			alerts: []string{"CorebotAuditNotPublished", "CorebotErrorsLogged"},
			repair: []step{
				{"CorebotAuditNotPublished", "Mend the file of `audit.file`"},
				{"CorebotErrorsLogged", "What the hint says."},
			},
		},
		{
			name: "audit-unsigned", factor: 3600, play: auditUnsigned,
			alerts: []string{"CorebotAuditNotSigned"},
			repair: []step{
				{"CorebotAuditNotSigned", "`corebot doctor`"},
				{"CorebotAuditNotSigned", "`chmod 600 ~/.corebot/audit.key`"},
			},
		},
		{
			name: "backup-fails", play: backupFails,
			alerts: []string{"CorebotBackupFails"},
			repair: []step{
				{"CorebotBackupFails", "Mostly the directory is full, missing or not writable."},
				{"CorebotBackupFails", "`corebot db backup`"},
			},
		},
		{
			name: "backup-old", factor: 3600, play: backupOld,
			alerts: []string{"CorebotBackupTooOld"},
			repair: []step{
				{"CorebotBackupTooOld", "`corebot config print`"},
				{"CorebotBackupTooOld", "`corebot db backup`"},
			},
		},
	}
}

func (d *day) readHome(name string) string {
	d.t.Helper()
	text, err := os.ReadFile(filepath.Join(d.home, name))
	if err != nil {
		d.t.Fatal(err)
	}
	return string(text)
}

// shell runs a command that Corebot itself has named.
func (d *day) shell(command string) {
	d.t.Helper()
	cmd := exec.CommandContext(d.t.Context(), "sh", "-c", command)
	cmd.Env = d.env()
	if out, err := cmd.CombinedOutput(); err != nil {
		d.t.Fatalf("%s: %v\n%s", command, err, out)
	}
}

func auditUnpublished(d *day) {
	d.configure(d.llm("") + "audit: {publish_every: 500ms}\n")
	d.start()
	d.accepted(1, "hello")
	heads := filepath.Join(d.home, "data", "audit-heads.jsonl")
	d.breaks(func() {
		if err := os.Rename(heads, heads+".moved"); err != nil {
			d.t.Fatal(err)
		}
		if err := os.Mkdir(heads, 0o700); err != nil {
			d.t.Fatal(err)
		}
	})
	d.alert("CorebotAuditNotPublished", "CorebotErrorsLogged")
	d.mends("Mend the file of `audit.file`", func() {
		if err := os.Remove(heads); err != nil {
			d.t.Fatal(err)
		}
		if err := os.Rename(heads+".moved", heads); err != nil {
			d.t.Fatal(err)
		}
	})
	d.mends("What the hint says.", func() {})
}

func auditUnsigned(d *day) {
	d.configure(d.llm("") + "audit: {publish_every: 1s}\n")
	d.start()
	d.accepted(1, "hello")
	d.breaks(func() {
		if err := os.Chmod(filepath.Join(d.home, "audit.key"), 0o644); err != nil { //nolint:gosec // this is the fault
			d.t.Fatal(err)
		}
	})
	d.alert("CorebotAuditNotSigned")
	if out := d.runs("`corebot doctor`"); !strings.Contains(out, "audit.key") {
		d.t.Errorf("doctor says %s", out)
	}
	d.runs("`chmod 600 ~/.corebot/audit.key`")
}

// backupFails puts a file where the directory of backups is to be.
func backupFails(d *day) {
	d.configure(d.llm("") + "backup: {every: 1h, dir: " + d.dir + "/backups}\n")
	d.start()
	d.accepted(1, "hello")
	d.breaks(func() { d.write("backups", "in the way") })
	d.alert("CorebotBackupFails")
	d.mends("Mostly the directory is full, missing or not writable.", func() {
		if err := os.Remove(filepath.Join(d.dir, "backups")); err != nil {
			d.t.Fatal(err)
		}
	})
	d.runs("`corebot db backup`")
}

func backupOld(d *day) {
	d.configure(d.llm("") + "backup: {dir: " + d.dir + "/backups}\n")
	d.start()
	d.accepted(1, "hello")
	d.runsBefore("db", "backup")
	d.breaks(func() { time.Sleep(time.Second) }) // two days are 48 seconds
	d.alert("CorebotBackupTooOld")
	d.runs("`corebot config print`")
	d.runs("`corebot db backup`")
	d.over()
}
