package operate

import (
	"context"
	"time"

	"github.com/corebot/corebot"
)

// Figures reads how a home stands.
type Figures interface {
	Status(ctx context.Context) (Status, error)
}

// ReadStatus reads what waits, runs and died.
var ReadStatus = reads("status", (*Service).Status)

type (
	// Status are the figures of a home, as its database has them.
	Status struct {
		Chats            int64                  `json:"chats"`
		Queue            map[string]QueueStatus `json:"queue"`
		DeadLetters      map[string]int64       `json:"deadLetters"`
		OldestUnanswered time.Time              `json:"oldestUnanswered,omitzero"`
		ApprovalsWaiting int64                  `json:"approvalsWaiting,omitempty"` // calls of tools that wait for an approval
		Parked           map[string]int64       `json:"parked,omitempty"`           // messages that left their lanes for a time, by reason
		SetAside         []SetAside             `json:"setAside,omitempty"`         // chats whose next message cannot be read
		Unread           map[string]string      `json:"unread,omitempty"`           // figures that a damaged page keeps from being read, and why
		UsageToday       UsageToday             `json:"usageToday"`
	}
	// QueueStatus are the figures of one pool.
	QueueStatus struct {
		Messages int64 `json:"messages"`
		Lanes    int64 `json:"lanes"`
		Running  int64 `json:"running"`
		Waiting  int64 `json:"waiting"`
	}
	// SetAside is a lane that waits because the message at its head cannot be read from the database, or a parked message
	// that cannot.
	SetAside struct {
		Lane  int64     `json:"lane,omitempty"`
		Life  int64     `json:"life,omitempty"` // of a parked message
		Chat  string    `json:"chat"`
		Pool  string    `json:"pool,omitempty"`
		Since time.Time `json:"since,omitzero"` // a running Corebot knows it
		Until time.Time `json:"until"`          // when it is tried again
		Error string    `json:"error,omitempty"`
	}
	// UsageToday is what was used since the day began.
	UsageToday struct {
		Day      string `json:"day"`
		Currency string `json:"currency"`
		corebot.Use
	}
)

// Status gives the figures of the home.
func (s *Service) Status(ctx context.Context, _ struct{}) (Status, error) {
	return s.stores.Figures.Status(ctx)
}
