package httpapi

import (
	"cmp"
	"context"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/listen"
	"github.com/corebot/corebot/internal/operate"
)

type (
	// agentNow is what an agent does.
	agentNow struct {
		AgentID string    `json:"agentId"`
		Status  string    `json:"status"` // idle, waiting or running
		Running int64     `json:"running"`
		Waiting int64     `json:"waiting"` // messages that wait, also behind a turn that runs
		Chats   []chatNow `json:"chats"`   // those that have messages, at most 100
	}
	// chatNow is a conversation with messages that wait or run.
	chatNow struct {
		SessionID string    `json:"sessionId"`
		MessageID string    `json:"messageId"` // of the message at its front
		State     string    `json:"state"`     // in words
		Since     time.Time `json:"since"`
		Messages  int64     `json:"messages"`
	}
)

// shownLanes bounds the conversations of the status of an agent.
const shownLanes = 100

func agentStatus(s *operate.Service, ctx context.Context, by byAgent) (now agentNow, err error) {
	if _, err := s.ShowAgent(ctx, operate.ByAgent(by)); err != nil {
		return now, err
	}
	lanes, err := s.ListLanes(ctx, operate.LanesQuery{Agent: by.Agent, Brief: true, Limit: shownLanes})
	now = agentNow{
		AgentID: by.Agent, Status: "idle", Chats: []chatNow{}, Running: lanes.Running,
		Waiting: lanes.Messages - lanes.Running,
	}
	for _, l := range lanes.Rows {
		now.Chats = append(now.Chats, chatNow{
			l.Head.Key.String(), l.Head.MessageID, l.Head.State, l.Head.PublishedAt.UTC(), l.Messages,
		})
	}
	switch {
	case now.Running > 0:
		now.Status = "running"
	case now.Waiting > 0:
		now.Status = "waiting"
	}
	return now, err
}

type (
	sumQuery struct {
		By   string `query:"by" set:"sums" doc:"day, chat or model; left out: day"`
		From string `query:"from" doc:"the first day, such as 2026-12-24"`
		To   string `query:"to" doc:"the last day"`
	}
)

func sumUsage(s *operate.Service, ctx context.Context, q sumQuery) (operate.UsageSums, error) {
	by := cmp.Or(q.By, "day")
	if !slices.Contains([]string{"day", "chat", "model"}, by) {
		return operate.UsageSums{}, malformed("want day, chat or model", "by is %q", corebot.Plainly(by))
	}
	return s.SumUsage(ctx, operate.UsageSumQuery{By: by, From: q.From, To: q.To})
}

type fileQuery struct {
	byAgent
	Hash       string `path:"hash" doc:"of the file, as a message names it"`
	SessionKey string `query:"sessionKey" doc:"the chat of the API; left out: main"`
	SessionID  string `query:"sessionId" doc:"the key of any chat of the agent, in the place of sessionKey"`
}

// download is a file of a chat.
type download struct {
	*os.File
	ref corebot.AttachedFile
}

// readFile opens a file of a chat that the token may read.
func readFile(c *call, ctx context.Context, q fileQuery) (d download, err error) {
	k, err := c.session(q.Agent, q.SessionKey, q.SessionID)
	if err == nil {
		d.File, d.ref, err = c.server.opts.Files.Open(ctx, k, q.Hash)
	}
	return d, err
}

func (d download) send(w http.ResponseWriter, r *http.Request) {
	defer d.Close() //nolint:errcheck // only read
	listen.Download{Content: d.File, Name: d.ref.Name, Type: d.ref.MediaType, Hash: d.ref.Hash}.Send(
		listen.Patient{ResponseWriter: w}, r)
}
