package console

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/lazy"
	"github.com/corebot/corebot/internal/linediff"
	"github.com/corebot/corebot/internal/listen"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/internal/sorted"
)

// entry is one thing that was said, called or told in a chat, as a page shows it.
type entry struct {
	ID     string        `json:"id"` // of its element: the same for the same entry, so that none is shown twice
	Kind   string        `json:"kind"`
	Who    string        `json:"who"`
	Label  string        `json:"label,omitempty"` // tells people of one name apart
	Mine   bool          `json:"mine,omitempty"`
	At     time.Time     `json:"at"`
	Text   string        `json:"text"`
	HTML   template.HTML `json:"-"`
	More   string        `json:"more,omitempty"` // the address of the whole text, if Text is cut
	Calls  []shownCall   `json:"calls,omitempty"`
	CallID string        `json:"callId,omitempty"`
	Files  []shownFile   `json:"files,omitempty"`
	Open   string        `json:"open,omitempty"` // the address of another chat, which a notice names
	// Outside: others than the operator can have written it.
	Outside   bool        `json:"outside,omitempty"`
	MessageID string      `json:"messageId,omitempty"`
	Turn      *turnFigure `json:"turn,omitempty"` // of the last entry of a turn, in the full view
}

// chatAddress is how a notice names a chat of the console: see router.
var chatAddress = lazy.Regexp(`/chats/[A-Za-z0-9%:._~-]+`)

// shownFile is a file beside a text.
type shownFile struct {
	Name string `json:"name"`
	Path string `json:"path,omitempty"` // where its bytes are; empty: they are not kept
}

// shownCall is a tool call of an answer.
type shownCall struct {
	ID   string          `json:"id"`
	Tool string          `json:"tool"`
	Args json.RawMessage `json:"args"`
	Diff string          `json:"diff,omitempty"` // of an edit of a file
}

// turnFigure is what a turn took.
type turnFigure struct {
	Model  string        `json:"model,omitempty"`
	Tokens int64         `json:"tokens"`
	Cost   corebot.Money `json:"cost,omitempty"`
	Took   string        `json:"took,omitempty"`
}

// waitingMessage is a message that waits or runs, with the calls that wait for an approval.
type waitingMessage struct {
	operate.Life
	Shown     string                `json:"text"`
	Mine      bool                  `json:"mine"`
	Approvals []operate.ApprovalRow `json:"approvals,omitempty"`
	Chat      string                `json:"-"`
}

type chatData struct {
	Key     string           `json:"key"`
	Chat    operate.Chat     `json:"chat"`
	Full    bool             `json:"full"`
	Entries []entry          `json:"entries"` // oldest first
	Older   string           `json:"older,omitempty"`
	Waiting []waitingMessage `json:"waiting"`
	Mark    string           `json:"mark"` // where the stream of the chat goes on
	Newest  bool             `json:"-"`
	Writes  bool             `json:"writes"` // it is a chat of the console
	NewID   string           `json:"-"`
	Draft   string           `json:"-"`
	EditOf  string           `json:"-"`
}

// chat shows what was said, what waits, and where to write.
func (c *Console) chat(v *visit) error {
	k, err := v.key()
	if err != nil {
		return err
	}
	s, d := v.service(), chatData{Key: k.String(), Writes: k.Channel == corebot.ConsoleChannel}
	d.Full = v.r.FormValue("view") == "full"
	found, missing := s.ShowChat(v.ctx(), operate.ChatQuery{Key: k})
	if missing != nil && !errors.Is(missing, corebot.ErrNotFound) {
		return missing
	}
	d.Chat = found.Chat
	mark, err := c.mark(v.ctx(), s, k) // before what is shown is read: nothing falls between the two
	if err != nil {
		return err
	}
	d.Mark = mark.String()
	before := v.r.FormValue("before")
	d.Newest = before == ""
	waiting, err := c.waiting(v.ctx(), s, k) // before the log, which has what ends in between
	if err != nil {
		return err
	}
	if missing != nil && !d.Writes && len(waiting) == 0 { // a chat is there with the end of its first turn
		dead, err := s.ListDeadLetters(v.ctx(), operate.DeadLetterQuery{
			Filter: corebot.DeadLetterFilter{Key: k}, Part: operate.Part{Limit: 1},
		})
		if err != nil || len(dead.Rows) == 0 { // a dead letter leads to the chat of a turn that never ended
			return cmp.Or(err, missing)
		}
	}
	said, err := s.ReadHistory(v.ctx(), operate.HistoryQuery{
		Key: k, Whole: true, Part: operate.Part{After: before, Limit: pageRows},
	})
	if err != nil {
		return err
	}
	slices.Reverse(said.Rows)
	d.Waiting = slices.DeleteFunc(waiting, func(w waitingMessage) bool {
		return len(w.Approvals) == 0 && slices.ContainsFunc(said.Rows, func(e corebot.Said) bool {
			return e.MessageID == w.Life.MessageID && e.Speaker == corebot.SpeakerUser
		})
	})
	var notices []corebot.Posted
	if d.Newest {
		if notices, err = c.opts.Notices.Notices(v.ctx(), k, pageRows); err != nil {
			return err
		}
		slices.Reverse(notices)
	}
	if said.Next != "" {
		d.Older = chatPath(k) + "?" + url.Values{"before": {said.Next}, "view": {view(d.Full)}}.Encode()
		oldest := said.Rows[0].At
		notices = slices.DeleteFunc(notices, func(p corebot.Posted) bool { return p.CreatedAt.Before(oldest) })
	}
	if d.Entries, err = c.entries(v.ctx(), s, k, d.Full, said.Rows, notices); err != nil {
		return err
	}
	d.NewID, d.EditOf = "console-"+rand.Text(), v.r.FormValue("edit")
	d.Draft = cmp.Or(v.r.FormValue("draft"), draftOf(d.EditOf, waiting, said.Rows))
	title := cmp.Or(corebot.Plainly(d.Chat.DisplayName), chatName(d.Key))
	return v.show(page{Name: "chat", Title: title, Data: d})
}

// draftOf is the whole text of a message that is changed, or asked again.
func draftOf(id string, waiting []waitingMessage, said []corebot.Said) string {
	if id == "" {
		return ""
	}
	for _, w := range waiting {
		if w.Life.MessageID == id && w.Life.Message != nil {
			return w.Life.Message.Text()
		}
	}
	for _, e := range said {
		if e.MessageID == id && e.Speaker == corebot.SpeakerUser {
			return e.Text()
		}
	}
	return ""
}

func view(full bool) string {
	if full {
		return "full"
	}
	return "simple"
}

func chatPath(k corebot.Key) string { return "/chats/" + url.PathEscape(k.String()) }

// place is where a stream of a chat stands: behind which entry, and behind which notice.
type place struct{ number, cursor int64 }

func (p place) String() string { return fmt.Sprintf("%d-%d", p.number, p.cursor) }

func parsePlace(text string) (p place, ok bool) {
	number, cursor, ok := strings.Cut(text, "-")
	if !ok {
		return p, false
	}
	var err [2]error
	p.number, err[0] = strconv.ParseInt(number, 10, 64)
	p.cursor, err[1] = strconv.ParseInt(cursor, 10, 64)
	return p, err[0] == nil && err[1] == nil && p.number >= 0 && p.cursor >= 0
}

// mark is the place behind all that is committed now.
func (c *Console) mark(ctx context.Context, s *operate.Service, k corebot.Key) (p place, err error) {
	newest, err := s.ReadNewEntries(ctx, k, math.MaxInt64)
	if err != nil {
		return p, err
	}
	p.number = newest.Number
	p.cursor, err = c.opts.Notices.Last(ctx, k)
	return p, err
}

// entries makes what is shown of entries and notices, in the order of their times. The simple view has no calls.
func (c *Console) entries(ctx context.Context, s *operate.Service, k corebot.Key, full bool, said []corebot.Said,
	notices []corebot.Posted,
) (all []entry, err error) {
	figures := map[string]*turnFigure{}
	for i, e := range said {
		shown := c.entryOf(k, e, full)
		if last := i == len(said)-1 || said[i+1].MessageID != e.MessageID; full && last && e.MessageID != "" {
			if shown.Turn, err = turnOf(ctx, s, k, e.MessageID, figures); err != nil {
				return nil, err
			}
		}
		if full || shown.Kind != "tool" && (shown.Text != "" || len(shown.Files) > 0) {
			all = append(all, shown)
		}
	}
	for _, p := range notices {
		if p.Kind != corebot.KindNotice {
			continue
		}
		all = append(all, entry{
			ID: fmt.Sprintf("n-%d", p.Cursor), Kind: "notice", Who: "Corebot", At: p.CreatedAt,
			MessageID: p.InReplyTo, Text: clip(shownText, p.Text()), Open: chatAddress().FindString(p.Text()),
		})
	}
	sorted.By(all, func(a, b entry) int { return a.At.Compare(b.At) })
	return all, nil
}

// entryOf is an entry as it is shown.
func (c *Console) entryOf(k corebot.Key, e corebot.Said, full bool) entry {
	text := corebot.TextOf(e.Parts)
	shown := entry{
		ID: "e-" + strings.ReplaceAll(e.Place, ".", "-"), Kind: string(e.Speaker), At: e.At, CallID: e.CallID,
		Outside: e.Outside, MessageID: e.MessageID,
	}
	if cut := clip(shownText, text); cut != text {
		shown.More = chatPath(k) + "/entries/" + e.Place
		text = cut
	}
	shown.Text = text
	for _, p := range corebot.Attachments(e.Parts) {
		f := shownFile{Name: corebot.Plainly(cmp.Or(p.Name, string(p.Type)))}
		if p.Hash != "" {
			f.Path = chatPath(k) + "/files/" + url.PathEscape(p.Hash)
		}
		shown.Files = append(shown.Files, f)
	}
	switch e.Speaker {
	case corebot.SpeakerUser:
		shown.Mine = e.Sender == c.opts.Owner
		shown.Who = cmp.Or(corebot.Plainly(e.Name), corebot.Plainly(e.Sender.ID), "unknown")
		shown.Label = e.Sender.Label()
		if shown.Mine {
			shown.Who, shown.Label = "You", ""
		}
	case corebot.SpeakerAssistant:
		shown.Who, shown.HTML = corebot.Plainly(k.Agent), rendered(text)
	default:
		shown.Who = "Result"
	}
	if full {
		for _, call := range e.Calls {
			shown.Calls = append(shown.Calls, shownCall{call.ID, call.Tool, call.Args, editDiff(call)})
		}
	}
	return shown
}

// editDiff shows what a call would change in a file, as far as its arguments tell.
func editDiff(call corebot.ToolCall) string {
	var edit struct{ Old, New string }
	if call.Tool != "fs.edit" || json.Unmarshal(call.Args, &edit) != nil {
		return ""
	}
	hunks, err := linediff.Compare([]byte(edit.Old), []byte(edit.New))
	if err != nil {
		return ""
	}
	text, _ := linediff.Render(hunks, shownText)
	return text
}

// turnOf is what the turn of a message took.
func turnOf(ctx context.Context, s *operate.Service, k corebot.Key, id string, known map[string]*turnFigure,
) (*turnFigure, error) {
	if f, seen := known[id]; seen {
		return f, nil
	}
	known[id] = nil
	told, err := s.Why(ctx, operate.ByMessage{MessageID: id, Key: k})
	if errors.Is(err, corebot.ErrNotFound) { // its life is older than the retention time
		return nil, nil
	}
	for _, l := range told.Lives {
		if l.Key == k && l.Direction == corebot.Inbound.String() {
			known[id] = &turnFigure{
				l.Model, l.Usage.InputTokens + l.Usage.OutputTokens, l.Cost, took(l.ClaimedAt, l.EndedAt),
			}
		}
	}
	return known[id], err
}

// maxWaiting bounds the waiting messages that a page of a chat shows.
const maxWaiting = 20

// waiting gives the messages of a chat that wait or run.
func (c *Console) waiting(ctx context.Context, s *operate.Service, k corebot.Key) (all []waitingMessage, err error) {
	told, err := s.ListWaiting(ctx, operate.WaitingQuery{Key: k, Limit: maxWaiting})
	if err != nil {
		return nil, err
	}
	for _, l := range told.Lives {
		w := waitingMessage{Life: l, Mine: l.Sender == c.opts.Owner, Chat: k.String()}
		if l.Message != nil {
			w.Shown = clip(shownText, l.Message.Text())
		}
		all = append(all, w)
	}
	if len(all) == 0 || !strings.Contains(all[0].State, corebot.AwaitingApproval) {
		return all, nil
	}
	for after := ""; ; { // few wait at once
		calls, err := s.ListApprovals(ctx, operate.ApprovalQuery{Part: operate.Part{After: after}})
		if err != nil {
			return nil, err
		}
		for _, a := range calls.Rows {
			if a.Life != all[0].ID {
				continue
			}
			// A decision is about the whole request, which can go on behind this page.
			whole, err := s.ShowApproval(ctx, operate.ByID{ID: a.Request})
			for _, call := range whole.Calls {
				all[0].Approvals = append(all[0].Approvals, call.Row())
			}
			return all, err
		}
		if after = calls.Next; after == "" {
			return all, nil
		}
	}
}

// entry shows the whole text of one entry, as plain text to read or to save.
func (c *Console) entry(v *visit) error {
	k, err := v.key()
	if err != nil {
		return err
	}
	at := v.r.PathValue("place")
	cut := strings.LastIndexByte(at, '.') + 1
	ordinal, err := strconv.ParseInt(at[cut:], 10, 64)
	if err != nil || cut == 0 {
		return errNoPage
	}
	said, err := v.service().ReadHistory(v.ctx(), operate.HistoryQuery{
		Key: k, Whole: true, Part: operate.Part{After: fmt.Sprintf("%s%d", at[:cut], ordinal+1), Limit: 1},
	})
	if err != nil {
		return err
	}
	if len(said.Rows) == 0 || said.Rows[0].Place != at {
		return errNoPage
	}
	v.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	v.w.Header().Set("Content-Disposition", `attachment; filename="entry.txt"`)
	_, _ = v.w.Write([]byte(c.opts.Redact(corebot.TextOf(said.Rows[0].Parts))))
	return nil
}

// file sends the bytes of a file of the chat. A browser saves them, whatever they are.
func (c *Console) file(v *visit) error {
	k, err := v.key()
	if err != nil {
		return err
	}
	f, ref, err := c.opts.Files.Open(v.ctx(), k, v.r.PathValue("hash"))
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // only read
	listen.Download{Content: f, Name: ref.Name, Type: ref.MediaType, Hash: ref.Hash}.Send(
		listen.Patient{ResponseWriter: v.w}, v.r)
	return nil
}

// accept gives a message to the front door, as the owner at this moment.
func (c *Console) accept(v *visit, k corebot.Key, in channels.Incoming) error {
	door, err := c.opts.Channel.entrance.Door(v.ctx())
	if err != nil {
		return errStarting
	}
	in.Agent, in.Chat, in.Thread = k.Agent, k.Chat, k.Thread
	in.SenderID, in.SenderName, in.Interactive = c.opts.Owner.ID, "owner", true
	_, err = door.Accept(v.ctx(), in)
	if err == nil {
		c.opts.Channel.Posted(k) // every page of the chat shows it
	}
	return err
}

// send takes in what was written. A form that is sent twice has the same id, and so is one message.
func (c *Console) send(v *visit) error {
	k, err := v.key()
	if err != nil {
		return err
	}
	if k.Channel != corebot.ConsoleChannel {
		return corebot.WithHint(fmt.Errorf("%w: the chat is of the channel %s", corebot.ErrInvalid, k.Channel),
			"answer there; the console can stop and steer its turns")
	}
	text := strings.ReplaceAll(v.r.PostFormValue("text"), "\r\n", "\n")
	in := channels.Incoming{
		ID: cmp.Or(v.r.PostFormValue("id"), "console-"+rand.Text()), Parts: corebot.TextPart(text),
		EditOf: v.r.PostFormValue("edit"),
	}
	if in.EditOf != "" && !c.waits(v, k, in.EditOf) { // an edit of an answered message is only context: ask again
		in.EditOf = ""
	}
	if err := c.accept(v, k, in); err != nil {
		return err
	}
	if v.r.Header.Get("HX-Request") != "" { // a script sent it, and the stream shows it
		v.w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return v.back(map[string]string{"id": in.ID}, "", chatPath(k))
}

// waits says whether a message of a chat waits or runs.
func (c *Console) waits(v *visit, k corebot.Key, id string) bool {
	told, err := v.service().ListWaiting(v.ctx(), operate.WaitingQuery{Key: k, Limit: maxWaiting})
	return err == nil && slices.ContainsFunc(told.Lives, func(l operate.Life) bool { return l.MessageID == id })
}

// command stops or steers the turn of any chat. The chat is told as if its admin had written there.
func (c *Console) command(v *visit) error {
	k, err := v.key()
	if err != nil {
		return err
	}
	var text, said string
	switch word := v.r.PostFormValue("command"); word {
	case "stop":
		text, said = "/stop", "The turn is told to stop."
	case "steer":
		words := strings.TrimSpace(v.r.PostFormValue("text"))
		if words == "" {
			return fmt.Errorf("%w: there are no words to steer with", corebot.ErrInvalid)
		}
		text, said = "/steer "+words, "The turn is told."
	default:
		return fmt.Errorf("%w: there is no command %q here", corebot.ErrInvalid, clip(100, word))
	}
	_, err = c.opts.Control.Control(v.ctx(), corebot.Message{
		ID: "console-" + rand.Text(), Direction: corebot.Control, Key: k, Kind: corebot.KindControl,
		Sender: c.opts.Owner, SenderName: "owner", Parts: corebot.TextPart(text), Entry: corebot.Entry{Person: true},
	})
	if err != nil {
		return err
	}
	c.opts.Channel.Posted(k)
	return v.back(operate.Done{Changed: 1}, said, chatPath(k))
}
