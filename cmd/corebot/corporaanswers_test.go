package main

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"
)

// spoken is one message of the server.
type spoken struct {
	JSONRPC, Method string
	ID, Result      json.RawMessage
	Params          struct{ ProgressToken json.RawMessage }
	Error           *struct {
		Code    *int
		Message *string
	}
}

// hear judges one message of the server, which may be the answer to one: it is JSON-RPC, belongs to it, and shows
// nothing that it must not.
func (d *desk) hear(text string, to message) {
	var s spoken
	if err := json.Unmarshal([]byte(text), &s); err != nil || !utf8.ValidString(text) || s.JSONRPC != "2.0" {
		d.t.Errorf("%.100q is answered %.300q, %v", to.item, text, err)
		return
	}
	answers := (s.Result != nil) != (s.Error != nil) && s.Method == "" && len(s.ID) > 0 &&
		!strings.ContainsRune("{[tf", rune(s.ID[0]))
	if s.Error != nil {
		answers = answers && s.Error.Code != nil && s.Error.Message != nil
	}
	if !answers && s.Method != "notifications/progress" || to.id != "" && string(s.ID) != to.id {
		d.t.Errorf("%.300q is answered %.300q, which is no answer to it", to.text, text)
	}
	d.judge(http.StatusOK, text, to.item, nil)
	if !d.admin && strings.Contains(text, closedWords) {
		d.t.Errorf("%.300q shows a chat that is closed: %.300q", to.text, text)
	}
	if to.tool != "" && s.Result != nil {
		d.result(s.Result, to)
	}
}

// result judges what a tool gave.
func (d *desk) result(raw json.RawMessage, to message) {
	var r struct {
		IsError           bool
		Content           []struct{ Text string }
		StructuredContent json.RawMessage
	}
	if err := json.Unmarshal(raw, &r); err != nil || len(r.Content) != 1 {
		d.t.Errorf("%.300q has the result %.300q, %v", to.text, raw, err)
		return
	}
	if to.refused && !r.IsError {
		d.t.Errorf("%.300q was carried out: %.300q", to.text, raw)
	}
	var object any
	if r.StructuredContent != nil && json.Unmarshal(r.StructuredContent, &object) != nil {
		d.t.Errorf("%.300q has %.300q for an object", to.text, r.StructuredContent)
	}
	if text := r.Content[0].Text; hides(text+fmt.Sprint(object)) || strings.Count(text, "</data>") > 1 ||
		strings.Contains(text, "<|im_start|>") {
		d.t.Errorf("%.300q shows %.300q", to.text, text)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.called++
}

// requireAudit: every call since has left a row that says who made it, and none shows a secret or, beneath what is
// shown, has one.
func (d *desk) requireAudit(before map[string]int) {
	d.t.Helper()
	after, rows := d.audited(), 0
	for outcome := range after {
		after[outcome] -= before[outcome]
		rows += after[outcome]
	}
	d.t.Logf("%d calls of tools had a result, and %d left a row in the audit: %v", d.called, rows, after)
	if rows < d.called || d.called < len(d.items)/2 {
		d.t.Errorf("%d calls left %d rows in the audit", d.called, rows)
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(d.home, "data", "corebot.db")+"?mode=ro")
	if err != nil {
		d.t.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // only read
	var stored int
	if err := db.QueryRow(`SELECT COUNT(*) FROM audit_events WHERE INSTR(args, ?) > 0`,
		d.token).Scan(&stored); err != nil || stored > 0 {
		d.t.Errorf("%d rows of the audit have the token, %v", stored, err)
	}
}

// audited says how many calls of clients the audit has, by how they ended.
func (d *desk) audited() (outcomes map[string]int) {
	d.t.Helper()
	all := d.output("audit", "--json", "--channel", "mcp", "--limit", "10000000")
	outcomes = map[string]int{}
	d.judge(http.StatusOK, all, "the audit", nil)
	for line := range strings.Lines(all) {
		var row auditLine
		if err := json.Unmarshal([]byte(line), &row); err != nil || hides(line) {
			d.t.Fatalf("the audit has %.300q, %v", line, err)
		}
		if !strings.HasPrefix(row.Event, "tool.") {
			continue
		}
		if row.Entry != "mcp.serve" || row.SenderID != "client" {
			d.t.Errorf("the audit has a call of %.300q", line)
		}
		outcomes[row.Outcome]++
	}
	return outcomes
}

// requireGood has a good call answered.
func (d *desk) requireGood(id string) {
	d.t.Helper()
	args := `{"content":"are you there?","chatId":"good","id":"` + id + `","waitSeconds":5}`
	for deadline := time.Now().Add(patience + time.Duration(len(d.items))*20*time.Millisecond); ; {
		got := d.call("message_publish", args)
		if strings.Contains(got, `"answered":true`) && strings.Contains(got, "you said: are you there?") {
			return
		}
		if time.Now().After(deadline) {
			d.t.Fatalf("a good call is answered %.500q", got)
		}
	}
}

// readAll reads the chat in which most items were said, from end to end: what is shown of it is judged as every result
// is.
func (d *desk) readAll() {
	d.t.Helper()
	for tool, from := range map[string]string{"history_read": "before", "message_replies": "after"} {
		texts, cursor := 0, ""
		for {
			var page struct {
				Result struct {
					StructuredContent struct {
						Entries, Messages []json.RawMessage
						Cursor            string
					}
				}
			}
			got := d.call(tool, object(map[string]string{"chatId": `"c1"`, "limit": `100`, from: `"` + cursor + `"`}))
			if err := json.Unmarshal([]byte(got), &page); err != nil {
				d.t.Fatalf("%s is answered %.300q, %v", tool, got, err)
			}
			found := page.Result.StructuredContent
			texts, cursor = texts+len(found.Entries)+len(found.Messages), found.Cursor
			if cursor == "" || len(found.Entries)+len(found.Messages) == 0 {
				break
			}
		}
		if texts < len(d.items)/len(d.slots) {
			d.t.Errorf("%s gave %d texts", tool, texts)
		}
	}
}
