package console

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/internal/sorted"
)

type chatsData struct {
	operate.Page[operate.Chat]
	Channel string   `json:"channel,omitempty"`
	More    string   `json:"more,omitempty"`
	Agents  []string `json:"-"`
}

// chats lists the conversations, the one that was used last first, and begins another.
func (c *Console) chats(v *visit) error {
	if name := strings.TrimSpace(v.r.FormValue("find")); name != "" {
		found, err := v.service().FindChat(v.ctx(), operate.ChatName{Name: name})
		if err != nil {
			return corebot.WithHint(err, "write the key of a chat, or the end of one that no other chat has")
		}
		http.Redirect(v.w, v.r, chatPath(found.Key), http.StatusSeeOther)
		return nil
	}
	d := chatsData{Channel: v.r.FormValue("channel"), Agents: c.opts.Facts.KnownAgents()}
	found, err := v.service().ListChats(v.ctx(), operate.ChatsQuery{Channel: d.Channel, Recent: true, Part: v.part()})
	if err != nil {
		return err
	}
	d.Page, d.More = found, v.more(found.Next)
	return v.show(page{Name: "chats", Title: "Chats", Data: d})
}

// openChat goes to a chat of the console, which begins with its first message.
func (c *Console) openChat(v *visit) error {
	k := corebot.Key{
		Agent:   cmp.Or(v.r.PostFormValue("agent"), c.opts.Facts.KnownAgents()[0]),
		Channel: corebot.ConsoleChannel, Account: corebot.TerminalAccount,
		Chat: cmp.Or(strings.TrimSpace(v.r.PostFormValue("name")), time.Now().Format("2006-01-02 15.04.05")),
	}
	if err := k.Validate(); err != nil {
		return err
	}
	return v.back(map[string]string{"key": k.String()}, "", chatPath(k))
}

// changeChat sets what holds in a chat.
func (c *Console) changeChat(v *visit) error {
	k, err := v.key()
	if err != nil {
		return err
	}
	what, value := v.r.PostFormValue("what"), v.r.PostFormValue("value")
	if what != "reset" && !v.r.PostForm.Has("value") { // an empty one is what the settings say
		return fmt.Errorf("%w: the form has no value for %q", corebot.ErrInvalid, clip(100, what))
	}
	s, ctx := v.service(), v.ctx()
	switch what {
	case "mode":
		_, err = s.SetQueueMode(ctx, operate.ModeChange{Key: k, Mode: corebot.QueueMode(value)})
	case "model":
		_, err = s.SetChatModel(ctx, operate.ModelChange{Key: k, Model: value})
	case "think":
		_, err = s.SetChatThink(ctx, operate.ThinkChange{Key: k, Think: corebot.Thinking(value)})
	case "name":
		_, err = s.RegisterChat(ctx, operate.ChatChange{
			Key: k, Registered: v.r.PostFormValue("registered") != "", Name: value,
		})
	case "reset":
		_, err = s.ResetChat(ctx, operate.ChatChange{Key: k})
	default:
		err = fmt.Errorf("%w: a chat has no %q to change", corebot.ErrInvalid, clip(100, what))
	}
	if err != nil {
		return err
	}
	return v.back(operate.Done{Changed: 1}, "Changed.", chatPath(k))
}

type auditData struct {
	operate.Page[operate.AuditEvent]
	Query   url.Values          `json:"-"`
	More    string              `json:"more,omitempty"`
	Checked *corebot.AuditChain `json:"checked,omitempty"`
	Broken  string              `json:"broken,omitempty"`
	Export  string              `json:"-"`
	Ends    []string            `json:"-"`
	Filter  corebot.AuditFilter `json:"-"`
}

// auditFilter reads the filter of the address.
func (v *visit) auditFilter() (f corebot.AuditFilter, q url.Values, err error) {
	q = url.Values{}
	for _, name := range []string{"since", "until", "channel", "chat", "sender", "tool", "outcome"} {
		if value := strings.TrimSpace(v.r.FormValue(name)); value != "" {
			q.Set(name, value)
		}
	}
	f = corebot.AuditFilter{
		Channel: q.Get("channel"), Chat: q.Get("chat"), Sender: q.Get("sender"), Tool: q.Get("tool"),
		Outcome: corebot.AuditOutcome(q.Get("outcome")),
	}
	if f.Since, err = operate.Moment("since", q.Get("since"), "", 0, time.Now()); err != nil {
		return f, q, err
	}
	f.Until, err = operate.Moment("until", q.Get("until"), "", 0, time.Now())
	return f, q, err
}

var outcomes = []string{"success", "denied", "error", "invalid_args", "unknown"}

func (c *Console) audit(v *visit) error {
	f, q, err := v.auditFilter()
	if err != nil {
		return err
	}
	found, err := v.service().ListAudit(v.ctx(), operate.AuditQuery{Filter: f, Part: v.part()})
	if err != nil {
		return err
	}
	return v.show(page{Name: "audit", Title: "Audit", Data: auditData{
		Page: found, Query: q, More: v.more(found.Next), Export: "/audit/export?" + q.Encode(), Ends: outcomes,
	}})
}

// auditVerify reads the whole trail.
func (c *Console) auditVerify(v *visit) error {
	chain, err := v.service().VerifyAudit(v.ctx(), operate.Verification{})
	if broken := (*corebot.BrokenChain)(nil); errors.As(err, &broken) && !wantsJSON(v.r) {
		return v.back(nil, "The audit trail is broken: "+broken.Error(), "/audit")
	}
	if err != nil {
		return err
	}
	return v.back(chain, fmt.Sprintf("The audit trail is whole: %d events, up to event %d. `corebot audit verify "+
		"--heads` also compares it with the heads that were published.", chain.Events, chain.Head.Event), "/audit")
}

// auditExport sends all events of a filter, one object a line, page by page: none of it is gathered.
func (c *Console) auditExport(v *visit) error {
	f, _, err := v.auditFilter()
	if err != nil {
		return err
	}
	rc := http.NewResponseController(v.w)
	v.w.Header().Set("Content-Type", "application/x-ndjson")
	v.w.Header().Set("Content-Disposition", `attachment; filename="corebot-audit.ndjson"`)
	for after := ""; ; {
		found, err := v.service().ListAudit(v.ctx(), operate.AuditQuery{Filter: f, Part: operate.Part{After: after}})
		if err != nil {
			if after == "" {
				v.w.Header().Del("Content-Disposition")
				return err
			}
			panic(http.ErrAbortHandler) // a file that ends early must not look whole
		}
		for _, e := range found.Rows {
			row, err := json.Marshal(e.AuditRow)
			if err != nil {
				return err
			}
			if err := rc.SetWriteDeadline(time.Now().Add(slowReader)); err != nil {
				return err
			}
			if _, err := v.w.Write(append([]byte(c.opts.Redact(string(row))), '\n')); err != nil {
				return nil //nolint:nilerr // the browser has left
			}
		}
		if after = found.Next; after == "" {
			return nil
		}
	}
}

type tasksData struct {
	operate.Page[operate.TaskRow]
	More  string    `json:"more,omitempty"`
	Days  []taskDay `json:"days"`
	Chats []string  `json:"-"`
	Zone  string    `json:"-"`
}

// taskDay is a day of the calendar.
type taskDay struct {
	Day  string    `json:"day"`
	Runs []taskDue `json:"runs"`
}

type taskDue struct {
	At   time.Time `json:"at"`
	Task int64     `json:"task"`
	Name string    `json:"name"`
}

// Bounds of the calendar.
const (
	calendarRuns = 5  // of one task
	calendarDays = 14 // from now
)

// tasks lists the tasks, and when they are due.
func (c *Console) tasks(v *visit) error {
	s := v.service()
	found, err := s.ListTasks(v.ctx(), operate.TaskQuery{Part: v.part()})
	if err != nil {
		return err
	}
	d := tasksData{Page: found, More: v.more(found.Next)}
	var due []taskDue
	for _, t := range found.Rows {
		if t.NextRunAt == nil || t.State != corebot.TaskActive {
			continue
		}
		name := cmp.Or(t.Name, clip(60, t.Prompt))
		runs := operate.Preview{Times: []time.Time{*t.NextRunAt}}
		if t.Kind == corebot.TaskDaily || t.Kind == corebot.TaskCron {
			if runs, err = s.PreviewTask(v.ctx(), operate.PreviewQuery{
				Schedule: corebot.Schedule{Kind: t.Kind, Spec: t.Spec, TimeZone: t.TimeZone}, Count: calendarRuns,
			}); err != nil {
				runs.Times = []time.Time{*t.NextRunAt}
			}
		}
		for _, at := range runs.Times {
			if time.Until(at) < calendarDays*24*time.Hour {
				due = append(due, taskDue{at.Local(), t.ID, name})
			}
		}
	}
	sorted.By(due, func(a, b taskDue) int { return a.At.Compare(b.At) })
	for _, run := range due {
		day := run.At.Format("Monday, 2 January")
		if len(d.Days) == 0 || d.Days[len(d.Days)-1].Day != day {
			d.Days = append(d.Days, taskDay{Day: day})
		}
		last := &d.Days[len(d.Days)-1]
		last.Runs = append(last.Runs, run)
	}
	for _, channel := range []string{corebot.ConsoleChannel, ""} {
		chats, err := s.ListChats(v.ctx(), operate.ChatsQuery{
			Channel: channel, Recent: true, Part: operate.Part{Limit: 20},
		})
		if err != nil {
			return err
		}
		for _, chat := range chats.Rows {
			if !slices.Contains(d.Chats, chat.Key) {
				d.Chats = append(d.Chats, chat.Key)
			}
		}
	}
	if len(d.Chats) == 0 {
		d.Chats = []string{corebot.Key{
			Agent: c.opts.Facts.KnownAgents()[0], Channel: corebot.ConsoleChannel, Account: corebot.TerminalAccount,
			Chat: "reminders",
		}.String()}
	}
	return v.show(page{Name: "tasks", Title: "Tasks", Data: d})
}

// addTask makes a task of the owner in the console.
func (c *Console) addTask(v *visit) error {
	k, err := corebot.ParseKey(v.r.PostFormValue("chat"))
	if err != nil {
		return err
	}
	spec, kind := strings.TrimSpace(v.r.PostFormValue("spec")), corebot.TaskKind(v.r.PostFormValue("kind"))
	if d, err := time.ParseDuration(spec); err == nil && d > 0 && kind == corebot.TaskOnce { // from now, as in /remind
		spec = time.Now().Add(d).UTC().Truncate(time.Second).Format(time.RFC3339)
	}
	row, err := v.service().CreateTask(v.ctx(), operate.NewTask{
		Key: k, By: c.opts.Owner, Name: strings.TrimSpace(v.r.PostFormValue("name")),
		Prompt:  strings.ReplaceAll(v.r.PostFormValue("prompt"), "\r\n", "\n"),
		Context: corebot.TaskContext(cmp.Or(v.r.PostFormValue("context"), string(corebot.TaskInChat))),
		Schedule: corebot.Schedule{
			Kind: kind, Spec: spec,
			TimeZone: strings.TrimSpace(v.r.PostFormValue("zone")),
		},
	})
	if err != nil {
		return err
	}
	said := fmt.Sprintf("Task %d is made.", row.ID)
	if row.NextRunAt != nil {
		said = fmt.Sprintf("Task %d runs next at %s.", row.ID, when(*row.NextRunAt))
	}
	return v.back(row, said, "/tasks")
}

func (c *Console) task(v *visit) error {
	id, err := v.id()
	if err != nil {
		return err
	}
	d, err := v.service().ShowTask(v.ctx(), operate.TaskRuns{ID: id, Limit: 20})
	if err != nil {
		return err
	}
	return v.show(page{Name: "task", Title: cmp.Or(corebot.Plainly(d.Name), fmt.Sprintf("Task %d", id)), Data: d})
}

func (c *Console) changeTask(v *visit) error {
	id, err := v.id()
	if err != nil {
		return err
	}
	action := corebot.TaskAction(v.r.PathValue("action"))
	done, err := v.service().ChangeTask(v.ctx(), operate.TaskChange{IDs: []int64{id}, Action: action})
	if err != nil {
		return err
	}
	return v.back(done, fmt.Sprintf("Task %d: %s.", id, action), "/tasks")
}

type jobsData struct {
	operate.Page[operate.JobRow]
	All  bool   `json:"all"`
	More string `json:"more,omitempty"`
}

func (c *Console) jobs(v *visit) error {
	d := jobsData{All: v.r.FormValue("all") != ""}
	found, err := v.service().ListJobs(v.ctx(), operate.JobQuery{All: d.All, Part: v.part()})
	if err != nil {
		return err
	}
	d.Page, d.More = found, v.more(found.Next)
	return v.show(page{Name: "jobs", Title: "Jobs", Data: d, Live: true})
}

func (c *Console) stopJob(v *visit) error {
	id, err := v.id()
	if err != nil {
		return err
	}
	done, err := v.service().StopJobs(v.ctx(), operate.JobIDs{IDs: []int64{id}})
	if err != nil {
		return err
	}
	return v.back(done, fmt.Sprintf("Job %d is told to stop.", id), "/jobs")
}

type settingsData struct {
	Settings []Setting                `json:"settings"`
	Sessions []corebot.ConsoleSession `json:"sessions"`
	Mine     int64                    `json:"mine"`
	Set      []Setting                `json:"-"` // those of Settings that somebody has set
	Defaults []Setting                `json:"-"` // the others
}

// defaultValue is where the value of a setting comes from that nobody has set.
const defaultValue = "default"

// settings shows the settings without their secrets, and who is logged in.
func (c *Console) settings(v *visit) (err error) {
	d := settingsData{Mine: v.session.ID}
	if d.Settings, err = c.opts.Facts.Settings(); err != nil {
		return err
	}
	for _, one := range d.Settings {
		if one.From == defaultValue {
			d.Defaults = append(d.Defaults, one)
		} else {
			d.Set = append(d.Set, one)
		}
	}
	sessions, err := v.service().ListSessions(v.ctx(), operate.SessionQuery{})
	if err != nil {
		return err
	}
	d.Sessions = sessions.Rows
	return v.show(page{Name: "settings", Title: "Settings", Data: d})
}

func (c *Console) reloadSettings(v *visit) error {
	done, err := v.service().ReloadSettings(v.ctx(), struct{}{})
	if err != nil {
		return err
	}
	said := "In force now: " + cmp.Or(strings.Join(done.Applied, ", "), "nothing new") + "."
	if len(done.Restart) > 0 {
		said += " After a restart: " + strings.Join(done.Restart, ", ") + "."
	}
	return v.back(done, said, "/settings")
}

func (c *Console) revokeSession(v *visit) error {
	id, err := v.id()
	if err != nil {
		return err
	}
	done, err := v.service().RevokeSessions(v.ctx(), operate.ByRules{IDs: []int64{id}})
	if err != nil {
		return err
	}
	return v.back(done, "Session "+strconv.FormatInt(id, 10)+" is logged out.", "/settings")
}
