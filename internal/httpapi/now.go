package httpapi

import (
	"cmp"
	"context"
	"mime"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/operate"
)

type (
	// agentNow is what an agent does.
	agentNow struct {
		AgentID string    `json:"agentId"`
		Status  string    `json:"status"` // idle, waiting or running
		Running int       `json:"running"`
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
	lanes, err := s.ListLanes(ctx, operate.LanesQuery{})
	now = agentNow{AgentID: by.Agent, Status: "idle", Chats: []chatNow{}}
	for _, l := range lanes.Rows {
		life := l.Head.Whole()
		if life.Key.Agent != by.Agent || life.Direction != corebot.Inbound {
			continue
		}
		now.Waiting += l.Messages
		if runs := !life.ClaimedAt.IsZero() && life.State == "running"; runs {
			now.Running, now.Waiting = now.Running+1, now.Waiting-1
		}
		if len(now.Chats) < shownLanes {
			now.Chats = append(now.Chats, chatNow{
				life.Key.String(), life.MessageID, l.Head.State, life.PublishedAt.UTC(), l.Messages,
			})
		}
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
		By   string `query:"by" doc:"day, chat or model; left out: day"`
		From string `query:"from" doc:"the first day, such as 2026-12-24"`
		To   string `query:"to" doc:"the last day"`
	}
	// usageSum is what was used under one name.
	usageSum struct {
		Name string `json:"name"` // of the day, the chat or the model
		corebot.Use
	}
	// usageSums are the sums: days with the newest first, and chats and models with the largest cost first.
	usageSums struct {
		By   string     `json:"by"`
		Rows []usageSum `json:"rows"`
		Cut  bool       `json:"cut,omitempty"` // there is more than was added up: ask for fewer days
	}
)

const (
	summedRows = 50_000 // that are added up
	shownSums  = 1000
)

func sumUsage(s *operate.Service, ctx context.Context, q sumQuery) (all usageSums, err error) {
	name := map[string]func(corebot.UseRow) string{
		"day":   func(u corebot.UseRow) string { return u.Day },
		"chat":  func(u corebot.UseRow) string { return u.Chat },
		"model": func(u corebot.UseRow) string { return u.Model },
	}[cmp.Or(q.By, "day")]
	if name == nil {
		return all, malformed("want day, chat or model", "by is %q", corebot.Plainly(q.By))
	}
	all = usageSums{By: cmp.Or(q.By, "day"), Rows: []usageSum{}}
	sums, rows := map[string]corebot.Use{}, 0
	for after := ""; ; {
		found, err := s.ListUsage(ctx, operate.UsageQuery{From: q.From, To: q.To, Part: operate.Part{After: after}})
		if err != nil {
			return all, err
		}
		for _, u := range found.Rows {
			sums[name(u)] = sums[name(u)].Add(u.Use)
		}
		rows += len(found.Rows)
		if after = found.Next; after == "" || rows >= summedRows {
			all.Cut = after != ""
			break
		}
	}
	for name, use := range sums {
		all.Rows = append(all.Rows, usageSum{name, use})
	}
	slices.SortFunc(all.Rows, func(a, b usageSum) int {
		if all.By == "day" {
			return cmp.Compare(b.Name, a.Name)
		}
		return cmp.Or(cmp.Compare(b.Cost, a.Cost), cmp.Compare(b.Tokens(), a.Tokens()), cmp.Compare(a.Name, b.Name))
	})
	if len(all.Rows) > shownSums {
		all.Rows, all.Cut = all.Rows[:shownSums], true
	}
	return all, nil
}

type fileQuery struct {
	byAgent
	Hash       string `path:"hash" doc:"of the file, as a message names it"`
	SessionKey string `query:"sessionKey" doc:"the chat of the API; left out: main"`
	SessionID  string `query:"sessionId" doc:"the key of any chat of the agent, in the place of sessionKey"`
}

// download is a file that is sent as it is.
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

// send sends the bytes. A browser never shows them as a page of this listener.
func (d download) send(w http.ResponseWriter, r *http.Request) {
	defer d.Close() //nolint:errcheck // only read
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	h.Set("X-File-Type", d.ref.MediaType)
	h.Set("Content-Disposition", "attachment")
	name := map[string]string{"filename": cmp.Or(d.ref.Name, "file")}
	if named := mime.FormatMediaType("attachment", name); named != "" {
		h.Set("Content-Disposition", named)
	}
	http.ServeContent(w, r, "", time.Time{}, d.File)
}
