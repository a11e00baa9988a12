package main

import (
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

// postFile posts one message with a file; 0 is no answer.
func (s *service) postFile() (status int) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, "http://"+s.addr+"/webhook",
		strings.NewReader(`{"id":"m1","chatId":"c","senderId":"ann","content":"look",`+
			`"attachments":[{"name":"a.txt","data":"aGVsbG8="}]}`))
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
		return 0
	}
	_ = answer.Body.Close()
	return answer.StatusCode
}
