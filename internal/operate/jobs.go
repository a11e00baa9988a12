package operate

import (
	"context"
	"time"

	"github.com/corebot/corebot"
)

// Jobs keeps the work that turns have given to other turns.
type Jobs interface {
	// Page gives jobs behind a cursor, and the cursor behind them: the open ones, oldest first, or with all set every
	// job, newest first. The zero Key is every conversation.
	Page(ctx context.Context, of corebot.Key, all bool, after string, limit int) (found []corebot.Job, next string,
		err error)
	Job(ctx context.Context, id int64) (corebot.Job, error)
	Stop(ctx context.Context, id int64) error
}

// The operations on jobs.
var (
	ListJobs = reads("jobs.list", (*Service).ListJobs)
	ShowJob  = reads("jobs.show", (*Service).ShowJob)
	StopJobs = changes("jobs.stop", (*Service).StopJobs)
)

type (
	// JobQuery asks for a part of the open jobs, or with All of every job.
	JobQuery struct {
		All  bool        `json:"all,omitempty"`
		Chat corebot.Key `json:"chat,omitzero"` // that gets the results; zero: any
		Part
	}
	// JobRow is what --json prints of a job.
	JobRow struct {
		ID         int64             `json:"id"`
		Kind       corebot.JobKind   `json:"kind"`
		Agent      string            `json:"agent"`
		Background bool              `json:"background"`
		State      corebot.JobState  `json:"state"`
		ChatID     string            `json:"chatId"` // the key of the conversation that gets the result
		Prompt     string            `json:"prompt"` // the beginning of it
		Depth      int               `json:"depth"`
		Parent     string            `json:"parent"`    // the id of the message whose turn began it
		MessageID  string            `json:"messageId"` // of its own message
		Principal  string            `json:"principal"`
		Waits      string            `json:"waits,omitempty"` // why it does not run now
		Budget     corebot.JobBudget `json:"budget"`
		Used       corebot.JobBudget `json:"used"` // once it has ended
		Reason     string            `json:"reason,omitempty"`
		CreatedAt  time.Time         `json:"createdAt"`
		EndedAt    time.Time         `json:"endedAt,omitzero"`
	}
	// JobID names one job.
	JobID struct {
		ID int64 `json:"id"`
	}
	// JobIDs names jobs.
	JobIDs struct {
		IDs []int64 `json:"ids"`
	}
)

func rowOf(j corebot.Job) JobRow {
	return JobRow{
		ID: j.ID, Kind: j.Kind, Agent: j.Key.Agent, Background: j.Background, State: j.State,
		ChatID: j.Results.String(), Prompt: j.Prompt, Depth: j.Depth, Parent: j.Parent.MessageID,
		MessageID: j.MessageID, Principal: j.Principal.String(), Waits: j.Waits, Budget: j.Budget, Used: j.Used,
		Reason: j.Reason, CreatedAt: j.CreatedAt, EndedAt: j.EndedAt,
	}
}

// ListJobs lists the open jobs, oldest first, or every job, newest first.
func (s *Service) ListJobs(ctx context.Context, q JobQuery) (Page[JobRow], error) {
	found, next, err := s.stores.Jobs.Page(ctx, q.Chat, q.All, q.After, q.size())
	return pageOf(found, next, rowOf), err
}

// ShowJob shows a job in any state.
func (s *Service) ShowJob(ctx context.Context, j JobID) (JobRow, error) {
	found, err := s.stores.Jobs.Job(ctx, j.ID)
	if err != nil {
		return JobRow{}, err
	}
	return rowOf(found), nil
}

// StopJobs stops jobs, and with each the jobs that its turn has begun.
func (s *Service) StopJobs(ctx context.Context, j JobIDs) (Done, error) {
	return each(j.IDs, func(id int64) error { return s.stores.Jobs.Stop(ctx, id) })
}
