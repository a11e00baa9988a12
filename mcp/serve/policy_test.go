package serve_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/mcp/serve"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/storage"
)

// clientRole is what the principal of the clients is.
type clientRole string

const (
	nobody     clientRole = "nobody"     // may not even talk
	normal     clientRole = "normal"     // has no grant
	here       clientRole = "here"       // admin in one chat of the clients
	there      clientRole = "there"      // admin in one chat of another channel, too
	everywhere clientRole = "everywhere" // admin
)

var editor = corebot.Principal{Channel: serve.Channel, ID: "editor"}

// matrix is every tool on every kind of target, with the outcome and the rule of its row in the audit. It knows nothing
// of the rules.
func matrix() []struct {
	tool, args                            string
	nobody, normal, here, there, everyone string
} {
	return []struct {
		tool, args                            string
		nobody, normal, here, there, everyone string
	}{
		{
			"message.publish", `{"content":"x","chatId":"own"}`, "error open", "success open", "success open",
			"success open", "success open",
		},
		{
			"message.replies", `{"chatId":"own"}`, "success open", "success open", "success open", "success open",
			"success open",
		},
		{
			"history.read", `{"chatId":"own"}`, "success open", "success open", "success open", "success open",
			"success open",
		},
		{
			"history.read", `{"chatId":"own","key":""}`, "invalid_args ", "invalid_args ", "invalid_args ",
			"invalid_args ", "invalid_args ",
		},
		{
			"history.read", `{"key":"main:mcp::other"}`, "success open", "success open", "success open", "success open",
			"success open",
		},
		{
			"history.read", `{"chatId":"own","key":"main:test::theirs"}`, "denied history-elsewhere",
			"denied history-elsewhere", "denied history-elsewhere", "denied history-elsewhere",
			"error history-elsewhere",
		},
		{
			"history.read", `{"key":"main:test::theirs"}`, "denied history-elsewhere", "denied history-elsewhere",
			"denied history-elsewhere", "denied history-elsewhere", "success history-elsewhere",
		},
		{
			"history.read", `{"key":"main:mcp:another:own"}`, "denied history-elsewhere", "denied history-elsewhere",
			"denied history-elsewhere", "denied history-elsewhere", "success history-elsewhere",
		},
		{
			"history.read", `{"key":"second:mcp::own"}`, "denied history-elsewhere", "denied history-elsewhere",
			"denied history-elsewhere", "denied history-elsewhere", "success history-elsewhere",
		},
		{
			"history.read", `{"key":"no key"}`, "denied history-elsewhere", "denied history-elsewhere",
			"denied history-elsewhere", "denied history-elsewhere", "error history-elsewhere",
		},
		{"chat.list", `{}`, "success open", "success open", "success open", "success open", "success open"},
		{
			"chat.list", `{"channel":"mcp"}`, "success open", "success open", "success open", "success open",
			"success open",
		},
		{
			"chat.list", `{"channel":"test"}`, "denied chats-elsewhere", "denied chats-elsewhere",
			"denied chats-elsewhere", "denied chats-elsewhere", "success chats-elsewhere",
		},
		{
			"chat.list", `{"channel":"*"}`, "denied chats-elsewhere", "denied chats-elsewhere",
			"denied chats-elsewhere",
			"denied chats-elsewhere", "success chats-elsewhere",
		},
		{
			"bus.dead_letter.list", `{}`, "denied dead-letters", "denied dead-letters", "denied dead-letters",
			"denied dead-letters", "success dead-letters",
		},
		{
			"bus.dead_letter.replay", `{"id":4711}`, "denied dead-letters", "denied dead-letters",
			"denied dead-letters",
			"denied dead-letters", "error dead-letters",
		},
		{"status.read", `{}`, "denied status", "denied status", "denied status", "denied status", "success status"},
		{
			"message.send", `{"channel":"test","chatId":"theirs","content":"x"}`, "error ", "error ", "error ",
			"error ",
			"error ",
		},
	}
}

func (r *rig) stand(s clientRole) {
	r.t.Helper()
	grant := func(k corebot.Key) {
		r.must(r.Grants.Grant(context.Background(), corebot.Grant{Principal: editor, Role: corebot.RoleAdmin, Chat: k}))
	}
	switch s {
	case there:
		grant(apptest.Key("theirs"))
		grant(corebot.Key{Agent: "main", Channel: serve.Channel, Chat: "own"})
	case here:
		grant(corebot.Key{Agent: "main", Channel: serve.Channel, Chat: "own"})
	case everywhere:
		grant(corebot.Key{})
	}
}

func TestEveryToolIsHeldToThePolicyForEveryRole(t *testing.T) {
	for _, as := range []clientRole{nobody, normal, here, there, everywhere} {
		o := rigOptions{}
		if as == nobody {
			o.access = policy.AccessAllowlist
		}
		within(t, o, func(t *testing.T, r *rig) {
			r.stand(as)
			for _, c := range matrix() {
				want := map[clientRole]string{
					nobody: c.nobody, normal: c.normal, here: c.here, there: c.there,
					everywhere: c.everyone,
				}[as]
				before := len(r.audit())
				got, err := r.service.Call(t.Context(), serve.Call{Tool: c.tool, Args: json.RawMessage(c.args)})
				if err != nil {
					t.Fatalf("%s %s: %v", c.tool, c.args, err)
				}
				r.wantRows(as, c.tool, c.args, want, len(r.audit())-before)
				if failed := !strings.HasPrefix(want, "success"); got.Failed != failed {
					t.Errorf("as %s, %s %s: %+v", as, c.tool, c.args, got)
				}
			}
		})
	}
}

// wantRows checks the newest rows of the audit: one result with the outcome and the rule. A call that changes
// something, or that not everyone may make, has a decision before it.
func (r *rig) wantRows(as clientRole, tool, args, want string, added int) {
	r.t.Helper()
	rows := r.audit()[:added]
	i := slices.IndexFunc(rows, func(e corebot.AuditEvent) bool { return e.Event == "tool.result" })
	if i < 0 {
		r.t.Errorf("as %s, %s %s left no result", as, tool, args)
		return
	}
	e := rows[i]
	if got := string(e.Outcome) + " " + e.Rule; got != want || e.Tool != tool || e.Entry != corebot.EntryClient ||
		e.Principal != editor {
		r.t.Errorf("as %s, %s %s left %q of %s by %s (%s), want %q", as, tool, args, got, e.Tool, e.Principal, e.Entry,
			want)
	}
	decisions := 0
	for _, d := range rows {
		if d.Event == "tool.decision" && d.Rule == e.Rule && d.StepID == e.StepID {
			decisions++
		}
	}
	allowed := e.Outcome != corebot.OutcomeDenied && e.Rule != ""
	if wanted := allowed && (e.Rule != "open" || tool == "message.publish"); (decisions == 1) != wanted ||
		decisions > 1 {
		r.t.Errorf("as %s, %s %s left %d decisions", as, tool, args, decisions)
	}
}

func TestAToolThatTheRoleMayNotUseIsNotOffered(t *testing.T) {
	within(t, rigOptions{}, func(t *testing.T, r *rig) {
		names := func() (offered []string) {
			w := r.dial().hello()
			w.say(request(1, "tools/list", `{}`))
			list, _ := w.answer(1)
			for _, tool := range list.Result.Tools {
				offered = append(offered, tool.Name)
			}
			w.leave()
			return offered
		}
		if got := names(); !slices.Equal(got, []string{
			"chat_list", "history_read", "message_publish",
			"message_replies",
		}) {
			t.Errorf("offered to a normal principal: %v", got)
		}
		r.stand(everywhere) // which holds at once, for those that are connected too
		if got := names(); len(got) != 7 {
			t.Errorf("offered to an admin: %v", got)
		}
	})
}

func TestAGrantOpensAToolToTheClients(t *testing.T) {
	rules := policy.Options{Grants: []corebot.ToolGrant{
		{Tool: "status.read", Principal: editor},
		{Tool: "history.read", Principal: editor},
	}}
	within(t, rigOptions{rules: rules}, func(t *testing.T, r *rig) {
		status := call[map[string]any](r, "status_read", `{}`)
		if status["chats"] != 3.0 || status["words"] != "[redacted] ‹|im_start|>" {
			t.Errorf("the status is %v", status)
		}
		_ = call[historyPage](r, "history_read", `{"key":"main:test::theirs"}`)
	})
}

func TestACallThatNeedsAnAdminsWordIsDenied(t *testing.T) {
	rules := policy.Options{Approvals: policy.Approvals{
		Mode:   policy.ApproveAlways,
		Always: []string{"message.publish"},
	}}
	within(t, rigOptions{rules: rules}, func(t *testing.T, r *rig) {
		r.stand(everywhere)
		for _, c := range []serve.Call{{Tool: "status_read"}, {
			Tool: "message_publish",
			Args: json.RawMessage(`{"content":"x","id":"q1"}`),
		}} {
			if text := r.refused(c); !strings.Contains(text, "approval of an admin") {
				t.Errorf("%s: %s", c.Tool, text)
			}
		}
		if lives, err := r.Lives.Find(t.Context(), "q1"); len(lives) != 0 || err != nil {
			t.Errorf("it was published: %v %v", lives, err)
		}
	})
}

// deafTrail writes nothing down.
type deafTrail struct{}

func (deafTrail) Note(context.Context, corebot.AuditEvent) error {
	return errors.New("the disk is on fire")
}

func TestWithoutItsDecisionOnDiskNothingIsDone(t *testing.T) {
	o := rigOptions{trail: func(serve.Trail) serve.Trail { return deafTrail{} }}
	within(t, o, func(t *testing.T, r *rig) {
		if _, err := r.service.Call(t.Context(), serve.Call{
			Tool: "message_publish",
			Args: json.RawMessage(`{"content":"x","id":"q1"}`),
		}); err == nil {
			t.Error("it was published without a decision")
		}
		if lives, err := r.Lives.Find(t.Context(), "q1"); len(lives) != 0 || err != nil {
			t.Errorf("it was published: %v %v", lives, err)
		}
	})
}

func TestADeadLetterIsListedAndReplayedOnceForItsKey(t *testing.T) {
	model := apptest.Always(apptest.Fails(&corebot.Failure{Class: corebot.Permanent, Err: errors.New("no such model")}))
	within(t, rigOptions{kit: apptest.Options{Model: model}}, func(t *testing.T, r *rig) {
		r.stand(everywhere)
		_ = call[published](r, "message_publish", `{"content":"hi","id":"q1"}`)
		list := call[struct {
			Items []struct {
				ID                int64
				MessageID, ChatID string
			}
		}](r, "bus_dead_letter_list", `{"direction":"inbound"}`)
		if len(list.Items) != 1 || list.Items[0].MessageID != "q1" || list.Items[0].ChatID != "main" {
			t.Fatalf("the dead letters are %+v", list)
		}
		replay := serve.Call{Tool: "bus_dead_letter_replay", Args: json.RawMessage(fmt.Sprintf(`{"id":%d}`,
			list.Items[0].ID)), Key: "k"}
		for range 2 {
			got, err := r.service.Call(t.Context(), replay)
			if err != nil || got.Failed {
				t.Fatalf("replay: %v %+v", err, got)
			}
			_ = call[replyPage](r, "message_replies", `{"after":"1","waitSeconds":60}`) // it dies again
		}
		if life := r.Life("q1"); life.Run != 2 || life.End != corebot.EndDead {
			t.Errorf("the repeated call replayed it again: %+v", life)
		}
		replay.Key = ""
		if got, err := r.service.Call(t.Context(), replay); err != nil || got.Failed {
			t.Errorf("another call: %v %+v", err, got)
		}
	})
}

// TestAClientApprovesNothingWhateverItIs: the call that waits may be its own.
func TestAClientApprovesNothingWhateverItIs(t *testing.T) {
	within(t, rigOptions{}, func(t *testing.T, r *rig) {
		r.stand(everywhere)
		call[published](r, "message.publish", `{"id":"a","content":"/approve 1"}`)
		denied, err := storage.NewAudit(r.DB).List(t.Context(), corebot.AuditFilter{Outcome: corebot.OutcomeDenied})
		r.must(err)
		if len(denied) != 1 || denied[0].Rule != policy.RulePersonApproves || denied[0].Principal != editor {
			t.Errorf("the audit has %+v", denied)
		}
	})
}
