package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corebot/corebot/internal/long"
)

// filePoints are the steps between the first byte of a file and the commit of its message.
var filePoints = []string{"file.received", "file.stored", "file.referred"}

func TestKilledBetweenAFileAndItsMessageNothingIsLostAndNothingDangles(t *testing.T) {
	long.Only(t, "TestKilledAtAnyStepATurnGivesOneReplyAndRepeatsNoSideEffect")
	t.Parallel()
	for _, point := range long.Or(filePoints[1:2], filePoints) {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			s := startService(t)
			s.terminate()
			s.env = []string{"COREBOT_FAULT=" + point}
			s.startAndWait()
			if status := s.postFile(); status != 0 {
				t.Fatalf("the message was answered %d, before it was stored", status)
			}
			s.wantKilled()
			s.output("db", "check")
			s.env = nil
			s.startAndWait()
			for range 2 { // as a caller does that got no answer
				if status := s.postFile(); status != http.StatusAccepted {
					t.Errorf("again it is answered %d", status)
				}
			}
			s.await("the answer", func() bool { return strings.Contains(s.output("why", "m1"), "answered") })
			s.terminate()
			s.output("db", "check")
			if kept, err := filepath.Glob(filepath.Join(s.home, "data/files/*/*")); err != nil || len(kept) != 1 {
				t.Errorf("kept are %v (%v)", kept, err)
			}
		})
	}
}

// uploadPoints are steps between the call that sends a file and the end of its turn.
var uploadPoints = []string{"file.referred", "tool.before", "file.stored", "tool.after"}

func TestKilledBetweenTheUploadOfAFileAndItsReplyTheFileIsSentOnce(t *testing.T) {
	long.Only(t, "TestKilledAtAnyStepATurnGivesOneReplyAndRepeatsNoSideEffect")
	t.Parallel()
	for _, point := range long.Or(uploadPoints[:1], uploadPoints) {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			s := startService(t)
			s.terminate()
			if err := os.WriteFile(filepath.Join(s.home, "workspace/a.txt"), []byte("hello"), 0o600); err != nil {
				t.Fatal(err)
			}
			s.env = []string{"COREBOT_FAULT=" + point}
			s.startAndWait()
			s.post(`{"id":"m1","chatId":"c","senderId":"ann","content":"/tool message.upload {\"path\":\"a.txt\"}"}`)
			s.wantKilled()
			s.output("db", "check")
			s.env = nil
			s.startAndWait()
			s.await("the answer", func() bool { return strings.Contains(s.output("why", "m1"), "answered") })
			answer := s.fetch("/webhook/outbound?chatId=c")
			if strings.Count(answer, `"url":"/webhook/files/2cf24dba`) != 1 || strings.Count(answer, `"cursor"`) != 2 {
				t.Errorf("the chat has %s", answer)
			}
			s.terminate()
			s.output("db", "check")
			if kept, err := filepath.Glob(filepath.Join(s.home, "data/files/*/*")); err != nil || len(kept) != 1 {
				t.Errorf("kept are %v (%v)", kept, err)
			}
		})
	}
}

// postFile posts one message with a file; 0 is no answer.
func (s *service) postFile() (status int) {
	s.t.Helper()
	return s.post(`{"id":"m1","chatId":"c","senderId":"ann","content":"look",` +
		`"attachments":[{"name":"a.txt","data":"aGVsbG8="}]}`)
}

func (s *service) post(body string) (status int) {
	s.t.Helper()
	status, _ = s.ask(http.MethodPost, "/webhook", strings.NewReader(body))
	return status
}

func (s *service) fetch(path string) (text string) {
	s.t.Helper()
	_, text = s.ask(http.MethodGet, path, nil)
	return text
}

// ask makes a request of the webhook with its token; status 0 is no answer.
func (s *service) ask(method, path string, body io.Reader) (status int, text string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, "http://"+s.addr+path, body)
	if err != nil {
		s.t.Fatal(err)
	}
	token, err := os.ReadFile(filepath.Join(s.home, "webhook.token"))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, ""
	}
	defer answer.Body.Close() //nolint:errcheck // only read
	read, _ := io.ReadAll(answer.Body)
	return answer.StatusCode, string(read)
}
