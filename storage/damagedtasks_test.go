package storage

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
)

// TestADamagedPageOfTasksHoldsUpNoOtherTask: the task whose row cannot be read is told apart from the others.
func TestADamagedPageOfTasksHoldsUpNoOtherTask(t *testing.T) {
	dir, due := seeded(t), time.Now().Add(-time.Minute)
	earlier(t, dir, func(db *DB) {
		for _, word := range []string{"first", "damaged", "third"} { // each on a page of its own
			_, err := NewTasks(db).Create(t.Context(), corebot.Task{
				Key: testKey("chat"), Schedule: corebot.Schedule{Kind: corebot.TaskDaily, Spec: "08:30"},
				Prompt: strings.Repeat(word+" ", 3000/len(word)), Context: corebot.TaskInChat, NextRun: due,
			}, corebot.TaskLimits{})
			must(t, err)
		}
	})
	path := filepath.Join(dir, FileName)
	file, err := os.ReadFile(path)
	must(t, err)
	row := bytes.LastIndex(file, []byte("damaged damaged")) / pageBytes * pageBytes
	copy(file[row:row+pageBytes], bytes.Repeat([]byte{0xff}, pageBytes))
	must(t, os.WriteFile(path, file, 0o600))

	db := openTest(t, dir)
	tasks := NewTasks(db)
	found, err := tasks.Due(t.Context(), time.Now(), corebot.Task{}, 10)
	must(t, err)
	damaged := 0
	for _, task := range found {
		if task.Damaged != nil {
			damaged++
		}
	}
	if len(found) != 3 || damaged != 1 || found[1].Damaged == nil {
		t.Errorf("of %d due tasks %d are damaged: %+v", len(found), damaged, found)
	}
	lists(t, tasks)
}

// lists wants three tasks of a chat, of which the second cannot be read, in pages of each size.
func lists(t *testing.T, tasks *Tasks) {
	t.Helper()
	for limit := 1; limit <= 4; limit++ {
		for _, f := range []corebot.TaskFilter{
			{}, {Key: testKey("chat")}, {Agent: testKey("chat").Agent}, {State: corebot.TaskActive},
		} {
			var got []bool
			for after, more := "", true; more; {
				page, next, err := tasks.List(t.Context(), f, after, limit)
				must(t, err)
				for _, task := range page {
					if got = append(got, task.Damaged != nil); task.Key != testKey("chat") {
						t.Errorf("task %d is of %v", task.ID, task.Key)
					}
				}
				after, more = next, next != ""
			}
			if !slices.Equal(got, []bool{false, true, false}) {
				t.Errorf("%+v by %d: which are damaged: %v", f, limit, got)
			}
		}
	}
	for _, f := range []corebot.TaskFilter{{Key: testKey("other")}, {Agent: "other"}} {
		if page, _, err := tasks.List(t.Context(), f, "", 10); err != nil || len(page) != 0 {
			t.Errorf("%+v: %+v, %v", f, page, err)
		}
	}
	page, _, err := tasks.List(t.Context(), corebot.TaskFilter{State: corebot.TaskPaused}, "", 10)
	if err != nil || len(page) != 1 || page[0].Damaged == nil { // nobody knows its state
		t.Errorf("paused tasks: %+v, %v", page, err)
	}
}
