package storage

import (
	"path/filepath"
	"strings"
	"testing"
)

// plan is how SQLite means to run a statement.
func plan(t *testing.T, path string, q *query) string {
	t.Helper()
	lines := sideQuery(t, path, "EXPLAIN QUERY PLAN "+q.sql, make([]any, strings.Count(q.sql, "?"))...)
	var steps []string
	for _, line := range lines {
		steps = append(steps, line[strings.LastIndex(line, "|")+1:])
	}
	return strings.Join(steps, "\n")
}

func TestAClaimIsOneProbeOfTheWakeIndex(t *testing.T) {
	path := planned(t)
	for q, steps := range map[*query][]string{
		readyLanes: {"SEARCH lanes USING INDEX lanes_wake (pool=? AND wake_at<?)"},
		laneHead: {
			"SEARCH q USING INDEX sqlite_autoindex_message_queue_1 (lane_id=? AND seq>?)",
			"SEARCH m USING INTEGER PRIMARY KEY (rowid=?)",
		},
	} {
		got := plan(t, path, q)
		for _, want := range steps {
			if !strings.Contains(got, want) {
				t.Errorf("the plan lacks %q:\n%s", want, got)
			}
		}
	}
	if got := plan(t, path, nextWake); !strings.Contains(got,
		"USING COVERING INDEX lanes_wake (pool=? AND wake_at>?)") {
		t.Errorf("the next wake is found by\n%s", got)
	}
}

// The mailbox of a chat can be long. One look reads what it gives, and no more.
func TestALookIntoTheMailboxReadsWhatItGives(t *testing.T) {
	path := planned(t)
	for want, q := range map[string]*query{
		"USING INDEX mailbox_answers (in_reply_to=? AND chat_id=? AND rowid>?)": answers,
		"USING INDEX mailbox_chat (chat_id=? AND cursor>?)":                     selectMail,
		"USING COVERING INDEX mailbox_chat (chat_id=?)":                         lastMail,
	} {
		if got := plan(t, path, q); !strings.Contains(got, want) || strings.Contains(got, "TEMP B-TREE") {
			t.Errorf("the plan lacks %q:\n%s", want, got)
		}
	}
}

// planned is a database with enough in it that no plan is chosen for emptiness.
func planned(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	wholeDatabase(t, dir)
	return filepath.Join(dir, FileName)
}

func TestNoStatementOfAMessagesWayScansOrSorts(t *testing.T) {
	path := planned(t)
	for name, q := range map[string]*query{
		"readyLanes": readyLanes, "wakeAccount": wakeAccount,
		"headSender": headSender, "holdLane": holdLane, "lineUp": lineUp,
		"longestHeld": longestHeld, "laneHead": laneHead, "setAsideLane": setAsideLane, "deferredBody": deferredBody,
		"nextWake": nextWake, "leaseLane": leaseLane, "logLife": logLife,
		"selectLane": selectLane, "pushLane": pushLane, "readyLane": readyLane,
		"selectLifeByID": selectLifeByID, "selectLifeBeside": selectLifeBeside,
		"extend": extend, "fencedLease": fencedLease, "popLane": popLane, "retryLane": retryLane, "waitLane": waitLane,
		"endLife": endLife, "endLifeWith": endLifeWith, "retryLife": retryLife, "selectLog": selectLog,
		"deleteBody": deleteBody, "selectBody": selectBody,
		"selectSteps": selectSteps, "selectHead": selectHead, "stopLane": stopLane, "endNow": endNow,
		"refuseNow": refuseNow, "standingRules": standingRules, "headOf": headOf,
		"selectDead": selectDead, "dropLife": dropLife, "orderDead": orderDead, "newestDead": newestDead,
		"lifeInChat": lifeInChat, "lifeOfChat": lifeOfChat, "newestWaiting": newestWaiting, "spokeInChat": spokeInChat,
		"newestSaid": newestSaid, "newestGivenUp": newestGivenUp,
		"selectBusy": selectBusy, "selectTail": selectTail, "stillWaits": stillWaits, "selectGroup": selectGroup,
		"selectQuiet": selectQuiet,
		"mergingLane": mergingLane, "quietLane": quietLane, "waitQuietly": waitQuietly, "waitingMerges": waitingMerges,
		"mergesInto": mergesInto,
		"unqueue":    unqueue, "shrinkLane": shrinkLane, "endMerged": endMerged, "keptByChat": keptByChat,
		"setLaneMode": setLaneMode, "undelivered": undelivered, "reviveLife": reviveLife, "moveSteps": moveSteps,
		"listDead": listDead, "openReplay": openReplay,
		"selectChat": selectChat, "newSession": newSession, "recentHistory": recentHistory,
		"anotherInSession": anotherInSession, "historyPage": historyPage, "selectSummary": selectSummary,
		"recalled": recalled, "chosen": chosen,
		"selectAdmission":  selectAdmission,
		"livesByMessageID": livesByMessageID, "lifeByRow": lifeByRow, "livesByCause": livesByCause,
		"selectStore":   selectStore,
		"chargesOfChat": chargesOfChat, "chargedTo": chargedTo, "chargedIn": chargedIn, "recordedOf": recordedOf,
		"bookLife": bookLife, "hasStep": hasStep, "useOfChat": useOfChat, "useOfPrincipal": useOfPrincipal,
		"chatNumber": chatNumber, "indexed": indexed, "unindexed": unindexed, "takePlace": takePlace,
		"countDeferred": countDeferred, "dueDeferred": dueDeferred, "nextDue": nextDue, "deferredSize": deferredSize,
		"oldestDeferred": oldestDeferred,
		"waitByID":       waitByID, "waitOfStep": waitOfStep, "waitsOfLife": waitsOfLife, "anyWait": anyWait,
		"anyAwaited": anyAwaited, "waitsInChat": waitsInChat, "countWaitsOf": countWaitsOf,
		"jobByID": jobByID, "jobOfLife": jobOfLife, "openOfLife": openOfLife, "anyJob": anyJob,
		"noteOfJob":   noteOfJob,
		"countJobsOf": countJobsOf, "countJobsOfRun": countJobsOfRun, "reopenJob": reopenJob,
		"causeOfWork": causeOfWork, "countJobsBy": countJobsBy,
		"usedByLife": usedByLife, "draftWaits": draftWaits,
		"usedByJobs": usedByJobs, "placeOfLife": placeOfLife, "openOfChat": openOfChat, "jobsOfChat": jobsOfChat,
		"countWaitsOfRun": countWaitsOfRun, "headWaitsForWhat": headWaitsForWhat, "wakeWaiting": wakeWaiting,
	} {
		got := plan(t, path, q)
		if got == "" {
			t.Errorf("%s has no plan", name)
		}
		for line := range strings.Lines(got) {
			switch line = strings.TrimSpace(line); {
			case line == "SCAN m USING INDEX message_life_dead":
				continue // a partial index: nothing is in it but dead letters, and the limit ends the walk
			case name == "livesByMessageID" && line == "USE TEMP B-TREE FOR ORDER BY":
				continue // of the few chats that used one message id
			}
			if strings.HasPrefix(line, "SCAN") || strings.Contains(line, "TEMP B-TREE") {
				t.Errorf("%s: %s", name, got)
			}
		}
	}
}

// A turn, and a /retry, look at the dead letters of their chat, however many others there are.
func TestWhatAChatAsksOfItsDeadLettersIsAskedOfItsLane(t *testing.T) {
	path := planned(t)
	for name, q := range map[string]*query{
		"undelivered": undelivered, "newestDead": newestDead,
		"deadOfChat": deadOfChat, "countDeadOfChat": countDeadOfChat, "oldestDeadOfChat": oldestDeadOfChat,
		"newestGivenUp": newestGivenUp,
	} {
		if got := plan(t, path, q); !strings.Contains(got,
			"SEARCH m USING INDEX message_life_dead_of_lane (lane_id=?") {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestAScanIsNoticed(t *testing.T) {
	if got := plan(t, planned(t),
		&query{`SELECT * FROM message_life WHERE reason = ? ORDER BY last_error`}); !strings.Contains(got, "SCAN") ||
		!strings.Contains(got, "TEMP B-TREE") {
		t.Errorf("the test of plans is blind: %s", got)
	}
}

// A sweep finds its rows along primary keys; the writer searches for nothing.
func TestNoStatementOfASweepLooksAtMoreThanItsRange(t *testing.T) {
	path := planned(t)
	for name, q := range map[string]*query{
		"life page": lifeTable.page, "mailbox page": mailboxTable.page, "lane page": lanePage, "chat page": chatPage,
		"over page": overPage, "drop chat": dropChat,
		"newest lane": newestLane, "newest chat": newestChat, "newest of chat": newestOfChat,
		"drop last summary": dropLastSummary,
		"drop lives":        lifeTable.drop, "drop steps": dropSteps, "count swept": countSwept,
		"drop lanes":    dropLanes,
		"drop audit":    cutAudit,
		"next to index": nextToIndex, "advance index": advanceIndex, "drop mail": mailboxTable.drop,
		"drop history": dropHistory, "drop summary": dropSummary, "nth in session": nthInSession,
		"nth of all": nthOfAll, "oldest": oldestOfChat, "entries": entriesPage,
	} {
		for line := range strings.Lines(plan(t, path, q)) {
			if line = strings.TrimSpace(line); strings.HasPrefix(line, "SCAN") && line != "SCAN gone" ||
				strings.Contains(line, "TEMP B-TREE") && name != "count swept" {
				t.Errorf("%s: %s", name, line)
			}
		}
	}
}
