package main

import (
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
)

func TestWhyNamesJobsAndRunsOfTasks(t *testing.T) {
	at := time.Unix(1_790_000_000, 0)
	of := func(state corebot.JobState, reason string) *corebot.OfJob {
		return &corebot.OfJob{
			ID: 7, Kind: corebot.JobRun, State: state, Reason: reason,
			Parent: corebot.Origin{Life: 1, MessageID: "m1"},
		}
	}
	for name, c := range map[string]struct {
		life corebot.Life
		want []string
		not  string
	}{
		"a job": {
			corebot.Life{
				MessageID: "corebot:job/7", Job: of(corebot.JobFailed, "no model"),
				Cause: &corebot.Origin{MessageID: "m1"},
			},
			[]string{"job 7 (a child turn) of message m1: failed: no model"},
			"caused by",
		},
		"its parent": {
			corebot.Life{MessageID: "m1", Replies: []corebot.Life{{
				MessageID: "corebot:job/7", Kind: corebot.KindPrompt, Job: of(corebot.JobOpen, ""), PublishedAt: at,
				State: "running",
			}}},
			[]string{"job 7 (a child turn) begun: message corebot:job/7, now running"},
			"enqueued",
		},
		"its parent later": {
			corebot.Life{MessageID: "m1", Replies: []corebot.Life{{
				MessageID: "corebot:job/7", Kind: corebot.KindPrompt, Job: of(corebot.JobDone, ""), PublishedAt: at,
				EndedAt: at, End: corebot.EndAnswered,
			}}},
			[]string{"job 7 (a child turn) begun: message corebot:job/7\n", "job 7 ended: done"},
			"now",
		},
		"a run": {
			corebot.Life{MessageID: "corebot:task/3/1790000000"},
			[]string{"the run of task 3 that was due 2026-"},
			"job",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			if err := tell(&b, c.life); err != nil {
				t.Fatal(err)
			}
			for _, part := range c.want {
				if !strings.Contains(b.String(), part) {
					t.Errorf("it tells\n%s, and lacks %q", &b, part)
				}
			}
			if strings.Contains(b.String(), c.not) {
				t.Errorf("it tells\n%s", &b)
			}
		})
	}
}
